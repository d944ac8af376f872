//! A live run as the oracle expects it: what it reported, and what it was told.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use symphony_core::agent::{AgentEvent, AgentUpdate, ThreadId, Tokens};
use symphony_core::orchestrator::{Phase, ReadId, RunEvent, Start, StopReason};
use symphony_core::run::RunId;
use symphony_core::store::AskedTurn;
use symphony_core::time::{Mono, Now, Wall};
use symphony_core::{HostId, IssueId, Settings, StateName, WorkspaceKey};

/// Why a run was told to finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FinishReason {
    /// Its issue is over.
    Terminal,
    /// Its issue is not to be worked on any more, or gone.
    Inactive,
    /// It has had its turns.
    MaxTurns,
    /// Its issue could not be read after a turn.
    Unreadable,
    /// The turn that an earlier life asked had failed.
    TurnFailed,
    /// Its next turn could not be kept.
    Storage,
}

/// A turn that ended and waits to be answered.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    /// Reads of it that failed.
    pub(crate) failures: u32,
    /// When it must be read at the latest, unless another turn read is open.
    pub(crate) due: Mono,
    /// The read that has it.
    pub(crate) read: Option<ReadId>,
}

/// A run.
#[derive(Clone, Debug)]
pub(crate) struct RunModel {
    pub(crate) issue: IssueId,
    pub(crate) attempt: Option<u32>,
    pub(crate) agent: String,
    pub(crate) started: Now,
    pub(crate) state_at_start: StateName,
    pub(crate) updated_at_start: Option<Wall>,
    pub(crate) max_turns: u32,
    /// What it went on with.
    pub(crate) resume: Option<ThreadId>,
    pub(crate) unanswered: bool,
    /// How long it may be silent, as last set for its kind of agent.
    pub(crate) stall_timeout: Option<Duration>,
    /// The grace and the time of a hook that it began with.
    pub(crate) bounds: (Duration, Duration),
    pub(crate) host: HostId,
    pub(crate) key: WorkspaceKey,
    pub(crate) path: PathBuf,
    pub(crate) phase: Phase,
    pub(crate) turn: u32,
    /// Since when a turn is ordered that is not known to be under way.
    pub(crate) ordered: Option<Mono>,
    /// The turn that the conversation was last asked, until it is known to have ended.
    pub(crate) asked: Option<AskedTurn>,
    pub(crate) pending: Option<Pending>,
    pub(crate) finish: Option<FinishReason>,
    pub(crate) stop: Option<(StopReason, Mono)>,
    /// The last read that had been asked when it was told to stop.
    pub(crate) stopped_after: u64,
    /// What reads after the stop or the finish said: terminal, not to be worked on.
    pub(crate) seen_terminal: bool,
    pub(crate) seen_inactive: bool,
    pub(crate) seen_active: bool,
    pub(crate) operator_stop: bool,
    pub(crate) tools: u32,
    /// Whether a tool of this turn changed the issue.
    pub(crate) changed: bool,
    /// By when the turn must have ended, because the agent seems to have moved its issue (8.2).
    pub(crate) grace: Option<Mono>,
    /// What the read that began the grace showed, until another one says otherwise.
    pub(crate) over: Option<StopReason>,
    pub(crate) unrequested: u32,
    /// The last line of the agent, or moment at which Symphony ceased to owe the next step.
    pub(crate) line: Mono,
    /// The last news of any sort.
    pub(crate) news: Mono,
    pub(crate) thread: Option<ThreadId>,
    pub(crate) session: Option<Arc<str>>,
    pub(crate) pid: Option<u32>,
    pub(crate) tokens: Tokens,
    /// In millionths of a dollar.
    pub(crate) cost: u64,
    pub(crate) model: Option<String>,
    pub(crate) event: Option<Arc<AgentEvent>>,
}

