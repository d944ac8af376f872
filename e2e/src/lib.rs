//! What the tests with the real Codex need: the program, and a model that follows a script.

#![expect(clippy::unwrap_used, reason = "only tests use it")]

mod installed;
mod model;

pub use installed::codex;
pub use model::{Does, Model};
