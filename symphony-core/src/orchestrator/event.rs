//! What goes into the orchestrator and what comes out: plain data that can be printed, compared,
//! recorded and replayed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::agent::{AgentUpdate, ClientTurnId, Opened, Question, ThreadId};
use crate::budget::BudgetView;
use crate::failure::Failure;
use crate::issue::{Identifier, Issue, IssueId, StateName};
use crate::problem::Problem;
use crate::run::RunId;
use crate::settings::Settings;
use crate::snapshot::Mode;
use crate::store::{ClaimRow, Durability, Rows, Write};
use crate::time::Mono;
use crate::tracker::{Candidates, IssuesById, Poll, Purpose};
use crate::workspace::{HostId, Scope, WorkspaceKey, WorkspaceRecord};

/// One read of the tracker. Later reads have greater ids.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ReadId(pub u64);

/// One removal of a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RemovalId(pub u64);

/// Which instance of the tracker: it grows with every reload that builds a new one.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Generation(pub u64);

/// Something that is done again and again, on an interval of its own (contract 12.1).
///
/// Written as text, `custom:` before an embedder's own name, so that it can be a key in JSON.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub enum Job {
    /// Asking for issues to start.
    Candidates,
    /// Reading claimed issues again.
    Refresh,
    /// Looking for workspaces of finished issues.
    Sweep,
    /// An embedder's own.
    Custom(Arc<str>),
}

const CUSTOM: &str = "custom:";

impl From<Job> for String {
    fn from(job: Job) -> Self {
        match job {
            Job::Custom(name) => format!("{CUSTOM}{name}"),
            own => own.to_string(),
        }
    }
}

impl From<String> for Job {
    fn from(text: String) -> Self {
        match text.as_str() {
            "candidates" => Self::Candidates,
            "refresh" => Self::Refresh,
            "sweep" => Self::Sweep,
            name => Self::Custom(name.strip_prefix(CUSTOM).unwrap_or(name).into()),
        }
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Candidates => "candidates",
            Self::Refresh => "refresh",
            Self::Sweep => "sweep",
            Self::Custom(name) => name,
        })
    }
}

/// What the orchestrator works with until the next reload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Configuration {
    /// The settings.
    pub settings: Arc<Settings>,
    /// The tracker instance that was built from them.
    pub generation: Generation,
    /// What that instance can see.
    pub scope: Scope,
    /// The least time between two reads that refill freed slots.
    pub min_read_gap: Duration,
    /// What is doubtful in the workflow file that is in force (contract 2.3).
    #[serde(default)]
    pub warnings: Arc<[Problem]>,
}

/// What is on disk under a workspace root.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspaces {
    /// Workspaces with a record.
    pub records: Vec<WorkspaceRecord>,
    /// Folders without one.
    pub strays: Vec<WorkspaceKey>,
}

/// What survives a restart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Restored {
    /// Greater than in any earlier life: keeps [`RunId`]s unique.
    pub boot: u64,
    /// What the last life wrote.
    pub rows: Rows,
    /// What is on disk.
    pub workspaces: Workspaces,
}

/// Everything that can happen to the orchestrator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A deadline may have passed; nothing else happened.
    Wake,
    /// A read came back. Every [`Effect::Read`] ends in exactly one of these.
    Answered {
        /// Which read.
        read: ReadId,
        /// What it brought.
        answer: Answer,
    },
    /// News of a run.
    Run {
        /// Which run.
        run: RunId,
        /// What happened.
        news: RunEvent,
    },
    /// A removal came back. Every [`Effect::Remove`] ends in exactly one of these.
    Removed {
        /// Which removal.
        removal: RemovalId,
        /// Whether the folder is gone.
        outcome: Result<(), Failure>,
    },
    /// A valid workflow file is in force.
    Reloaded {
        /// What it says.
        configuration: Configuration,
        /// What is on disk, if the workspace root is another one.
        workspaces: Option<Workspaces>,
        /// What was kept of the tracker's scope, if that is another one.
        #[serde(default)]
        claims: Vec<ClaimRow>,
    },
    /// The workflow file cannot be used; the last good one stays in force.
    ReloadFailed {
        /// Why.
        problems: Vec<Problem>,
    },
    /// An operator wants something.
    Command(Command),
    /// What must survive a restart cannot be written any more, or can be again (contract 16.3).
    Storage(Option<Failure>),
    /// Quiet hours begin or end (contract 12.3).
    QuietHours {
        /// Whether they are on now.
        on: bool,
    },
    /// Something outside shows that people are at work, like a touched file (12.2).
    Activity,
    /// The tracker told by itself that something happened to these issues (12.8).
    Delivered {
        /// Which issues; none where it is about something else.
        issues: Vec<IssueId>,
    },
    /// An embedder adds a job, or changes its interval.
    JobAdded {
        /// Its name.
        name: Arc<str>,
        /// How often it runs.
        interval: Duration,
    },
    /// An embedder's job came back. Every [`Effect::RunJob`] ends in exactly one of these.
    JobEnded {
        /// Its name.
        name: Arc<str>,
        /// How it went.
        outcome: Result<(), Failure>,
    },
}

