//! The driver: one queue for everything that comes back, then a sleep until the next deadline.
//!
//! It performs the orchestrator's effects and feeds their results back as events. Nothing here
//! waits: every effect is a task of its own, which ends in its one event even if it panics. What a
//! task tells on the way goes through the same queue, so an exit never overtakes the last news. What
//! must survive a restart goes to the writer; effects that depend on it wait at a gate.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use symphony_api::NoticeText;
use symphony_core::agent::AgentUpdate;
use symphony_core::hooks::{Hook, HookContext};
use symphony_core::orchestrator::{
    Command, Effect, Event, Generation, Notice, ReadId, Removal, RemovalId, RunEnd, RunEvent,
    Start, Step,
};
use symphony_core::problem::Problem;
use symphony_core::run::RunId;
use symphony_core::snapshot::{Explanation, Snapshot};
use symphony_core::store::{ClaimRow, Write};
use symphony_core::tracker::Poll;
use symphony_core::workspace::OpenFolder;
use symphony_core::{Failure, FailureKind, Issue, Orchestrator, Settings};
use tokio::sync::{Notify, broadcast, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::warn;

use crate::clock::Clock;
use crate::deliveries::WebhookReceiver;
use crate::disk::{Disk, WorkspacePlace};
use crate::gate::{GatedEffect, StoreGate};
use crate::home::HomeRoot;
use crate::loader::Loaded;
use crate::news;
use crate::panics::isolated;
use crate::plain::safe;
use crate::reader;
use crate::recent::RecentIssues;
use crate::run_hooks::Hooks;
use crate::spans::RunSpans;
use crate::transcript::Transcripts;
use crate::worker::{self, Attempt, OrderedTurn, RunHandle};
use crate::writer::Writer;

/// The least time between two published snapshots (contract 13.2).
const PUBLISH_GAP: Duration = Duration::from_millis(100);

/// The least time between two explanations, which go through every candidate: a caller that asks in
/// between gets the next one.
const EXPLAIN_GAP: Duration = Duration::from_millis(100);

/// What the end may take beyond the bounds of stops and hooks: killing takes a moment too.
const DRAIN_MARGIN: Duration = Duration::from_secs(10);

/// Waking up this late means that the process was suspended (SIGSTOP, frozen cgroup): silence during
/// that time is not a stall.
const SUSPENDED_AFTER: Duration = Duration::from_secs(2);

/// How long others then have to be heard before a deadline counts.
const CATCH_UP: Duration = Duration::from_secs(1);

/// What reaches the driver.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are events, and boxing them costs more")]
pub(crate) enum DriverMessage {
    /// Something happened.
    Event(Event),
    /// An operator wants something, and is told when that is kept.
    Command(Command, oneshot::Sender<()>),
    /// The writes of all steps up to this one are kept.
    Committed(u64),
    /// These claims were kept of the scope that this reload is to enter.
    Rows(u64, Vec<ClaimRow>),
    /// A version of the workflow is to be put in force.
    Loaded(Box<Loaded>),
    /// A caller asks why nothing happens.
    Explain(oneshot::Sender<Arc<Explanation>>),
}

/// Where messages go. Unbounded: a bounded queue would let a flood of events block the answer that
/// ends it. It stays small because sessions fold floods where they arise.
#[derive(Clone, Debug)]
pub(crate) struct Inbox(mpsc::UnboundedSender<DriverMessage>);

impl Inbox {
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<DriverMessage>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }

    /// Sends an event. After the service has ended it is dropped, and that is fine.
    pub(crate) fn send(&self, event: Event) {
        self.post(DriverMessage::Event(event));
    }

    /// Sends a message, and says whether the driver is there to take it.
    pub(crate) fn post(&self, message: DriverMessage) -> bool {
        self.0.send(message).is_ok()
    }
}

/// An embedder's own job.
pub(crate) type JobTask =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>> + Send + Sync>;

/// What the driver works with, whatever is reloaded.
pub(crate) struct Tools {
    pub(crate) clock: Clock,
    pub(crate) disk: Arc<Disk>,
    pub(crate) home: HomeRoot,
    pub(crate) hooks: Hooks,
    pub(crate) jobs: BTreeMap<Arc<str>, JobTask>,
    pub(crate) recheck: Arc<Notify>,
    pub(crate) recent: Arc<RecentIssues>,
    pub(crate) transcripts: Transcripts,
    pub(crate) writer: Writer,
    /// The workflow file, if there is one.
    pub(crate) workflow: Option<Arc<str>>,
}

