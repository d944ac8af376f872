//! The test harness: an orchestrator, virtual time, a board for a tracker, and everything that is
//! still open. It checks the [`invariants`] after every step.

mod answers;
mod board;
mod effects;
mod flows;
mod inputs;
mod invariants;
mod run;
mod setup;
mod views;

use std::collections::BTreeMap;
use std::time::Duration;

use symphony_core::Issue;
use symphony_core::orchestrator::{
    Configuration, Effect, Event, Notice, Orchestrator, Phase, ReadId, Removal, RemovalId,
    Restored, RunEvent, Start, Step, Workspaces,
};
use symphony_core::run::RunId;
use symphony_core::store::{Durability, RowMap, Write};
use symphony_core::time::{Mono, Now, Wall};
use symphony_core::tracker::Poll;

pub(crate) use board::{Draft, id, issue, name};
pub(crate) use run::Run;
pub(crate) use setup::{Setup, record};

/// What a list of names is compared with when it must be empty.
pub(crate) const NONE: [&str; 0] = [];

/// `2026-02-18T09:30:00Z`, which is mono 1,000,000 here.
const OPENING: Wall = Wall::from_unix_millis(1_771_407_000_000);

pub(crate) struct Harness {
    orchestrator: Orchestrator,
    configuration: Configuration,
    boot: u64,
    now: Now,
    board: BTreeMap<String, Issue>,
    unreadable: Vec<String>,
    reads: BTreeMap<ReadId, Poll>,
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
    writes: Vec<Write>,
    rows: RowMap,
    /// Whether turns that are ordered wait for the store.
    pub(crate) store_hangs: bool,
    /// The greatest durability that was asked for.
    pub(crate) durability: Durability,
}

/// A run that has started and not ended.
#[derive(Debug)]
struct Live {
    start: Start,
    turns: u32,
    awaits_answer: bool,
    finishing: bool,
    stopped: bool,
}

/// Where an issue is (contract 6.1).
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum Stage {
    Unclaimed,
    Checking,
    Running,
    Stopping,
    Waiting,
    Blocked,
    Cleaning,
}

impl Harness {
    /// A harness with every default, its first poll asked.
    pub(crate) fn new() -> Self {
        Self::with(|_| ())
    }

    /// A harness that differs from the defaults.
    pub(crate) fn with(differ: impl FnOnce(&mut Setup)) -> Self {
        let mut setup = Setup::default();
        differ(&mut setup);
        let (configuration, restored) = setup.parts();
        Self::open(configuration, restored)
    }

    fn open(configuration: Configuration, restored: Restored) -> Self {
        let now = Now { mono: Mono::from_millis(1_000_000), wall: OPENING };
        Self::open_at(configuration, restored, now)
    }

    fn open_at(configuration: Configuration, restored: Restored, now: Now) -> Self {
        let boot = restored.boot;
        let (orchestrator, step) = Orchestrator::new(configuration.clone(), restored, now);
        let mut harness = Self {
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
            writes: Vec::new(),
            rows: RowMap::default(),
            store_hangs: false,
            durability: Durability::Process,
        };
        harness.absorb(step);
        harness
    }

    /// Another life, with what this one wrote and what it left on disk, after `millis` of downtime.
    pub(crate) fn restarted(&self, millis: u64) -> Self {
        let restored =
            Restored { boot: self.boot + 1, rows: self.rows(), workspaces: Workspaces::default() };
        let mut next = self.now;
        next.wall = next.wall + Duration::from_millis(millis);
        let mut harness = Self::open_at(self.configuration.clone(), restored, next);
        let mut rows = self.rows.clone();
        harness.writes.iter().for_each(|write| rows.apply(write));
        harness.rows = rows;
        harness
    }

    /// Hands one event to the orchestrator, at the present time.
    pub(crate) fn event(&mut self, event: Event) {
        let step = self.orchestrator.handle(self.now, event);
        let ordered = step.effects.iter().filter_map(|effect| match effect {
            Effect::NextTurn { run, turn: 2.., .. } if !self.store_hangs => Some(*run),
            _ => None,
        });
        let ordered: Vec<RunId> = ordered.collect();
        self.absorb(step);
        for run in ordered {
            let news = RunEvent::Phase(Phase::StreamingTurn);
            self.event(Event::Run { run, news });
        }
    }

    fn absorb(&mut self, step: Step) {
        for effect in step.effects {
            self.record_effect(&effect);
            self.effects.push(effect);
        }
        self.notices.extend(step.notices);
        step.writes.iter().for_each(|write| self.rows.apply(write));
        self.writes.extend(step.writes);
        self.durability = self.durability.max(step.durability);
        self.check_invariants();
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

    /// The wall clock is set.
    pub(crate) fn wall_jumps(&mut self, millis: i64) {
        self.now.wall = Wall::from_unix_millis(self.now.wall.as_unix_millis() + millis);
    }

    pub(crate) fn now(&self) -> Now {
        self.now
    }

    /// The moment that lies so many milliseconds ahead.
    pub(crate) fn after(&self, millis: u64) -> Mono {
        self.now.mono + Duration::from_millis(millis)
    }
}
