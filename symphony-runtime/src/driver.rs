//! The driver: one queue for everything that comes back, then a sleep until the next deadline.
//!
//! It performs the orchestrator's effects and feeds their results back as events. Nothing here
//! waits: every effect is a task of its own, which ends in its one event even if it panics. What a
//! task tells on the way goes through the same queue, so an exit never overtakes the last news.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use symphony_api::NoticeText;
use symphony_core::agent::AgentUpdate;
use symphony_core::hooks::{Hook, HookContext};
use symphony_core::orchestrator::{
    Command, Effect, Event, Generation, Notice, NoticeKind, ReadId, Removal, RemovalId, RunEvent,
    Step,
};
use symphony_core::problem::Problem;
use symphony_core::run::RunId;
use symphony_core::snapshot::{Explanation, Snapshot};
use symphony_core::tracker::Poll;
use symphony_core::workspace::OpenFolder;
use symphony_core::{Failure, FailureKind, Issue, Orchestrator, Settings};
use tokio::sync::{Notify, broadcast, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::warn;

use crate::changes::ChangeReply;
use crate::clock::Clock;
use crate::deliveries::WebhookReceiver;
use crate::disk::{Disk, WorkspacePlace};
use crate::home::HomeRoot;
use crate::loader::Loaded;
use crate::news;
use crate::panics::isolated;
use crate::plain::safe;
use crate::prompt_function::PromptFunction;
use crate::reader;
use crate::recent::RecentIssues;
use crate::run_hooks::Hooks;
use crate::spans::RunSpans;
use crate::state::Saver;
use crate::transcript::Transcripts;
use crate::worker::{self, Attempt, RunHandle};

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
    /// An operator wants something, and is told why nothing came of it, where nothing did.
    Command(Command, oneshot::Sender<Option<String>>),
    /// A version of the workflow is to be put in force; a caller that changed it is told.
    Loaded(Box<Loaded>, Option<ChangeReply>),
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
    pub(crate) saver: Saver,
    /// The workflow file, if there is one.
    pub(crate) workflow: Option<Arc<str>>,
    /// What makes prompts of what the template says, if an embedder has that.
    pub(crate) prompt: Option<PromptFunction>,
}

/// Where it tells what happens.
pub(crate) struct Publishers {
    pub(crate) snapshots: watch::Sender<Arc<Snapshot>>,
    pub(crate) notices: broadcast::Sender<Arc<Notice>>,
    /// The settings in force.
    pub(crate) settings: watch::Sender<Arc<Settings>>,
    /// What is doubtful in them and in the prompt.
    pub(crate) warnings: watch::Sender<Arc<[Problem]>>,
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
                DriverMessage::Event(event) => drop(self.handle(event)),
                DriverMessage::Command(command, reply) => {
                    let _ = reply.send(self.handle(Event::Command(command)));
                }
                DriverMessage::Loaded(loaded, reply) => {
                    let warnings = Arc::clone(&loaded.configuration.warnings);
                    self.reload(*loaded);
                    let _ = reply.map(|reply| reply.send(Ok(warnings)));
                }
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
        self.tools.saver.finish().await;
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

    /// Performs what follows from an event. Returns why a command was ignored, if it was.
    fn handle(&mut self, event: Event) -> Option<String> {
        match &event {
            Event::Run { run, news: RunEvent::Agent(update) } => self.on_update(*run, update),
            Event::Command(Command::ShutDown) => self.begin_to_drain(),
            _ => {}
        }
        let ended = match &event {
            Event::Run { run, news: RunEvent::Ended(_) } => Some(*run),
            _ => None,
        };
        let step = self.orchestrator.handle(self.tools.clock.now(), event);
        let ignored = step.notices.iter().find_map(|notice| match &notice.what {
            NoticeKind::CommandIgnored { why } => Some(why.clone()),
            _ => None,
        });
        self.apply(step);
        if let Some(run) = ended {
            self.runs.remove(&run);
        }
        ignored
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

    fn reload(&mut self, mut loaded: Loaded) {
        let workspaces = loaded.workspaces.take();
        news::log_warnings(&loaded.configuration.warnings);
        // Before the settings: their change tells of both.
        self.publishers.warnings.send_replace(Arc::clone(&loaded.configuration.warnings));
        self.publishers.settings.send_replace(Arc::clone(loaded.settings()));
        self.publishers.receiver.send_replace(WebhookReceiver::from_loaded(&loaded));
        let configuration = loaded.configuration.clone();
        self.loaded = loaded;
        let _ = self.handle(Event::Reloaded { configuration, workspaces });
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
        for effect in step.effects {
            self.perform(effect);
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

    /// Begins an effect.
    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Read { read, generation, poll } => self.read(read, generation, poll),
            Effect::Start(start) => {
                let run = start.run;
                let handle = worker::spawn(Attempt {
                    spans: RunSpans::new(&start),
                    start,
                    loaded: self.loaded.clone(),
                    prompt: self.tools.prompt.clone(),
                    home: self.tools.home.clone(),
                    hooks: self.tools.hooks.clone(),
                    disk: Arc::clone(&self.tools.disk),
                    transcripts: self.tools.transcripts.clone(),
                    inbox: self.inbox.clone(),
                });
                self.runs.insert(run, Live { handle, session_id: None });
            }
            Effect::NextTurn { run, turn, .. } => self.with(run, |handle| handle.next_turn(turn)),
            Effect::Finish { run } => self.with(run, RunHandle::finish),
            Effect::Stop { run, .. } => self.with(run, RunHandle::stop),
            Effect::Remove { removal, issue, workspace } => self.remove(removal, issue, workspace),
            Effect::RecheckWorkflow => self.tools.recheck.notify_one(),
            Effect::Save(saved) => self.tools.saver.save(saved),
            Effect::RunJob { name } => self.run_job(name),
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

    fn remove(&mut self, removal: RemovalId, issue: Arc<Issue>, workspace: Removal) {
        let inbox = self.inbox.clone();
        let clearing = Clearing {
            hooks: self.tools.hooks.clone(),
            disk: Arc::clone(&self.tools.disk),
            loaded: self.loaded.clone(),
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

/// The removal of one workspace, with the settings now in force (contract 2.7).
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