/// Where it tells what happens.
pub(crate) struct Publishers {
    pub(crate) snapshots: watch::Sender<Arc<Snapshot>>,
    pub(crate) notices: broadcast::Sender<Arc<Notice>>,
    /// The settings in force.
    pub(crate) settings: watch::Sender<Arc<Settings>>,
    /// What takes deliveries.
    pub(crate) receiver: watch::Sender<WebhookReceiver>,
}

/// Runs the orchestrator. Dropped, it ends every run at once.
pub(crate) struct Driver {
    orchestrator: Orchestrator,
    inbox: Inbox,
    queue: mpsc::UnboundedReceiver<DriverMessage>,
    loaded: Loaded,
    tools: Tools,
    publishers: Publishers,
    runs: BTreeMap<RunId, Live>,
    gate: StoreGate,
    /// What is put in force as soon as the claims of its scope are read.
    reloading: Option<Reloading>,
    /// How many reloads have waited for that.
    reloads: u64,
    tasks: JoinSet<()>,
    published: Instant,
    changed: bool,
    /// The callers that ask why nothing happens, and when an explanation was last made.
    asked: Vec<oneshot::Sender<Arc<Explanation>>>,
    explained: Option<Instant>,
    drain_by: Option<Instant>,
    /// Why nothing runs, as it was last told.
    idle: Option<(usize, String)>,
}

/// A live run.
struct Live {
    handle: RunHandle,
    session_id: Option<Arc<str>>,
}

/// A reload to another scope of the tracker.
struct Reloading {
    number: u64,
    loaded: Loaded,
    /// The claims of that scope that changed since its rows were asked for.
    newer: Vec<Write>,
    /// What is wrong with the file since, if anything.
    problems: Option<Vec<Problem>>,
}

impl Driver {
    pub(crate) fn new(
        orchestrator: Orchestrator,
        inbox: Inbox,
        queue: mpsc::UnboundedReceiver<DriverMessage>,
        loaded: Loaded,
        tools: Tools,
        publishers: Publishers,
    ) -> Self {
        Self {
            orchestrator,
            inbox,
            queue,
            loaded,
            tools,
            publishers,
            runs: BTreeMap::new(),
            gate: StoreGate::default(),
            reloading: None,
            reloads: 0,
            tasks: JoinSet::new(),
            published: Instant::now(),
            changed: true,
            asked: Vec::new(),
            explained: None,
            drain_by: None,
            idle: None,
        }
    }

    /// Runs until everything is drained after a shutdown. Returns the runs that were not gone in
    /// time: they are ended now, without ceremony.
    pub(crate) async fn run(mut self, first: Step) -> Vec<RunId> {
        self.apply(first);
        self.publish();
        while !self.is_over() {
            match self.next().await {
                DriverMessage::Event(event) => self.handle(event),
                DriverMessage::Command(command, reply) => {
                    self.handle(Event::Command(command));
                    self.gate.reply(reply);
                }
                DriverMessage::Committed(sequence) => self.committed(sequence),
                DriverMessage::Loaded(loaded) => self.prepare_reload(*loaded),
                DriverMessage::Rows(number, claims) => self.enter_scope(number, claims),
                DriverMessage::Explain(reply) => self.asked.push(reply),
            }
            if self.explain_at().is_some_and(|at| at <= Instant::now()) {
                self.explain();
            }
            if self.changed && Instant::now() >= self.published + PUBLISH_GAP {
                self.publish();
            }
        }
        self.publish();
        if self.tools.writer.finish().await {
            self.gate.reply_to_all();
        } else {
            warn!("the last changes could not be kept for the next start");
        }
        self.tools.transcripts.finish().await;
        self.runs.into_keys().collect()
    }

    fn is_over(&self) -> bool {
        self.orchestrator.is_drained() || self.drain_by.is_some_and(|by| by <= Instant::now())
    }

