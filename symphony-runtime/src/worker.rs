//! One attempt at one issue, from top to bottom (contract 9.4, 10.1).
//!
//! Preparing and turns may be dropped at any await when the run is told to stop. What launches is told
//! to stop too, and waited for. Closing the session, `after_run` and the end of the hooks' background
//! processes always happen.

use std::fmt::Display;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use symphony_core::agent::{
    AgentBackend, AgentSession, AgentUpdate, ClientTurnId, LastTurn, LastTurnState, Opened,
    SessionRequest, Turn, TurnEnd, Unwanted, Updates,
};
use symphony_core::hooks::{Hook, HookContext};
use symphony_core::orchestrator::{Event, Phase, RunEnd, RunEvent, Start, TurnText};
use symphony_core::workspace::OpenFolder;
use symphony_core::{Failure, FailureKind, WorkspaceRecord};
use symphony_host::ProcessId;
use symphony_workflow::prompt::{self, PromptInput};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{Instrument, warn};

use crate::clock::wall_now;
use crate::disk::{self, Disk, DiskError, Made, WorkspacePlace};
use crate::driver::Inbox;
use crate::home::HomeRoot;
use crate::loader::Loaded;
use crate::panics::{catch_panic, isolated};
use crate::plain::safe;
use crate::run_hooks::{Hooks, RunHooks};
use crate::spans::RunSpans;
use crate::transcript::Transcripts;

/// How much longer than its grace a backend may take to end what it has begun to open.
const STOP_MARGIN: Duration = Duration::from_secs(5);

/// What a run is made of. It keeps all of it to its end, whatever is reloaded (contract 2.7).
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) spans: RunSpans,
    pub(crate) start: Start,
    pub(crate) loaded: Loaded,
    pub(crate) home: HomeRoot,
    pub(crate) hooks: Hooks,
    pub(crate) disk: Arc<Disk>,
    pub(crate) transcripts: Transcripts,
    pub(crate) inbox: Inbox,
}

/// What the driver holds of a live run. Dropped, it ends the run at once.
#[derive(Debug)]
pub(crate) struct RunHandle {
    orders: mpsc::UnboundedSender<WorkerOrder>,
    stop: CancellationToken,
    _task: AbortOnDropHandle<()>,
}

/// What follows the opening of the session, and each turn.
#[derive(Debug)]
enum WorkerOrder {
    NextTurn(OrderedTurn),
    Finish,
}

/// A turn that the orchestrator wants.
#[derive(Debug)]
pub(crate) struct OrderedTurn {
    pub(crate) number: u32,
    pub(crate) client_id: ClientTurnId,
    pub(crate) text: TurnText,
}

impl RunHandle {
    pub(crate) fn next_turn(&self, turn: OrderedTurn) {
        // A run that is ending does not listen any more; its end is already on the way.
        let _ = self.orders.send(WorkerOrder::NextTurn(turn));
    }

    pub(crate) fn finish(&self) {
        let _ = self.orders.send(WorkerOrder::Finish);
    }

    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }
}

/// Starts the attempt as a task that ends in exactly one [`RunEvent::Ended`].
pub(crate) fn spawn(attempt: Attempt) -> RunHandle {
    let (orders, answers) = mpsc::unbounded_channel();
    let stop = CancellationToken::new();
    let run = attempt.start.run;
    let (inbox, stopped, spans) = (attempt.inbox.clone(), stop.clone(), attempt.spans.clone());
    let span = spans.run();
    let live = async move {
        let live = async move { attempt.run(&stopped, answers).await }.in_current_span();
        let end = isolated(live).await.unwrap_or_else(RunEnd::Failed);
        spans.end(&end);
        end
    };
    let live = live.instrument(span);
    let task = async move {
        // Its span is over before its end is told: the service may be waiting for nothing else.
        let end = live.await;
        inbox.send(Event::Run { run, news: RunEvent::Ended(end) });
    };
    let task = AbortOnDropHandle::new(tokio::spawn(task));
    RunHandle { orders, stop, _task: task }
}

/// A workspace with everything around it.
struct Site {
    place: WorkspacePlace,
    opened: disk::Opened,
    record: WorkspaceRecord,
    hooks: RunHooks,
    context: HookContext,
}