/// What a read brought: each part that was asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The list, where one was asked for.
    pub candidates: Option<Result<Candidates, Failure>>,
    /// The issues read by id.
    pub by_id: Option<Result<IssuesById, Failure>>,
    /// When the tracker would like to be polled again.
    pub next_poll: Option<Duration>,
    /// How many requests it took.
    pub requests: u32,
    /// What is left of the tracker's budget.
    pub budget: Option<BudgetView>,
}

/// What can happen in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEvent {
    /// It entered a phase.
    Phase(Phase),
    /// Its workspace exists and this record is written.
    Workspace(WorkspaceRecord),
    /// Its new workspace was taken back, record and all, because `after_create` failed.
    WorkspaceGone,
    /// Its session is open: answered as [`TurnEnded`](Self::TurnEnded) is.
    Opened(Opened),
    /// The agent showed a sign of life.
    Agent(AgentUpdate),
    /// A turn completed: answered by [`Effect::NextTurn`], [`Effect::Finish`] or [`Effect::Stop`].
    TurnEnded,
    /// It is over and nothing of it is left. Every [`Effect::Start`] ends in exactly one of these.
    Ended(RunEnd),
}

/// Where a run is (contract 6.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are the contract's")]
#[non_exhaustive]
pub enum Phase {
    #[default]
    PreparingWorkspace,
    BuildingPrompt,
    LaunchingAgent,
    InitializingSession,
    StreamingTurn,
    Finishing,
}

/// How a run ended, as the worker saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEnd {
    /// It was told to finish, and did.
    Succeeded,
    /// It failed; a timeout is a failure of its kind.
    Failed(Failure),
    /// The agent asked something only a person can answer (contract 10.6).
    InputRequired {
        /// The question.
        question: Question,
    },
    /// It was told to stop, and did.
    Cancelled,
}

/// How a run is booked, by what became of its issue (contract 6.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// The issue is completed.
    Done,
    /// The run ended by itself, and the issue is not the agent's any more.
    Succeeded,
    /// The run used up its turns, and the issue is still active.
    OutOfTurns,
    /// The run failed.
    Failed,
    /// A turn was silent for too long.
    TimedOut,
    /// The agent showed no sign of life.
    Stalled,
    /// The run was stopped: its issue was withdrawn, or an operator or the end of the service said
    /// so.
    Cancelled,
    /// The agent asked something only a person can answer.
    InputRequired,
    /// The service was killed while the run lived, or could not keep what the run needs.
    Interrupted,
}

impl Outcome {
    /// The name used in the API, in metrics and in logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Succeeded => "succeeded",
            Self::OutOfTurns => "out_of_turns",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Stalled => "stalled",
            Self::Cancelled => "cancelled",
            Self::InputRequired => "input_required",
            Self::Interrupted => "interrupted",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What an operator can want (contract 4.7).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Poll now. Several at once are one.
    PollNow,
    /// Start nothing until [`Resume`](Self::Resume); all else goes on.
    Pause,
    /// Start again.
    Resume,
    /// End the issue's run, if any, and keep it Blocked until [`Retry`](Self::Retry) or a change of
    /// state.
    Stop(IssueId),
    /// Try a waiting or blocked issue now.
    Retry(IssueId),
    /// Lift every hold.
    ClearHolds,
    /// Start nothing, stop everything, drain.
    ShutDown,
}

