//! A [`Snapshot`] as people and programs see it (contract 13.2, 13.3).

mod candidates;
mod issue;
mod polling;
mod rows;

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use symphony_core::agent::{Tokens, UsdMicros};
use symphony_core::plain;
use symphony_core::problem::Problem;
use symphony_core::snapshot::{HoldRow, ServiceRow, Slots, Snapshot, Totals};
use symphony_core::time::{Mono, Now, Wall};

use crate::when;

use candidates::Standing;
pub use candidates::{
    CandidatesStatus, ExplanationStatus, IssueExplanation, UnstartedStatus, VerdictStatus,
    reason_in_words,
};
pub use issue::{
    Attempts, IssueHistory, IssueStage, IssueStatus, RunStatus, SessionLog, TimelineEntry,
    TranscriptFiles, WorkspaceStatus,
};
pub use polling::{
    BudgetStatus, JobStatus, PollingStatus, RateLimitStatus, RateLimitsStatus, WebhookStatus,
};
pub use rows::{
    BlockedStatus, CheckingStatus, CleaningStatus, IssueHead, RetryStatus, RunningStatus, link,
};

/// Bounds a foreign text.
pub(crate) const MAX_TEXT_BYTES: usize = 500;

/// Bounds a title or a name.
const MAX_TITLE_BYTES: usize = 200;

/// Everything, at one moment: what `GET /api/v1/state` answers.
pub type Status = StatusOf<RunningStatus, RetryStatus, BlockedStatus>;

/// [`Status`] with rows of any kind, such as rows that are written already.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct StatusOf<Running, Retrying, Blocked> {
    /// All but the long lists.
    #[serde(flatten)]
    pub summary: Summary,
    /// Runs that live, also those asked to stop.
    pub running: Vec<Running>,
    /// Issues that wait for their next attempt.
    pub retrying: Vec<Retrying>,
    /// Issues that need a person.
    pub blocked: Vec<Blocked>,
}

impl<Running, Retrying, Blocked> StatusOf<Running, Retrying, Blocked> {
    /// Puts a summary and its lists together.
    #[must_use]
    pub const fn new(
        summary: Summary,
        running: Vec<Running>,
        retrying: Vec<Retrying>,
        blocked: Vec<Blocked>,
    ) -> Self {
        Self { summary, running, retrying, blocked }
    }
}

impl From<&Snapshot> for Status {
    fn from(snapshot: &Snapshot) -> Self {
        let now = snapshot.now;
        Self {
            summary: Summary::from(snapshot),
            running: snapshot.running.iter().map(RunningStatus::from).collect(),
            retrying: snapshot
                .waiting
                .iter()
                .map(|row| RetryStatus::new(row, now, obstacle(snapshot)))
                .collect(),
            blocked: snapshot.blocked.iter().map(BlockedStatus::from).collect(),
        }
    }
}

/// Returns what a retry waits for that is due and does not start.
#[must_use]
pub const fn obstacle(snapshot: &Snapshot) -> &'static str {
    if snapshot.shutting_down {
        "the service ends"
    } else if !snapshot.problems.is_empty() {
        "the workflow file cannot be used"
    } else if snapshot.paused {
        "starts are paused"
    } else if snapshot.storage.is_some() {
        "what must survive a restart cannot be written"
    } else if !snapshot.holds.is_empty() {
        "the agent refuses for now"
    } else {
        "no available orchestrator slots"
    }
}

/// Everything but the long lists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Summary {
    /// When this was so.
    #[serde(with = "when")]
    #[schemars(with = "when::Rfc3339")]
    pub generated_at: Wall,
    /// How many there are of what.
    pub counts: IssueCounts,
    /// Sums over all runs, also those before a restart.
    pub codex_totals: TotalsStatus,
    /// The agent's limits, as last reported.
    pub rate_limits: Option<RateLimitsStatus>,
    /// Why nothing starts, or that something does.
    pub verdict: VerdictStatus,
    /// Slots in use and in all.
    pub slots: SlotsStatus,
    /// Agents that nothing is started on for now.
    pub holds: Vec<HoldStatus>,
    /// How and when the tracker is read.
    pub polling: PollingStatus,
    /// The candidates that were not started, and why.
    pub candidates: CandidatesStatus,
    /// Issues being read before they start.
    pub checking: Vec<CheckingStatus>,
    /// Issues whose workspace is being removed.
    pub cleaning: Vec<CleaningStatus>,
    /// Whether starts are paused.
    pub paused: bool,
    /// Whether the service ends.
    pub shutting_down: bool,
    /// Why nothing can be written for the next start, if so; nothing is started meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_error: Option<String>,
    /// What is wrong with the workflow file; empty when it is in force.
    pub problems: Vec<ProblemStatus>,
    /// What is doubtful in the workflow file that is in force.
    #[serde(default)]
    pub warnings: Vec<ProblemStatus>,
    /// Tells this service from others.
    #[serde(default)]
    pub service: ServiceStatus,
}

