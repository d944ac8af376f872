//! What the tracker delivers by itself: which issues are read because of it, and how far polls may
//! rely on it (contract 12.8).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::failure::Failure;
use crate::issue::{Issue, IssueId, StateName};
use crate::policy;
use crate::snapshot::WebhookView;
use crate::time::{Mono, Now};
use crate::tracker::ById;

use super::jobs::{RESTART_PAUSE, is_refreshed};
use super::read::{Asked, Found, asked_wait};
use super::{Happened, Job, Orchestrator, Purpose, Query, ReadId};

/// So many issues are read at once. When more wait, polls find them sooner and for less.
const MOST: usize = 50;

/// How often a read is tried before its issues are left to the polls.
const TRIES: u32 = 3;

/// After so long without a delivery nobody knows whether there was nothing to tell.
const SILENCE: Duration = Duration::from_secs(3600);

/// For so long after a missed delivery polls do not rely on the others.
const DISTRUST: Duration = Duration::from_secs(3600);

/// A poll can be faster than the delivery of what it finds, by so much.
const OVERTAKEN: Duration = Duration::from_secs(60);

/// Deliveries of the tracker in force.
#[derive(Clone, Debug, Default)]
pub(super) struct Deliveries {
    /// The issues that are to be read.
    wanted: BTreeSet<IssueId>,
    /// Those that another read is to tell of instead: it brings what was announced.
    left: BTreeSet<IssueId>,
    open: Option<ReadId>,
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

impl Deliveries {
    /// Whether polls may rely on them.
    pub(super) fn are_healthy(&self, now: Mono) -> bool {
        self.last.is_some_and(|last| now.since(last.mono) < SILENCE) && now >= self.distrusted_until
    }

    /// Another tracker, or another secret: what is known of the old one's deliveries says nothing.
    pub(super) fn begin_anew(&mut self) {
        let wanted = std::mem::take(&mut self.wanted);
        *self = Self { wanted, ..Self::default() };
    }

    /// The same ids in another scope are other issues.
    pub(super) fn forget_issues(&mut self) {
        self.wanted.clear();
        self.left.clear();
    }

    /// Another read tells of these issues.
    fn leave<'a>(&mut self, ids: impl Iterator<Item = &'a IssueId>) {
        let left = ids.filter_map(|id| self.wanted.take(id));
        self.left.extend(left);
        if self.left.len() > MOST {
            // Reads fail again and again. The next that does not finds what was announced.
            self.left.clear();
            (self.list_seen, self.claims_seen) = (false, false);
        }
    }

    pub(super) fn view(&self, now: Mono) -> Option<WebhookView> {
        Some(WebhookView {
            last: self.last?.wall,
            received: self.received,
            missed: self.missed,
            healthy: self.are_healthy(now),
            waiting: self.wanted.len(),
        })
    }

    /// When their health may change by itself.
    fn next_change(&self, now: Mono) -> Option<Mono> {
        let silence = self.last.filter(|_| self.are_healthy(now)).map(|last| last.mono + SILENCE);
        self.doubts.values().copied().chain(silence).min()
    }
}

impl Orchestrator {
    /// The tracker says that something happened to these issues.
    pub(super) fn delivered(&mut self, issues: Vec<IssueId>) {
        self.touch();
        let now = self.now;
        let deliveries = &mut self.deliveries;
        if !deliveries.are_healthy(now.mono) {
            (deliveries.list_seen, deliveries.claims_seen) = (false, false);
        }
        deliveries.last = Some(now);
        deliveries.received += 1;
        for id in issues {
            deliveries.doubts.remove(&id);
            deliveries.wanted.insert(id);
        }
        if self.deliveries.wanted.len() > MOST {
            self.leave_to_polls();
        }
    }

    /// More than one read can tell: polls come early, and say all of it at once.
    fn leave_to_polls(&mut self) {
        self.deliveries.wanted.clear();
        // They will find what was announced.
        self.deliveries.list_seen = false;
        self.deliveries.claims_seen = false;
        let [candidates, refresh] =
            [Job::Candidates, Job::Refresh].map(|job| self.interval(&job).min(RESTART_PAUSE));
        self.jobs.candidates.hasten(candidates);
        self.jobs.refresh.hasten(refresh);
    }

    /// Whether reading the issue now would be of use. A check or a removal under way comes first, so
    /// does the first list, and without a slot nobody looks for candidates (4.5).
    fn is_readable(&self, id: &IssueId) -> bool {
        match self.claims.get(id) {
            Some(claim) => is_refreshed(&claim.stage),
            None => {
                self.kept.read_at.is_some() && self.problems.is_empty() && self.free_slots() > 0
            }
        }
    }

