//! The turns of our conversation: those that were asked for, and the others.

use serde_json::json;
use serde_json::value::RawValue;
use symphony_core::agent::{AgentError, AgentErrorKind, AgentUpdate, SteerNote, ThreadId, TurnEnd};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Pending, SessionReader};
use crate::connection::{RpcReply, TurnAsked};
use crate::turn::{End, LiveTurn, read_end};
use crate::unrequested::MAX_UNREQUESTED;
use crate::update_batcher::event;
use crate::wire::{INVALID_REQUEST, Id, Outgoing, Payload, RpcError, TurnOver, TurnStarted};

/// Of so many interrupts the responses are expected.
const MAX_INTERRUPTS: usize = 16;

impl SessionReader {
    /// The session wants a turn. Codex merges one that is asked for while another is live into that
    /// one, and says nothing: such a turn is refused, or waits.
    pub(super) fn turn_asked(&mut self, turn: TurnAsked) {
        self.last_error = None;
        let at_once = if let Some(question) = self.question.take() {
            Some(Ok(TurnEnd::InputRequired { question }))
        } else if let Some(error) = self.unrequested.failure() {
            Some(Err(error))
        } else if self.turn.is_some() {
            let message = "the turn before has not ended";
            Some(Err(AgentError::new(AgentErrorKind::TurnFailed, message)))
        } else {
            None
        };
        if let Some(end) = at_once {
            let _ = turn.end.send(end);
            let _ = turn.reply.send(Ok(RawValue::NULL.to_owned())); // no turn was started
        } else if self.unrequested.are_over() {
            self.start_turn(turn);
        } else {
            let wait = "the turn waits for the end of one that was not asked for";
            self.updates.event("notification", wait);
            self.held = Some(turn);
        }
    }

    fn start_turn(&mut self, turn: TurnAsked) {
        debug_assert!(self.is_between_turns(), "Codex would merge this turn into the live one");
        let (id, params) = (self.fresh_id(), turn.params);
        self.updates.turn_begins();
        self.pending = Some(Pending { id, opens_thread: false, reply: turn.reply });
        self.turn = Some(LiveTurn::new(id, turn.end));
        self.send(&Outgoing::Request { id, method: "turn/start", params: &params });
    }

    fn is_between_turns(&self) -> bool {
        self.turn.is_none() && self.unrequested.are_over()
    }

    /// A request was answered. If it was `turn/start`, the turn has its name, or there is none.
    pub(super) fn turn_answered(&mut self, asked: u64, result: Option<Payload<'_>>) {
        let Some(turn) = self.turn.as_mut().filter(|turn| turn.request == asked) else { return };
        let started = result.and_then(|result| result.read::<TurnStarted>());
        let early = started.as_ref().and_then(|started| turn.set_id(started.turn.id.clone()));
        let (others, is_awaited) = (turn.take_others(), turn.is_awaited());
        match started {
            None => self.turn = None,
            Some(started) => {
                self.tell_session(&started.turn.id);
                if let Some(end) = early {
                    self.end_turn(end);
                } else if !is_awaited {
                    self.interrupt_ours(); // a question came before its name
                }
            }
        }
        for (other, is_over) in others {
            self.not_asked_for(&other, is_over);
        }
    }

    /// Before the next line is read, so that what belongs to a turn comes after its id.
    fn tell_session(&mut self, turn: &Id) {
        let Some(thread) = &self.thread else { return };
        let session_id = format!("{}-{}", thread.as_str(), turn.as_str()).into();
        let thread = ThreadId::from(thread.as_str());
        self.updates.flush();
        self.updates.send(AgentUpdate::Session { thread, session_id, pid: self.pid });
    }

    /// `turn/started`
    pub(super) fn turn_began(&mut self, params: Payload<'_>) {
        let Some(began) = params.read::<TurnStarted>() else { return };
        if self.thread.is_none() || began.thread_id.is_some() && began.thread_id != self.thread {
            return; // one of the agent's helpers
        }
        let id = began.turn.id;
        let may_be_ours = self.turn.as_mut().is_some_and(|turn| turn.may_be(&id));
        let others = match &mut self.turn {
            _ if may_be_ours => return,
            Some(turn) if turn.id.is_none() => turn.take_others(),
            _ => vec![(id, false)],
        };
        for (other, is_over) in others {
            self.not_asked_for(&other, is_over);
        }
    }

    /// Codex began a turn by itself: it is interrupted and shown, and a few end the session.
    fn not_asked_for(&mut self, turn: &Id, is_over: bool) {
        let Some(count) = self.unrequested.began(turn) else { return };
        if count <= MAX_UNREQUESTED {
            let summary = format!(
                "Codex began a turn that was not asked for, {count} of at most {MAX_UNREQUESTED}"
            );
            self.updates.send(event("notification", &summary));
            self.updates.send(AgentUpdate::UnrequestedTurn);
        }
        if is_over {
            self.unrequested.ended(Some(turn));
        } else {
            self.interrupt(turn);
        }
        if let (Some(error), Some(turn)) = (self.unrequested.failure(), &mut self.turn) {
            self.updates.flush_all();
            turn.tell(Err(error));
        }
    }

