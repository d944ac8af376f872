//! Agents at work: each run plays a script until it ends, or until it is told to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use symphony_core::agent::{
    AgentErrorKind, AgentEvent, AgentUpdate, ClientTurnId, LastTurn, LastTurnState, Opened,
    Question, ThreadId, Tokens, Usage, UsdMicros,
};
use symphony_core::hooks::Hook;
use symphony_core::orchestrator::{Phase, RunEnd, RunEvent, Start, TurnText};
use symphony_core::run::RunId;
use symphony_core::time::Wall;
use symphony_core::{Failure, FailureKind, IssueId, Scope, WorkspaceRecord};

use crate::board::{Board, SCOPES};
use crate::faults::{Fault, Luck};
use crate::plan::Plan;
use crate::script::{Exit, Script, Trouble};
use crate::violation::{Check, ensure};
use crate::workspaces::SimDisk;

/// Where a run is in its script.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    Creating,
    TakingBack,
    BeforeRun,
    Launching,
    Initializing,
    Opening,
    Turn { beats: u64 },
    Waiting,
    Finishing,
    AfterRun,
    Leaving(RunEnd),
    Silent,
}

/// One live run.
#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) start: Start,
    scope: usize,
    root: &'static str,
    /// Grows when something unforeseen makes what was scheduled stale.
    pub(crate) epoch: u32,
    stage: Stage,
    script: Script,
    thread: ThreadId,
    total: Tokens,
    turn: u32,
    client_id: Option<ClientTurnId>,
    resumed: bool,
    tool_open: bool,
    /// Whether the open tool call changes the issue.
    tool_changes: bool,
    record: Option<WorkspaceRecord>,
    created: bool,
    event: Arc<AgentEvent>,
}

impl Agent {
    /// What its backend found when it opened the session, where `last` is the last turn of the
    /// conversation. Not every backend says so.
    fn opened(&self, last: Option<LastTurn>) -> Opened {
        if self.start.run.number.is_multiple_of(4) {
            return Opened::default();
        }
        let mut opened = Opened::new(self.thread.clone());
        opened.model = Some(format!("model-{}", self.start.run.number % 3));
        opened.last_turn = last;
        opened
    }
}

/// What an agent does next: its news, and after how many milliseconds it goes on.
#[derive(Debug, Default)]
pub(crate) struct Act {
    pub(crate) news: Vec<RunEvent>,
    pub(crate) again: Option<u64>,
}

/// What agents touch.
pub(crate) struct Surroundings<'a> {
    pub(crate) board: &'a mut Board,
    pub(crate) disk: &'a mut SimDisk,
    pub(crate) wall: Wall,
}

/// All live runs, and the conversations they and their forerunners had.
#[derive(Debug)]
pub(crate) struct Agents {
    pub(crate) live: BTreeMap<RunId, Agent>,
    threads: BTreeMap<ThreadId, Tokens>,
    /// The last turn of each conversation, as its agent remembers it.
    last_turns: BTreeMap<ThreadId, LastTurn>,
    /// All turns that were ever handed to an agent.
    submitted: BTreeSet<ClientTurnId>,
    pub(crate) luck: Luck,
    chatty: bool,
    calm: bool,
    named: u64,
}

impl Agents {
    pub(crate) fn new(plan: &Plan) -> Self {
        let mut luck = Luck::new(plan.seed, 5, plan.faults);
        let chatty = luck.rng.per_mille(100);
        Self {
            live: BTreeMap::new(),
            threads: BTreeMap::new(),
            last_turns: BTreeMap::new(),
            submitted: BTreeSet::new(),
            luck,
            chatty,
            calm: false,
            named: 0,
        }
    }

