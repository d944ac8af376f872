//! Turns of our conversation that Symphony did not ask for (contract 10.3).
//!
//! A Codex that has a goal begins turns by itself, one after the other, and `agent.max_turns` does
//! not see them.

use symphony_core::agent::{AgentError, AgentErrorKind};

use crate::wire::Id;

/// So many in a session end it.
pub(crate) const MAX_UNREQUESTED: u32 = 3;

/// The turns that were not asked for.
#[derive(Debug, Default)]
pub(crate) struct Unrequested {
    /// Those that have not ended. Ids beyond the limit are not kept: the session is over.
    live: Vec<Id>,
    count: u32,
}

impl Unrequested {
    /// Notes that one has begun. Returns their number, unless the turn is known already.
    pub(crate) fn began(&mut self, turn: &Id) -> Option<u32> {
        if self.live.contains(turn) {
            return None;
        }
        if self.count < MAX_UNREQUESTED {
            self.live.push(turn.clone());
        }
        self.count = self.count.saturating_add(1);
        Some(self.count)
    }

    /// Notes that a turn has ended; returns whether it was one of these. An end without an id may be.
    pub(crate) fn ended(&mut self, turn: Option<&Id>) -> bool {
        let at = self.live.iter().position(|live| turn.is_none_or(|turn| live == turn));
        at.map(|at| self.live.swap_remove(at)).is_some()
    }

    pub(crate) fn is_live(&self, turn: &Id) -> bool {
        self.live.contains(turn)
    }

    /// Whether all of them have ended.
    pub(crate) fn are_over(&self) -> bool {
        self.live.is_empty()
    }

    /// Why the session is over, if it is.
    pub(crate) fn failure(&self) -> Option<AgentError> {
        (self.count >= MAX_UNREQUESTED).then(|| {
            let message = format!("Codex began {} turns that were not asked for", self.count);
            AgentError::new(AgentErrorKind::UnrequestedTurns, message)
        })
    }
}
