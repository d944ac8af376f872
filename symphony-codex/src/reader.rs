//! The reading task: it reads whatever comes, in order, for as long as the session lives, also
//! between turns. It answers the server, runs tools, and tells the session two things: the response
//! to its request and the end of its turn.

use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;
use symphony_core::Issue;
use symphony_core::agent::{AgentError, AgentErrorKind, AgentUpdate, ThreadId, TurnEnd, Updates};
use symphony_core::settings::Approvals;
use symphony_core::tracker::AgentTools;
use symphony_core::transcript::{Direction, Transcript};
use tokio::io::AsyncRead;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::answers::{Answer, answer, tool_result};
use crate::connection::{Ask, Reply};
use crate::life::Life;
use crate::lines::{LONGEST, Line, Lines, TooLong};
use crate::news::News;
use crate::outbox::Outbox;
use crate::show::show;
use crate::tools::Tools;
use crate::turn::{End, LiveTurn, is_end, read_end, unreadable_end};
use crate::wire::{
    ErrorTold, Head, INVALID_REQUEST, Id, Incoming, LimitsTold, METHOD_NOT_FOUND, Outgoing,
    Payload, RpcError, TurnError, TurnOver, TurnStarted, UsageTold,
};

/// What the reading task is made of.
pub(crate) struct Parts {
    pub(crate) updates: Updates,
    pub(crate) transcript: Transcript,
    pub(crate) issue: Arc<Issue>,
    pub(crate) tools: Option<Arc<dyn AgentTools>>,
    pub(crate) approvals: Approvals,
    /// The server's process, where there is one.
    pub(crate) pid: Option<u32>,
}

/// The reading task.
pub(crate) struct Reader {
    /// To the writer; `None` after the server fell behind.
    outbox: Option<Outbox>,
    news: News,
    transcript: Transcript,
    approvals: Approvals,
    pid: Option<u32>,
    tools: Tools,
    life: Arc<Life>,
    /// Our conversation. The agent's helpers have others.
    thread: Option<Id>,
    /// The one request that awaits its response.
    pending: Option<(u64, oneshot::Sender<Reply>)>,
    turn: Option<LiveTurn>,
    /// Something only a person can answer was asked while no turn was live.
    question: Option<String>,
    /// Who waits for the end of an interrupted turn.
    interrupted: Option<oneshot::Sender<()>>,
    /// What Codex last said went wrong, in case the end of the turn does not say it.
    last_error: Option<TurnError>,
}

impl Reader {
    pub(crate) fn new(parts: Parts, outbox: Outbox, life: Arc<Life>) -> Self {
        Self {
            outbox: Some(outbox),
            news: News::new(parts.updates),
            transcript: parts.transcript,
            approvals: parts.approvals,
            pid: parts.pid,
            tools: Tools::new(parts.tools, parts.issue),
            life,
            thread: None,
            pending: None,
            turn: None,
            question: None,
            interrupted: None,
            last_error: None,
        }
    }

