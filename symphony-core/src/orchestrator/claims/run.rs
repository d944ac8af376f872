//! A live run: signs of life, turns, and the grace of an agent that moved its own issue (contract
//! 8.1, 8.2, 10.1).

use std::sync::Arc;
use std::time::Duration;

use crate::agent::{AgentEvent, Opened, ThreadId, Tokens, UsdMicros};
use crate::failure::{Failure, FailureKind};
use crate::issue::IssueId;
use crate::orchestrator::reads::asked_upkeep_wait;
use crate::orchestrator::{Configuration, Phase};
use crate::policy;
use crate::time::{Mono, Now};
use crate::tracker::TrackerErrorKind;
use crate::workspace::Scope;

use super::stage::{After, Mark};

/// How long a turn waits for the store before its run gives way (contract 16.3).
const STORE_PATIENCE: Duration = Duration::from_secs(300);

/// How often the read after a turn is tried again (contract 10.1).
const MAX_TURN_READ_RETRIES: u32 = 3;

/// A live run. It exists from its start to its end, and its claim is Running or Stopping.
#[derive(Clone, Debug)]
pub(in crate::orchestrator) struct Run {
    pub(in crate::orchestrator) issue: IssueId,
    pub(in crate::orchestrator) agent: Arc<str>,
    /// The scope of its workspace's record.
    pub(in crate::orchestrator) scope: Scope,
    /// What its agent and its hooks may take to end.
    pub(super) ends_within: Duration,
    pub(in crate::orchestrator) started: Now,
    pub(in crate::orchestrator) began_at: Mark,
    pub(super) phase: Phase,
    pub(in crate::orchestrator) turns: u32,
    pub(in crate::orchestrator) max_turns: u32,
    /// Turns that the agent began by itself.
    pub(in crate::orchestrator) unrequested_turns: u32,
    pub(in crate::orchestrator) session_id: Option<Arc<str>>,
    pub(in crate::orchestrator) pid: Option<u32>,
    /// The model and the effort in force, where the agent names them.
    pub(in crate::orchestrator) model: Option<Arc<str>>,
    pub(in crate::orchestrator) effort: Option<Arc<str>>,
    pub(in crate::orchestrator) tokens: Tokens,
    pub(in crate::orchestrator) cost: Option<UsdMicros>,
    /// Whether the counts are newer than what was written.
    pub(in crate::orchestrator) has_new_usage: bool,
    pub(in crate::orchestrator) last_event: Option<Arc<AgentEvent>>,
    pub(in crate::orchestrator) last_alive: Mono,
    /// How long it may be silent: that of its kind of agent, as last set.
    pub(super) stall_timeout: Option<Duration>,
    /// Whether it was told that its question was not answered.
    pub(in crate::orchestrator) unanswered: bool,
    /// The conversation that it was to go on with.
    pub(in crate::orchestrator) resumes: Option<ThreadId>,
    /// Tool calls that Symphony has not answered yet.
    pub(in crate::orchestrator) open_tool_calls: u32,
    /// Whether a tool call of this turn changed the tracker.
    pub(super) changed_issue: bool,
    /// By when the turn must have ended, because the issue is over: the agent's own doing.
    pub(super) finish_by: Option<Mono>,
    pub(in crate::orchestrator) turn: TurnStage,
    /// Failed reads after the current turn.
    read_failures: u32,
    /// What follows a finish, or a turn that may still end by itself, if not a continuation check.
    pub(in crate::orchestrator) then: Option<After>,
}

/// Whose move it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::orchestrator) enum TurnStage {
    /// The worker's: a turn was ordered, and is under way as soon as the store has kept that.
    Ordered { since: Mono },
    /// The agent's.
    Open,
    /// Ours: the turn ended and the issue is to be read.
    Ended,
    /// The worker's: it was told to finish.
    Finishing,
}

impl Run {
    pub(in crate::orchestrator) fn new(
        issue: IssueId,
        agent: Arc<str>,
        with: &Configuration,
        now: Now,
        began_at: Mark,
    ) -> Self {
        let settings = &with.settings;
        Self {
            issue,
            agent,
            scope: with.scope.clone(),
            ends_within: settings.agent.stop_grace.saturating_add(settings.hooks.timeout),
            started: now,
            began_at,
            phase: Phase::default(),
            turns: 0,
            max_turns: settings.agent.max_turns,
            unrequested_turns: 0,
            session_id: None,
            pid: None,
            model: None,
            effort: None,
            tokens: Tokens::default(),
            cost: None,
            has_new_usage: false,
            last_event: None,
            last_alive: now.mono,
            stall_timeout: settings.agent.common.stall_timeout,
            unanswered: false,
            resumes: None,
            open_tool_calls: 0,
            changed_issue: false,
            finish_by: None,
            turn: TurnStage::Open,
            read_failures: 0,
            then: None,
        }
    }

