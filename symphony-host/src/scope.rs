//! One run: every command started in it is gone when it is closed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::capture::{Capture, Captured};
use crate::command::{HostCommand, Shell};
use crate::host::{Host, SpawnError};
use crate::mark::Mark;
use crate::running::{Control, Exit, RunningCommand, StopOrder, Survivors};

/// A login that takes longer is not worth measuring.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(60);

/// One run, and all commands of it. Dropping it kills them.
///
/// ```standalone_crate
/// # fn main() { symphony_host::init(); tokio::runtime::Runtime::new().unwrap().block_on(run()) }
/// # async fn run() {
/// use std::{sync::Arc, time::Duration};
/// use symphony_host::{HostCommand, RunLimit, LocalHost, Mark, ProcessScope, Shell};
///
/// let scope = ProcessScope::new(Arc::new(LocalHost::new()), Mark::new("example", "1"));
/// let hook = HostCommand::script(Shell::Sh, "echo hello; sleep 1000 &", "/");
/// let finished = scope.run(&hook, RunLimit::new(Duration::from_secs(60))).await.unwrap();
/// assert!(finished.exit.is_success());
/// assert_eq!(finished.output.to_string(), "hello\n");
/// scope.close(Duration::from_secs(5)).await.unwrap(); // the sleeper is gone
/// # }
/// ```
#[derive(Debug)]
pub struct ProcessScope {
    host: Arc<dyn Host>,
    mark: Mark,
    commands: Mutex<Commands>,
}

#[derive(Debug, Default)]
struct Commands {
    closed: bool,
    controls: Vec<Control>,
}

/// How long a command may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunLimit {
    /// Until it is stopped.
    pub timeout: Duration,
    /// Between SIGTERM and SIGKILL then.
    pub grace: Duration,
}

impl RunLimit {
    /// A timeout, and SIGKILL when it is over.
    #[must_use]
    pub const fn new(timeout: Duration) -> Self {
        Self { timeout, grace: Duration::ZERO }
    }

    /// With a grace after the timeout.
    #[must_use]
    pub const fn with_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }
}

/// A command that was run to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// How it ended.
    pub exit: Exit,
    /// The end of what it printed.
    pub output: Captured,
}

/// Why a command was not run to its end.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// It could not be started.
    #[error(transparent)]
    Start(#[from] SpawnError),
    /// It did not end in time. Its tree is gone.
    #[error("did not end within {} ms", after.as_millis())]
    TimedOut {
        /// The limit.
        after: Duration,
        /// The end of what it printed.
        output: Captured,
    },
    /// It is over, but something of its tree cannot be ended.
    #[error(transparent)]
    Survivors(#[from] Survivors),
}

impl ProcessScope {
    /// A new run on a host.
    #[must_use]
    pub fn new(host: Arc<dyn Host>, mark: Mark) -> Self {
        Self { host, mark, commands: Mutex::default() }
    }

    /// Starts a command. If this future or the value is dropped, its tree is killed.
    ///
    /// # Errors
    /// It could not be started, or the scope is closed.
    pub async fn start(&self, command: &HostCommand) -> Result<RunningCommand, SpawnError> {
        let mut running = self.enter(command)?;
        running.started().await?;
        Ok(running)
    }

    /// Starts and keeps hold in one step, so that closing never misses a command.
    fn enter(&self, command: &HostCommand) -> Result<RunningCommand, SpawnError> {
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        if commands.closed {
            return Err(SpawnError::Closed);
        }
        let running = self.host.start(command, &self.mark)?;
        commands.controls.retain(|command| !command.is_gone());
        commands.controls.push(running.control());
        Ok(running)
    }

    /// Runs a command to its end and keeps the end of what it printed, stderr in its place.
    ///
    /// What a successful one left in the background lives until the scope closes (contract 9.5);
    /// otherwise its tree is gone when this returns.
    ///
    /// # Errors
    /// It could not be started, or did not end in time. A code other than zero is not an error here.
    pub async fn run(&self, command: &HostCommand, limit: RunLimit) -> Result<Finished, RunError> {
        let mut running = self.start(&command.clone().merge_output()).await?;
        let mut capture = Capture::new(running.stdout.take());
        match capture.during(tokio::time::timeout(limit.timeout, running.exited())).await {
            Ok(exit) if exit.is_success() => {
                let output = capture.drain().await;
                running.detach();
                // A background writer must not be ended by a closed pipe.
                tokio::spawn(capture.discard());
                Ok(Finished { exit, output })
            }
            Ok(exit) => {
                capture.during(running.stop(limit.grace)).await?;
                Ok(Finished { exit, output: capture.drain().await })
            }
            Err(_) => {
                capture.during(running.stop(limit.grace)).await?;
                Err(RunError::TimedOut { after: limit.timeout, output: capture.drain().await })
            }
        }
    }

    /// How long a login shell takes to start here: what the person's profile costs every command.
    ///
    /// # Errors
    /// It could not be run.
    pub async fn login_time(&self, shell: Shell) -> Result<Duration, RunError> {
        let start = Instant::now();
        self.run(&HostCommand::script(shell, ":", "/"), RunLimit::new(LOGIN_TIMEOUT)).await?;
        Ok(start.elapsed())
    }

    /// Ends every command and returns when nothing is left. Nothing can be started any more.
    ///
    /// # Errors
    /// Something cannot be ended. It goes on being tried.
    pub async fn close(&self, grace: Duration) -> Result<(), Survivors> {
        let commands = self.close_commands(StopOrder::Stop(grace));
        let mut left = Vec::new();
        for mut command in commands {
            if let Err(survivors) = command.wait_until_gone().await {
                left.extend_from_slice(&survivors.processes);
            }
        }
        if left.is_empty() { Ok(()) } else { Err(Survivors { processes: left.into() }) }
    }

    /// Lets nothing start any more, and tells all to end.
    fn close_commands(&self, order: StopOrder) -> Vec<Control> {
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        commands.closed = true;
        commands.controls.iter().for_each(|command| command.order(order));
        commands.controls.clone()
    }
}

impl Drop for ProcessScope {
    fn drop(&mut self) {
        self.close_commands(StopOrder::Kill);
    }
}
