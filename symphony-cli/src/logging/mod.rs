//! Where log lines go: to standard error, and to files that do not grow for ever (contract 13.1).

mod lines;
mod non_blocking;
#[cfg(feature = "otel")]
mod otel;
#[cfg(not(feature = "otel"))]
#[path = "no_otel.rs"]
mod otel;
mod rotating;
mod screen;

use std::io::IsTerminal as _;
use std::sync::Arc;

use anyhow::Context as _;
use symphony_core::plain;
use symphony_core::settings::{LogFormat, LoggingSettings};
use symphony_runtime::Handle;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry};

use crate::args::LoggingArgs;
use lines::{LineFormat, Lines};
use non_blocking::NonBlockingWriter;
use rotating::{Limits, RotatingFile};
pub(crate) use screen::{Diverted, divert};

/// The current file in the folder for logs.
const LOG_FILE: &str = "symphony.log";

/// Where log lines go. Dropped when the program ends, it gives the last of them a moment.
pub(crate) struct Log {
    tracing: Option<otel::Tracing>,
    writers: Vec<NonBlockingWriter>,
    settings: Arc<LogSettings>,
}

/// What of the log can change while it is written. What the command line says stays.
pub(crate) struct LogSettings {
    filter: reload::Handle<EnvFilter, Registry>,
    is_filter_given: bool,
    look: LineFormat,
    is_look_given: bool,
    limits: Arc<Limits>,
}

impl Drop for Log {
    fn drop(&mut self) {
        self.tracing = None; // it may have something to say
        self.writers.iter().for_each(NonBlockingWriter::finish);
    }
}

/// Sends log lines where the arguments say. What a workflow file says of them is not known yet:
/// [`LogSettings::obey`] follows.
pub(crate) fn start(args: &LoggingArgs, filter: Option<&str>) -> anyhow::Result<Log> {
    let default = LoggingSettings::default();
    let given = filter.filter(|filter| !filter.trim().is_empty());
    let filter = given.unwrap_or(default.level.as_str());
    let filter = parse_filter(filter)
        .with_context(|| format!("--log: {filter:?} is not a filter; try `info` or `debug`"))?;
    let (filter, filter_handle) = reload::Layer::new(filter);
    let look = LineFormat::new(args.log_format.map_or(default.format, LogFormat::from));
    let limits = Arc::new(Limits::new(&default));
    let mut writers = Writers(Vec::new());
    let screen = writers.add(screen::Screen)?;
    let file = match &args.logs_root {
        None => None,
        Some(folder) => {
            let file = RotatingFile::open(&folder.join(LOG_FILE), Arc::clone(&limits));
            let file = file.with_context(|| {
                format!("--logs-root: no log file can be written in {}", folder.display())
            })?;
            Some(writers.add(file)?)
        }
    };
    let is_terminal = std::io::stderr().is_terminal();
    let colours = is_terminal && std::env::var_os("NO_COLOR").is_none();
    let lines = Lines { screen, is_terminal, colours, file, look: look.clone() };
    let (traces, tracing) = otel::start()?;
    let layers = tracing_subscriber::registry().with(lines.with_filter(filter)).with(traces);
    layers.try_init().context("logging cannot be started twice")?;
    log_panics();
    let settings = LogSettings {
        filter: filter_handle,
        is_filter_given: given.is_some(),
        look,
        is_look_given: args.log_format.is_some(),
        limits,
    };
    Ok(Log { tracing: Some(tracing), writers: writers.0, settings: Arc::new(settings) })
}

impl Log {
    /// What of it can change.
    pub(crate) fn settings(&self) -> Arc<LogSettings> {
        Arc::clone(&self.settings)
    }
}

impl LogSettings {
    /// Does what a workflow file says, as far as the command line says nothing.
    pub(crate) fn apply(&self, settings: &LoggingSettings) {
        if !self.is_filter_given {
            match parse_filter(settings.level.as_str()) {
                // It fails only when the subscriber is gone, and then there is nothing to filter.
                Ok(filter) => drop(self.filter.reload(filter)),
                Err(error) => tracing::warn!(%error, "logging.level: what was logged before stays"),
            }
        }
        if !self.is_look_given {
            self.look.set(settings.format);
        }
        self.limits.set(settings);
    }

    /// Obeys the settings in force, and each that follows them.
    pub(crate) async fn follow(self: Arc<Self>, handle: Handle) {
        let mut changes = handle.settings_changes();
        loop {
            let settings = Arc::clone(&changes.borrow_and_update());
            self.apply(&settings.logging);
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}

/// Crates below the watch of the workflow file. They log every event of the watched folder, and a
/// log file in it would make an event of each such line.
const WATCHER_CRATES: [&str; 3] = ["inotify", "mio", "notify"];

/// A filter that lets nothing of the watch through which it does not name.
fn parse_filter(text: &str) -> Result<EnvFilter, ParseError> {
    let targets = text.split(',').map(|part| part.split(['=', '[']).next().unwrap_or_default());
    let targets: Vec<&str> = targets.map(str::trim).collect();
    let names = |name: &str| {
        let is_below = |target: &&str| target.split("::").next() == Some(name);
        targets.iter().any(is_below)
    };
    let mut filter = EnvFilter::try_new(text)?;
    for unnamed in WATCHER_CRATES.into_iter().filter(|name| !names(name)) {
        filter = filter.add_directive(format!("{unnamed}=off").parse()?);
    }
    Ok(filter)
}

/// The writers so far.
struct Writers(Vec<NonBlockingWriter>);

impl Writers {
    fn add(
        &mut self,
        to: impl std::io::Write + Send + 'static,
    ) -> anyhow::Result<NonBlockingWriter> {
        let writer = NonBlockingWriter::new(to).context("logging cannot be started")?;
        self.0.push(writer.clone());
        Ok(writer)
    }
}

/// Logs panics. Rust's own hook would block on standard error, which may be an unread pipe, and with
/// it a thread that others need.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let payload = panic.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("without a message");
        let place = panic.location().map(ToString::to_string);
        tracing::error!(panic = plain(text, 2000), place, "a task panicked");
    }));
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn rule_13_1_what_watches_files_is_logged_only_by_name() {
        let filter = |text| parse_filter(text).unwrap().to_string();
        for off in ["inotify=off", "mio=off", "notify=off"] {
            assert!(filter("trace").contains(off), "{off}");
            assert!(filter("info,symphony_linear=debug").contains(off), "{off}");
        }
        let named = filter("trace,notify::inotify=debug,mio");
        assert!(named.contains("inotify=off") && named.contains("notify::inotify=debug"));
        assert!(!named.contains("mio=off") && !named.contains(",notify=off"), "{named}");
        assert!(parse_filter("a=b=c").is_err());
    }

    #[test]
    fn rule_13_1_a_panic_is_a_line_of_the_log() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let screen = NonBlockingWriter::new(writer).unwrap();
        let look = LineFormat::new(LogFormat::Text);
        let lines =
            Lines { screen: screen.clone(), is_terminal: false, colours: false, file: None, look };
        let before = std::panic::take_hook();
        log_panics();
        let ended =
            tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), || {
                std::panic::catch_unwind(|| panic!("a bug\u{1b}"))
            });
        std::panic::set_hook(before);
        assert!(ended.is_err());
        screen.finish();
        let mut told = [0; 1000];
        let read = reader.read(&mut told).unwrap();
        let told = String::from_utf8_lossy(&told[..read]);
        let wanted = r#"ERROR a task panicked panic="a bug\u{1b}" place=symphony-cli/src/logging"#;
        assert!(told.contains(wanted), "{told}");
    }
}
