//! Whether the service starts anything at all: a usable workflow file, pause and shutdown (contract
//! 2.6, 4.7, 14.2).

use crate::problem::Problem;

use super::{Decisions, StoppedIssue};

/// What holds for the service as a whole.
#[derive(Debug, Default)]
pub(super) struct Lifecycle {
    /// What is wrong with the workflow file now; starts wait until there is nothing.
    problems: Vec<Problem>,
    paused: bool,
    shutting_down: bool,
    /// What operators had stopped when the service was told to end: its claims are released.
    stopped_at_end: Vec<StoppedIssue>,
}

impl Lifecycle {
    /// Whether anything may start at all.
    pub(super) const fn may_start(&self) -> bool {
        !self.shutting_down && !self.paused && self.problems.is_empty()
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.paused
    }

    pub(super) const fn is_shutting_down(&self) -> bool {
        self.shutting_down
    }

    /// Returns what is wrong with the workflow file now.
    pub(super) fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Pauses starts, or resumes them. Returns whether that is a change.
    pub(super) const fn set_paused(&mut self, paused: bool) -> bool {
        std::mem::replace(&mut self.paused, paused) != paused
    }

    /// Sets what is wrong with the workflow file. Returns whether that is a change.
    pub(super) fn set_problems(&mut self, problems: Vec<Problem>) -> bool {
        let is_change = self.problems != problems;
        self.problems = problems;
        is_change
    }

    /// Begins the end. The issues that operators had stopped stay decided when their claims are
    /// gone.
    pub(super) fn shut_down(&mut self, stopped: Vec<StoppedIssue>) {
        self.shutting_down = true;
        self.stopped_at_end = stopped;
    }

    /// Returns what operators decided, for the next life: `stopped` is what they have stopped now.
    pub(super) fn decisions(&self, mut stopped: Vec<StoppedIssue>) -> Decisions {
        for earlier in &self.stopped_at_end {
            if !stopped.iter().any(|known| known.issue.id == earlier.issue.id) {
                stopped.push(earlier.clone());
            }
        }
        Decisions { paused: self.paused, stopped }
    }
}
