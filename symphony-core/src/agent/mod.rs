//! What a coding agent must be able to do (contract section 10).
//!
//! A backend opens a session in a workspace; a session runs turns and is closed. What it says on
//! the way goes out as [`AgentUpdate`]s.

mod error;
mod opened;
mod question;
mod steering;
mod turn;
mod update;

use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;

use crate::env::Env;
use crate::finding::Finding;
use crate::issue::Issue;
use crate::run::RunId;
use crate::settings::{AgentProfile, Settings};
use crate::text::text_newtype;
use crate::tracker::AgentTools;
use crate::transcript::Transcript;
use crate::workspace::{HostId, OpenFolder};

pub use error::{AgentError, AgentErrorKind};
pub use opened::{LastTurn, LastTurnState, Opened};
pub use question::{Question, QuestionId, QuestionItem, QuestionKind, QuestionOption};
pub use steering::{SteerNote, TurnSteering};
pub use turn::{ClientTurnId, Turn, TurnEnd};
pub use update::{
    AgentEvent, AgentUpdate, RateLimitWindow, RateLimits, Tokens, Updates, Usage, UsdMicros,
};

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
    /// Returns what was found when the session was opened, before its first turn.
    ///
    /// A backend that knows its conversation by then says so: without it, a service that dies
    /// before the first turn is under way cannot go on with that conversation.
    fn opened(&self) -> Opened {
        Opened::default()
    }

    /// Returns a way to add input to the turn that is live, where the agent takes any.
    fn steering(&self) -> Option<Arc<dyn TurnSteering>> {
        None
    }

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
    /// Resolves when the run is cancelled while the session is still being opened.
    pub unwanted: Unwanted,
}

impl SessionRequest {
    /// Makes a request with nothing optional.
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

/// A cancel signal: resolves when the session is no longer wanted. Cheap to clone.
#[derive(Clone)]
pub struct Unwanted(Arc<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>);

impl Unwanted {
    /// Makes a signal that is given when such a future resolves.
    #[must_use]
    pub fn new<F>(wait: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self(Arc::new(move || Box::pin(wait())))
    }

    /// Makes a signal that is never given.
    #[must_use]
    pub fn never() -> Self {
        Self::new(std::future::pending)
    }

    /// Waits for the signal.
    pub async fn wait(&self) {
        (self.0)().await;
    }
}

impl fmt::Debug for Unwanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unwanted")
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
