//! When each read goes out, and so when the scheduler wakes up next (contract 4.3, 4.6, section
//! 12).

use std::collections::BTreeSet;
use std::time::Duration;

use crate::issue::IssueId;
use crate::snapshot::Mode;
use crate::time::Mono;

use super::Configuration;
use super::backlog::{Backlog, MAX_DELIVERED_ISSUES};
use super::claims::Claims;
use super::lifecycle::Lifecycle;
use super::pacing::{Pacing, slowed};
use super::reads::{JobPace, Reads};

/// A read-only view of what decides when reads are due: it answers questions, and changes nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadSchedule<'a> {
    pub(super) configuration: &'a Configuration,
    pub(super) now: Mono,
    pub(super) lifecycle: &'a Lifecycle,
    pub(super) claims: &'a Claims,
    pub(super) reads: &'a Reads,
    pub(super) backlog: &'a Backlog,
    pub(super) pacing: &'a Pacing,
}

impl ReadSchedule<'_> {
    /// Returns when something is due next, be it a read, a deadline or the end of a wait.
    pub(super) fn next_wakeup(&self) -> Option<Mono> {
        let deadline = self.claims.next_deadline();
        if self.lifecycle.is_shutting_down() {
            return deadline;
        }
        [
            deadline,
            self.reads.turns.due(),
            self.reads.jobs.next(&self.job_pace()),
            self.next_refill(),
            self.reads.refill.fresh_from(),
            self.pacing.holds.next(),
            self.next_delivery_read(),
            self.backlog.deliveries.next_change(self.now),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Returns when slots can be filled next; `None` when nothing asks for it or nothing may start.
    pub(super) fn next_refill(&self) -> Option<Mono> {
        let next = self.reads.refill.next(self.now, self.configuration.min_read_gap)?;
        self.lifecycle.may_start().then_some(next)
    }

    /// Returns when the next read because of deliveries goes out.
    pub(super) fn next_delivery_read(&self) -> Option<Mono> {
        let gap = self.configuration.min_read_gap;
        let interval = self.configuration.settings.polling.interval;
        let due = self.backlog.deliveries.due(gap, interval, |id| self.is_readable(id))?;
        let jobs = &self.reads.jobs;
        let refused = [&jobs.candidates, &jobs.refresh];
        let refused = refused.into_iter().filter_map(|job| job.refused_until());
        let refill = &self.reads.refill;
        let checks = refill.fresh_from().filter(|_| refill.is_over_budget());
        refused.chain(checks).chain([due]).max()
    }

    /// Returns the issues that deliveries are about, as far as reading them is of use, and
    /// candidates that wait for one of them, or for an issue that is over: no delivery says that
    /// these need not wait any more.
    pub(super) fn delivered_issues(&self) -> BTreeSet<IssueId> {
        let wanted = self.backlog.deliveries.wanted().filter(|id| self.is_readable(id));
        let mut ids: BTreeSet<IssueId> = wanted.take(MAX_DELIVERED_ISSUES).cloned().collect();
        let waiting = self.backlog.blocked_by(&ids);
        let waiting = waiting.filter(|id| !self.claims.contains(id) && self.is_readable(id));
        let unblocked = self.backlog.deliveries.unblocked().filter(|id| self.is_readable(id));
        let room = MAX_DELIVERED_ISSUES.saturating_sub(ids.len());
        let waiting: Vec<IssueId> = waiting.chain(unblocked).take(room).cloned().collect();
        ids.extend(waiting);
        ids
    }

    /// Whether reading an issue because of a delivery would be of use now. A check or a removal
    /// under way comes first, so does the first list, and without a slot candidates are not read
    /// (4.5).
    fn is_readable(&self, id: &IssueId) -> bool {
        match self.claims.get(id) {
            Some(claim) => claim.is_refreshed(),
            None => {
                self.backlog.read_at().is_some()
                    && self.lifecycle.problems().is_empty()
                    && self.free_slots() > 0
            }
        }
    }

    /// Returns what decides when jobs are due at this moment.
    pub(super) fn job_pace(&self) -> JobPace {
        let polling = &self.configuration.settings.polling;
        let jobs = &self.reads.jobs;
        // While deliveries tell what changes, polls only make sure (contract 12.8). A poll that
        // failed has made sure of nothing.
        let relies = self.backlog.deliveries.are_healthy(self.now);
        let paced = |base: Option<Duration>, mode: Mode, has_failed: bool| {
            let interval = slowed(polling, base.unwrap_or(polling.interval), mode);
            if relies && !has_failed { slowed(polling, interval, Mode::Idle) } else { interval }
        };
        let mode = self.pacing.mode(polling, self.now);
        let candidates = jobs.candidates.failure().is_some();
        // While a run lives, a cancel in the tracker must be noticed in time.
        let refresh = if self.claims.runs().len() > 0 {
            polling.jobs.refresh.unwrap_or(polling.interval)
        } else {
            let activity = self.pacing.activity(polling, self.now);
            paced(polling.jobs.refresh, activity, jobs.refresh.failure().is_some())
        };
        JobPace {
            candidates: paced(polling.jobs.candidates, mode, candidates),
            refresh,
            sweep: polling.jobs.sweep,
            min_read_gap: self.configuration.min_read_gap,
            free_slots: self.free_slots() as usize,
            reserved_slots: self.reads.refill.reserved(),
            may_run: !self.lifecycle.is_shutting_down(),
        }
    }

    fn free_slots(&self) -> u32 {
        self.claims.slots().free(&self.configuration.settings)
    }
}
