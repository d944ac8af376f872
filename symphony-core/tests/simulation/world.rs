//! One world: virtual time, everything around the orchestrator, and the check after every step.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use symphony_core::agent::AgentUpdate;
use symphony_core::orchestrator::{Command, Effect, Event, Job, Restored, RunEnd, RunEvent, Step};
use symphony_core::run::RunId;
use symphony_core::time::{Mono, Now, Wall};
use symphony_core::{Failure, FailureKind, Orchestrator};

use crate::agenda::{Agenda, Due};
use crate::agents::{Agents, Surroundings};
use crate::board::Board;
use crate::courier::Courier;
use crate::faults::{Fault, Tally};
use crate::files::{Edited, Files};
use crate::ledger::{Deferred, Ledger, split};
use crate::operator::{Accident, Deed, Operator};
use crate::oracle::Oracle;
use crate::plan::{Plan, TAIL_HOURS};
use crate::totals::Sums;
use crate::trace::{Grain, Trace};
use crate::tracker::Tracker;
use crate::violation::{Check, Violation, ensure};
use crate::workspaces::SimDisk;

const HOUR: u64 = 3_600_000;

/// What came of a world.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) result: Check,
    pub(crate) events: u64,
    pub(crate) tally: Tally,
    pub(crate) trace: Trace,
}

/// A world.
pub(crate) struct World {
    plan: Plan,
    agenda: Agenda,
    /// Virtual milliseconds since the world began.
    time: u64,
    wall_ahead: i64,
    orchestrator: Orchestrator,
    pub(crate) oracle: Oracle,
    pub(crate) tracker: Tracker,
    agents: Agents,
    pub(crate) disk: SimDisk,
    pub(crate) files: Files,
    operator: Operator,
    courier: Courier,
    pub(crate) ledger: Ledger,
    jobs: BTreeMap<Arc<str>, CustomJob>,
    quiet: bool,
    calm: bool,
    /// The wake-up that is asked for, and when it will really come.
    late_wake: Option<(u64, u64)>,
    old_runs: Vec<RunId>,
    /// What agents reported, in all lives.
    reported: Sums,
    events: u64,
    /// Whether a new orchestrator is to be compared with the living one.
    restart_due: bool,
    stuck: u32,
    trace: Trace,
}

/// An embedder's job.
#[derive(Debug)]
struct CustomJob {
    interval: Duration,
    open: bool,
    last: Option<u64>,
}

/// Runs the world of a plan to its end, or to the first broken rule.
pub(crate) fn run(plan: &Plan, grain: Grain) -> Outcome {
    let mut world = World::new(plan, grain);
    let result = world.live();
    if result.is_err() {
        world.trace.note(world.now(), &format!("{:?}", world.orchestrator.explain().unstarted));
    }
    let mut tally = Tally::default();
    for luck in [
        &world.tracker.luck,
        &world.tracker.board.luck,
        &world.agents.luck,
        &world.disk.luck,
        &world.files.luck,
        &world.operator.luck,
        &world.courier.luck,
        &world.ledger.luck,
    ] {
        tally.add(&luck.tally);
    }
    Outcome { result, events: world.events, tally, trace: world.trace }
}

impl World {
    fn new(plan: &Plan, grain: Grain) -> Self {
        let wall = Wall::from_unix_millis(1_771_400_000_000);
        let files = Files::new(plan);
        let config = files.config.clone();
        let restored = Restored { boot: 1, ..Restored::default() };
        let now = Now { mono: Mono::from_millis(1), wall };
        // The first life begins in `live`; this one is a stand-in that never acts.
        let (orchestrator, _) = Orchestrator::new(config.clone(), restored.clone(), now);
        Self {
            plan: *plan,
            agenda: Agenda::default(),
            time: 1,
            wall_ahead: wall.as_unix_millis(),
            orchestrator,
            oracle: Oracle::new(config, &restored, now),
            tracker: Tracker::new(plan, Board::new(plan, wall)),
            agents: Agents::new(plan),
            disk: SimDisk::new(plan),
            files,
            operator: Operator::new(plan),
            courier: Courier::new(plan),
            ledger: Ledger::new(plan),
            jobs: BTreeMap::new(),
            quiet: false,
            calm: false,
            late_wake: None,
            old_runs: Vec::new(),
            reported: Sums::default(),
            events: 0,
            restart_due: false,
            stuck: 0,
            trace: Trace::new(grain),
        }
    }