/// Everything the orchestrator can want.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Read the tracker, bounded by `tracker.timeout_ms`.
    Read {
        /// Comes back in [`Event::Answered`].
        read: ReadId,
        /// Which tracker instance to ask.
        generation: Generation,
        /// What to ask, and what for.
        poll: Poll,
    },
    /// Start a run, with the settings now in force, once the rows of this step and of all before
    /// are kept.
    Start(Start),
    /// Run a turn in the session of a run, once the rows of this step and of all before are kept.
    NextTurn {
        /// Which run.
        run: RunId,
        /// The turn's number.
        turn: u32,
        /// The issue, as it is now.
        issue: Arc<Issue>,
        /// The id to submit it with.
        client_id: ClientTurnId,
        /// What the agent is told.
        text: TurnText,
    },
    /// No more turns: close the session, run `after_run`, end the run.
    Finish {
        /// Which run.
        run: RunId,
    },
    /// End the run whatever it does. A signal, not a question.
    Stop {
        /// Which run.
        run: RunId,
        /// Why.
        why: StopReason,
    },
    /// Remove a workspace, after `before_remove`, and then its record, once the rows of this step
    /// and of all before are kept.
    Remove {
        /// Comes back in [`Event::Removed`].
        removal: RemovalId,
        /// The issue it belonged to.
        issue: Arc<Issue>,
        /// What to remove.
        workspace: Removal,
    },
    /// Look whether the workflow file changed. Comes back only if it did.
    RecheckWorkflow,
    /// Run an embedder's job.
    RunJob {
        /// Its name.
        name: Arc<str>,
    },
}

/// What an agent is told in a turn (contract 10.1, 16.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnText {
    /// The rendered prompt.
    Prompt,
    /// That its question was not answered, then the rendered prompt.
    Unanswered,
    /// To go on, on the same conversation.
    Continue,
    /// That the service was restarted while it worked: to look what is done, then to go on.
    Restarted,
    /// The same, then the rendered prompt, which it may have been given already. Fits whatever was
    /// said before.
    #[default]
    RestartedWithPrompt,
}

/// A run to start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// Its id.
    pub run: RunId,
    /// The issue, just read.
    pub issue: Arc<Issue>,
    /// `None` on the first run, else 1 and up.
    pub attempt: Option<u32>,
    /// The folder's name.
    pub key: WorkspaceKey,
    /// The machine.
    pub host: HostId,
    /// The workspace to go on in; without one it is created under the root.
    pub record: Option<WorkspaceRecord>,
    /// A conversation to go on with (contract 10.3).
    pub resume: Option<ThreadId>,
    /// Whether that conversation ended with a question that has no answer (contract 10.6).
    #[serde(default)]
    pub unanswered: bool,
    /// How many turns it may have.
    pub max_turns: u32,
}

/// A workspace to remove.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Removal {
    /// The one this record describes.
    Recorded(WorkspaceRecord),
    /// A folder under the root that has no record.
    Stray(WorkspaceKey),
}

impl Removal {
    /// The folder's name.
    #[must_use]
    pub const fn key(&self) -> &WorkspaceKey {
        match self {
            Self::Recorded(record) => &record.key,
            Self::Stray(key) => key,
        }
    }
}

/// Why a run is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// The issue is in a terminal state.
    Terminal,
    /// The issue is in another state, or lacks what it needs to be worked on.
    NotActive,
    /// The issue is gone or out of scope.
    Gone,
    /// The agent showed no sign of life.
    Stalled,
    /// An operator said so.
    Operator,
    /// The service ends.
    ShutDown,
}

/// What happened, for logs and people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// The issue it is about, if any.
    pub issue: Option<IssueName>,
    /// The same issue as it was last read.
    pub last_read: Option<Arc<Issue>>,
    /// The run it is about, if any.
    pub run: Option<RunId>,
    /// What it was.
    pub what: NoticeKind,
}

/// An issue's two names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct IssueName {
    /// The tracker's.
    pub id: IssueId,
    /// People's.
    pub identifier: Identifier,
}

