//! Reads of the tracker: at most one open per purpose, each answered once, and only if it is still
//! the one that was asked (contract 4.3, 4.8).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::budget::{BudgetView, TOOL};
use crate::failure::{Failure, FailureKind};
use crate::issue::{Issue, IssueId};
use crate::tracker::{ById, Poll, TrackerErrorKind};

use super::jobs::PollParts;
use super::{Answer, Effect, Generation, Happened, Orchestrator, Purpose, Query, ReadId, RunId};

/// The longest a tracker can make us wait before we ask again, whatever it says.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// The longest for reads of claimed issues: an agent whose issue was closed must not go on for an
/// hour because of one far time (contract 12.6).
const LONGEST_UPKEEP_WAIT: Duration = Duration::from_secs(300);

/// The shortest that we wait where a tracker wants us to.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// How long to wait after a failed read, where the tracker said so.
pub(super) fn asked_wait(failure: &Failure) -> Option<Duration> {
    // No wait at all would be a loop, and one of a few milliseconds hardly less.
    let asked = failure.retry_after.filter(|wait| !wait.is_zero())?;
    Some(asked.clamp(SHORTEST_WAIT, LONGEST_WAIT))
}

/// The same for a read of claimed issues.
pub(super) fn asked_upkeep_wait(failure: &Failure) -> Option<Duration> {
    asked_wait(failure).map(|wait| wait.min(LONGEST_UPKEEP_WAIT))
}

/// An open read.
#[derive(Clone, Debug)]
pub(super) struct OpenRead {
    pub(super) generation: Generation,
    pub(super) asked: Asked,
}

/// What a read was asked for, and for whom.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    Poll(PollParts),
    Check {
        chosen: Vec<IssueId>,
    },
    Turn {
        runs: Vec<RunId>,
    },
    Strays,
    /// Claims that deliveries are about, with the version they had; and other issues.
    Delivery {
        claimed: Vec<(IssueId, u64)>,
        others: Vec<IssueId>,
    },
    /// Asked of a tracker that is gone: its requests count, its answer does not.
    Abandoned(Purpose),
}

impl Asked {
    /// What the requests of this read are counted as.
    pub(super) const fn purpose(&self) -> Purpose {
        match self {
            Self::Poll(parts) => parts.purpose(),
            Self::Check { .. } => Purpose::Check,
            Self::Turn { .. } => Purpose::Turn,
            Self::Strays => Purpose::Sweep,
            Self::Delivery { .. } => Purpose::Delivery,
            Self::Abandoned(purpose) => *purpose,
        }
    }
}

/// What a read by id says of one issue.
#[derive(Clone, Debug)]
pub(super) enum Seen {
    Present(Arc<Issue>),
    Absent,
    Failed(Failure),
}

/// The answer of a read by id, by issue.
#[derive(Clone, Debug)]
pub(super) enum Found {
    Some(BTreeMap<IssueId, Seen>),
    Failed(Failure),
}

impl Found {
    /// What the answer says of this issue, if it says anything that can be relied on.
    pub(super) fn look(&self, id: &IssueId) -> Option<Option<&Arc<Issue>>> {
        match self {
            Self::Failed(_) => None,
            Self::Some(issues) => match issues.get(id) {
                Some(Seen::Present(issue)) => Some(Some(issue)),
                Some(Seen::Failed(_)) => None,
                Some(Seen::Absent) | None => Some(None),
            },
        }
    }

    /// What the answer says of this issue. A repeated id counts once.
    pub(super) fn take(&mut self, id: &IssueId) -> Seen {
        match self {
            Self::Some(issues) => issues.remove(id).unwrap_or(Seen::Absent),
            Self::Failed(failure) => Seen::Failed(failure.clone()),
        }
    }
}

impl Orchestrator {
    /// Asks the tracker something.
    pub(super) fn ask(&mut self, query: Query, asked: Asked) -> ReadId {
        let read = ReadId(self.next_id());
        let (generation, purpose) = (self.configuration.generation, asked.purpose());
        match &query {
            Query::Poll(Poll { ids, .. }) | Query::ByIds(ids) => self.told_by_read(ids.iter()),
            Query::ByStates(_) => {}
        }
        self.reads.insert(read, OpenRead { generation, asked });
        self.effect(Effect::Read { read, generation, purpose, query });
        read
    }

