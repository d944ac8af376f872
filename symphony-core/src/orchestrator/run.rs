//! Live runs: signs of life, turn ends, and what follows the end (contract 8.1, 10.1).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::agent::{AgentEvent, AgentUpdate, Tokens};
use crate::failure::{Failure, FailureKind};
use crate::issue::{Issue, IssueId};
use crate::policy::{self, Standing};
use crate::time::{Mono, Now};
use crate::tracker::ById;
use crate::workspace::{Scope, WorkspaceRecord};

use super::claim::{After, Mark, Stage, Thread, mark};
use super::outcome::outcome;
use super::read::{Asked, Seen, asked_upkeep_wait};
use super::{
    BlockReason, Configuration, Effect, Happened, Orchestrator, Phase, Purpose, Query, ReadId,
    ReleaseReason, RunEnd, RunId, RunNews,
};

/// Turn ends this close together are read together (contract 4.5).
const TURN_BATCH: Duration = Duration::from_millis(50);

/// How often the read after a turn is tried again (contract 10.1).
const TURN_READ_RETRIES: u32 = 3;

/// A live run. It exists from its start to its end, and its claim is Running or Stopping.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) issue: IssueId,
    pub(super) agent: Arc<str>,
    /// The scope of its workspace's record.
    pub(super) scope: Scope,
    /// What its agent and its hooks may take to end.
    pub(super) ends_within: Duration,
    pub(super) started: Now,
    pub(super) began_at: Mark,
    pub(super) phase: Phase,
    pub(super) turns: u32,
    pub(super) max_turns: u32,
    /// Turns that the agent began by itself.
    pub(super) unrequested_turns: u32,
    pub(super) session_id: Option<Arc<str>>,
    pub(super) pid: Option<u32>,
    pub(super) tokens: Tokens,
    pub(super) last_event: Option<Arc<AgentEvent>>,
    pub(super) last_alive: Mono,
    /// Tool calls that Symphony has not answered yet.
    pub(super) owed: u32,
    /// Whether a tool call of this turn changed the tracker.
    pub(super) changed_issue: bool,
    /// By when the turn must have ended, because the issue is over: the agent's own doing.
    pub(super) finish_by: Option<Mono>,
    pub(super) turn: TurnStage,
    /// Failed reads after the current turn.
    pub(super) read_failures: u32,
    /// What follows a finish, or a turn that may still end by itself, if not a continuation check.
    pub(super) then: Option<After>,
}

/// Whose move it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TurnStage {
    /// The agent's.
    Open,
    /// Ours: the turn ended and the issue is to be read.
    Ended,
    /// The worker's: it was told to finish.
    Finishing,
}

impl Run {
    pub(super) fn new(
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
            tokens: Tokens::default(),
            last_event: None,
            last_alive: now.mono,
            owed: 0,
            changed_issue: false,
            finish_by: None,
            turn: TurnStage::Open,
            read_failures: 0,
            then: None,
        }
    }

    /// Whether silence counts: the agent is up, and the next step is its own (contract 8.1).
    pub(super) fn can_stall(&self) -> bool {
        self.phase >= Phase::LaunchingAgent
            && self.phase < Phase::Finishing
            && self.owed == 0
            && self.turn == TurnStage::Open
    }
}

/// Runs whose turn ended, waiting to be read together.
#[derive(Clone, Debug, Default)]
pub(super) struct TurnReads {
    /// When each may be read.
    waiting: BTreeMap<RunId, Mono>,
    pub(super) open: Option<ReadId>,
}

impl TurnReads {
    /// When the next read is due.
    pub(super) fn due(&self) -> Option<Mono> {
        if self.open.is_some() { None } else { self.waiting.values().min().copied() }
    }

    pub(super) fn forget(&mut self, run: RunId) {
        self.waiting.remove(&run);
    }

    pub(super) fn wait(&mut self, run: RunId, until: Mono) {
        self.waiting.insert(run, until);
    }

    /// The runs to read now: those due, and those that would be within the batch's window.
    fn take(&mut self, now: Mono) -> Vec<RunId> {
        let horizon = now + TURN_BATCH;
        let taken: Vec<RunId> =
            self.waiting.iter().filter(|(_, at)| **at <= horizon).map(|(run, _)| *run).collect();
        for run in &taken {
            self.waiting.remove(run);
        }
        taken
    }
}

