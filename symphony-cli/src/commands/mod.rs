//! One file per command.

pub(crate) mod check;
mod dashboard;
pub(crate) mod demo;
pub(crate) mod explain;
pub(crate) mod init;
pub(crate) mod prompt;
pub(crate) mod run;
mod signals;
pub(crate) mod status;
pub(crate) mod top;

use std::fs::OpenOptions;
use std::time::SystemTime;

use anyhow::Context as _;
use symphony_core::Settings;
use symphony_core::env::Env;
use symphony_http::{Config, Server};
use symphony_runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

/// The tokio runtime of a command. Two threads are enough: what is heavy is done by agents.
fn tokio() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("the async runtime cannot be started")
}

/// Takes the port of the dashboard and the API, where there is to be one.
async fn listen(settings: &Settings, port: Option<u16>) -> anyhow::Result<Option<Server>> {
    let config = Config::from_settings(&settings.server, port, &CliEnv)?;
    Ok(match config {
        Some(config) => Some(Server::bind(&config).await?),
        None => None,
    })
}

/// Serves for as long as what is returned lives.
fn serve(server: Server, handle: &Handle) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(server.serve(handle.clone())))
}

/// The environment of this process.
#[derive(Debug)]
pub(crate) struct CliEnv;

impl Env for CliEnv {
    fn var(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

/// A typed command is activity: a service that watches the file polls faster again
/// (contract 12.2). A file that cannot be touched does not fail the command.
fn touch_activity_file(settings: &Settings) {
    if let Some(path) = &settings.polling.activity_file
        && let Ok(file) = OpenOptions::new().append(true).create(true).open(path)
    {
        let _ = file.set_modified(SystemTime::now());
    }
}