    /// One of the ends.
    pub(super) fn turn_over(&mut self, method: &str, params: Payload<'_>) {
        let Some(over) = params.read::<TurnOver>() else {
            self.updates.event("malformed", &format!("{method} without a turn"));
            return;
        };
        if over.thread_id.is_some() && over.thread_id != self.thread {
            return; // one of the agent's helpers
        }
        let (name, id, end) = read_end(method, over, self.last_error.clone());
        if self.unrequested_ended(id.as_ref()) {
            return;
        }
        let summary = match &end {
            Ok(_) => "the turn is completed",
            Err(error) => &error.message,
        };
        // An interrupt of our own is not shown: the event before it says why.
        if !self.turn.as_ref().is_some_and(|turn| turn.is_interrupted) {
            self.updates.event(name, summary);
        }
        self.turn_ended(id, end);
    }

    /// A turn of our conversation has ended.
    pub(super) fn turn_ended(&mut self, id: Option<Id>, end: End) {
        if self.unrequested_ended(id.as_ref()) {
            return;
        }
        if let Some(end) = self.turn.as_mut().and_then(|turn| turn.on_end(id, end)) {
            self.end_turn(end);
        }
    }

    /// Whether the turn that has ended is one that was not asked for.
    fn unrequested_ended(&mut self, id: Option<&Id>) -> bool {
        let is_one = self.unrequested.ended(id);
        if is_one {
            self.updates.event("notification", "a turn that was not asked for has ended");
            self.settle();
        }
        is_one
    }

    pub(super) fn end_turn(&mut self, end: End) {
        if let Some(mut turn) = self.turn.take() {
            self.updates.flush_all(); // counts and events before the end they belong to
            turn.tell(end);
        }
        self.settle();
    }

    /// Between turns, what waited for that goes on.
    fn settle(&mut self) {
        if !self.is_between_turns() {
            return;
        }
        self.interrupted = None;
        // A session that gave up waiting must not get a turn whose end it does not await.
        if let Some(turn) = self.held.take().filter(|turn| !turn.reply.is_closed()) {
            self.turn_asked(turn);
        }
    }

    /// `turn/interrupt`. What counts is the end of the turn, and not the response.
    fn interrupt(&mut self, turn: &Id) {
        let Some(thread) = &self.thread else { return };
        let params = json!({"threadId": thread.as_str(), "turnId": turn.as_str()});
        let id = self.fresh_id();
        if self.interrupts.len() < MAX_INTERRUPTS {
            self.interrupts.push((id, turn.clone()));
        }
        self.send(&Outgoing::Request { id, method: "turn/interrupt", params: &params });
    }

    /// Interrupts our own turn once, if it has a name.
    pub(super) fn interrupt_ours(&mut self) {
        let Some(turn) = self.turn.as_mut().filter(|turn| !turn.is_interrupted) else { return };
        if let Some(id) = turn.id.clone() {
            turn.is_interrupted = true;
            self.interrupt(&id);
        }
    }

    /// Whether a response is that to an interrupt. One that is refused found no turn.
    pub(super) fn interrupt_answered(&mut self, id: Option<u64>, is_refused: bool) -> bool {
        let at = self.interrupts.iter().position(|(asked, _)| Some(*asked) == id);
        let Some(at) = at else { return false };
        let (_, turn) = self.interrupts.swap_remove(at);
        if is_refused {
            self.unrequested_ended(Some(&turn));
        }
        true
    }

    /// Ends whatever turn is live, and tells when none is; dropping the sender tells it.
    pub(super) fn interrupt_for(&mut self, interrupted: oneshot::Sender<()>) {
        self.interrupt_ours();
        let ours = self.turn.as_ref().is_some_and(|turn| turn.id.is_some());
        if ours || !self.unrequested.are_over() {
            self.interrupted = Some(interrupted);
        }
    }

    /// `turn/steer`. Codex takes a note only for the turn that it names.
    pub(super) fn steer(&mut self, note: &SteerNote, reply: oneshot::Sender<RpcReply>) {
        let live = self.turn.as_ref().filter(|turn| turn.is_awaited() && !turn.is_interrupted);
        let live = live.and_then(|turn| turn.id.clone());
        let (Some(thread), Some(turn)) = (&self.thread, live) else {
            let message = "no turn is live".to_owned();
            let _ = reply.send(Err(RpcError { code: INVALID_REQUEST, message }));
            return;
        };
        let params = json!({
            "threadId": thread.as_str(),
            "expectedTurnId": turn.as_str(),
            "clientUserMessageId": note.client_id,
            "input": [{"type": "text", "text": note.text}],
        });
        let id = self.fresh_id();
        self.notes.retain(|(_, reply)| !reply.is_closed());
        self.notes.push((id, reply));
        self.send(&Outgoing::Request { id, method: "turn/steer", params: &params });
    }

    /// The note that a response is for.
    pub(super) fn take_note(&mut self, id: Option<u64>) -> Option<oneshot::Sender<RpcReply>> {
        let at = self.notes.iter().position(|(asked, _)| Some(*asked) == id)?;
        Some(self.notes.swap_remove(at).1)
    }

    /// When the agent will have been silent for too long in a turn.
    pub(super) fn silent_at(&self) -> Option<Instant> {
        let turn = self.turn.as_ref().filter(|turn| turn.id.is_some() && turn.is_awaited());
        turn.and_then(|_| self.last_activity.silent_at(self.turn_timeout))
    }

    pub(super) fn judge_silence(&mut self) {
        let Some(turn) = self.turn.as_mut().filter(|turn| turn.id.is_some()) else { return };
        if turn.is_awaited() && self.last_activity.is_silent(self.turn_timeout) {
            let limit = self.turn_timeout.as_millis();
            let message = format!("Codex was silent for {limit} ms in a turn");
            // The turn lives on until closing the session interrupts it.
            turn.tell(Err(AgentError::new(AgentErrorKind::TurnTimeout, message)));
        }
    }
}
