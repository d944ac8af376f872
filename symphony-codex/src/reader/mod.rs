//! The reading task: it reads whatever comes, in order, for as long as the session lives, also
//! between turns. It answers the server, runs tools, and tells the session two things: the response
//! to its request and the end of its turn.

mod turns;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::value::RawValue;
use symphony_core::Issue;
use symphony_core::agent::{AgentError, AgentErrorKind, Question, TurnEnd, Updates};
use symphony_core::settings::Approvals;
use symphony_core::tracker::AgentTools;
use symphony_core::transcript::{Direction, Transcript};
use tokio::io::AsyncRead;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::answers::{BlockReply, RequestAnswer, answer, tool_result};
use crate::connection::{ReaderRequest, RpcReply, TurnAsked};
use crate::last_activity::LastActivity;
use crate::lines::{LineReader, MAX_LINE_BYTES, OverlongLine, ServerLine};
use crate::outbox::Outbox;
use crate::show::show;
use crate::tools::{ToolCalls, ToolEnd};
use crate::turn::{LiveTurn, is_end, unreadable_end};
use crate::unrequested::Unrequested;
use crate::update_batcher::UpdateBatcher;
use crate::wire::{
    ErrorTold, HasThread, INVALID_REQUEST, Id, Incoming, LimitsTold, METHOD_NOT_FOUND, Outgoing,
    OverlongHead, Payload, RpcError, ThreadOpened, TurnError, UsageTold,
};

/// So much of what is there is read before silence is judged: an agent that writes without end may
/// not put it off for ever.
const MAX_READS_IN_A_ROW: usize = 64;

/// What the reading task is made of.
pub(crate) struct ReaderParts {
    pub(crate) updates: Updates,
    pub(crate) transcript: Transcript,
    pub(crate) issue: Arc<Issue>,
    pub(crate) tools: Option<Arc<dyn AgentTools>>,
    pub(crate) approvals: Approvals,
    /// How long a turn may be silent.
    pub(crate) turn_timeout: Duration,
    /// The server's process, where there is one.
    pub(crate) pid: Option<u32>,
}

/// The reading task.
pub(crate) struct SessionReader {
    /// To the writer; `None` after the server fell behind.
    outbox: Option<Outbox>,
    updates: UpdateBatcher,
    transcript: Transcript,
    approvals: Approvals,
    turn_timeout: Duration,
    pid: Option<u32>,
    tools: ToolCalls,
    last_activity: LastActivity,
    /// Whether a line has come, for the session.
    heard: Arc<AtomicBool>,
    last_id: u64,
    /// Our conversation. The agent's helpers have others.
    thread: Option<Id>,
    /// The one request of the session that awaits its response.
    pending: Option<Pending>,
    /// Notes to the live turn that await their responses.
    notes: Vec<(u64, oneshot::Sender<RpcReply>)>,
    turn: Option<LiveTurn>,
    unrequested: Unrequested,
    /// A turn that waits for the end of one that was not asked for.
    held: Option<TurnAsked>,
    /// Interrupts, whose responses no caller awaits, and their turns.
    interrupts: Vec<(u64, Id)>,
    /// Something only a person can answer was asked while no turn was live.
    question: Option<Question>,
    /// Dropped when the interrupted turn has ended, for which a close waits.
    interrupted: Option<oneshot::Sender<()>>,
    /// What Codex last said went wrong, in case the end of the turn does not say it.
    last_error: Option<TurnError>,
}

/// A request that awaits its response.
struct Pending {
    id: u64,
    /// Whether the response names our conversation.
    opens_thread: bool,
    reply: oneshot::Sender<RpcReply>,
}

impl SessionReader {
    pub(crate) fn new(parts: ReaderParts, outbox: Outbox, heard: Arc<AtomicBool>) -> Self {
        Self {
            outbox: Some(outbox),
            updates: UpdateBatcher::new(parts.updates),
            transcript: parts.transcript,
            approvals: parts.approvals,
            turn_timeout: parts.turn_timeout,
            pid: parts.pid,
            tools: ToolCalls::new(parts.tools, parts.issue),
            last_activity: LastActivity::new(),
            heard,
            last_id: 0,
            thread: None,
            pending: None,
            notes: Vec::new(),
            turn: None,
            unrequested: Unrequested::default(),
            held: None,
            interrupts: Vec::new(),
            question: None,
            interrupted: None,
            last_error: None,
        }
    }

