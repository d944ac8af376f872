//! One attempt at one issue, from top to bottom (contract 9.4, 10.1).
//!
//! Preparing, launching and turns may be dropped at any await when the run is told to stop; closing
//! the session and `after_run` always run.

use std::sync::Arc;

use symphony_core::agent::{AgentBackend, AgentSession, SessionRequest, Turn, TurnEnd, Updates};
use symphony_core::hooks::{Hook, HookContext, WorkspaceHooks};
use symphony_core::orchestrator::{Event, Phase, RunEnd, RunId, RunNews, Start};
use symphony_core::prompt::{self, PromptInput};
use symphony_core::tracker::AgentTools;
use symphony_core::workflow::Workflow;
use symphony_core::{Failure, FailureKind, Issue};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info_span, warn};

use crate::clock::wall_now;
use crate::disk::{Disk, Opened};
use crate::driver::Inbox;
use crate::panics::caught;

/// What a run is made of. It keeps all of it to its end, whatever is reloaded (contract 2.7).
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) start: Start,
    pub(crate) workflow: Arc<Workflow>,
    pub(crate) backend: Arc<dyn AgentBackend>,
    pub(crate) tools: Option<Arc<dyn AgentTools>>,
    pub(crate) hooks: Arc<dyn WorkspaceHooks>,
    pub(crate) hidden_env: Arc<[String]>,
    pub(crate) disk: Arc<Disk>,
    pub(crate) inbox: Inbox,
}

/// What the driver holds of a live run.
#[derive(Debug)]
pub(crate) struct Reins {
    orders: mpsc::UnboundedSender<Order>,
    stop: CancellationToken,
}

/// What follows a turn.
#[derive(Debug)]
enum Order {
    NextTurn { turn: u32, issue: Arc<Issue> },
    Finish,
}

impl Reins {
    pub(crate) fn next_turn(&self, turn: u32, issue: Arc<Issue>) {
        // A run that is ending does not listen any more; its end is already on the way.
        let _ = self.orders.send(Order::NextTurn { turn, issue });
    }

    pub(crate) fn finish(&self) {
        let _ = self.orders.send(Order::Finish);
    }

    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }
}

/// Starts the attempt as a task that ends in exactly one [`RunNews::Ended`].
pub(crate) fn spawn(attempt: Attempt) -> Reins {
    let (orders, inbox) = mpsc::unbounded_channel();
    let stop = CancellationToken::new();
    let reins = Reins { orders, stop: stop.clone() };
    let run = attempt.start.run;
    let span = info_span!(
        "run",
        run = %run,
        issue_id = %attempt.start.issue.id,
        issue_identifier = %attempt.start.issue.identifier,
    );
    let events = attempt.inbox.clone();
    let task = async move {
        let end = caught(attempt.run(stop, inbox)).await.unwrap_or_else(RunEnd::Failed);
        events.send(Event::Run { run, news: RunNews::Ended(end) });
    };
    tokio::spawn(task.instrument(span));
    reins
}

impl Attempt {
    fn tell(&self, news: RunNews) {
        self.inbox.send(Event::Run { run: self.start.run, news });
    }

    async fn run(
        &self,
        stop: CancellationToken,
        mut orders: mpsc::UnboundedReceiver<Order>,
    ) -> RunEnd {
        self.tell(RunNews::Phase(Phase::PreparingWorkspace));
        let opened = match self.disk.open(&self.start).await {
            Ok(opened) => opened,
            Err(error) => {
                return RunEnd::Failed(Failure::new(FailureKind::Workspace, error.to_string()));
            }
        };
        self.tell(RunNews::Workspace(opened.record.clone()));
        let context = self.hook_context(&opened);
        if let Err(end) = self.prepare(&opened, &context, &stop).await {
            return end;
        }
        let end = self.work(&opened, &context, &stop, &mut orders).await;
        if let Err(error) = self.hooks.run(Hook::AfterRun, &context).await {
            warn!(hook = "after_run", %error, "a hook failed; its failure is ignored");
        }
        end
    }

    fn hook_context(&self, opened: &Opened) -> HookContext {
        let settings = Arc::clone(&self.workflow.settings);
        let issue = Arc::clone(&self.start.issue);
        let mut context = HookContext::new(issue, opened.record.path.clone(), settings);
        context.run = Some(self.start.run);
        context.attempt = self.start.attempt;
        context.hidden_env = Arc::clone(&self.hidden_env);
        context
    }

