//! The test bench: an orchestrator, virtual time, a board for a tracker, and everything that is
//! still open. It knows what no rule may break ([`sense`]) and checks it after every step.

mod board;
mod run;
mod sense;
mod setup;

use std::collections::BTreeMap;
use std::time::Duration;

use symphony_core::orchestrator::{
    Answer, Command, Configuration, Effect, Event, Generation, Happened, Notice, Orchestrator,
    Query, ReadId, Removal, RemovalId, Restored, RunId, Saved, Start, Step, Workspaces,
};
use symphony_core::problem::{Problem, ProblemKind};
use symphony_core::snapshot::{
    BlockedRow, HoldRow, JobRow, Reason, RunningRow, Snapshot, Verdict, WaitingRow,
};
use symphony_core::time::{Mono, Now, Wall};
use symphony_core::{Failure, FailureKind, Issue, Settings};

pub(crate) use board::{Draft, id, issue, name};
pub(crate) use run::Run;
pub(crate) use setup::{Setup, record};

/// What a list of names is compared with when it must be empty.
pub(crate) const NONE: [&str; 0] = [];

/// `2026-02-18T09:30:00Z`, which is mono 1,000,000 here.
const OPENING: Wall = Wall::from_unix_millis(1_771_407_000_000);

pub(crate) struct Desk {
    orchestrator: Orchestrator,
    configuration: Configuration,
    boot: u64,
    now: Now,
    board: BTreeMap<String, Issue>,
    unreadable: Vec<String>,
    reads: BTreeMap<ReadId, Query>,
    runs: BTreeMap<RunId, Live>,
    names: BTreeMap<RunId, String>,
    removals: BTreeMap<RemovalId, (Issue, Removal)>,
    jobs: Vec<String>,
    last_read: Option<ReadId>,
    last_run: Option<RunId>,
    paused: bool,
    broken: bool,
    closing: bool,
    effects: Vec<Effect>,
    notices: Vec<Notice>,
}

/// A run that has started and not ended.
#[derive(Debug)]
struct Live {
    start: Start,
    turns: u32,
    owed: bool,
    finishing: bool,
    stopped: bool,
}

/// Where an issue is (contract 6.1).
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum Place {
    Unclaimed,
    Checking,
    Running,
    Stopping,
    Waiting,
    Blocked,
    Cleaning,
}

/// A read whose answer is on its way: it tells what was true when it was made.
pub(crate) struct Late(ReadId, Answer);

impl Late {
    /// The bare event, to be handed in once too often.
    pub(crate) fn into_event(self) -> Event {
        Event::Answered { read: self.0, answer: self.1 }
    }
}

impl Desk {
    /// A desk with every default, its first poll asked.
    pub(crate) fn new() -> Self {
        Self::with(|_| ())
    }

    /// A desk that differs from the defaults.
    pub(crate) fn with(differ: impl FnOnce(&mut Setup)) -> Self {
        let mut setup = Setup::default();
        differ(&mut setup);
        let (configuration, restored) = setup.parts();
        Self::open(configuration, restored)
    }

    fn open(configuration: Configuration, restored: Restored) -> Self {
        let now = Now { mono: Mono::from_millis(1_000_000), wall: OPENING };
        let boot = restored.boot;
        let (orchestrator, step) = Orchestrator::new(configuration.clone(), restored, now);
        let mut desk = Self {
            orchestrator,
            configuration,
            boot,
            now,
            board: BTreeMap::new(),
            unreadable: Vec::new(),
            reads: BTreeMap::new(),
            runs: BTreeMap::new(),
            names: BTreeMap::new(),
            removals: BTreeMap::new(),
            jobs: Vec::new(),
            last_read: None,
            last_run: None,
            paused: false,
            broken: false,
            closing: false,
            effects: Vec::new(),
            notices: Vec::new(),
        };
        desk.absorb(step);
        desk
    }

    /// Hands one event to the orchestrator, at the present time.
    pub(crate) fn event(&mut self, event: Event) {
        let step = self.orchestrator.handle(self.now, event);
        self.absorb(step);
    }

    fn absorb(&mut self, step: Step) {
        for effect in step.effects {
            self.take_in(&effect);
            self.effects.push(effect);
        }
        self.notices.extend(step.notices);
        self.check_sense();
    }

    // Time.

    /// Time passes; the orchestrator is woken only when it said so. Reads stay open.
    pub(crate) fn advance(&mut self, millis: u64) {
        let end = self.now.mono + Duration::from_millis(millis);
        self.pass_until(end, |_| ());
    }

