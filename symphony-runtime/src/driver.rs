//! The driver: one queue for everything that comes back, then a sleep until the next deadline.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use symphony_core::Orchestrator;
use symphony_core::hooks::{Hook, HookContext};
use symphony_core::orchestrator::{
    Command, Effect, Event, Generation, Notice, Query, ReadId, Removal, RemovalId, RunId, RunNews,
    Step,
};
use symphony_core::snapshot::{Explanation, Snapshot};
use symphony_core::{Failure, FailureKind, Issue};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::time::Instant;
use tracing::warn;

use crate::clock::Clock;
use crate::loader::Loaded;
use crate::news;
use crate::panics::caught;
use crate::parts::Parts;
use crate::reader;
use crate::worker::{self, Attempt, Reins};

/// The least time between two published snapshots (contract 13.2).
const PUBLISH_GAP: Duration = Duration::from_millis(100);

/// How long the end may take beyond the bounds of stops and hooks.
const DRAIN_MARGIN: Duration = Duration::from_secs(15);

/// What reaches the driver.
#[derive(Debug)]
pub(crate) enum Message {
    /// Something happened.
    Event(Event),
    /// A changed workflow file was loaded.
    Loaded(Box<Loaded>),
    /// Somebody wants to know why nothing happens.
    Explain(oneshot::Sender<Explanation>),
}

/// Where messages go. Unbounded: a bounded queue would let a flood of events block the answer that
/// ends it. It stays small because sessions fold floods where they arise.
#[derive(Clone, Debug)]
pub(crate) struct Inbox(mpsc::UnboundedSender<Message>);

impl Inbox {
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Message>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }

    /// Sends an event. After the service has ended nobody listens, and that is fine.
    pub(crate) fn send(&self, event: Event) {
        let _ = self.0.send(Message::Event(event));
    }

    pub(crate) fn pass(&self, message: Message) -> bool {
        self.0.send(message).is_ok()
    }
}

/// Runs the orchestrator.
pub(crate) struct Driver {
    clock: Clock,
    orchestrator: Orchestrator,
    inbox: Inbox,
    queue: mpsc::UnboundedReceiver<Message>,
    runs: BTreeMap<RunId, Reins>,
    loaded: Loaded,
    parts: Arc<Parts>,
    snapshots: watch::Sender<Arc<Snapshot>>,
    notices: broadcast::Sender<Arc<Notice>>,
    published: Instant,
    changed: bool,
    drain_by: Option<Instant>,
}

impl Driver {
    #[expect(clippy::too_many_arguments, reason = "called once, from the builder")]
    pub(crate) fn new(
        clock: Clock,
        orchestrator: Orchestrator,
        inbox: Inbox,
        queue: mpsc::UnboundedReceiver<Message>,
        loaded: Loaded,
        parts: Arc<Parts>,
        snapshots: watch::Sender<Arc<Snapshot>>,
        notices: broadcast::Sender<Arc<Notice>>,
    ) -> Self {
        Self {
            clock,
            orchestrator,
            inbox,
            queue,
            runs: BTreeMap::new(),
            loaded,
            parts,
            snapshots,
            notices,
            published: Instant::now(),
            changed: true,
            drain_by: None,
        }
    }

    /// Runs until everything is drained after a shutdown.
    pub(crate) async fn run(mut self, first: Step) {
        self.take(first);
        while !self.is_over() {
            let message = self.next().await;
            match message {
                Message::Event(event) => self.handle(event),
                Message::Loaded(loaded) => self.reload(*loaded),
                Message::Explain(reply) => {
                    let _ = reply.send(self.orchestrator.explain(self.clock.now()));
                }
            }
            self.publish();
        }
        self.changed = true;
        self.published = Instant::now() - PUBLISH_GAP;
        self.publish();
    }

    fn is_over(&self) -> bool {
        self.orchestrator.is_drained() || self.drain_by.is_some_and(|by| by <= Instant::now())
    }