    pub(crate) async fn run(
        mut self,
        mut lines: LineReader<impl AsyncRead + Unpin>,
        mut asks: mpsc::UnboundedReceiver<ReaderRequest>,
    ) {
        while self.outbox.is_some() {
            let (due, silent_at) = (self.updates.due(), self.silent_at());
            tokio::select! {
                // What we ask goes out before its response is looked for; a flood does not starve
                // the heartbeat.
                biased;
                ask = asks.recv() => match ask {
                    Some(ask) => self.asked(ask),
                    None => break,
                },
                () = sleep_until(due) => self.updates.flush(),
                end = self.tools.finished() => self.tool_finished(&end),
                () = sleep_until(silent_at) => self.hear_out(&mut lines).await,
                more = lines.read() => match more {
                    Ok(true) => self.lines(&mut lines),
                    Ok(false) | Err(_) => break,
                },
            }
        }
        self.updates.flush_all();
    }

    /// The agent seems to have been silent for too long: what it said meanwhile is read first.
    async fn hear_out(&mut self, lines: &mut LineReader<impl AsyncRead + Unpin>) {
        for _ in 0..MAX_READS_IN_A_ROW {
            tokio::select! {
                biased;
                more = lines.read() => match more {
                    Ok(true) => self.lines(lines),
                    Ok(false) | Err(_) => break,
                },
                () = std::future::ready(()) => break,
            }
        }
        self.judge_silence();
    }

    fn fresh_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn send(&mut self, message: &Outgoing<'_>) {
        let Some(outbox) = &self.outbox else { return };
        if outbox.send(message).is_err() {
            let message = "Codex does not read what it is answered";
            self.updates.event("malformed", message);
            self.outbox = None;
            self.end_turn(Err(AgentError::new(AgentErrorKind::ProcessExit, message)));
        }
    }

    fn asked(&mut self, ask: ReaderRequest) {
        match ask {
            ReaderRequest::Request { method, params, reply } => {
                let id = self.fresh_id();
                let opens_thread = matches!(method, "thread/start" | "thread/resume");
                self.pending = Some(Pending { id, opens_thread, reply });
                self.send(&Outgoing::Request { id, method, params: &params });
            }
            ReaderRequest::Turn(turn) => self.turn_asked(turn),
            ReaderRequest::Steer { note, reply } => self.steer(&note, reply),
            ReaderRequest::Notify { method } => self.send(&Outgoing::Notification { method }),
            ReaderRequest::Thread { id } => self.thread = Some(id),
            ReaderRequest::Tell { update } => {
                self.updates.flush();
                self.updates.send(update);
            }
            ReaderRequest::Close { interrupted } => {
                self.updates.flush_all(); // the reading may end before it is time
                self.interrupt_for(interrupted);
            }
        }
    }

    /// All lines that have come, so that a flood costs little more than its lines.
    fn lines(&mut self, lines: &mut LineReader<impl AsyncRead + Unpin>) {
        let now = Instant::now();
        while let Some(line) = lines.take() {
            self.last_activity.touch(now);
            self.heard.store(true, Ordering::Relaxed);
            self.updates.alive();
            match line {
                ServerLine::Text(line) => {
                    self.transcript.line(Direction::In, line);
                    match std::str::from_utf8(line) {
                        Ok(text) => self.line(text),
                        // Invalid UTF-8 is replaced: the rest of the line still counts.
                        Err(_) => self.line(&String::from_utf8_lossy(line)),
                    }
                }
                // Not recorded: a secret may be cut in two where the kept beginning ends.
                ServerLine::TooLong(line) => self.too_long(&line),
            }
            if self.outbox.is_none() {
                return;
            }
        }
        self.updates.flush_if_due(now);
    }

    fn line(&mut self, text: &str) {
        match Incoming::parse(text) {
            Ok(Incoming::Notification { method, params }) => self.on_notification(&method, params),
            Ok(Incoming::Request { id, method, params }) => self.request(id, &method, params),
            Ok(Incoming::Response { id, result }) => self.response(id, result),
            Err(_) if text.trim_ascii().is_empty() => {}
            Err(malformed) => {
                let start: String = text.chars().take(200).collect();
                self.updates.event("malformed", &format!("{malformed}: {start}"));
            }
        }
    }

    /// Refuses the request, fails the response or ends the turn that the line was about, as far as
    /// its beginning tells.
    fn too_long(&mut self, line: &OverlongLine) {
        let length = line.length;
        let message = format!("a line of {length} bytes was skipped; {MAX_LINE_BYTES} are read");
        self.updates.event("malformed", &message);
        let head = OverlongHead::read(&line.head);
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
        let Some(asked) = self.pending.take_if(|asked| id == Some(asked.id)) else {
            if let Some(reply) = self.take_note(id) {
                let _ = reply.send(result.map(Payload::to_owned));
            } else if !self.interrupt_answered(id, result.is_err()) {
                self.updates.event("other_message", "a response to nothing that was asked");
            }
            return;
        };
        // Both ids must be known before the next line is read: it may be about them.
        if asked.opens_thread
            && let Some(opened) = result.as_ref().ok().and_then(|it| it.read::<ThreadOpened>())
        {
            self.thread = Some(opened.thread.id);
        }
        self.turn_answered(asked.id, result.as_ref().ok().copied());
        // Dropped by a session that gave up waiting.
        let _ = asked.reply.send(result.map(Payload::to_owned));
    }

