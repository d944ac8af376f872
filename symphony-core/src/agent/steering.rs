//! Input for a turn that is already under way.

use std::fmt;

use async_trait::async_trait;

use super::{AgentError, ClientTurnId};

/// Adds input to the live turn of a session.
///
/// It is separate from the session, which is borrowed for as long as a turn runs.
#[async_trait]
pub trait TurnSteering: fmt::Debug + Send + Sync {
    /// Hands the agent a note within the turn that is live. The agent reads it after the step it is
    /// at; the turn goes on.
    ///
    /// # Errors
    /// No turn is live, or the agent refused: it has not read the note. Whether it has is unknown
    /// where the kind is [`ResponseTimeout`](super::AgentErrorKind::ResponseTimeout) or
    /// [`ProcessExit`](super::AgentErrorKind::ProcessExit).
    async fn steer(&self, note: SteerNote) -> Result<(), AgentError>;
}

/// A person's note to a working agent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SteerNote {
    /// The id to submit it with, as for a turn.
    pub client_id: ClientTurnId,
    /// What the agent is told.
    pub text: String,
}

impl SteerNote {
    /// Makes a note.
    #[must_use]
    pub fn new(client_id: impl Into<ClientTurnId>, text: impl Into<String>) -> Self {
        Self { client_id: client_id.into(), text: text.into() }
    }
}
