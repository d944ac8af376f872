//! Sessions with a real process, which is a shell script that speaks the protocol.

#![expect(clippy::unwrap_used, reason = "these are tests")]

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use symphony_codex::CodexAgent;
use symphony_core::agent::{
    AgentBackend as _, AgentError, AgentErrorKind, AgentSession, AgentUpdate, SessionRequest, Turn,
    TurnEnd, Updates,
};
use symphony_core::orchestrator::RunId;
use symphony_core::{Issue, Settings, StateSet};
use symphony_host::Local;
use tempfile::TempDir;

/// Greets, and does with a turn what `turn` says.
const SERVER: &str = r#"
while read -r line; do
    id=${line#*'"id":'}; id=${id%%[,\}]*}
    case $line in
        *'"initialized"'*) ;;
        *'"thread/start"'*) echo "{\"id\":$id,\"result\":{\"thread\":{\"id\":\"T\"}}}" ;;
        *'"turn/start"'*) echo "{\"id\":$id,\"result\":{\"turn\":{\"id\":\"U\"}}}"; turn ;;
        *) echo "{\"id\":$id,\"result\":{}}" ;;
    esac
done
"#;
const COMPLETE: &str = r#"complete() { echo '{"method":"turn/completed","params":{"threadId":"T","turn":{"id":"U","status":"completed"}}}'; }
"#;

struct Trial {
    folder: TempDir,
    request: SessionRequest,
    told: Arc<Mutex<Vec<AgentUpdate>>>,
}

/// A request for a command in a folder of its own.
fn trial(command: &str) -> Trial {
    let folder = tempfile::Builder::new().prefix("codex-").tempdir().unwrap();
    let (active, over) = (StateSet::new(["Todo"]), StateSet::new(["Done"]));
    let mut settings = Settings::new("memory", active, over, folder.path().to_owned());
    settings.codex.command = command.to_owned();
    settings.agent.stop_grace = Duration::from_millis(200);
    let issue = Issue::new("1", "MT-1", "Fix the door", "Todo").unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&told);
    let updates = Updates::new(move |update| sink.lock().unwrap().push(update));
    let workspace = folder.path().join("MT-1");
    std::fs::create_dir(&workspace).unwrap();
    let run = RunId { boot: 1, number: 1 };
    let request = SessionRequest::new(run, issue.into(), workspace, settings.into(), updates);
    Trial { folder, request, told }
}

/// A server with this turn.
fn server(turn: &str) -> Trial {
    trial(&format!("{COMPLETE}turn() {{ {turn}\n}}\n{SERVER}"))
}

impl Trial {
    async fn open(&self) -> Result<Box<dyn AgentSession>, AgentError> {
        let agent = CodexAgent::new(Arc::new(Local::without_helper()));
        agent.open(self.request.clone()).await
    }

    /// Opens a session, runs a turn and closes it.
    async fn run(&self) -> Result<TurnEnd, AgentError> {
        let mut session = self.open().await?;
        let end = session.run_turn(Turn { number: 1, prompt: "Please".to_owned() }).await;
        session.close().await.unwrap();
        end
    }

    fn workspace(&self) -> &Path {
        &self.request.workspace
    }

    fn pid(&self) -> u32 {
        let told = self.told.lock().unwrap();
        let pid = |update: &AgentUpdate| match update {
            AgentUpdate::Session { pid, .. } => *pid,
            _ => None,
        };
        told.iter().find_map(pid).unwrap()
    }
}

fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[tokio::test]
async fn rule_10_2_the_command_runs_in_the_workspace_and_ends_with_the_session() {
    let trial = server("pwd > where; complete");
    assert_eq!(trial.run().await.unwrap(), TurnEnd::Completed);
    let place = std::fs::read_to_string(trial.workspace().join("where")).unwrap();
    assert_eq!(Path::new(place.trim()), trial.workspace().canonicalize().unwrap());
    assert!(!is_alive(trial.pid()));
}

#[tokio::test]
async fn rule_10_2_it_starts_in_the_open_folder_whatever_its_path_has_become() {
    let mut trial = server("pwd > where; complete");
    let handle: OwnedFd = std::fs::File::open(trial.workspace()).unwrap().into();
    trial.request.folder = Some(Arc::new(handle));
    let moved = trial.folder.path().join("moved");
    std::fs::rename(trial.workspace(), &moved).unwrap();
    std::fs::create_dir(trial.workspace()).unwrap();
    assert_eq!(trial.run().await.unwrap(), TurnEnd::Completed);
    assert!(moved.join("where").exists());
}