    /// Time passes and the tracker answers every read at once.
    pub(crate) fn live(&mut self, millis: u64) {
        let end = self.now.mono + Duration::from_millis(millis);
        self.settle();
        self.pass_until(end, Self::settle);
    }

    fn pass_until(&mut self, end: Mono, after_each: impl Fn(&mut Self)) {
        while let Some(at) = self.orchestrator.next_wakeup().filter(|at| *at <= end) {
            self.set_clock(at);
            self.event(Event::Wake);
            after_each(self);
        }
        self.set_clock(end);
    }

    fn set_clock(&mut self, at: Mono) {
        let passed = at.since(self.now.mono);
        self.now = Now { mono: self.now.mono + passed, wall: self.now.wall + passed };
    }

    pub(crate) fn now(&self) -> Now {
        self.now
    }

    /// The moment that lies so many milliseconds ahead.
    pub(crate) fn after(&self, millis: u64) -> Mono {
        self.now.mono + Duration::from_millis(millis)
    }

    // Reads.

    /// The open reads, in the order they were asked: `poll with MT-1`, `refresh MT-1`, `read MT-2`.
    pub(crate) fn reads(&self) -> Vec<String> {
        self.reads.values().map(board::spell).collect()
    }

    /// The one open read is answered as the board is now.
    pub(crate) fn answer(&mut self) {
        self.answer_but(|_| ());
    }

    /// The one open read is answered as the board is now, but for what `differ` changes.
    pub(crate) fn answer_but(&mut self, differ: impl FnOnce(&mut Answer)) {
        assert_eq!(self.reads.len(), 1, "which of {:?}?", self.reads());
        let Late(read, mut answer) = self.withhold();
        differ(&mut answer);
        self.deliver(Late(read, answer));
    }

    /// The open read with this spelling is answered as the board is now.
    pub(crate) fn answer_to(&mut self, spelling: &str) {
        self.answer_to_but(spelling, |_| ());
    }

    /// The same, but for what `differ` changes.
    pub(crate) fn answer_to_but(&mut self, spelling: &str, differ: impl FnOnce(&mut Answer)) {
        let read = *self
            .reads
            .iter()
            .find(|(_, query)| board::spell(query) == spelling)
            .unwrap_or_else(|| panic!("{spelling:?} is not among {:?}", self.reads()))
            .0;
        let mut answer = self.truth(&self.reads[&read]);
        differ(&mut answer);
        self.deliver(Late(read, answer));
    }

    /// The one open read fails as a whole.
    pub(crate) fn answer_fails(&mut self, failure: &Failure) {
        self.answer_but(|answer| {
            answer.candidates = answer.candidates.take().map(|_| Err(failure.clone()));
            answer.by_id = answer.by_id.take().map(|_| Err(failure.clone()));
        });
    }

    /// The answer to the oldest open read, to be delivered later.
    pub(crate) fn withhold(&self) -> Late {
        let (read, query) = self.reads.first_key_value().expect("an open read");
        Late(*read, self.truth(query))
    }

    pub(crate) fn deliver(&mut self, Late(read, answer): Late) {
        self.reads.remove(&read).expect("a read is answered once");
        self.event(Event::Answered { read, answer });
    }

    /// Every read is answered as the board is now, until none is open.
    pub(crate) fn settle(&mut self) {
        for _ in 0..50 {
            if self.reads.is_empty() {
                return;
            }
            let late = self.withhold();
            self.deliver(late);
        }
        panic!("the reads never end: {:?}", self.asked());
    }

    // What the orchestrator wanted since last looked.

    fn take<T>(&mut self, pick: impl Fn(&Effect) -> Option<T>) -> Vec<T> {
        let picked = self.effects.iter().filter_map(&pick).collect();
        self.effects.retain(|effect| pick(effect).is_none());
        picked
    }

    /// Everything, as it is.
    pub(crate) fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// New reads, answered or not.
    pub(crate) fn asked(&mut self) -> Vec<String> {
        self.take(|effect| match effect {
            Effect::Read { query, .. } => Some(board::spell(query)),
            _ => None,
        })
    }

    /// New starts: `MT-1`, `MT-1 attempt 2`.
    pub(crate) fn starts(&mut self) -> Vec<String> {
        let starts = self.started();
        let spell = |start: &Start| match start.attempt {
            None => name(&start.issue.id),
            Some(attempt) => format!("{} attempt {attempt}", name(&start.issue.id)),
        };
        starts.iter().map(spell).collect()
    }

