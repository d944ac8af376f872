//! Answers to requests that ask for something to be done.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use symphony_core::time::Wall;

use crate::when;

/// A command was accepted and is carried out soon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct CommandReceipt {
    /// Always true.
    pub queued: bool,
    /// Whether it was asked for already and has not begun.
    pub coalesced: bool,
    /// When it was asked for.
    #[serde(with = "when")]
    #[schemars(with = "when::Rfc3339")]
    pub requested_at: Wall,
    /// What will be done.
    pub operations: Vec<String>,
    /// What happens now, in one line for people.
    #[serde(default)]
    pub message: String,
}

impl CommandReceipt {
    /// Acknowledges these operations.
    #[must_use]
    pub fn new(operations: &[&str], coalesced: bool, requested_at: Wall, message: &str) -> Self {
        let operations = operations.iter().map(|&operation| operation.to_owned()).collect();
        Self { queued: true, coalesced, requested_at, operations, message: message.to_owned() }
    }
}

/// A webhook delivery was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct DeliveryReceipt {
    /// Always true.
    pub received: bool,
    /// Whether it has been here before.
    pub duplicate: bool,
}

impl DeliveryReceipt {
    /// Acknowledges a delivery.
    #[must_use]
    pub const fn new(duplicate: bool) -> Self {
        Self { received: true, duplicate }
    }
}
