//! One session: the handshake, the turns, the end (contract 10.3, 10.5, 10.9).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use symphony_core::agent::{
    AgentError, AgentErrorKind, AgentSession, AgentUpdate, Opened, SessionRequest, SteerNote,
    ThreadId, Turn, TurnEnd, TurnSteering,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot::{self, error::TryRecvError};

use crate::connection::{CodexConnection, NoteSender, RpcReply};
use crate::process::Process;
use crate::reader::ReaderParts;
use crate::settings::{self, CodexSettings};
use crate::text::one_line;
use crate::update_batcher::event;
use crate::wire::{Id, RpcError, ThreadOpened, TurnStarted};

/// How much longer than other requests those of the handshake may take.
const OPENING_FACTOR: u32 = 10;
/// How long an ended process's last lines may take to be read.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// How long an interrupted turn may take to end before its process is ended.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(1);
/// The length of a conversation's name.
const MAX_NAME_BYTES: usize = 200;

/// A conversation with one app-server.
#[derive(Debug)]
pub struct CodexSession {
    connection: CodexConnection,
    process: Option<Process>,
    request: SessionRequest,
    pub(crate) codex: CodexSettings,
    cwd: String,
    /// Empty before the handshake.
    opened: Opened,
}

impl CodexSession {
    /// Opens a session over two byte streams: the output of an app-server that another program runs,
    /// and its input. Closing the session closes the input; it does not end the server.
    ///
    /// # Errors
    /// The handshake failed.
    pub async fn connect(
        output: impl AsyncRead + Send + Unpin + 'static,
        input: impl AsyncWrite + Send + Unpin + 'static,
        request: SessionRequest,
    ) -> Result<Self, AgentError> {
        Self::open(output, input, None, request).await
    }

    /// The handshake of contract 10.3.
    pub(crate) async fn open(
        output: impl AsyncRead + Send + Unpin + 'static,
        input: impl AsyncWrite + Send + Unpin + 'static,
        process: Option<Process>,
        request: SessionRequest,
    ) -> Result<Self, AgentError> {
        let mut session = Self::begin(output, input, process, request)?;
        let unwanted = session.request.unwanted.clone();
        let greeted = tokio::select! {
            biased;
            greeted = session.handshake() => greeted,
            () = unwanted.wait() => {
                let message = "the run was told to stop while the session opened";
                Err(AgentError::new(AgentErrorKind::TurnCancelled, message))
            }
        };
        match greeted {
            Ok(()) => Ok(session),
            Err(error) => {
                // Not by way of the reader: it may be over.
                session.request.updates.send(event("startup_failed", &error.message));
                session.end().await?;
                Err(error)
            }
        }
    }

    /// A session in which nothing has been said yet.
    pub(crate) fn begin(
        output: impl AsyncRead + Send + Unpin + 'static,
        input: impl AsyncWrite + Send + Unpin + 'static,
        process: Option<Process>,
        request: SessionRequest,
    ) -> Result<Self, AgentError> {
        let Some(cwd) = request.workspace.to_str().map(str::to_owned) else {
            let message = format!("{} is not UTF-8", request.workspace.display());
            return Err(AgentError::new(AgentErrorKind::InvalidWorkspace, message));
        };
        let codex = CodexSettings::of(&request.settings)?;
        let parts = ReaderParts {
            updates: request.updates.clone(),
            transcript: request.transcript.clone(),
            issue: request.issue.clone(),
            tools: request.tools.clone(),
            approvals: request.settings.agent.common.approvals,
            turn_timeout: request.settings.agent.common.turn_timeout,
            pid: process.as_ref().and_then(Process::pid),
        };
        let connection = CodexConnection::new(output, input, parts);
        connection.tell(AgentUpdate::Alive); // it runs, and is about to be greeted
        Ok(Self { connection, process, request, codex, cwd, opened: Opened::default() })
    }

