//! What the orchestrator shows of itself (contract 5.5, 13.2). Deadlines are in [`Mono`]; readers
//! turn them into countdowns with [`Snapshot::now`].

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::agent::{AgentEvent, RateLimits, ThreadId, Tokens, UsdMicros};
use crate::budget::BudgetView;
use crate::failure::Failure;
use crate::issue::{Identifier, Issue, IssueId, Label, StateName};
use crate::orchestrator::{BlockReason, Job, Phase, StopReason};
use crate::problem::Problem;
use crate::run::RunId;
use crate::time::{Mono, Now, Wall};
use crate::workspace::{HostId, Scope, WorkspaceKey};

/// The state of everything at one moment. Rows are in the order of their issue ids.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Snapshot {
    /// When it was taken.
    pub now: Now,
    /// Runs that live, also those asked to stop.
    pub running: Vec<RunningRow>,
    /// Issues that wait for their next attempt.
    pub waiting: Vec<WaitingRow>,
    /// Issues that need a person.
    pub blocked: Vec<BlockedRow>,
    /// Issues being read before they start.
    pub checking: Vec<CheckingRow>,
    /// Issues whose workspace is being removed.
    pub cleaning: Vec<CleaningRow>,
    /// Slots in use, by state and by host.
    pub slots: Slots,
    /// Sums over all runs.
    pub totals: Totals,
    /// The agent's limits, as last reported.
    pub rate_limits: Option<Arc<RateLimits>>,
    /// Agents that nothing is started on for now.
    pub holds: Vec<HoldRow>,
    /// How and when the tracker is read.
    pub polling: Polling,
    /// The candidates that were not started, and why.
    pub candidates: Arc<CandidatesView>,
    /// Why nothing starts, or that something does.
    pub verdict: Verdict,
    /// Whether starts are paused.
    pub paused: bool,
    /// Whether the service drains.
    pub shutting_down: bool,
    /// Why nothing can be written for the next life, if so.
    pub storage: Option<Failure>,
    /// What is wrong with the workflow file now; empty when it is in force.
    pub problems: Vec<Problem>,
    /// What is doubtful in the workflow file that is in force.
    pub warnings: Arc<[Problem]>,
    /// Tells this service from others.
    pub service: ServiceRow,
}

impl Snapshot {
    /// Returns every issue that is claimed.
    pub fn claimed(&self) -> impl Iterator<Item = &Arc<Issue>> {
        let running = self.running.iter().map(|row| &row.issue);
        let waiting = self.waiting.iter().map(|row| &row.issue);
        let blocked = self.blocked.iter().map(|row| &row.issue);
        let checking = self.checking.iter().map(|row| &row.issue);
        let cleaning = self.cleaning.iter().map(|row| &row.issue);
        running.chain(waiting).chain(blocked).chain(checking).chain(cleaning)
    }
}

/// Names a service: what tells one dashboard from another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceRow {
    /// The workflow file. The core does not know it: a driver fills it in.
    pub workflow: Option<Arc<str>>,
    /// The kind of the tracker.
    pub tracker: String,
    /// The part of the tracker that is read.
    pub scope: Scope,
}

/// A live run and how far it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunningRow {
    /// The issue, as last read.
    pub issue: Arc<Issue>,
    /// The id of the run, unique across restarts.
    pub run: RunId,
    /// `None` on the first run.
    pub attempt: Option<u32>,
    /// The host that the agent runs on.
    pub host: HostId,
    /// The name of the workspace folder.
    pub key: WorkspaceKey,
    /// The phase it is in.
    pub phase: Phase,
    /// Why it was told to stop, if it was.
    pub stopping: Option<StopReason>,
    /// Whether it is still there after the bound of its stop.
    pub stop_overdue: bool,
    /// When the run started.
    pub started: Now,
    /// Turns begun.
    pub turns: u32,
    /// How many turns the run may have.
    pub max_turns: u32,
    /// Turns that the agent began without being asked to; none of them counts as one of `turns`.
    pub unrequested_turns: u32,
    /// By when the turn must have ended: the agent has moved its issue out of the active states.
    pub finish_by: Option<Mono>,
    /// The agent's conversation, once it is known.
    pub thread: Option<ThreadId>,
    /// `<thread>-<turn>`
    pub session_id: Option<Arc<str>>,
    /// The process id of the agent, where it has one.
    pub pid: Option<u32>,
    /// The model in force, where the agent names it.
    pub model: Option<Arc<str>>,
    /// The reasoning effort in force, where the agent names it.
    pub effort: Option<Arc<str>>,
    /// Tokens used by this run.
    pub tokens: Tokens,
    /// What the agent says this run cost.
    pub cost: Option<UsdMicros>,
    /// The last event of the agent that is worth showing.
    pub last_event: Option<Arc<AgentEvent>>,
    /// When the agent last showed a sign of life.
    pub last_alive: Mono,
}

