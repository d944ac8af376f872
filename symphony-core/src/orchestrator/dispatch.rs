//! From a list of candidates to running agents: choosing, checking, starting (contract 4.5, 4.6,
//! section 5, 7.3).

use std::sync::Arc;

use crate::failure::{Failure, FailureKind};
use crate::issue::{Issue, IssueId};
use crate::policy::{self, Rank, Standing};
use crate::snapshot::Reason;
use crate::time::Mono;
use crate::tracker::{ById, TrackerErrorKind};
use crate::workspace::{HostId, WorkspaceKey};

use super::best::{Best, Choice};
use super::claim::{Claim, Origin, Stage, mark};
use super::holds::HoldGate;
use super::read::{Asked, Seen, asked_wait};
use super::run::Run;
use super::slots::Full;
use super::{Effect, Happened, Orchestrator, Purpose, Query, ReadId, ReleaseReason, RunId, Start};

/// When and why slots are filled.
#[derive(Clone, Debug, Default)]
pub(super) struct Refill {
    wanted: Option<Urgency>,
    pub(super) open: Option<ReadId>,
    /// How many issues are being read for the free slots.
    pub(super) reserved: usize,
    last_read: Option<Mono>,
    failures: u32,
    /// After a failed read fresh candidates wait until then; retries have their own times.
    pub(super) fresh_from: Option<Mono>,
    pub(super) failed_as: Option<FailureKind>,
}

impl Refill {
    /// The read is over.
    pub(super) const fn close(&mut self) {
        self.open = None;
        self.reserved = 0;
    }

    /// Whatever failed was another tracker's.
    pub(super) const fn forget_failures(&mut self) {
        self.failures = 0;
        self.fresh_from = None;
        self.failed_as = None;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Urgency {
    /// A slot was freed: the tracker's `min_read_gap` is kept (contract 4.6).
    WhenFreed,
    /// A list arrived or a retry is due.
    Now,
}

impl Origin {
    fn rank(self, issue: &Issue) -> Rank<'_> {
        match self {
            Self::Fresh => Rank::fresh(issue),
            Self::Retry => Rank::retry(issue),
        }
    }
}

impl Orchestrator {
    pub(super) fn refill_now(&mut self) {
        self.refill.wanted = Some(Urgency::Now);
    }

    pub(super) fn refill_when_freed(&mut self) {
        self.refill.wanted = self.refill.wanted.max(Some(Urgency::WhenFreed));
    }

    pub(super) fn free_slots(&self) -> u32 {
        self.slots.free(self.settings())
    }

    /// When slots can be filled next; `None` when nothing asks for it.
    pub(super) fn next_refill(&self) -> Option<Mono> {
        if self.refill.open.is_some() || !self.may_start() {
            return None;
        }
        match self.refill.wanted? {
            Urgency::Now => Some(self.now.mono),
            Urgency::WhenFreed => Some(match self.refill.last_read {
                Some(last) => last + self.configuration.min_read_gap,
                None => self.now.mono,
            }),
        }
    }

    /// Whether anything may start at all.
    fn may_start(&self) -> bool {
        !self.shutting_down && !self.paused && self.problems.is_empty()
    }

    /// Whether an event may pass without a look at the slots.
    pub(super) fn refill_is_idle(&self) -> bool {
        self.next_refill().is_none_or(|at| at > self.now.mono)
    }

    /// After a failed read, fresh candidates have waited long enough.
    pub(super) fn fresh_due(&mut self) {
        if self.refill.fresh_from.is_some_and(|at| at <= self.now.mono) {
            self.refill.fresh_from = None;
            self.refill_now();
        }
    }

