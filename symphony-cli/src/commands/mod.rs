//! One file per command.

pub(crate) mod check;
mod dashboard;
pub(crate) mod demo;
pub(crate) mod explain;
pub(crate) mod init;
#[cfg(all(feature = "kill-points", feature = "sqlite", debug_assertions))]
mod kill_points;
pub(crate) mod prompt;
pub(crate) mod run;
mod scope_locks;
mod signals;
#[cfg(feature = "sqlite")]
pub(crate) mod state;
pub(crate) mod status;
mod storage;
pub(crate) mod top;

use std::fs::OpenOptions;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::SystemTime;

use anyhow::Context as _;
use symphony_core::env::Env;
use symphony_core::problem::{Problem, ProblemKind};
use symphony_core::tracker::{Tracker, TrackerError};
use symphony_core::{Issue, Settings};
use symphony_http::{Config, ConfigError, Server};
use symphony_runtime::{AnnouncedAddress, Handle, Inspection, Service};
use tokio_util::task::AbortOnDropHandle;
use tracing::warn;

use crate::adapters;

/// The tokio runtime of a command. Two threads are enough: what is heavy is done by agents.
fn tokio() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("the async runtime cannot be started")
}

/// Looks at a workflow file: what is wrong with it for `run` is wrong for `check`.
fn inspect(path: &Path, port: Option<u16>) -> Inspection {
    let mut inspection = symphony_runtime::inspect(path, &adapters::registry());
    let Some(settings) = &inspection.settings else { return inspection };
    let refused = match server_config(settings, port) {
        Err(refused) => Some((ProblemKind::InvalidSetting, refused)),
        // Without a port it is not looked at, and `run --port` may follow.
        Ok(None) => {
            let refused = server_config(settings, Some(0)).err();
            refused.map(|refused| (ProblemKind::IgnoredSetting, refused))
        }
        Ok(Some(_)) => None,
    };
    if let Some((kind, refused)) = refused {
        let mut problem = server_problem(kind, &refused);
        if let Some(usable) = &inspection.usable {
            problem = usable.workflow.places.locate(problem);
        }
        inspection.problems.insert(0, problem);
        if !kind.is_warning() {
            inspection.usable = None;
        }
    }
    let place = inspection.settings.as_ref().map(|settings| storage::path(settings, path, &CliEnv));
    if let Some(Err(problem)) = place {
        inspection.problems.insert(0, problem);
        inspection.usable = None;
    }
    inspection
}

/// What is wrong with the section `server`.
fn server_problem(kind: ProblemKind, refused: &ConfigError) -> Problem {
    let (text, path) = (refused.to_string(), refused.setting());
    let message = text.strip_prefix(path).map_or(&*text, |text| text.trim_start_matches(": "));
    let message = match kind.is_warning() {
        true => format!("is not used without a port; with one: {message}"),
        false => message.to_owned(),
    };
    Problem::new(kind, message).with_path(path)
}

/// Where the dashboard and the API are to be served, if anywhere.
fn server_config(settings: &Settings, port: Option<u16>) -> Result<Option<Config>, ConfigError> {
    let config = Config::from_settings(&settings.server, port, &CliEnv)?;
    config.as_ref().map(Config::ip).transpose()?;
    Ok(config)
}

/// Takes the port of the dashboard and the API, where there is to be one.
async fn listen(settings: &Settings, port: Option<u16>) -> anyhow::Result<Option<Server>> {
    Ok(match server_config(settings, port)? {
        Some(config) => Some(Server::bind(&config).await?),
        None => None,
    })
}

/// Serves for as long as what is returned lives.
fn serve(server: Server, handle: &Handle) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(server.serve(handle.clone())))
}

/// Lets commands on this machine find the service, for as long as what is returned lives.
fn announce(service: &Service, server: &Server) -> Option<AnnouncedAddress> {
    let at = server.address();
    let ip = match at.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::from(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::from(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    let announced = service.announce(&format!("http://{}", SocketAddr::new(ip, at.port())));
    announced.inspect_err(|error| warn!(%error, "commands will not find the service")).ok()
}

/// Finds an issue as people name it: by its identifier in any case, or by the tracker's id.
async fn find_issue(tracker: &dyn Tracker, name: &str) -> Result<Option<Issue>, TrackerError> {
    let upper = name.to_uppercase();
    match tracker.find(name).await? {
        None if upper != name => tracker.find(&upper).await,
        found => Ok(found),
    }
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
