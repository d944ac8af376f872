//! What a coding agent must be able to do (contract section 10).
//!
//! A backend opens a session in a workspace; a session runs turns and is closed. What it says on
//! the way goes out as [`AgentUpdate`]s.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::env::Env;
use crate::failure::{Failure, FailureKind, chain};
use crate::finding::Finding;
use crate::issue::Issue;
use crate::run::RunId;
use crate::settings::{AgentProfile, Settings};
use crate::text::text_newtype;
use crate::time::Wall;
use crate::tracker::AgentTools;
use crate::transcript::Transcript;
use crate::workspace::{HostId, OpenFolder};

text_newtype! {
    /// The agent's own id of a conversation.
    ThreadId
}

/// Opens sessions with one kind of agent.
#[async_trait]
pub trait AgentBackend: fmt::Debug + Send + Sync {
    /// Starts an agent in the workspace, ready for its first turn.
    ///
    /// A run may be told to stop before that. A backend that takes its time listens to
    /// [`SessionRequest::unwanted`]; it then ends what it has started and returns any error. One
    /// that does not come back in time is dropped, which kills what it has started but cannot wait
    /// for its end.
    ///
    /// # Errors
    /// The kind says what the scheduler does next. Nothing of the agent is left, unless the error
    /// [says so](AgentError::is_alive).
    async fn open(&self, request: SessionRequest) -> Result<Box<dyn AgentSession>, AgentError>;

    /// Looks whether sessions with these settings could be opened: is the program there, which
    /// version is it, does it know the policies. It costs no tokens, and leaves nothing running.
    ///
    /// The variables are those that the agent must not see.
    async fn examine(&self, _: &Arc<Settings>, _hidden_env: &Arc<[String]>) -> Vec<Finding> {
        Vec::new()
    }
}

/// A live conversation with one agent.
#[async_trait]
pub trait AgentSession: Send {
    /// Runs one turn to its end. Safe to drop at any await; [`close`](Self::close) follows.
    ///
    /// # Errors
    /// A turn that did not complete.
    async fn run_turn(&mut self, turn: Turn) -> Result<TurnEnd, AgentError>;

    /// Ends the agent. When this returns `Ok`, nothing of it is left (contract 10.9).
    ///
    /// # Errors
    /// What could not be confirmed to be gone.
    async fn close(self: Box<Self>) -> Result<(), AgentError>;
}

/// What a session needs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionRequest {
    /// The service it belongs to, by the name that its processes carry in every life of it. What a
    /// backend starts is marked with it and with the run, so that the next life can end it
    /// (contract 14.3): a process without the mark is not. Unless the runtime sets it, the path of the
    /// folder above the workspace.
    pub service: Arc<str>,
    /// The run it belongs to.
    pub run: RunId,
    /// The issue to work on.
    pub issue: Arc<Issue>,
    /// The folder to work in.
    pub workspace: PathBuf,
    /// The same folder as an open handle, where there is one: a command that starts in it cannot
    /// be led elsewhere (contract 9.2).
    pub folder: Option<OpenFolder>,
    /// The machine that folder is on.
    pub host: HostId,
    /// The settings the run began with.
    pub settings: Arc<Settings>,
    /// The tracker's tools.
    pub tools: Option<Arc<dyn AgentTools>>,
    /// A conversation to go on with.
    pub resume: Option<ThreadId>,
    /// Environment variables the agent must not see.
    pub hidden_env: Arc<[String]>,
    /// Where updates go.
    pub updates: Updates,
    /// Where the raw lines of the conversation go.
    pub transcript: Transcript,
    /// Says when the session is no longer wanted, while it is being opened.
    pub unwanted: Unwanted,
}

impl SessionRequest {
    /// A request with nothing optional.
    #[must_use]
    pub fn new(
        run: RunId,
        issue: Arc<Issue>,
        workspace: PathBuf,
        settings: Arc<Settings>,
        updates: Updates,
    ) -> Self {
        let service = workspace.parent().unwrap_or(&workspace).display().to_string();
        Self {
            service: service.into(),
            run,
            issue,
            workspace,
            folder: None,
            host: HostId::local(),
            settings,
            tools: None,
            resume: None,
            hidden_env: Arc::from([]),
            updates,
            transcript: Transcript::none(),
            unwanted: Unwanted::never(),
        }
    }
}