    /// Takes a run and says after how many milliseconds it first does something.
    pub(crate) fn start(
        &mut self,
        start: Start,
        scope: usize,
        root: &'static str,
        wall: Wall,
    ) -> u64 {
        let script = Script::draw(&mut self.luck, self.chatty, self.calm);
        let resumed = start.resume.is_some() && !self.luck.strikes(Fault::ResumeRefused, 150);
        let thread = match &start.resume {
            Some(thread) if resumed => thread.clone(),
            _ => {
                self.named += 1;
                ThreadId::from(format!("t{}-{}", start.run, self.named))
            }
        };
        let total = self.threads.get(&thread).copied().unwrap_or_default();
        let event =
            AgentEvent { name: "notification".to_owned(), summary: "working".to_owned(), at: wall };
        let run = start.run;
        let agent = Agent {
            start,
            scope,
            root,
            epoch: 0,
            stage: Stage::Creating,
            script,
            thread,
            total,
            turn: 0,
            client_id: None,
            resumed,
            tool_open: false,
            tool_changes: false,
            record: None,
            created: false,
            event: Arc::new(event),
        };
        self.live.insert(run, agent);
        self.luck.rng.between(1, 2_000)
    }

    /// What is handed to an agent was never handed to one before, and a bare prompt does not go to a
    /// conversation whose last turn was cut off (16.3).
    pub(crate) fn check_turn(&mut self, run: RunId, id: &ClientTurnId, text: TurnText) -> Check {
        ensure!(self.submitted.insert(id.clone()), "a turn is submitted once (16.3)", "{id}");
        let agent = self.live.get(&run).filter(|agent| agent.start.resume.is_some());
        let last = agent.and_then(|agent| self.last_turns.get(&agent.thread));
        let is_cut_off = last.is_some_and(|turn| turn.state == LastTurnState::Interrupted);
        ensure!(
            text != TurnText::Prompt || !is_cut_off,
            "a prompt is not given twice (16.3)",
            "{id} is a bare prompt after {last:?}"
        );
        Ok(())
    }

    /// The run may take another turn.
    pub(crate) fn next_turn(
        &mut self,
        run: RunId,
        turn: u32,
        client_id: ClientTurnId,
    ) -> Option<(u64, u32)> {
        let agent = self.live.get_mut(&run)?;
        if turn > 1 {
            self.luck.tally.count(Fault::ManyTurns);
        }
        agent.turn = turn;
        agent.client_id = Some(client_id);
        agent.epoch += 1;
        agent.stage = Stage::Turn { beats: 0 };
        Some((self.luck.rng.between(1, 1_000), agent.epoch))
    }

    /// The run is to close its session and end.
    pub(crate) fn finish(&mut self, run: RunId) -> Option<(u64, u32)> {
        let agent = self.live.get_mut(&run)?;
        agent.epoch += 1;
        agent.stage = Stage::Finishing;
        Some((self.luck.rng.between(1, 1_000), agent.epoch))
    }

    /// The run is to end whatever it does.
    pub(crate) fn stop(&mut self, run: RunId) -> Option<(u64, u32)> {
        let agent = self.live.get_mut(&run)?;
        agent.epoch += 1;
        let exit = Exit::draw(&mut self.luck);
        let in_turn = matches!(agent.stage, Stage::Turn { beats } if beats > 0);
        agent.stage = Stage::Leaving(exit.end);
        agent.script.turn_races = exit.turn_first && in_turn;
        Some((exit.after, agent.epoch))
    }

    /// From now on agents do what they are there for, and those that were told to stop do.
    pub(crate) fn calm(&mut self) -> Vec<(RunId, u32)> {
        self.luck.calm();
        self.calm = true;
        let mut leaving = Vec::new();
        for (run, agent) in &mut self.live {
            if matches!(agent.stage, Stage::Leaving(_)) {
                agent.epoch += 1;
                leaving.push((*run, agent.epoch));
            }
        }
        leaving
    }

    /// The service is gone, and its agents with it. A folder may be left without its record.
    pub(crate) fn forget_life(&mut self, disk: &mut SimDisk) {
        for agent in std::mem::take(&mut self.live).into_values() {
            let halfway = agent.stage == Stage::Creating && agent.start.record.is_none();
            if halfway && agent.start.host.as_str() == "local" && self.luck.rng.per_mille(300) {
                disk.add_stray(agent.root, &agent.start.key);
            }
        }
    }

