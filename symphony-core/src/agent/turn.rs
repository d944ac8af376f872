//! One turn: what the agent is told, and how that ended (contract 10.1, 10.5).

use serde::{Deserialize, Serialize};

use super::Question;
use crate::run::RunId;
use crate::text::text_newtype;

text_newtype! {
    /// Symphony's own id of a turn or a note. An agent that stores it beside the prompt lets a later
    /// process of the service find out whether the agent ever accepted the turn.
    ClientTurnId
}

impl ClientTurnId {
    /// Names a turn of a run. No two turns share a name, also across restarts.
    #[must_use]
    pub fn of_turn(run: RunId, number: u32) -> Self {
        Self::new(format!("symphony-{run}-{number}"))
    }
}

/// One turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Turn {
    /// Counted from one within the run.
    pub number: u32,
    /// What the agent is told.
    pub prompt: String,
    /// The id to submit it with.
    pub client_id: ClientTurnId,
}

impl Turn {
    /// Makes a turn of this run.
    #[must_use]
    pub fn new(run: RunId, number: u32, prompt: impl Into<String>) -> Self {
        Self { number, prompt: prompt.into(), client_id: ClientTurnId::of_turn(run, number) }
    }
}

/// How a turn ended that did not fail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnEnd {
    /// The agent says it is through.
    Completed,
    /// The agent asks something only a person can answer.
    InputRequired {
        /// The question.
        question: Question,
    },
}
