//! Why an agent could not do its part (contract 10.10).

use std::error::Error;

use serde::{Deserialize, Serialize};

use crate::failure::{Failure, FailureKind, chain};
use crate::time::Wall;

/// Why an agent could not do its part.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct AgentError {
    /// The category, the only part that decides anything.
    pub kind: AgentErrorKind,
    /// What people read: this layer's part only.
    pub message: String,
    /// When to try again, where the agent said so.
    pub retry_at: Option<Wall>,
    /// Whether something of the agent may still live, so that no other run may use its workspace.
    pub is_alive: bool,
    /// The error that caused this one.
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
    /// The conversation to go on with is another process's for now.
    ThreadInUse,
    /// The agent keeps starting turns that were not asked for.
    UnrequestedTurns,
    /// The account's allowance is used up.
    UsageLimit,
    /// The model's rate limit is reached.
    RateLimited,
    /// The model does not accept the credential.
    Unauthorized,
    /// The agent could not be started because the machine has no room for another process.
    MachineExhausted,
}

impl AgentErrorKind {
    /// Returns the name that the contract gives this kind.
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
            Self::ThreadInUse => "thread_in_use",
            Self::UnrequestedTurns => "unrequested_turns",
            Self::UsageLimit => "usage_limit",
            Self::RateLimited => "rate_limited",
            Self::Unauthorized => "unauthorized",
            Self::MachineExhausted => FailureKind::Machine.as_str(),
        }
    }
}

impl AgentError {
    /// Makes an error without a cause.
    #[must_use]
    pub fn new(kind: AgentErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_at: None, is_alive: false, source: None }
    }

    /// Sets the error that caused this one.
    #[must_use]
    pub fn with_source(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    /// Sets the time at which to try again.
    #[must_use]
    pub const fn with_retry_at(mut self, at: Option<Wall>) -> Self {
        self.retry_at = at;
        self
    }

    /// Notes that something of the agent may still live.
    #[must_use]
    pub const fn still_alive(mut self) -> Self {
        self.is_alive = true;
        self
    }

    /// Converts it for the scheduler: the whole chain in one line, and a span instead of a time.
    #[must_use]
    pub fn to_failure(&self, now: Wall) -> Failure {
        let kind = match self.kind {
            AgentErrorKind::MachineExhausted => FailureKind::Machine,
            kind => FailureKind::Agent(kind),
        };
        let wait = self.retry_at.and_then(|at| now.until(at));
        Failure::new(kind, chain(self)).with_retry_after(wait)
    }
}
