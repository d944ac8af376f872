//! The rows of the long lists.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use symphony_core::agent::UsdMicros;
use symphony_core::orchestrator::{BlockReason, Phase, StopReason};
use symphony_core::snapshot::{BlockedRow, CheckingRow, CleaningRow, RunningRow, WaitingRow};
use symphony_core::time::{Now, Wall};
use symphony_core::{Issue, is_plain, plain, plain_start};

use super::{MAX_TEXT_BYTES, MAX_TITLE_BYTES, TokensStatus, at};
use crate::when;

/// Bounds a link.
const MAX_URL_BYTES: usize = 2_000;

/// What a row tells of its issue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct IssueHead {
    /// The tracker's id.
    #[serde(rename = "issue_id")]
    pub id: String,
    /// The human key.
    #[serde(rename = "issue_identifier")]
    pub identifier: String,
    /// What it is about.
    pub title: String,
    /// Where people see it.
    #[serde(rename = "issue_url")]
    pub url: Option<String>,
    /// The issue's state.
    pub state: String,
}

impl From<&Issue> for IssueHead {
    fn from(issue: &Issue) -> Self {
        Self {
            id: issue.id.as_str().to_owned(),
            identifier: issue.identifier.as_str().to_owned(),
            title: plain_start(&issue.title, MAX_TITLE_BYTES),
            url: link(issue.url.as_deref()),
            state: plain_start(issue.state.as_str(), MAX_TITLE_BYTES),
        }
    }
}

/// A live run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct RunningStatus {
    /// The issue.
    #[serde(flatten)]
    pub issue: IssueHead,
    /// `<thread>-<turn>`
    pub session_id: Option<String>,
    /// Turns begun.
    pub turn_count: u32,
    /// How many there may be.
    pub max_turns: u32,
    /// Turns that the agent began without being asked to.
    #[serde(default)]
    pub unrequested_turns: u32,
    /// The phase of the run.
    pub phase: Phase,
    /// Why the run was told to stop, if it was.
    pub stopping: Option<StopReason>,
    /// Whether the run is still there after the time limit of its stop.
    pub stop_overdue: bool,
    /// The run.
    pub run: String,
    /// Which attempt it is; absent for the first.
    pub attempt: Option<u32>,
    /// The machine.
    pub host: String,
    /// The name of the workspace's folder.
    pub workspace_key: String,
    /// The PID of the agent.
    pub pid: Option<u32>,
    /// The name of the last thing worth showing.
    pub last_event: Option<String>,
    /// One line about it.
    pub last_message: String,
    /// When it began.
    #[serde(with = "when")]
    #[schemars(with = "when::Rfc3339")]
    pub started_at: Wall,
    /// When the last thing worth showing happened.
    #[serde(with = "when::maybe")]
    #[schemars(with = "Option<when::Rfc3339>")]
    pub last_event_at: Option<Wall>,
    /// The model in force, where the agent names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The reasoning effort in force, where the agent names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// Tokens used by this run.
    pub tokens: TokensStatus,
    /// What the agent says this run cost, in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

impl From<&RunningRow> for RunningStatus {
    fn from(row: &RunningRow) -> Self {
        let last = row.last_event.as_deref();
        Self {
            issue: IssueHead::from(&*row.issue),
            session_id: row.session_id.as_deref().map(|id| plain(id, MAX_TITLE_BYTES)),
            turn_count: row.turns,
            max_turns: row.max_turns,
            unrequested_turns: row.unrequested_turns,
            phase: row.phase,
            stopping: row.stopping,
            stop_overdue: row.stop_overdue,
            run: row.run.to_string(),
            attempt: row.attempt,
            host: plain(row.host.as_str(), MAX_TITLE_BYTES),
            workspace_key: row.key.as_str().to_owned(),
            pid: row.pid,
            last_event: last.map(|event| plain(&event.name, MAX_TITLE_BYTES)),
            last_message: last
                .map(|event| plain_start(&event.summary, MAX_TEXT_BYTES))
                .unwrap_or_default(),
            started_at: row.started.wall,
            last_event_at: last.map(|event| event.at),
            model: row.model.as_deref().map(|model| plain(model, MAX_TITLE_BYTES)),
            effort: row.effort.as_deref().map(|effort| plain(effort, MAX_TITLE_BYTES)),
            tokens: TokensStatus::from(row.tokens),
            cost_usd: row.cost.map(UsdMicros::as_dollars),
        }
    }
}

