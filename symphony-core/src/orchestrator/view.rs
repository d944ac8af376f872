//! The snapshot: the claims and runs as rows (contract 13.2).

use std::sync::Arc;

use crate::run::RunId;
use crate::snapshot::{
    BlockedRow, CheckingRow, CleaningRow, Polling, Reason, RunningRow, Slots, Snapshot, Totals,
    WaitingRow,
};
use crate::time::Now;

use super::claims::{Claim, Run, Stage};
use super::{Orchestrator, StopReason};

impl Orchestrator {
    /// Everything, as of now. Costs about as much as copying its rows.
    #[must_use]
    pub fn snapshot(&self, now: Now) -> Snapshot {
        let eligibility = self.eligibility();
        let candidates = self.view.get_or_init(|| Arc::new(eligibility.overview()));
        let some_go = candidates.reasons.contains_key(Reason::NextRead.as_str());
        let runs = self.claims.runs().len();
        let (polling, pacing, pace) =
            (&self.settings().polling, &self.pacing, self.schedule().job_pace());
        let has_claims = self.claims.values().any(Claim::is_refreshed);
        let interval = if self.claims.is_empty() {
            pace.candidates
        } else {
            pace.candidates.min(pace.refresh)
        };
        let mut snapshot = Snapshot {
            now,
            running: Vec::with_capacity(runs),
            // As a rule, what does not run waits.
            waiting: Vec::with_capacity(self.claims.len().saturating_sub(runs)),
            blocked: Vec::new(),
            checking: Vec::new(),
            cleaning: Vec::new(),
            slots: Slots {
                limit: self.settings().agent.max_concurrent_agents,
                ..self.claims.slots().clone()
            },
            totals: self.live_totals(now),
            rate_limits: pacing.holds.rate_limits().cloned(),
            holds: pacing.holds.rows().cloned().collect(),
            polling: Polling {
                mode: pacing.mode(polling, now.mono),
                quiet: pacing.is_quiet(),
                jobs: self.reads.jobs.rows(&pace, has_claims),
                requests_today: pacing.requests.of(now.wall.day()),
                projected_today: pacing.requests.projected(now, interval),
                budget: pacing.requests.budget().cloned(),
                webhook: self.backlog.deliveries.view(now.mono),
            },
            verdict: eligibility.verdict(some_go),
            candidates: Arc::clone(candidates),
            paused: self.lifecycle.is_paused(),
            shutting_down: self.lifecycle.is_shutting_down(),
            problems: self.lifecycle.problems().to_vec(),
        };
        for claim in self.claims.values() {
            self.add_row(&mut snapshot, claim);
        }
        snapshot
    }

    fn add_row(&self, snapshot: &mut Snapshot, claim: &Claim) {
        let issue = || Arc::clone(claim.issue());
        match claim.stage() {
            Stage::Running { run } => {
                if let Some(live) = self.claims.run(*run) {
                    snapshot.running.push(running(*run, live, claim, None, false));
                }
            }
            Stage::Stopping { run, why, overdue, .. } => {
                if let Some(live) = self.claims.run(*run) {
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

    fn live_totals(&self, now: Now) -> Totals {
        let live = self.claims.runs().map(|(_, run)| now.mono.since(run.started.mono)).sum();
        let mut totals = self.totals.clone();
        totals.runtime = totals.runtime.saturating_add(live);
        totals
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
        tokens: run.tokens,
        last_event: run.last_event.clone(),
        last_alive: run.last_alive,
    }
}