    /// Chooses the best issues for the free slots and reads them again, in one read (5.4).
    pub(super) fn fill_slots(&mut self) {
        if self.refill_is_idle() {
            return;
        }
        self.refill.wanted = None;
        let chosen = self.choose();
        if chosen.is_empty() {
            return;
        }
        let ids: Vec<IssueId> = chosen.iter().map(|(id, _)| id.clone()).collect();
        self.recheck_workflow();
        let read = self.ask(Query::ByIds(ids.clone()), Asked::Check { chosen: ids });
        self.refill.open = Some(read);
        self.refill.reserved = chosen.len();
        self.refill.last_read = Some(self.now.mono);
        for (id, fresh) in chosen {
            let origin = match fresh {
                None => Origin::Retry,
                Some((issue, key)) => {
                    let host = HostId::local();
                    let stage = Stage::Checking { read, origin: Origin::Fresh };
                    let claim = Claim::new(Arc::new(issue), ReadId(0), key, host, stage);
                    self.claims.insert(id.clone(), claim);
                    self.forget_in_sweeps(&id);
                    Origin::Fresh
                }
            };
            self.enter(&id, Stage::Checking { read, origin }, None);
        }
    }

    /// The best issues for the free slots, and a few to spare, in the order of dispatch. Fresh
    /// ones come with what a new claim needs.
    fn choose(&self) -> Vec<(IssueId, Option<(Issue, WorkspaceKey)>)> {
        let free = match self.hold_gate() {
            HoldGate::Open => self.free_slots() as usize,
            HoldGate::OneProbe => self.free_slots().min(1) as usize,
            HoldGate::Closed(_) => 0,
        };
        if free == 0 {
            return Vec::new();
        }
        let mut best = Best::new(free, self.settings(), &self.slots);
        for id in &self.ready {
            let Some(claim) = self.claims.get(id) else {
                continue;
            };
            let rank = Rank::retry(&claim.issue);
            best.offer(rank, &claim.issue.state, Choice::Retry(id), || {
                self.host_obstacle(id).is_none()
            });
        }
        if self.refill.fresh_from.is_none() {
            for (index, issue) in self.kept.issues.iter().enumerate() {
                best.offer(Rank::fresh(issue), &issue.state, Choice::Kept(index), || {
                    self.is_free_candidate(issue)
                });
            }
        }
        let mut chosen: Vec<(IssueId, Option<(Issue, WorkspaceKey)>)> = Vec::new();
        for choice in best.into_choices() {
            match choice {
                Choice::Retry(id) => chosen.push((id.clone(), None)),
                Choice::Kept(index) => {
                    let issue = &self.kept.issues[index];
                    // A list may name an issue twice.
                    let Ok(key) = self.key_for(issue) else {
                        continue;
                    };
                    if !chosen.iter().any(|(id, _)| *id == issue.id) {
                        chosen.push((issue.id.clone(), Some((issue.clone(), key))));
                    }
                }
            }
        }
        chosen
    }

    /// Whether nothing but slots keeps a candidate from starting.
    pub(super) fn is_free_candidate(&self, issue: &Issue) -> bool {
        !self.claims.contains_key(&issue.id)
            && !self.kept.learned.contains_key(&issue.id)
            && self.unfit(issue).is_none()
            && self.host_obstacle(&issue.id).is_none()
    }

    /// Why an issue may not start, whatever slots are free (contract 5.1, 5.2).
    pub(super) fn unfit(&self, issue: &Issue) -> Option<Reason> {
        let tracker = &self.settings().tracker;
        if !issue.is_well_formed() {
            return Some(Reason::Malformed);
        }
        let Ok(owner) = self.folder_owner(issue) else {
            return Some(Reason::InvalidIdentifier);
        };
        match policy::standing(issue, tracker) {
            Standing::Active => {}
            Standing::Terminal => return Some(Reason::Terminal(issue.state.clone())),
            Standing::Inactive if !tracker.active_states.contains(&issue.state) => {
                return Some(Reason::NotActive(issue.state.clone()));
            }
            Standing::Inactive if !issue.dispatchable => return Some(Reason::NotDispatchable),
            Standing::Inactive => {
                let label = policy::missing_label(issue, tracker)?;
                return Some(Reason::MissingLabel(label.clone()));
            }
        }
        if let Some(blocker) = policy::open_blocker(issue, tracker) {
            let name = blocker.identifier.as_ref().map(|name| name.as_str());
            let name = name.or(blocker.id.as_ref().map(|id| id.as_str()));
            return Some(Reason::BlockedBy(name.unwrap_or("unknown").to_owned()));
        }
        owner.map(|owner| Reason::WorkspaceHeld(owner.clone()))
    }

