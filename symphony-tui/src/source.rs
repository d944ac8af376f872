//! Where the dashboard gets what it shows, and where it sends commands.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use symphony_api::{IssueStatus, Status};
use symphony_core::time::Wall;

/// A service, here or elsewhere.
#[async_trait]
pub trait StatusSource: fmt::Debug + Send + Sync {
    /// What is known now.
    fn latest(&self) -> SourceView;

    /// Returns when [`latest`](Self::latest) may say something else than it did.
    ///
    /// Only one caller waits at a time. Safe to drop at any await.
    async fn changed(&self);

    /// Everything that is known of an issue, by its human key.
    ///
    /// # Errors
    /// When nothing is, or the source does not answer.
    async fn issue(&self, identifier: &str) -> Result<IssueStatus, SourceRefusal>;

    /// Passes on what a person wants. Taken, it is not yet done.
    ///
    /// # Errors
    /// When it cannot be done, or the source does not answer.
    async fn command(&self, command: &SourceCommand) -> Result<(), SourceRefusal>;
}

/// What is known of a service.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceView {
    /// Its state, once there was one.
    pub status: Option<Arc<Status>>,
    /// Whether that is still so.
    pub link: Link,
    /// What time it is there.
    pub clock: Wall,
}

/// Whether a service can be heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// Not yet.
    Connecting,
    /// What is known is how it is.
    Live,
    /// What is known is how it was; it is looked for.
    Lost(String),
    /// It has ended, and nothing more will come.
    Ended,
}

/// What a person can want (contract 4.7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceCommand {
    /// Poll the tracker now.
    PollNow,
    /// Start nothing until resumed.
    Pause,
    /// Start again.
    Resume,
    /// End this issue's run, and keep it blocked.
    Stop(String),
    /// Try this issue now.
    Retry(String),
}

impl fmt::Display for SourceCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |name| symphony_core::plain(name, 60);
        match self {
            Self::PollNow => f.write_str("poll now"),
            Self::Pause => f.write_str("pause"),
            Self::Resume => f.write_str("resume"),
            Self::Stop(issue) => write!(f, "stop {}", plain(issue)),
            Self::Retry(issue) => write!(f, "retry {}", plain(issue)),
        }
    }
}

/// Why something was not done: one plain line for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRefusal(String);

impl SourceRefusal {
    /// Takes a message of any origin.
    #[must_use]
    pub fn new(message: &str) -> Self {
        Self(symphony_core::plain(message, 500))
    }
}

impl fmt::Display for SourceRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SourceRefusal {}