    /// The queue first; then the next deadline, or the next snapshot that is due.
    async fn next(&mut self) -> DriverMessage {
        let asleep = Instant::now();
        let wake = self.orchestrator.next_wakeup().map(|at| self.tools.clock.instant(at));
        let publish = self.changed.then_some(self.published + PUBLISH_GAP);
        let until = [wake, publish, self.explain_at(), self.drain_by].into_iter().flatten().min();
        let sleep = async {
            match until {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(sleep);
        let message = loop {
            tokio::select! {
                biased;
                Some(message) = self.queue.recv() => break message,
                () = &mut sleep => break DriverMessage::Event(Event::Wake),
                // They have told what they had to tell; this only lets go of them.
                Some(_) = self.tasks.join_next() => {}
            }
        };
        if let Some(wake) = wake.filter(|wake| wake.elapsed() > SUSPENDED_AFTER) {
            // Agents that spoke meanwhile were not silent.
            let heard_until = wake.checked_sub(CATCH_UP).unwrap_or(wake);
            self.tools.clock.skip_since(asleep.max(heard_until));
        }
        message
    }

    fn handle(&mut self, event: Event) {
        match &event {
            Event::Run { run, news: RunEvent::Agent(update) } => self.on_update(*run, update),
            Event::Command(Command::ShutDown) => self.begin_to_drain(),
            Event::ReloadFailed { problems } => {
                if let Some(reloading) = &mut self.reloading {
                    reloading.problems = Some(problems.clone());
                }
            }
            _ => {}
        }
        let ended = match &event {
            Event::Run { run, news: RunEvent::Ended(_) } => Some(*run),
            _ => None,
        };
        let step = self.orchestrator.handle(self.tools.clock.now(), event);
        self.apply(step);
        if let Some(run) = ended {
            self.runs.remove(&run);
        }
    }

    fn on_update(&mut self, run: RunId, update: &AgentUpdate) {
        match update {
            AgentUpdate::Event(event) => self.tools.recent.add_event(run, event),
            AgentUpdate::Session { session_id, .. } => {
                if let Some(live) = self.runs.get_mut(&run) {
                    live.session_id = Some(Arc::clone(session_id));
                }
            }
            _ => {}
        }
    }

    /// The bound of contract 14.2.
    fn begin_to_drain(&mut self) {
        let settings = self.loaded.settings();
        // The agent has its grace, then `after_run` its time, then what hooks left behind a grace.
        let graces = settings.agent.stop_grace.saturating_mul(2);
        let bound = graces.saturating_add(settings.hooks.timeout).saturating_add(DRAIN_MARGIN);
        // A bound beyond all time is none.
        self.drain_by = self.drain_by.or(Instant::now().checked_add(bound));
    }

    /// Puts a version in force, once the claims of its scope are known.
    fn prepare_reload(&mut self, mut loaded: Loaded) {
        if let Some(skipped) = self.reloading.take() {
            // Without folders of its own it has the same root as the version that it replaces.
            loaded.workspaces = loaded.workspaces.or(skipped.loaded.workspaces);
        }
        let scope = &loaded.configuration.scope;
        if *scope == self.loaded.configuration.scope {
            return self.reload(loaded, Vec::new());
        }
        self.reloads += 1;
        let number = self.reloads;
        self.tools.writer.read(number, scope.clone());
        self.reloading = Some(Reloading { number, loaded, newer: Vec::new(), problems: None });
    }

    /// Takes in what was kept of a scope. A version that is not wanted any more is left out.
    fn enter_scope(&mut self, number: u64, mut claims: Vec<ClaimRow>) {
        let is_it = |reloading: &mut Reloading| reloading.number == number;
        let Some(reloading) = self.reloading.take_if(is_it) else { return };
        for write in reloading.newer {
            match write {
                Write::Claim(row) => {
                    claims.retain(|claim| claim.issue.id != row.issue.id);
                    claims.push(*row);
                }
                Write::ClaimGone { issue, .. } => claims.retain(|claim| claim.issue.id != issue),
                _ => {}
            }
        }
        self.reload(reloading.loaded, claims);
        if let Some(problems) = reloading.problems {
            self.handle(Event::ReloadFailed { problems });
        }
    }

    fn reload(&mut self, mut loaded: Loaded, claims: Vec<ClaimRow>) {
        let workspaces = loaded.workspaces.take();
        news::log_warnings(&loaded.configuration.warnings);
        self.publishers.settings.send_replace(Arc::clone(loaded.settings()));
        self.publishers.receiver.send_replace(WebhookReceiver::from_loaded(&loaded));
        let configuration = loaded.configuration.clone();
        self.loaded = loaded;
        self.handle(Event::Reloaded { configuration, workspaces, claims });
    }

    fn apply(&mut self, step: Step) {
        self.changed = true;
        let now = self.tools.clock.now().wall;
        for notice in step.notices {
            let live = notice.run.and_then(|run| self.runs.get(&run));
            let text = NoticeText::from(&notice.what);
            self.tools.recent.add_notice(now, &notice, &text);
            news::log(&notice, text, live.and_then(|live| live.session_id.as_deref()));
            let _ = self.publishers.notices.send(Arc::new(notice));
        }
        if !step.writes.is_empty() {
            if let Some(reloading) = &mut self.reloading {
                reloading.note(&step.writes);
            }
            self.tools.writer.keep(self.gate.issue(), step.writes, step.durability);
        }
        for effect in step.effects {
            if effect.waits_for_store() && !self.gate.is_open() {
                self.gate.hold(effect, &self.loaded);
            } else {
                self.perform(effect);
            }
        }
    }

    /// Performs what has waited for the writes of this step and all before.
    fn committed(&mut self, sequence: u64) {
        for GatedEffect { effect, loaded } in self.gate.commit(sequence) {
            self.perform_with(effect, loaded);
        }
    }

    fn publish(&mut self) {
        self.changed = false;
        self.published = Instant::now();
        let mut snapshot = self.orchestrator.snapshot(self.tools.clock.now());
        snapshot.service.workflow.clone_from(&self.tools.workflow);
        let idle = news::idle(&snapshot);
        if idle != self.idle {
            idle.iter().for_each(news::log_idle);
            self.idle = idle;
        }
        self.publishers.snapshots.send_replace(Arc::new(snapshot));
    }

    /// When the waiting callers get their explanation, if there are any.
    fn explain_at(&self) -> Option<Instant> {
        let next = || self.explained.map_or_else(Instant::now, |last| last + EXPLAIN_GAP);
        (!self.asked.is_empty()).then(next)
    }

    /// Answers every waiting caller. Once for all of them, and not for each as it comes: observers
    /// must not take the scheduler's time.
    fn explain(&mut self) {
        let explanation = Arc::new(self.orchestrator.explain());
        for reply in self.asked.drain(..) {
            let _ = reply.send(Arc::clone(&explanation));
        }
        self.explained = Some(Instant::now());
    }

    /// Begins an effect, with the settings now in force.
    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Read { read, generation, poll } => self.read(read, generation, poll),
            Effect::Start(_) | Effect::NextTurn { .. } | Effect::Remove { .. } => {
                self.perform_with(effect, self.loaded.clone());
            }
            Effect::Finish { run } => {
                self.gate.finish(run);
                self.with(run, RunHandle::finish);
            }
            Effect::Stop { run, .. } => self.stop(run),
            Effect::RecheckWorkflow => self.tools.recheck.notify_one(),
            Effect::RunJob { name } => self.run_job(name),
        }
    }