    /// The machine that has no room for this issue, if so.
    pub(super) fn host_obstacle(&self, id: &IssueId) -> Option<Reason> {
        let home = self.record(id).map(|record| &record.host);
        if self.settings().hosts.is_empty() && home.is_none_or(HostId::is_local) {
            return None;
        }
        match self.slots.host_for(self.settings(), home) {
            Err(Full::Host(host)) => Some(Reason::HostSlot(host)),
            _ => None,
        }
    }

    /// Chosen issues were read again: each is judged afresh, best first (contract 5.4, 7.3, 7.4).
    pub(super) fn check_answered(
        &mut self,
        read: ReadId,
        chosen: Vec<IssueId>,
        result: Result<ById, Failure>,
    ) {
        self.refill.close();
        self.note_check(&result);
        let mut found = self.index(Purpose::Check, result);
        let mut present: Vec<(Arc<Issue>, Origin)> = Vec::new();
        for id in chosen {
            let seen = found.take(&id);
            let Some(origin) = self.origin_of(&id, read) else {
                continue;
            };
            match (seen, origin) {
                (Seen::Present(issue), _) => present.push((issue, origin)),
                (Seen::Absent, Origin::Fresh) => self.let_go(&id, read, Some(Reason::Gone)),
                (Seen::Absent, Origin::Retry) => {
                    self.saw(&id, read);
                    self.release(&id, ReleaseReason::Gone);
                }
                (Seen::Failed(failure), Origin::Retry) => self.wait_after_failed_read(&id, failure),
                (Seen::Failed(failure), Origin::Fresh) => {
                    let whole_read = matches!(found, super::read::Found::Failed(_));
                    if !whole_read {
                        let message = failure.message;
                        self.notice_of(&id, None, Happened::Unreadable { message });
                    }
                    self.let_go(&id, read, (!whole_read).then_some(Reason::Unreadable));
                }
            }
        }
        present.sort_by(|(a, a_origin), (b, b_origin)| a_origin.rank(a).cmp(&b_origin.rank(b)));
        for (issue, origin) in present {
            self.judge(read, issue, origin);
        }
        self.refill_when_freed();
    }

    /// After a failed read, fresh candidates wait as 7.2 says, or as long as the tracker wants.
    fn note_check(&mut self, result: &Result<ById, Failure>) {
        match result {
            Ok(_) => {
                self.refill.failures = 0;
                self.refill.failed_as = None;
            }
            Err(failure) => {
                self.refill.failures = self.refill.failures.saturating_add(1);
                let max = self.settings().agent.max_retry_backoff;
                let wait = asked_wait(failure)
                    .unwrap_or_else(|| policy::backoff(self.refill.failures, max));
                self.refill.fresh_from = Some(self.now.mono + wait);
                self.refill.failed_as = Some(failure.kind);
            }
        }
    }

    /// Whether the read before a start was refused for the sake of a budget.
    pub(super) fn is_over_budget(&self) -> bool {
        self.refill.failed_as == Some(FailureKind::Tracker(TrackerErrorKind::RateLimited))
    }

    /// Where a claim came from, if it is still waiting for this read.
    pub(super) fn origin_of(&self, id: &IssueId, read: ReadId) -> Option<Origin> {
        match self.claims.get(id)?.stage {
            Stage::Checking { read: open, origin } if open == read => Some(origin),
            _ => None,
        }
    }

    /// A fresh candidate is not started; what was learned keeps it from being chosen again.
    fn let_go(&mut self, id: &IssueId, read: ReadId, learned: Option<Reason>) {
        if let Some(reason) = learned {
            self.learn(id, read, reason);
        }
        self.unclaim(id);
    }

