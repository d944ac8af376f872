//! One issue, put together from everything that is known of it.

use std::path::Path;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use symphony_core::agent::AgentEvent;
use symphony_core::orchestrator::{IssueName, Outcome, RunEnd};
use symphony_core::run::RunId;
use symphony_core::snapshot::{
    BlockedRow, CheckingRow, CleaningRow, RunningRow, Snapshot, Unstarted, WaitingRow,
};
use symphony_core::time::{Now, Wall};
use symphony_core::{Issue, WorkspaceKey, plain, plain_start};

use super::{
    BlockedStatus, CheckingStatus, CleaningStatus, IssueHead, MAX_TEXT_BYTES, RetryStatus,
    RunningStatus, UnstartedStatus, link, obstacle,
};
use crate::when;

/// Bounds a text of the one issue that is shown.
const MAX_LONG_TEXT_BYTES: usize = 2_000;

/// One issue: what `GET /api/v1/<identifier>` answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct IssueStatus {
    /// The human key.
    pub issue_identifier: String,
    /// The tracker's id.
    pub issue_id: String,
    /// Where it stands.
    pub status: IssueStage,
    /// What it is about, where that is known.
    pub title: Option<String>,
    /// Where people see it.
    pub issue_url: Option<String>,
    /// Where it is worked on.
    pub workspace: Option<WorkspaceStatus>,
    /// What has been tried.
    pub attempts: Attempts,
    /// The live run.
    pub running: Option<RunningStatus>,
    /// The next attempt.
    pub retry: Option<RetryStatus>,
    /// What a person has to do.
    pub blocked: Option<BlockedStatus>,
    /// The read before its start.
    pub checking: Option<CheckingStatus>,
    /// The removal of its workspace.
    pub cleaning: Option<CleaningStatus>,
    /// Why it is not running, if it is a candidate.
    pub unstarted: Option<UnstartedStatus>,
    /// The transcript files of an issue.
    pub logs: TranscriptFiles,
    /// The last things that happened, oldest first.
    pub recent_events: Vec<TimelineEntry>,
    /// What last went wrong.
    pub last_error: Option<String>,
    /// What else the tracker tells of it.
    pub tracked: Map<String, Value>,
}

impl IssueStatus {
    /// Puts together what a snapshot and the past tell of an issue. Its folder is below `root`.
    #[must_use]
    pub fn new(snapshot: &Snapshot, name: &IssueName, past: IssueHistory, root: &Path) -> Self {
        let now = snapshot.now;
        let rows = IssueRows::find(snapshot, name);
        let status = rows.stage(&past.runs);
        let issue = rows.issue();
        let last_error = rows.error().or_else(|| past.last_error());
        let last = past.last_read;
        // A live run is where it began, whatever the issue is called now.
        let begun = rows.running.map(|row| row.key.clone());
        let key = begun.or_else(|| WorkspaceKey::derive(name.identifier.as_str()).ok());
        let key = key.filter(|_| status != IssueStage::Released);
        let shown = Self {
            issue_identifier: name.identifier.as_str().to_owned(),
            issue_id: name.id.as_str().to_owned(),
            status,
            title: issue
                .map(|issue| plain_start(&issue.title, MAX_LONG_TEXT_BYTES))
                .or_else(|| last.as_ref().map(|last| last.title.clone())),
            issue_url: match issue {
                Some(issue) => link(issue.url.as_deref()),
                None => last.as_ref().and_then(|last| last.url.clone()),
            },
            workspace: key
                .map(|key| WorkspaceStatus { path: root.join(key.as_str()).display().to_string() }),
            attempts: Attempts {
                restart_count: rows.attempt().unwrap_or_default(),
                current_retry_attempt: rows.attempt(),
                runs: past.runs,
            },
            running: rows.running.map(RunningStatus::from),
            retry: rows.waiting.map(|row| RetryStatus::new(row, now, obstacle(snapshot))),
            blocked: rows.blocked.map(BlockedStatus::from),
            checking: rows.checking.map(CheckingStatus::from),
            cleaning: rows.cleaning.map(|row| CleaningStatus::new(row, now)),
            unstarted: None,
            logs: TranscriptFiles::default(),
            recent_events: past.events,
            last_error,
            tracked: match (issue, last) {
                (Some(issue), _) => tracked(issue),
                (None, Some(last)) => Map::from_iter([("state".to_owned(), json!(last.state))]),
                (None, None) => Map::new(),
            },
        };
        match rows.unstarted {
            Some(row) => shown.with_reason(row, now),
            None => shown,
        }
    }

