//! What operators and reloads change (contract 2.6, 2.7, 4.7, 14.2).

use crate::failure::{Failure, FailureKind};
use crate::issue::IssueId;
use crate::problem::Problem;
use crate::settings::TrackerSettings;
use crate::store::ClaimRow;

use super::claims::{After, Claim, Origin, Stage};
use super::reads::Asked;
use super::restore::interrupted;
use super::{
    BlockReason, Command, Configuration, NoticeKind, Orchestrator, ReadId, ReleaseReason,
    StopReason, Workspaces,
};

impl Orchestrator {
    pub(super) fn command(&mut self, command: Command) {
        self.pacing.touch(self.now.mono);
        match command {
            Command::PollNow => self.reads.jobs.wish(),
            Command::Pause => {
                if self.lifecycle.set_paused(true) {
                    self.out.notice(NoticeKind::Paused);
                }
            }
            Command::Resume => {
                if self.lifecycle.set_paused(false) {
                    self.out.notice(NoticeKind::Resumed);
                    self.reads.refill.want_now();
                }
            }
            Command::Stop(id) => self.stop_by_operator(&id),
            Command::Retry(id) => self.retry_by_operator(&id),
            Command::ClearHolds => {
                let ended = self.pacing.holds.clear();
                self.holds_ended(ended);
            }
            Command::ShutDown => self.shut_down(),
        }
    }

    fn stop_by_operator(&mut self, id: &IssueId) {
        let why = match self.claims.get(id).map(Claim::stage) {
            None => "the issue is not claimed",
            Some(Stage::Cleaning { .. }) => "its workspace is being removed",
            Some(Stage::Running { .. } | Stage::Stopping { .. }) => {
                return self.stop(id, StopReason::Operator, After::Block(BlockReason::Operator));
            }
            Some(Stage::Checking { .. } | Stage::Waiting { .. } | Stage::Blocked { .. }) => {
                return self.block(id, BlockReason::Operator);
            }
        };
        self.notice_of(id, None, NoticeKind::CommandIgnored { why: why.to_owned() });
    }

    fn retry_by_operator(&mut self, id: &IssueId) {
        match self.claims.get(id).map(Claim::stage) {
            Some(Stage::Waiting { .. } | Stage::Blocked { .. }) => self.make_ready(id),
            _ => {
                let why = "the issue neither waits nor is blocked".to_owned();
                self.notice_of(id, None, NoticeKind::CommandIgnored { why });
            }
        }
    }

    /// Begins the end: nothing new starts, and live runs are stopped. What waits or is blocked
    /// stays as it is, for the next life.
    fn shut_down(&mut self) {
        if self.lifecycle.is_shutting_down() {
            return;
        }
        self.lifecycle.shut_down();
        self.write_polls(); // the last read's requests are counted by now
        self.out.notice(NoticeKind::ShuttingDown);
        let ids: Vec<IssueId> = self.claims.iter().map(|(id, _)| id.clone()).collect();
        for id in ids {
            let Some(claim) = self.claims.get(&id) else {
                continue;
            };
            match claim.stage() {
                Stage::Running { .. } => {
                    self.stop(&id, StopReason::ShutDown, After::Postpone(interrupted()));
                }
                Stage::Checking { origin: Origin::Retry, .. } => self.claims.make_ready(&id),
                Stage::Checking { .. } | Stage::Cleaning { removal: None, .. } => {
                    self.release(&id, ReleaseReason::ShutDown);
                }
                Stage::Stopping { .. }
                | Stage::Cleaning { .. }
                | Stage::Waiting { .. }
                | Stage::Blocked { .. } => {}
            }
        }
    }

    /// Notes that nothing can be written for the next life, or that it can be again: starts wait
    /// meanwhile, all else goes on.
    pub(super) fn storage(&mut self, failure: Option<Failure>) {
        let is_over = failure.is_none();
        if self.lifecycle.set_storage(failure.clone()) {
            self.out.notice(NoticeKind::Storage { failure });
        }
        if is_over {
            self.wake_waiting(|failure| failure.kind == FailureKind::Storage);
            self.reads.refill.want_now();
        }
    }

