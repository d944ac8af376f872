//! Runs whose turn ended, waiting to be read together (contract 4.5, 10.1).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::run::RunId;
use crate::time::Mono;

/// Turn ends this close together are read together (contract 4.5).
const TURN_BATCH_WINDOW: Duration = Duration::from_millis(50);

/// Runs whose turn ended, and whether some are being read.
#[derive(Debug, Default)]
pub(in crate::orchestrator) struct TurnReads {
    /// When each may be read.
    waiting: BTreeMap<RunId, Mono>,
    is_open: bool,
}

impl TurnReads {
    /// Returns when the next read is due.
    pub(in crate::orchestrator) fn due(&self) -> Option<Mono> {
        if self.is_open { None } else { self.waiting.values().min().copied() }
    }

    pub(in crate::orchestrator) fn forget(&mut self, run: RunId) {
        self.waiting.remove(&run);
    }

    /// Queues a run, to be read together with those whose turn ends about now.
    pub(in crate::orchestrator) fn wait_for_batch(&mut self, run: RunId, now: Mono) {
        self.wait(run, now + TURN_BATCH_WINDOW);
    }

    pub(in crate::orchestrator) fn wait(&mut self, run: RunId, until: Mono) {
        self.waiting.insert(run, until);
    }

    /// Returns the runs to read now: those due, and those that would be within the batch's window.
    pub(in crate::orchestrator) fn take(&mut self, now: Mono) -> Vec<RunId> {
        let horizon = now + TURN_BATCH_WINDOW;
        let taken: Vec<RunId> =
            self.waiting.iter().filter(|(_, at)| **at <= horizon).map(|(run, _)| *run).collect();
        for run in &taken {
            self.waiting.remove(run);
        }
        taken
    }

    /// Sets whether a read is open.
    pub(super) const fn set_open(&mut self, is_open: bool) {
        self.is_open = is_open;
    }
}
