//! One session of a scripted agent.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Component, Path};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use symphony_core::agent::{
    AgentError, AgentErrorKind, AgentEvent, AgentSession, AgentUpdate, LastTurn, LastTurnState,
    Opened, Question, SessionRequest, SteerNote, ThreadId, Tokens, Turn, TurnEnd, TurnSteering,
};
use symphony_core::tracker::{ToolCall, ToolResult};
use symphony_core::transcript::Direction;

use super::life::{OpenTurn, Scribe, ScriptedLife};
use super::memory::Remark;
use super::{AgentScript, Did, ScriptStep, ScriptedAgent, lock};

/// How often an agent that hangs shows that it lives.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);

pub(super) struct ScriptedSession {
    life: ScriptedLife,
    script: AgentScript,
    request: SessionRequest,
    thread: ThreadId,
    /// The last turn of a conversation that was resumed.
    last_turn: Option<LastTurn>,
    /// Questions asked so far.
    asked: u32,
    exited: Option<String>,
    /// Whether a turn runs.
    live: Arc<AtomicBool>,
}

impl ScriptedSession {
    pub(super) async fn open(
        agent: ScriptedAgent,
        session: u32,
        script: AgentScript,
        request: SessionRequest,
    ) -> Result<Self, AgentError> {
        let issue = request.issue.identifier.clone();
        let life = ScriptedLife::begin(Scribe { agent, issue, session }, &request);
        let (thread, last_turn) = life.converse(&request);
        let (live, exited) = (Arc::default(), None);
        let mut session = Self { life, script, request, thread, last_turn, asked: 0, exited, live };
        let steps = session.script.opening().to_vec();
        match session.play(&steps).await {
            Ok(_) => {
                session.life.opened();
                Ok(session)
            }
            Err(error) => {
                session.life.end(Did::Refuse(error.kind));
                Err(error)
            }
        }
    }

    /// Does the steps in order, until one of them ends the turn.
    async fn play(&mut self, steps: &[ScriptStep]) -> Result<Option<TurnEnd>, AgentError> {
        if let Some(message) = &self.exited {
            return Err(AgentError::new(AgentErrorKind::ProcessExit, message));
        }
        for step in steps {
            match step {
                ScriptStep::Say(line) => self.event("notification", line),
                ScriptStep::Event { name, summary } => self.event(name, summary),
                ScriptStep::Alive => self.request.updates.send(AgentUpdate::Alive),
                ScriptStep::Wait(span) => tokio::time::sleep(*span).await,
                ScriptStep::WaitFor(gate) => gate.wait().await,
                ScriptStep::Spend(tokens) => self.spend(*tokens),
                ScriptStep::RateLimits(limits) => {
                    self.request.updates.send(AgentUpdate::RateLimits(Arc::new(limits.clone())));
                }
                ScriptStep::Write { path, text } => self.write(path, text, Placing::Replace)?,
                ScriptStep::Append { path, text } => self.write(path, text, Placing::AtEnd)?,
                ScriptStep::Call { tool, arguments } => self.call(tool, arguments).await,
                ScriptStep::Ask(question) => {
                    self.asked += 1;
                    let id = format!("{}-{}", self.request.run, self.asked);
                    let question = Question::text(id, question.clone());
                    return Ok(Some(TurnEnd::InputRequired { question }));
                }
                ScriptStep::Fail { kind, message, retry_at } => {
                    let mut error = AgentError::new(*kind, message);
                    error.retry_at = *retry_at;
                    return Err(error);
                }
                ScriptStep::Exit(message) => {
                    self.exited = Some(message.clone());
                    return Err(AgentError::new(AgentErrorKind::ProcessExit, message));
                }
                ScriptStep::Hang => loop {
                    self.request.updates.send(AgentUpdate::Alive);
                    tokio::time::sleep(HEARTBEAT_INTERVAL).await;
                },
                ScriptStep::Stall => std::future::pending().await,
            }
        }
        Ok(None)
    }

    fn event(&self, name: &str, summary: &str) {
        self.record(Direction::In, || json!({"event": name, "summary": summary}));
        let at = self.life.scribe.agent.shared.clock.now();
        let event = AgentEvent { name: name.to_owned(), summary: summary.to_owned(), at };
        self.request.updates.send(AgentUpdate::Event(Arc::new(event)));
    }

    /// Writes down what was said, where that is kept.
    fn record(&self, direction: Direction, what: impl FnOnce() -> Value) {
        if self.request.transcript.is_kept() {
            self.request.transcript.line(direction, what().to_string().as_bytes());
        }
    }

    fn spend(&self, tokens: Tokens) {
        let total = {
            let mut conversations = lock(&self.life.scribe.agent.shared.conversations);
            let conversation = conversations.entry(self.thread.clone()).or_default();
            conversation.used = sum(conversation.used, tokens);
            conversation.used
        };
        if let Some(memory) = self.life.scribe.agent.shared.memory.get() {
            memory.note(&self.thread, &Remark::Used(total));
        }
        let thread = self.thread.clone();
        self.request.updates.send(AgentUpdate::Usage { thread, total: total.into() });
    }

    async fn call(&self, tool: &str, arguments: &Value) {
        let call = ToolCall {
            name: tool.to_owned(),
            arguments: arguments.clone(),
            issue: Arc::clone(&self.request.issue),
        };
        self.request.updates.send(AgentUpdate::ToolBegan);
        let result = match &self.request.tools {
            Some(tools) => tools.call(call).await,
            None => ToolResult::failure("there are no tools"),
        };
        let changed_issue = result.changed;
        self.request.updates.send(AgentUpdate::ToolEnded { changed_issue });
        let outcome = if result.success { "done" } else { "refused" };
        self.event("notification", &format!("{tool}: {outcome}"));
        let arguments = arguments.clone();
        self.life.scribe.record(Did::Call { tool: tool.to_owned(), arguments, result });
    }