    pub(crate) fn now(&self) -> Now {
        let passed = i64::try_from(self.time).unwrap_or(i64::MAX);
        Now {
            mono: Mono::from_millis(self.time),
            wall: Wall::from_unix_millis(self.wall_ahead + passed),
        }
    }

    fn live(&mut self) -> Check {
        let end = self.plan.hours * HOUR;
        let tail = end.saturating_sub(TAIL_HOURS * HOUR);
        self.agenda.put(tail, Due::Tail);
        for due in [Due::Board, Due::Operator, Due::Accident] {
            self.agenda.put(1_000, due);
        }
        self.begin_life()?;
        loop {
            let wake = self.wake_time();
            let next = self.agenda.next();
            let (at, woken) = match (next, wake) {
                (Some(next), Some(wake)) if wake < next => (wake, true),
                (Some(next), _) => (next, false),
                (None, Some(wake)) => (wake, true),
                (None, None) => break,
            };
            if at > end {
                break;
            }
            self.advance(at)?;
            if woken {
                self.late_wake = None;
                self.deliver(Event::Wake)?;
            } else if let Some(due) = self.agenda.take() {
                self.happen(due)?;
            }
        }
        self.time = self.time.max(end);
        self.check_end()
    }

    fn advance(&mut self, at: u64) -> Check {
        if at > self.time {
            self.time = at;
            self.stuck = 0;
        }
        self.stuck += 1;
        ensure!(self.stuck < 20_000, "time goes on", "20000 steps within a millisecond");
        Ok(())
    }

    /// When the wake-up that is asked for comes: now and then a little late.
    fn wake_time(&mut self) -> Option<u64> {
        let asked = self.orchestrator.next_wakeup()?.as_millis();
        if let Some((_, comes)) = self.late_wake.filter(|(for_this, _)| *for_this == asked) {
            return Some(comes);
        }
        let late = if self.operator.luck.strikes(Fault::LateWake, 10) {
            self.operator.luck.rng.between(1, 900)
        } else {
            0
        };
        self.late_wake = Some((asked, asked + late));
        Some(asked + late)
    }

    fn happen(&mut self, due: Due) -> Check {
        match due {
            Due::Answer(read) => match self.tracker.answer(self.time, read) {
                Some(event) => self.deliver(event),
                None => Ok(()),
            },
            Due::Agent(run, epoch) => self.agent_acts(run, epoch),
            Due::Unstarted(run) => {
                self.old_runs.push(run);
                self.deliver(Event::Run { run, news: RunEvent::Ended(RunEnd::Cancelled) })
            }
            Due::Commit => self.commit(),
            Due::Removal(id) => match self.disk.removed(id) {
                Some(event) => {
                    if self.oracle.gives_up(id, &event) {
                        self.disk.luck.tally.count(Fault::RemovalGivenUp);
                    }
                    self.deliver(event)
                }
                None => Ok(()),
            },
            Due::Board => {
                if !self.calm {
                    let wall = self.now().wall;
                    self.tracker.board.change(wall);
                    let pause = self.tracker.board.pause();
                    self.agenda.put(self.time + pause, Due::Board);
                    let known = self.tracker.board.all(self.files.scope);
                    let made_up = self.courier.make_up(&known);
                    self.agenda_of_deliveries(made_up);
                }
                self.announce();
                Ok(())
            }
            Due::Delivery(number) => match self.courier.take(number) {
                Some(issues) => self.deliver(Event::Delivered { issues }),
                None => Ok(()),
            },
            Due::Operator => self.operator_acts(),
            Due::Accident => self.accident_happens(),
            Due::Kill => self.kill(false),
            Due::File => self.file_is_read(),
            Due::Job => self.job_ends(),
            Due::Tail => self.begin_tail(),
            Due::Care => self.care(),
        }
    }

    fn agent_acts(&mut self, run: RunId, epoch: u32) -> Check {
        let wall = self.now().wall;
        let mut around =
            Surroundings { board: &mut self.tracker.board, disk: &mut self.disk, wall };
        let act = self.agents.act(run, epoch, &mut around);
        self.announce();
        if let Some(again) = act.again {
            self.agenda.put(self.time + again, Due::Agent(run, epoch));
        }
        for news in act.news {
            if matches!(news, RunEvent::Ended(_)) {
                self.old_runs.push(run);
            }
            self.deliver(Event::Run { run, news })?;
        }
        Ok(())
    }