/// One turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// Counted from one within the run.
    pub number: u32,
    /// What the agent is told.
    pub prompt: String,
}

/// How a turn ended that did not fail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnEnd {
    /// The agent says it is through.
    Completed,
    /// The agent asks something only a person can answer.
    InputRequired {
        /// The question.
        question: String,
    },
}

/// Where a session's updates go: cheap to clone, never waits.
#[derive(Clone)]
pub struct Updates(Arc<dyn Fn(AgentUpdate) + Send + Sync>);

impl Updates {
    /// Updates go to this function.
    #[must_use]
    pub fn new(sink: impl Fn(AgentUpdate) + Send + Sync + 'static) -> Self {
        Self(Arc::new(sink))
    }

    /// Sends one update.
    pub fn send(&self, update: AgentUpdate) {
        (self.0)(update);
    }
}

impl fmt::Debug for Updates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Updates")
    }
}

/// Says when something is no longer wanted: cheap to clone.
#[derive(Clone)]
pub struct Unwanted(Arc<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>);

impl Unwanted {
    /// It is no longer wanted when such a future is over.
    #[must_use]
    pub fn new<F>(wait: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self(Arc::new(move || Box::pin(wait())))
    }

    /// It is always wanted.
    #[must_use]
    pub fn never() -> Self {
        Self::new(std::future::pending)
    }

    /// Waits until it is no longer wanted.
    pub async fn wait(&self) {
        (self.0)().await;
    }
}

impl fmt::Debug for Unwanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unwanted")
    }
}

/// What a session says on the way. Each one is a sign of life (contract 8.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AgentUpdate {
    /// Lines arrived that say nothing new.
    Alive,
    /// The conversation, and the turn in it, have these ids.
    Session {
        /// The conversation.
        thread: ThreadId,
        /// `<thread>-<turn>`
        session_id: Arc<str>,
        /// The agent's process, where there is one.
        pid: Option<u32>,
    },
    /// Something worth showing.
    Event(Arc<AgentEvent>),
    /// The absolute token counts of a conversation.
    Usage {
        /// The conversation.
        thread: ThreadId,
        /// Everything it has used so far.
        total: Tokens,
    },
    /// The agent's limits.
    RateLimits(Arc<RateLimits>),
    /// Symphony runs a tool for the agent: until it answers, silence is no stall.
    ToolBegan,
    /// The tool has answered.
    ToolEnded {
        /// Whether a call since [`ToolBegan`](Self::ToolBegan) [changed](crate::tracker::ToolResult::changed)
        /// the tracker.
        changed_issue: bool,
    },
    /// The agent began a turn that was not asked for (contract 10.3). It does not count as one of
    /// `max_turns`.
    UnrequestedTurn,
}

/// Something an agent did, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentEvent {
    /// The event's name, such as `turn_completed` or `notification`.
    pub name: String,
    /// One line about it.
    pub summary: String,
    /// When it happened.
    pub at: Wall,
}

/// Token counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Sent to the model.
    pub input: u64,
    /// Of those, read from a cache.
    pub cached_input: u64,
    /// Written by the model.
    pub output: u64,
    /// Of those, spent on reasoning.
    pub reasoning_output: u64,
    /// As the agent adds them up.
    pub total: u64,
}

/// The limits that an agent last reported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RateLimits {
    /// Which limit, where there are several.
    pub limit_id: Option<String>,
    /// The account's plan.
    pub plan: Option<String>,
    /// The windows, shortest first.
    pub windows: Vec<RateLimitWindow>,
}

/// One window of a limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateLimitWindow {
    /// `primary`, `secondary`
    pub name: String,
    /// How much of it is used, in percent.
    pub used_percent: f64,
    /// Its length.
    pub window_minutes: Option<u64>,
    /// When it begins anew.
    pub resets_at: Option<Wall>,
}