    /// Makes an issue that stands nowhere else the candidate that this row shows.
    #[must_use]
    pub fn or_candidate(mut self, row: &Unstarted, now: Now) -> Self {
        if self.status != IssueStage::Released {
            return self;
        }
        if !row.reason.is_over() {
            self.status = IssueStage::Candidate;
        }
        self.with_reason(row, now)
    }

    /// Returns why the issue is not running, unless its question, the time of its next attempt or
    /// its end says the same.
    #[must_use]
    pub fn reason_to_show(&self) -> Option<&UnstartedStatus> {
        let is_told = self.status == IssueStage::Released
            || self.blocked.is_some()
            || self.retry.as_ref().is_some_and(|retry| retry.due_at.is_some());
        self.unstarted.as_ref().filter(|_| !is_told)
    }

    /// Adds why the issue is not running. Of an issue that was never claimed, the row alone tells
    /// what it is about.
    fn with_reason(mut self, row: &Unstarted, now: Now) -> Self {
        let row = UnstartedStatus::new(row, now);
        self.title.get_or_insert_with(|| row.title.clone());
        self.tracked.entry("state").or_insert_with(|| json!(row.state));
        self.unstarted = Some(row);
        self
    }
}

/// The rows of a snapshot that are about one issue.
struct IssueRows<'a> {
    running: Option<&'a RunningRow>,
    waiting: Option<&'a WaitingRow>,
    blocked: Option<&'a BlockedRow>,
    checking: Option<&'a CheckingRow>,
    cleaning: Option<&'a CleaningRow>,
    unstarted: Option<&'a Unstarted>,
}

impl<'a> IssueRows<'a> {
    fn find(snapshot: &'a Snapshot, name: &IssueName) -> Self {
        let id = &name.id;
        Self {
            running: snapshot.running.iter().find(|row| row.issue.id == *id),
            waiting: snapshot.waiting.iter().find(|row| row.issue.id == *id),
            blocked: snapshot.blocked.iter().find(|row| row.issue.id == *id),
            checking: snapshot.checking.iter().find(|row| row.issue.id == *id),
            cleaning: snapshot.cleaning.iter().find(|row| row.issue.id == *id),
            unstarted: snapshot.candidates.first.iter().find(|row| row.id == *id),
        }
    }

    fn stage(&self, runs: &[RunStatus]) -> IssueStage {
        match () {
            () if self.running.is_some() => IssueStage::Running,
            () if self.waiting.is_some() => IssueStage::Retrying,
            () if self.blocked.is_some() => IssueStage::Blocked,
            () if self.checking.is_some() => IssueStage::Checking,
            () if self.cleaning.is_some() => IssueStage::Cleaning,
            // A run that a snapshot does not show yet.
            () if runs.last().is_some_and(|run| run.ended_at.is_none()) => IssueStage::Running,
            () if self.unstarted.is_some_and(|row| !row.reason.is_over()) => IssueStage::Candidate,
            () => IssueStage::Released,
        }
    }

    fn attempt(&self) -> Option<u32> {
        let running = self.running.map(|row| row.attempt);
        let checking = self.checking.map(|row| row.attempt);
        running.or(checking).flatten().or(self.waiting.map(|row| row.attempt))
    }

