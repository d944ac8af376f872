//! How a life takes over from the last one (contract 16.4).

use std::sync::Arc;
use std::time::Duration;

use crate::failure::{Failure, FailureKind};
use crate::issue::IssueId;
use crate::policy;
use crate::store::{ClaimRow, ClaimStage, HeldAgentRow, RunRow};
use crate::time::Now;

use super::claims::{Claim, Stage, Thread};
use super::{BlockReason, NoticeKind, Orchestrator, Outcome, ReadId};

/// From this interruption in a row on, a claim waits: its issue may be what kills the service.
const FIRST_DELAYED_INTERRUPTION: u32 = 3;

impl Orchestrator {
    /// Restores the claims that an earlier life, or an earlier stay in this scope, has left. Each is
    /// read before it starts (5.4).
    pub(super) fn restore_claims(&mut self, rows: Vec<ClaimRow>) {
        for row in rows {
            if !row.issue.is_well_formed() || row.scope != self.configuration.scope {
                continue;
            }
            match self.claims.get(&row.issue.id) {
                None => self.restore_claim(row),
                // The scope is back before its run ended: the claim never left.
                Some(claim) if *claim.scope() == row.scope => {}
                // A run of the same id in another scope still lives.
                Some(_) => {
                    self.parked.insert(row.issue.id.clone(), row);
                }
            }
        }
    }

    fn restore_claim(&mut self, row: ClaimRow) {
        let (id, stage) = (row.issue.id.clone(), row.stage);
        let mut claim = claim_of(&row, self.now);
        if stage == ClaimStage::Running {
            claim.interruptions = claim.interruptions.saturating_add(1);
            claim.failure = Some(interrupted());
        }
        let why = match claim.stage() {
            Stage::Blocked { why, .. } => Some(why.clone()),
            _ => None,
        };
        let delay = match stage {
            ClaimStage::Blocked => Duration::ZERO,
            ClaimStage::Waiting => row.due.map(|due| due.rest(self.now.wall)).unwrap_or_default(),
            ClaimStage::Running => self.interruption_delay(claim.interruptions),
        };
        let (attempt, failure) = (claim.attempt.unwrap_or(0), claim.failure.clone());
        self.claims.add(claim);
        let until = self.now.mono + delay;
        match why {
            Some(why) => self.notice_of(&id, None, NoticeKind::Blocked { why }),
            None => {
                if delay.is_zero() {
                    self.claims.make_ready(&id);
                } else {
                    self.claims.wait_until(&id, until);
                }
                self.notice_of(&id, None, NoticeKind::Waiting { attempt, until, failure });
            }
        }
        let wake = self.claims.get(&id).and_then(Claim::wake);
        self.journal.restore_claim(wake.filter(|_| stage == ClaimStage::Waiting), row);
        self.claims.get_mut(&id); // its row may be another now
    }

    fn interruption_delay(&self, interruptions: u32) -> Duration {
        let late = interruptions.saturating_sub(FIRST_DELAYED_INTERRUPTION - 1);
        match late {
            0 => Duration::ZERO,
            nth => policy::backoff(nth, self.settings().agent.max_retry_backoff),
        }
    }

    /// Goes on with the holds of the last life.
    pub(super) fn restore_holds(&mut self, rows: Vec<HeldAgentRow>) {
        for row in rows {
            let until = self.now.mono + row.due.rest(self.now.wall);
            self.pacing.holds.restore(&row.agent, until, &row.failure);
            self.journal.restore_hold(until, row);
        }
    }

    /// Books the runs that the last life did not end.
    pub(super) fn end_open_runs(&mut self, rows: Vec<RunRow>) {
        for mut row in rows {
            row.ended = Some(self.now.wall);
            row.outcome = Some(Outcome::Interrupted);
            row.failure = Some(interrupted());
            self.totals.count_end(Outcome::Interrupted, Duration::ZERO);
            self.journal.write_run(row, false);
        }
        self.journal.write_totals(&self.totals);
    }

    /// Lets go of claims that belong to another scope and do not live: their rows stay, for the
    /// return of that scope.
    pub(super) fn leave_other_scopes(&mut self) {
        let scope = &self.configuration.scope;
        let others = self.claims.iter().filter(|(_, claim)| claim.scope() != scope);
        let idle = others.filter(|(_, claim)| !claim.is_in_folder());
        for id in idle.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.park(&id);
        }
    }

    /// Lets go of a claim of another scope, if this is one, and takes up what waits in its place.
    pub(super) fn park(&mut self, id: &IssueId) {
        let scope = &self.configuration.scope;
        if self.claims.get(id).is_some_and(|claim| claim.scope() != scope) {
            self.journal.write_claim(id, &self.claims, self.now);
            self.journal.leave_claim(id);
            self.unclaim(id);
        }
    }

    /// Restores the claim of this id that a run in another scope kept out.
    pub(super) fn unpark(&mut self, id: &IssueId) {
        if let Some(row) = self.parked.remove(id)
            && row.scope == self.configuration.scope
        {
            // Whatever was kept of the run that is gone has been written.
            self.journal.write_claim(id, &self.claims, self.now);
            self.restore_claim(row);
        }
    }
}

/// Makes the claim of a row. A run that lived is over.
fn claim_of(row: &ClaimRow, now: Now) -> Claim {
    let stage = match row.stage {
        ClaimStage::Waiting | ClaimStage::Running => Stage::Waiting { ready: false },
        ClaimStage::Blocked => Stage::Blocked {
            why: row.question.clone().map_or(BlockReason::Operator, BlockReason::Question),
            // The monotonic clock of an earlier life says nothing here.
            since: Now { mono: now.mono, wall: row.since.unwrap_or(now.wall) },
            seen: row.seen,
        },
    };
    let issue = Arc::new(row.issue.clone());
    let (key, host) = (row.key.clone(), row.host.clone());
    let mut claim = Claim::new(issue, ReadId(0), row.scope.clone(), key, host, stage);
    claim.attempt = row.attempt;
    claim.failure.clone_from(&row.failure);
    claim.unchanged_ends = row.unchanged_ends;
    claim.interruptions = row.interruptions;
    let thread = row.thread.clone().zip(row.agent.as_deref());
    claim.thread = thread.map(|(id, agent)| Thread { id, agent: agent.into() });
    claim.unanswered = row.unanswered;
    claim.asked.clone_from(&row.asked);
    claim.counted.clone_from(&row.counted);
    if matches!(claim.stage(), Stage::Blocked { why: BlockReason::Operator, .. }) {
        claim.forget_thread();
        claim.interruptions = 0;
    }
    claim
}

pub(super) fn interrupted() -> Failure {
    Failure::new(FailureKind::Interrupted, "the service ended while the agent was at work")
}