    /// The run does its next thing; nothing if that is stale.
    pub(crate) fn act(&mut self, run: RunId, epoch: u32, around: &mut Surroundings<'_>) -> Act {
        let Some(mut agent) = self.live.remove(&run) else {
            return Act::default();
        };
        if agent.epoch != epoch {
            self.live.insert(run, agent);
            return Act::default();
        }
        let act = self.play(&mut agent, around);
        self.threads.insert(agent.thread.clone(), agent.total);
        if !matches!(act.news.last(), Some(RunEvent::Ended(_))) {
            self.live.insert(run, agent);
        }
        act
    }

    fn play(&mut self, agent: &mut Agent, around: &mut Surroundings<'_>) -> Act {
        match agent.stage.clone() {
            Stage::Creating => self.create(agent, around),
            Stage::TakingBack => {
                if let Some(record) = &agent.record {
                    around.disk.take_back(record);
                }
                ended(vec![RunEvent::WorkspaceGone], failed(FailureKind::Hook(Hook::AfterCreate)))
            }
            Stage::BeforeRun => self.prepare(agent),
            Stage::Launching => self.launch(agent),
            Stage::Initializing => self.initialize(agent),
            Stage::Opening => self.open(agent),
            Stage::Turn { beats } => self.beat(agent, beats, around),
            Stage::Waiting | Stage::Silent => Act::default(),
            Stage::Finishing => {
                agent.stage = Stage::AfterRun;
                self.go_on(vec![RunEvent::Phase(Phase::Finishing)], 1, 5_000)
            }
            Stage::AfterRun => {
                let fails = self.luck.strikes(Fault::FinishFails, 30);
                let end = if fails {
                    failed(FailureKind::Agent(AgentErrorKind::ProcessExit))
                } else {
                    RunEnd::Succeeded
                };
                ended(Vec::new(), end)
            }
            Stage::Leaving(end) => {
                let raced = agent.script.turn_races;
                if raced {
                    self.remember(agent, LastTurnState::Completed);
                }
                ended(if raced { vec![RunEvent::TurnEnded] } else { Vec::new() }, end)
            }
        }
    }

    fn go_on(&mut self, news: Vec<RunEvent>, low: u64, high: u64) -> Act {
        Act { news, again: Some(self.luck.rng.between(low, high)) }
    }

    fn create(&mut self, agent: &mut Agent, around: &mut Surroundings<'_>) -> Act {
        if agent.script.trouble == Trouble::Create {
            return ended(Vec::new(), failed(FailureKind::Workspace));
        }
        let scope = Scope::from(SCOPES[agent.scope]);
        let (record, created) = around.disk.prepare(&agent.start, &scope, agent.root);
        agent.created = created;
        agent.record = Some(record.clone());
        let told = agent.start.record.is_none() || self.luck.rng.per_mille(500);
        let news = if told { vec![RunEvent::Workspace(record)] } else { Vec::new() };
        agent.stage = Stage::BeforeRun;
        if created
            && agent.start.record.is_none()
            && self.luck.strikes(Fault::AfterCreateFailed, 40)
        {
            agent.stage = Stage::TakingBack;
        }
        self.go_on(news, 1, 3_000)
    }

    fn prepare(&mut self, agent: &mut Agent) -> Act {
        match agent.script.trouble {
            Trouble::BeforeRun => {
                return ended(Vec::new(), failed(FailureKind::Hook(Hook::BeforeRun)));
            }
            Trouble::Prompt => {
                return ended(
                    vec![RunEvent::Phase(Phase::BuildingPrompt)],
                    failed(FailureKind::Prompt),
                );
            }
            Trouble::SlowHook => {
                agent.script.trouble = Trouble::None;
                return self.go_on(Vec::new(), 60_000, 2_000_000);
            }
            _ => {}
        }
        agent.stage = Stage::Launching;
        self.go_on(vec![RunEvent::Phase(Phase::BuildingPrompt)], 1, 200)
    }

