//! A whole service: the memory tracker, scripted agents, real folders, real hooks.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod dry_run;
mod finish;
mod harness;
mod hooks;
mod identifiers;
mod reload;
mod restart;
mod runs;
mod store;
mod surroundings;
mod transcripts;
mod trouble;
