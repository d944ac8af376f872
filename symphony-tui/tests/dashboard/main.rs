//! The dashboard without a terminal: what it draws, and what keys do (contract 13.4).
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

mod any;
mod fixtures;
mod keys;
mod pictures;