impl Attempt {
    fn report(&self, news: RunEvent) {
        self.inbox.send(Event::Run { run: self.start.run, news });
    }

    fn enter(&self, phase: Phase) {
        self.spans.enter(phase);
        self.report(RunEvent::Phase(phase));
    }

    async fn run(
        &self,
        stop: &CancellationToken,
        mut orders: mpsc::UnboundedReceiver<WorkerOrder>,
    ) -> RunEnd {
        self.enter(Phase::PreparingWorkspace);
        let site = match self.open().await {
            Ok(site) => site,
            Err(error) => return RunEnd::Failed(workspace_failure(&error)),
        };
        self.report(RunEvent::Workspace(site.record.clone()));
        let end = match self.create(&site, stop).await {
            Err(end) => end,
            Ok(()) => {
                let work = self.work(&site, stop, &mut orders);
                let end = catch_panic(work).await.unwrap_or_else(RunEnd::Failed);
                self.enter(Phase::Finishing);
                if let Err(error) = site.hooks.run(Hook::AfterRun, &site.context).await {
                    warn!(
                        hook = "after_run",
                        error = safe(error),
                        "a hook failed; its failure is ignored"
                    );
                }
                end
            }
        };
        self.close_hooks(&site).await;
        if let Err(error) = self.home.forget_run(self.start.run) {
            warn!(%error, "a run record stays behind");
        }
        end
    }

    /// Creates the workspace, or goes on in the one there is.
    async fn open(&self) -> Result<Site, DiskError> {
        let start = &self.start;
        let record = start.record.clone().unwrap_or_else(|| WorkspaceRecord {
            issue: start.issue.id.clone(),
            identifier: start.issue.identifier.clone(),
            scope: self.loaded.configuration.scope.clone(),
            host: start.host.clone(),
            key: start.key.clone(),
            path: self.loaded.root.path().join(start.key.as_str()),
        });
        let place = self.disk.place(&record)?;
        let hooks = self.hooks.for_run(&start.run.to_string());
        let follows = hooks.has(Hook::AfterCreate, self.loaded.settings());
        let made = if follows { Made::Half } else { Made::Whole };
        let opened = place.open(record.clone(), made).await?;
        let issue = Arc::clone(&start.issue);
        let settings = Arc::clone(self.loaded.settings());
        let mut context = HookContext::new(issue, record.path.clone(), settings);
        context.run = Some(start.run);
        context.attempt = start.attempt;
        context.folder = Some(OpenFolder::new(Arc::clone(&opened.folder)));
        context.hidden_env = Arc::clone(&self.loaded.hidden_env);
        Ok(Site { place, opened, record, hooks, context })
    }

    /// Runs `after_create` in a new workspace. If it does not come to its end, the workspace is
    /// taken back, so that the next attempt makes it anew.
    async fn create(&self, site: &Site, stop: &CancellationToken) -> Result<(), RunEnd> {
        if !site.opened.is_new {
            return Ok(());
        }
        let created = tokio::select! {
            biased;
            () = stop.cancelled() => Err(RunEnd::Cancelled),
            result = site.hooks.run(Hook::AfterCreate, &site.context) => match result {
                Ok(()) => site.place.mark_ready(site.record.clone()).await
                    .map_err(|error| RunEnd::Failed(workspace_failure(&error))),
                Err(error) => Err(RunEnd::Failed(Failure::from(&error))),
            },
        };
        if created.is_err() {
            self.close_hooks(site).await;
            match site.place.remove().await {
                Ok(()) => self.report(RunEvent::WorkspaceGone),
                Err(error) => warn!(%error, "a half-made workspace could not be removed"),
            }
        }
        created
    }

