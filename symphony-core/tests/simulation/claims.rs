//! Claims as the snapshot shows them, and what may become of one in a step.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use symphony_core::agent::ThreadId;
use symphony_core::orchestrator::{BlockReason, StopReason};
use symphony_core::run::RunId;
use symphony_core::snapshot::Snapshot;
use symphony_core::store::{AskedTurn, ClaimRow, ClaimStage};
use symphony_core::time::{Mono, Now};
use symphony_core::{FailureKind, Issue, IssueId, Scope, Settings};

use crate::restart::interruption_delay;

/// One claim, as shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Checking { attempt: Option<u32> },
    Running { run: RunId, stopping: Option<StopReason> },
    Waiting { attempt: u32, until: Option<Mono>, unchanged: u32 },
    Blocked { why: BlockReason },
    Cleaning { failures: u32, until: Option<Mono> },
}

impl View {
    /// Whether two views are the same stage of a claim's life: an answer to an older question
    /// must not touch a claim that went from one stage to another (contract 4.8).
    pub(crate) fn same_stage(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Running { run, .. }, Self::Running { run: other, .. }) => run == other,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

/// What is known of a claim beyond what is shown: which start comes next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lineage {
    /// The attempt of the run, or of the next one.
    pub(crate) attempt: Option<u32>,
    /// Consecutive normal ends that changed nothing.
    pub(crate) unchanged: u32,
    /// Whether a failure came between them: whether they then count on is left open.
    pub(crate) interrupted: bool,
    /// The conversation to go on with, and the kind of agent that had it.
    pub(crate) resume: Option<(ThreadId, String)>,
    /// Whether that conversation ended with a question.
    pub(crate) unanswered: bool,
    /// Whether it is left open if the conversation goes on.
    pub(crate) resume_open: bool,
    /// Whether it waits for a hold, and is due when that is lifted.
    pub(crate) held: bool,
    /// Whether it waits for the store.
    pub(crate) stored: bool,
    /// The turn that was last handed to the conversation, until it is known to have ended.
    pub(crate) asked: Option<AskedTurn>,
    /// Consecutive restarts that cut off a run of it.
    pub(crate) interruptions: u32,
    /// Whether a run, or a retry, came before: due retries go first within a rank.
    pub(crate) retry: bool,
}

/// An expected claim.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) view: View,
    pub(crate) issue: Arc<Issue>,
    /// The scope that it came from.
    pub(crate) scope: Scope,
    pub(crate) lineage: Lineage,
    /// The last read that had been asked when the claim entered its stage.
    pub(crate) since: u64,
    /// The last read that had been asked when an operator last spoke of it.
    pub(crate) commanded: u64,
    /// Whether its issue was seen since it entered its stage.
    pub(crate) seen: bool,
    /// The newest read whose answer it has taken in.
    pub(crate) known: u64,
}

impl Entry {
    /// What an earlier life, or an earlier stay in its scope, left: it waits for what is left of its
    /// wait, or is blocked as it was, and a run that lived was interrupted (16.4).
    pub(crate) fn restored(row: &ClaimRow, settings: &Settings, now: Now) -> Self {
        let mut lineage = Lineage {
            attempt: row.attempt,
            unchanged: row.unchanged_ends,
            resume: row.thread.clone().zip(row.agent.clone()),
            unanswered: row.unanswered,
            stored: row.failure.as_ref().is_some_and(|f| f.kind == FailureKind::Storage),
            asked: row.asked.clone(),
            interruptions: row.interruptions,
            retry: true,
            ..Lineage::default()
        };
        let waiting = |wait: Duration| View::Waiting {
            attempt: row.attempt.unwrap_or(0),
            until: (!wait.is_zero()).then(|| now.mono + wait),
            unchanged: row.unchanged_ends,
        };
        let view = match row.stage {
            ClaimStage::Waiting => {
                waiting(row.due.map_or(Duration::ZERO, |due| due.rest(now.wall)))
            }
            ClaimStage::Running => {
                lineage.interruptions += 1;
                lineage.stored = false;
                waiting(interruption_delay(lineage.interruptions, settings))
            }
            ClaimStage::Blocked => {
                let question = row.question.clone().map(BlockReason::Question);
                let why = question.unwrap_or(BlockReason::Operator);
                if why == BlockReason::Operator {
                    lineage.forget_thread();
                    lineage.interruptions = 0;
                }
                View::Blocked { why }
            }
        };
        Self {
            view,
            issue: Arc::new(row.issue.clone()),
            scope: row.scope.clone(),
            lineage,
            since: 0,
            commanded: 0,
            seen: row.seen,
            known: 0,
        }
    }
}