    fn launch(&mut self, agent: &mut Agent) -> Act {
        agent.stage = Stage::Initializing;
        if agent.script.trouble == Trouble::HangAtLaunch {
            agent.stage = Stage::Silent;
        }
        self.go_on(vec![RunEvent::Phase(Phase::LaunchingAgent)], 1, 3_000)
    }

    fn initialize(&mut self, agent: &mut Agent) -> Act {
        if let Trouble::Launch(kind) = agent.script.trouble {
            return ended(Vec::new(), failed(FailureKind::Agent(kind)));
        }
        if let Trouble::Exhausted = agent.script.trouble {
            return ended(Vec::new(), failed(FailureKind::Machine));
        }
        agent.stage = Stage::Opening;
        self.go_on(vec![RunEvent::Phase(Phase::InitializingSession)], 1, 2_000)
    }

    /// The session is open, and the first turn is waited for like all others.
    fn open(&mut self, agent: &mut Agent) -> Act {
        agent.stage = Stage::Waiting;
        let mut last = self.last_turns.get(&agent.thread).filter(|_| agent.resumed).cloned();
        if let Some(turn) = &mut last {
            if self.luck.strikes(Fault::TurnUnknown, 200) {
                *turn = LastTurn::new(None, LastTurnState::Unknown);
            } else if self.luck.strikes(Fault::TurnUnnamed, 200) {
                turn.client_id = None;
            }
        }
        Act { news: vec![RunEvent::Opened(agent.opened(last))], again: None }
    }

    fn beat(&mut self, agent: &mut Agent, beats: u64, around: &mut Surroundings<'_>) -> Act {
        agent.stage = Stage::Turn { beats: beats + 1 };
        let (low, high) = (agent.script.beat / 2, agent.script.beat * 2);
        if beats == 0 {
            let session = AgentUpdate::Session {
                thread: agent.thread.clone(),
                session_id: Arc::from(format!("{}-{}", agent.thread, agent.turn)),
                pid: Some(agent.turn),
            };
            let news = vec![RunEvent::Phase(Phase::StreamingTurn), RunEvent::Agent(session)];
            self.remember(agent, LastTurnState::Interrupted);
            return self.go_on(news, low, high);
        }
        if agent.tool_open {
            agent.tool_open = false;
            let changed_issue = std::mem::take(&mut agent.tool_changes);
            let news = vec![RunEvent::Agent(AgentUpdate::ToolEnded { changed_issue })];
            return self.go_on(news, low, high);
        }
        if beats >= agent.script.beats {
            return self.end_turn(agent, around);
        }
        self.update(agent, low, high, around)
    }

    /// The agent remembers its turn, as cut off until it is more than that.
    fn remember(&mut self, agent: &Agent, state: LastTurnState) {
        let last = LastTurn::new(agent.client_id.clone(), state);
        self.last_turns.insert(agent.thread.clone(), last);
    }

    fn update(
        &mut self,
        agent: &mut Agent,
        low: u64,
        high: u64,
        around: &mut Surroundings<'_>,
    ) -> Act {
        let news = match self.luck.rng.below(100) {
            0..=59 => vec![RunEvent::Agent(AgentUpdate::Alive)],
            60..=79
                if self.luck.may(Fault::UnrequestedTurn)
                    && self.luck.strikes(Fault::UnrequestedTurn, 20) =>
            {
                vec![RunEvent::Agent(AgentUpdate::UnrequestedTurn)]
            }
            60..=79 => vec![RunEvent::Agent(AgentUpdate::Event(Arc::clone(&agent.event)))],
            80..=95 => self.usage(agent),
            96 => {
                let count = if self.luck.strikes(Fault::Flood, 300) { 400 } else { 2 };
                vec![RunEvent::Agent(AgentUpdate::Alive); count]
            }
            _ => {
                agent.tool_open = true;
                self.move_by_tool(agent, around);
                let slow = self.luck.strikes(Fault::SlowTool, 200);
                let news = vec![RunEvent::Agent(AgentUpdate::ToolBegan)];
                return if slow {
                    self.go_on(news, 100_000, 3_000_000)
                } else {
                    self.go_on(news, 1, 5_000)
                };
            }
        };
        self.go_on(news, low, high)
    }