    /// Takes over another workflow file. Live runs keep what they began with (contract 2.7).
    pub(super) fn reloaded(
        &mut self,
        new: Configuration,
        workspaces: Option<Workspaces>,
        claims: Vec<ClaimRow>,
    ) {
        let old = std::mem::replace(&mut self.configuration, new);
        self.pacing.touch(self.now.mono);
        let was_invalid = self.lifecycle.set_problems(Vec::new());
        let is_new_tracker = old.generation != self.configuration.generation;
        let is_new_scope = old.scope != self.configuration.scope;
        self.folders.enter_scope(&self.configuration.scope);
        if is_new_tracker {
            self.abandon_tracker();
        }
        self.backlog.deliveries.reload(is_new_tracker, is_new_scope);
        let asks_otherwise = is_new_tracker
            || is_new_scope
            || !asks_the_same(&old.settings.tracker, &self.settings().tracker);
        if asks_otherwise {
            self.backlog.forget_list();
        }
        if asks_otherwise || was_invalid {
            self.reads.jobs.candidates.hurry();
        }
        if old.settings.agent.kind != self.configuration.settings.agent.kind {
            self.wake_waiting(|failure| failure.kind.is_limit());
        }
        self.backlog.forget_learned();
        if let Some(workspaces) = workspaces {
            self.folders.take_over(workspaces);
        }
        let agent = &self.configuration.settings.agent;
        self.claims.set_stall_timeout(&agent.kind, agent.common.stall_timeout);
        if is_new_scope {
            self.parked.clear();
            self.leave_other_scopes();
            self.restore_claims(claims);
        }
        self.out.notice(NoticeKind::Reloaded);
        self.reads.refill.want_now();
    }

    /// Notes that the workflow file cannot be used: starts wait, all else goes on. Each distinct
    /// problem is told once.
    pub(super) fn reload_failed(&mut self, problems: Vec<Problem>) {
        if self.lifecycle.set_problems(problems) {
            let problems = self.lifecycle.problems().to_vec();
            self.out.notice(NoticeKind::WorkflowInvalid { problems });
        }
    }

    /// Abandons what was asked of the tracker before it was rebuilt: it is asked anew, and the
    /// waits that the old tracker wanted end (contract 4.8).
    fn abandon_tracker(&mut self) {
        for (read, asked) in self.reads.abandon(self.configuration.generation) {
            match asked {
                Asked::Check { chosen } => self.abandon_check(read, chosen),
                Asked::Turn { runs } => {
                    for run in runs {
                        if self.claims.is_running(run) {
                            self.reads.turns.wait(run, self.now.mono);
                        }
                    }
                }
                Asked::Delivery { claimed, others } => {
                    let claimed = claimed.into_iter().map(|(id, _)| id);
                    self.backlog.deliveries.read_again(claimed.chain(others));
                }
                Asked::Poll(_) | Asked::Strays | Asked::Abandoned(_) => {}
            }
        }
        self.pacing.requests.forget_budget();
        self.wake_waiting(|failure| matches!(failure.kind, FailureKind::Tracker(_)));
    }

    fn abandon_check(&mut self, read: ReadId, chosen: Vec<IssueId>) {
        for id in chosen {
            match self.claims.origin(&id, read) {
                Some(Origin::Fresh) => self.unclaim(&id),
                Some(Origin::Retry) => self.make_ready(&id),
                None => {}
            }
        }
    }
}

/// Whether two settings mean the same issues. The provider's own part is not compared: where it
/// matters the tracker is built anew, and a recorded one is masked.
fn asks_the_same(old: &TrackerSettings, new: &TrackerSettings) -> bool {
    old.active_states == new.active_states
        && old.terminal_states == new.terminal_states
        && old.required_labels == new.required_labels
}
