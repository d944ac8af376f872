//! Claims: what the orchestrator holds of an issue, and how one stage follows another
//! (contract sections 6 and 7).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::agent::{ThreadId, Tokens};
use crate::failure::{Failure, FailureKind};
use crate::issue::{Issue, IssueId, StateName};
use crate::policy::{self, CONTINUATION_DELAY, Standing};
use crate::snapshot::Reason;
use crate::time::{Mono, Now, Wall};
use crate::workspace::{HostId, WorkspaceKey};

use super::read::asked_wait;
use super::{
    BlockReason, Effect, Happened, Orchestrator, ReadId, ReleaseReason, Removal, RemovalId, RunId,
    StopReason,
};

/// How often a removal is tried before it is left to the sweep (contract 6.3).
const REMOVAL_TRIES: u32 = 3;

/// What a stopped run may take beyond its grace and its hook before it is called overdue.
const STOP_MARGIN: Duration = Duration::from_secs(10);

/// The hold on one issue. There is at most one per issue, so there is at most one of anything.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    /// The issue, as last read.
    pub(super) issue: Arc<Issue>,
    /// The read that brought it: older answers do not overwrite it.
    pub(super) seen: ReadId,
    /// Grows with every stage, so that an answer can tell whether the claim it was asked for is
    /// still the same (contract 4.8).
    pub(super) version: u64,
    pub(super) key: WorkspaceKey,
    pub(super) host: HostId,
    /// The attempt that runs or comes next; `None` for the first.
    pub(super) attempt: Option<u32>,
    /// Why it waits, if something went wrong.
    pub(super) failure: Option<Failure>,
    /// Consecutive normal ends that changed nothing (contract 7.7).
    pub(super) unchanged_ends: u32,
    /// The conversation that the next run goes on with, if it is with the same agent.
    pub(super) thread: Option<Thread>,
    /// Whether that conversation ended with a question that has no answer.
    pub(super) unanswered: bool,
    /// What of each conversation's tokens is in the totals already.
    pub(super) counted: BTreeMap<ThreadId, Tokens>,
    /// Its entry in the deadlines.
    pub(super) wake: Option<Mono>,
    pub(super) stage: Stage,
}

impl Claim {
    pub(super) fn new(
        issue: Arc<Issue>,
        seen: ReadId,
        key: WorkspaceKey,
        host: HostId,
        stage: Stage,
    ) -> Self {
        Self {
            issue,
            seen,
            version: 0,
            key,
            host,
            attempt: None,
            failure: None,
            unchanged_ends: 0,
            thread: None,
            unanswered: false,
            counted: BTreeMap::new(),
            wake: None,
            stage,
        }
    }
}

/// The stages of a claim (contract 6.1).
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// Being read before it starts.
    Checking { read: ReadId, origin: Origin },
    /// A run lives.
    Running { run: RunId },
    /// A run was told to stop and still lives.
    Stopping {
        run: RunId,
        why: StopReason,
        then: After,
        overdue: bool,
        /// Whether an operator wants it stopped, whatever else was decided before or since.
        by_operator: bool,
    },
    /// The next attempt comes later, or as soon as it may when `ready`.
    Waiting { ready: bool },
    /// A person is needed.
    Blocked {
        why: BlockReason,
        since: Now,
        /// Whether a read has shown since then in which state the issue was left.
        seen: bool,
    },
    /// The workspace is being removed; between two tries `removal` is `None`.
    Cleaning { workspace: Removal, removal: Option<RemovalId>, failures: u32 },
}

/// Where a claim being checked came from, and so where it falls back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Fresh,
    Retry,
}

/// What follows the end of a run that was told to end. It only escalates (contract 6.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum After {
    Retry(Failure),
    Block(BlockReason),
    Release(ReleaseReason),
    Clean,
}

impl After {
    const fn rank(&self) -> u8 {
        match self {
            Self::Retry(_) => 0,
            Self::Block(_) => 1,
            Self::Release(_) => 2,
            Self::Clean => 3,
        }
    }

    /// Whether a read of the issue led to it: then a newer one may lead elsewhere.
    pub(super) const fn is_about_the_issue(&self) -> bool {
        match self {
            Self::Clean => true,
            Self::Release(why) => !matches!(why, ReleaseReason::ShutDown),
            Self::Retry(_) | Self::Block(_) => false,
        }
    }

    /// The graver of the two.
    pub(super) fn escalate(&mut self, other: Self) {
        if other.rank() > self.rank() {
            *self = other;
        }
    }
}

/// A conversation, and the kind of agent that had it.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    pub(super) id: ThreadId,
    pub(super) agent: Arc<str>,
}

