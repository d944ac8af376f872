//! How one stage of a claim follows another (contract sections 6 and 7).

use std::sync::Arc;

use crate::failure::Failure;
use crate::issue::IssueId;
use crate::policy::{self, CONTINUATION_DELAY, Standing};
use crate::snapshot::Reason;
use crate::time::Mono;

use super::claims::{After, Mark, mark};
use super::reads::asked_wait;
use super::{
    BlockReason, Effect, Happened, Orchestrator, ReleaseReason, Removal, RemovalId, StopReason,
};

/// How often a removal is tried before it is left to the sweep (contract 6.3).
const REMOVAL_TRIES: u32 = 3;

impl Orchestrator {
    /// Gives an issue up, without a word.
    pub(super) fn unclaim(&mut self, id: &IssueId) {
        if let Some(claim) = self.claims.remove(id) {
            self.folders.free(claim.key(), id);
        }
        self.reads.refill.want_when_freed();
    }

    /// Gives an issue up. It is not chosen again from a list older than what was learned.
    pub(super) fn release(&mut self, id: &IssueId, why: ReleaseReason) {
        let Some(claim) = self.claims.get(id) else {
            return;
        };
        let learned = match why {
            ReleaseReason::Terminal => Some(Reason::Terminal(claim.issue().state.clone())),
            ReleaseReason::Gone => Some(Reason::Gone),
            ReleaseReason::NotActive | ReleaseReason::NotEligible => {
                Some(self.eligibility().unfit(claim.issue()).unwrap_or(Reason::NextRead))
            }
            ReleaseReason::ShutDown => None,
        };
        let seen = claim.seen();
        if let Some(reason) = learned {
            self.backlog.learn(id, seen, reason);
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
        self.claims.wait_until(id, at);
        self.notice_of(id, None, Happened::Waiting { attempt, until: at, failure });
    }

    /// The next attempt may start as soon as there is a slot.
    pub(super) fn make_ready(&mut self, id: &IssueId) {
        self.claims.make_ready(id);
        self.reads.refill.want_now();
    }

    /// Makes ready what waits for such a failure to pass.
    pub(super) fn wake_waiting(&mut self, passed: impl Fn(&Failure) -> bool) {
        for id in self.claims.waiting_for(passed) {
            self.make_ready(&id);
        }
        self.view.take();
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
        claim.forget_thread();
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
        claim.unchanged_ends = if mark(claim.issue()) == *began_at {
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

    /// Waits for a person, holding no slot.
    pub(super) fn block(&mut self, id: &IssueId, why: BlockReason) {
        self.claims.block(id, why.clone(), self.now);
        self.notice_of(id, None, Happened::Blocked { why });
        // In which state it is left: clocks cannot tell, so it is read.
        self.reads.jobs.refresh.hurry();
        self.reads.refill.want_when_freed();
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
        if let Some(run) = self.claims.stop(id, why, after, self.now.mono) {
            self.reads.turns.forget(run);
            self.out.effects.push(Effect::Stop { run, why });
            self.notice_of(id, Some(run), Happened::Stopping { why });
        }
    }

    /// Removes the workspace of a terminal issue, if there is one, and then lets go (8.2).
    pub(super) fn clean(&mut self, id: &IssueId) {
        let Some(claim) = self.claims.get(id) else {
            return;
        };
        // A newer list, or other settings, may say that it is not over.
        let standing = policy::standing(claim.issue(), &self.settings().tracker);
        if standing != Standing::Terminal || self.backlog.shows_alive_since(id, claim.seen()) {
            return self.release(id, ReleaseReason::NotEligible);
        }
        match self.folders.record(id) {
            Some(record)
                if !self.lifecycle.is_shutting_down()
                    && !self.folders.is_lived_in(id, &record.key, &self.claims) =>
            {
                self.remove(id, Removal::Recorded(record.clone()), 0);
                self.notice_of(id, None, Happened::Cleaning);
            }
            _ => self.release(id, ReleaseReason::Terminal),
        }
    }

    /// Tries to remove a workspace. The claim holds the folder until that came back.
    pub(super) fn remove(&mut self, id: &IssueId, workspace: Removal, failures: u32) {
        let removal = self.ids.removal();
        self.claims.clean(id, workspace.clone(), removal, failures);
        let Some(claim) = self.claims.get(id) else {
            return;
        };
        self.folders.hold(claim.key(), id);
        let issue = Arc::clone(claim.issue());
        self.out.effects.push(Effect::Remove { removal, issue, workspace });
    }

    /// A removal came back.
    pub(super) fn removed(&mut self, removal: RemovalId, outcome: Result<(), Failure>) {
        let Some((id, workspace, failures)) = self.claims.end_removal(removal) else {
            return;
        };
        let failures = failures + 1;
        match outcome {
            Ok(()) => {
                self.folders.removed(&workspace);
                self.notice_of(&id, None, Happened::Cleaned);
                self.release(&id, ReleaseReason::Terminal);
            }
            Err(failure) => {
                let again = failures < REMOVAL_TRIES && !self.lifecycle.is_shutting_down();
                self.notice_of(&id, None, Happened::CleaningFailed { failure, again });
                if again {
                    let max = self.settings().agent.max_retry_backoff;
                    let at = self.now.mono + policy::backoff(failures, max);
                    self.claims.clean_later(&id, workspace, failures, at);
                } else {
                    // The next sweep looks for it again.
                    self.folders.not_removed(&workspace);
                    self.release(&id, ReleaseReason::Terminal);
                }
            }
        }
    }
}
