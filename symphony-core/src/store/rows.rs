//! Rows: what is kept of the scheduler, as flat values of their own (contract 16.1).
//!
//! A row is a result, not an event: an older row means the same to newer code. Every field has a
//! default, so that a row which an older version wrote can be read; fields that this version does
//! not know are the store's to keep.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::agent::{ClientTurnId, Question, ThreadId, Tokens, Usage, UsdMicros};
use crate::budget::Spent;
use crate::failure::Failure;
use crate::issue::{Identifier, Issue, IssueId, StateName};
use crate::orchestrator::{Job, Outcome, TurnText};
use crate::run::RunId;
use crate::snapshot::Totals;
use crate::time::{Wall, millis};
use crate::workspace::{HostId, Scope, WorkspaceKey};

/// What operators decided about the service as a whole, in every scope.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OperatorRow {
    /// Whether an operator paused starts.
    pub paused: bool,
    /// How many lives there were before those that the store has counted: an older version kept no
    /// rows.
    #[serde(skip_serializing_if = "is_zero")]
    pub earlier_lives: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// When the tracker was last read, and how often today.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PollRow {
    /// The tracker's scope.
    pub scope: Scope,
    /// When each job last ran.
    #[serde(default)]
    pub last_runs: BTreeMap<Job, Wall>,
    /// The day's requests so far.
    #[serde(default)]
    pub spent: Spent,
}

impl PollRow {
    /// Makes the row of a scope that was never read.
    #[must_use]
    pub const fn new(scope: Scope) -> Self {
        let requests = BTreeMap::new();
        Self { scope, last_runs: BTreeMap::new(), spent: Spent { day: 0, requests } }
    }
}

/// The claim on an issue: what is left to do after a restart.
///
/// An issue that is being checked before its first start, and one whose workspace is being removed,
/// have none: the next life lists the one and sweeps the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimRow {
    /// The tracker's scope: the same id in another one is another issue.
    pub scope: Scope,
    /// The issue as last read, without its description.
    pub issue: Issue,
    /// The workspace's name.
    pub key: WorkspaceKey,
    /// The machine.
    #[serde(default = "HostId::local")]
    pub host: HostId,
    /// Where it stands.
    #[serde(default)]
    pub stage: ClaimStage,
    /// The attempt that runs or comes next; `None` for the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Why it waits, if something went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Consecutive normal ends that changed nothing (contract 7.7).
    #[serde(default)]
    pub unchanged_ends: u32,
    /// Consecutive restarts that cut off a run of it.
    #[serde(default)]
    pub interruptions: u32,
    /// When it is due, by the wall clock, and the wait that this was the end of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<DueTime>,
    /// The conversation to go on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadId>,
    /// The kind of agent that had it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Whether that conversation ended with a question that has no answer.
    #[serde(default)]
    pub unanswered: bool,
    /// The turn that was last submitted to it and is not known to have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<AskedTurn>,
    /// What of each conversation's usage is in the totals already.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counted: BTreeMap<ThreadId, Usage>,
    /// What the agent asked, where that is why it is blocked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<Question>,
    /// Since when it is blocked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Wall>,
    /// Whether a read has shown since then in which state the issue was left.
    #[serde(default)]
    pub seen: bool,
}

/// Where a claim stands, as the next life must know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimStage {
    /// It waits for its next attempt.
    #[default]
    Waiting,
    /// A run lives, or is being stopped: after a restart it was interrupted.
    Running,
    /// It needs a person: an operator stopped it, or is stopping it, or the agent asked something.
    Blocked,
}

/// A point in time, by a clock that may jump, and the wait that leads there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DueTime {
    /// When it is due.
    pub at: Wall,
    /// How long the wait was when it began: no jump of the clock makes it longer.
    pub span_ms: u64,
}

impl DueTime {
    /// Makes the end of a wait that begins now.
    #[must_use]
    pub fn after(span: Duration, now: Wall) -> Self {
        Self { at: now + span, span_ms: millis(span) }
    }