impl Orchestrator {
    /// News of a run; of one that is over, nothing is news.
    pub(super) fn run_news(&mut self, id: RunId, news: RunNews) {
        match news {
            RunNews::Agent(update) => self.agent_update(id, update),
            RunNews::Phase(phase) => self.entered(id, phase),
            RunNews::Workspace(record) => self.workspace_made(id, record),
            RunNews::WorkspaceGone => self.workspace_gone(id),
            RunNews::TurnEnded => self.turn_ended(id),
            RunNews::Ended(end) => self.run_ended(id, end),
        }
    }

    fn entered(&mut self, id: RunId, phase: Phase) {
        let Some(run) = self.runs.get_mut(&id) else {
            return;
        };
        run.phase = phase;
        run.last_alive = self.now.mono;
        if phase == Phase::StreamingTurn && run.turns == 0 {
            run.turns = 1;
        }
        self.watch_run(id);
    }

    fn workspace_made(&mut self, id: RunId, record: WorkspaceRecord) {
        let Some(run) = self.runs.get(&id) else {
            return;
        };
        let issue = run.issue.clone();
        debug_assert_eq!(record.issue, issue, "a record of another issue");
        self.strays.retain(|stray| *stray != record.key);
        self.keys.insert(record.key.folded(), issue.clone());
        let here = self.records.entry(record.scope.clone()).or_default();
        here.insert(issue, record);
    }

    fn workspace_gone(&mut self, id: RunId) {
        if let Some(run) = self.runs.get(&id)
            && let Some(here) = self.records.get_mut(&run.scope)
        {
            here.remove(&run.issue);
        }
    }

    /// A sign of life. This is the hottest path: one lookup, no allocation.
    fn agent_update(&mut self, id: RunId, update: AgentUpdate) {
        let Some(run) = self.runs.get_mut(&id) else {
            return;
        };
        run.last_alive = self.now.mono;
        match update {
            AgentUpdate::Alive => {}
            AgentUpdate::Event(event) => run.last_event = Some(event),
            AgentUpdate::ToolBegan => run.owed = run.owed.saturating_add(1),
            AgentUpdate::UnrequestedTurn => {
                run.unrequested_turns = run.unrequested_turns.saturating_add(1);
            }
            AgentUpdate::ToolEnded { changed_issue } => self.tool_ended(id, changed_issue),
            AgentUpdate::Session { thread, session_id, pid } => {
                run.session_id = Some(session_id);
                run.pid = pid;
                if let Some(claim) = self.claims.get_mut(&run.issue) {
                    claim.thread = Some(Thread { id: thread, agent: Arc::clone(&run.agent) });
                }
            }
            AgentUpdate::Usage { thread, total } => {
                let Some(claim) = self.claims.get_mut(&run.issue) else { return };
                let used = claim.counted.entry(thread).or_default().raise_to(&total);
                run.tokens.add(&used);
                self.totals.tokens.add(&used);
                if used != Tokens::default() {
                    self.probe_works(id);
                }
            }
            AgentUpdate::RateLimits(limits) => {
                self.rate_limits = Some((Arc::clone(&run.agent), limits));
            }
        }
    }

    fn turn_ended(&mut self, id: RunId) {
        let Some(run) = self.runs.get_mut(&id) else {
            return;
        };
        run.last_alive = self.now.mono;
        let is_open = run.turn == TurnStage::Open;
        self.probe_works(id);
        if !is_open || !self.is_running(id) {
            return;
        }
        if let Some(run) = self.runs.get_mut(&id) {
            run.turn = TurnStage::Ended;
            // Nothing is owed to a turn that is over.
            run.owed = 0;
            run.finish_by = None;
            run.turns = run.turns.max(1);
            run.read_failures = 0;
        }
        self.turns.wait(id, self.now.mono + TURN_BATCH);
        self.watch_run(id);
    }

    /// Reads the issues of the turns that ended, together.
    pub(super) fn read_turns(&mut self) {
        if self.turns.due().is_none_or(|due| due > self.now.mono) {
            return;
        }
        let runs = self.turns.take(self.now.mono);
        let ids = runs.iter().filter_map(|run| self.runs.get(run)).map(|r| r.issue.clone());
        let query = Query::ByIds(ids.collect());
        let read = self.ask(query, Asked::Turn { runs });
        self.turns.open = Some(read);
    }

