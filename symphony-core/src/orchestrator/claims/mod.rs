//! Claims: the one map of what is held of issues, and everything that is indexed by their stages
//! (contract sections 6 and 7). What runs, waits or is blocked are views of it.

mod live;
mod outcome;
mod persist;
mod rows;
mod run;
mod slots;
mod stage;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::failure::Failure;
use crate::issue::{Issue, IssueId};
use crate::run::RunId;
use crate::snapshot::Slots;
use crate::time::{Mono, Now};

use super::{BlockReason, ReadId, Removal, RemovalId};

pub(super) use outcome::{after_end, outcome};
pub(super) use persist::run_row;
pub(super) use run::{Run, TurnStage};
pub(super) use slots::Full;
pub(super) use stage::{After, Claim, Origin, Stage, Thread, mark};

/// All claims.
///
/// Each live run has a claim that is Running or Stopping and a slot of that claim's state and host;
/// each claim has at most one deadline; what is ready and what is being removed is found without
/// a search. The fields are changed here alone, so that this stays true.
#[derive(Debug, Default)]
pub(super) struct Claims {
    by_issue: BTreeMap<IssueId, Claim>,
    /// Details of live runs, by run, so that a sign of life costs one lookup.
    runs: BTreeMap<RunId, Run>,
    removals: BTreeMap<RemovalId, IssueId>,
    slots: Slots,
    /// At most one deadline per claim.
    deadlines: BTreeSet<(Mono, IssueId)>,
    /// Waiting claims that may start as soon as there is a slot.
    ready: BTreeSet<IssueId>,
    /// Claims whose row may be another than the one that was last written.
    dirty: BTreeSet<IssueId>,
    /// Live runs whose row may be another.
    dirty_runs: BTreeSet<RunId>,
}

/// What a newer snapshot of an issue changed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Accepted {
    /// Whether the tracker saw a change.
    pub(super) moved: bool,
    /// Whether a run's slot is another state's now.
    pub(super) freed_slot: bool,
}

impl Claims {
    pub(super) fn get(&self, id: &IssueId) -> Option<&Claim> {
        self.by_issue.get(id)
    }

    pub(super) fn get_mut(&mut self, id: &IssueId) -> Option<&mut Claim> {
        let claim = self.by_issue.get_mut(id)?;
        self.dirty.insert(id.clone());
        Some(claim)
    }