    fn issue(&self) -> Option<&'a Arc<Issue>> {
        let running = self.running.map(|row| &row.issue);
        let waiting = self.waiting.map(|row| &row.issue);
        let blocked = self.blocked.map(|row| &row.issue);
        let checking = self.checking.map(|row| &row.issue);
        let cleaning = self.cleaning.map(|row| &row.issue);
        running.or(waiting).or(blocked).or(checking).or(cleaning)
    }

    fn error(&self) -> Option<String> {
        let failure = self.waiting?.failure.as_ref()?;
        Some(plain(&failure.to_string(), MAX_LONG_TEXT_BYTES))
    }
}

/// What else the tracker tells, as far as people care; not the description, which may be long.
fn tracked(issue: &Issue) -> Map<String, Value> {
    let text = |text: &str| plain_start(text, MAX_LONG_TEXT_BYTES);
    let blocked_by = issue.blocked_by.iter().filter_map(|blocker| blocker.identifier.as_ref());
    let fields = [
        ("state", json!(text(issue.state.as_str()))),
        ("priority", json!(issue.priority)),
        ("labels", issue.labels.iter().map(|label| text(label.as_str())).collect()),
        ("blocked_by", blocked_by.map(|name| text(name.as_str())).collect()),
        ("branch_name", json!(issue.branch_name.as_deref().map(text))),
        ("created_at", json!(issue.created_at.map(|at| at.to_string()))),
        ("updated_at", json!(issue.updated_at.map(|at| at.to_string()))),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The past of an issue, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IssueHistory {
    /// The latest entries of its timeline.
    pub events: Vec<TimelineEntry>,
    /// The last runs.
    pub runs: Vec<RunStatus>,
    /// The issue as it was last read.
    pub last_read: Option<IssueHead>,
}

impl IssueHistory {
    /// Returns the error of the last run that has ended; none after a success.
    fn last_error(&self) -> Option<String> {
        self.runs.iter().rfind(|run| run.ended_at.is_some())?.error.clone()
    }
}

/// Where an issue stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum IssueStage {
    /// A run lives.
    Running,
    /// It waits for its next attempt.
    Retrying,
    /// It needs a person.
    Blocked,
    /// It is being read before it starts.
    Checking,
    /// Its workspace is being removed.
    Cleaning,
    /// It is a candidate that has not been started.
    Candidate,
    /// It is not ours any more.
    Released,
}

impl IssueStage {
    /// Returns the name in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Retrying => "retrying",
            Self::Blocked => "blocked",
            Self::Checking => "checking",
            Self::Cleaning => "cleaning",
            Self::Candidate => "candidate",
            Self::Released => "released",
        }
    }
}

/// Where an issue is worked on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct WorkspaceStatus {
    /// The folder.
    pub path: String,
}

/// What has been tried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Attempts {
    /// How often it was started again.
    pub restart_count: u32,
    /// Which attempt runs or comes next; absent for the first.
    pub current_retry_attempt: Option<u32>,
    /// Its last runs, oldest first.
    pub runs: Vec<RunStatus>,
}

impl Attempts {
    /// Returns what each run was, in words: the first, an attempt after a failure by its number, or
    /// a continuation, whose number would be 1 each time.
    #[must_use]
    pub fn in_words(&self) -> Vec<String> {
        let before = [None].into_iter().chain(self.runs.iter().map(Some));
        let words = self.runs.iter().zip(before).map(|(run, before)| {
            let outcome = before.and_then(|run| run.outcome.as_deref());
            match (run.attempt, outcome) {
                (None, _) => "first".to_owned(),
                (Some(_), Some("succeeded" | "out_of_turns")) => "continuation".to_owned(),
                (Some(attempt), _) => attempt.to_string(),
            }
        });
        words.collect()
    }
}

/// One run of an issue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct RunStatus {
    /// Its id.
    pub run: String,
    /// Which attempt it is; absent for the first.
    pub attempt: Option<u32>,
    /// When it began.
    #[serde(with = "when")]
    #[schemars(with = "when::Rfc3339")]
    pub started_at: Wall,
    /// When it ended; absent while it lives.
    #[serde(with = "when::maybe")]
    #[schemars(with = "Option<when::Rfc3339>")]
    pub ended_at: Option<Wall>,
    /// How it ended: `done`, `succeeded`, `out_of_turns`, `failed`, `timed_out`, `stalled`,
    /// `cancelled`, `input_required`, `interrupted`.
    pub outcome: Option<String>,
    /// What went wrong.
    pub error: Option<String>,
}