/// What tells progress from its absence: the state, and when the tracker saw the last change.
pub(super) type Mark = (StateName, Option<Wall>);

pub(super) fn mark(issue: &Issue) -> Mark {
    (issue.state.clone(), issue.updated_at)
}

impl Orchestrator {
    /// Moves a claim to another stage. Everything indexed by stage is kept true here.
    pub(super) fn enter(&mut self, id: &IssueId, stage: Stage, wake: Option<Mono>) {
        let Some(claim) = self.claims.get_mut(id) else {
            debug_assert!(false, "a stage for an issue without a claim");
            return;
        };
        let ready = matches!(stage, Stage::Waiting { ready: true });
        // That its time has come makes a waiting claim no other one.
        let waits_on =
            matches!((&claim.stage, &stage), (Stage::Waiting { .. }, Stage::Waiting { .. }));
        claim.stage = stage;
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
    pub(super) fn set_wake(&mut self, id: &IssueId, wake: Option<Mono>) {
        let Some(claim) = self.claims.get_mut(id) else {
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

    /// Gives an issue up, without a word.
    pub(super) fn unclaim(&mut self, id: &IssueId) {
        self.set_wake(id, None);
        self.ready.remove(id);
        if let Some(claim) = self.claims.remove(id) {
            self.free_key(id, &claim.key);
        }
        self.refill_when_freed();
    }

    /// Gives an issue up. It is not chosen again from a list older than what was learned.
    pub(super) fn release(&mut self, id: &IssueId, why: ReleaseReason) {
        let Some(claim) = self.claims.get(id) else {
            return;
        };
        let learned = match why {
            ReleaseReason::Terminal => Some(Reason::Terminal(claim.issue.state.clone())),
            ReleaseReason::Gone => Some(Reason::Gone),
            ReleaseReason::NotActive | ReleaseReason::NotEligible => {
                Some(self.unfit(&claim.issue).unwrap_or(Reason::NextRead))
            }
            ReleaseReason::ShutDown => None,
        };
        let seen = claim.seen;
        if let Some(reason) = learned {
            self.learn(id, seen, reason);
        }
        self.notice_of(id, None, Happened::Released { why });
        self.unclaim(id);
    }

    /// Waits for the next attempt until `at`.
    pub(super) fn wait_until(&mut self, id: &IssueId, at: Mono, failure: Option<Failure>) {
        let Some(claim) = self.claims.get_mut(id) else {
            return;
        };
        claim.failure.clone_from(&failure);
        let attempt = claim.attempt.unwrap_or(0);
        self.enter(id, Stage::Waiting { ready: false }, Some(at));
        self.notice_of(id, None, Happened::Waiting { attempt, until: at, failure });
    }

    /// The next attempt may start as soon as there is a slot.
    pub(super) fn make_ready(&mut self, id: &IssueId) {
        self.enter(id, Stage::Waiting { ready: true }, None);
        self.refill_now();
    }

    /// Makes ready what waits for such a failure to pass.
    pub(super) fn wake_waiting(&mut self, passed: impl Fn(&Failure) -> bool) {
        let waits = |claim: &Claim| {
            matches!(claim.stage, Stage::Waiting { ready: false })
                && claim.failure.as_ref().is_some_and(&passed)
        };
        let due: Vec<IssueId> =
            self.claims.iter().filter(|(_, c)| waits(c)).map(|(id, _)| id.clone()).collect();
        for id in due {
            self.make_ready(&id);
        }
        self.view.take();
    }

    /// The next run begins a new conversation (contract 10.3).
    pub(super) fn forget_thread(&mut self, id: &IssueId) {
        if let Some(claim) = self.claims.get_mut(id) {
            claim.thread = None;
            claim.unanswered = false;
            claim.counted.clear();
        }
    }

    /// A failure: the next attempt, after its backoff, in a new conversation (contract 7.2, 10.3).
    pub(super) fn retry_after_failure(&mut self, id: &IssueId, failure: Failure) {
        let max = self.settings().agent.max_retry_backoff;
        let Some(claim) = self.claims.get_mut(id) else {
            return;
        };
        let attempt = claim.attempt.unwrap_or(0).saturating_add(1);
        claim.attempt = Some(attempt);
        claim.unchanged_ends = 0;
        self.forget_thread(id);
        let at = self.now.mono + policy::backoff(attempt, max);
        self.wait_until(id, at, Some(failure));
    }

    /// A normal end: a continuation check, later and later while nothing changes (7.1, 7.7).
    pub(super) fn continue_after_success(&mut self, id: &IssueId, began_at: &Mark) {
        let max = self.settings().agent.max_retry_backoff;
        let Some(claim) = self.claims.get_mut(id) else {
            return;
        };
        claim.attempt = Some(1);
        claim.unchanged_ends = if mark(&claim.issue) == *began_at {
            claim.unchanged_ends.saturating_add(1)
        } else {
            0
        };
        let delay = match claim.unchanged_ends {
            0 | 1 => CONTINUATION_DELAY,
            ends => policy::backoff(ends - 1, max),
        };
        self.wait_until(id, self.now.mono + delay, None);
    }

    /// A read of a due retry failed: same attempt, later (contract 7.4).
    pub(super) fn wait_after_failed_read(&mut self, id: &IssueId, failure: Failure) {
        let max = self.settings().agent.max_retry_backoff;
        let Some(claim) = self.claims.get(id) else {
            return;
        };
        let delay = asked_wait(&failure)
            .unwrap_or_else(|| policy::backoff(claim.attempt.unwrap_or(0).max(1), max));
        self.wait_until(id, self.now.mono + delay, Some(failure));
    }

    /// Waits for a person, holding no slot. After a question the next run goes on with the
    /// conversation that asked it (contract 10.6).
    pub(super) fn block(&mut self, id: &IssueId, why: BlockReason) {
        let since = self.now;
        if let Some(claim) = self.claims.get_mut(id) {
            claim.failure = None;
            claim.unanswered = matches!(why, BlockReason::Question(_)) && claim.thread.is_some();
            if !claim.unanswered {
                self.forget_thread(id);
            }
        }
        self.enter(id, Stage::Blocked { why: why.clone(), since, seen: false }, None);
        self.notice_of(id, None, Happened::Blocked { why });
        // In which state it is left: clocks cannot tell, so it is read.
        self.jobs.refresh.asap = true;
        self.refill_when_freed();
    }

    /// The same after a run: what comes next is a follow-up.
    pub(super) fn block_after_run(&mut self, id: &IssueId, why: BlockReason) {
        if let Some(claim) = self.claims.get_mut(id) {
            claim.attempt = Some(claim.attempt.unwrap_or(0).saturating_add(1));
        }
        self.block(id, why);
        self.save();
    }

    /// Tells a live run to stop, once, and remembers what follows.
    pub(super) fn stop(&mut self, id: &IssueId, why: StopReason, after: After) {
        let Some(claim) = self.claims.get_mut(id) else {
            return;
        };
        match &mut claim.stage {
            Stage::Stopping { then, by_operator, .. } => {
                *by_operator |= why == StopReason::Operator;
                then.escalate(after);
            }
            Stage::Running { run } => {
                let run = *run;
                let mut then = after;
                let mut bound = STOP_MARGIN;
                if let Some(live) = self.runs.get_mut(&run) {
                    bound = bound.saturating_add(live.ends_within);
                    live.finish_by = None;
                    // A finishing run may already have something graver to follow.
                    if let Some(decided) = live.then.take() {
                        then.escalate(decided);
                    }
                }
                self.turns.forget(run);
                let by_operator = why == StopReason::Operator;
                let stage = Stage::Stopping { run, why, then, overdue: false, by_operator };
                self.enter(id, stage, Some(self.now.mono + bound));
                self.effect(Effect::Stop { run, why });
                self.notice_of(id, Some(run), Happened::Stopping { why });
            }
            _ => debug_assert!(false, "a stop without a live run"),
        }
    }

    /// Removes the workspace of a terminal issue, if there is one, and then lets go (8.2).
    pub(super) fn clean(&mut self, id: &IssueId) {
        let Some(claim) = self.claims.get(id) else {
            return;
        };
        // A newer list, or other settings, may say that it is not over.
        let standing = policy::standing(&claim.issue, &self.settings().tracker);
        if standing != Standing::Terminal || self.kept.shows_alive_since(id, claim.seen) {
            return self.release(id, ReleaseReason::NotEligible);
        }
        match self.record(id) {
            Some(record) if !self.shutting_down && !self.is_lived_in(id, &record.key) => {
                self.remove(id, Removal::Recorded(record.clone()), 0);
                self.notice_of(id, None, Happened::Cleaning);
            }
            _ => self.release(id, ReleaseReason::Terminal),
        }
    }

    /// Tries to remove a workspace. The claim holds the folder until that came back.
    pub(super) fn remove(&mut self, id: &IssueId, workspace: Removal, failures: u32) {
        let removal = RemovalId(self.next_id());
        let Some(claim) = self.claims.get_mut(id) else {
            return;
        };
        if let Removal::Recorded(record) = &workspace {
            claim.key = record.key.clone();
        }
        let issue = Arc::clone(&claim.issue);
        self.removals.insert(removal, id.clone());
        let stage =
            Stage::Cleaning { workspace: workspace.clone(), removal: Some(removal), failures };
        self.enter(id, stage, None);
        self.own_key(id);
        self.effect(Effect::Remove { removal, issue, workspace });
    }

    /// A removal came back.
    pub(super) fn removed(&mut self, removal: RemovalId, outcome: Result<(), Failure>) {
        let Some(id) = self.removals.remove(&removal) else {
            return;
        };
        let Some(Claim { stage: Stage::Cleaning { workspace, failures, .. }, .. }) =
            self.claims.get(&id)
        else {
            debug_assert!(false, "a removal without a claim that cleans");
            return;
        };
        let (workspace, failures) = (workspace.clone(), failures + 1);
        match outcome {
            Ok(()) => {
                if let Removal::Recorded(record) = &workspace {
                    self.forget_record(record);
                }
                let key = workspace.key();
                self.strays.retain(|stray| stray != key);
                self.notice_of(&id, None, Happened::Cleaned);
                self.release(&id, ReleaseReason::Terminal);
            }
            Err(failure) => {
                let again = failures < REMOVAL_TRIES && !self.shutting_down;
                self.notice_of(&id, None, Happened::CleaningFailed { failure, again });
                if again {
                    let max = self.settings().agent.max_retry_backoff;
                    let at = self.now.mono + policy::backoff(failures, max);
                    let stage = Stage::Cleaning { workspace, removal: None, failures };
                    self.enter(&id, stage, Some(at));
                } else {
                    // The next sweep looks for it again.
                    self.strays_matched &= !matches!(workspace, Removal::Stray(_));
                    self.release(&id, ReleaseReason::Terminal);
                }
            }
        }
    }

    /// A claim's deadline has passed.
    pub(super) fn claim_due(&mut self, id: &IssueId) {
        self.set_wake(id, None);
        let Some(claim) = self.claims.get_mut(id) else {
            return;
        };
        match &mut claim.stage {
            Stage::Waiting { .. } => {
                let issue = Arc::clone(&claim.issue);
                self.make_ready(id);
                if self.slot_for(&issue).is_err() {
                    self.notice_of(id, None, Happened::Queued);
                }
            }
            Stage::Running { run } => {
                let run = *run;
                if !self.grace_due(id, run) {
                    self.stall_due(id, run);
                }
            }
            Stage::Stopping { run, overdue, .. } => {
                *overdue = true;
                let run = *run;
                self.notice_of(id, Some(run), Happened::StopOverdue);
            }
            Stage::Cleaning { workspace, removal: None, failures } => {
                let (workspace, failures) = (workspace.clone(), *failures);
                // Under another root the same name is another folder.
                let is_here = match &workspace {
                    Removal::Recorded(_) => true,
                    Removal::Stray(key) => self.strays.contains(key),
                };
                let seen = claim.seen;
                if is_here && !self.kept.shows_alive_since(id, seen) {
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

    /// The agent showed no sign of life for too long, or just seems so (contract 8.1).
    fn stall_due(&mut self, id: &IssueId, run: RunId) {
        let Some(timeout) = self.settings().codex.stall_timeout else {
            return self.watch_run(run);
        };
        let Some(live) = self.runs.get(&run) else {
            return;
        };
        if !live.can_stall() || live.last_alive + timeout > self.now.mono {
            return self.watch_run(run);
        }
        let silent = self.now.mono.since(live.last_alive);
        let message = format!("no sign of life for {} s", silent.as_secs());
        let failure = Failure::new(FailureKind::Stalled, message);
        self.stop(id, StopReason::Stalled, After::Retry(failure));
    }

    /// Sets the deadline of a run that is not stopping: the end of its grace, or a stall where
    /// silence counts, whichever comes first.
    pub(super) fn watch_run(&mut self, run: RunId) {
        if !self.is_running(run) {
            return;
        }
        let Some(live) = self.runs.get(&run) else {
            return;
        };
        let timeout = self.settings().codex.stall_timeout.filter(|_| live.can_stall());
        let stall = timeout.map(|timeout| live.last_alive + timeout);
        let (id, grace) = (live.issue.clone(), live.finish_by);
        self.set_wake(&id, stall.into_iter().chain(grace).min());
    }

    /// Whether a run lives and was not told to stop.
    pub(super) fn is_running(&self, run: RunId) -> bool {
        let claim = self.runs.get(&run).and_then(|live| self.claims.get(&live.issue));
        claim.is_some_and(|claim| matches!(claim.stage, Stage::Running { .. }))
    }
}
