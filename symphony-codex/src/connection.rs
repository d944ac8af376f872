//! The conversation on the wire: one task reads whatever comes, in order, for as long as the session
//! lives, also between turns. It answers the server, runs tools, and tells the session two things:
//! the response to its request and the end of its turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use symphony_core::Issue;
use symphony_core::agent::{AgentError, AgentUpdate, ThreadId, TurnEnd, Updates};
use symphony_core::settings::Approvals;
use symphony_core::tracker::AgentTools;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::answers::{Answer, answer};
use crate::failure::{turn_cancelled, turn_failed};
use crate::lines::{LONGEST, Line, Lines};
use crate::news::News;
use crate::show::show;
use crate::tools::Tools;
use crate::wire::{
    ErrorTold, Incoming, LimitsTold, METHOD_NOT_FOUND, Outgoing, Payload, RpcError, TurnError,
    TurnOver, TurnStarted, UsageTold,
};

/// At most so many lines wait for a server that does not read. Then the conversation is over.
const UNREAD: usize = 256;
/// At most so many ends of turns are kept while ours has no id yet.
const EARLY: usize = 16;

/// The response to a request.
pub(crate) type Reply = Result<Value, RpcError>;
/// How a turn ended.
pub(crate) type End = Result<TurnEnd, AgentError>;

/// What the reading task is made of.
pub(crate) struct Parts {
    pub(crate) updates: Updates,
    pub(crate) issue: Arc<Issue>,
    pub(crate) tools: Option<Arc<dyn AgentTools>>,
    pub(crate) approvals: Approvals,
    /// The server's process, where there is one.
    pub(crate) pid: Option<u32>,
}

/// The session's side of the conversation. Dropped, it ends it.
#[derive(Debug)]
pub(crate) struct Connection {
    asks: mpsc::UnboundedSender<Ask>,
    life: Arc<Life>,
    next_id: u64,
    reader: AbortOnDropHandle<()>,
    writer: AbortOnDropHandle<()>,
}