    /// Begins an effect that waits for the store, with the settings that it was decided with.
    fn perform_with(&mut self, effect: Effect, loaded: Loaded) {
        match effect {
            Effect::Start(start) => self.start(start, loaded),
            Effect::NextTurn { run, turn, client_id, text, .. } => {
                let turn = OrderedTurn { number: turn, client_id, text };
                self.with(run, |handle| handle.next_turn(turn));
            }
            Effect::Remove { removal, issue, workspace } => {
                self.remove(removal, issue, workspace, loaded);
            }
            other => self.perform(other),
        }
    }

    fn start(&mut self, start: Start, loaded: Loaded) {
        let run = start.run;
        let handle = worker::spawn(Attempt {
            spans: RunSpans::new(&start),
            start,
            loaded,
            home: self.tools.home.clone(),
            hooks: self.tools.hooks.clone(),
            disk: Arc::clone(&self.tools.disk),
            transcripts: self.tools.transcripts.clone(),
            inbox: self.inbox.clone(),
        });
        self.runs.insert(run, Live { handle, session_id: None });
    }

    /// Ends a run. One that waits for the store has not begun: it is over at once.
    fn stop(&mut self, run: RunId) {
        if self.gate.stop(run) {
            self.inbox.send(Event::Run { run, news: RunEvent::Ended(RunEnd::Cancelled) });
        } else {
            self.with(run, RunHandle::stop);
        }
    }

