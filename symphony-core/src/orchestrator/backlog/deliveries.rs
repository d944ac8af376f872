//! What the tracker delivers by itself: which issues are to be read because of it, and how far polls
//! may rely on it (contract 12.8).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::failure::Failure;
use crate::issue::IssueId;
use crate::orchestrator::reads::asked_wait;
use crate::policy;
use crate::snapshot::WebhookView;
use crate::time::{Mono, Now};

/// So many issues are read at once. When more wait, polls find them sooner and for less.
pub(in crate::orchestrator) const MOST_DELIVERED: usize = 50;

/// How often a read is tried before its issues are left to the polls.
const TRIES: u32 = 3;

/// After so long without a delivery nobody knows whether there was nothing to tell.
const SILENCE: Duration = Duration::from_secs(3600);

/// For so long after a missed delivery polls do not rely on the others.
const DISTRUST: Duration = Duration::from_secs(3600);

/// A poll can be faster than the delivery of what it finds, by so much.
const OVERTAKEN: Duration = Duration::from_secs(60);

/// Deliveries of the tracker in force.
#[derive(Debug, Default)]
pub(in crate::orchestrator) struct Deliveries {
    /// The issues that are to be read.
    wanted: BTreeSet<IssueId>,
    /// Those that another read is to tell of instead: it brings what was announced.
    left: BTreeSet<IssueId>,
    is_open: bool,
    last_read: Option<Mono>,
    /// How many reads followed each other closely.
    streak: u32,
    failures: u32,
    not_before: Mono,

    last: Option<Now>,
    received: u64,
    missed: u64,
    distrusted_until: Mono,
    /// Whether a list, and a refresh, came since they are relied on: what the next one finds
    /// changed was not changed before.
    list_seen: bool,
    claims_seen: bool,
    /// What polls found changed, and until when a delivery may still announce it.
    doubts: BTreeMap<IssueId, Mono>,
}

/// What arrives, and how far it can be relied on.
impl Deliveries {
    /// Whether polls may rely on them.
    pub(in crate::orchestrator) fn are_healthy(&self, now: Mono) -> bool {
        self.last.is_some_and(|last| now.since(last.mono) < SILENCE) && now >= self.distrusted_until
    }

    pub(in crate::orchestrator) fn view(&self, now: Mono) -> Option<WebhookView> {
        Some(WebhookView {
            last: self.last?.wall,
            received: self.received,
            missed: self.missed,
            healthy: self.are_healthy(now),
            waiting: self.wanted.len(),
        })
    }

    /// When their health may change by itself.
    pub(in crate::orchestrator) fn next_change(&self, now: Mono) -> Option<Mono> {
        let silence = self.last.filter(|_| self.are_healthy(now)).map(|last| last.mono + SILENCE);
        self.doubts.values().copied().chain(silence).min()
    }

    /// The tracker says that something happened to these issues. Returns whether one read can tell
    /// of all that wait.
    pub(in crate::orchestrator) fn receive(&mut self, issues: Vec<IssueId>, now: Now) -> bool {
        if !self.are_healthy(now.mono) {
            self.expect_news();
        }
        self.last = Some(now);
        self.received += 1;
        for id in issues {
            self.doubts.remove(&id);
            self.wanted.insert(id);
        }
        self.wanted.len() <= MOST_DELIVERED
    }

    /// Another tracker, or another secret, is in force: what is known of the old one's deliveries
    /// says nothing. The same ids in another scope are other issues.
    pub(in crate::orchestrator) fn reload(&mut self, is_new_tracker: bool, is_new_scope: bool) {
        if is_new_tracker {
            let wanted = std::mem::take(&mut self.wanted);
            *self = Self { wanted, ..Self::default() };
        }
        if is_new_scope {
            self.wanted.clear();
            self.left.clear();
        }
    }

    /// The next list and the next refresh will find what was announced.
    const fn expect_news(&mut self) {
        self.list_seen = false;
        self.claims_seen = false;
    }

    /// A list came. Returns whether what it finds changed should have been announced.
    pub(super) fn note_list(&mut self, now: Mono) -> bool {
        std::mem::replace(&mut self.list_seen, true) && self.are_healthy(now)
    }

    /// Claims were refreshed. Returns whether what that finds changed should have been announced.
    pub(super) fn note_claims(&mut self, now: Mono) -> bool {
        std::mem::replace(&mut self.claims_seen, true) && self.are_healthy(now)
    }

