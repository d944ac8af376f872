//! One claim: what is held of an issue, and the stages it goes through (contract 6.1).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::agent::{ThreadId, Usage};
use crate::failure::Failure;
use crate::issue::{Issue, StateName};
use crate::orchestrator::reads::asked_wait;
use crate::orchestrator::{BlockReason, ReadId, ReleaseReason, Removal, RemovalId, StopReason};
use crate::policy::{self, CONTINUATION_DELAY};
use crate::run::RunId;
use crate::store::AskedTurn;
use crate::time::{Mono, Now, Wall};
use crate::workspace::{HostId, Scope, WorkspaceKey};

/// The claim on an issue. One map entry per issue is what makes "one run per issue" hold.
///
/// Fields that [`Claims`](super::Claims) indexes by are changed there alone.
#[derive(Clone, Debug)]
pub(in crate::orchestrator) struct Claim {
    /// The issue, as last read.
    pub(super) issue: Arc<Issue>,
    /// The read that brought it: older answers do not overwrite it.
    pub(super) seen: ReadId,
    /// Grows with every stage, so that an answer can tell whether the claim it was asked for is
    /// still the same (contract 4.8).
    pub(super) version: u64,
    pub(super) scope: Scope,
    pub(super) key: WorkspaceKey,
    pub(super) host: HostId,
    /// The attempt that runs or comes next; `None` for the first.
    pub(in crate::orchestrator) attempt: Option<u32>,
    /// Why it waits, if something went wrong.
    pub(in crate::orchestrator) failure: Option<Failure>,
    /// Consecutive normal ends that changed nothing (contract 7.7).
    pub(in crate::orchestrator) unchanged_ends: u32,
    /// Consecutive restarts that cut off a run of it (contract 16.4).
    pub(in crate::orchestrator) interruptions: u32,
    /// The conversation that the next run goes on with, if it is with the same agent.
    pub(in crate::orchestrator) thread: Option<Thread>,
    /// Whether that conversation ended with a question that has no answer.
    pub(in crate::orchestrator) unanswered: bool,
    /// The turn that was last handed to that conversation, until it is known to have ended.
    pub(in crate::orchestrator) asked: Option<AskedTurn>,
    /// What of each conversation's usage is in the totals already.
    pub(in crate::orchestrator) counted: BTreeMap<ThreadId, Usage>,
    /// Its entry in the deadlines.
    pub(super) wake: Option<Mono>,
    pub(super) stage: Stage,
}

impl Claim {
    pub(in crate::orchestrator) fn new(
        issue: Arc<Issue>,
        seen: ReadId,
        scope: Scope,
        key: WorkspaceKey,
        host: HostId,
        stage: Stage,
    ) -> Self {
        Self {
            issue,
            seen,
            version: 0,
            scope,
            key,
            host,
            attempt: None,
            failure: None,
            unchanged_ends: 0,
            interruptions: 0,
            thread: None,
            unanswered: false,
            asked: None,
            counted: BTreeMap::new(),
            wake: None,
            stage,
        }
    }

    pub(in crate::orchestrator) const fn issue(&self) -> &Arc<Issue> {
        &self.issue
    }

    pub(in crate::orchestrator) const fn seen(&self) -> ReadId {
        self.seen
    }

    pub(in crate::orchestrator) const fn version(&self) -> u64 {
        self.version
    }

    /// The scope of the tracker that it came from.
    pub(in crate::orchestrator) const fn scope(&self) -> &Scope {
        &self.scope
    }

    pub(in crate::orchestrator) const fn key(&self) -> &WorkspaceKey {
        &self.key
    }

    pub(in crate::orchestrator) const fn host(&self) -> &HostId {
        &self.host
    }

    pub(in crate::orchestrator) const fn wake(&self) -> Option<Mono> {
        self.wake
    }

    pub(in crate::orchestrator) const fn stage(&self) -> &Stage {
        &self.stage
    }

    /// Whether it is read on an interval. A check or a removal under way speaks for itself.
    pub(in crate::orchestrator) const fn is_refreshed(&self) -> bool {
        matches!(
            self.stage,
            Stage::Running { .. }
                | Stage::Stopping { .. }
                | Stage::Waiting { .. }
                | Stage::Blocked { .. }
        )
    }