    /// Returns what is left of the wait.
    #[must_use]
    pub fn rest(self, now: Wall) -> Duration {
        now.until(self.at).unwrap_or_default().min(Duration::from_millis(self.span_ms))
    }
}

/// A turn that was handed to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedTurn {
    /// The id that it was submitted with.
    pub client_id: ClientTurnId,
    /// Its number within its run.
    pub number: u32,
    /// What it says: the same again, if it never reached the agent.
    #[serde(default)]
    pub text: TurnText,
}

/// A run, from its start to its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRow {
    /// Its id.
    pub run: RunId,
    /// The tracker's scope.
    pub scope: Scope,
    /// The issue.
    pub issue: IssueId,
    /// The issue's name for people.
    pub identifier: Identifier,
    /// The issue's title when the run began.
    #[serde(default)]
    pub title: String,
    /// The issue's state when it was last read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StateName>,
    /// `None` on the first run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The kind of agent.
    #[serde(default)]
    pub agent: String,
    /// The machine.
    #[serde(default = "HostId::local")]
    pub host: HostId,
    /// When it began.
    pub began: Wall,
    /// When it ended; `None` while it lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Wall>,
    /// What came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// What went wrong, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// How many turns it had.
    #[serde(default)]
    pub turns: u32,
    /// The model, where the agent named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The reasoning effort, where the agent named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// The conversation, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadId>,
    /// The tokens that it used.
    #[serde(default)]
    pub tokens: Tokens,
    /// What the agent says they cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<UsdMicros>,
}

/// A kind of agent to which all starts are held.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldAgentRow {
    /// The agent's kind.
    pub agent: String,
    /// When the next run may try.
    pub due: DueTime,
    /// Why.
    pub failure: Failure,
}

/// All rows that a life begins with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rows {
    /// What operators decided.
    pub operator: OperatorRow,
    /// The last reads of the scope, and the day's requests.
    pub polls: Option<PollRow>,
    /// Sums over all runs of all lives.
    pub totals: Totals,
    /// The claims of the scope.
    pub claims: Vec<ClaimRow>,
    /// The kinds of agent to which all starts are held.
    pub holds: Vec<HeldAgentRow>,
    /// The runs that no life has ended, of every scope.
    pub open_runs: Vec<RunRow>,
}

/// One change of what is kept. Each holds its whole row: to repeat one changes nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Write {
    /// Operators decided something else.
    Operator(OperatorRow),
    /// The tracker was read.
    Polls(PollRow),
    /// The sums changed.
    Totals(Totals),
    /// A claim began or changed.
    Claim(Box<ClaimRow>),
    /// A claim is gone.
    ClaimGone {
        /// The tracker's scope.
        scope: Scope,
        /// The issue.
        issue: IssueId,
    },
    /// A run began, changed or ended.
    Run(Box<RunRow>),
    /// All starts to an agent are held.
    Hold(HeldAgentRow),
    /// Starts to an agent go on.
    HoldGone {
        /// The agent's kind.
        agent: String,
    },
}

/// Which row a [`Write`] is about: of two with one key the later one counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowKey {
    /// What operators decided.
    Operator,
    /// The last reads of a scope.
    Polls(Scope),
    /// The one row of sums.
    Totals,
    /// A claim.
    Claim(Scope, IssueId),
    /// A run.
    Run(RunId),
    /// A held kind of agent.
    Hold(String),
}

impl Write {
    /// Returns the row that it is about.
    #[must_use]
    pub fn key(&self) -> RowKey {
        match self {
            Self::Operator(_) => RowKey::Operator,
            Self::Polls(row) => RowKey::Polls(row.scope.clone()),
            Self::Totals(_) => RowKey::Totals,
            Self::Claim(row) => RowKey::Claim(row.scope.clone(), row.issue.id.clone()),
            Self::ClaimGone { scope, issue } => RowKey::Claim(scope.clone(), issue.clone()),
            Self::Run(row) => RowKey::Run(row.run),
            Self::Hold(row) => RowKey::Hold(row.agent.clone()),
            Self::HoldGone { agent } => RowKey::Hold(agent.clone()),
        }
    }
}
