//! Where the raw lines of a conversation with an agent go, for people who look into one.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The side that wrote a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The agent's output, to Symphony.
    In,
    /// Symphony's input, to the agent.
    Out,
    /// The agent, on standard error.
    Stderr,
}

impl Direction {
    /// Returns the word used in transcripts.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::Out => "out",
            Self::Stderr => "stderr",
        }
    }
}

/// Takes the raw lines of one session, without their ends: cheap to clone, never waits. When
/// disabled, recording a line is one branch.
#[derive(Clone, Default)]
pub struct Transcript(Option<Arc<Sink>>);

type Sink = dyn Fn(Direction, &[u8]) + Send + Sync;

impl Transcript {
    /// Lines go to this function, which must not wait.
    #[must_use]
    pub fn new(sink: impl Fn(Direction, &[u8]) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(sink)))
    }

    /// Keeps no lines.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    /// Whether lines are kept: where they are not, the caller need not make one.
    #[must_use]
    pub const fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    /// Passes a line on.
    #[inline]
    pub fn line(&self, direction: Direction, line: &[u8]) {
        if let Some(sink) = &self.0 {
            sink(direction, line);
        }
    }
}

impl fmt::Debug for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_kept() { "Transcript" } else { "Transcript(none)" })
    }
}
