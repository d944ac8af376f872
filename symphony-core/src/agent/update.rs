//! What a session says on the way: signs of life, events for people, tokens, limits.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ThreadId;
use crate::time::Wall;

/// Where a session's updates go: cheap to clone, never waits.
#[derive(Clone)]
pub struct Updates(Arc<dyn Fn(AgentUpdate) + Send + Sync>);

impl Updates {
    /// Makes a sink that hands updates to this function.
    #[must_use]
    pub fn new(sink: impl Fn(AgentUpdate) + Send + Sync + 'static) -> Self {
        Self(Arc::new(sink))
    }

    /// Sends one update.
    pub fn send(&self, update: AgentUpdate) {
        (self.0)(update);
    }
}

impl fmt::Debug for Updates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Updates")
    }
}

/// What a session says on the way. Each one is a sign of life (contract 8.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AgentUpdate {
    /// Lines arrived that say nothing new.
    Alive,
    /// The conversation, and the turn in it, have these ids.
    Session {
        /// The conversation.
        thread: ThreadId,
        /// `<thread>-<turn>`
        session_id: Arc<str>,
        /// The agent's process, where there is one.
        pid: Option<u32>,
    },
    /// Something worth showing.
    Event(Arc<AgentEvent>),
    /// What a conversation has used, in absolute numbers.
    Usage {
        /// The conversation.
        thread: ThreadId,
        /// Everything it has used so far.
        total: Usage,
    },
    /// The agent's limits.
    RateLimits(Arc<RateLimits>),
    /// Symphony runs a tool for the agent: until it answers, silence is not a stall.
    ToolBegan,
    /// The tool has answered.
    ToolEnded {
        /// Whether a call since [`ToolBegan`](Self::ToolBegan) [changed](crate::tracker::ToolResult::changed)
        /// the tracker.
        changed_issue: bool,
    },
    /// The agent began a turn that was not asked for (contract 10.3). It does not count as one of
    /// `max_turns`.
    UnrequestedTurn,
}

/// Something an agent did, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentEvent {
    /// The event's name, such as `turn_completed` or `notification`.
    pub name: String,
    /// One line about it.
    pub summary: String,
    /// When it happened.
    pub at: Wall,
}

/// What a conversation has used, as far as its agent reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Usage {
    /// Tokens. `None` where the agent does not count them.
    pub tokens: Option<Tokens>,
    /// What the agent says they cost. Symphony does not estimate it.
    pub cost: Option<UsdMicros>,
}

impl Usage {
    /// Reports a cost beside what is there.
    #[must_use]
    pub const fn with_cost(mut self, cost: UsdMicros) -> Self {
        self.cost = Some(cost);
        self
    }
}

impl From<Tokens> for Usage {
    fn from(tokens: Tokens) -> Self {
        Self { tokens: Some(tokens), cost: None }
    }
}

/// An amount of money in millionths of a US dollar.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct UsdMicros(pub u64);

impl UsdMicros {
    /// Reads an amount of dollars as agents report it. Negative, infinite and NaN are `None`.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be finite and positive; the cast saturates"
    )]
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        (dollars.is_finite() && dollars >= 0.0).then(|| Self((dollars * 1e6).round() as u64))
    }

    /// Returns the amount in dollars.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "exact up to nine billion dollars")]
    pub fn as_dollars(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

/// Token counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Sent to the model.
    pub input: u64,
    /// Of those, read from a cache.
    pub cached_input: u64,
    /// Written by the model.
    pub output: u64,
    /// Of those, spent on reasoning.
    pub reasoning_output: u64,
    /// As the agent adds them up.
    pub total: u64,
}

/// The limits that an agent last reported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RateLimits {
    /// Which limit, where there are several.
    pub limit_id: Option<String>,
    /// The account's plan.
    pub plan: Option<String>,
    /// The windows, shortest first.
    pub windows: Vec<RateLimitWindow>,
}

/// One window of a limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateLimitWindow {
    /// `primary`, `secondary`
    pub name: String,
    /// How much of it is used, in percent.
    pub used_percent: f64,
    /// Its length.
    pub window_minutes: Option<u64>,
    /// When it begins anew.
    pub resets_at: Option<Wall>,
}
