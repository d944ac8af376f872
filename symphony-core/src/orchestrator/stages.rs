//! How one stage of a claim follows another (contract sections 6 and 7).

use std::sync::Arc;
use std::time::Duration;

use crate::failure::{Failure, FailureKind};
use crate::issue::IssueId;
use crate::policy::{self, Standing};
use crate::snapshot::Reason;

use super::claims::{After, Claim};
use super::{
    BlockReason, Effect, NoticeKind, Orchestrator, ReleaseReason, Removal, RemovalId, StopReason,
};

/// How often a removal is tried before it is left to the sweep (contract 6.3).
const MAX_REMOVAL_TRIES: u32 = 3;

impl Orchestrator {
    /// Drops a claim without a notice, and frees its folder.
    pub(super) fn unclaim(&mut self, id: &IssueId) {
        if let Some(claim) = self.claims.remove(id) {
            self.folders.free(claim.key(), id);
            self.unpark(id);
        }
        self.reads.refill.want_when_freed();
    }

    /// Releases a claim. The issue is not chosen again from a list older than what was learned.
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
        self.notice_of(id, None, NoticeKind::Released { why });
        self.unclaim(id);
    }

    /// Does what was decided to follow a run, or a wait.
    pub(super) fn follow(&mut self, id: &IssueId, then: After) {
        match then {
            After::Retry(failure) => self.wait(id, Some(failure), Claim::fail),
            After::Postpone(failure) => {
                let is_ending = failure.kind == FailureKind::Interrupted;
                self.wait(id, Some(failure), |_, max_backoff| {
                    if is_ending { Duration::ZERO } else { policy::backoff(1, max_backoff) }
                });
            }
            After::Block(why) => {
                if let Some(claim) = self.claims.get_mut(id) {
                    claim.count_attempt();
                }
                self.block(id, why);
            }
            After::Release(why) => self.release(id, why),
            After::Clean => self.clean(id),
        }
    }

    /// Waits for the next attempt. `delay` notes in the claim what happened and returns for how
    /// long; it is given the longest backoff.
    pub(super) fn wait(
        &mut self,
        id: &IssueId,
        failure: Option<Failure>,
        delay: impl FnOnce(&mut Claim, Duration) -> Duration,
    ) {
        let max_backoff = self.settings().agent.max_retry_backoff;
        let Some(claim) = self.claims.get_mut(id) else {
            return;
        };
        let until = self.now.mono + delay(claim, max_backoff);
        claim.failure.clone_from(&failure);
        let attempt = claim.attempt.unwrap_or(0);
        self.claims.wait_until(id, until);
        self.notice_of(id, None, NoticeKind::Waiting { attempt, until, failure });
    }

    /// Makes a claim due: its next attempt may start as soon as there is a slot.
    pub(super) fn make_ready(&mut self, id: &IssueId) {
        self.claims.make_ready(id);
        self.reads.refill.want_now();
    }

    /// Makes claims due that wait for such a failure to pass.
    pub(super) fn wake_waiting(&mut self, passed: impl Fn(&Failure) -> bool) {
        for id in self.claims.waiting_for(passed) {
            self.make_ready(&id);
        }
        self.view.take();
    }

    /// Blocks a claim until a person acts; it does not hold a slot.
    pub(super) fn block(&mut self, id: &IssueId, why: BlockReason) {
        self.claims.block(id, why.clone(), self.now);
        self.notice_of(id, None, NoticeKind::Blocked { why });
        // Clocks cannot tell in which state the issue was left, so it is read.
        self.reads.jobs.refresh.hurry();
        self.reads.refill.want_when_freed();
    }

    /// Tells a live run to stop, once, and remembers what follows.
    pub(super) fn stop(&mut self, id: &IssueId, why: StopReason, after: After) {
        if let Some(run) = self.claims.stop(id, why, after, self.now.mono) {
            self.reads.turns.forget(run);
            self.out.effects.push(Effect::Stop { run, why });
            self.notice_of(id, Some(run), NoticeKind::Stopping { why });
        }
    }

    /// Removes the workspace of a terminal issue, if there is one, and then releases the claim
    /// (8.2).
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
                self.notice_of(id, None, NoticeKind::Cleaning);
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

    /// Takes in the result of a removal.
    pub(super) fn removed(&mut self, removal: RemovalId, outcome: Result<(), Failure>) {
        let Some((id, workspace, failures)) = self.claims.end_removal(removal) else {
            return;
        };
        let failures = failures + 1;
        match outcome {
            Ok(()) => {
                self.folders.removed(&workspace);
                self.notice_of(&id, None, NoticeKind::Cleaned);
                self.release(&id, ReleaseReason::Terminal);
            }
            Err(failure) => {
                let again = failures < MAX_REMOVAL_TRIES && !self.lifecycle.is_shutting_down();
                self.notice_of(&id, None, NoticeKind::CleaningFailed { failure, again });
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
