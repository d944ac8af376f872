//! The turn that was asked for, and what counts as its end (contract 10.5).

use serde_json::Value;
use symphony_core::agent::{AgentError, AgentErrorKind, TurnEnd};
use tokio::sync::oneshot;

use crate::failure::{turn_cancelled, turn_failed};
use crate::unrequested::MAX_UNREQUESTED;
use crate::wire::{Id, TurnError, TurnOver};

/// At most so many ends of turns are kept while ours has no id yet.
const MAX_EARLY_ENDS: usize = 16;

/// How a turn ended.
pub(crate) type End = Result<TurnEnd, AgentError>;

/// A turn that was asked for and has not ended.
#[derive(Debug)]
pub(crate) struct LiveTurn {
    /// The id of `turn/start`.
    pub(crate) request: u64,
    /// None until that is answered.
    pub(crate) id: Option<Id>,
    /// Turns that began before, and whether they have ended: one of them may be ours.
    begun: Vec<(Id, bool)>,
    /// Ends that came before: one of them may be ours.
    early: Vec<(Id, End)>,
    end: Option<oneshot::Sender<End>>,
    /// Whether `turn/interrupt` was sent.
    pub(crate) is_interrupted: bool,
}

impl LiveTurn {
    pub(crate) fn new(request: u64, end: oneshot::Sender<End>) -> Self {
        let (begun, early) = (Vec::new(), Vec::new());
        Self { request, id: None, begun, early, end: Some(end), is_interrupted: false }
    }

    /// Sets the turn's id. Returns its end, if that came before.
    pub(crate) fn set_id(&mut self, id: Id) -> Option<End> {
        let early = self.early.iter().position(|(early, _)| *early == id);
        let early = early.map(|at| self.early.swap_remove(at).1);
        self.begun.retain(|(begun, _)| *begun != id);
        self.id = Some(id);
        self.early.clear();
        early
    }

    /// Notes that a turn has begun; returns whether it may be this one.
    pub(crate) fn may_be(&mut self, id: &Id) -> bool {
        if let Some(ours) = &self.id {
            return ours == id;
        }
        if !self.begun.contains(&(id.clone(), false)) {
            self.begun.push((id.clone(), false));
        }
        // Of so many all but one are not ours, which is enough to end the session.
        self.begun.len() <= MAX_UNREQUESTED as usize
    }

    /// The turns that began before this one had an id and were others, and whether they have ended.
    pub(crate) fn take_others(&mut self) -> Vec<(Id, bool)> {
        std::mem::take(&mut self.begun)
    }

    /// Notes that a turn has ended: returns the end if it is this one's, keeps it if it may be.
    pub(crate) fn on_end(&mut self, id: Option<Id>, end: End) -> Option<End> {
        match (id, &self.id) {
            (Some(id), None) => {
                for (_, is_over) in self.begun.iter_mut().filter(|(begun, _)| *begun == id) {
                    *is_over = true;
                }
                if self.early.len() < MAX_EARLY_ENDS {
                    self.early.push((id, end));
                }
                None
            }
            (Some(id), Some(ours)) if id != *ours => None,
            _ => Some(end),
        }
    }

    /// Whether the session still waits for the end.
    pub(crate) fn is_awaited(&self) -> bool {
        self.end.is_some()
    }

    /// Sends the end to the session, the first time.
    pub(crate) fn tell(&mut self, end: End) {
        if let Some(sender) = self.end.take() {
            let _ = sender.send(end); // a session that dropped the turn does not want its end
        }
    }
}

/// What a message says about the end of a turn: the event's name, the turn, and the end. What Codex
/// last said went wrong counts if the message does not say it.
pub(crate) fn read_end(
    method: &str,
    over: TurnOver,
    last_error: Option<TurnError>,
) -> (&'static str, Option<Id>, End) {
    let turn = over.turn.unwrap_or_default();
    let error = turn.error.or(over.error).and_then(TurnError::read);
    let error = error.or_else(|| TurnError::read(Value::String(over.message?)));
    let error = error.or(last_error);
    let (name, end) = match (method, turn.status.as_deref()) {
        ("turn/cancelled", _) | ("turn/completed", Some("interrupted")) => {
            ("turn_cancelled", Err(turn_cancelled(error)))
        }
        // A turn that does not say how it ended is from a version that had other words for failures.
        ("turn/completed", Some("completed") | None) => ("turn_completed", Ok(TurnEnd::Completed)),
        _ => ("turn_failed", Err(turn_failed(error))),
    };
    (name, turn.id.or(over.turn_id), end)
}

/// The end of a turn in a line that was too long to read: how it ended is unknown.
pub(crate) fn unreadable_end(length: usize) -> End {
    let message = format!("Codex ended the turn in a line of {length} bytes, which is too long");
    Err(AgentError::new(AgentErrorKind::TurnFailed, message))
}

/// Whether a method is one of the ends.
pub(crate) fn is_end(method: &str) -> bool {
    matches!(method, "turn/completed" | "turn/failed" | "turn/cancelled")
}
