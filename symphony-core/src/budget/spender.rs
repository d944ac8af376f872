//! The spenders of a budget and their ranks.

use serde::{Deserialize, Serialize};

use crate::issue::IssueId;
use crate::tracker::Purpose;

/// What the calls of agents' tools are counted as.
pub(crate) const TOOL: &str = "tool";

/// What makes a request: a read with its purpose, or an agent's tool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spender {
    /// The scheduler, for this purpose.
    Read(Purpose),
    /// The agent that works on this issue.
    Tool(IssueId),
}

impl Spender {
    /// The name used in counts.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Read(purpose) => purpose.as_str(),
            Self::Tool(_) => TOOL,
        }
    }

    pub(super) const fn rank(&self) -> SpenderRank {
        match self {
            Self::Read(Purpose::Refresh | Purpose::Turn | Purpose::Manual) => SpenderRank::Upkeep,
            Self::Read(Purpose::Check) | Self::Tool(_) => SpenderRank::Work,
            // A delivery says that looking may be worth while. What it would find, polls find too.
            Self::Read(Purpose::Candidates | Purpose::Sweep | Purpose::Delivery) => {
                SpenderRank::Search
            }
        }
    }
}

/// The priority of spenders: lower ranks give way. Within a rank the order is FIFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SpenderRank {
    /// Keeps what runs true to the tracker.
    Upkeep,
    /// Moves claimed work on.
    Work,
    /// Finds more to do.
    Search,
}

impl SpenderRank {
    /// How much of the reserve the rank leaves alone, in halves.
    pub(super) const fn halves_of_reserve(self) -> u32 {
        match self {
            Self::Upkeep => 0,
            Self::Work => 1,
            Self::Search => 2,
        }
    }

    /// After how many refill intervals without any request the floor no longer holds.
    ///
    /// So under lasting overload about one request in five is work's and one in twenty is search's.
    pub(super) const fn patience(self) -> u32 {
        match self {
            Self::Upkeep => 0,
            Self::Work => 4,
            Self::Search => 20,
        }
    }
}