    /// A change on the board makes the tracker announce it.
    fn announce(&mut self) {
        let changed = self.tracker.board.changed();
        let sent = self.courier.announce(changed);
        self.agenda_of_deliveries(sent);
    }

    fn agenda_of_deliveries(&mut self, sent: Vec<(u64, u64)>) {
        for (after, number) in sent {
            self.agenda.put(self.time + after, Due::Delivery(number));
        }
    }

    fn operator_acts(&mut self) -> Check {
        if self.calm {
            return Ok(());
        }
        let pause = self.operator.pause();
        self.agenda.put(self.time + pause, Due::Operator);
        let mut issues: Vec<_> = self.oracle.claims.keys().cloned().collect();
        issues.extend(self.agents.issues().cloned());
        match self.operator.deed(self.oracle.paused, &issues) {
            Deed::Command(command) => self.deliver(Event::Command(command)),
            Deed::EditFile => {
                let live = u32::try_from(self.agents.live.len()).unwrap_or(0);
                self.files.edit(live);
                self.agenda.put(self.time + 1_000, Due::File);
                Ok(())
            }
            Deed::Activity => self.deliver(Event::Activity),
            Deed::AddJob => {
                let name: Arc<str> = Arc::from("backup");
                let interval = Duration::from_secs(self.operator.luck.rng.pick(&[60, 900]));
                let job = self.jobs.entry(Arc::clone(&name)).or_insert(CustomJob {
                    interval,
                    open: false,
                    last: None,
                });
                job.interval = interval;
                job.last = None;
                self.deliver(Event::JobAdded { name, interval })
            }
            Deed::QuietHours => {
                self.quiet = !self.quiet;
                self.deliver(Event::QuietHours { on: self.quiet })
            }
            Deed::Meddle => {
                self.disk.meddle();
                Ok(())
            }
            Deed::Nothing => Ok(()),
        }
    }

    fn accident_happens(&mut self) -> Check {
        if self.calm {
            return Ok(());
        }
        let respite = self.operator.respite();
        self.agenda.put(self.time + respite, Due::Accident);
        match self.operator.accident() {
            Accident::Kill { again } => {
                if again {
                    let soon = self.operator.luck.rng.between(1, 8_000);
                    self.agenda.put(self.time + soon, Due::Kill);
                }
                self.kill(false)
            }
            Accident::WallJump(by) => {
                self.wall_ahead += by;
                self.trace.note(self.now(), "the wall clock jumps");
                Ok(())
            }
            Accident::Suspend(span) => {
                self.time += span;
                Ok(())
            }
            Accident::SpuriousWake => self.deliver(Event::Wake),
            Accident::OldRunNews => self.old_run_news(),
            Accident::OldReadAnswer => self.old_read_answer(),
            Accident::Nothing => Ok(()),
        }
    }

    /// News of a run that is over changes nothing at all.
    fn old_run_news(&mut self) -> Check {
        if self.old_runs.is_empty() || !self.operator.luck.strikes(Fault::OldRunNews, 1000) {
            return Ok(());
        }
        // First whatever is due now, so that only the news itself is judged.
        self.deliver(Event::Wake)?;
        let run = self.old_runs[self.operator.luck.rng.index(self.old_runs.len())];
        let failure = Failure::new(FailureKind::Internal, "a ghost");
        let news = match self.operator.luck.rng.below(4) {
            0 => RunEvent::Ended(RunEnd::Failed(failure)),
            1 => RunEvent::TurnEnded,
            2 => RunEvent::WorkspaceGone,
            _ => RunEvent::Agent(AgentUpdate::Alive),
        };
        self.deliver_ghost(Event::Run { run, news })
    }

    /// An answer to a read that is not open changes nothing at all.
    fn old_read_answer(&mut self) -> Check {
        let known = |event: &Event| matches!(event, Event::Answered { read, .. } if self.oracle.reads.contains_key(read));
        let Some(event) = self.tracker.old.last().filter(|event| !known(event)).cloned() else {
            return Ok(());
        };
        if !self.operator.luck.strikes(Fault::OldReadAnswer, 1000) {
            return Ok(());
        }
        self.tracker.old.pop();
        self.deliver(Event::Wake)?;
        let known =
            matches!(&event, Event::Answered { read, .. } if self.oracle.reads.contains_key(read));
        if known { Ok(()) } else { self.deliver_ghost(event) }
    }

