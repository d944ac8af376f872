//! Whole sessions with the real Codex.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use symphony_codex::CodexAgent;
use symphony_core::agent::{
    AgentBackend as _, AgentError, AgentErrorKind, AgentSession, AgentUpdate, QuestionKind,
    SessionRequest, ThreadId, Turn, TurnEnd, Updates,
};
use symphony_core::run::RunId;
use symphony_core::tracker::{AgentTools, ToolCall, ToolResult, ToolSpec};
use symphony_core::{Issue, Settings, StateSet};
use symphony_e2e::{Model, ModelAction, codex};
use symphony_host::LocalHost;
use tempfile::TempDir;

/// Longer than any of this takes.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A tool that keeps what it is called with.
#[derive(Debug, Default)]
struct Notes(Mutex<Vec<Value>>);

#[async_trait]
impl AgentTools for Notes {
    fn specs(&self) -> Vec<ToolSpec> {
        let input_schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
        vec![ToolSpec::new("note_down", "Writes a note.", input_schema)]
    }

    async fn call(&self, call: ToolCall) -> ToolResult {
        self.0.lock().unwrap().push(call.arguments);
        ToolResult::success(format!("noted for {}", call.issue.identifier))
    }
}

pub(crate) struct Trial {
    pub(crate) folder: TempDir,
    pub(crate) workspace: PathBuf,
    pub(crate) model: Model,
    notes: Arc<Notes>,
    pub(crate) request: SessionRequest,
    told: Arc<Mutex<Vec<AgentUpdate>>>,
}

impl Trial {
    pub(crate) async fn new(script: impl IntoIterator<Item = ModelAction>) -> Self {
        Self::with(Model::following(script).await)
    }

    pub(crate) fn with(model: Model) -> Self {
        let folder = tempfile::Builder::new().prefix("codex-").tempdir().unwrap();
        let (home, workspace) = (folder.path().join("home"), folder.path().join("MT-1"));
        std::fs::create_dir(&workspace).unwrap();
        model.furnish(&home);
        let (active, over) = (StateSet::new(["Todo"]), StateSet::new(["Done"]));
        let mut settings = Settings::new("memory", active, over, folder.path().to_owned());
        settings.agent.common.command =
            Some(format!("CODEX_HOME='{}' '{}' app-server", home.display(), codex().display()));
        let issue = Issue::new("1", "MT-1", "Fix the door", "Todo").unwrap();
        let told = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&told);
        let updates = Updates::new(move |update| sink.lock().unwrap().push(update));
        let run = RunId { boot: 1, number: 1 };
        let notes = Arc::new(Notes::default());
        let mut request =
            SessionRequest::new(run, issue.into(), workspace.clone(), settings.into(), updates);
        request.tools = Some(notes.clone());
        Self { folder, workspace, model, notes, request, told }
    }

    pub(crate) async fn open(&self) -> Box<dyn AgentSession> {
        self.try_open().await.unwrap_or_else(|error| panic!("{error}"))
    }

    async fn try_open(&self) -> Result<Box<dyn AgentSession>, AgentError> {
        let agent = CodexAgent::new(Arc::new(LocalHost::without_helper()));
        let opened = tokio::time::timeout(TEST_TIMEOUT, agent.open(self.request.clone())).await;
        opened.expect("an open session, or an error")
    }

    pub(crate) fn told(&self) -> Vec<AgentUpdate> {
        self.told.lock().unwrap().clone()
    }

    pub(crate) fn thread(&self) -> ThreadId {
        let thread = |update| match update {
            AgentUpdate::Session { thread, .. } => Some(thread),
            _ => None,
        };
        self.told().into_iter().find_map(thread).unwrap()
    }
}

pub(crate) async fn turn(
    session: &mut dyn AgentSession,
    prompt: &str,
) -> Result<TurnEnd, AgentErrorKind> {
    let turn = Turn::new(RunId { boot: 1, number: 1 }, 1, prompt);
    let end = tokio::time::timeout(TEST_TIMEOUT, session.run_turn(turn)).await.expect("an end");
    end.map_err(|error| {
        eprintln!("{error}");
        error.kind
    })
}

pub(crate) async fn close(session: Box<dyn AgentSession>) {
    tokio::time::timeout(TEST_TIMEOUT, session.close()).await.expect("a close").unwrap();
}

#[tokio::test]
async fn rule_10_1_a_whole_conversation_with_tools_commands_and_a_resume() {
    let mut trial = Trial::new([
        ModelAction::Call("note_down", json!({"text": "a door"})),
        ModelAction::run("echo hello > made && pwd"),
        ModelAction::Say("Done."),
        ModelAction::Say("Still done."),
        ModelAction::Call("note_down", json!({"text": "again"})),
        ModelAction::Say("After a resume."),
    ])
    .await;
    let mut session = trial.open().await;
    assert_eq!(turn(session.as_mut(), "Fix it").await, Ok(TurnEnd::Completed));
    assert_eq!(turn(session.as_mut(), "Go on").await, Ok(TurnEnd::Completed));
    close(session).await;
    assert_eq!(*trial.notes.0.lock().unwrap(), [json!({"text": "a door"})]);
    let made = std::fs::read_to_string(trial.workspace.join("made")).unwrap();
    assert_eq!(made, "hello\n");

    trial.request.resume = Some(trial.thread());
    let mut session = trial.open().await;
    assert_eq!(turn(session.as_mut(), "Once more").await, Ok(TurnEnd::Completed));
    close(session).await;
    assert_eq!(trial.notes.0.lock().unwrap().len(), 2, "the tools are there after a resume");
    let last = trial.model.asked().pop().unwrap().to_string();
    for said in ["Fix it", "Go on", "Once more", "noted for MT-1"] {
        assert!(last.contains(said), "{said} is in what the model reads");
    }
    let usage: Vec<_> = trial
        .told()
        .into_iter()
        .filter_map(|update| match update {
            AgentUpdate::Usage { thread, total } => Some((thread, total.tokens?.total)),
            _ => None,
        })
        .collect();
    assert_eq!(usage.last(), Some(&(trial.thread(), trial.model.cost())), "{usage:?}");
}

