//! What a read brought, issue by issue, and how long a failed one is waited for (contract 1.3,
//! 12.6).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::failure::{Failure, FailureKind};
use crate::issue::{Issue, IssueId};
use crate::tracker::{IssuesById, TrackerErrorKind};

/// The longest a tracker can make us wait before we ask again, whatever it says.
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// The longest for reads of claimed issues: an agent whose issue was closed must not go on for an
/// hour because of one far time (contract 12.6).
const MAX_UPKEEP_WAIT: Duration = Duration::from_secs(300);

/// The shortest that we wait where a tracker wants us to.
const MIN_WAIT: Duration = Duration::from_secs(1);

/// Returns how long to wait after a failed read, where the tracker said so.
pub(in crate::orchestrator) fn asked_wait(failure: &Failure) -> Option<Duration> {
    // No wait at all would be a loop, and one of a few milliseconds hardly less.
    let asked = failure.retry_after.filter(|wait| !wait.is_zero())?;
    Some(asked.clamp(MIN_WAIT, MAX_WAIT))
}

/// Returns how long to wait after a failed read of claimed issues, where the tracker said so.
pub(in crate::orchestrator) fn asked_upkeep_wait(failure: &Failure) -> Option<Duration> {
    asked_wait(failure).map(|wait| wait.min(MAX_UPKEEP_WAIT))
}

/// Returns the failure of a part that was asked for and is missing in the answer: the driver's
/// fault, but not a reason to stop.
pub(in crate::orchestrator) fn no_answer() -> Failure {
    response("the read came back without the part that was asked for")
}

fn response(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Tracker(TrackerErrorKind::Response), message)
}

/// What a read by id says of one issue.
#[derive(Clone, Debug)]
pub(in crate::orchestrator) enum Seen {
    Present(Arc<Issue>),
    Absent,
    Failed(Failure),
}

impl Seen {
    /// Returns the issue, if it was read.
    pub(in crate::orchestrator) const fn issue(&self) -> Option<&Arc<Issue>> {
        match self {
            Self::Present(issue) => Some(issue),
            Self::Absent | Self::Failed(_) => None,
        }
    }
}

/// The answer of a read by id, by issue.
#[derive(Debug)]
pub(in crate::orchestrator) struct Found {
    named: BTreeMap<IssueId, Seen>,
    /// What it says of every other issue.
    others: Seen,
}

impl Found {
    /// Sorts an answer by issue. A record without what an issue needs counts as unreadable, and
    /// spoils no other (contract 1.3). A repeated id counts once.
    pub(in crate::orchestrator) fn new(result: Result<IssuesById, Failure>) -> Self {
        let mut named = BTreeMap::new();
        let by_id = match result {
            Ok(by_id) => by_id,
            Err(failure) => return Self { named, others: Seen::Failed(failure) },
        };
        for bad in by_id.unreadable {
            named.insert(bad.id, Seen::Failed(response(bad.message)));
        }
        for issue in by_id.found {
            let id = issue.id.clone();
            let seen = if issue.is_well_formed() {
                Seen::Present(Arc::new(issue))
            } else {
                Seen::Failed(response("the record lacks a title, an identifier or a state"))
            };
            named.entry(id).or_insert(seen);
        }
        Self { named, others: Seen::Absent }
    }

    /// Returns what the answer says of this issue.
    pub(in crate::orchestrator) fn see(&self, id: &IssueId) -> &Seen {
        self.named.get(id).unwrap_or(&self.others)
    }

    /// Returns why the whole read failed, if it did.
    pub(in crate::orchestrator) const fn failure(&self) -> Option<&Failure> {
        match &self.others {
            Seen::Failed(failure) => Some(failure),
            Seen::Present(_) | Seen::Absent => None,
        }
    }
}