    fn deliver_ghost(&mut self, event: Event) -> Check {
        let before = self.orchestrator.snapshot(self.now());
        self.deliver(event)?;
        let after = self.orchestrator.snapshot(self.now());
        ensure!(before == after, "old news changes nothing", "{before:?} became {after:?}");
        Ok(())
    }

    fn file_is_read(&mut self) -> Check {
        match self.files.edited.take() {
            None => Ok(()),
            Some(Edited::Bad(problems)) => self.deliver(Event::ReloadFailed { problems }),
            Some(Edited::Good { config, scope, root }) => {
                let (moved, scope_moved) = (root != self.files.root, scope != self.files.scope);
                (self.files.scope, self.files.root) = (scope, root);
                self.files.config = config.clone();
                let workspaces = moved.then(|| self.disk.found(self.files.root_name()));
                let claims = if scope_moved {
                    self.ledger.complete().of_scope(&config.scope).claims
                } else {
                    Vec::new()
                };
                if !claims.is_empty() {
                    self.files.luck.tally.count(Fault::ScopeReturned);
                }
                self.deliver(Event::Reloaded { configuration: config, workspaces, claims })
            }
        }
    }

    fn job_ends(&mut self) -> Check {
        let Some(name) =
            self.jobs.iter().find(|(_, job)| job.open).map(|(name, _)| Arc::clone(name))
        else {
            return Ok(());
        };
        if let Some(job) = self.jobs.get_mut(&name) {
            job.open = false;
        }
        let fails = self.operator.luck.strikes(Fault::CustomJobFailed, 200);
        let outcome =
            if fails { Err(Failure::new(FailureKind::Internal, "no space")) } else { Ok(()) };
        self.deliver(Event::JobEnded { name, outcome })
    }

    /// The service is gone in an instant, and begins again after a while.
    fn kill(&mut self, is_clean: bool) -> Check {
        if self.calm && !self.oracle.shutting_down {
            return Ok(());
        }
        self.check_restart()?;
        self.trace.note(self.now(), "the service is gone");
        self.ledger.end_life(is_clean);
        self.old_runs.extend(self.agents.live.keys());
        self.agenda.forget_life();
        self.tracker.forget_life();
        self.agents.forget_life(&mut self.disk);
        self.disk.forget_life();
        let down = self.operator.luck.rng.pick(&[0, 50, 3_000, 60_000]);
        self.time += down;
        self.begin_life()
    }

    fn begin_life(&mut self) -> Check {
        let boot = self.ledger.begin();
        self.quiet = false;
        self.late_wake = None;
        self.jobs.clear();
        // A bad file would be a startup failure: it is mended first.
        if let Some(Edited::Good { config, scope, root }) = self.files.edited.take() {
            (self.files.config, self.files.scope, self.files.root) = (config, scope, root);
        }
        let now = self.now();
        let config = self.files.config.clone();
        let kept = self.ledger.complete();
        let rows = kept.of_scope(&config.scope);
        let workspaces = self.disk.found(self.files.root_name());
        let restored = Restored { boot, rows, workspaces };
        self.oracle = Oracle::new(config.clone(), &restored, now);
        self.oracle.books.other_scopes(&kept, &config.scope);
        let polled =
            restored.rows.polls.as_ref().and_then(|row| row.last_runs.get(&Job::Candidates));
        let age = polled.and_then(|at| at.until(now.wall));
        let polling = &config.settings.polling;
        let interval = polling.jobs.candidates.unwrap_or(polling.interval).min(polling.interval);
        let fresh = interval.min(Duration::from_secs(10));
        if let Some(rest) = age.and_then(|age| fresh.checked_sub(age)) {
            // Jobs that are due within a tenth of their interval travel with others.
            let early =
                polling.jobs.candidates.unwrap_or(polling.interval).max(polling.interval) / 10;
            self.oracle.pace.not_before(now.mono + rest.saturating_sub(early));
        }
        let (orchestrator, step) = Orchestrator::new(config.clone(), restored.clone(), now);
        self.orchestrator = orchestrator;
        self.trace.life(&config, &restored, now, &step);
        self.after_step(step, true)
    }