/// What may become of an issue in one step. Several may be allowed where the contract leaves it
/// open; the deadlines of the same moment come on top (see [`Outcome::fits`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Same,
    Free,
    Waiting { attempt: u32, until: Until },
    Blocked(BlockReason),
    Cleaning,
    CleaningAgain { failures: u32, until: Mono },
    Running,
    Stopping(StopReason),
}

/// When a waiting issue is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    At(Mono),
    /// At once: it waits for a slot, a hold, an operator or a read.
    Now,
}

/// What a step did to an issue, as its effects show.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deeds {
    pub(crate) checked: bool,
    pub(crate) started: Option<RunId>,
    pub(crate) stopped: Option<StopReason>,
    pub(crate) removing: bool,
}

impl Outcome {
    /// Whether the claim after the step is this outcome, or what the step's own deadlines and
    /// reads made of it.
    pub(crate) fn fits(
        &self,
        before: Option<&View>,
        after: Option<&View>,
        deeds: &Deeds,
        now: Mono,
    ) -> bool {
        match self {
            Self::Same => match before {
                None => free(after, deeds),
                Some(View::Waiting { attempt, until, .. }) if until.is_none_or(|at| at <= now) => {
                    due(*attempt, after, deeds)
                }
                Some(View::Cleaning { failures, until: Some(at) }) if *at <= now => {
                    deeds.removing
                        && after == Some(&View::Cleaning { failures: *failures, until: None })
                }
                Some(View::Running { run, stopping: None }) if deeds.stopped.is_some() => {
                    after == Some(&View::Running { run: *run, stopping: deeds.stopped })
                }
                same => after == same,
            },
            Self::Free => free(after, deeds),
            Self::Waiting { attempt, until: Until::At(at) } if *at > now => matches!(
                after,
                Some(View::Waiting { attempt: shown, until: Some(until), .. }) if shown == attempt && until == at
            ),
            Self::Waiting { attempt, .. } => due(*attempt, after, deeds),
            Self::Blocked(why) => {
                matches!(after, Some(View::Blocked { why: shown }) if shown == why)
            }
            Self::Cleaning => {
                deeds.removing && after == Some(&View::Cleaning { failures: 0, until: None })
            }
            Self::CleaningAgain { failures, until } => {
                after == Some(&View::Cleaning { failures: *failures, until: Some(*until) })
            }
            Self::Running => matches!(
                after,
                Some(View::Running { run, stopping: None }) if deeds.started == Some(*run)
            ),
            Self::Stopping(why) => {
                deeds.stopped == Some(*why)
                    && matches!(after, Some(View::Running { stopping: Some(shown), .. }) if shown == why)
            }
        }
    }
}

/// Not claimed, or chosen anew in the same step.
fn free(after: Option<&View>, deeds: &Deeds) -> bool {
    match after {
        None => !deeds.checked,
        Some(View::Checking { attempt: None }) => deeds.checked,
        _ => false,
    }
}

/// Due: waiting without a time, or being read.
fn due(attempt: u32, after: Option<&View>, deeds: &Deeds) -> bool {
    match after {
        Some(View::Waiting { attempt: shown, until: None, .. }) => {
            *shown == attempt && !deeds.checked
        }
        Some(View::Checking { attempt: shown }) => deeds.checked && shown.unwrap_or(0) == attempt,
        _ => false,
    }
}

/// Every claim of a snapshot.
pub(crate) fn views(snapshot: &Snapshot) -> BTreeMap<IssueId, (View, Arc<Issue>)> {
    let mut views = BTreeMap::new();
    for row in &snapshot.running {
        let view = View::Running { run: row.run, stopping: row.stopping };
        views.insert(row.issue.id.clone(), (view, Arc::clone(&row.issue)));
    }
    for row in &snapshot.waiting {
        let view =
            View::Waiting { attempt: row.attempt, until: row.until, unchanged: row.unchanged_ends };
        views.insert(row.issue.id.clone(), (view, Arc::clone(&row.issue)));
    }
    for row in &snapshot.blocked {
        let view = View::Blocked { why: row.why.clone() };
        views.insert(row.issue.id.clone(), (view, Arc::clone(&row.issue)));
    }
    for row in &snapshot.checking {
        let view = View::Checking { attempt: row.attempt };
        views.insert(row.issue.id.clone(), (view, Arc::clone(&row.issue)));
    }
    for row in &snapshot.cleaning {
        let view = View::Cleaning { failures: row.failures, until: row.until };
        views.insert(row.issue.id.clone(), (view, Arc::clone(&row.issue)));
    }
    views
}
