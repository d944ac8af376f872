//! The dashboard on this process's terminal, in a thread of its own.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::app::Owner;
use crate::draw::Palette;
use crate::lines::LogTail;
use crate::run::run;
use crate::source::StatusSource;
use crate::terminal::{self, THREAD_NAME, Taken, read_keys};

/// How many keys may wait.
const MAX_QUEUED_KEYS: usize = 256;

/// How long a terminal may take to be given back.
const RESTORE_TIMEOUT: Duration = Duration::from_secs(1);

/// How a dashboard is shown.
#[derive(Clone, Debug)]
pub struct Options {
    /// What leaving means.
    pub owner: Owner,
    /// Where the service is reached, if it is.
    pub address: Option<String>,
    /// Colours.
    pub look: Palette,
    /// How often news is read.
    pub refresh: Duration,
    /// How often it may be drawn.
    pub render_interval: Duration,
    /// What is shown in the log's place.
    pub lines: LogTail,
    /// What receives Ctrl-C; without a receiver, the dashboard is left.
    pub interrupts: Option<mpsc::UnboundedSender<()>>,
}

/// Why a dashboard is not shown any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DashboardEnd {
    /// The user left it.
    Quit,
    /// The terminal is gone.
    TerminalGone,
    /// It was told to end.
    Stopped,
    /// Its thread has panicked, and given the terminal back.
    Panicked,
}

/// A dashboard that is shown. Dropped, it gives the terminal back.
#[derive(Debug)]
pub struct Dashboard {
    end: oneshot::Receiver<DashboardEnd>,
    /// Dropped, it tells the thread to end.
    stop: Option<oneshot::Sender<()>>,
    ended: Receiver<()>,
}

impl Dashboard {
    /// Takes the terminal and shows a source on it.
    ///
    /// # Errors
    /// When there is no terminal that could be taken.
    pub fn show(source: Arc<dyn StatusSource>, options: Options) -> io::Result<Self> {
        terminal::restore_on_panic(options.owner);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (keys, typed) = mpsc::channel(MAX_QUEUED_KEYS);
        let (stop, stopped) = oneshot::channel();
        let (tell_end, end) = oneshot::channel();
        let (tell_ended, ended) = channel();
        let mut screen = Taken::take()?;
        std::thread::Builder::new().name("keys".to_owned()).spawn(move || read_keys(&keys))?;
        std::thread::Builder::new().name(THREAD_NAME.to_owned()).spawn(move || {
            let why = match screen.enter() {
                Ok(()) => runtime.block_on(run(source, &mut screen, typed, &options, stopped)),
                Err(_) => DashboardEnd::TerminalGone,
            };
            drop(screen);
            runtime.shutdown_background();
            let _ = tell_end.send(why);
            drop(tell_ended);
        })?;
        Ok(Self { end, stop: Some(stop), ended })
    }

    /// Waits until it is not shown any more. To be called until it has answered once.
    pub async fn ended(&mut self) -> DashboardEnd {
        (&mut self.end).await.unwrap_or(DashboardEnd::Panicked)
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A terminal that takes no more bytes is not waited for.
        if self.ended.recv_timeout(RESTORE_TIMEOUT) == Err(RecvTimeoutError::Timeout) {
            terminal::restore_mode();
        }
    }
}
