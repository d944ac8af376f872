//! A whole service: the memory tracker, scripted agents, real folders, real hooks.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod changes;
mod dry_run;
mod finish;
mod harness;
mod hooks;
mod identifiers;
mod prompts;
mod reload;
mod restart;
mod runs;
mod sockets;
mod steering;
mod surroundings;
mod transcripts;
mod trouble;