/// Why an agent could not do its part.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct AgentError {
    /// The kind.
    pub kind: AgentErrorKind,
    /// What people read: this layer's part only.
    pub message: String,
    /// When to try again, where the agent said so.
    pub retry_at: Option<Wall>,
    /// Whether something of the agent may still live, so that nobody else may have its workspace.
    pub is_alive: bool,
    /// The cause.
    #[source]
    pub source: Option<Box<dyn Error + Send + Sync>>,
}

/// The kinds of contract 10.10, and the limits of 7.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AgentErrorKind {
    /// The command does not exist.
    NotFound,
    /// The command of the Codex backend does not exist: the public specification has a name for it.
    CodexNotFound,
    /// The settings cannot work.
    InvalidConfig,
    /// The workspace cannot be worked in.
    InvalidWorkspace,
    /// A request got no answer in time.
    ResponseTimeout,
    /// A turn was silent for too long.
    TurnTimeout,
    /// The process ended.
    ProcessExit,
    /// A request was answered with an error.
    ResponseError,
    /// The agent says the turn failed.
    TurnFailed,
    /// The turn was interrupted.
    TurnCancelled,
    /// The turn needs a person.
    TurnInputRequired,
    /// The agent keeps starting turns that were not asked for.
    UnrequestedTurns,
    /// The account's allowance is used up.
    UsageLimit,
    /// The model refuses for a while.
    RateLimited,
    /// The model does not accept the credential.
    Unauthorized,
    /// The agent could not be started because the machine has no room for another process.
    MachineExhausted,
}

impl AgentErrorKind {
    /// The name of the contract.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "agent_not_found",
            Self::CodexNotFound => "codex_not_found",
            Self::InvalidConfig => "invalid_agent_config",
            Self::InvalidWorkspace => "invalid_workspace_cwd",
            Self::ResponseTimeout => "response_timeout",
            Self::TurnTimeout => "turn_timeout",
            Self::ProcessExit => "process_exit",
            Self::ResponseError => "response_error",
            Self::TurnFailed => "turn_failed",
            Self::TurnCancelled => "turn_cancelled",
            Self::TurnInputRequired => "turn_input_required",
            Self::UnrequestedTurns => "unrequested_turns",
            Self::UsageLimit => "usage_limit",
            Self::RateLimited => "rate_limited",
            Self::Unauthorized => "unauthorized",
            Self::MachineExhausted => FailureKind::Machine.as_str(),
        }
    }
}

impl AgentError {
    /// An error without a cause.
    #[must_use]
    pub fn new(kind: AgentErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_at: None, is_alive: false, source: None }
    }

    /// With its cause.
    #[must_use]
    pub fn caused_by(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    /// With the time at which to try again.
    #[must_use]
    pub const fn retry_at(mut self, at: Option<Wall>) -> Self {
        self.retry_at = at;
        self
    }

    /// Something of the agent may still live.
    #[must_use]
    pub const fn still_alive(mut self) -> Self {
        self.is_alive = true;
        self
    }

    /// What the scheduler is told: the whole chain in one line, and a span instead of a time.
    #[must_use]
    pub fn to_failure(&self, now: Wall) -> Failure {
        let kind = match self.kind {
            AgentErrorKind::MachineExhausted => FailureKind::Machine,
            kind => FailureKind::Agent(kind),
        };
        let wait = self.retry_at.and_then(|at| now.until(at));
        Failure::new(kind, chain(self)).retry_after(wait)
    }
}

/// Builds backends of one kind.
pub trait AgentFactory: fmt::Debug + Send + Sync {
    /// The name that `agent.kind` uses.
    fn kind(&self) -> &str;

    /// What it reads from a workflow file besides `agent.*`.
    fn profile(&self) -> &AgentProfile {
        &AgentProfile::NONE
    }

    /// Builds a backend for these settings.
    ///
    /// # Errors
    /// What in the settings cannot work.
    fn build(
        &self,
        settings: &Settings,
        env: &dyn Env,
    ) -> Result<Arc<dyn AgentBackend>, AgentError>;
}