    /// These issues changed, and nothing is known to have announced some of them.
    pub(super) fn doubt<'a>(
        &mut self,
        news: impl Iterator<Item = &'a IssueId>,
        now: Mono,
        is_being_read: impl Fn(&IssueId) -> bool,
    ) {
        for id in news.take(MOST_DELIVERED) {
            if !self.wanted.contains(id) && !self.left.contains(id) && !is_being_read(id) {
                self.doubts.entry(id.clone()).or_insert(now + OVERTAKEN);
            }
        }
    }

    /// What no delivery has announced by now was missed. Returns one such issue.
    pub(in crate::orchestrator) fn pass(&mut self, now: Mono) -> Option<IssueId> {
        let (id, _) = self.doubts.iter().find(|(_, by)| **by <= now)?;
        let id = id.clone();
        let count = self.doubts.values().filter(|by| **by <= now).count();
        self.missed += u64::try_from(count).unwrap_or(u64::MAX);
        self.distrusted_until = now + DISTRUST;
        self.doubts.clear();
        Some(id)
    }
}

/// What is to be read.
impl Deliveries {
    /// When the next read may go out, if any of these issues can be read; `gap` is the least time
    /// between two, `interval` the most.
    pub(in crate::orchestrator) fn due(
        &self,
        gap: Duration,
        interval: Duration,
        is_readable: impl Fn(&IssueId) -> bool,
    ) -> Option<Mono> {
        if self.is_open || !self.wanted.iter().any(is_readable) {
            return None;
        }
        // The first few follow each other as reads for freed slots do. The more there are in a row,
        // the longer the gap: all in all they cost no more than polls would.
        let doubled = gap.saturating_mul(1_u32 << self.streak.min(16));
        let paced = self.last_read.map(|last| last + doubled.min(interval).max(gap));
        paced.into_iter().chain([self.not_before]).max()
    }

    /// The issues that are to be read.
    pub(in crate::orchestrator) fn wanted(&self) -> impl Iterator<Item = &IssueId> {
        self.wanted.iter()
    }

    /// These issues are read now.
    pub(in crate::orchestrator) fn take(
        &mut self,
        ids: &BTreeSet<IssueId>,
        now: Mono,
        interval: Duration,
    ) {
        self.wanted.retain(|id| !ids.contains(id));
        let often = interval.saturating_mul(2);
        let follows = self.last_read.is_some_and(|last| now.since(last) < often);
        self.streak = if follows { self.streak.saturating_add(1) } else { 0 };
        self.last_read = Some(now);
    }

    /// A read because of deliveries goes out, or is over.
    pub(super) const fn set_open(&mut self, is_open: bool) {
        self.is_open = is_open;
    }

    /// A read because of deliveries told of its issues.
    pub(in crate::orchestrator) const fn end_read(&mut self) {
        self.is_open = false;
        self.failures = 0;
    }

    /// A read because of deliveries failed. Returns whether its issues are read again; else they
    /// are left to the polls.
    pub(in crate::orchestrator) fn read_failed(
        &mut self,
        failure: &Failure,
        now: Mono,
        max_backoff: Duration,
    ) -> bool {
        let failures = self.failures + 1;
        let wait = asked_wait(failure).unwrap_or_else(|| policy::backoff(failures, max_backoff));
        self.not_before = now + wait;
        self.is_open = false;
        self.failures = if failures < TRIES { failures } else { 0 };
        failures < TRIES
    }

    /// A read came to nothing: its issues are still to be read.
    pub(in crate::orchestrator) fn read_again(&mut self, ids: impl Iterator<Item = IssueId>) {
        self.is_open = false;
        self.wanted.extend(ids);
    }

    /// More wait than one read can tell of, or reads fail: polls find what was announced.
    pub(in crate::orchestrator) fn leave_to_polls(&mut self) {
        self.wanted.clear();
        self.expect_news();
    }

    /// Another read tells of these issues.
    pub(super) fn leave(&mut self, ids: &[IssueId]) {
        if self.wanted.is_empty() {
            return;
        }
        let left = ids.iter().filter_map(|id| self.wanted.take(id));
        self.left.extend(left);
        self.bound_left();
    }

    /// A list tells of all issues of this kind.
    pub(super) fn leave_all(&mut self, is_told: impl Fn(&IssueId) -> bool) {
        let wanted = std::mem::take(&mut self.wanted);
        let (left, wanted): (BTreeSet<_>, _) = wanted.into_iter().partition(is_told);
        self.wanted = wanted;
        self.left.extend(left);
        self.bound_left();
    }

    fn bound_left(&mut self) {
        if self.left.len() > MOST_DELIVERED {
            // Reads fail again and again. The next that does not finds what was announced.
            self.left.clear();
            self.expect_news();
        }
    }

    /// A read told of all issues of this kind.
    pub(super) fn told(&mut self, is_told: impl Fn(&IssueId) -> bool) {
        self.left.retain(|id| !is_told(id));
    }
}