#[tokio::test]
async fn rule_10_3_only_a_thread_that_codex_does_not_have_is_begun_anew() {
    let mut trial = Trial::new([ModelAction::Say("Done."), ModelAction::Say("Done again.")]).await;
    let mut first = trial.open().await;
    assert_eq!(turn(first.as_mut(), "Fix it").await, Ok(TurnEnd::Completed));

    trial.request.resume = Some(trial.thread());
    let error = trial.try_open().await.err().expect("the first process has the thread");
    assert_eq!(error.kind, AgentErrorKind::ResponseError);
    assert!(error.message.contains("already has an active writer"), "{error}");
    close(first).await;

    let unknown = ThreadId::from("01990000-0000-7000-8000-000000000000");
    trial.request.resume = Some(unknown.clone());
    let mut second = trial.open().await;
    assert_ne!(second.opened().thread, Some(unknown));
    assert_eq!(turn(second.as_mut(), "Fix it").await, Ok(TurnEnd::Completed));
    close(second).await;
}

#[tokio::test]
async fn rule_7_6_a_refused_credential_is_unauthorized() {
    let trial = Trial::new([ModelAction::Refuse(401, json!({}))]).await;
    let mut session = trial.open().await;
    let end = turn(session.as_mut(), "Fix it").await;
    close(session).await;
    assert_eq!(end, Err(AgentErrorKind::Unauthorized), "{:?}", trial.told());
}

#[tokio::test]
async fn rule_10_5_a_model_that_fails_is_a_failed_turn() {
    let trial =
        Trial::new([ModelAction::Refuse(400, json!({"error": {"message": "the script says no"}}))])
            .await;
    let mut session = trial.open().await;
    let end = turn(session.as_mut(), "Fix it").await;
    close(session).await;
    assert_eq!(end, Err(AgentErrorKind::TurnFailed), "{:?}", trial.told());
}

#[tokio::test]
async fn rule_10_9_a_turn_that_hangs_is_interrupted_and_nothing_is_left() {
    let trial = Trial::new([ModelAction::Hang]).await;
    let mut session = trial.open().await;
    tokio::select! {
        end = turn(session.as_mut(), "Fix it") => panic!("{end:?}"),
        asked = tokio::time::timeout(TEST_TIMEOUT, trial.model.until_asked(1)) => asked.unwrap(),
    }
    let pid = trial.told().into_iter().find_map(|update| match update {
        AgentUpdate::Session { pid, .. } => pid,
        _ => None,
    });
    let tree = below(pid.unwrap());
    assert!(tree.len() >= 2, "the script and the program it starts: {tree:?}");
    close(session).await;
    let left: Vec<_> = tree.into_iter().filter(|pid| is_alive(*pid)).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A process and all below it.
fn below(pid: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.unwrap_or_default();
    let below = children.split_whitespace().filter_map(|child| child.parse().ok()).flat_map(below);
    std::iter::once(pid).chain(below).collect()
}

fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[tokio::test]
async fn rule_10_6_approvals_reach_codex() {
    use symphony_core::settings::Approvals;
    let cases = [
        (Approvals::Accept, Ok(TurnEnd::Completed), true),
        (Approvals::Decline, Ok(TurnEnd::Completed), false),
    ];
    for (approvals, expected, is_made) in cases {
        let command = ModelAction::run("touch made");
        let mut trial = Trial::new([command, ModelAction::Say("Done.")]).await;
        let mut settings = Settings::clone(&trial.request.settings);
        settings.agent.section.set("approval_policy", json!("untrusted"));
        settings.agent.common.approvals = approvals;
        trial.request.settings = settings.into();
        let mut session = trial.open().await;
        let end = turn(session.as_mut(), "Fix it").await;
        close(session).await;
        assert_eq!(end, expected, "{approvals:?}");
        assert_eq!(trial.workspace.join("made").exists(), is_made, "{approvals:?}");
    }
    let command = ModelAction::run("touch made");
    let mut trial = Trial::new([command, ModelAction::Say("Done.")]).await;
    let mut settings = Settings::clone(&trial.request.settings);
    settings.agent.section.set("approval_policy", json!("untrusted"));
    settings.agent.common.approvals = Approvals::Block;
    trial.request.settings = settings.into();
    let mut session = trial.open().await;
    let end = turn(session.as_mut(), "Fix it").await;
    close(session).await;
    let Ok(TurnEnd::InputRequired { question }) = end else { panic!("{end:?}") };
    assert_eq!(question.kind, QuestionKind::Approval);
    assert!(question.to_string().contains("touch made"), "{question}");
    assert_eq!(trial.model.asked().len(), 1, "the model is not told of a decision nobody made");
}

#[tokio::test]
async fn rule_10_10_a_policy_that_codex_does_not_know_is_a_response_error() {
    let mut trial = Trial::new([]).await;
    let mut settings = Settings::clone(&trial.request.settings);
    settings.agent.section.set("turn_sandbox_policy", json!({"type": "nonsense"}));
    trial.request.settings = settings.into();
    let mut session = trial.open().await;
    let end = turn(session.as_mut(), "Fix it").await;
    close(session).await;
    assert_eq!(end, Err(AgentErrorKind::ResponseError));
}