    /// Hands an event to the orchestrator and checks everything that comes of it.
    fn deliver(&mut self, event: Event) -> Check {
        let now = self.now();
        self.events += 1;
        let light = matches!(event, Event::Run { news: RunEvent::Agent(_), .. });
        if let Event::Run { news: RunEvent::Agent(AgentUpdate::Usage { thread, total }), .. } =
            &event
        {
            self.reported.used(thread, total);
        }
        self.oracle.told(now, &event, self.orchestrator.next_wakeup())?;
        let kept = self.trace.wants_events().then(|| event.clone());
        let step = self.orchestrator.handle(now, event);
        if let Some(event) = kept {
            self.trace.step(now, event, &step, self.orchestrator.next_wakeup());
        }
        if self.events.is_multiple_of(500) {
            self.restart_due = true;
        }
        let quiet = light && step.effects.is_empty() && step.notices.is_empty();
        self.after_step(step, !quiet || self.events.is_multiple_of(64))
    }

    fn after_step(&mut self, mut step: Step, look: bool) -> Check {
        for effect in &step.effects {
            self.oracle.did(effect)?;
        }
        self.oracle.ended_step(&step)?;
        let deferred = split(&mut step, self.files.scope, self.files.root_name());
        if self.events.is_multiple_of(64) {
            self.check_encoding(&step)?;
        }
        if let Some(after) = self.ledger.issue(self.time, step.writes, deferred) {
            self.agenda.put(self.time + after, Due::Commit);
        }
        for effect in step.effects {
            self.perform(effect)?;
        }
        let wakeup = self.orchestrator.next_wakeup();
        self.oracle.check_deadlines(wakeup)?;
        if look { self.look(wakeup) } else { Ok(()) }
    }

    /// Takes a snapshot and compares it with the world.
    fn look(&mut self, wakeup: Option<Mono>) -> Check {
        let now = self.now();
        let snapshot = self.orchestrator.snapshot(now);
        if self.events.is_multiple_of(32) {
            self.trace.shown(&self.orchestrator, &snapshot);
        }
        let oracle = &mut self.oracle;
        oracle.settle(&snapshot)?;
        oracle.check_liveness(&snapshot, wakeup)?;
        if oracle.books.is_new || self.events.is_multiple_of(16) {
            oracle.check_books(&snapshot)?;
        }
        let (shown, reported) = (snapshot.totals.tokens.total, self.reported.tokens().total);
        ensure!(
            shown <= reported,
            "nothing is counted twice (16.4)",
            "{shown} tokens, {reported} were reported"
        );
        if std::mem::take(&mut self.restart_due) {
            self.check_restart()?;
        }
        let oracle = &mut self.oracle;
        let able = oracle.valid && !oracle.shutting_down && oracle.unreserved_slots() > 0;
        let settings = Arc::clone(&oracle.config.settings);
        oracle.pace.check(now, &snapshot.polling, able, wakeup, &settings)?;
        let lives = !oracle.runs.is_empty() && !oracle.shutting_down;
        oracle.pace.check_refreshed(now.mono, &snapshot.polling, lives, &settings)?;
        oracle.pace.check_saved()?;
        oracle.check_deliveries(snapshot.polling.webhook.as_ref())?;
        if self.events.is_multiple_of(8) {
            self.oracle.check_reasons(&self.orchestrator.explain(), &snapshot.candidates)?;
        }
        if self.oracle.shutting_down {
            let drained = self.oracle.runs.is_empty() && self.oracle.removals.is_empty();
            let says = self.orchestrator.is_drained();
            ensure!(
                says == drained,
                "drained means that nothing is left",
                "{says}, with {} runs",
                self.oracle.runs.len()
            );
            if drained
                && self.agents.live.is_empty()
                && self.agenda.next().is_none_or(|next| next > self.time)
            {
                return self.kill(true);
            }
        }
        Ok(())
    }

    fn perform(&mut self, effect: Effect) -> Check {
        let time = self.time;
        match effect {
            Effect::Read { read, poll, .. } => {
                let timeout = self.oracle.settings().tracker.timeout;
                let after = self.tracker.ask(time, read, self.files.scope, poll, timeout);
                self.agenda.put(time + after, Due::Answer(read));
            }
            Effect::Finish { run } => {
                self.ledger.overtake_turn(run);
                self.later(run, |agents| agents.finish(run));
            }
            Effect::Stop { run, .. } => {
                if self.ledger.overtake_start(run) {
                    self.agenda.put(time + 1, Due::Unstarted(run));
                } else {
                    self.ledger.overtake_turn(run);
                    self.later(run, |agents| agents.stop(run));
                }
            }
            Effect::RecheckWorkflow => {
                if self.files.edited.is_some() {
                    self.agenda.put(time + 5, Due::File);
                }
            }
            Effect::RunJob { name } => self.run_job(&name)?,
            Effect::Start(_) | Effect::NextTurn { .. } | Effect::Remove { .. } => {
                unreachable!("{effect:?} waits for the store")
            }
        }
        Ok(())
    }

