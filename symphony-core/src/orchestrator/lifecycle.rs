//! Whether the service starts anything at all: a usable workflow file and store, pause and shutdown
//! (contract 2.6, 4.7, 14.2, 16.3).

use crate::failure::Failure;
use crate::problem::Problem;

/// What holds for the service as a whole.
#[derive(Debug, Default)]
pub(super) struct Lifecycle {
    /// What is wrong with the workflow file now; starts wait until there is nothing.
    problems: Vec<Problem>,
    paused: bool,
    shutting_down: bool,
    /// Why nothing can be written for the next life; starts wait until it can be.
    storage: Option<Failure>,
}

impl Lifecycle {
    /// Whether anything may start at all.
    pub(super) const fn may_start(&self) -> bool {
        !self.shutting_down && !self.paused && self.problems.is_empty() && self.storage.is_none()
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

    /// Begins the end.
    pub(super) const fn shut_down(&mut self) {
        self.shutting_down = true;
    }

    /// Returns why nothing can be written for the next life, if so.
    pub(super) const fn storage(&self) -> Option<&Failure> {
        self.storage.as_ref()
    }

    /// Sets whether anything can be written for the next life. Returns whether that is a change.
    pub(super) fn set_storage(&mut self, failure: Option<Failure>) -> bool {
        let is_change = self.storage.is_some() != failure.is_some();
        self.storage = failure;
        is_change
    }
}