    fn write(&self, path: &Path, text: &str, placing: Placing) -> Result<(), AgentError> {
        written(&self.request.workspace, path, text, placing).map_err(|error| {
            let message = format!("cannot write {} in the workspace", path.display());
            AgentError::new(AgentErrorKind::InvalidWorkspace, message).with_source(error)
        })?;
        self.life.scribe.record(Did::Write(path.to_owned()));
        Ok(())
    }

    fn begin_turn(&self, turn: &Turn) {
        self.record(Direction::Out, || json!({"turn": turn.number, "prompt": turn.prompt}));
        self.life.scribe.record(Did::Turn { number: turn.number, prompt: turn.prompt.clone() });
        let session_id: Arc<str> = format!("{}-{}", self.thread, turn.number).into();
        let thread = self.thread.clone();
        self.request.updates.send(AgentUpdate::Session { thread, session_id, pid: None });
        if turn.number == 1 {
            self.event(
                "session_started",
                &format!("scripted session {}", self.life.scribe.session),
            );
        }
    }

    fn end_turn(&self, outcome: &Result<TurnEnd, AgentError>) {
        match outcome {
            Ok(TurnEnd::Completed) => self.event("turn_completed", "the turn is complete"),
            Ok(TurnEnd::InputRequired { question }) => {
                self.event("turn_input_required", &question.to_string());
            }
            Err(error) if error.kind == AgentErrorKind::TurnCancelled => {
                self.event("turn_cancelled", &error.message);
            }
            Err(error) if error.kind == AgentErrorKind::TurnFailed => {
                self.event("turn_failed", &error.message);
            }
            Err(error) => self.event("turn_ended_with_error", &error.message),
        }
    }
}

#[async_trait]
impl AgentSession for ScriptedSession {
    fn opened(&self) -> Opened {
        let mut opened = Opened::new(self.thread.clone());
        opened.model = self.request.settings.agent.common.model.clone();
        opened.effort = self.request.settings.agent.common.effort.clone();
        opened.last_turn.clone_from(&self.last_turn);
        opened
    }

    fn steering(&self) -> Option<Arc<dyn TurnSteering>> {
        let (scribe, live) = (self.life.scribe.clone(), Arc::clone(&self.live));
        Some(Arc::new(ScriptedSteering { scribe, live }))
    }

    async fn run_turn(&mut self, turn: Turn) -> Result<TurnEnd, AgentError> {
        self.begin_turn(&turn);
        // Until it ends it is one that was cut off.
        self.life.note_turn(&self.thread, &turn, LastTurnState::Interrupted);
        let running = OpenTurn::begin(self.life.scribe.clone(), Arc::clone(&self.live));
        let steps = self.script.turn(turn.number).to_vec();
        let outcome = self.play(&steps).await.map(|end| end.unwrap_or(TurnEnd::Completed));
        self.end_turn(&outcome);
        let state = match &outcome {
            Ok(_) => LastTurnState::Completed,
            Err(_) => LastTurnState::Failed,
        };
        self.life.note_turn(&self.thread, &turn, state);
        running.end(Did::EndTurn(outcome.as_ref().cloned().map_err(|error| error.kind)));
        outcome
    }

    async fn close(mut self: Box<Self>) -> Result<(), AgentError> {
        // A process that has ended needs no goodbye.
        self.exited = None;
        let steps = self.script.closing().to_vec();
        match self.play(&steps).await {
            Ok(_) => {
                self.life.end(Did::Close);
                Ok(())
            }
            Err(error) => {
                self.life.outlive(Did::FailToClose(error.kind));
                Err(error)
            }
        }
    }
}

/// Writes notes down while a turn runs.
#[derive(Debug)]
struct ScriptedSteering {
    scribe: Scribe,
    live: Arc<AtomicBool>,
}

#[async_trait]
impl TurnSteering for ScriptedSteering {
    async fn steer(&self, note: SteerNote) -> Result<(), AgentError> {
        if !self.live.load(Ordering::SeqCst) {
            return Err(AgentError::new(AgentErrorKind::ResponseError, "no turn is live"));
        }
        self.scribe.record(Did::Note(note.text));
        Ok(())
    }
}

fn sum(one: Tokens, other: Tokens) -> Tokens {
    Tokens {
        input: one.input.saturating_add(other.input),
        cached_input: one.cached_input.saturating_add(other.cached_input),
        output: one.output.saturating_add(other.output),
        reasoning_output: one.reasoning_output.saturating_add(other.reasoning_output),
        total: one.total.saturating_add(other.total),
    }
}

#[derive(Clone, Copy)]
enum Placing {
    Replace,
    AtEnd,
}

/// Writes inside the workspace: a path that leads out of it is refused.
fn written(workspace: &Path, path: &Path, text: &str, placing: Placing) -> io::Result<()> {
    if !path.components().all(|component| matches!(component, Component::Normal(_))) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "leads out of the workspace"));
    }
    // Only below the workspace: making that is not an agent's business.
    let workspace = workspace.canonicalize()?;
    let target = workspace.join(path);
    if let Some(folder) = target.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut options = OpenOptions::new();
    match placing {
        Placing::Replace => options.write(true).create(true).truncate(true),
        Placing::AtEnd => options.append(true).create(true),
    };
    options.open(target)?.write_all(text.as_bytes())
}
