//! Numbers that are given out once.

use super::{ReadId, RemovalId};
use crate::run::RunId;

/// Gives out the ids of runs, reads and removals. Later reads have greater ids.
#[derive(Debug)]
pub(super) struct Ids {
    boot: u64,
    last_run: u64,
    last: u64,
}

impl Ids {
    /// `boot` is greater than in any earlier life, and so no run's id comes again.
    pub(super) const fn new(boot: u64) -> Self {
        Self { boot, last_run: 0, last: 0 }
    }

    pub(super) const fn run(&mut self) -> RunId {
        self.last_run += 1;
        RunId { boot: self.boot, number: self.last_run }
    }

    pub(super) const fn read(&mut self) -> ReadId {
        self.last += 1;
        ReadId(self.last)
    }

    pub(super) const fn removal(&mut self) -> RemovalId {
        self.last += 1;
        RemovalId(self.last)
    }
}
