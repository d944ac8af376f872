//! What the tests with the real Codex and a real browser need: the programs, a model that follows a
//! script, and hands on the browser's wheel.

#![expect(clippy::unwrap_used, clippy::panic, reason = "only tests use it")]

mod browser;
mod installed;
mod model;

pub use browser::{Appearance, Browser};
pub use installed::{codex, symphony};
pub use model::{Model, ModelAction};
