//! Sessions with a scripted server over pipes in memory, in paused time.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "these are tests")]

mod answers;
mod handshake;
mod hostile;
mod server;
mod steering;
mod tools;
mod transcript;
mod turns;
mod unrequested;
mod updates;