impl From<&Snapshot> for Summary {
    fn from(snapshot: &Snapshot) -> Self {
        let now = snapshot.now;
        Self {
            generated_at: now.wall,
            counts: IssueCounts::from(snapshot),
            codex_totals: TotalsStatus::from(&snapshot.totals),
            rate_limits: snapshot.rate_limits.as_deref().map(RateLimitsStatus::from),
            verdict: VerdictStatus::new(&snapshot.verdict, &Standing::from(snapshot), now),
            slots: SlotsStatus::from(&snapshot.slots),
            holds: snapshot.holds.iter().map(|hold| HoldStatus::new(hold, now)).collect(),
            polling: PollingStatus::new(&snapshot.polling, now),
            candidates: CandidatesStatus::new(&snapshot.candidates, now),
            checking: snapshot.checking.iter().map(CheckingStatus::from).collect(),
            cleaning: snapshot.cleaning.iter().map(|row| CleaningStatus::new(row, now)).collect(),
            paused: snapshot.paused,
            shutting_down: snapshot.shutting_down,
            storage_error: snapshot
                .storage
                .as_ref()
                .map(|failure| plain(&failure.message, MAX_TEXT_BYTES)),
            problems: snapshot.problems.iter().map(ProblemStatus::from).collect(),
            warnings: snapshot.warnings.iter().map(ProblemStatus::from).collect(),
            service: ServiceStatus::from(&snapshot.service),
        }
    }
}

/// Names a service: what tells one dashboard from another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ServiceStatus {
    /// The workflow file; absent for settings made in code.
    pub workflow: Option<String>,
    /// The kind of the tracker.
    pub tracker: String,
    /// The part of the tracker that is read.
    pub scope: String,
}

impl From<&ServiceRow> for ServiceStatus {
    fn from(row: &ServiceRow) -> Self {
        Self {
            workflow: row.workflow.as_deref().map(|path| plain(path, MAX_TEXT_BYTES)),
            tracker: plain(&row.tracker, MAX_TITLE_BYTES),
            scope: plain(row.scope.as_str(), MAX_TEXT_BYTES),
        }
    }
}

impl ServiceStatus {
    /// Returns the parts that name it for people, the most telling first: the tracker's scope, then
    /// the workflow file.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let scope = if self.scope.is_empty() { &self.tracker } else { &self.scope };
        let names = [Some(scope.as_str()), self.workflow.as_deref()];
        names.into_iter().flatten().filter(|name| !name.is_empty()).collect()
    }
}

/// How many there are of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct IssueCounts {
    /// Runs that live.
    pub running: usize,
    /// Issues that wait for their next attempt.
    pub retrying: usize,
    /// Issues that need a person.
    pub blocked: usize,
    /// Issues being read before they start.
    pub checking: usize,
    /// Issues whose workspace is being removed.
    pub cleaning: usize,
    /// Candidates in the last list.
    pub candidates: usize,
}

impl From<&Snapshot> for IssueCounts {
    fn from(snapshot: &Snapshot) -> Self {
        Self {
            running: snapshot.running.len(),
            retrying: snapshot.waiting.len(),
            blocked: snapshot.blocked.len(),
            checking: snapshot.checking.len(),
            cleaning: snapshot.cleaning.len(),
            candidates: snapshot.candidates.total,
        }
    }
}

/// Sums over all runs, also those before a restart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct TotalsStatus {
    /// Tokens of all runs, the live ones included.
    #[serde(flatten)]
    pub tokens: TokensStatus,
    /// What agents said their runs cost, in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Running time of all runs, the live ones included.
    pub seconds_running: f64,
    /// Runs started.
    pub runs_started: u64,
    /// Runs whose issue is completed.
    #[serde(default)]
    pub runs_done: u64,
    /// Runs that ended by themselves and left the issue to others.
    pub runs_succeeded: u64,
    /// Runs that used up their turns.
    #[serde(default)]
    pub runs_out_of_turns: u64,
    /// Runs that failed, stalled or timed out.
    pub runs_failed: u64,
    /// Runs that were stopped.
    pub runs_cancelled: u64,
    /// Runs that ended with a question.
    pub runs_input_required: u64,
    /// Runs that a restart cut off.
    #[serde(default)]
    pub runs_interrupted: u64,
}