    async fn handshake(&mut self) -> Result<(), AgentError> {
        self.greet().await?;
        let thread = self.thread().await?;
        let summary = format!("conversation {}", thread.thread.id.as_str());
        self.connection.tell(event("session_started", &summary));
        self.name_thread(&thread.thread.id).await?;
        let old = self.request.resume.as_ref().map(ThreadId::as_str);
        let is_resumed = old == Some(thread.thread.id.as_str());
        self.opened = thread.opened(is_resumed);
        // It goes with every turn, and so counts instead of the conversation's own.
        if let Some(effort) = self.request.settings.agent.common.effort.clone() {
            self.opened.effort = Some(effort);
        }
        Ok(())
    }

    /// Sends `initialize` and `initialized`. Returns what the server answered.
    pub(crate) async fn greet(&mut self) -> Result<Value, AgentError> {
        let greeted = self.ask("initialize", greeting(), self.handshake_timeout()).await?;
        self.connection.notify("initialized");
        Ok(greeted)
    }

    /// Returns how long a request of the handshake may take: Codex reads files and starts servers.
    pub(crate) fn handshake_timeout(&self) -> Duration {
        self.request.settings.agent.common.read_timeout.saturating_mul(OPENING_FACTOR)
    }

    /// Opens the conversation to go on with, else a new one.
    async fn thread(&mut self) -> Result<ThreadOpened, AgentError> {
        if let Some(old) = self.request.resume.clone()
            && let Some(resumed) = self.resume(&old).await?
        {
            return Ok(resumed);
        }
        let mut params = self.thread_params();
        let tools = self.request.tools.as_ref().map(|tools| tools.specs()).unwrap_or_default();
        if !tools.is_empty() {
            let function = |tool: symphony_core::tracker::ToolSpec| {
                json!({
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "inputSchema": tool.input_schema,
                })
            };
            params["dynamicTools"] = tools.into_iter().map(function).collect();
        }
        self.ask("thread/start", params, self.handshake_timeout()).await
    }

    /// Resumes a conversation. Returns `None` if Codex does not have it any more: the prompt is the
    /// whole one in either case. Any other refusal is an error: with another live writer, a second
    /// agent would work in the workspace.
    async fn resume(&mut self, old: &ThreadId) -> Result<Option<ThreadOpened>, AgentError> {
        let method = "thread/resume";
        let mut params = self.thread_params();
        params["threadId"] = json!(old.as_str());
        // All that was said would be one long line: the newest turn, in short, is enough.
        params["excludeTurns"] = json!(true);
        params["initialTurnsPage"] = json!({"limit": 1, "itemsView": "summary"});
        if let Ok(old) = Id::try_from(old.as_str().to_owned()) {
            self.connection.set_thread(old); // a turn of it may begin before the answer is here
        }
        let reply = self.connection.request(method, params);
        let reply = self.reply(method, reply, self.handshake_timeout()).await?;
        if let Err(error) = &reply
            && error.is_unknown_thread()
        {
            let refusal = refused(method, error).message;
            let summary = format!("a new conversation begins: {refusal}");
            self.connection.tell(event("notification", &summary));
            return Ok(None);
        }
        decoded(method, reply).map(Some)
    }

    /// Policies are sent with a resumed conversation too: it does not keep them. With goals, Codex
    /// would begin turns by itself, also those of a goal that an earlier process was given.
    fn thread_params(&self) -> Value {
        // Nothing about questions: until they can be answered, Codex's own default stays.
        let mut params = json!({
            "cwd": self.cwd,
            "approvalPolicy": self.codex.approval_policy,
            "sandbox": self.codex.thread_sandbox,
            "config": {"features.goals": false},
        });
        if let Some(model) = &self.request.settings.agent.common.model {
            params["model"] = json!(model);
        }
        params
    }