    /// When the next of these reads goes out.
    fn delivery_read_due(&self) -> Option<Mono> {
        let deliveries = &self.deliveries;
        if deliveries.open.is_some() || !deliveries.wanted.iter().any(|id| self.is_readable(id)) {
            return None;
        }
        let paced = deliveries.last_read.map(|last| last + self.delivery_gap());
        let refused = [&self.jobs.candidates, &self.jobs.refresh];
        let refused = refused.into_iter().filter_map(|job| job.refused_until());
        let checks = self.refill.fresh_from.filter(|_| self.is_over_budget());
        paced.into_iter().chain(refused).chain(checks).chain([deliveries.not_before]).max()
    }

    /// The first few follow each other as reads for freed slots do. The more there are in a row, the
    /// longer the gap: all in all they cost no more than polls would.
    fn delivery_gap(&self) -> Duration {
        let least = self.configuration.min_read_gap;
        let doubled = least.saturating_mul(1_u32 << self.deliveries.streak.min(16));
        doubled.min(self.settings().polling.interval).max(least)
    }

    /// When deliveries want to be looked at.
    pub(super) fn next_delivery(&self) -> Option<Mono> {
        let change = self.deliveries.next_change(self.now.mono);
        self.delivery_read_due().into_iter().chain(change).min()
    }

    /// Reads the issues that deliveries are about, and those that wait for one of them.
    pub(super) fn read_deliveries(&mut self) {
        let now = self.now.mono;
        if self.delivery_read_due().is_none_or(|at| at > now) {
            return;
        }
        let wanted = std::mem::take(&mut self.deliveries.wanted);
        let (mut ids, later): (BTreeSet<IssueId>, _) =
            wanted.into_iter().partition(|id| self.is_readable(id));
        self.deliveries.wanted = later;
        let dependants = self.dependants(&ids);
        ids.extend(dependants);
        let (mut claimed, mut others) = (Vec::new(), Vec::new());
        for id in &ids {
            match self.claims.get(id) {
                Some(claim) => claimed.push((id.clone(), claim.version)),
                None => others.push(id.clone()),
            }
        }
        let often = self.settings().polling.interval.saturating_mul(2);
        let deliveries = &mut self.deliveries;
        let follows = deliveries.last_read.is_some_and(|last| now.since(last) < often);
        deliveries.streak = if follows { deliveries.streak.saturating_add(1) } else { 0 };
        deliveries.last_read = Some(now);
        let ids = ids.into_iter().collect();
        let read = self.ask(Query::ByIds(ids), Asked::Delivery { claimed, others });
        self.deliveries.open = Some(read);
    }

    /// Candidates that wait for one of these: nobody delivers that they need not wait any more.
    fn dependants(&self, ids: &BTreeSet<IssueId>) -> Vec<IssueId> {
        let waits = |issue: &&Issue| {
            let mut blockers = issue.blocked_by.iter().filter_map(|blocker| blocker.id.as_ref());
            blockers.any(|id| ids.contains(id))
                && !self.claims.contains_key(&issue.id)
                && self.is_readable(&issue.id)
        };
        let waiting = self.kept.issues.iter().filter(waits).map(|issue| issue.id.clone());
        waiting.take(MOST.saturating_sub(ids.len())).collect()
    }