    /// Whether a run or a removal is in its folder.
    pub(in crate::orchestrator) const fn is_in_folder(&self) -> bool {
        matches!(
            self.stage,
            Stage::Running { .. } | Stage::Stopping { .. } | Stage::Cleaning { .. }
        )
    }

    /// Whether a run of it lives.
    pub(super) const fn is_live(&self) -> bool {
        matches!(self.stage, Stage::Running { .. } | Stage::Stopping { .. })
    }

    /// Counts an attempt: what comes next is a follow-up. Returns its number.
    pub(in crate::orchestrator) fn count_attempt(&mut self) -> u32 {
        let attempt = self.attempt.unwrap_or(0).saturating_add(1);
        self.attempt = Some(attempt);
        attempt
    }

    /// Notes a failure: the next attempt comes after its backoff, in a new conversation (contract
    /// 7.2, 10.3). Returns the backoff.
    pub(in crate::orchestrator) fn fail(&mut self, max_backoff: Duration) -> Duration {
        self.unchanged_ends = 0;
        self.interruptions = 0;
        self.forget_thread();
        policy::backoff(self.count_attempt(), max_backoff)
    }

    /// Notes a normal end: a continuation check follows, later and later while the issue stays as
    /// it was when the run began (7.1, 7.7). Returns that wait.
    pub(in crate::orchestrator) fn succeed(
        &mut self,
        began_at: &Mark,
        max_backoff: Duration,
    ) -> Duration {
        self.attempt = Some(1);
        self.interruptions = 0;
        self.unchanged_ends =
            if mark(&self.issue) == *began_at { self.unchanged_ends.saturating_add(1) } else { 0 };
        match self.unchanged_ends {
            0 | 1 => CONTINUATION_DELAY,
            ends => policy::backoff(ends - 1, max_backoff),
        }
    }

    /// Returns the wait after a failed read of a due retry, whose attempt stays the same (7.4).
    pub(in crate::orchestrator) fn read_backoff(
        &self,
        failure: &Failure,
        max_backoff: Duration,
    ) -> Duration {
        let attempt = self.attempt.unwrap_or(0).max(1);
        asked_wait(failure).unwrap_or_else(|| policy::backoff(attempt, max_backoff))
    }

    /// Forgets the conversation: the next run begins a new one (contract 10.3).
    pub(in crate::orchestrator) fn forget_thread(&mut self) {
        self.thread = None;
        self.unanswered = false;
        self.asked = None;
        self.counted.clear();
    }
}

/// The stages of a claim (contract 6.1).
#[derive(Clone, Debug)]
pub(in crate::orchestrator) enum Stage {
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
pub(in crate::orchestrator) enum Origin {
    Fresh,
    Retry,
}

/// What follows the end of a run that was told to end. It only escalates (contract 6.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::orchestrator) enum After {
    Retry(Failure),
    /// The next run takes over where this one stood: it was not the issue's fault.
    Postpone(Failure),
    Block(BlockReason),
    Release(ReleaseReason),
    Clean,
}

impl After {
    const fn rank(&self) -> u8 {
        match self {
            Self::Retry(_) | Self::Postpone(_) => 0,
            Self::Block(_) => 1,
            Self::Release(_) => 2,
            Self::Clean => 3,
        }
    }

    /// Whether a read of the issue led to it: then a newer one may lead elsewhere.
    pub(in crate::orchestrator) const fn is_about_the_issue(&self) -> bool {
        match self {
            Self::Clean | Self::Release(_) => true,
            Self::Retry(_) | Self::Postpone(_) | Self::Block(_) => false,
        }
    }

    /// Takes over the other one if it is graver.
    pub(in crate::orchestrator) fn escalate(&mut self, other: Self) {
        if other.rank() > self.rank() {
            *self = other;
        }
    }
}

/// A conversation, and the kind of agent that had it.
#[derive(Clone, Debug)]
pub(in crate::orchestrator) struct Thread {
    pub(in crate::orchestrator) id: ThreadId,
    pub(in crate::orchestrator) agent: Arc<str>,
}

/// What tells progress from its absence: the state, and when the tracker saw the last change.
pub(in crate::orchestrator) type Mark = (StateName, Option<Wall>);

pub(in crate::orchestrator) fn mark(issue: &Issue) -> Mark {
    (issue.state.clone(), issue.updated_at)
}
