//! One file per command.

pub(crate) mod check;
pub(crate) mod demo;
pub(crate) mod init;
pub(crate) mod prompt;
pub(crate) mod run;
mod signals;

use std::fs::OpenOptions;
use std::time::SystemTime;

use anyhow::Context as _;
use symphony_core::Settings;

/// The tokio runtime of a command. Two threads are enough: what is heavy is done by agents.
fn tokio() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("the async runtime cannot be started")
}

/// Whoever types a command is at work: a service that watches the file polls faster again
/// (contract 12.2). A file that cannot be touched is no reason to refuse the command.
fn touch_activity_file(settings: &Settings) {
    if let Some(path) = &settings.polling.activity_file
        && let Ok(file) = OpenOptions::new().append(true).create(true).open(path)
    {
        let _ = file.set_modified(SystemTime::now());
    }
}
