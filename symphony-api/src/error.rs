//! The one shape of errors (contract 13.3).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The body of every error of the API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ErrorBody {
    /// What went wrong.
    pub error: ErrorDetail,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ErrorDetail {
    /// In one word, for programs.
    pub code: String,
    /// For people: what, and what to do.
    pub message: String,
}

impl ErrorBody {
    /// Wraps a code and a message.
    #[must_use]
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { error: ErrorDetail { code: code.into(), message: message.into() } }
    }
}