    pub(super) fn contains(&self, id: &IssueId) -> bool {
        self.by_issue.contains_key(id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&IssueId, &Claim)> {
        self.by_issue.iter()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Claim> {
        self.by_issue.values()
    }

    pub(super) fn len(&self) -> usize {
        self.by_issue.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_issue.is_empty()
    }

    pub(super) const fn slots(&self) -> &Slots {
        &self.slots
    }

    /// Waiting claims that may start as soon as there is a slot.
    pub(super) fn ready(&self) -> impl Iterator<Item = (&IssueId, &Claim)> {
        self.ready.iter().filter_map(|id| self.by_issue.get_key_value(id))
    }

    /// Claims that wait for a failure of this kind to pass.
    pub(super) fn waiting_for(&self, passed: impl Fn(&Failure) -> bool) -> Vec<IssueId> {
        let waits = |claim: &Claim| {
            matches!(claim.stage, Stage::Waiting { ready: false })
                && claim.failure.as_ref().is_some_and(&passed)
        };
        self.by_issue.iter().filter(|(_, c)| waits(c)).map(|(id, _)| id.clone()).collect()
    }

    /// Returns where a claim came from, if it is being checked by this read.
    pub(super) fn origin(&self, id: &IssueId, read: ReadId) -> Option<Origin> {
        match self.by_issue.get(id)?.stage {
            Stage::Checking { read: open, origin } if open == read => Some(origin),
            _ => None,
        }
    }

    /// Begins a claim in a stage without a run, a deadline or a removal under way.
    pub(super) fn add(&mut self, claim: Claim) {
        debug_assert!(!claim.is_live() && claim.wake.is_none(), "a claim that began elsewhere");
        self.by_issue.insert(claim.issue.id.clone(), claim);
    }

    /// Ends a claim.
    pub(super) fn remove(&mut self, id: &IssueId) -> Option<Claim> {
        self.set_wake(id, None);
        self.ready.remove(id);
        self.dirty.insert(id.clone());
        self.by_issue.remove(id)
    }

    /// Enters Checking: the issue is being read before it starts.
    pub(super) fn check(&mut self, id: &IssueId, read: ReadId, origin: Origin) {
        self.enter(id, Stage::Checking { read, origin }, None);
    }

    /// Enters Waiting: the next attempt is due at `at`.
    pub(super) fn wait_until(&mut self, id: &IssueId, at: Mono) {
        self.enter(id, Stage::Waiting { ready: false }, Some(at));
    }

    /// Enters Waiting: the next attempt is due, and may start as soon as there is a slot.
    pub(super) fn make_ready(&mut self, id: &IssueId) {
        self.enter(id, Stage::Waiting { ready: true }, None);
    }

    /// Enters Blocked: a person is needed. After a question the next run goes on with the
    /// conversation that asked it (contract 10.6).
    pub(super) fn block(&mut self, id: &IssueId, why: BlockReason, since: Now) {
        if let Some(claim) = self.by_issue.get_mut(id) {
            claim.failure = None;
            claim.interruptions = 0;
            claim.asked = None;
            claim.unanswered = matches!(why, BlockReason::Question(_)) && claim.thread.is_some();
            if !claim.unanswered {
                claim.forget_thread();
            }
        }
        self.enter(id, Stage::Blocked { why, since, seen: false }, None);
    }

    /// Notes that a read has shown in which state a blocked issue was left.
    pub(super) fn note_left(&mut self, id: &IssueId) {
        match self.by_issue.get_mut(id).map(|claim| &mut claim.stage) {
            Some(Stage::Blocked { seen, .. }) if !*seen => *seen = true,
            _ => return,
        }
        self.dirty.insert(id.clone());
    }

    /// Enters Cleaning: the workspace is being removed.
    pub(super) fn clean(
        &mut self,
        id: &IssueId,
        workspace: Removal,
        removal: RemovalId,
        failures: u32,
    ) {
        if let (Some(claim), Removal::Recorded(record)) = (self.by_issue.get_mut(id), &workspace) {
            claim.key = record.key.clone();
        }
        self.removals.insert(removal, id.clone());
        self.enter(id, Stage::Cleaning { workspace, removal: Some(removal), failures }, None);
    }

    /// Ends a removal. Returns its issue, what was to be removed, and how often that failed before.
    pub(super) fn end_removal(&mut self, removal: RemovalId) -> Option<(IssueId, Removal, u32)> {
        let id = self.removals.remove(&removal)?;
        let Some(Stage::Cleaning { workspace, failures, .. }) =
            self.by_issue.get(&id).map(|claim| &claim.stage)
        else {
            debug_assert!(false, "a removal without a claim that cleans");
            return None;
        };
        Some((id, workspace.clone(), *failures))
    }

    /// Stays in Cleaning: the workspace is removed at `at`.
    pub(super) fn clean_later(&mut self, id: &IssueId, what: Removal, failures: u32, at: Mono) {
        let stage = Stage::Cleaning { workspace: what, removal: None, failures };
        self.enter(id, stage, Some(at));
    }

    /// Whether a run or a removal is under way.
    pub(super) fn has_work(&self) -> bool {
        !self.runs.is_empty() || !self.removals.is_empty()
    }

    /// Returns when the first deadline is.
    pub(super) fn next_deadline(&self) -> Option<Mono> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Takes the deadline of a claim whose time has come. Returns the issue.
    pub(super) fn take_due(&mut self, now: Mono) -> Option<IssueId> {
        let (_, id) = self.deadlines.first().filter(|(at, _)| *at <= now)?;
        let id = id.clone();
        self.set_wake(&id, None);
        Some(id)
    }

    /// Moves a claim to another stage. Everything indexed by stage is kept true here.
    fn enter(&mut self, id: &IssueId, stage: Stage, wake: Option<Mono>) {
        let Some(claim) = self.by_issue.get_mut(id) else {
            debug_assert!(false, "a stage for an issue without a claim");
            return;
        };
        let ready = matches!(stage, Stage::Waiting { ready: true });
        // Becoming due does not change the version of a waiting claim.
        let waits_on =
            matches!((&claim.stage, &stage), (Stage::Waiting { .. }, Stage::Waiting { .. }));
        claim.stage = stage;
        self.dirty.insert(id.clone());
        if !waits_on {
            claim.version += 1;
        }
        if ready {
            self.ready.insert(id.clone());
        } else {
            self.ready.remove(id);
        }
        self.set_wake(id, wake);
    }

    /// Sets or clears the one deadline of a claim.
    fn set_wake(&mut self, id: &IssueId, wake: Option<Mono>) {
        let Some(claim) = self.by_issue.get_mut(id) else {
            return;
        };
        if claim.wake == wake {
            return;
        }
        if let Some(old) = claim.wake.take() {
            self.deadlines.remove(&(old, id.clone()));
        }
        claim.wake = wake;
        if let Some(new) = wake {
            self.deadlines.insert((new, id.clone()));
        }
    }
}

/// Snapshots of claimed issues.
impl Claims {
    /// Takes over a newer snapshot of a claimed issue.
    pub(super) fn accept(&mut self, id: &IssueId, read: ReadId, fresh: Arc<Issue>) -> Accepted {
        let Some(claim) = self.by_issue.get_mut(id).filter(|claim| claim.seen <= read) else {
            return Accepted::default();
        };
        claim.seen = read;
        let moved = mark(&claim.issue) != mark(&fresh);
        let freed_slot = claim.issue.state != fresh.state && claim.is_live();
        if freed_slot {
            self.slots.vacate(&claim.issue.state, &claim.host);
            self.slots.occupy(&fresh.state, &claim.host);
        }
        if *claim.issue != *fresh {
            self.dirty.insert(id.clone());
        }
        claim.issue = fresh;
        Accepted { moved, freed_slot }
    }

    /// Notes that a read, which did not bring the issue, is the newest about it.
    pub(super) fn saw(&mut self, id: &IssueId, read: ReadId) {
        if let Some(claim) = self.by_issue.get_mut(id) {
            claim.seen = claim.seen.max(read);
        }
    }

    /// Whether the claim already knows something newer than this read.
    pub(super) fn is_older(&self, id: &IssueId, read: ReadId) -> bool {
        self.by_issue.get(id).is_some_and(|claim| claim.seen > read)
    }
}