/// An issue that waits for its next attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WaitingRow {
    /// The issue, as last read.
    pub issue: Arc<Issue>,
    /// The number of the next attempt.
    pub attempt: u32,
    /// When it is due; `None` when it is due and waits for a slot, a hold or an operator.
    pub until: Option<Mono>,
    /// What went wrong, if anything.
    pub failure: Option<Failure>,
    /// Consecutive normal ends that changed nothing (contract 7.7).
    pub unchanged_ends: u32,
}

/// An issue that needs a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BlockedRow {
    /// The issue, as last read.
    pub issue: Arc<Issue>,
    /// Why it is blocked.
    pub why: BlockReason,
    /// Since when it is blocked.
    pub since: Now,
}

/// An issue being read before it starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CheckingRow {
    /// The issue, as last read.
    pub issue: Arc<Issue>,
    /// The attempt it would start; `None` for the first.
    pub attempt: Option<u32>,
}

/// An issue whose workspace is being removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CleaningRow {
    /// The issue, as last read.
    pub issue: Arc<Issue>,
    /// How often removing it has failed.
    pub failures: u32,
    /// When it is tried again; `None` while it is being tried.
    pub until: Option<Mono>,
}

/// Slots in use and in all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Slots {
    /// How many runs are live.
    pub used: u32,
    /// `agent.max_concurrent_agents`
    pub limit: u32,
    /// Live runs by the state of their issue.
    pub by_state: BTreeMap<StateName, u32>,
    /// Live runs by host.
    pub by_host: BTreeMap<HostId, u32>,
}

/// Sums over all lives of the service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Totals {
    /// Tokens of all runs, the live ones included.
    pub tokens: Tokens,
    /// What agents said their runs cost, the live ones included.
    pub cost: Option<UsdMicros>,
    /// Running time of all runs, the live ones included.
    pub runtime: Duration,
    /// Runs that were started.
    pub started: u64,
    /// Runs whose issue is completed.
    pub done: u64,
    /// Runs that ended by themselves and left the issue to others.
    pub succeeded: u64,
    /// Runs that used up their turns.
    pub out_of_turns: u64,
    /// Runs that failed, stalled or timed out.
    pub failed: u64,
    /// Runs that were stopped.
    pub cancelled: u64,
    /// Runs that ended with a question.
    pub input_required: u64,
    /// Runs that a restart cut off.
    #[serde(default)]
    pub interrupted: u64,
}

/// An agent that nothing is started on for now (contract 7.6).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HoldRow {
    /// The kind of the agent, as in `agent.kind`.
    pub agent: String,
    /// Until then; after it, one run tries.
    pub until: Mono,
    /// The run that tries whether the hold can end.
    pub probe: Option<RunId>,
    /// The failure that caused the hold.
    pub failure: Failure,
}

/// How and when the tracker is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Polling {
    /// How fast the tracker is polled.
    pub mode: Mode,
    /// Whether quiet hours are on.
    pub quiet: bool,
    /// One row per job.
    pub jobs: Vec<JobRow>,
    /// Requests today, by what they were for.
    pub requests_today: BTreeMap<String, u64>,
    /// How many requests the whole day will take if it goes on as now.
    pub projected_today: u64,
    /// What is left of the tracker's budget.
    pub budget: Option<BudgetView>,
    /// What the tracker delivers by itself; `None` before the first delivery.
    pub webhook: Option<WebhookView>,
}

/// Deliveries of the tracker in force (contract 12.8).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WebhookView {
    /// When the last delivery came.
    pub last: Wall,
    /// How many deliveries came.
    pub received: u64,
    /// How many changes none of them announced.
    pub missed: u64,
    /// Whether polls are rarer because of them.
    pub healthy: bool,
    /// How many issues are still to be read because of them.
    pub waiting: usize,
}

/// The pace of polling (contract 12.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Mode {
    /// Something happened lately.
    #[default]
    Active,
    /// Nothing for a while.
    Idle,
    /// Nothing for long, or quiet hours.
    Dormant,
}

impl Mode {
    /// The name in logs and the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Idle => "idle",
            Self::Dormant => "dormant",
        }
    }
}

/// A periodic job and its schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JobRow {
    /// Which job it is.
    pub job: Job,
    /// Whether its read is open.
    pub in_progress: bool,
    /// When it is due next; `None` while its read is open, for candidates while no slot is free,
    /// and for the refresh while nothing is claimed.
    pub next: Option<Mono>,
    /// When it last ran.
    pub last_run: Option<Wall>,
    /// Why it last failed, if it did.
    pub failure: Option<Failure>,
}