    /// The read after some turns came back: each goes on, or finishes (contract 10.1).
    pub(super) fn turns_answered(
        &mut self,
        read: ReadId,
        runs: Vec<RunId>,
        result: Result<ById, Failure>,
    ) {
        self.turns.open = None;
        let mut found = self.index(Purpose::Turn, result);
        for id in runs {
            let Some(run) = self.runs.get(&id) else {
                continue;
            };
            let issue = run.issue.clone();
            if run.turn != TurnStage::Ended || !self.is_running(id) {
                continue;
            }
            match found.take(&issue) {
                Seen::Failed(failure) => self.turn_read_failed(id, failure),
                Seen::Absent if self.is_older(&issue, read) => self.decide_turn(id),
                Seen::Absent => {
                    self.saw(&issue, read);
                    self.finish(id, Some(After::Release(ReleaseReason::Gone)));
                }
                Seen::Present(fresh) => {
                    let standing = policy::standing(&fresh, &self.settings().tracker);
                    if standing == Standing::Terminal
                        && !self.is_older(&issue, read)
                        && self.kept.shows_alive_since(&issue, read)
                    {
                        // A list that was asked for later knows better: so it is read once more.
                        self.turns.wait(id, self.now.mono + TURN_BATCH);
                        continue;
                    }
                    self.accept(&issue, read, fresh);
                    self.decide_turn(id);
                }
            }
        }
    }

    fn turn_read_failed(&mut self, id: RunId, failure: Failure) {
        let max = self.settings().agent.max_retry_backoff;
        let Some(run) = self.runs.get_mut(&id) else {
            return;
        };
        // A limit is not the fault of this read: the session waits for it to pass.
        let is_limited =
            failure.kind == FailureKind::Tracker(crate::tracker::TrackerErrorKind::RateLimited);
        run.read_failures += u32::from(!is_limited);
        if run.read_failures > TURN_READ_RETRIES {
            self.finish(id, Some(After::Retry(failure)));
        } else {
            let delay = asked_upkeep_wait(&failure)
                .unwrap_or_else(|| policy::backoff(run.read_failures.max(1), max));
            self.turns.wait(id, self.now.mono + delay);
        }
    }

    fn decide_turn(&mut self, id: RunId) {
        let Some(run) = self.runs.get_mut(&id) else {
            return;
        };
        let Some(claim) = self.claims.get(&run.issue) else {
            return;
        };
        match policy::standing(&claim.issue, &self.configuration.settings.tracker) {
            Standing::Terminal => self.finish(id, Some(After::Clean)),
            Standing::Inactive => self.finish(id, Some(After::Release(ReleaseReason::NotActive))),
            Standing::Active if run.turns >= run.max_turns => self.finish(id, None),
            Standing::Active => {
                run.turns += 1;
                run.turn = TurnStage::Open;
                run.changed_issue = false;
                run.then = None;
                run.last_alive = self.now.mono;
                let (turn, max_turns) = (run.turns, run.max_turns);
                let (issue, name) = (Arc::clone(&claim.issue), run.issue.clone());
                self.watch_run(id);
                self.effect(Effect::NextTurn { run: id, turn, issue });
                self.notice_of(&name, Some(id), Happened::Continued { turn, max_turns });
            }
        }
    }

    fn finish(&mut self, id: RunId, then: Option<After>) {
        let Some(run) = self.runs.get_mut(&id) else {
            return;
        };
        run.turn = TurnStage::Finishing;
        run.then = then;
        self.watch_run(id);
        self.effect(Effect::Finish { run: id });
    }