    /// Notes the phase that it entered. Methods that change when it is due return whether they did.
    pub(in crate::orchestrator) fn enter(&mut self, phase: Phase, now: Mono) -> bool {
        self.phase = phase;
        self.last_alive = now;
        if phase == Phase::StreamingTurn {
            self.turns = self.turns.max(1);
            if matches!(self.turn, TurnStage::Ordered { .. }) {
                self.turn = TurnStage::Open;
            }
        }
        true
    }

    /// Takes in what was found when its session was opened: a sign of life as well.
    pub(in crate::orchestrator) fn open(&mut self, opened: Opened, now: Mono) {
        self.last_alive = now;
        self.model = opened.model.map(Into::into);
        self.effort = opened.effort.map(Into::into);
    }

    /// Ends the turn: no tool call is open any more, and the issue is to be read.
    pub(in crate::orchestrator) fn end_turn(&mut self) -> bool {
        self.turn = TurnStage::Ended;
        self.open_tool_calls = 0;
        self.finish_by = None;
        self.turns = self.turns.max(1);
        self.read_failures = 0;
        true
    }

    /// Begins another turn.
    pub(in crate::orchestrator) fn begin_turn(&mut self, now: Mono) -> bool {
        self.turns += 1;
        self.turn = TurnStage::Ordered { since: now };
        self.changed_issue = false;
        self.then = None;
        self.last_alive = now;
        true
    }

    /// Notes that it is told to finish, and what follows.
    pub(in crate::orchestrator) fn finish(&mut self, then: Option<After>) -> bool {
        self.turn = TurnStage::Finishing;
        self.then = then;
        true
    }

    /// Counts a failed read of its issue. Returns how long to wait before it is read again; `None`
    /// when the tries are used up.
    pub(in crate::orchestrator) fn retry_read(
        &mut self,
        failure: &Failure,
        max_backoff: Duration,
    ) -> Option<Duration> {
        // A limit is not the fault of this read: the session waits for it to pass.
        let is_limited = failure.kind == FailureKind::Tracker(TrackerErrorKind::RateLimited);
        self.read_failures += u32::from(!is_limited);
        if self.read_failures > MAX_TURN_READ_RETRIES {
            return None;
        }
        let backoff = || policy::backoff(self.read_failures.max(1), max_backoff);
        Some(asked_upkeep_wait(failure).unwrap_or_else(backoff))
    }

    /// Whether its turn is under way, or about to be.
    pub(in crate::orchestrator) const fn has_turn(&self) -> bool {
        matches!(self.turn, TurnStage::Open | TurnStage::Ordered { .. })
    }

    /// Returns by when the store must have kept its next turn.
    pub(in crate::orchestrator) fn store_deadline(&self) -> Option<Mono> {
        match self.turn {
            TurnStage::Ordered { since } => Some(since + STORE_PATIENCE),
            _ => None,
        }
    }

    /// Whether it was told to finish.
    pub(in crate::orchestrator) fn is_finishing(&self) -> bool {
        self.turn == TurnStage::Finishing
    }

    /// Lets the turn of an agent that moved its issue itself end, within `grace`. Returns whether
    /// it may: else the run is to be stopped.
    ///
    /// While a tool call is open it is unknown whether it is the one that moved the issue.
    pub(in crate::orchestrator) fn grant_grace(
        &mut self,
        after: After,
        now: Mono,
        grace: Duration,
    ) -> bool {
        let may_be_its_own = self.changed_issue || self.open_tool_calls > 0;
        if !self.has_turn() || !may_be_its_own || grace.is_zero() {
            return false;
        }
        self.then = Some(after);
        self.finish_by.get_or_insert(now + grace);
        true
    }

    /// Ends a tool call. If no call changed the tracker, the move was not the agent's.
    pub(in crate::orchestrator) fn end_tool(&mut self, changed_issue: bool, now: Mono) -> bool {
        self.open_tool_calls = self.open_tool_calls.saturating_sub(1);
        self.changed_issue |= changed_issue;
        if self.open_tool_calls == 0 && !self.changed_issue && self.finish_by.is_some() {
            self.finish_by = Some(now);
        }
        true
    }

    /// Withdraws the grace, and with it what was to follow the turn: a newer read decides.
    pub(in crate::orchestrator) fn withdraw_grace(&mut self) -> bool {
        let had_grace = self.finish_by.take().is_some();
        if had_grace {
            self.then = None;
        }
        had_grace
    }

    /// Ends its grace, if that is over, and says what was to follow.
    pub(in crate::orchestrator) fn end_grace(&mut self, now: Mono) -> Option<After> {
        self.finish_by.take_if(|by| *by <= now)?;
        Some(self.then.take().unwrap_or(After::Clean))
    }

    /// Whether silence counts: the agent is up, and the next step is its own (contract 8.1).
    pub(in crate::orchestrator) fn can_stall(&self) -> bool {
        self.phase >= Phase::LaunchingAgent
            && self.phase < Phase::Finishing
            && self.open_tool_calls == 0
            && self.turn == TurnStage::Open
    }
}