    fn with(&self, run: RunId, order: impl FnOnce(&RunHandle)) {
        if let Some(live) = self.runs.get(&run) {
            order(&live.handle);
        }
    }

    fn read(&mut self, read: ReadId, generation: Generation, poll: Poll) {
        debug_assert_eq!(generation, self.loaded.configuration.generation);
        let tracker = Arc::clone(&self.loaded.tracker);
        let limit = self.loaded.settings().tracker.timeout;
        let inbox = self.inbox.clone();
        self.tasks.spawn(async move {
            let answer = reader::read(tracker, poll, limit).await;
            inbox.send(Event::Answered { read, answer });
        });
    }

    fn remove(
        &mut self,
        removal: RemovalId,
        issue: Arc<Issue>,
        workspace: Removal,
        loaded: Loaded,
    ) {
        let inbox = self.inbox.clone();
        let clearing = Clearing {
            hooks: self.tools.hooks.clone(),
            disk: Arc::clone(&self.tools.disk),
            loaded,
            removal,
            issue,
            workspace,
        };
        self.tasks.spawn(async move {
            let outcome = isolated(clearing.run()).await.unwrap_or_else(Err);
            inbox.send(Event::Removed { removal, outcome });
        });
    }

    fn run_job(&mut self, name: Arc<str>) {
        let job = self.tools.jobs.get(&name).cloned();
        let inbox = self.inbox.clone();
        self.tasks.spawn(async move {
            let task = async move {
                match job {
                    Some(job) => job().await,
                    None => Ok(()),
                }
            };
            let outcome = isolated(task).await.unwrap_or_else(Err);
            inbox.send(Event::JobEnded { name, outcome });
        });
    }
}

impl Reloading {
    /// Notes what changed in the scope that is to be entered.
    fn note(&mut self, writes: &[Write]) {
        let scope = &self.loaded.configuration.scope;
        let is_of = |write: &&Write| match write {
            Write::Claim(row) => row.scope == *scope,
            Write::ClaimGone { scope: of, .. } => of == scope,
            _ => false,
        };
        self.newer.extend(writes.iter().filter(is_of).cloned());
    }
}

/// The removal of one workspace, with the settings then in force (contract 2.7).
struct Clearing {
    hooks: Hooks,
    disk: Arc<Disk>,
    loaded: Loaded,
    removal: RemovalId,
    issue: Arc<Issue>,
    workspace: Removal,
}

impl Clearing {
    async fn run(self) -> Result<(), Failure> {
        let failure = |message: String| Failure::new(FailureKind::Workspace, message);
        let place = match &self.workspace {
            Removal::Recorded(record) => self.disk.place(record),
            Removal::Stray(key) => {
                Ok(WorkspacePlace::new(Arc::clone(&self.loaded.root), key.clone()))
            }
        };
        let place = place.map_err(|error| failure(error.to_string()))?;
        let folder = place.folder().await.map_err(|error| failure(error.to_string()))?;
        if folder.is_some() {
            let hooks = self.hooks.for_run(&format!("removal-{}", self.removal.0));
            let settings = Arc::clone(self.loaded.settings());
            let grace = settings.agent.stop_grace;
            let mut context = HookContext::new(Arc::clone(&self.issue), place.path(), settings);
            context.folder = folder.map(OpenFolder::new);
            context.hidden_env = Arc::clone(&self.loaded.hidden_env);
            if let Err(error) = hooks.run(Hook::BeforeRemove, &context).await {
                let error = safe(error);
                warn!(hook = "before_remove", error, "a hook failed; its failure is ignored");
            }
            hooks.close(grace).await.map_err(|left| failure(left.to_string()))?;
        }
        place.remove().await.map_err(|error| failure(error.to_string()))
    }
}