#[tokio::test]
async fn rule_10_2_a_command_may_begin_with_a_variable() {
    let mut trial = trial("");
    let script = format!("{COMPLETE}turn() {{ echo $FOO > foo; complete; }}\n{SERVER}");
    std::fs::write(trial.folder.path().join("server"), script).unwrap();
    let mut settings = Settings::clone(&trial.request.settings);
    settings.codex.command = "FOO=1 bash ../server".to_owned();
    trial.request.settings = settings.into();
    assert_eq!(trial.run().await.unwrap(), TurnEnd::Completed);
    assert_eq!(std::fs::read_to_string(trial.workspace().join("foo")).unwrap(), "1\n");
}

#[tokio::test]
async fn rule_10_2_hidden_variables_are_not_seen() {
    // Cargo sets this one for every test, so it is there to be removed.
    let mut trial = server("env > seen; complete");
    trial.request.hidden_env = Arc::from(["CARGO_MANIFEST_DIR".to_owned()]);
    assert_eq!(trial.run().await.unwrap(), TurnEnd::Completed);
    let seen = std::fs::read_to_string(trial.workspace().join("seen")).unwrap();
    assert!(seen.contains("CARGO_PKG_NAME=") && !seen.contains("CARGO_MANIFEST_DIR="));
}

#[tokio::test]
async fn rule_10_10_a_command_that_is_not_there_is_codex_not_found() {
    let error = trial("no-such-codex app-server").run().await.unwrap_err();
    assert_eq!(error.kind, AgentErrorKind::NotFound, "{error}");
    assert!(error.message.contains("no-such-codex: command not found"), "{error}");
}

#[tokio::test]
async fn rule_10_10_a_workspace_that_is_not_there_is_an_invalid_workspace() {
    let trial = server("complete");
    std::fs::remove_dir(trial.workspace()).unwrap();
    assert_eq!(trial.run().await.unwrap_err().kind, AgentErrorKind::InvalidWorkspace);
}

#[tokio::test]
async fn rule_10_5_a_process_that_ends_in_a_turn_says_how_and_why() {
    let error = server("echo 'out of\n  luck' >&2; exit 3").run().await.unwrap_err();
    assert_eq!(error.kind, AgentErrorKind::ProcessExit);
    let end = "ended with exit code 3; the end of its stderr: out of luck";
    assert!(error.message.ends_with(end), "{error}");
}

#[tokio::test]
async fn rule_10_5_an_end_that_a_background_child_hides_is_seen() {
    let trial = server("sleep 60 & exit 3");
    let error = trial.run().await.unwrap_err();
    assert_eq!(error.kind, AgentErrorKind::ProcessExit, "{error}");
}

#[tokio::test]
async fn rule_10_5_what_was_said_before_the_end_counts() {
    assert_eq!(server("complete; exit 3").run().await.unwrap(), TurnEnd::Completed);
}

#[tokio::test]
async fn rule_10_5_output_that_is_closed_by_a_live_process_is_the_end_of_it() {
    let trial = server("exec >&-; sleep 60");
    let error = trial.run().await.unwrap_err();
    assert_eq!(error.kind, AgentErrorKind::ProcessExit);
    assert!(error.message.contains("closed its output, though it still runs"), "{error}");
    assert!(!is_alive(trial.pid()));
}

#[tokio::test]
async fn rule_10_4_a_flood_on_stderr_blocks_nothing_and_its_end_is_kept() {
    let flood = "head -c 20000000 /dev/zero | tr '\\0' x >&2";
    assert_eq!(server(&format!("{flood}; complete")).run().await.unwrap(), TurnEnd::Completed);
    let error = server(&format!("{flood}; echo; echo the end >&2; exit 1")).run().await;
    let error = error.unwrap_err();
    assert!(error.message.ends_with("the end") && error.message.len() < 10_000);
}

#[tokio::test]
async fn rule_10_9_a_session_that_is_dropped_leaves_nothing() {
    let trial = server("complete");
    let mut session = trial.open().await.unwrap();
    let turn = Turn { number: 1, prompt: "Please".to_owned() };
    assert_eq!(session.run_turn(turn).await.unwrap(), TurnEnd::Completed);
    let pid = trial.pid();
    assert!(is_alive(pid));
    drop(session);
    let gone = async {
        while is_alive(pid) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), gone).await.unwrap();
}
