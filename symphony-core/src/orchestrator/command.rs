//! What operators and reloads change (contract 2.6, 2.7, 4.7, 14.2).

use std::sync::Arc;

use crate::failure::FailureKind;
use crate::issue::IssueId;
use crate::problem::Problem;
use crate::settings::TrackerSettings;
use crate::time::Now;
use crate::workspace::{HostId, WorkspaceKey};

use super::claims::{After, Claim, Origin, Stage};
use super::reads::Asked;
use super::{
    BlockReason, Command, Configuration, Decisions, NoticeKind, Orchestrator, ReadId,
    ReleaseReason, StopReason, StoppedIssue, Workspaces,
};

impl Orchestrator {
    pub(super) fn command(&mut self, command: Command) {
        self.pacing.touch(self.now.mono);
        match command {
            Command::PollNow => self.reads.jobs.wish(),
            Command::Pause => {
                if self.lifecycle.set_paused(true) {
                    self.out.notice(NoticeKind::Paused);
                    self.save();
                }
            }
            Command::Resume => {
                if self.lifecycle.set_paused(false) {
                    self.out.notice(NoticeKind::Resumed);
                    self.save();
                    self.reads.refill.want_now();
                }
            }
            Command::Stop(id) => {
                self.stop_by_operator(&id);
                self.save();
            }
            Command::Retry(id) => {
                self.retry_by_operator(&id);
                self.save();
            }
            Command::ClearHolds => {
                for agent in self.pacing.holds.clear() {
                    self.hold_ended(agent);
                }
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

    /// Begins the end: nothing new starts, live runs are stopped, other claims are released.
    fn shut_down(&mut self) {
        if self.lifecycle.is_shutting_down() {
            return;
        }
        self.lifecycle.shut_down(self.claims.stopped_by_operator(self.now.wall));
        self.save();
        self.out.notice(NoticeKind::ShuttingDown);
        let ids: Vec<IssueId> = self.claims.iter().map(|(id, _)| id.clone()).collect();
        for id in ids {
            let Some(claim) = self.claims.get(&id) else {
                continue;
            };
            match claim.stage() {
                Stage::Running { .. } => {
                    let release = After::Release(ReleaseReason::ShutDown);
                    self.stop(&id, StopReason::ShutDown, release);
                }
                Stage::Stopping { .. } | Stage::Cleaning { removal: Some(_), .. } => {}
                Stage::Checking { .. }
                | Stage::Waiting { .. }
                | Stage::Blocked { .. }
                | Stage::Cleaning { .. } => self.release(&id, ReleaseReason::ShutDown),
            }
        }
    }

    /// Takes over another workflow file. Live runs keep what they began with (contract 2.7).
    pub(super) fn reloaded(&mut self, new: Configuration, workspaces: Option<Workspaces>) {
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

    /// Restores what operators decided in an earlier life: the issues are blocked as they were, and
    /// the next refresh tells whether they still are.
    pub(super) fn restore_decisions(&mut self, decisions: Decisions) {
        if self.lifecycle.set_paused(decisions.paused) {
            self.out.notice(NoticeKind::Paused);
        }
        for StoppedIssue { issue, since, seen, attempt } in decisions.stopped {
            let id = issue.id.clone();
            // An identifier that cannot name a folder now may be another one when the issue starts.
            let key = self.folders.key_for(&issue);
            let key = key.or_else(|_| WorkspaceKey::derive(&format!("stopped-{id}")));
            let (Ok(key), true) = (key, issue.is_well_formed()) else {
                continue;
            };
            let host =
                self.folders.record(&id).map_or_else(HostId::local, |record| record.host.clone());
            // The monotonic clock of an earlier life says nothing here.
            let since = Now { mono: self.now.mono, wall: since };
            let why = BlockReason::Operator;
            let stage = Stage::Blocked { why: why.clone(), since, seen };
            let mut claim = Claim::new(Arc::new(issue), ReadId(0), key, host, stage);
            claim.attempt = attempt;
            self.claims.add(claim);
            self.notice_of(&id, None, NoticeKind::Blocked { why });
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