    /// `before_run`, the prompt, the session and its turns.
    async fn work(
        &self,
        site: &Site,
        stop: &CancellationToken,
        orders: &mut mpsc::UnboundedReceiver<WorkerOrder>,
    ) -> RunEnd {
        let prepared = tokio::select! {
            biased;
            () = stop.cancelled() => return RunEnd::Cancelled,
            prepared = self.prepare(site) => prepared,
        };
        let prompt = match prepared {
            Ok(prompt) => prompt,
            Err(failure) => return RunEnd::Failed(failure),
        };
        let mut session = match self.launch(site, stop).await {
            Ok(session) => session,
            Err(end) => return end,
        };
        let end = tokio::select! {
            biased;
            () = stop.cancelled() => RunEnd::Cancelled,
            end = catch_panic(self.turns(session.as_mut(), &prompt, orders)) => {
                end.unwrap_or_else(RunEnd::Failed)
            }
        };
        self.enter(Phase::Finishing);
        match catch_panic(session.close()).await {
            Ok(Ok(())) => end,
            Ok(Err(error)) => unconfirmed(&error.to_failure(wall_now())).await,
            // Unwinding has dropped what it held, and with it the agent.
            Err(panic) => RunEnd::Failed(panic),
        }
    }

    /// `before_run` and the prompt.
    async fn prepare(&self, site: &Site) -> Result<String, Failure> {
        let before = site.hooks.run(Hook::BeforeRun, &site.context).await;
        before.map_err(|error| Failure::from(&error))?;
        self.enter(Phase::BuildingPrompt);
        let input = PromptInput {
            issue: &self.start.issue,
            attempt: self.start.attempt,
            turn: 1,
            max_turns: self.start.max_turns,
        };
        let prompt = self.loaded.prompt.render(&input)?;
        // A hook, or another process, may have put another folder in its place.
        let is_same = site.place.check(&site.opened.folder).await;
        is_same.map_err(|error| workspace_failure(&error))?;
        Ok(prompt)
    }

    /// Opens the session. A backend that is told to stop meanwhile ends what it has started before
    /// it returns, and gets the time for that.
    async fn launch(
        &self,
        site: &Site,
        stop: &CancellationToken,
    ) -> Result<Box<dyn AgentSession>, RunEnd> {
        self.enter(Phase::LaunchingAgent);
        let opening = Arc::new(AtomicBool::new(true));
        let mut request = self.session_request(site, Arc::clone(&opening));
        let token = stop.clone();
        request.unwanted = Unwanted::new(move || token.clone().cancelled_owned());
        let backend: &dyn AgentBackend = self.loaded.backend.as_ref();
        let mut open = pin!(catch_panic(backend.open(request)));
        let patience = self.loaded.settings().agent.stop_grace + STOP_MARGIN;
        let opened = tokio::select! {
            biased;
            opened = &mut open => opened,
            () = stop.cancelled() => match tokio::time::timeout(patience, open).await {
                Ok(opened) => opened,
                Err(_) => {
                    warn!("an agent that was being launched does not end; it is killed");
                    return Err(RunEnd::Cancelled);
                }
            },
        };
        opening.store(false, Ordering::Relaxed);
        match opened {
            Ok(Ok(session)) => {
                self.report(RunEvent::Opened(self.opened(session.as_ref())));
                Ok(session)
            }
            Ok(Err(error)) if error.is_alive => {
                Err(unconfirmed(&error.to_failure(wall_now())).await)
            }
            _ if stop.is_cancelled() => Err(RunEnd::Cancelled),
            Ok(Err(error)) => Err(RunEnd::Failed(error.to_failure(wall_now()))),
            Err(panic) => Err(RunEnd::Failed(panic)),
        }
    }

    fn session_request(&self, site: &Site, opening: Arc<AtomicBool>) -> SessionRequest {
        let mut request = SessionRequest::new(
            self.start.run,
            Arc::clone(&self.start.issue),
            site.record.path.clone(),
            Arc::clone(self.loaded.settings()),
            self.updates(opening),
        );
        request.service = Arc::clone(self.home.service());
        request.folder = Some(OpenFolder::new(Arc::clone(&site.opened.folder)));
        request.host = self.start.host.clone();
        request.tools = self.loaded.tracker.tools();
        request.resume = self.start.resume.clone();
        request.hidden_env = Arc::clone(&self.loaded.hidden_env);
        request.transcript = self.transcripts.begin(
            self.start.run,
            &self.start.issue.identifier,
            self.loaded.settings().logging.max_bytes,
            &self.loaded.secrets,
        );
        request
    }