impl RunModel {
    pub(crate) fn new(start: &Start, path: PathBuf, settings: &Settings, now: Now) -> Self {
        Self {
            issue: start.issue.id.clone(),
            attempt: start.attempt,
            agent: settings.agent.kind.clone(),
            started: now,
            state_at_start: start.issue.state.clone(),
            updated_at_start: start.issue.updated_at,
            max_turns: start.max_turns,
            resume: start.resume.clone(),
            unanswered: start.unanswered,
            stall_timeout: settings.agent.common.stall_timeout,
            bounds: (settings.agent.stop_grace, settings.hooks.timeout),
            host: start.host.clone(),
            key: start.key.clone(),
            path,
            phase: Phase::PreparingWorkspace,
            turn: 0,
            ordered: None,
            asked: None,
            pending: None,
            finish: None,
            stop: None,
            stopped_after: 0,
            seen_terminal: false,
            seen_inactive: false,
            seen_active: false,
            operator_stop: false,
            tools: 0,
            changed: false,
            grace: None,
            over: None,
            unrequested: 0,
            line: now.mono,
            news: now.mono,
            thread: start.resume.clone(),
            session: None,
            pid: None,
            tokens: Tokens::default(),
            cost: 0,
            model: None,
            event: None,
        }
    }

    /// Takes in what the run tells, apart from tokens, records and its end.
    pub(crate) fn told(&mut self, news: &RunEvent, now: Mono) {
        self.news = now;
        match news {
            RunEvent::Phase(phase) => {
                if *phase == Phase::LaunchingAgent {
                    self.line = now;
                }
                if *phase == Phase::StreamingTurn {
                    self.ordered = None;
                }
                self.phase = *phase;
            }
            RunEvent::Opened(opened) => {
                self.line = now;
                self.model.clone_from(&opened.model);
                if opened.thread.is_some() {
                    self.thread.clone_from(&opened.thread);
                }
            }
            RunEvent::Agent(update) => {
                self.line = now;
                self.updated(update, now);
            }
            RunEvent::TurnEnded => {
                self.line = now;
                if self.stop.is_none() && self.pending.is_none() && self.finish.is_none() {
                    self.tools = 0;
                    self.grace = None;
                    self.asked = None;
                }
                if self.stop.is_none() {
                    let due = now + Duration::from_millis(50);
                    self.pending = Some(Pending { failures: 0, due, read: None });
                }
            }
            RunEvent::Workspace(_) | RunEvent::WorkspaceGone | RunEvent::Ended(_) => {}
        }
    }

    fn updated(&mut self, update: &AgentUpdate, now: Mono) {
        match update {
            AgentUpdate::Session { thread, session_id, pid } => {
                self.thread = Some(thread.clone());
                self.session = Some(Arc::clone(session_id));
                self.pid = *pid;
            }
            AgentUpdate::Event(event) => self.event = Some(Arc::clone(event)),
            AgentUpdate::ToolBegan => self.tools += 1,
            AgentUpdate::ToolEnded { changed_issue } => {
                self.tools = self.tools.saturating_sub(1);
                self.changed |= changed_issue;
                // The tool that was open did not move the issue: a person did.
                if self.tools == 0 && !self.changed && self.grace.is_some() {
                    self.grace = Some(now);
                }
            }
            AgentUpdate::UnrequestedTurn => self.unrequested += 1,
            AgentUpdate::Alive | AgentUpdate::Usage { .. } | AgentUpdate::RateLimits(_) => {}
            other => unreachable!("the simulation does not know {other:?}"),
        }
    }

    /// Whether the turn is let end by itself, because its agent seems to have moved the issue (8.2).
    /// If so, until when.
    pub(crate) fn begin_grace(&mut self, why: StopReason, now: Mono, span: Duration) -> bool {
        let in_turn = self.stop.is_none() && self.finish.is_none() && self.pending.is_none();
        let may_end = in_turn && (self.changed || self.tools > 0) && !span.is_zero();
        if may_end {
            self.grace = self.grace.or(Some(now + span));
            self.over = Some(why);
        }
        may_end
    }

    /// A read says otherwise.
    pub(crate) fn end_grace(&mut self) {
        self.grace = None;
        self.over = None;
    }

    /// Whether silence counts at all now (contract 8.1).
    fn clock_runs(&self) -> bool {
        self.phase >= Phase::LaunchingAgent
            && self.phase != Phase::Finishing
            && self.finish.is_none()
            && self.stop.is_none()
            && self.pending.is_none()
            && self.ordered.is_none()
            && self.tools == 0
    }

    /// When silence may end the run at the earliest, and when it must at the latest.
    pub(crate) fn stall(&self) -> Option<(Mono, Mono)> {
        let timeout = self.stall_timeout.filter(|_| self.clock_runs())?;
        Some((self.line + timeout, self.news + timeout))
    }
}

/// What a run is called in messages.
pub(crate) fn name(run: RunId, model: &RunModel) -> String {
    format!("run {run} of {}", model.issue)
}