    /// A read came back.
    pub(super) fn answered(&mut self, read: ReadId, answer: Answer) {
        let Some(OpenRead { asked, .. }) = self.reads.remove(&read) else {
            return;
        };
        self.count_requests(asked.purpose(), answer.requests);
        if matches!(asked, Asked::Abandoned(_)) {
            return;
        }
        if let Some(budget) = answer.budget {
            self.note_tools(&budget);
            self.budget = Some(budget);
        }
        match asked {
            Asked::Poll(parts) => {
                self.poll_answered(
                    read,
                    parts,
                    answer.candidates,
                    answer.by_id.unwrap_or_else(|| Err(no_answer())),
                    answer.next_poll,
                );
            }
            Asked::Check { chosen } => {
                let result = answer.by_id.unwrap_or_else(|| Err(no_answer()));
                self.check_answered(read, chosen, result);
            }
            Asked::Turn { runs } => {
                let result = answer.by_id.unwrap_or_else(|| Err(no_answer()));
                self.turns_answered(read, runs, result);
            }
            Asked::Strays => {
                let result = answer.candidates.unwrap_or_else(|| Err(no_answer()));
                self.strays_answered(read, result);
            }
            Asked::Delivery { claimed, others } => {
                let result = answer.by_id.unwrap_or_else(|| Err(no_answer()));
                self.delivery_answered(read, claimed, others, result);
            }
            Asked::Abandoned(_) => {}
        }
    }

    /// Sorts an answer by issue. A record without what an issue needs counts as unreadable, and
    /// spoils no other (contract 1.3).
    pub(super) fn index(&mut self, purpose: Purpose, result: Result<ById, Failure>) -> Found {
        let by_id = match result {
            Ok(by_id) => by_id,
            Err(failure) => {
                self.read_failed(purpose, &failure);
                return Found::Failed(failure);
            }
        };
        let mut issues = BTreeMap::new();
        for bad in by_id.unreadable {
            let failure =
                Failure::new(FailureKind::Tracker(TrackerErrorKind::Response), bad.message);
            issues.insert(bad.id, Seen::Failed(failure));
        }
        for issue in by_id.found {
            let id = issue.id.clone();
            let seen = if issue.is_well_formed() {
                Seen::Present(Arc::new(issue))
            } else {
                let message = "the record lacks a title, an identifier or a state";
                Seen::Failed(Failure::new(
                    FailureKind::Tracker(TrackerErrorKind::Response),
                    message,
                ))
            };
            issues.entry(id).or_insert(seen);
        }
        Found::Some(issues)
    }

    /// Tells that a read failed.
    pub(super) fn read_failed(&mut self, purpose: Purpose, failure: &Failure) {
        self.notice(Happened::ReadFailed { purpose, failure: failure.clone() });
    }

    fn count_requests(&mut self, purpose: Purpose, requests: u32) {
        self.begin_day();
        if requests > 0 {
            let count = self.spent.requests.entry(purpose.as_str().to_owned()).or_default();
            *count = count.saturating_add(u64::from(requests));
        }
    }

    /// The agents' tool calls are no reads of ours: only the tracker's budget knows of them.
    fn note_tools(&mut self, budget: &BudgetView) {
        if let Some(calls) = budget.today.get(TOOL) {
            let count = self.spent.requests.entry(TOOL.to_owned()).or_default();
            *count = (*count).max(*calls);
        }
    }

    /// The requests of a day: after midnight there are none yet.
    pub(super) fn requests_of(&self, day: i64) -> BTreeMap<String, u64> {
        if day > self.spent.day { BTreeMap::new() } else { self.spent.requests.clone() }
    }

    /// Starts the counts of a new day. A clock that jumps back does not wipe them.
    fn begin_day(&mut self) {
        let today = self.now.wall.day();
        if today > self.spent.day {
            self.spent.day = today;
            self.spent.requests.clear();
        }
    }
}

/// A part that was asked for and is not there: the driver's fault, but not a reason to stop.
pub(super) fn no_answer() -> Failure {
    let message = "the read came back without the part that was asked for";
    Failure::new(FailureKind::Tracker(TrackerErrorKind::Response), message)
}
