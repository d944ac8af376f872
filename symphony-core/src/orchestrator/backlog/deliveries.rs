//! What the tracker delivers by itself: which issues are to be read because of it, and how far
//! polls may rely on it (contract 12.8).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::failure::Failure;
use crate::issue::IssueId;
use crate::orchestrator::reads::asked_wait;
use crate::policy;
use crate::snapshot::WebhookView;
use crate::time::{Mono, Now};

/// The most issues that one read because of deliveries asks for. When more wait, a poll is cheaper.
pub(in crate::orchestrator) const MAX_DELIVERED_ISSUES: usize = 50;

/// How often a read is tried before its issues are left to polls.
const MAX_READ_TRIES: u32 = 3;

/// After this long without a delivery webhooks count as unhealthy: silence and an outage look
/// alike.
const MAX_SILENCE: Duration = Duration::from_secs(3600);

/// How long polls do not rely on deliveries after one was missed.
const DISTRUST_PERIOD: Duration = Duration::from_secs(3600);

/// How much later than the poll that finds a change its delivery may come.
const ANNOUNCEMENT_GRACE: Duration = Duration::from_secs(60);

/// Deliveries of the tracker in force.
#[derive(Debug, Default)]
pub(in crate::orchestrator) struct Deliveries {
    /// The issues that are to be read.
    wanted: BTreeSet<IssueId>,
    /// Issues that another open read is about to tell of: they are not read because of a delivery,
    /// and a change that it finds was announced.
    left: BTreeSet<IssueId>,
    /// Issues of which the next list will tell, unless it is cut off.
    left_to_list: BTreeSet<IssueId>,
    /// Candidates whose blocker is over since they were listed: no delivery says so.
    unblocked: BTreeSet<IssueId>,
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
    /// Whether polls may rely on deliveries.
    pub(in crate::orchestrator) fn are_healthy(&self, now: Mono) -> bool {
        self.last.is_some_and(|last| now.since(last.mono) < MAX_SILENCE)
            && now >= self.distrusted_until
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

    /// Returns when their health may change by itself.
    pub(in crate::orchestrator) fn next_change(&self, now: Mono) -> Option<Mono> {
        let silence =
            self.last.filter(|_| self.are_healthy(now)).map(|last| last.mono + MAX_SILENCE);
        self.doubts.values().copied().chain(silence).min()
    }

    /// Takes in a delivery about these issues. Returns whether one read can ask for all that wait.
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
        self.wanted.len() <= MAX_DELIVERED_ISSUES
    }

    /// Forgets what is known of deliveries to another tracker, or with another secret. The same ids
    /// in another scope are other issues.
    pub(in crate::orchestrator) fn reload(&mut self, is_new_tracker: bool, is_new_scope: bool) {
        if is_new_tracker {
            let mut wanted = std::mem::take(&mut self.wanted);
            wanted.append(&mut self.left_to_list); // the list that was asked for counts no more
            let unblocked = std::mem::take(&mut self.unblocked);
            *self = Self { wanted, unblocked, ..Self::default() };
        }
        if is_new_scope {
            self.wanted.clear();
            self.unblocked.clear();
            self.left.clear();
            self.left_to_list.clear();
        }
    }

    /// Expects the next list and the next refresh to find changes that were announced.
    const fn expect_news(&mut self) {
        self.list_seen = false;
        self.claims_seen = false;
    }

    /// Notes a list. Returns whether a change that it finds should have been announced.
    pub(super) fn note_list(&mut self, now: Mono) -> bool {
        std::mem::replace(&mut self.list_seen, true) && self.are_healthy(now)
    }

    /// Notes a refresh of claims. Returns whether a change that it finds should have been
    /// announced.
    pub(super) fn note_claims(&mut self, now: Mono) -> bool {
        std::mem::replace(&mut self.claims_seen, true) && self.are_healthy(now)
    }

    /// Starts the grace period of issues that changed without an announcement, unless a delivery
    /// about them is being handled.
    pub(super) fn doubt<'a>(
        &mut self,
        news: impl Iterator<Item = &'a IssueId>,
        now: Mono,
        is_being_read: impl Fn(&IssueId) -> bool,
    ) {
        for id in news.take(MAX_DELIVERED_ISSUES) {
            let queues = [&self.wanted, &self.left, &self.left_to_list];
            if !queues.iter().any(|queue| queue.contains(id)) && !is_being_read(id) {
                self.doubts.entry(id.clone()).or_insert(now + ANNOUNCEMENT_GRACE);
            }
        }
    }

    /// Counts changes whose grace period ended without a delivery as missed. Returns one of the
    /// issues.
    pub(in crate::orchestrator) fn pass(&mut self, now: Mono) -> Option<IssueId> {
        let (id, _) = self.doubts.iter().find(|(_, by)| **by <= now)?;
        let id = id.clone();
        let count = self.doubts.values().filter(|by| **by <= now).count();
        self.missed += u64::try_from(count).unwrap_or(u64::MAX);
        self.distrusted_until = now + DISTRUST_PERIOD;
        self.doubts.clear();
        Some(id)
    }
}