/// The things worth telling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NoticeKind {
    /// A run began.
    Started {
        /// `None` on the first run.
        attempt: Option<u32>,
        /// The state the issue is in.
        state: StateName,
    },
    /// Another turn began.
    Continued {
        /// Its number.
        turn: u32,
        /// How many there may be.
        max_turns: u32,
    },
    /// A run was told to stop.
    Stopping {
        /// Why.
        why: StopReason,
    },
    /// A run that was told to stop is still there after its bound.
    StopOverdue,
    /// A run is over.
    Ended {
        /// What came of it.
        outcome: Outcome,
        /// The worker's last word.
        end: RunEnd,
        /// How long it took.
        took: Duration,
    },
    /// The issue waits for its next attempt.
    Waiting {
        /// Which attempt that will be.
        attempt: u32,
        /// When it is due.
        until: Mono,
        /// What went wrong, if anything.
        failure: Option<Failure>,
    },
    /// The issue's next attempt is due, but there is no slot.
    Queued,
    /// The issue needs a person.
    Blocked {
        /// Why.
        why: BlockReason,
    },
    /// The issue is not ours any more.
    Released {
        /// Why.
        why: ReleaseReason,
    },
    /// A workspace is being removed.
    Cleaning,
    /// A workspace is gone.
    Cleaned,
    /// A workspace could not be removed.
    CleaningFailed {
        /// Why.
        failure: Failure,
        /// Whether it is tried again soon; if not, the sweep will.
        again: bool,
    },
    /// A read failed.
    ReadFailed {
        /// What it was for.
        purpose: Purpose,
        /// Why.
        failure: Failure,
    },
    /// One issue of a read could not be read.
    Unreadable {
        /// Why.
        message: String,
    },
    /// Folders under the root belong to nothing we know; they are left alone.
    StraysLeft {
        /// Their names.
        keys: Vec<WorkspaceKey>,
    },
    /// All starts to an agent are held.
    HoldBegan {
        /// The agent's kind.
        agent: String,
        /// Until then.
        until: Mono,
        /// Why.
        failure: Failure,
    },
    /// Starts to an agent go on.
    HoldEnded {
        /// The agent's kind.
        agent: String,
    },
    /// Polling changed its pace.
    ModeChanged {
        /// To this.
        mode: Mode,
    },
    /// Other settings are in force.
    Reloaded,
    /// The workflow file cannot be used. Told once per distinct problem.
    WorkflowInvalid {
        /// Why.
        problems: Vec<Problem>,
    },
    /// An operator's command did not apply.
    CommandIgnored {
        /// Why not.
        why: String,
    },
    /// What must survive a restart cannot be written, or can be again.
    Storage {
        /// Why not.
        failure: Option<Failure>,
    },
    /// Starts are paused.
    Paused,
    /// Starts are resumed.
    Resumed,
    /// The service drains.
    ShuttingDown,
    /// Something changed that no delivery announced: polling does not rely on them for a while.
    DeliveryMissed {
        /// What changed.
        id: IssueId,
    },
    /// An embedder's job failed.
    JobFailed {
        /// Which.
        job: Job,
        /// Why.
        failure: Failure,
    },
}

/// Why an issue needs a person.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BlockReason {
    /// The agent asked this.
    Question(Question),
    /// An operator stopped it.
    Operator,
}

/// Why an issue is not ours any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReleaseReason {
    /// It is terminal, and nothing is left to remove.
    Terminal,
    /// It is in no active state, or lacks what it needs.
    NotActive,
    /// It is gone or out of scope.
    Gone,
    /// It may not start just now: a blocker, another claim on its workspace.
    NotEligible,
    /// The service ends.
    ShutDown,
}

/// The orchestrator's answer to one event: keep the writes, perform the effects in order, tell the
/// notices.
///
/// [`Start`](Effect::Start), [`NextTurn`](Effect::NextTurn) and [`Remove`](Effect::Remove) wait until
/// the writes of their own and of all earlier steps are kept; every other effect is performed at
/// once: after a crash it is simply decided again (contract 16.1).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What to do.
    pub effects: Vec<Effect>,
    /// What happened.
    pub notices: Vec<Notice>,
    /// What must survive a restart.
    pub writes: Vec<Write>,
    /// How well it must be kept.
    pub durability: Durability,
}

impl Effect {
    /// Whether it waits until what was decided before it is kept (contract 16.1).
    #[must_use]
    pub const fn waits_for_store(&self) -> bool {
        matches!(self, Self::Start(_) | Self::NextTurn { .. } | Self::Remove { .. })
    }
}

impl Step {
    /// Tells something that is not about a single issue.
    pub(super) fn notice(&mut self, what: NoticeKind) {
        self.notices.push(Notice { issue: None, last_read: None, run: None, what });
    }

    /// Wants the workflow file looked at, once per step: a missed edit is found before the next
    /// dispatch at the latest (contract 2.6).
    pub(super) fn recheck_workflow(&mut self) {
        if !self.effects.contains(&Effect::RecheckWorkflow) {
            self.effects.push(Effect::RecheckWorkflow);
        }
    }
}