/// What the session wants of the reading task.
#[derive(Debug)]
enum Ask {
    Request { id: u64, method: &'static str, params: Value, reply: oneshot::Sender<Reply> },
    Turn { id: u64, params: Value, reply: oneshot::Sender<Reply>, end: oneshot::Sender<End> },
    Notify { method: &'static str },
    Thread { id: String },
    Tell { update: AgentUpdate },
    Close { interrupted: oneshot::Sender<()> },
}

/// When the last line came.
#[derive(Debug)]
pub(crate) struct Life {
    origin: Instant,
    last: AtomicU64,
}

impl Life {
    fn new() -> Self {
        Self { origin: Instant::now(), last: AtomicU64::new(0) }
    }

    fn touch(&self) {
        let since = self.origin.elapsed().as_millis();
        self.last.store(u64::try_from(since).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Waits until nothing has come for so long.
    pub(crate) async fn silence(&self, limit: Duration) {
        loop {
            let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
            let Some(end) = (self.origin + last).checked_add(limit) else {
                return std::future::pending().await;
            };
            if end <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(end).await;
        }
    }
}

impl Connection {
    /// Begins to read and to write.
    pub(crate) fn new(
        output: impl AsyncRead + Send + Unpin + 'static,
        input: impl AsyncWrite + Send + Unpin + 'static,
        parts: Parts,
    ) -> Self {
        let (asks, asked) = mpsc::unbounded_channel();
        let (lines, written) = mpsc::channel(UNREAD);
        let life = Arc::new(Life::new());
        let reader = Reader {
            lines: Some(lines),
            news: News::new(parts.updates),
            approvals: parts.approvals,
            pid: parts.pid,
            tools: Tools::new(parts.tools, parts.issue),
            life: Arc::clone(&life),
            thread: None,
            pending: None,
            turn: None,
            interrupted: None,
            last_error: None,
        };
        let writer = AbortOnDropHandle::new(tokio::spawn(write(input, written)));
        let reader = AbortOnDropHandle::new(tokio::spawn(reader.run(Lines::new(output), asked)));
        Self { asks, life, next_id: 0, reader, writer }
    }

    fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Sends a request. The response never comes if the conversation is over.
    pub(crate) fn request(
        &mut self,
        method: &'static str,
        params: Value,
    ) -> oneshot::Receiver<Reply> {
        let (reply, response) = oneshot::channel();
        let id = self.fresh_id();
        self.ask(Ask::Request { id, method, params, reply });
        response
    }

    /// Sends `turn/start`. The end may come before the response.
    pub(crate) fn turn(
        &mut self,
        params: Value,
    ) -> (oneshot::Receiver<Reply>, oneshot::Receiver<End>) {
        let (reply, response) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let id = self.fresh_id();
        self.ask(Ask::Turn { id, params, reply, end });
        (response, ended)
    }

    pub(crate) fn notify(&self, method: &'static str) {
        self.ask(Ask::Notify { method });
    }

    /// From now on this is the conversation whose turns count.
    pub(crate) fn set_thread(&self, id: String) {
        self.ask(Ask::Thread { id });
    }

    /// Sends an update, behind those of the lines that came before.
    pub(crate) fn tell(&self, update: AgentUpdate) {
        self.ask(Ask::Tell { update });
    }

    pub(crate) fn life(&self) -> Arc<Life> {
        Arc::clone(&self.life)
    }

    /// Interrupts a live turn, waits until it has ended but no longer than this, and closes the
    /// server's input.
    pub(crate) async fn close(self, patience: Duration) {
        let (interrupted, ended) = oneshot::channel();
        self.ask(Ask::Close { interrupted });
        let _ = tokio::time::timeout(patience, ended).await;
        let Self { writer, reader, .. } = self;
        drop(reader); // and with it the way to the writer, which then closes its end
        let _ = tokio::time::timeout(patience, writer).await;
    }

    fn ask(&self, ask: Ask) {
        // Whoever does not listen any more has dropped the replies, which is an answer.
        let _ = self.asks.send(ask);
    }
}

/// Writes line by line, so that a server that does not read never keeps us from reading.
async fn write(mut input: impl AsyncWrite + Unpin, mut lines: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = lines.recv().await {
        if input.write_all(&line).await.is_err() || input.flush().await.is_err() {
            return;
        }
    }
    let _ = input.shutdown().await;
}

/// The reading task.
struct Reader {
    /// To the writer; `None` after it fell behind.
    lines: Option<mpsc::Sender<Vec<u8>>>,
    news: News,
    approvals: Approvals,
    pid: Option<u32>,
    tools: Tools,
    life: Arc<Life>,
    /// Our conversation. The agent's helpers have others.
    thread: Option<String>,
    /// The one request that awaits its response.
    pending: Option<(u64, oneshot::Sender<Reply>)>,
    turn: Option<LiveTurn>,
    /// Who waits for the end of an interrupted turn.
    interrupted: Option<oneshot::Sender<()>>,
    /// What Codex last said went wrong, in case the end of the turn does not say it.
    last_error: Option<TurnError>,
}

/// A turn that was asked for and has not ended.
struct LiveTurn {
    request: u64,
    /// None until `turn/start` is answered.
    id: Option<String>,
    /// Ends that came before: one of them may be ours.
    early: Vec<(String, End)>,
    end: Option<oneshot::Sender<End>>,
}

impl Reader {
    async fn run(
        mut self,
        mut lines: Lines<impl AsyncRead + Unpin>,
        mut asks: mpsc::UnboundedReceiver<Ask>,
    ) {
        while self.lines.is_some() {
            let due = self.news.due();
            tokio::select! {
                // What we ask goes out before its response is looked for; a flood does not starve
                // the heartbeat.
                biased;
                ask = asks.recv() => match ask {
                    Some(ask) => self.asked(ask),
                    None => break,
                },
                () = sleep_until(due) => self.news.flush(),
                (id, result) = self.tools.finished() => self.tool_finished(&id, &result),
                line = lines.next() => match line {
                    Ok(Some(line)) => self.line(&line),
                    Ok(None) | Err(_) => break,
                },
            }
        }
        self.news.flush();
    }

    fn send(&mut self, message: &Outgoing<'_>) {
        if let Some(lines) = &self.lines
            && let Err(mpsc::error::TrySendError::Full(_)) = lines.try_send(message.line())
        {
            self.news.event("malformed", "Codex does not read what it is answered");
            self.lines = None;
        }
    }

    fn asked(&mut self, ask: Ask) {
        match ask {
            Ask::Request { id, method, params, reply } => {
                self.pending = Some((id, reply));
                self.send(&Outgoing::Request { id, method, params: &params });
            }
            Ask::Turn { id, params, reply, end } => {
                self.pending = Some((id, reply));
                self.last_error = None;
                let end = Some(end);
                self.turn = Some(LiveTurn { request: id, id: None, early: Vec::new(), end });
                self.send(&Outgoing::Request { id, method: "turn/start", params: &params });
            }
            Ask::Notify { method } => self.send(&Outgoing::Notification { method }),
            Ask::Thread { id } => self.thread = Some(id),
            Ask::Tell { update } => {
                self.news.flush();
                self.news.send(update);
            }
            Ask::Close { interrupted } => self.interrupt(interrupted),
        }
    }

    /// Before the next line is read, so that what belongs to a turn comes after its id.
    fn tell_session(&mut self, turn: &str) {
        let Some(thread) = &self.thread else { return };
        let session_id = format!("{thread}-{turn}").into();
        let thread = ThreadId::from(thread.as_str());
        self.news.flush();
        self.news.send(AgentUpdate::Session { thread, session_id, pid: self.pid });
    }

    /// `turn/interrupt`, if there is a turn to interrupt; dropping the sender says it is over.
    fn interrupt(&mut self, interrupted: oneshot::Sender<()>) {
        let turn = self.turn.as_ref().and_then(|turn| turn.id.clone());
        if let (Some(thread), Some(turn)) = (self.thread.clone(), turn) {
            let params = serde_json::json!({"threadId": thread, "turnId": turn});
            self.send(&Outgoing::Request {
                id: u64::MAX,
                method: "turn/interrupt",
                params: &params,
            });
            self.interrupted = Some(interrupted);
        }
    }

    fn line(&mut self, line: &Line) {
        self.life.touch();
        self.news.alive();
        match line {
            Line::TooLong(bytes) => {
                let summary = format!("a line of {bytes} bytes was skipped; {LONGEST} are read");
                self.news.event("malformed", &summary);
            }
            Line::Text(text) if text.iter().all(u8::is_ascii_whitespace) => {}
            Line::Text(text) => match Incoming::parse(text) {
                Ok(Incoming::Request { id, method, params }) => self.request(&id, &method, &params),
                Ok(Incoming::Notification { method, params }) => self.told(&method, &params),
                Ok(Incoming::Response { id, result }) => self.response(&id, result),
                Err(malformed) => {
                    let start = String::from_utf8_lossy(text.get(..200).unwrap_or(text));
                    self.news.event("malformed", &format!("{malformed}: {start}"));
                }
            },
        }
        self.news.flush_if_due();
    }

    fn response(&mut self, id: &Value, result: Reply) {
        let Some((asked, reply)) = self.pending.take_if(|(asked, _)| *id == *asked) else {
            if *id != u64::MAX {
                self.news.event("other_message", "a response to nothing that was asked");
            }
            return;
        };
        // A turn's id must be known before the next line is read: that line may be its end.
        if let Some(turn) = self.turn.as_mut().filter(|turn| turn.request == asked) {
            match result.as_ref().map(|value| serde_json::from_value(value.clone())) {
                Ok(Ok(TurnStarted { turn: started })) => {
                    let early = turn.early.iter().position(|(id, _)| *id == started.id);
                    let early = early.map(|at| turn.early.swap_remove(at));
                    turn.id = Some(started.id.clone());
                    self.tell_session(&started.id);
                    if let Some((_, end)) = early {
                        self.end_turn(end);
                    }
                }
                Ok(Err(_)) | Err(_) => self.turn = None,
            }
        }
        let _ = reply.send(result); // who gave up waiting does not want it
    }

    fn told(&mut self, method: &str, params: &Payload) {
        match method {
            "turn/completed" | "turn/failed" | "turn/cancelled" => self.turn_over(method, params),
            "thread/tokenUsage/updated" => {
                if let Some(told) = params.read::<UsageTold>() {
                    self.news.usage(told.thread_id, (&told.token_usage.total).into());
                }
            }
            "account/rateLimits/updated" => {
                if let Some(told) = params.read::<LimitsTold>() {
                    let limits = told.rate_limits.after(self.news.known_limits.as_deref());
                    self.news.limits(limits);
                }
            }
            "error" => {
                let Some(told) = params.read::<ErrorTold>() else { return };
                let Some(error) = TurnError::read(told.error) else { return };
                let what = if told.will_retry { "Codex tries again" } else { "Codex failed" };
                self.news.event("notification", &format!("{what}: {}", error.message));
                let is_ours = told.thread_id.is_none() || told.thread_id == self.thread;
                if is_ours && !told.will_retry {
                    self.last_error = Some(error);
                }
            }
            method => show(&mut self.news, method, params),
        }
    }

    fn turn_over(&mut self, method: &str, params: &Payload) {
        let Some(over) = params.read::<TurnOver>() else {
            self.news.event("malformed", &format!("{method} without a turn"));
            return;
        };
        if over.thread_id.is_some() && over.thread_id != self.thread {
            return; // one of the agent's helpers
        }
        let turn = over.turn.unwrap_or_default();
        let error = turn.error.or(over.error).and_then(TurnError::read).or_else(|| {
            let message = over.message.clone()?;
            Some(TurnError { message, ..TurnError::default() })
        });
        let error = error.or_else(|| self.last_error.take());
        let (name, end) = match (method, turn.status.as_deref()) {
            ("turn/cancelled", _) | ("turn/completed", Some("interrupted")) => {
                ("turn_cancelled", Err(turn_cancelled(error)))
            }
            // A turn that does not say how it ended is from a version that had other words for
            // failures.
            ("turn/completed", Some("completed") | None) => {
                ("turn_completed", Ok(TurnEnd::Completed))
            }
            _ => ("turn_failed", Err(turn_failed(error))),
        };
        let summary = match &end {
            Ok(_) => "the turn is completed".to_owned(),
            Err(error) => error.message.clone(),
        };
        self.news.event(name, &summary);
        self.news.flush(); // counts and events before the end they belong to
        let id = turn.id.or(over.turn_id);
        let Some(live) = self.turn.as_mut() else { return };
        match (id, &live.id) {
            (Some(id), None) => {
                if live.early.len() < EARLY {
                    live.early.push((id, end));
                }
            }
            (Some(id), Some(ours)) if id != *ours => {}
            _ => self.end_turn(end),
        }
    }

    fn end_turn(&mut self, end: End) {
        if let Some(sender) = self.turn.take().and_then(|turn| turn.end) {
            let _ = sender.send(end); // who dropped the turn does not want it
        }
        self.interrupted = None;
    }

    fn request(&mut self, id: &Value, method: &str, params: &Payload) {
        match answer(method, params, self.approvals) {
            Answer::Give(result) => self.send(&Outgoing::Answer { id, result: &result }),
            Answer::Approve { result, summary } => {
                self.send(&Outgoing::Answer { id, result: &result });
                let name = match self.approvals {
                    Approvals::Accept => "approval_auto_approved",
                    Approvals::Decline | Approvals::Block => "notification",
                };
                self.news.event(name, &summary);
            }
            Answer::Block { result, question } => {
                self.send(&Outgoing::Answer { id, result: &result });
                self.news.event("turn_input_required", &question);
                self.news.flush();
                // The turn lives on until it is interrupted, when the session is closed.
                if let Some(sender) = self.turn.as_mut().and_then(|turn| turn.end.take()) {
                    let _ = sender.send(Ok(TurnEnd::InputRequired { question }));
                }
            }
            Answer::Run(call) => {
                let was_idle = self.tools.is_idle();
                match self.tools.call(id.clone(), call) {
                    Ok(summary) => {
                        self.news.event("notification", &summary);
                        if was_idle {
                            self.news.send(AgentUpdate::ToolBegan); // silence is now no stall
                        }
                    }
                    Err(refused) => {
                        self.news.event("unsupported_tool_call", &refused);
                        let result = crate::answers::tool_result(false, &refused);
                        self.send(&Outgoing::Answer { id, result: &result });
                    }
                }
            }
            Answer::Unknown => {
                let message = format!("Symphony does not answer {method}");
                self.news.event("other_message", &message);
                let error = RpcError { code: METHOD_NOT_FOUND, message };
                self.send(&Outgoing::Refusal { id, error });
            }
        }
    }

    fn tool_finished(&mut self, id: &Value, result: &Value) {
        self.life.touch(); // the silence was ours
        self.send(&Outgoing::Answer { id, result });
        if self.tools.is_idle() {
            self.news.send(AgentUpdate::ToolEnded);
        }
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