    /// The queue first; then the next deadline, or the next snapshot that is due.
    async fn next(&mut self) -> Message {
        if let Ok(message) = self.queue.try_recv() {
            return message;
        }
        let wake = self.orchestrator.next_wakeup().map(|at| self.clock.instant(at));
        let publish = self.changed.then_some(self.published + PUBLISH_GAP);
        let until = [wake, publish, self.drain_by].into_iter().flatten().min();
        let sleep = async {
            match until {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Some(message) = self.queue.recv() => message,
            () = sleep => Message::Event(Event::Wake),
        }
    }

    fn handle(&mut self, event: Event) {
        if let Event::Run { run, news: RunNews::Ended(_) } = &event {
            self.runs.remove(run);
        }
        if let Event::Command(Command::ShutDown) = &event {
            let settings = &self.loaded.configuration.settings;
            let bound = settings.agent.stop_grace + settings.hooks.timeout + DRAIN_MARGIN;
            self.drain_by.get_or_insert(Instant::now() + bound);
        }
        let step = self.orchestrator.handle(self.clock.now(), event);
        self.take(step);
    }

    fn reload(&mut self, loaded: Loaded) {
        self.loaded = loaded.clone();
        self.handle(Event::Reloaded {
            configuration: loaded.configuration,
            workspaces: loaded.workspaces,
        });
    }

    fn take(&mut self, step: Step) {
        self.changed = true;
        for notice in step.notices {
            news::log(&notice);
            let _ = self.notices.send(Arc::new(notice));
        }
        for effect in step.effects {
            self.perform(effect);
        }
    }

    fn publish(&mut self) {
        let now = Instant::now();
        if self.changed && now >= self.published + PUBLISH_GAP {
            self.changed = false;
            self.published = now;
            let snapshot = self.orchestrator.snapshot(self.clock.now());
            self.snapshots.send_replace(Arc::new(snapshot));
        }
    }

    /// Begins an effect. Nothing here waits.
    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Read { read, generation, query } => self.read(read, generation, query),
            Effect::Start(start) => {
                let run = start.run;
                let attempt = Attempt {
                    start,
                    workflow: Arc::clone(&self.loaded.workflow),
                    backend: Arc::clone(&self.loaded.backend),
                    tools: self.loaded.tracker.tools(),
                    hooks: Arc::clone(&self.parts.hooks),
                    hidden_env: Arc::clone(&self.loaded.hidden_env),
                    disk: Arc::clone(&self.parts.disk),
                    inbox: self.inbox.clone(),
                };
                self.runs.insert(run, worker::spawn(attempt));
            }
            Effect::NextTurn { run, turn, issue } => {
                if let Some(reins) = self.runs.get(&run) {
                    reins.next_turn(turn, issue);
                }
            }
            Effect::Finish { run } => {
                if let Some(reins) = self.runs.get(&run) {
                    reins.finish();
                }
            }
            Effect::Stop { run, .. } => {
                if let Some(reins) = self.runs.get(&run) {
                    reins.stop();
                }
            }
            Effect::Remove { removal, issue, workspace } => self.remove(removal, issue, workspace),
            Effect::RecheckWorkflow => self.parts.recheck.notify_one(),
            Effect::Save(saved) => self.parts.saver.save(saved),
            Effect::RunJob { name } => self.run_job(name),
        }
    }

    fn read(&self, read: ReadId, generation: Generation, query: Query) {
        debug_assert_eq!(generation, self.loaded.configuration.generation);
        let tracker = Arc::clone(&self.loaded.tracker);
        let limit = self.loaded.configuration.settings.tracker.timeout;
        let inbox = self.inbox.clone();
        tokio::spawn(async move {
            let answer = reader::read(tracker, query, limit).await;
            inbox.send(Event::Answered { read, answer });
        });
    }

    fn remove(&self, removal: RemovalId, issue: Arc<Issue>, workspace: Removal) {
        let (parts, inbox) = (Arc::clone(&self.parts), self.inbox.clone());
        let settings = Arc::clone(&self.loaded.configuration.settings);
        let hidden_env = Arc::clone(&self.loaded.hidden_env);
        tokio::spawn(async move {
            let task = async {
                let path = parts.disk.locate(&workspace);
                let mut context = HookContext::new(issue, path, settings);
                context.hidden_env = hidden_env;
                if parts.disk.exists(&workspace).await
                    && let Err(error) = parts.hooks.run(Hook::BeforeRemove, &context).await
                {
                    warn!(hook = "before_remove", %error, "a hook failed; its failure is ignored");
                }
                let removed = parts.disk.remove_workspace(&workspace).await;
                removed.map_err(|error| Failure::new(FailureKind::Workspace, error.to_string()))
            };
            let outcome = caught(task).await.unwrap_or_else(Err);
            inbox.send(Event::Removed { removal, outcome });
        });
    }

    fn run_job(&self, name: Arc<str>) {
        let Some(job) = self.parts.jobs.get(&name) else { return };
        let (task, inbox) = (job(), self.inbox.clone());
        tokio::spawn(async move {
            let outcome = caught(task).await.unwrap_or_else(Err);
            inbox.send(Event::JobEnded { name, outcome });
        });
    }
}