    /// What the agent says goes to the driver; its process is written down for the next life.
    fn updates(&self, opening: Arc<AtomicBool>) -> Updates {
        let (inbox, run) = (self.inbox.clone(), self.start.run);
        let home = self.home.clone();
        let spans = self.spans.clone();
        let last_pid = std::sync::Mutex::new(None);
        Updates::new(move |update| {
            let report = |news| inbox.send(Event::Run { run, news });
            // The first sign of life before the session is open: the agent runs.
            if opening.swap(false, Ordering::Relaxed) {
                spans.enter(Phase::InitializingSession);
                report(RunEvent::Phase(Phase::InitializingSession));
            }
            if let AgentUpdate::Session { session_id, .. } = &update {
                spans.session(session_id);
            }
            if let AgentUpdate::Session { pid: Some(pid), .. } = &update {
                let mut last = last_pid.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                if last.replace(*pid) != Some(*pid)
                    && let Some(process) = ProcessId::from_pid(*pid)
                    && let Err(error) = home.write_run(run, &[process])
                {
                    warn!(%error, "the agent's process could not be recorded");
                }
            }
            report(RunEvent::Agent(update));
        })
    }

    /// Returns what was found when the session was opened. An agent that does not say which
    /// conversation it has may have gone on with the old one.
    fn opened(&self, session: &dyn AgentSession) -> Opened {
        let mut opened = session.opened();
        if opened.thread.is_none() && self.start.resume.is_some() {
            opened.thread.clone_from(&self.start.resume);
            opened.last_turn = Some(LastTurn::new(None, LastTurnState::Unknown));
        }
        opened
    }

    /// Runs turns until the orchestrator has had enough, or something goes wrong.
    async fn turns(
        &self,
        session: &mut dyn AgentSession,
        prompt: &str,
        orders: &mut mpsc::UnboundedReceiver<WorkerOrder>,
    ) -> RunEnd {
        loop {
            let turn = match orders.recv().await {
                Some(WorkerOrder::NextTurn(turn)) => turn,
                Some(WorkerOrder::Finish) => return RunEnd::Succeeded,
                None => return RunEnd::Cancelled,
            };
            let text = self.text(&turn, prompt);
            let mut next = Turn::new(self.start.run, turn.number, text);
            next.client_id = turn.client_id;
            self.enter(Phase::StreamingTurn);
            let span = self.spans.turn(turn.number);
            let end = session.run_turn(next).instrument(span).await;
            self.spans.turn_ended(match &end {
                Ok(TurnEnd::Completed) => "completed",
                Ok(TurnEnd::InputRequired { .. }) => "input_required",
                Err(_) => "failed",
            });
            match end {
                Ok(TurnEnd::Completed) => self.report(RunEvent::TurnEnded),
                Ok(TurnEnd::InputRequired { question }) => {
                    return RunEnd::InputRequired { question };
                }
                Err(error) => return RunEnd::Failed(error.to_failure(wall_now())),
            }
        }
    }

    /// Returns what the agent is told.
    fn text(&self, turn: &OrderedTurn, prompt: &str) -> String {
        match turn.text {
            TurnText::Prompt => prompt.to_owned(),
            TurnText::Unanswered => format!("{}{prompt}", prompt::UNANSWERED),
            TurnText::Continue => prompt::continuation(turn.number, self.start.max_turns),
            TurnText::Restarted => prompt::RESTARTED.to_owned(),
            TurnText::RestartedWithPrompt => prompt::restarted_with(prompt),
        }
    }

    async fn close_hooks(&self, site: &Site) {
        let grace = self.loaded.settings().agent.stop_grace;
        if let Err(left) = site.hooks.close(grace).await {
            unconfirmed::<()>(&left).await;
        }
    }
}

fn workspace_failure(error: &DiskError) -> Failure {
    let kind = if error.is_exhaustion() { FailureKind::Machine } else { FailureKind::Workspace };
    Failure::new(kind, error.to_string())
}

/// Something of the run may still live: it does not end, and the orchestrator shows it as overdue
/// and never gives its workspace to another (contract 6.3).
async fn unconfirmed<T>(error: &(dyn Display + Send + Sync)) -> T {
    let error = safe(error);
    tracing::error!(
        error,
        "a run could not be confirmed to be gone; it keeps its slot and its workspace"
    );
    std::future::pending().await
}