/// An issue that waits for its next attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct RetryStatus {
    /// The issue.
    #[serde(flatten)]
    pub issue: IssueHead,
    /// Which attempt that will be.
    pub attempt: u32,
    /// When it is due; absent when it is due already and waits for something else.
    #[serde(with = "when::maybe")]
    #[schemars(with = "Option<when::Rfc3339>")]
    pub due_at: Option<Wall>,
    /// What went wrong, or what it waits for.
    pub error: Option<String>,
    /// Consecutive normal ends that changed nothing (contract 7.7).
    pub unchanged_ends: u32,
}

impl RetryStatus {
    /// Shows a row; one that is due and did not fail waits for this obstacle.
    #[must_use]
    pub fn new(row: &WaitingRow, now: Now, obstacle: &str) -> Self {
        let failure =
            row.failure.as_ref().map(|failure| plain(&failure.to_string(), MAX_TEXT_BYTES));
        let is_due = row.until.is_none();
        Self {
            issue: IssueHead::from(&*row.issue),
            attempt: row.attempt,
            due_at: row.until.map(|until| at(now, until)),
            error: failure.or_else(|| is_due.then(|| obstacle.to_owned())),
            unchanged_ends: row.unchanged_ends,
        }
    }
}

/// An issue that needs a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct BlockedStatus {
    /// The issue.
    #[serde(flatten)]
    pub issue: IssueHead,
    /// `question` or `operator`
    pub reason: String,
    /// What the agent asked.
    pub question: Option<String>,
    /// Since when.
    #[serde(with = "when")]
    #[schemars(with = "when::Rfc3339")]
    pub since: Wall,
}

impl From<&BlockedRow> for BlockedStatus {
    fn from(row: &BlockedRow) -> Self {
        let (reason, question) = match &row.why {
            BlockReason::Question(question) => {
                ("question", Some(plain_start(&question.to_string(), 4 * MAX_TEXT_BYTES)))
            }
            BlockReason::Operator => ("operator", None),
            _ => ("other", None),
        };
        Self {
            issue: IssueHead::from(&*row.issue),
            reason: reason.to_owned(),
            question,
            since: row.since.wall,
        }
    }
}

/// An issue being read before it starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct CheckingStatus {
    /// The tracker's id.
    pub issue_id: String,
    /// The human key.
    pub issue_identifier: String,
    /// The issue's state.
    pub state: String,
    /// The attempt it would start; absent for the first.
    pub attempt: Option<u32>,
}

impl From<&CheckingRow> for CheckingStatus {
    fn from(row: &CheckingRow) -> Self {
        Self {
            issue_id: row.issue.id.as_str().to_owned(),
            issue_identifier: row.issue.identifier.as_str().to_owned(),
            state: plain_start(row.issue.state.as_str(), MAX_TITLE_BYTES),
            attempt: row.attempt,
        }
    }
}

/// An issue whose workspace is being removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct CleaningStatus {
    /// The tracker's id.
    pub issue_id: String,
    /// The human key.
    pub issue_identifier: String,
    /// The issue's state.
    pub state: String,
    /// How often removing it has failed.
    pub failures: u32,
    /// When it is tried again; absent while it is being tried.
    #[serde(with = "when::maybe")]
    #[schemars(with = "Option<when::Rfc3339>")]
    pub due_at: Option<Wall>,
}

impl CleaningStatus {
    /// Shows a row at this time.
    #[must_use]
    pub fn new(row: &CleaningRow, now: Now) -> Self {
        Self {
            issue_id: row.issue.id.as_str().to_owned(),
            issue_identifier: row.issue.identifier.as_str().to_owned(),
            state: plain_start(row.issue.state.as_str(), MAX_TITLE_BYTES),
            failures: row.failures,
            due_at: row.until.map(|until| at(now, until)),
        }
    }
}

/// Returns a link that leads to a web page and nowhere else: a tracker's text may say
/// `javascript:`.
#[must_use]
pub fn link(url: Option<&str>) -> Option<String> {
    let url = url?;
    let is_http = ["https://", "http://"].iter().any(|scheme| {
        url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    });
    let is_clean = url.len() <= MAX_URL_BYTES && url.chars().all(|c| is_plain(c) && c != ' ');
    (is_http && is_clean).then(|| url.to_owned())
}