    fn on_notification(&mut self, method: &str, params: Payload<'_>) {
        match method {
            method if is_end(method) => self.turn_over(method, params),
            "turn/started" => self.turn_began(params),
            "thread/tokenUsage/updated" => {
                if let Some(told) = params.read::<UsageTold>() {
                    let is_ours = self.thread.as_ref() == Some(&told.thread_id);
                    self.updates.usage(told.thread_id, (&told.token_usage.total).into(), is_ours);
                }
            }
            "account/rateLimits/updated" => {
                if let Some(told) = params.read::<LimitsTold>() {
                    let limits = told.rate_limits.after(self.updates.known_limits.as_deref());
                    self.updates.limits(limits);
                }
            }
            "error" => {
                let Some(told) = params.read::<ErrorTold>() else { return };
                let Some(error) = TurnError::read(told.error) else { return };
                let what = if told.will_retry { "Codex tries again" } else { "Codex failed" };
                self.updates.event("notification", &format!("{what}: {}", error.message));
                let is_ours = told.thread_id.is_none() || told.thread_id == self.thread;
                if is_ours && !told.will_retry && !self.is_unrequested(params) {
                    self.last_error = Some(error);
                }
            }
            method => show(&mut self.updates, method, params),
        }
    }

    fn request(&mut self, id: &RawValue, method: &str, params: Payload<'_>) {
        match answer(id, method, params, self.approvals) {
            RequestAnswer::Give(result) => self.send(&Outgoing::Answer { id, result: &result }),
            // The turn is being interrupted, and the model would take a refusal for an answer.
            RequestAnswer::Block { .. } if self.is_unrequested(params) => {}
            RequestAnswer::Approve { .. } | RequestAnswer::Run(_)
                if self.is_unrequested(params) =>
            {
                let message = "the turn was not asked for".to_owned();
                let error = RpcError { code: INVALID_REQUEST, message };
                self.send(&Outgoing::Refusal { id, error });
            }
            RequestAnswer::Approve { result, summary } => {
                self.send(&Outgoing::Answer { id, result: &result });
                let name = match self.approvals {
                    Approvals::Accept => "approval_auto_approved",
                    Approvals::Decline | Approvals::Block => "notification",
                };
                self.updates.event(name, &summary);
            }
            RequestAnswer::Block { question, reply } => {
                let said = match reply {
                    BlockReply::Always(result) => Some(result),
                    BlockReply::BetweenTurns(result) => self.turn.is_none().then_some(result),
                    BlockReply::Never => None,
                };
                if let Some(result) = said {
                    self.send(&Outgoing::Answer { id, result: &result });
                }
                self.updates.event("turn_input_required", &question.to_string());
                self.block(question);
            }
            RequestAnswer::Run(call) => match self.tools.call(id.to_owned(), call) {
                Ok(summary) => {
                    self.updates.event("notification", &summary);
                    self.owe(); // silence is now no stall
                }
                Err(refused) => {
                    self.updates.event("unsupported_tool_call", &refused);
                    let result = tool_result(false, &refused);
                    self.send(&Outgoing::Answer { id, result: &result });
                }
            },
            RequestAnswer::Unknown => {
                let message = format!("Symphony does not answer {method}");
                self.updates.event("other_message", &message);
                let error = RpcError { code: METHOD_NOT_FOUND, message };
                self.send(&Outgoing::Refusal { id, error });
            }
        }
    }

    /// The turn needs a person: this one, or the next if none is live.
    fn block(&mut self, question: Question) {
        match &mut self.turn {
            Some(turn) => {
                if turn.is_awaited() {
                    self.updates.flush_all();
                }
                turn.tell(Ok(TurnEnd::InputRequired { question }));
                self.interrupt_ours();
            }
            None => self.question = Some(question),
        }
    }

    fn tool_finished(&mut self, end: &ToolEnd) {
        self.owe();
        if end.changed {
            self.updates.changed();
        }
        self.send(&Outgoing::Answer { id: &end.id, result: &end.result });
    }

    /// Whether a request or a notification belongs to a turn that was not asked for.
    fn is_unrequested(&self, params: Payload<'_>) -> bool {
        if self.unrequested.are_over() {
            return false;
        }
        let HasThread { thread_id, turn_id } = params.read().unwrap_or_default();
        let is_ours = thread_id.is_none() || thread_id == self.thread;
        is_ours && turn_id.is_some_and(|turn| self.unrequested.is_live(&turn))
    }

    /// Notes whether the agent waits for us.
    fn owe(&mut self) {
        let owes = !self.tools.is_idle();
        self.last_activity.set_owes(owes);
        self.updates.owes(owes);
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