    /// New starts, in full.
    pub(crate) fn started(&mut self) -> Vec<Start> {
        self.take(|effect| match effect {
            Effect::Start(start) => Some(start.clone()),
            _ => None,
        })
    }

    /// What live runs were told: `next turn MT-1: 2`, `finish MT-1`, `stop MT-1: Stalled`.
    pub(crate) fn told(&mut self) -> Vec<String> {
        let names = std::mem::take(&mut self.names);
        let told = self.take(|effect| run::spell(effect, &names));
        self.names = names;
        told
    }

    pub(crate) fn saves(&mut self) -> Vec<Saved> {
        self.take(|effect| match effect {
            Effect::Save(saved) => Some(saved.clone()),
            _ => None,
        })
    }

    /// How often the workflow file was to be looked at.
    pub(crate) fn rechecks(&mut self) -> usize {
        self.take(|effect| matches!(effect, Effect::RecheckWorkflow).then_some(())).len()
    }

    /// New runs of an embedder's jobs.
    pub(crate) fn job_runs(&mut self) -> Vec<String> {
        self.take(|effect| match effect {
            Effect::RunJob { name } => Some(name.to_string()),
            _ => None,
        })
    }

    /// Everything in order, in the spellings above; the rest is left out.
    pub(crate) fn wanted(&mut self) -> Vec<String> {
        let names = std::mem::take(&mut self.names);
        let wanted = self.take(|effect| match effect {
            Effect::Read { query, .. } => Some(board::spell(query)),
            Effect::Start(start) => Some(format!("start {}", name(&start.issue.id))),
            _ => run::spell(effect, &names),
        });
        self.names = names;
        wanted
    }

    /// What happened since last looked.
    pub(crate) fn notices(&mut self) -> Vec<Happened> {
        self.notices.drain(..).map(|notice| notice.what).collect()
    }

    // Work.

    /// Puts the issues on the board and lets each start and reach its first turn.
    pub(crate) fn works_on<const N: usize>(&mut self, issues: [Issue; N]) {
        let names = issues.each_ref().map(|issue| name(&issue.id));
        self.board(issues);
        if self.reads.is_empty() {
            self.command(Command::PollNow);
        }
        self.settle();
        for name in &names {
            self.run(name).works();
        }
        self.asked();
        self.starts();
    }

