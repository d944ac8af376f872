//! The turn that was asked for, and what counts as its end (contract 10.5).

use serde_json::Value;
use symphony_core::agent::{AgentError, AgentErrorKind, TurnEnd};
use tokio::sync::oneshot;

use crate::failure::{turn_cancelled, turn_failed};
use crate::wire::{Id, TurnError, TurnOver};

/// At most so many ends of turns are kept while ours has no id yet.
const EARLY: usize = 16;

/// How a turn ended.
pub(crate) type End = Result<TurnEnd, AgentError>;

/// A turn that was asked for and has not ended.
#[derive(Debug)]
pub(crate) struct LiveTurn {
    /// The id of `turn/start`.
    pub(crate) request: u64,
    /// None until that is answered.
    pub(crate) id: Option<Id>,
    /// Ends that came before: one of them may be ours.
    early: Vec<(Id, End)>,
    end: Option<oneshot::Sender<End>>,
}

impl LiveTurn {
    pub(crate) fn new(request: u64, end: oneshot::Sender<End>) -> Self {
        Self { request, id: None, early: Vec::new(), end: Some(end) }
    }

    /// It is called this. Its end, if that came before.
    pub(crate) fn named(&mut self, id: Id) -> Option<End> {
        let early = self.early.iter().position(|(early, _)| *early == id);
        let early = early.map(|at| self.early.swap_remove(at).1);
        self.id = Some(id);
        self.early.clear();
        early
    }

    /// A turn has ended: gives the end back if it is this one's, and keeps it if it may be.
    pub(crate) fn is_over(&mut self, id: Option<Id>, end: End) -> Option<End> {
        match (id, &self.id) {
            (Some(id), None) => {
                if self.early.len() < EARLY {
                    self.early.push((id, end));
                }
                None
            }
            (Some(id), Some(ours)) if id != *ours => None,
            _ => Some(end),
        }
    }

    /// Whether somebody still waits for its end.
    pub(crate) fn is_awaited(&self) -> bool {
        self.end.is_some()
    }

    /// Tells whoever waits for it, the first time.
    pub(crate) fn tell(&mut self, end: End) {
        if let Some(sender) = self.end.take() {
            let _ = sender.send(end); // who dropped the turn does not want it
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

/// The end of a turn in a line that was too long to read: it has ended, and nobody knows how.
pub(crate) fn unreadable_end(length: usize) -> End {
    let message = format!("Codex ended the turn in a line of {length} bytes, which is too long");
    Err(AgentError::new(AgentErrorKind::TurnFailed, message))
}

/// Whether a method is one of the ends.
pub(crate) fn is_end(method: &str) -> bool {
    matches!(method, "turn/completed" | "turn/failed" | "turn/cancelled")
}