impl RunStatus {
    /// Shows a run that began at this time.
    #[must_use]
    pub fn started(run: RunId, attempt: Option<u32>, at: Wall) -> Self {
        let (ended_at, outcome, error) = (None, None, None);
        Self { run: run.to_string(), attempt, started_at: at, ended_at, outcome, error }
    }

    /// Shows how the run ended. Once the issue is done, how the last turn ended is not an error.
    pub fn end(&mut self, outcome: Outcome, end: &RunEnd, at: Wall) {
        self.ended_at = Some(at);
        self.outcome = Some(outcome.to_string());
        self.error = match end {
            _ if outcome == Outcome::Done => None,
            RunEnd::Succeeded | RunEnd::Cancelled => None,
            RunEnd::Failed(failure) => Some(plain(&failure.to_string(), MAX_TEXT_BYTES)),
            RunEnd::InputRequired { question } => {
                Some(plain_start(&question.to_string(), MAX_TEXT_BYTES))
            }
        };
    }
}

/// The transcript files of an issue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct TranscriptFiles {
    /// The transcript of each run, newest first.
    pub codex_session_logs: Vec<SessionLog>,
}

impl FromIterator<(RunId, String)> for TranscriptFiles {
    /// Lists the file of each run, newest first.
    fn from_iter<I: IntoIterator<Item = (RunId, String)>>(files: I) -> Self {
        let to_log = |(age, (run, path)): (usize, (RunId, String))| {
            let label = if age == 0 { "latest".to_owned() } else { run.to_string() };
            SessionLog { label, run: run.to_string(), path, url: None }
        };
        Self { codex_session_logs: files.into_iter().enumerate().map(to_log).collect() }
    }
}

/// The transcript file of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct SessionLog {
    /// The run, or `latest`.
    pub label: String,
    /// The run.
    #[serde(default)]
    pub run: String,
    /// Where it is, on the service's machine.
    pub path: String,
    /// Where it can be read, below the address of the service.
    pub url: Option<String>,
}

/// Something that happened to an issue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct TimelineEntry {
    /// When.
    #[serde(with = "when")]
    #[schemars(with = "when::Rfc3339")]
    pub at: Wall,
    /// What, in one word.
    pub event: String,
    /// What, in one line.
    pub message: String,
    /// In which run, if in any.
    pub run: Option<String>,
}

impl TimelineEntry {
    /// Shows something that an agent did.
    #[must_use]
    pub fn of_agent(run: RunId, event: &AgentEvent) -> Self {
        Self {
            at: event.at,
            event: plain(&event.name, MAX_TEXT_BYTES),
            message: plain_start(&event.summary, MAX_TEXT_BYTES),
            run: Some(run.to_string()),
        }
    }

    /// Shows a notice by the code and the message of its text.
    #[must_use]
    pub fn of_notice(at: Wall, run: Option<RunId>, code: &str, message: &str) -> Self {
        let (event, message) = (code.to_owned(), message.to_owned());
        Self { at, event, message, run: run.map(|run| run.to_string()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_7_1_a_continuation_is_not_one_more_first_attempt() {
        let run = |attempt, outcome: &str| {
            let id = RunId::parse("1.1").unwrap();
            let mut run = RunStatus::started(id, attempt, Wall::from_unix_millis(0));
            run.outcome = Some(outcome.to_owned());
            run
        };
        let runs = vec![
            run(None, "succeeded"),
            run(Some(1), "out_of_turns"),
            run(Some(1), "failed"),
            run(Some(1), "stalled"),
            run(Some(2), "done"),
        ];
        let attempts = Attempts { runs, ..Attempts::default() };
        assert_eq!(attempts.in_words(), ["first", "continuation", "continuation", "1", "2"]);
    }
}
