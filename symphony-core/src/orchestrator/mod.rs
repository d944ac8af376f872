//! The scheduler as a value with one function: events in, effects out (contract 4.3).
//!
//! It never waits, reads a clock, touches a file, logs or spawns.

mod event;

pub use event::*;