    /// Another read goes out, and will tell of these issues.
    pub(super) fn told_by_read<'a>(&mut self, ids: impl Iterator<Item = &'a IssueId>) {
        if !self.deliveries.wanted.is_empty() {
            self.deliveries.leave(ids);
        }
    }

    /// A list is asked for, and will tell of every issue that is unclaimed.
    pub(super) fn told_by_list(&mut self) {
        if !self.kept.more {
            let wanted = self.deliveries.wanted.iter();
            let unclaimed = wanted.filter(|id| !self.claims.contains_key(*id)).cloned();
            let unclaimed: Vec<IssueId> = unclaimed.collect();
            self.deliveries.leave(unclaimed.iter());
        }
    }

    /// The issues were read: what is claimed is refreshed, what is not joins or leaves the
    /// candidates, and what is over is cleaned up. Only the read before a start can start anything.
    pub(super) fn delivery_answered(
        &mut self,
        read: ReadId,
        claimed: Vec<(IssueId, u64)>,
        others: Vec<IssueId>,
        result: Result<ById, Failure>,
    ) {
        let mut found = self.index(Purpose::Delivery, result);
        if let Found::Failed(failure) = &found {
            let failure = failure.clone();
            return self.delivery_read_failed(&failure, claimed, others);
        }
        self.deliveries.open = None;
        self.deliveries.failures = 0;
        let ids = claimed.iter().map(|(id, _)| id).chain(&others);
        if self.keep_read(read, ids, &found) {
            self.refill_now();
        }
        self.refreshed(read, claimed, &mut found);
        self.swept(read, others, &mut found);
    }

    /// It is tried again, and left to the polls in the end.
    fn delivery_read_failed(
        &mut self,
        failure: &Failure,
        claimed: Vec<(IssueId, u64)>,
        others: Vec<IssueId>,
    ) {
        let max = self.settings().agent.max_retry_backoff;
        let failures = self.deliveries.failures + 1;
        let wait = asked_wait(failure).unwrap_or_else(|| policy::backoff(failures, max));
        self.deliveries.not_before = self.now.mono + wait;
        if failures < TRIES {
            self.deliveries.failures = failures;
            self.read_again(claimed, others);
        } else {
            self.deliveries.open = None;
            self.deliveries.failures = 0;
            self.leave_to_polls();
        }
    }

    /// A read came to nothing: its issues are still to be read.
    pub(super) fn read_again(&mut self, claimed: Vec<(IssueId, u64)>, others: Vec<IssueId>) {
        self.deliveries.open = None;
        let claimed = claimed.into_iter().map(|(id, _)| id);
        self.deliveries.wanted.extend(claimed.chain(others));
    }

    /// A list came. A candidate that nobody announced makes one wonder.
    pub(super) fn doubt_list(&mut self, list: &[Issue]) {
        if std::mem::replace(&mut self.deliveries.list_seen, true)
            && self.deliveries.are_healthy(self.now.mono)
            // What stands on a part of a list depends on what stands before it.
            && !self.kept.more
        {
            let known: BTreeMap<&IssueId, &StateName> =
                self.kept.issues.iter().map(|issue| (&issue.id, &issue.state)).collect();
            let is_news = |issue: &&Issue| {
                known.get(&issue.id).is_none_or(|state| **state != issue.state)
                    && !self.claims.contains_key(&issue.id)
                    && !self.kept.learned.contains_key(&issue.id)
            };
            let news: Vec<IssueId> =
                list.iter().filter(is_news).map(|issue| issue.id.clone()).take(MOST).collect();
            self.doubt(news);
        }
        self.deliveries.left.retain(|id| self.claims.contains_key(id));
    }

    /// Claims were refreshed. Another state that nobody announced makes one wonder, too.
    pub(super) fn doubt_claims(&mut self, read: ReadId, asked: &[(IssueId, u64)], found: &Found) {
        if std::mem::replace(&mut self.deliveries.claims_seen, true)
            && self.deliveries.are_healthy(self.now.mono)
        {
            let moved = |id: &&IssueId| {
                let fresh = found.look(id).flatten();
                let claim = self.claims.get(*id).filter(|claim| claim.seen < read);
                claim.zip(fresh).is_some_and(|(claim, fresh)| claim.issue.state != fresh.state)
            };
            let news = asked.iter().map(|(id, _)| id).filter(moved).take(MOST).cloned().collect();
            self.doubt(news);
        }
        if !matches!(found, Found::Failed(_)) {
            self.deliveries.left.retain(|id| !self.claims.contains_key(id));
        }
    }

    fn doubt(&mut self, news: Vec<IssueId>) {
        let deadline = self.now.mono + OVERTAKEN;
        for id in news {
            let is_announced = self.deliveries.wanted.contains(&id)
                || self.deliveries.left.contains(&id)
                || self.reads.values().any(|open| match &open.asked {
                    Asked::Delivery { claimed, others } => {
                        others.contains(&id) || claimed.iter().any(|(known, _)| *known == id)
                    }
                    _ => false,
                });
            if !is_announced {
                self.deliveries.doubts.entry(id).or_insert(deadline);
            }
        }
    }

    /// What no delivery has announced by now was missed.
    pub(super) fn doubts_due(&mut self) {
        let now = self.now.mono;
        let missed = self.deliveries.doubts.iter().find(|(_, by)| **by <= now);
        let Some(id) = missed.map(|(id, _)| id.clone()) else {
            return;
        };
        let deliveries = &mut self.deliveries;
        let count = deliveries.doubts.values().filter(|by| **by <= now).count();
        deliveries.missed += u64::try_from(count).unwrap_or(u64::MAX);
        deliveries.distrusted_until = now + DISTRUST;
        deliveries.doubts.clear();
        self.notice(Happened::DeliveryMissed { id });
    }
}
