//! A session with a real process, which is a shell script that speaks the protocol.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use symphony_codex::CodexAgent;
use symphony_core::agent::{
    AgentBackend as _, AgentError, AgentSession, AgentUpdate, SessionRequest, Turn, TurnEnd,
    Updates,
};
use symphony_core::run::RunId;
use symphony_core::{Issue, Settings, StateSet};
use symphony_host::{Host, LocalHost};
use tempfile::TempDir;

/// Greets, and does with a turn what `turn` says.
pub(crate) const SERVER: &str = r#"
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
pub(crate) const COMPLETE: &str = r#"complete() { echo '{"method":"turn/completed","params":{"threadId":"T","turn":{"id":"U","status":"completed"}}}'; }
"#;

pub(crate) struct Trial {
    pub(crate) folder: TempDir,
    pub(crate) request: SessionRequest,
    pub(crate) told: Arc<Mutex<Vec<AgentUpdate>>>,
    host: Arc<dyn Host>,
}

/// A request for a command in a folder of its own.
pub(crate) fn trial(command: &str) -> Trial {
    let folder = tempfile::Builder::new().prefix("codex-").tempdir().unwrap();
    let (active, over) = (StateSet::new(["Todo"]), StateSet::new(["Done"]));
    let mut settings = Settings::new("memory", active, over, folder.path().to_owned());
    settings.agent.common.command = Some(command.to_owned());
    settings.agent.stop_grace = Duration::from_millis(200);
    settings.agent.common.turn_timeout = Duration::from_secs(30); // a hang is a failure
    let issue = Issue::new("1", "MT-1", "Fix the door", "Todo").unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&told);
    let updates = Updates::new(move |update| sink.lock().unwrap().push(update));
    let workspace = folder.path().join("MT-1");
    std::fs::create_dir(&workspace).unwrap();
    let run = RunId { boot: 1, number: 1 };
    let request = SessionRequest::new(run, issue.into(), workspace, settings.into(), updates);
    Trial { folder, request, told, host: Arc::new(LocalHost::without_helper()) }
}

/// A server with this turn.
pub(crate) fn server(turn: &str) -> Trial {
    trial(&format!("{COMPLETE}turn() {{ {turn}\n}}\n{SERVER}"))
}

impl Trial {
    /// On this host.
    pub(crate) fn on(mut self, host: &Arc<dyn Host>) -> Self {
        self.host = Arc::clone(host);
        self
    }

    pub(crate) async fn open(&self) -> Result<Box<dyn AgentSession>, AgentError> {
        CodexAgent::new(Arc::clone(&self.host)).open(self.request.clone()).await
    }

    /// Opens a session, runs a turn and closes it.
    pub(crate) async fn run(&self) -> Result<TurnEnd, AgentError> {
        let mut session = self.open().await?;
        let end = session.run_turn(please()).await;
        session.close().await.unwrap();
        end
    }

    pub(crate) fn workspace(&self) -> &Path {
        &self.request.workspace
    }

    pub(crate) fn pid(&self) -> u32 {
        let told = self.told.lock().unwrap();
        let pid = |update: &AgentUpdate| match update {
            AgentUpdate::Session { pid, .. } => *pid,
            _ => None,
        };
        told.iter().find_map(pid).unwrap()
    }
}

pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

pub(crate) fn please() -> Turn {
    Turn::new(RunId { boot: 1, number: 1 }, 1, "Please")
}

/// Waits until a process is gone.
pub(crate) async fn gone(pid: u32) {
    let gone = async {
        while is_alive(pid) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), gone).await.expect("it ends");
}
