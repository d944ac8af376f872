//! The Linear adapter over the fake.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

mod budget;
mod config;
mod conformance;
mod day;
mod documents;
mod examine;
mod faults;
mod harness;
mod hog;
mod hostile;
mod polls;
mod scope;
mod service;
mod tool;
mod webhook;
mod wire;
