//! The real Codex, version 0.166.0: its schema, and turns with a model that follows a script.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

mod examine;
mod questions;
mod schema;
#[path = "../../../symphony-codex/tests/protocol/server.rs"]
#[expect(dead_code, reason = "the schema needs only a part of it")]
mod server;
mod sessions;
mod steering;
mod unrequested;