    /// Names the conversation for people who look at Codex's own list: without a name the session
    /// goes on.
    async fn name_thread(&mut self, thread: &Id) -> Result<(), AgentError> {
        let issue = &self.request.issue;
        let name = one_line(&format!("{}: {}", issue.identifier, issue.title), MAX_NAME_BYTES);
        let params = json!({"threadId": thread.as_str(), "name": name});
        let limit = self.request.settings.agent.common.read_timeout;
        match self.ask::<Value>("thread/name/set", params, limit).await {
            Err(error) if error.kind == AgentErrorKind::ProcessExit => Err(error),
            Err(error) => {
                let summary = format!("the conversation has no name: {}", error.message);
                self.connection.tell(event("notification", &summary));
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }

    async fn turn(&mut self, turn: Turn) -> Result<TurnEnd, AgentError> {
        let common = &self.request.settings.agent.common;
        let limit = common.read_timeout;
        let mut params = json!({
            "threadId": self.opened.thread,
            "clientUserMessageId": turn.client_id,
            "input": [{"type": "text", "text": turn.prompt}],
            "cwd": self.cwd,
            "approvalPolicy": self.codex.approval_policy,
            "sandboxPolicy": self.sandbox_policy(),
        });
        if let Some(effort) = &common.effort {
            params["effort"] = json!(effort);
        }
        let (reply, mut end) = self.connection.turn(params);
        let started = self.response::<TurnStarted>("turn/start", reply, limit).await;
        match end.try_recv() {
            Ok(end) => return end, // also of a turn whose start was never answered
            Err(TryRecvError::Empty) => drop(started?),
            Err(TryRecvError::Closed) => {
                started?;
                return Err(self.exit_error().await);
            }
        }
        self.until(end).await?
    }

    /// A turn goes by its own policy and not by the conversation's, so the default must not widen
    /// what that one forbids.
    pub(crate) fn sandbox_policy(&self) -> Value {
        let codex = &self.codex;
        match &codex.turn_sandbox_policy {
            Some(policy) => policy.clone(),
            None if codex.thread_sandbox == "read-only" => json!({"type": "readOnly"}),
            None => json!({
                "type": "workspaceWrite",
                "writableRoots": [self.cwd],
                "networkAccess": false,
            }),
        }
    }

    pub(crate) async fn ask<T: DeserializeOwned>(
        &mut self,
        method: &'static str,
        params: Value,
        limit: Duration,
    ) -> Result<T, AgentError> {
        let reply = self.connection.request(method, params);
        self.response(method, reply, limit).await
    }

    /// Waits for a response as [`Self::reply`] does, and reads it.
    async fn response<T: DeserializeOwned>(
        &mut self,
        method: &str,
        reply: oneshot::Receiver<RpcReply>,
        limit: Duration,
    ) -> Result<T, AgentError> {
        decoded(method, self.reply(method, reply, limit).await?)
    }

    /// Waits for a response until its own deadline, whatever else comes (contract 10.3).
    async fn reply(
        &mut self,
        method: &str,
        reply: oneshot::Receiver<RpcReply>,
        limit: Duration,
    ) -> Result<RpcReply, AgentError> {
        let Ok(reply) = tokio::time::timeout(limit, self.until(reply)).await else {
            let mut message = unanswered(method, limit);
            if !self.connection.has_heard() {
                message.push_str(&self.silence_hint());
            }
            return Err(AgentError::new(AgentErrorKind::ResponseTimeout, message));
        };
        reply
    }

    /// Waits for something from the reading task, or for the end of the agent. What the agent
    /// wrote before it ended is still read.
    async fn until<T>(&mut self, mut told: oneshot::Receiver<T>) -> Result<T, AgentError> {
        let told = tokio::select! {
            biased;
            told = &mut told => told.ok(),
            () = exited(self.process.as_mut()) => {
                tokio::time::timeout(DRAIN_TIMEOUT, told).await.ok().and_then(Result::ok)
            }
        };
        match told {
            Some(told) => Ok(told),
            None => Err(self.exit_error().await),
        }
    }

    /// Returns a hint for a server from which not one line came.
    fn silence_hint(&self) -> String {
        match self.process.as_ref().map(Process::last_words) {
            None => "; nothing was heard from it".to_owned(),
            Some(words) if words.is_empty() => {
                "; nothing was heard from it, not even on stderr: its login profile may hang"
                    .to_owned()
            }
            Some(words) => format!("; all that was heard is its stderr: {words}"),
        }
    }

    async fn exit_error(&mut self) -> AgentError {
        match &mut self.process {
            Some(process) => {
                process.exit_error(settings::command(&self.request.settings.agent)).await
            }
            None => AgentError::new(AgentErrorKind::ProcessExit, "Codex closed its output"),
        }
    }

    /// `turn/interrupt`, the end of input, SIGTERM, SIGKILL (contract 10.9).
    pub(crate) async fn end(self) -> Result<(), AgentError> {
        let grace = self.request.settings.agent.stop_grace;
        self.connection.close(INTERRUPT_TIMEOUT.min(grace)).await;
        match self.process {
            Some(process) => process.stop(grace).await,
            None => Ok(()),
        }
    }
}

#[async_trait]
impl AgentSession for CodexSession {
    fn opened(&self) -> Opened {
        self.opened.clone()
    }

    fn steering(&self) -> Option<Arc<dyn TurnSteering>> {
        let limit = self.request.settings.agent.common.read_timeout;
        Some(Arc::new(CodexSteering { notes: self.connection.notes(), limit }))
    }

    async fn run_turn(&mut self, turn: Turn) -> Result<TurnEnd, AgentError> {
        let end = self.turn(turn).await;
        if let Err(error) = &end
            && !is_reported_by_codex(error.kind)
        {
            // Not by way of the reader: it may be over.
            self.request.updates.send(event("turn_ended_with_error", &error.message));
        }
        end
    }

    async fn close(self: Box<Self>) -> Result<(), AgentError> {
        self.end().await
    }
}

/// Notes to the live turn of a session.
#[derive(Debug)]
struct CodexSteering {
    notes: NoteSender,
    limit: Duration,
}

#[async_trait]
impl TurnSteering for CodexSteering {
    async fn steer(&self, note: SteerNote) -> Result<(), AgentError> {
        let method = "turn/steer";
        match tokio::time::timeout(self.limit, self.notes.send(note)).await {
            Ok(Ok(Ok(_))) => Ok(()),
            Ok(Ok(Err(error))) => Err(refused(method, &error)),
            Ok(Err(_)) => {
                let message = "the conversation is over";
                Err(AgentError::new(AgentErrorKind::ProcessExit, message))
            }
            Err(_) => Err(AgentError::new(
                AgentErrorKind::ResponseTimeout,
                unanswered(method, self.limit),
            )),
        }
    }
}

fn decoded<T: DeserializeOwned>(method: &str, reply: RpcReply) -> Result<T, AgentError> {
    let result = reply.map_err(|error| refused(method, &error))?;
    serde_json::from_str(result.get()).map_err(|error| {
        let message = format!("Codex answered {method} with something else");
        AgentError::new(AgentErrorKind::ResponseError, message).with_source(error)
    })
}

fn refused(method: &str, error: &RpcError) -> AgentError {
    let said = one_line(&error.message, 1000);
    let message = format!("Codex refused {method}: {said} ({})", error.code);
    // Another process has the conversation: a new one would do its work twice.
    let is_taken = method == "thread/resume" && error.message.contains("active writer");
    let kind = if is_taken { AgentErrorKind::ThreadInUse } else { AgentErrorKind::ResponseError };
    AgentError::new(kind, message)
}

fn unanswered(method: &str, limit: Duration) -> String {
    format!("Codex did not answer {method} within {} ms", limit.as_millis())
}

/// Whether Codex itself reported this end of a turn: then an event has shown it.
fn is_reported_by_codex(kind: AgentErrorKind) -> bool {
    use AgentErrorKind::{RateLimited, TurnCancelled, TurnFailed, Unauthorized, UsageLimit};
    matches!(kind, TurnFailed | TurnCancelled | UsageLimit | RateLimited | Unauthorized)
}

async fn exited(process: Option<&mut Process>) {
    match process {
        Some(process) => drop(process.exited().await),
        None => std::future::pending().await,
    }
}

/// `initialize`. The experimental part of the protocol is what has dynamic tools.
fn greeting() -> Value {
    json!({
        "clientInfo": {
            "name": "symphony",
            "title": "Symphony",
            "version": env!("CARGO_PKG_VERSION"),
        },
        "capabilities": {"experimentalApi": true},
    })
}
