//! What a backend finds when it opens a session (contract 10.3).

use serde::{Deserialize, Serialize};

use super::{ClientTurnId, ThreadId};

/// What was found when a session was opened. What the agent does not say is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Opened {
    /// The conversation. It differs from the one that was to be resumed where that is gone.
    pub thread: Option<ThreadId>,
    /// The model in force, by the agent's name for it.
    pub model: Option<String>,
    /// The reasoning effort in force.
    pub effort: Option<String>,
    /// The last turn of a resumed conversation.
    pub last_turn: Option<LastTurn>,
}

/// The last turn of a conversation that was resumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LastTurn {
    /// The id it was submitted with, where the agent stores that.
    pub client_id: Option<ClientTurnId>,
    /// What became of it.
    pub state: LastTurnState,
}

/// What became of a turn, as its agent remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LastTurnState {
    /// The turn came to its end.
    Completed,
    /// The turn failed.
    Failed,
    /// The turn was cut off, for instance because its agent was killed.
    Interrupted,
    /// The agent says something else, or nothing.
    Unknown,
}

impl Opened {
    /// Makes what was found of a session of this conversation.
    #[must_use]
    pub fn new(thread: ThreadId) -> Self {
        Self { thread: Some(thread), ..Self::default() }
    }
}

impl LastTurn {
    /// Makes a turn that came to this state.
    #[must_use]
    pub const fn new(client_id: Option<ClientTurnId>, state: LastTurnState) -> Self {
        Self { client_id, state }
    }
}
