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

impl RunId {
    /// Reads what [`Display`](fmt::Display) writes: two numbers with a dot between.
    ///
    /// ```
    /// use symphony_core::run::RunId;
    /// assert_eq!(RunId::parse("3.14"), Some(RunId { boot: 3, number: 14 }));
    /// assert_eq!(RunId::parse("../etc"), None);
    /// ```
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (boot, number) = text.split_once('.')?;
        Some(Self { boot: boot.parse().ok()?, number: number.parse().ok()? })
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.boot, self.number)
    }
}
