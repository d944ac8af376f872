//! One issue, with everything that is known of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    BlockedStatus, CheckingStatus, CleaningStatus, RetryStatus, RunningStatus, UnstartedStatus,
};
use crate::when;
use symphony_core::time::Wall;

/// One issue: what `GET /api/v1/<identifier>` answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IssueStatus {
    /// The human key.
    pub issue_identifier: String,
    /// The tracker's id.
    pub issue_id: String,
    /// Where it stands.
    pub status: Stage,
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
    /// Files with what was said.
    pub logs: Logs,
    /// The last things that happened, oldest first.
    pub recent_events: Vec<TimelineEntry>,
    /// What last went wrong.
    pub last_error: Option<String>,
    /// What else the tracker tells of it.
    pub tracked: Map<String, Value>,
}

/// Where an issue stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
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

impl Stage {
    /// The name in the API.
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
pub struct WorkspaceStatus {
    /// The folder.
    pub path: String,
}

/// What has been tried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Attempts {
    /// How often it was started again.
    pub restart_count: u32,
    /// Which attempt runs or comes next; absent for the first.
    pub current_retry_attempt: Option<u32>,
    /// Its last runs, oldest first.
    pub runs: Vec<RunStatus>,
}

/// One run of an issue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// `cancelled`, `input_required`.
    pub outcome: Option<String>,
    /// What went wrong.
    pub error: Option<String>,
}

/// Files with what was said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Logs {
    /// What was said with the agent, a file for each run, newest first.
    pub codex_session_logs: Vec<SessionLog>,
}

/// One such file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionLog {
    /// The run, or `latest`.
    pub label: String,
    /// Where it is, on the service's machine.
    pub path: String,
    /// Where it can be read; nowhere yet.
    pub url: Option<String>,
}

/// Something that happened to an issue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