    /// A run is over and nothing of it is left: its slot is free and its claim moves on.
    fn run_ended(&mut self, id: RunId, end: RunEnd) {
        let Some(run) = self.runs.remove(&id) else {
            return;
        };
        self.turns.forget(id);
        let took = self.now.mono.since(run.started.mono);
        let Some(claim) = self.claims.get(&run.issue) else {
            debug_assert!(false, "a run without a claim");
            return;
        };
        let (issue, key) = (run.issue.clone(), claim.key.clone());
        self.slots.vacate(&claim.issue.state, &claim.host);
        let (asked, why) = match &claim.stage {
            // An issue that turns out to be active after all is not free: an operator stopped it.
            Stage::Stopping {
                then: After::Release(ReleaseReason::NotEligible),
                why,
                by_operator: true,
                ..
            } => (Some(After::Block(BlockReason::Operator)), Some(*why)),
            Stage::Stopping { then, why, .. } => (Some(then.clone()), Some(*why)),
            _ => (None, None),
        };
        let then = asked.as_ref().or(run.then.as_ref());
        let outcome = outcome(&run, &end, why, then, &claim.issue, &self.settings().tracker);
        self.totals.count_end(outcome, took);
        self.notice_of(&issue, Some(id), Happened::Ended { outcome, end: end.clone(), took });
        self.probe_ended(id, &run.agent, &end);
        self.touch();
        self.refill_when_freed();
        if self.shutting_down {
            self.release(&issue, ReleaseReason::ShutDown);
        } else {
            self.follow_end(&issue, run, asked, end);
        }
        self.free_key(&issue, &key);
    }

    fn follow(&mut self, issue: &IssueId, then: After) {
        match then {
            After::Retry(failure) => self.retry_after_failure(issue, failure),
            After::Block(why) => self.block_after_run(issue, why),
            After::Release(why) => self.release(issue, why),
            After::Clean => self.clean(issue),
        }
    }

    /// What follows a run: what was decided while it lived, else what its end says.
    fn follow_end(&mut self, issue: &IssueId, run: Run, asked: Option<After>, end: RunEnd) {
        let was_stopped = asked.is_some();
        let decided = asked.or(run.then);
        if let RunEnd::Failed(failure) = &end
            && failure.kind.is_limit()
        {
            let until = self.begin_hold(&run.agent, failure);
            // The agent refused: that is no attempt, whatever else was to follow it.
            if matches!(decided, None | Some(After::Retry(_))) {
                self.forget_thread(issue);
                return self.wait_until(issue, until, Some(failure.clone()));
            }
        }
        match (decided, end) {
            (Some(then), _) if was_stopped => self.follow(issue, then),
            (Some(then), RunEnd::Succeeded) => self.follow(issue, then),
            (None, RunEnd::Succeeded) => self.continue_after_success(issue, &run.began_at),
            // Once the issue is known to be over, how its last turn ended changes nothing.
            (
                Some(then @ (After::Clean | After::Release(_))),
                RunEnd::Failed(_) | RunEnd::InputRequired { .. },
            ) => self.follow(issue, then),
            (_, RunEnd::Failed(failure)) => self.retry_after_failure(issue, failure),
            (_, RunEnd::InputRequired { question }) => {
                self.block_after_run(issue, BlockReason::Question(question));
            }
            (_, RunEnd::Cancelled) => {
                let message = "the run ended without being told to";
                self.retry_after_failure(issue, Failure::new(FailureKind::Internal, message));
            }
        }
    }

    /// Takes over a newer snapshot of a claimed issue.
    pub(super) fn accept(&mut self, id: &IssueId, read: ReadId, fresh: Arc<Issue>) {
        let Some(claim) = self.claims.get_mut(id) else {
            return;
        };
        if claim.seen > read {
            return;
        }
        claim.seen = read;
        let moved = mark(&claim.issue) != mark(&fresh);
        if claim.issue.state != fresh.state
            && matches!(claim.stage, Stage::Running { .. } | Stage::Stopping { .. })
        {
            self.slots.vacate(&claim.issue.state, &claim.host);
            self.slots.occupy(&fresh.state, &claim.host);
            self.refill_when_freed();
        }
        if let Some(claim) = self.claims.get_mut(id) {
            claim.issue = fresh;
        }
        if moved {
            self.touch();
        }
    }

    /// Notes that a read, which did not bring the issue, is the newest about it.
    pub(super) fn saw(&mut self, id: &IssueId, read: ReadId) {
        if let Some(claim) = self.claims.get_mut(id) {
            claim.seen = claim.seen.max(read);
        }
    }

    /// Whether the claim already knows something newer than this read.
    pub(super) fn is_older(&self, id: &IssueId, read: ReadId) -> bool {
        self.claims.get(id).is_some_and(|claim| claim.seen > read)
    }
}