/// The last list of candidates, judged as of now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CandidatesView {
    /// When the list was read; `None` before the first.
    pub read_at: Option<Mono>,
    /// How many candidates the list holds.
    pub total: usize,
    /// Whether the tracker had more.
    pub more: bool,
    /// How many are not started, by reason.
    pub reasons: BTreeMap<String, usize>,
    /// How many of those are not claimed, so that no other list shows them.
    pub unclaimed: BTreeMap<String, usize>,
    /// The first 200 of those, in dispatch order; what another list shows comes last.
    pub first: Vec<Unstarted>,
}

/// A candidate that is not running, with its one reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Unstarted {
    /// The tracker's id.
    pub id: IssueId,
    /// The human key.
    pub identifier: Identifier,
    /// What the issue is about.
    pub title: String,
    /// The state of the issue.
    pub state: StateName,
    /// Whether it is claimed, so that another list shows it.
    pub is_claimed: bool,
    /// Why it is not running.
    pub reason: Reason,
}

impl Unstarted {
    /// Whether another list shows it, or its work is over: then it does not wait to be started.
    #[must_use]
    pub const fn is_listed_elsewhere(&self) -> bool {
        self.is_claimed || self.reason.is_over()
    }
}

/// The one reason why a candidate is not running (contract 5.5), in the order they are tried.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// Its next attempt is due then.
    WaitingUntil(Mono),
    /// It is being read before it starts, or its workspace is being removed.
    Claimed,
    /// It needs a person.
    NeedsPerson(BlockReason),
    /// It lacks an id, an identifier, a title or a state.
    Malformed,
    /// Its identifier cannot name a folder.
    InvalidIdentifier,
    /// Its state is terminal.
    Terminal(StateName),
    /// Its state is not active.
    NotActive(StateName),
    /// The adapter says no, by this rule where it names one.
    NotDispatchable(Option<String>),
    /// A required label is missing.
    MissingLabel(Label),
    /// A blocker is not done.
    BlockedBy(String),
    /// Another issue holds its workspace.
    WorkspaceHeld(IssueId),
    /// It is gone, or out of scope.
    Gone,
    /// Its record could not be read.
    Unreadable,
    /// The service ends.
    ShuttingDown,
    /// The workflow file cannot be used.
    InvalidWorkflow,
    /// Starts are paused.
    Paused,
    /// What must survive a restart cannot be written.
    Storage,
    /// The agent refuses until then.
    Hold(Mono),
    /// The tracker, or our budget, refuses the read before a start.
    Budget,
    /// The read before a start failed and is tried again.
    CheckFailed,
    /// Every slot is taken.
    NoSlot,
    /// Every slot of its state is taken.
    StateSlot(StateName),
    /// Every slot of its machine is taken.
    HostSlot(HostId),
    /// Nothing stands in its way: it goes with the next read.
    NextRead,
}

impl Reason {
    /// Whether the issue has ceased to be a candidate: the list is older than what was learned of
    /// it.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self, Self::Terminal(_) | Self::NotActive(_) | Self::Gone)
    }

    /// The name by which reasons are counted.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::WaitingUntil(_) => "waiting_until",
            Self::Claimed => "claimed",
            Self::NeedsPerson(_) => "needs_person",
            Self::Malformed => "malformed",
            Self::InvalidIdentifier => "invalid_identifier",
            Self::Terminal(_) => "terminal",
            Self::NotActive(_) => "not_active",
            Self::NotDispatchable(_) => "not_dispatchable",
            Self::MissingLabel(_) => "missing_label",
            Self::BlockedBy(_) => "blocked_by",
            Self::WorkspaceHeld(_) => "workspace_held",
            Self::Gone => "gone",
            Self::Unreadable => "unreadable",
            Self::ShuttingDown => "shutting_down",
            Self::InvalidWorkflow => "invalid_workflow",
            Self::Paused => "paused",
            Self::Storage => "storage",
            Self::Hold(_) => "hold",
            Self::Budget => "budget",
            Self::CheckFailed => "check_failed",
            Self::NoSlot => "no_slot",
            Self::StateSlot(_) => "state_slot",
            Self::HostSlot(_) => "host_slot",
            Self::NextRead => "next_read",
        }
    }
}

