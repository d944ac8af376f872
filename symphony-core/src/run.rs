//! What a run is called.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One attempt at one issue. Never used again, also across restarts (contract 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunId {
    /// Which life of the service.
    pub boot: u64,
    /// Counted from one within that life.
    pub number: u64,
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.boot, self.number)
    }
}
