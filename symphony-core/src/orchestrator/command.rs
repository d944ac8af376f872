//! What operators and reloads change (contract 2.6, 2.7, 4.7, 14.2).

use crate::failure::FailureKind;
use crate::issue::IssueId;
use crate::problem::Problem;
use crate::settings::TrackerSettings;

use super::claim::{After, Origin, Stage};
use super::kept::Kept;
use super::read::Asked;
use super::{
    BlockReason, Command, Configuration, Happened, Orchestrator, ReadId, ReleaseReason, RunId,
    StopReason, Workspaces,
};

impl Orchestrator {
    pub(super) fn command(&mut self, command: Command) {
        self.touch();
        match command {
            Command::PollNow => {
                self.jobs.candidates.manual = true;
                self.jobs.refresh.manual = true;
            }
            Command::Pause => self.pause(),
            Command::Resume => self.resume(),
            Command::Stop(id) => {
                self.stop_by_operator(&id);
                self.save();
            }
            Command::Retry(id) => {
                self.retry_by_operator(&id);
                self.save();
            }
            Command::ClearHolds => self.clear_holds(),
            Command::ShutDown => self.shut_down(),
        }
    }

    fn pause(&mut self) {
        if !std::mem::replace(&mut self.paused, true) {
            self.notice(Happened::Paused);
            self.save();
        }
    }

    fn resume(&mut self) {
        if std::mem::replace(&mut self.paused, false) {
            self.notice(Happened::Resumed);
            self.save();
            self.refill_now();
        }
    }

    fn ignored(&mut self, id: &IssueId, why: &str) {
        self.notice_of(id, None, Happened::CommandIgnored { why: why.to_owned() });
    }

    fn stop_by_operator(&mut self, id: &IssueId) {
        match self.claims.get(id).map(|claim| &claim.stage) {
            None => self.ignored(id, "the issue is not claimed"),
            Some(Stage::Cleaning { .. }) => self.ignored(id, "its workspace is being removed"),
            Some(Stage::Running { .. } | Stage::Stopping { .. }) => {
                self.stop(id, StopReason::Operator, After::Block(BlockReason::Operator));
            }
            Some(Stage::Checking { .. } | Stage::Waiting { .. } | Stage::Blocked { .. }) => {
                self.block(id, BlockReason::Operator);
            }
        }
    }

    fn retry_by_operator(&mut self, id: &IssueId) {
        match self.claims.get(id).map(|claim| &claim.stage) {
            Some(Stage::Waiting { .. } | Stage::Blocked { .. }) => self.make_ready(id),
            _ => self.ignored(id, "the issue neither waits nor is blocked"),
        }
    }

    /// No new work; everything that lives is stopped; the rest is let go.
    fn shut_down(&mut self) {
        if std::mem::replace(&mut self.shutting_down, true) {
            return;
        }
        // What is let go below is still decided.
        self.stopped_at_end = self.decisions().stopped;
        self.save();
        self.notice(Happened::ShuttingDown);
        let ids: Vec<IssueId> = self.claims.keys().cloned().collect();
        for id in ids {
            let Some(claim) = self.claims.get(&id) else {
                continue;
            };
            match claim.stage {
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

    /// Another workflow file is in force. What runs keeps what it began with (contract 2.7).
    pub(super) fn reloaded(&mut self, new: Configuration, workspaces: Option<Workspaces>) {
        let old = std::mem::replace(&mut self.configuration, new);
        self.touch();
        let was_invalid = !std::mem::take(&mut self.problems).is_empty();
        self.jobs.candidates.asap |= was_invalid;
        if old.generation != self.configuration.generation {
            self.abandon_reads();
            self.forget_penalties();
            self.deliveries.begin_anew();
        }
        if old.scope != self.configuration.scope {
            self.deliveries.forget_issues();
        }
        if old.generation != self.configuration.generation
            || old.scope != self.configuration.scope
            || !asks_the_same(&old.settings.tracker, &self.configuration.settings.tracker)
        {
            self.kept = Kept::default();
            self.jobs.candidates.asap = true;
        }
        if old.settings.agent.kind != self.configuration.settings.agent.kind {
            self.wake_held();
        }
        self.kept.learned.clear();
        if let Some(workspaces) = workspaces {
            self.take_over(workspaces);
        }
        let runs: Vec<RunId> = self.runs.keys().copied().collect();
        for run in runs {
            self.watch_run(run);
        }
        self.notice(Happened::Reloaded);
        self.refill_now();
    }

    /// The file cannot be used: starts wait, all else goes on. Told once per distinct problem.
    pub(super) fn reload_failed(&mut self, problems: Vec<Problem>) {
        if problems != self.problems {
            self.notice(Happened::WorkflowInvalid { problems: problems.clone() });
        }
        self.problems = problems;
    }

    /// Takes over what is on disk. Records that are known already stay as they are.
    pub(super) fn take_over(&mut self, workspaces: Workspaces) {
        for record in workspaces.records {
            let here = self.records.entry(record.scope.clone()).or_default();
            if here.contains_key(&record.issue) {
                continue;
            }
            self.keys.entry(record.key.folded()).or_insert_with(|| record.issue.clone());
            here.insert(record.issue.clone(), record);
        }
        self.strays = workspaces.strays;
        self.strays_matched = false;
        self.strays_told = false;
    }

    /// The tracker was rebuilt: what was asked of the old one is asked anew, and its late answers
    /// find nobody (contract 4.8).
    fn abandon_reads(&mut self) {
        let generation = self.configuration.generation;
        let mut old = Vec::new();
        for (read, open) in &mut self.reads {
            if open.generation != generation {
                let gone = Asked::Abandoned(open.asked.purpose());
                old.push((*read, std::mem::replace(&mut open.asked, gone)));
            }
        }
        for (read, asked) in old {
            match asked {
                Asked::Poll(parts) => self.abandon_poll(&parts),
                Asked::Check { chosen } => self.abandon_check(read, chosen),
                Asked::Turn { runs } => {
                    self.turns.open = None;
                    for run in runs {
                        if self.is_running(run) {
                            self.turns.wait(run, self.now.mono);
                        }
                    }
                }
                Asked::Delivery { claimed, others } => self.read_again(claimed, others),
                Asked::Strays | Asked::Abandoned(_) => {}
            }
        }
    }

    /// What the old tracker wanted us to wait for is not the new one's.
    fn forget_penalties(&mut self) {
        self.refill.forget_failures();
        for job in [&mut self.jobs.candidates, &mut self.jobs.refresh, &mut self.jobs.sweep] {
            job.forget_failure();
        }
        self.budget = None;
        self.wake_waiting(|failure| matches!(failure.kind, FailureKind::Tracker(_)));
    }

    fn abandon_check(&mut self, read: ReadId, chosen: Vec<IssueId>) {
        self.refill.close();
        for id in chosen {
            match self.origin_of(&id, read) {
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
