//! The claims and their runs as rows of the snapshot (contract 13.2).

use std::sync::Arc;
use std::time::Duration;

use crate::orchestrator::StopReason;
use crate::run::RunId;
use crate::snapshot::{BlockedRow, CheckingRow, CleaningRow, RunningRow, Snapshot, WaitingRow};
use crate::time::Mono;

use super::{Claim, Claims, Run, Stage};

impl Claims {
    /// Returns how long the live runs have taken so far, all together.
    pub(in crate::orchestrator) fn live_runtime(&self, now: Mono) -> Duration {
        self.runs.values().map(|run| now.since(run.started.mono)).sum()
    }

    /// Adds one row per claim.
    pub(in crate::orchestrator) fn add_rows(&self, snapshot: &mut Snapshot) {
        let runs = self.runs.len();
        snapshot.running.reserve_exact(runs);
        // As a rule, what does not run waits.
        snapshot.waiting.reserve_exact(self.by_issue.len().saturating_sub(runs));
        for claim in self.by_issue.values() {
            self.add_row(snapshot, claim);
        }
    }

    fn add_row(&self, snapshot: &mut Snapshot, claim: &Claim) {
        let issue = || Arc::clone(claim.issue());
        match claim.stage() {
            Stage::Running { run } => {
                if let Some(live) = self.runs.get(run) {
                    snapshot.running.push(running(*run, live, claim, None, false));
                }
            }
            Stage::Stopping { run, why, overdue, .. } => {
                if let Some(live) = self.runs.get(run) {
                    snapshot.running.push(running(*run, live, claim, Some(*why), *overdue));
                }
            }
            Stage::Waiting { .. } => snapshot.waiting.push(WaitingRow {
                issue: issue(),
                attempt: claim.attempt.unwrap_or(0),
                until: claim.wake(),
                failure: claim.failure.clone(),
                unchanged_ends: claim.unchanged_ends,
            }),
            Stage::Blocked { why, since, .. } => {
                let row = BlockedRow { issue: issue(), why: why.clone(), since: *since };
                snapshot.blocked.push(row);
            }
            Stage::Checking { .. } => {
                snapshot.checking.push(CheckingRow { issue: issue(), attempt: claim.attempt });
            }
            Stage::Cleaning { failures, .. } => snapshot.cleaning.push(CleaningRow {
                issue: issue(),
                failures: *failures,
                until: claim.wake(),
            }),
        }
    }
}

fn running(
    id: RunId,
    run: &Run,
    claim: &Claim,
    stopping: Option<StopReason>,
    stop_overdue: bool,
) -> RunningRow {
    RunningRow {
        issue: Arc::clone(claim.issue()),
        run: id,
        attempt: claim.attempt,
        host: claim.host().clone(),
        key: claim.key().clone(),
        phase: run.phase,
        stopping,
        stop_overdue,
        started: run.started,
        turns: run.turns,
        max_turns: run.max_turns,
        unrequested_turns: run.unrequested_turns,
        finish_by: run.finish_by,
        thread: claim.thread.as_ref().map(|thread| thread.id.clone()),
        session_id: run.session_id.clone(),
        pid: run.pid,
        model: run.model.clone(),
        effort: run.effort.clone(),
        tokens: run.tokens,
        cost: run.cost,
        last_event: run.last_event.clone(),
        last_alive: run.last_alive,
    }
}