    /// The live run of the issue.
    pub(crate) fn run(&mut self, name: &str) -> Run<'_> {
        Run::of(self, name)
    }

    /// The issue's turn ends, is read, and is answered.
    pub(crate) fn turn_ends(&mut self, name: &str) {
        self.run(name).turn_ends();
        self.live(50);
    }

    /// The run ends as it should: told to finish after a turn.
    pub(crate) fn ends_normally(&mut self, name: &str) {
        if !self.run(name).is_at_work() {
            self.run(name).works();
        }
        self.turn_ends(name);
        assert_eq!(self.told(), [format!("finish {name}")]);
        self.run(name).ends_well();
    }

    /// The issue moves to `Done`; its run ends with the turn, and its workspace is removed.
    pub(crate) fn is_done(&mut self, name: &str) {
        let mut issue = self.board[id(name).as_str()].clone();
        issue.state = "Done".into();
        self.board([issue]);
        self.ends_normally(name);
        self.removed(name);
    }

    /// Issues whose workspace is being removed.
    pub(crate) fn removals(&self) -> Vec<String> {
        let issues = self.removals.values().map(|(issue, _)| &issue.id);
        issues.map(name).collect()
    }

    /// What exactly is being removed for the issue.
    pub(crate) fn removal(&self, issue: &str) -> Removal {
        self.removals[&self.removal_id(issue)].1.clone()
    }

    fn removal_id(&self, issue: &str) -> RemovalId {
        let open = self.removals.iter();
        *open
            .clone()
            .find(|(_, (removed, _))| removed.id == id(issue))
            .unwrap_or_else(|| panic!("{issue} is not being removed"))
            .0
    }

    pub(crate) fn removed(&mut self, issue: &str) {
        self.removal_ends(issue, Ok(()));
    }

    pub(crate) fn removal_fails(&mut self, issue: &str) {
        self.removal_ends(issue, Err(Failure::new(FailureKind::Workspace, "busy")));
    }

    fn removal_ends(&mut self, issue: &str, outcome: Result<(), Failure>) {
        let removal = self.removal_id(issue);
        self.removals.remove(&removal);
        self.event(Event::Removed { removal, outcome });
    }

    // People.

    pub(crate) fn command(&mut self, command: Command) {
        match command {
            Command::Pause => self.paused = true,
            Command::Resume => self.paused = false,
            Command::ShutDown => self.closing = true,
            _ => (),
        }
        self.event(Event::Command(command));
    }

    /// Another valid file, read by the same tracker.
    pub(crate) fn reloads(&mut self, change: impl FnOnce(&mut Settings)) {
        let mut settings = (*self.configuration.settings).clone();
        change(&mut settings);
        self.configuration.settings = settings.into();
        self.reload(None);
    }

    /// Another valid file that needs another tracker.
    pub(crate) fn reloads_tracker(&mut self, scope: &str) {
        let Generation(generation) = self.configuration.generation;
        self.configuration.generation = Generation(generation + 1);
        self.configuration.scope = scope.into();
        self.reload(None);
    }

    /// Another valid file, with another workspace root.
    pub(crate) fn reloads_root(&mut self, root: &str, workspaces: Workspaces) {
        let mut settings = (*self.configuration.settings).clone();
        settings.workspace.root = root.into();
        self.configuration.settings = settings.into();
        self.reload(Some(workspaces));
    }

    fn reload(&mut self, workspaces: Option<Workspaces>) {
        self.broken = false;
        self.event(Event::Reloaded { configuration: self.configuration.clone(), workspaces });
    }

    /// The file becomes invalid.
    pub(crate) fn file_breaks(&mut self, message: &str) {
        self.broken = true;
        self.event(Event::ReloadFailed {
            problems: vec![Problem::new(ProblemKind::InvalidSetting, message)],
        });
    }

    /// An embedder's job comes back.
    pub(crate) fn job_ends(&mut self, name: &str, outcome: Result<(), Failure>) {
        self.jobs.retain(|job| job != name);
        self.event(Event::JobEnded { name: name.into(), outcome });
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.orchestrator.is_drained()
    }

    // What it shows.

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.orchestrator.snapshot(self.now)
    }

    pub(crate) fn place(&self, name: &str) -> Place {
        let places = sense::places(&self.snapshot());
        places.get(&id(name)).copied().unwrap_or(Place::Unclaimed)
    }

    pub(crate) fn running(&self, name: &str) -> RunningRow {
        let rows = self.snapshot().running;
        let row = rows.into_iter().find(|row| row.issue.id == id(name));
        row.unwrap_or_else(|| panic!("{name} is not running"))
    }

    pub(crate) fn waiting(&self, name: &str) -> WaitingRow {
        let rows = self.snapshot().waiting;
        let row = rows.into_iter().find(|row| row.issue.id == id(name));
        row.unwrap_or_else(|| panic!("{name} does not wait but is {:?}", self.place(name)))
    }

    /// How many milliseconds the issue still waits; `None` when it is due and waits for a slot.
    pub(crate) fn wait_of(&self, name: &str) -> Option<u64> {
        let until = self.waiting(name).until?;
        Some(until.as_millis() - self.now.mono.as_millis())
    }

    pub(crate) fn blocked(&self, name: &str) -> BlockedRow {
        let rows = self.snapshot().blocked;
        let row = rows.into_iter().find(|row| row.issue.id == id(name));
        row.unwrap_or_else(|| panic!("{name} is not blocked"))
    }

    /// The one hold.
    pub(crate) fn hold(&self) -> HoldRow {
        let [hold] = <[HoldRow; 1]>::try_from(self.snapshot().holds).expect("one hold");
        hold
    }

    pub(crate) fn job(&self, job: &symphony_core::orchestrator::Job) -> JobRow {
        let rows = self.snapshot().polling.jobs;
        let row = rows.into_iter().find(|row| row.job == *job);
        row.unwrap_or_else(|| panic!("no job {job}"))
    }

    /// Why the candidate is not running.
    pub(crate) fn reason(&self, name: &str) -> Reason {
        self.unstarted(name).unwrap_or_else(|| panic!("{name} has no reason"))
    }

    pub(crate) fn unstarted(&self, name: &str) -> Option<Reason> {
        let rows = self.orchestrator.explain(self.now).unstarted;
        let row = rows.into_iter().find(|row| row.id == id(name));
        row.map(|row| row.reason)
    }

    pub(crate) fn verdict(&self) -> Verdict {
        self.orchestrator.explain(self.now).verdict
    }
}