    /// The store keeps what waits, and what waited for that is performed.
    fn commit(&mut self) -> Check {
        let commit = self.ledger.commit(self.time);
        if let Some(after) = commit.again {
            self.agenda.put(self.time + after, Due::Commit);
        }
        for deferred in commit.effects {
            self.perform_kept(deferred)?;
        }
        match commit.storage {
            Some(storage) => self.deliver(Event::Storage(storage)),
            None => Ok(()),
        }
    }

    fn perform_kept(&mut self, deferred: Deferred) -> Check {
        let (time, Deferred { effect, scope, root }) = (self.time, deferred);
        match effect {
            Effect::Start(start) => {
                let (run, wall) = (start.run, self.now().wall);
                let after = self.agents.start(start, scope, root, wall);
                self.agenda.put(time + after, Due::Agent(run, 0));
            }
            Effect::NextTurn { run, turn, client_id, text, .. } => {
                self.agents.check_turn(run, &client_id, text)?;
                self.later(run, |agents| agents.next_turn(run, turn, client_id));
            }
            Effect::Remove { removal, workspace, .. } => {
                let after = self.disk.remove(removal, &workspace, root)?;
                self.agenda.put(time + after, Due::Removal(removal));
                if self.disk.luck.strikes(Fault::KilledInRemoval, 20) {
                    self.agenda.put(time + after / 2, Due::Kill);
                }
            }
            other => self.perform(other)?,
        }
        Ok(())
    }

    fn later(&mut self, run: RunId, act: impl FnOnce(&mut Agents) -> Option<(u64, u32)>) {
        if let Some((after, epoch)) = act(&mut self.agents) {
            self.agenda.put(self.time + after, Due::Agent(run, epoch));
        }
    }

    fn run_job(&mut self, name: &Arc<str>) -> Check {
        let time = self.time;
        let Some(job) = self.jobs.get_mut(name) else {
            return Err(Violation { rule: "only added jobs run", detail: name.to_string() });
        };
        let due =
            job.last.is_none_or(|last| Duration::from_millis(time - last) >= job.interval * 9 / 10);
        ensure!(!job.open && due, "a job runs on its interval (12.1)", "{name}: {job:?} at {time}");
        job.open = true;
        job.last = Some(time);
        let after = self.operator.luck.rng.between(10, 20_000);
        self.agenda.put(time + after, Due::Job);
        Ok(())
    }

    /// From now on nothing goes wrong, and everything must come to its end.
    fn begin_tail(&mut self) -> Check {
        self.calm = true;
        self.trace.note(self.now(), "the tail begins");
        self.tracker.calm();
        self.disk.calm();
        self.operator.luck.calm();
        self.courier.luck.calm();
        self.ledger.calm(self.time);
        self.agenda.put(self.time + 1, Due::Commit);
        for (run, epoch) in self.agents.calm() {
            self.agenda.put(self.time + 1_000, Due::Agent(run, epoch));
        }
        // Silence ends a run by the timeout of its own kind of agent, so each gets one.
        for agent in ["other", "codex"] {
            self.files.mend(agent);
            self.file_is_read()?;
        }
        self.agenda.put(self.time + 1, Due::Care);
        self.deliver(Event::QuietHours { on: false })?;
        self.quiet = false;
        self.deliver(Event::Command(Command::Resume))
    }

    /// In the tail a person answers questions and lifts holds.
    fn care(&mut self) -> Check {
        self.agenda.put(self.time + 300_000, Due::Care);
        if !self.oracle.holds.all.is_empty() {
            self.deliver(Event::Command(Command::ClearHolds))?;
        }
        let blocked: Vec<_> = self
            .orchestrator
            .snapshot(self.now())
            .blocked
            .into_iter()
            .map(|row| row.issue.id.clone())
            .collect();
        for issue in blocked {
            self.deliver(Event::Command(Command::Retry(issue)))?;
        }
        Ok(())
    }

    fn check_end(&mut self) -> Check {
        self.oracle.now = self.now();
        crate::tail::check(self)?;
        self.deliver(Event::Command(Command::ShutDown))
    }
}
