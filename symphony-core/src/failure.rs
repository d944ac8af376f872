//! Why something did not work, as the scheduler sees it: it branches on the kind, never on text.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::agent::AgentErrorKind;
use crate::hooks::Hook;
use crate::tracker::TrackerErrorKind;

/// A failure of a run, a read or a removal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Failure {
    /// What sort of failure: the only part that decides anything.
    pub kind: FailureKind,
    /// What went wrong, for people.
    pub message: String,
    /// How long to wait, where the other side said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
}

/// Where a failure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FailureKind {
    /// The agent or its protocol.
    Agent(AgentErrorKind),
    /// The tracker or the way to it.
    Tracker(TrackerErrorKind),
    /// A hook failed or ran out of time.
    Hook(Hook),
    /// The workspace could not be created, entered or removed.
    Workspace,
    /// The machine has no room for another process: files, processes or memory ran out.
    Machine,
    /// The prompt could not be rendered for this issue.
    Prompt,
    /// The agent showed no sign of life.
    Stalled,
    /// The service ended, or was killed, while the run lived.
    Interrupted,
    /// What must survive a restart cannot be written.
    Storage,
    /// A fault of Symphony itself, such as a task that panicked.
    Internal,
}

impl FailureKind {
    /// Whether every other start would fail alike for a while, so that all are held (contract 7.6).
    #[must_use]
    pub const fn is_limit(self) -> bool {
        matches!(
            self,
            Self::Machine
                | Self::Agent(
                    AgentErrorKind::UsageLimit
                        | AgentErrorKind::RateLimited
                        | AgentErrorKind::Unauthorized
                )
        )
    }

    /// A stable name for logs and the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent(kind) => kind.as_str(),
            Self::Tracker(kind) => kind.as_str(),
            Self::Hook(_) => "hook_failed",
            Self::Workspace => "workspace_error",
            Self::Machine => "machine_exhausted",
            Self::Prompt => "template_render_error",
            Self::Stalled => "stalled",
            Self::Interrupted => "interrupted",
            Self::Storage => "storage",
            Self::Internal => "internal_error",
        }
    }
}

impl Failure {
    /// A failure without a time to wait for.
    #[must_use]
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None }
    }

    /// Sets how long to wait before the next try.
    #[must_use]
    pub const fn with_retry_after(mut self, span: Option<Duration>) -> Self {
        self.retry_after = span;
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.as_str(), self.message)
    }
}

/// Returns the message of an error and those of its causes, in one line.
///
/// ```
/// use symphony_core::failure::chain;
/// use symphony_core::tracker::{TrackerError, TrackerErrorKind};
/// let cause = std::io::Error::other("connection reset");
/// let error = TrackerError::new(TrackerErrorKind::Request, "no answer").with_source(cause);
/// assert_eq!(chain(&error), "no answer: connection reset");
/// ```
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line.push_str(": ");
        line.push_str(&error.to_string());
        cause = error.source();
    }
    line
}