    /// The tool moves the issue while it runs, and the turn goes on after it.
    fn move_by_tool(&mut self, agent: &mut Agent, around: &mut Surroundings<'_>) {
        if self.luck.may(Fault::MovedByTool)
            && self.luck.strikes(Fault::MovedByTool, 500)
            && let Some(state) = agent.script.moves_to.take()
        {
            around.board.move_to(agent.scope, &agent.start.issue.id, state, around.wall);
            agent.tool_changes = true;
        }
    }

    fn usage(&mut self, agent: &mut Agent) -> Vec<RunEvent> {
        let report = |thread: &ThreadId, total: Tokens| {
            let mut usage = Usage::from(total);
            // Some agents report money, some do not.
            if thread.as_str().len().is_multiple_of(2) {
                usage = usage.with_cost(UsdMicros(total.total / 2));
            }
            RunEvent::Agent(AgentUpdate::Usage { thread: thread.clone(), total: usage })
        };
        if agent.resumed && agent.total.total > 0 {
            agent.resumed = false;
            if self.luck.strikes(Fault::OldTotalFirst, 800) {
                return vec![report(&agent.thread, agent.total)];
            }
        }
        let before = agent.total;
        let spent = self.luck.rng.between(1, 5_000);
        agent.total.input += spent;
        agent.total.cached_input += spent / 2;
        agent.total.output += spent / 3;
        agent.total.reasoning_output += spent / 7;
        agent.total.total += spent + spent / 3;
        let mut news = vec![report(&agent.thread, agent.total)];
        if self.luck.strikes(Fault::TotalFell, 30) {
            news.push(report(&agent.thread, before));
        }
        if self.luck.strikes(Fault::SideThread, 30) {
            let side = ThreadId::from(format!("{}-side", agent.thread));
            let total = self.threads.entry(side.clone()).or_default();
            total.input += spent;
            total.total += spent;
            news.push(report(&side, *total));
        }
        news
    }

    fn end_turn(&mut self, agent: &mut Agent, around: &mut Surroundings<'_>) -> Act {
        match agent.script.trouble {
            Trouble::Fail(kind) => {
                self.remember(agent, LastTurnState::Failed);
                return ended(Vec::new(), failed(FailureKind::Agent(kind)));
            }
            Trouble::Ask => {
                let question = Question::text("q-1", "Which door?");
                return ended(Vec::new(), RunEnd::InputRequired { question });
            }
            Trouble::Limit(limit) => {
                let (news, failure) = limit.report(around.wall, &mut self.luck);
                return ended(news, RunEnd::Failed(failure));
            }
            Trouble::Hang => {
                agent.stage = Stage::Silent;
                return Act::default();
            }
            _ => {}
        }
        if agent.turn >= agent.script.turns
            && let Some(state) = agent.script.moves_to
        {
            around.board.move_to(agent.scope, &agent.start.issue.id, state, around.wall);
        }
        if agent.turn == agent.start.max_turns {
            self.luck.tally.count(Fault::MaxTurns);
        }
        agent.stage = Stage::Waiting;
        self.remember(agent, LastTurnState::Completed);
        Act { news: vec![RunEvent::TurnEnded], again: None }
    }

    /// The issues that agents work on now.
    pub(crate) fn issues(&self) -> impl Iterator<Item = &IssueId> {
        self.live.values().map(|agent| &agent.start.issue.id)
    }
}

fn failed(kind: FailureKind) -> RunEnd {
    RunEnd::Failed(Failure::new(kind, "as the script says"))
}

fn ended(mut news: Vec<RunEvent>, end: RunEnd) -> Act {
    news.push(RunEvent::Ended(end));
    Act { news, again: None }
}