impl TotalsStatus {
    /// Adds the time that so many runs have been running since.
    pub fn run_on(&mut self, since: Duration, runs: usize) {
        let runs = u32::try_from(runs).unwrap_or(u32::MAX);
        self.seconds_running = tenths(self.seconds_running + since.as_secs_f64() * f64::from(runs));
    }
}

impl From<&Totals> for TotalsStatus {
    fn from(totals: &Totals) -> Self {
        Self {
            tokens: TokensStatus::from(totals.tokens),
            cost_usd: totals.cost.map(UsdMicros::as_dollars),
            seconds_running: tenths(totals.runtime.as_secs_f64()),
            runs_started: totals.started,
            runs_done: totals.done,
            runs_succeeded: totals.succeeded,
            runs_out_of_turns: totals.out_of_turns,
            runs_failed: totals.failed,
            runs_cancelled: totals.cancelled,
            runs_input_required: totals.input_required,
            runs_interrupted: totals.interrupted,
        }
    }
}

/// More would be noise.
fn tenths(seconds: f64) -> f64 {
    (seconds * 10.0).round() / 10.0
}

/// Token counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct TokensStatus {
    /// Sent to the model.
    pub input_tokens: u64,
    /// Written by the model.
    pub output_tokens: u64,
    /// As the agent adds them up.
    pub total_tokens: u64,
    /// Of the input, read from a cache.
    pub cached_input_tokens: u64,
    /// Of the output, spent on reasoning.
    pub reasoning_output_tokens: u64,
}

impl From<Tokens> for TokensStatus {
    fn from(tokens: Tokens) -> Self {
        Self {
            input_tokens: tokens.input,
            output_tokens: tokens.output,
            total_tokens: tokens.total,
            cached_input_tokens: tokens.cached_input,
            reasoning_output_tokens: tokens.reasoning_output,
        }
    }
}

/// Slots in use and in all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct SlotsStatus {
    /// Live runs.
    pub used: u32,
    /// `agent.max_concurrent_agents`
    pub limit: u32,
    /// Live runs by the state of their issue.
    pub by_state: BTreeMap<String, u32>,
    /// Live runs by machine.
    pub by_host: BTreeMap<String, u32>,
}

impl From<&Slots> for SlotsStatus {
    fn from(slots: &Slots) -> Self {
        let by_state = slots.by_state.iter();
        let by_host = slots.by_host.iter();
        Self {
            used: slots.used,
            limit: slots.limit,
            by_state: by_state
                .map(|(state, n)| (plain(state.as_str(), MAX_TITLE_BYTES), *n))
                .collect(),
            by_host: by_host.map(|(host, n)| (plain(host.as_str(), MAX_TITLE_BYTES), *n)).collect(),
        }
    }
}

/// An agent that nothing is started on for now (contract 7.6).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct HoldStatus {
    /// The agent's kind.
    pub agent: String,
    /// Until then; after it, one run tries.
    #[serde(with = "when")]
    #[schemars(with = "when::Rfc3339")]
    pub until: Wall,
    /// The run that tries.
    pub probe: Option<String>,
    /// Why.
    pub error: String,
}

impl HoldStatus {
    fn new(hold: &HoldRow, now: Now) -> Self {
        Self {
            agent: plain(&hold.agent, MAX_TITLE_BYTES),
            until: at(now, hold.until),
            probe: hold.probe.map(|run| run.to_string()),
            error: plain(&hold.failure.to_string(), MAX_TEXT_BYTES),
        }
    }
}

/// Something wrong in the workflow file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ProblemStatus {
    /// What sort of problem.
    pub code: String,
    /// The setting it is about.
    pub path: Option<String>,
    /// Where, from one.
    pub line: Option<u32>,
    /// Where in that line, from one.
    pub column: Option<u32>,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
}

impl From<&Problem> for ProblemStatus {
    fn from(problem: &Problem) -> Self {
        Self {
            code: problem.kind.as_str().to_owned(),
            path: problem.path.as_ref().map(|path| plain(path, MAX_TITLE_BYTES)),
            line: problem.at.map(|at| at.line),
            column: problem.at.map(|at| at.column),
            message: plain(&problem.message, MAX_TEXT_BYTES),
            help: problem.help.as_ref().map(|help| plain(help, MAX_TEXT_BYTES)),
        }
    }
}

/// A point on the monotonic clock as a time of day.
fn at(now: Now, point: Mono) -> Wall {
    if point >= now.mono {
        now.wall + now.mono.until(point)
    } else {
        now.wall - now.mono.since(point)
    }
}