    pub(crate) async fn run(
        mut self,
        mut lines: Lines<impl AsyncRead + Unpin>,
        mut asks: mpsc::UnboundedReceiver<Ask>,
    ) {
        while self.outbox.is_some() {
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
                more = lines.read() => match more {
                    Ok(true) => self.lines(&mut lines),
                    Ok(false) | Err(_) => break,
                },
            }
        }
        self.news.flush();
    }

    fn send(&mut self, message: &Outgoing<'_>) {
        let Some(outbox) = &self.outbox else { return };
        if outbox.send(message).is_err() {
            let message = "Codex does not read what it is answered";
            self.news.event("malformed", message);
            self.outbox = None;
            self.end_turn(Err(AgentError::new(AgentErrorKind::ProcessExit, message)));
        }
    }

    fn asked(&mut self, ask: Ask) {
        match ask {
            Ask::Request { id, method, params, reply } => {
                self.pending = Some((id, reply));
                self.send(&Outgoing::Request { id, method, params: &params });
            }
            Ask::Turn { id, params, reply, end } => {
                self.last_error = None;
                if let Some(question) = self.question.take() {
                    let _ = end.send(Ok(TurnEnd::InputRequired { question }));
                    let _ = reply.send(Ok(RawValue::NULL.to_owned())); // no turn was started
                    return;
                }
                self.pending = Some((id, reply));
                self.turn = Some(LiveTurn::new(id, end));
                self.send(&Outgoing::Request { id, method: "turn/start", params: &params });
            }
            Ask::Notify { method } => self.send(&Outgoing::Notification { method }),
            Ask::Thread { id } => self.thread = Some(id),
            Ask::Tell { update } => {
                self.news.flush();
                self.news.send(update);
            }
            Ask::Close { id, interrupted } => {
                self.news.flush(); // the reading may end before it is time
                self.interrupt(id, interrupted);
            }
        }
    }

    /// Before the next line is read, so that what belongs to a turn comes after its id.
    fn tell_session(&mut self, turn: &Id) {
        let Some(thread) = &self.thread else { return };
        let session_id = format!("{}-{}", thread.as_str(), turn.as_str()).into();
        let thread = ThreadId::from(thread.as_str());
        self.news.flush();
        self.news.send(AgentUpdate::Session { thread, session_id, pid: self.pid });
    }

    /// `turn/interrupt`, if there is a turn to interrupt; dropping the sender says it is over.
    fn interrupt(&mut self, id: u64, interrupted: oneshot::Sender<()>) {
        let turn = self.turn.as_ref().and_then(|turn| turn.id.as_ref());
        if let (Some(thread), Some(turn)) = (&self.thread, turn) {
            let params = serde_json::json!({"threadId": thread.as_str(), "turnId": turn.as_str()});
            let (reply, _) = oneshot::channel(); // what counts is the end of the turn
            self.pending = Some((id, reply));
            self.interrupted = Some(interrupted);
            self.send(&Outgoing::Request { id, method: "turn/interrupt", params: &params });
        }
    }

    /// All lines that have come, so that a flood costs little more than its lines.
    fn lines(&mut self, lines: &mut Lines<impl AsyncRead + Unpin>) {
        let now = Instant::now();
        while let Some(line) = lines.take() {
            self.life.touch(now);
            self.news.alive();
            match line {
                Line::Text(line) => {
                    self.transcript.line(Direction::In, line);
                    match std::str::from_utf8(line) {
                        Ok(text) => self.line(text),
                        // Bytes that are no UTF-8 are replaced: what they are in still counts.
                        Err(_) => self.line(&String::from_utf8_lossy(line)),
                    }
                }
                // It is in no transcript: a secret may be cut in two where its beginning ends.
                Line::TooLong(line) => self.too_long(&line),
            }
            if self.outbox.is_none() {
                return;
            }
        }
        self.news.flush_if_due(now);
    }

    fn line(&mut self, text: &str) {
        match Incoming::parse(text) {
            Ok(Incoming::Notification { method, params }) => self.told(&method, params),
            Ok(Incoming::Request { id, method, params }) => self.request(id, &method, params),
            Ok(Incoming::Response { id, result }) => self.response(id, result),
            Err(_) if text.trim_ascii().is_empty() => {}
            Err(malformed) => {
                let start: String = text.chars().take(200).collect();
                self.news.event("malformed", &format!("{malformed}: {start}"));
            }
        }
    }

    /// Whoever waits for what was in the line is told, as far as its beginning says who that is.
    fn too_long(&mut self, line: &TooLong) {
        let length = line.length;
        let message = format!("a line of {length} bytes was skipped; {LONGEST} are read");
        self.news.event("malformed", &message);
        let head = Head::read(&line.head);
        let is_ours = head.thread.is_none() || head.thread == self.thread;
        match (head.id, head.method) {
            (Some(id), Some(_)) => {
                let error = RpcError { code: INVALID_REQUEST, message };
                self.send(&Outgoing::Refusal { id: &id, error });
            }
            (Some(id), None) => {
                let error = RpcError { code: INVALID_REQUEST, message };
                self.response(&id, Err(error));
            }
            (None, Some(method)) if is_end(&method) && is_ours => {
                self.turn_ended(head.turn, unreadable_end(length));
            }
            _ => {}
        }
    }

    fn response(&mut self, id: &RawValue, result: Result<Payload<'_>, RpcError>) {
        let id = serde_json::from_str::<u64>(id.get()).ok();
        let Some((asked, reply)) = self.pending.take_if(|(asked, _)| id == Some(*asked)) else {
            self.news.event("other_message", "a response to nothing that was asked");
            return;
        };
        // A turn's id must be known before the next line is read: that line may be its end.
        if let Some(turn) = self.turn.as_mut().filter(|turn| turn.request == asked) {
            let started = result.as_ref().ok().and_then(|result| result.read::<TurnStarted>());
            match started {
                Some(TurnStarted { turn: started }) => {
                    let early = turn.named(started.id.clone());
                    self.tell_session(&started.id);
                    if let Some(end) = early {
                        self.end_turn(end);
                    }
                }
                None => self.turn = None,
            }
        }
        let _ = reply.send(result.map(Payload::to_owned)); // who gave up waiting does not want it
    }

    fn told(&mut self, method: &str, params: Payload<'_>) {
        match method {
            method if is_end(method) => self.turn_over(method, params),
            "thread/tokenUsage/updated" => {
                if let Some(told) = params.read::<UsageTold>() {
                    let is_ours = self.thread.as_ref() == Some(&told.thread_id);
                    self.news.usage(told.thread_id, (&told.token_usage.total).into(), is_ours);
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

    fn turn_over(&mut self, method: &str, params: Payload<'_>) {
        let Some(over) = params.read::<TurnOver>() else {
            self.news.event("malformed", &format!("{method} without a turn"));
            return;
        };
        if over.thread_id.is_some() && over.thread_id != self.thread {
            return; // one of the agent's helpers
        }
        let (name, id, end) = read_end(method, over, self.last_error.clone());
        let summary = match &end {
            Ok(_) => "the turn is completed",
            Err(error) => &error.message,
        };
        self.news.event(name, summary);
        self.turn_ended(id, end);
    }

    /// A turn of our conversation has ended.
    fn turn_ended(&mut self, id: Option<Id>, end: End) {
        if let Some(end) = self.turn.as_mut().and_then(|turn| turn.is_over(id, end)) {
            self.end_turn(end);
        }
    }

    fn end_turn(&mut self, end: End) {
        if let Some(mut turn) = self.turn.take() {
            self.news.flush(); // counts and events before the end they belong to
            turn.tell(end);
        }
        self.interrupted = None;
    }

    fn request(&mut self, id: &RawValue, method: &str, params: Payload<'_>) {
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
                self.block(question);
            }
            Answer::Run(call) => match self.tools.call(id.to_owned(), call) {
                Ok(summary) => {
                    self.news.event("notification", &summary);
                    self.owe(); // silence is now no stall
                }
                Err(refused) => {
                    self.news.event("unsupported_tool_call", &refused);
                    let result = tool_result(false, &refused);
                    self.send(&Outgoing::Answer { id, result: &result });
                }
            },
            Answer::Unknown => {
                let message = format!("Symphony does not answer {method}");
                self.news.event("other_message", &message);
                let error = RpcError { code: METHOD_NOT_FOUND, message };
                self.send(&Outgoing::Refusal { id, error });
            }
        }
    }

    /// The turn needs a person: this one, or the next if none is live.
    fn block(&mut self, question: String) {
        match &mut self.turn {
            Some(turn) => {
                if turn.is_awaited() {
                    self.news.flush();
                }
                // It lives on until it is interrupted, when the session is closed.
                turn.tell(Ok(TurnEnd::InputRequired { question }));
            }
            None => self.question = Some(question),
        }
    }

    fn tool_finished(&mut self, id: &RawValue, result: &Value) {
        self.send(&Outgoing::Answer { id, result });
        self.owe();
    }

    /// Notes whether the agent waits for us.
    fn owe(&mut self) {
        let owes = !self.tools.is_idle();
        self.life.set_owes(owes);
        self.news.owes(owes);
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