impl fmt::Display for Reason {
    /// For people. Times are left to the caller, which has a clock.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WaitingUntil(_) => f.write_str("waits for its next attempt"),
            Self::Claimed => f.write_str("is being looked after"),
            Self::NeedsPerson(BlockReason::Operator) => f.write_str("stopped by an operator"),
            Self::NeedsPerson(BlockReason::Question(question)) => write!(f, "asks: {question}"),
            Self::Malformed => f.write_str("lacks an id, an identifier, a title or a state"),
            Self::InvalidIdentifier => f.write_str("its identifier cannot name a folder"),
            Self::Terminal(state) => write!(f, "is over: {state}"),
            Self::NotActive(state) => write!(f, "{state} is not a state to work in"),
            Self::NotDispatchable(None) => f.write_str("the tracker's rules keep it back"),
            Self::NotDispatchable(Some(rule)) => {
                write!(f, "the tracker's rules keep it back: {rule}")
            }
            Self::MissingLabel(label) => {
                write!(f, "lacks the label {label:?}", label = label.as_str())
            }
            Self::BlockedBy(name) => write!(f, "blocked by {name}"),
            Self::WorkspaceHeld(issue) => write!(f, "issue {issue} holds its workspace"),
            Self::Gone => f.write_str("is gone, or out of scope"),
            Self::Unreadable => f.write_str("its record cannot be read"),
            Self::ShuttingDown => f.write_str("the service ends"),
            Self::InvalidWorkflow => f.write_str("the workflow file cannot be used"),
            Self::Paused => f.write_str("starts are paused"),
            Self::Storage => f.write_str("what must survive a restart cannot be written"),
            Self::Hold(_) => f.write_str("the agent refuses for now"),
            Self::Budget => f.write_str("the request budget is used up for now"),
            Self::CheckFailed => {
                f.write_str("the read before its start failed, and is tried again")
            }
            Self::NoSlot => f.write_str("every slot is taken"),
            Self::StateSlot(state) => write!(f, "every slot of {state} is taken"),
            Self::HostSlot(host) => write!(f, "every slot of the machine {host} is taken"),
            Self::NextRead => f.write_str("goes with the next read"),
        }
    }
}

/// Why nothing is started, or that something is: one answer for the whole service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verdict {
    /// The service ends.
    ShuttingDown,
    /// The workflow file cannot be used.
    InvalidWorkflow(Vec<Problem>),
    /// Starts are paused.
    Paused,
    /// What must survive a restart cannot be written.
    Storage(Failure),
    /// The agent refuses.
    Held(HoldRow),
    /// Candidates have not been read yet.
    NotPolledYet,
    /// Candidates could not be read.
    PollFailed(Failure),
    /// Every slot is taken.
    Full,
    /// Something is about to start.
    Starting,
    /// There are candidates, but none may start: see the reasons.
    NothingEligible,
    /// There are no candidates.
    NoCandidates,
}

impl Verdict {
    /// In one word.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::ShuttingDown => "shutting_down",
            Self::InvalidWorkflow(_) => "invalid_workflow",
            Self::Paused => "paused",
            Self::Storage(_) => "storage",
            Self::Held(_) => "held",
            Self::NotPolledYet => "not_polled_yet",
            Self::PollFailed(_) => "poll_failed",
            Self::Full => "full",
            Self::Starting => "starting",
            Self::NothingEligible => "nothing_eligible",
            Self::NoCandidates => "no_candidates",
        }
    }
}

impl fmt::Display for Verdict {
    /// For people. Times are left to the caller, which has a clock.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ShuttingDown => f.write_str("the service ends"),
            Self::InvalidWorkflow(problems) => match problems.first() {
                Some(first) => write!(f, "the workflow file cannot be used: {first}"),
                None => f.write_str("the workflow file cannot be used"),
            },
            Self::Paused => f.write_str("starts are paused"),
            Self::Storage(failure) => {
                write!(f, "what must survive a restart cannot be written: {}", failure.message)
            }
            Self::Held(hold) => write!(f, "the agent {} refuses: {}", hold.agent, hold.failure),
            Self::NotPolledYet => f.write_str("the tracker has not been read yet"),
            Self::PollFailed(failure) => write!(f, "the tracker cannot be read: {failure}"),
            Self::Full => f.write_str("every slot is taken"),
            Self::Starting => f.write_str("something is about to start"),
            Self::NothingEligible => f.write_str("no candidate may start"),
            Self::NoCandidates => f.write_str("there is nothing to do"),
        }
    }
}

/// The whole answer to "why does it do nothing?".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Explanation {
    /// In one word.
    pub verdict: Verdict,
    /// Every candidate that is not running, in dispatch order.
    pub unstarted: Vec<Unstarted>,
    /// When the list was read.
    pub read_at: Option<Mono>,
}
