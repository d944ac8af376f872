//! The web dashboard in a real browser.

#![expect(clippy::unwrap_used, reason = "these are tests")]

mod crowd;
mod dashboard;
mod demo;
mod harness;
mod past;
mod pictures;
mod warnings;
