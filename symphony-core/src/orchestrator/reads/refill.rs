//! When free slots are filled, and what their reads cost (contract 4.5, 4.6).

use std::time::Duration;

use crate::failure::{Failure, FailureKind};
use crate::policy;
use crate::time::Mono;
use crate::tracker::TrackerErrorKind;

use super::answer::asked_wait;

/// When and why slots are filled.
#[derive(Debug, Default)]
pub(in crate::orchestrator) struct Refill {
    wanted: Option<Urgency>,
    /// How many issues are being read for the free slots.
    reserved: Option<usize>,
    last_read: Option<Mono>,
    failures: u32,
    /// After a failed read fresh candidates wait until then; retries have their own times.
    fresh_from: Option<Mono>,
    failed_as: Option<FailureKind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Urgency {
    /// A slot was freed: the tracker's `min_read_gap` is kept (contract 4.6).
    WhenFreed,
    /// A list arrived or a retry is due.
    Now,
}

impl Refill {
    /// Wants slots filled at once.
    pub(in crate::orchestrator) const fn want_now(&mut self) {
        self.wanted = Some(Urgency::Now);
    }

    /// Wants slots filled because one was freed.
    pub(in crate::orchestrator) fn want_when_freed(&mut self) {
        self.wanted = self.wanted.max(Some(Urgency::WhenFreed));
    }

    /// Takes the wish, because slots are being filled.
    pub(in crate::orchestrator) const fn take(&mut self) {
        self.wanted = None;
    }

    /// Returns when slots can be filled next; `None` when nothing asks for it or a read is open.
    pub(in crate::orchestrator) fn next(&self, now: Mono, min_read_gap: Duration) -> Option<Mono> {
        if self.is_open() {
            return None;
        }
        match self.wanted? {
            Urgency::Now => Some(now),
            Urgency::WhenFreed => Some(self.last_read.map_or(now, |last| last + min_read_gap)),
        }
    }

    /// Whether issues are being read for free slots.
    pub(in crate::orchestrator) const fn is_open(&self) -> bool {
        self.reserved.is_some()
    }

    /// Returns how many issues are being read for the free slots.
    pub(in crate::orchestrator) fn reserved(&self) -> usize {
        self.reserved.unwrap_or(0)
    }

    /// Opens a read of so many issues.
    pub(super) const fn open(&mut self, issues: usize, now: Mono) {
        self.reserved = Some(issues);
        self.last_read = Some(now);
    }

    /// Closes the read.
    pub(super) const fn close(&mut self) {
        self.reserved = None;
    }

    /// Notes how the read went: after a failure, fresh candidates wait as 7.2 says, or as long as
    /// the tracker wants.
    pub(in crate::orchestrator) fn note(
        &mut self,
        failure: Option<&Failure>,
        now: Mono,
        max_backoff: Duration,
    ) {
        let Some(failure) = failure else {
            self.failures = 0;
            self.failed_as = None;
            return;
        };
        self.failures = self.failures.saturating_add(1);
        let wait =
            asked_wait(failure).unwrap_or_else(|| policy::backoff(self.failures, max_backoff));
        self.fresh_from = Some(now + wait);
        self.failed_as = Some(failure.kind);
    }

    /// Returns until when fresh candidates wait after a failed read.
    pub(in crate::orchestrator) const fn fresh_from(&self) -> Option<Mono> {
        self.fresh_from
    }

    /// Ends the wait of fresh candidates after a failed read, if it is over.
    pub(in crate::orchestrator) fn pass(&mut self, now: Mono) {
        if self.fresh_from.take_if(|at| *at <= now).is_some() {
            self.want_now();
        }
    }

    /// Whether the read before a start was refused for the sake of a budget.
    pub(in crate::orchestrator) fn is_over_budget(&self) -> bool {
        self.failed_as == Some(FailureKind::Tracker(TrackerErrorKind::RateLimited))
    }

    /// Forgets failures of another tracker.
    pub(super) const fn forget_failures(&mut self) {
        self.failures = 0;
        self.fresh_from = None;
        self.failed_as = None;
    }
}