    /// Runs `after_create` in a new workspace. If it fails, the workspace is taken back, so that
    /// the next attempt makes it anew.
    async fn prepare(
        &self,
        opened: &Opened,
        context: &HookContext,
        stop: &CancellationToken,
    ) -> Result<(), RunEnd> {
        if !opened.is_new {
            return Ok(());
        }
        let end = tokio::select! {
            result = self.hooks.run(Hook::AfterCreate, context) => match result {
                Ok(()) => None,
                Err(error) => Some(RunEnd::Failed(Failure::from(&error))),
            },
            () = stop.cancelled() => Some(RunEnd::Cancelled),
        };
        match end {
            None => match self.disk.mark_ready(&opened.record).await {
                Ok(()) => Ok(()),
                Err(error) => {
                    Err(RunEnd::Failed(Failure::new(FailureKind::Workspace, error.to_string())))
                }
            },
            Some(end) => {
                match self.disk.remove(&opened.record).await {
                    Ok(()) => self.tell(RunNews::WorkspaceGone),
                    Err(error) => warn!(%error, "a half-made workspace could not be removed"),
                }
                Err(end)
            }
        }
    }

    /// `before_run`, the prompt, the session and its turns.
    async fn work(
        &self,
        opened: &Opened,
        context: &HookContext,
        stop: &CancellationToken,
        orders: &mut mpsc::UnboundedReceiver<Order>,
    ) -> RunEnd {
        let before = tokio::select! {
            result = self.hooks.run(Hook::BeforeRun, context) => result,
            () = stop.cancelled() => return RunEnd::Cancelled,
        };
        if let Err(error) = before {
            return RunEnd::Failed(Failure::from(&error));
        }
        self.tell(RunNews::Phase(Phase::BuildingPrompt));
        let prompt = match self.first_prompt() {
            Ok(prompt) => prompt,
            Err(failure) => return RunEnd::Failed(failure),
        };
        self.tell(RunNews::Phase(Phase::LaunchingAgent));
        let session = tokio::select! {
            result = self.backend.open(self.session_request(opened)) => result,
            () = stop.cancelled() => return RunEnd::Cancelled,
        };
        let mut session = match session {
            Ok(session) => session,
            Err(error) => return RunEnd::Failed(error.to_failure(wall_now())),
        };
        let end = tokio::select! {
            end = self.turns(session.as_mut(), prompt, orders) => end,
            () = stop.cancelled() => RunEnd::Cancelled,
        };
        self.tell(RunNews::Phase(Phase::Finishing));
        if let Err(error) = session.close().await {
            // Something of the agent may still live: the run does not end, and the orchestrator
            // shows it as overdue (contract 6.3).
            tracing::error!(%error, "the agent could not be confirmed to be gone");
            std::future::pending::<()>().await;
        }
        end
    }

    fn first_prompt(&self) -> Result<String, Failure> {
        let input = PromptInput {
            issue: &self.start.issue,
            attempt: self.start.attempt,
            turn: 1,
            max_turns: self.start.max_turns,
        };
        let rendered = self.workflow.prompt.render(&input);
        rendered.map_err(|error| Failure::new(FailureKind::Prompt, error.to_string()))
    }

    fn session_request(&self, opened: &Opened) -> SessionRequest {
        let run = self.start.run;
        let mut request = SessionRequest::new(
            run,
            Arc::clone(&self.start.issue),
            opened.record.path.clone(),
            Arc::clone(&self.workflow.settings),
            self.updates(run),
        );
        request.host = self.start.host.clone();
        request.tools = self.tools.clone();
        request.resume = self.start.resume.clone();
        request.hidden_env = Arc::clone(&self.hidden_env);
        request
    }

    fn updates(&self, run: RunId) -> Updates {
        let inbox = self.inbox.clone();
        Updates::new(move |update| inbox.send(Event::Run { run, news: RunNews::Agent(update) }))
    }

    /// Runs turns until the orchestrator has had enough, or something goes wrong.
    async fn turns(
        &self,
        session: &mut dyn AgentSession,
        first: String,
        orders: &mut mpsc::UnboundedReceiver<Order>,
    ) -> RunEnd {
        let mut turn = Turn { number: 1, prompt: first };
        loop {
            self.tell(RunNews::Phase(Phase::StreamingTurn));
            match session.run_turn(turn).await {
                Ok(TurnEnd::Completed) => self.tell(RunNews::TurnEnded),
                Ok(TurnEnd::InputRequired { question }) => {
                    return RunEnd::InputRequired { question };
                }
                Err(error) => return RunEnd::Failed(error.to_failure(wall_now())),
            }
            match orders.recv().await {
                Some(Order::NextTurn { turn: number, issue: _ }) => {
                    let prompt = prompt::continuation(number, self.start.max_turns);
                    turn = Turn { number, prompt };
                }
                Some(Order::Finish) => return RunEnd::Succeeded,
                None => return RunEnd::Cancelled,
            }
        }
    }
}
