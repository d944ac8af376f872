//! Real processes, started and ended.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up fails")]

mod commands;
mod control_groups;
mod hardened;
mod kill_matrix;
mod leftovers;
mod shapes;
mod trial;
