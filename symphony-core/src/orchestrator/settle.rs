//! What is due: deadlines, then reads, then slots (contract 4.4).

use std::sync::Arc;

use crate::failure::{Failure, FailureKind};
use crate::issue::IssueId;
use crate::policy::{self, Standing};
use crate::run::RunId;

use super::claims::{After, Run, Stage};
use super::{NoticeKind, Orchestrator, ReleaseReason, Step, StopReason};

impl Orchestrator {
    /// Does everything that is due.
    pub(super) fn settle(&mut self) -> Step {
        self.view.take();
        let now = self.now.mono;
        while let Some(id) = self.claims.take_due(now) {
            self.claim_due(&id);
        }
        if self.pacing.holds.pass(now) {
            self.reads.refill.want_now();
        }
        self.reads.refill.pass(now);
        if let Some(id) = self.backlog.deliveries.pass(now) {
            self.out.notice(NoticeKind::DeliveryMissed { id });
        }
        if !self.lifecycle.is_shutting_down() {
            self.read_turns();
            self.run_jobs();
            self.fill_slots();
            self.backlog.unblock(&self.configuration.settings.tracker, &self.claims);
            self.read_deliveries();
        }
        if let Some(mode) = self.pacing.changed_mode(&self.configuration.settings.polling, now) {
            self.out.notice(NoticeKind::ModeChanged { mode });
        }
        self.write_rows();
        let wakeups = [self.schedule().next_wakeup(), self.journal.usage_due()];
        self.wakeup = wakeups.into_iter().flatten().min();
        std::mem::take(&mut self.out)
    }

    /// Acts on a claim whose deadline has passed.
    fn claim_due(&mut self, id: &IssueId) {
        let Some(claim) = self.claims.get(id) else {
            return;
        };
        match claim.stage() {
            Stage::Waiting { .. } => {
                let issue = Arc::clone(claim.issue());
                self.make_ready(id);
                if self.eligibility().slot_for(&issue).is_err() {
                    self.notice_of(id, None, NoticeKind::Queued);
                }
            }
            Stage::Running { run } => self.run_due(id, *run),
            Stage::Stopping { run, .. } => {
                let run = *run;
                self.claims.note_overdue(id);
                self.notice_of(id, Some(run), NoticeKind::StopOverdue);
            }
            Stage::Cleaning { workspace, removal: None, failures } => {
                let (workspace, failures) = (workspace.clone(), *failures);
                let is_alive = self.backlog.shows_alive_since(id, claim.seen());
                if self.folders.has(&workspace) && !is_alive {
                    self.remove(id, workspace, failures);
                } else {
                    self.release(id, ReleaseReason::Terminal);
                }
            }
            Stage::Checking { .. } | Stage::Blocked { .. } | Stage::Cleaning { .. } => {
                debug_assert!(false, "a deadline for a stage that has none");
            }
        }
    }

    /// Stops a run whose grace is over, or whose agent has been silent for too long (contract 8.1,
    /// 8.2), and finishes one whose turn could not be kept in time (16.3). A deadline that a later
    /// sign of life has outdated is set again.
    fn run_due(&mut self, id: &IssueId, run: RunId) {
        let now = self.now.mono;
        if let Some(after) = self.claims.run_mut(run).and_then(|live| live.end_grace(now)) {
            // Other settings may have made it active since.
            let is_active = self.claims.get(id).is_some_and(|claim| {
                policy::standing(claim.issue(), &self.settings().tracker) == Standing::Active
            });
            if is_active {
                return self.claims.watch(run);
            }
            let is_over = after == After::Clean;
            let why = if is_over { StopReason::Terminal } else { StopReason::NotActive };
            return self.stop(id, why, after);
        }
        let store = self.claims.run(run).and_then(Run::store_deadline);
        if store.is_some_and(|by| by <= now) {
            let failure = Failure::new(FailureKind::Storage, "the turn could not be recorded");
            return self.finish(run, Some(After::Postpone(failure)));
        }
        let Some(silent) = self.claims.stalled_for(run, now) else {
            return self.claims.watch(run);
        };
        let message = format!("no sign of life for {} s", silent.as_secs());
        let failure = Failure::new(FailureKind::Stalled, message);
        self.stop(id, StopReason::Stalled, After::Retry(failure));
    }
}
