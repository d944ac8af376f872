//! One file per command.

pub(crate) mod check;
pub(crate) mod demo;
pub(crate) mod init;
pub(crate) mod prompt;
pub(crate) mod run;
mod signals;

use anyhow::Context as _;

/// The tokio runtime of a command. Two threads are enough: what is heavy is done by agents.
fn tokio() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("the async runtime cannot be started")
}
