//! Live runs: how they start, stop and end, and by when they must show a sign of life (contract
//! 6.2, 6.3, 8.1).

use std::time::Duration;

use crate::issue::IssueId;
use crate::orchestrator::StopReason;
use crate::run::RunId;
use crate::time::Mono;
use crate::workspace::{HostId, WorkspaceKey};

use super::{After, Claim, Claims, Run, Stage};

/// What a stopped run may take beyond its grace and its hook before it is called overdue.
const STOP_MARGIN: Duration = Duration::from_secs(10);

impl Claims {
    pub(in crate::orchestrator) fn run(&self, run: RunId) -> Option<&Run> {
        self.runs.get(&run)
    }

    #[inline]
    pub(in crate::orchestrator) fn run_mut(&mut self, run: RunId) -> Option<&mut Run> {
        self.runs.get_mut(&run)
    }

    /// Returns a run and its claim.
    #[inline]
    pub(in crate::orchestrator) fn live_mut(
        &mut self,
        run: RunId,
    ) -> Option<(&mut Run, &mut Claim)> {
        let live = self.runs.get_mut(&run)?;
        let claim = self.by_issue.get_mut(&live.issue)?;
        Some((live, claim))
    }

    pub(in crate::orchestrator) fn runs(&self) -> impl ExactSizeIterator<Item = (RunId, &Run)> {
        self.runs.iter().map(|(id, run)| (*id, run))
    }

    /// Whether a run lives and was not told to stop.
    pub(in crate::orchestrator) fn is_running(&self, run: RunId) -> bool {
        let claim = self.runs.get(&run).and_then(|live| self.by_issue.get(&live.issue));
        claim.is_some_and(|claim| matches!(claim.stage, Stage::Running { .. }))
    }

    /// Whether a run lives and was told to finish.
    pub(in crate::orchestrator) fn is_finishing(&self, run: RunId) -> bool {
        self.runs.get(&run).is_some_and(Run::is_finishing)
    }

    /// Begins a run of a claim, in this folder and in a slot of this machine.
    pub(in crate::orchestrator) fn start(
        &mut self,
        run: RunId,
        live: Run,
        key: WorkspaceKey,
        host: HostId,
    ) {
        let id = live.issue.clone();
        let Some(claim) = self.by_issue.get_mut(&id) else {
            debug_assert!(false, "a run without a claim");
            return;
        };
        claim.key = key;
        claim.host = host;
        self.slots.occupy(&claim.issue.state, &claim.host);
        self.runs.insert(run, live);
        self.dirty_runs.insert(run);
        self.enter(&id, Stage::Running { run }, None);
    }

    /// Ends a run and frees its slot. Its claim is to enter another stage, or to be removed.
    pub(in crate::orchestrator) fn end_run(&mut self, run: RunId) -> Option<Run> {
        let live = self.runs.remove(&run)?;
        self.dirty_runs.insert(run);
        let Some(claim) = self.by_issue.get(&live.issue) else {
            debug_assert!(false, "a run without a claim");
            return None;
        };
        self.slots.vacate(&claim.issue.state, &claim.host);
        Some(live)
    }

    /// Notes that a live run is to stop, and what follows. Returns the run if it was not told
    /// before.
    pub(in crate::orchestrator) fn stop(
        &mut self,
        id: &IssueId,
        why: StopReason,
        after: After,
        now: Mono,
    ) -> Option<RunId> {
        let mut then = after;
        self.dirty.insert(id.clone());
        let run = match &mut self.by_issue.get_mut(id)?.stage {
            Stage::Stopping { then: decided, by_operator, .. } => {
                *by_operator |= why == StopReason::Operator;
                decided.escalate(then);
                return None;
            }
            Stage::Running { run } => *run,
            _ => {
                debug_assert!(false, "a stop without a live run");
                return None;
            }
        };
        let mut bound = STOP_MARGIN;
        if let Some(live) = self.runs.get_mut(&run) {
            bound = bound.saturating_add(live.ends_within);
            live.finish_by = None;
            // A finishing run may already have something graver to follow.
            if let Some(decided) = live.then.take() {
                then.escalate(decided);
            }
        }
        let by_operator = why == StopReason::Operator;
        let stage = Stage::Stopping { run, why, then, overdue: false, by_operator };
        self.enter(id, stage, Some(now + bound));
        Some(run)
    }

    /// Changes what follows a stop, where a read of the issue led to it: a newer one may lead
    /// elsewhere. Returns whether it did.
    pub(in crate::orchestrator) fn revise_stop(&mut self, id: &IssueId, after: After) -> bool {
        match self.by_issue.get_mut(id).map(|claim| &mut claim.stage) {
            Some(Stage::Stopping { then, .. }) if then.is_about_the_issue() => {
                *then = after;
                true
            }
            _ => false,
        }
    }

    /// Notes that a run which was told to stop is still there after its bound.
    pub(in crate::orchestrator) fn note_overdue(&mut self, id: &IssueId) {
        if let Some(Stage::Stopping { overdue, .. }) =
            self.by_issue.get_mut(id).map(|claim| &mut claim.stage)
        {
            *overdue = true;
        }
    }

    /// Changes a run, and its deadline if the change says that it may be another. Returns what the
    /// change said.
    pub(in crate::orchestrator) fn change(
        &mut self,
        run: RunId,
        change: impl FnOnce(&mut Run) -> bool,
    ) -> bool {
        let is_other = self.runs.get_mut(&run).is_some_and(change);
        if is_other {
            self.watch(run);
        }
        is_other
    }

    /// Runs of this kind of agent stall after another time from now on. Those of another kind keep
    /// the time that was last set for theirs.
    pub(in crate::orchestrator) fn set_stall_timeout(
        &mut self,
        agent: &str,
        timeout: Option<Duration>,
    ) {
        let of_this_kind = self.runs.iter().filter(|(_, run)| *run.agent == *agent);
        for id in of_this_kind.map(|(id, _)| *id).collect::<Vec<_>>() {
            if let Some(run) = self.runs.get_mut(&id) {
                run.stall_timeout = timeout;
            }
            self.watch(id);
        }
    }

    /// Sets the deadline of a run that is not stopping: the end of its grace, a stall where silence
    /// counts, or the end of the wait for the store, whichever comes first.
    pub(in crate::orchestrator) fn watch(&mut self, run: RunId) {
        if !self.is_running(run) {
            return;
        }
        let Some(live) = self.runs.get(&run) else {
            return;
        };
        let timeout = live.stall_timeout.filter(|_| live.can_stall());
        let stall = timeout.map(|timeout| live.last_alive + timeout);
        let (id, grace, store) = (live.issue.clone(), live.finish_by, live.store_deadline());
        self.set_wake(&id, [stall, grace, store].into_iter().flatten().min());
    }

    /// Returns how long a run has been silent, if that is too long (contract 8.1).
    pub(in crate::orchestrator) fn stalled_for(&self, run: RunId, now: Mono) -> Option<Duration> {
        let live = self.runs.get(&run).filter(|live| live.can_stall())?;
        let silence = now.since(live.last_alive);
        (live.last_alive + live.stall_timeout? <= now).then_some(silence)
    }
}
