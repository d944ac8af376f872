//! The server of a real service, over real sockets.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod attacks;
mod commands;
mod events;
mod harness;
mod pages;
mod shapes;
mod storage;
mod webhooks;