/// What is to be read.
impl Deliveries {
    /// Returns when the next read may go out, if any waiting issue can be read; `gap` is the least
    /// time between two reads, `interval` the most.
    pub(in crate::orchestrator) fn due(
        &self,
        gap: Duration,
        interval: Duration,
        is_readable: impl Fn(&IssueId) -> bool,
    ) -> Option<Mono> {
        if self.is_open || !self.wanted.iter().chain(&self.unblocked).any(is_readable) {
            return None;
        }
        // The first few follow each other as reads for freed slots do. The more there are in a row,
        // the longer the gap: all in all they cost no more than polls would.
        let doubled = gap.saturating_mul(1_u32 << self.streak.min(16));
        let paced = self.last_read.map(|last| last + doubled.min(interval).max(gap));
        paced.into_iter().chain([self.not_before]).max()
    }

    /// Returns the issues that deliveries are about.
    pub(in crate::orchestrator) fn wanted(&self) -> impl Iterator<Item = &IssueId> {
        self.wanted.iter()
    }

    /// Returns the candidates whose blocker is over.
    pub(in crate::orchestrator) fn unblocked(&self) -> impl Iterator<Item = &IssueId> {
        self.unblocked.iter()
    }

    /// Queues candidates whose blocker is over. A poll finds the rest.
    pub(super) fn unblock(&mut self, candidates: impl Iterator<Item = IssueId>) {
        let room = MAX_DELIVERED_ISSUES.saturating_sub(self.unblocked.len());
        self.unblocked.extend(candidates.take(room));
    }

    /// Takes issues out of the queue, because they are read now.
    pub(in crate::orchestrator) fn take(
        &mut self,
        ids: &BTreeSet<IssueId>,
        now: Mono,
        interval: Duration,
    ) {
        self.wanted.retain(|id| !ids.contains(id));
        self.unblocked.retain(|id| !ids.contains(id));
        let often = interval.saturating_mul(2);
        let follows = self.last_read.is_some_and(|last| now.since(last) < often);
        self.streak = if follows { self.streak.saturating_add(1) } else { 0 };
        self.last_read = Some(now);
    }

    /// Sets whether a read because of deliveries is open.
    pub(super) const fn set_open(&mut self, is_open: bool) {
        self.is_open = is_open;
    }

    /// Ends a read because of deliveries that was answered.
    pub(in crate::orchestrator) const fn end_read(&mut self) {
        self.is_open = false;
        self.failures = 0;
    }

    /// Ends a read because of deliveries that failed. Returns whether its issues are read again;
    /// else they are left to polls.
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
        self.failures = if failures < MAX_READ_TRIES { failures } else { 0 };
        failures < MAX_READ_TRIES
    }

    /// Queues the issues of a read that came to nothing again.
    pub(in crate::orchestrator) fn read_again(&mut self, ids: impl Iterator<Item = IssueId>) {
        self.is_open = false;
        self.wanted.extend(ids);
    }

    /// Clears the queue, because it is too long or reads fail: polls find what was announced.
    pub(in crate::orchestrator) fn leave_to_polls(&mut self) {
        self.wanted.clear();
        self.unblocked.clear();
        self.expect_news();
    }

    /// Leaves these issues to another read that asks for them.
    pub(super) fn leave(&mut self, ids: &[IssueId]) {
        if !self.unblocked.is_empty() {
            self.unblocked.retain(|id| !ids.contains(id));
        }
        if self.wanted.is_empty() && self.left_to_list.is_empty() {
            return;
        }
        for id in ids {
            // An issue may be in both: announced again after the list was asked for.
            let (wanted, left) = (self.wanted.take(id), self.left_to_list.take(id));
            self.left.extend(wanted.or(left));
        }
        self.bound_left();
    }

    /// Leaves all issues of this kind to a list that will name them.
    pub(super) fn leave_all(&mut self, is_told: impl Fn(&IssueId) -> bool) {
        self.unblocked.retain(|id| !is_told(id));
        let wanted = std::mem::take(&mut self.wanted);
        let (left, wanted): (BTreeSet<_>, _) = wanted.into_iter().partition(is_told);
        self.wanted = wanted;
        self.left_to_list.extend(left);
        self.bound_left();
    }

    fn bound_left(&mut self) {
        for left in [&mut self.left, &mut self.left_to_list] {
            if left.len() > MAX_DELIVERED_ISSUES {
                // Reads keep failing. The next one that does not will find what was announced.
                left.clear();
                self.list_seen = false;
                self.claims_seen = false;
            }
        }
    }

    /// Notes that a refresh told of all claimed issues.
    pub(super) fn told_by_refresh(&mut self, is_claimed: impl Fn(&IssueId) -> bool) {
        self.left.retain(|id| !is_claimed(id));
    }

    /// Notes a list. It told of all unclaimed issues, but for those that stand beyond its end: they
    /// are read by id after all.
    pub(super) fn told_by_list(
        &mut self,
        is_claimed: impl Fn(&IssueId) -> bool,
        may_be_beyond: impl Fn(&IssueId) -> bool,
    ) {
        self.left.retain(&is_claimed);
        for id in std::mem::take(&mut self.left_to_list) {
            if is_claimed(&id) {
                self.left.insert(id);
            } else if may_be_beyond(&id) {
                self.wanted.insert(id);
            }
        }
    }
}