    fn judge(&mut self, read: ReadId, issue: Arc<Issue>, origin: Origin) {
        let id = issue.id.clone();
        // Its slots and its folder are those of the issue as it is now.
        let moved = self.claims.get(&id).is_some_and(|claim| {
            claim.issue.state != issue.state || claim.issue.identifier != issue.identifier
        });
        if moved && read > self.kept.read {
            self.kept.update(&issue);
        }
        self.accept(&id, read, issue);
        let Some(issue) = self.claims.get(&id).map(|claim| Arc::clone(&claim.issue)) else {
            return;
        };
        match (policy::standing(&issue, &self.settings().tracker), self.unfit(&issue)) {
            // A list that was asked for later knows better.
            (Standing::Terminal, _) if self.kept.shows_alive_since(&id, read) => {
                self.step_back(&id, origin);
            }
            (Standing::Terminal, _) => self.clean(&id),
            (Standing::Active, None) if origin == Origin::Fresh && self.kept.lacks(&id, read) => {
                self.unclaim(&id);
            }
            (_, Some(reason)) if origin == Origin::Fresh => {
                self.let_go(&id, read, Some(reason));
            }
            (Standing::Inactive, _) => self.release(&id, ReleaseReason::NotActive),
            (_, Some(_)) => self.release(&id, ReleaseReason::NotEligible),
            (Standing::Active, None) if self.may_start() => match self.slot_for(&issue) {
                Ok(host) => self.start(&id, host),
                Err(_) => self.step_back(&id, origin),
            },
            (Standing::Active, None) => self.step_back(&id, origin),
        }
    }

    /// Nothing is wrong with the issue, but it cannot start now: it keeps its attempt (7.3).
    fn step_back(&mut self, id: &IssueId, origin: Origin) {
        match origin {
            Origin::Fresh => self.unclaim(id),
            Origin::Retry => {
                self.enter(id, Stage::Waiting { ready: true }, None);
                let issue = self.claims.get(id).map(|claim| Arc::clone(&claim.issue));
                if issue.is_some_and(|issue| self.slot_for(&issue).is_err()) {
                    self.notice_of(id, None, Happened::Queued);
                }
            }
        }
    }

    /// The machine on which the issue can start now.
    pub(super) fn slot_for(&self, issue: &Issue) -> Result<HostId, Full> {
        if self.free_slots() == 0 || matches!(self.hold_gate(), HoldGate::Closed(_)) {
            return Err(Full::Everywhere);
        }
        if self.slots.free_in_state(self.settings(), &issue.state) == Some(0) {
            return Err(Full::State);
        }
        let home = self.record(&issue.id).map(|record| &record.host);
        self.slots.host_for(self.settings(), home)
    }

    fn start(&mut self, id: &IssueId, host: HostId) {
        self.last_run += 1;
        let run = RunId { boot: self.boot, number: self.last_run };
        let settings = Arc::clone(&self.configuration.settings);
        let record = self.record(id).cloned();
        let Some(claim) = self.claims.get_mut(id) else {
            return;
        };
        let Ok(key) = record.as_ref().map_or_else(
            || WorkspaceKey::derive(claim.issue.identifier.as_str()),
            |record| Ok(record.key.clone()),
        ) else {
            debug_assert!(false, "a start without a workspace key");
            return;
        };
        claim.key = key.clone();
        claim.host = host.clone();
        claim.failure = None;
        let issue = Arc::clone(&claim.issue);
        let attempt = claim.attempt;
        let agent: Arc<str> = Arc::from(settings.agent.kind.as_str());
        claim.thread.take_if(|thread| thread.agent != agent);
        let resume = claim.thread.as_ref().map(|thread| thread.id.clone());
        let unanswered = std::mem::take(&mut claim.unanswered) && resume.is_some();
        let max_turns = settings.agent.max_turns;
        let is_probe = self.hold_gate() == HoldGate::OneProbe;
        let live = Run::new(id.clone(), agent, &self.configuration, self.now, mark(&issue));
        self.runs.insert(run, live);
        self.slots.occupy(&issue.state, &host);
        self.enter(id, Stage::Running { run }, None);
        self.own_key(id);
        if is_probe {
            self.start_probe(run);
        }
        self.totals.started += 1;
        self.touch();
        let state = issue.state.clone();
        self.effect(Effect::Start(Start {
            run,
            issue,
            attempt,
            key,
            host,
            record,
            resume,
            unanswered,
            max_turns,
        }));
        self.notice_of(id, Some(run), Happened::Started { attempt, state });
    }
}
