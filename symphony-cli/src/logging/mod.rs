//! Where log lines go: to standard error, and to files that do not grow for ever (contract 13.1).

mod rotating;
mod screen;
mod unhurried;

use std::io::IsTerminal as _;

use anyhow::Context as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use crate::args::{LogFormat, LoggingArgs};
use rotating::RotatingFile;
pub(crate) use screen::{Diverted, divert};
use unhurried::Unhurried;

/// The current file in the folder for logs.
const FILE: &str = "symphony.log";

/// Where log lines go. Dropped when the program ends, it gives the last of them a moment.
pub(crate) struct Log(Vec<Unhurried>);

impl Drop for Log {
    fn drop(&mut self) {
        self.0.iter().for_each(Unhurried::finish);
    }
}

/// Sends log lines where the arguments say.
pub(crate) fn start(args: &LoggingArgs) -> anyhow::Result<Log> {
    let filter = EnvFilter::try_new(&args.log)
        .with_context(|| format!("--log: {:?} is no filter; try `info` or `debug`", args.log))?;
    let ansi = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let mut log = Log(Vec::new());
    let screen = log.writer(screen::Screen)?;
    let lines = tracing_subscriber::fmt::layer().with_writer(screen);
    let screen = match args.log_format {
        LogFormat::Text => lines.with_ansi(ansi).with_target(false).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let file = match &args.logs_root {
        None => None,
        Some(folder) => {
            let file = RotatingFile::open(&folder.join(FILE)).with_context(|| {
                format!("--logs-root: no log file can be written in {}", folder.display())
            })?;
            let lines =
                tracing_subscriber::fmt::layer().with_writer(log.writer(file)?).with_ansi(false);
            Some(match args.log_format {
                LogFormat::Text => lines.boxed(),
                LogFormat::Json => lines.json().flatten_event(true).boxed(),
            })
        }
    };
    let layers = tracing_subscriber::registry().with(filter).with(screen).with(file);
    layers.try_init().context("logging cannot be started twice")?;
    Ok(log)
}

impl Log {
    fn writer(&mut self, to: impl std::io::Write + Send + 'static) -> anyhow::Result<Unhurried> {
        let writer = Unhurried::new(to).context("logging cannot be started")?;
        self.0.push(writer.clone());
        Ok(writer)
    }
}
