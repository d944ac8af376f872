//! A whole service with the real Codex: issues on a board in memory or on a fake Linear, a model that
//! follows a script, real workspaces, real processes.

#![expect(clippy::unwrap_used, clippy::panic, reason = "these are tests")]

mod harness;
mod kills;
mod limits;
mod linear;
mod people;
mod stops;
mod work;
