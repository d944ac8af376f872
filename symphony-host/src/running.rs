//! A command that was started: its streams, its end, and how to end it.

use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};

use crate::host::SpawnError;
use crate::process::ProcessId;

/// Where a command's input is written.
pub type Input = Box<dyn AsyncWrite + Send + Unpin>;
/// Where a command's output is read.
pub type Output = Box<dyn AsyncRead + Send + Unpin>;

/// A command that was started. Dropping it kills its whole tree, unless it is [detached](Self::detach).
pub struct RunningCommand {
    /// Its stdin, if asked for. Closing is dropping.
    pub stdin: Option<Input>,
    /// Its stdout.
    pub stdout: Option<Output>,
    /// Its stderr, unless merged.
    pub stderr: Option<Output>,
    control: Control,
    detached: bool,
}

impl RunningCommand {
    /// For those who write a [`Host`](crate::Host): see [`supervision`].
    #[must_use]
    pub const fn new(
        control: Control,
        stdin: Option<Input>,
        stdout: Option<Output>,
        stderr: Option<Output>,
    ) -> Self {
        Self { stdin, stdout, stderr, control, detached: false }
    }

    /// What outlives this value: the orders to the command and its state.
    #[must_use]
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Waits until it really runs.
    ///
    /// # Errors
    /// It could not be started.
    pub async fn started(&mut self) -> Result<(), SpawnError> {
        let state = self.control.until(|state| state.started.is_some() || state.is_over()).await;
        state.started.unwrap_or(Err(SpawnError::HelperLost))
    }

    /// The processes to write into a run record: the command and what supervises it.
    #[must_use]
    pub fn processes(&self) -> Vec<ProcessId> {
        self.control.state.borrow().processes.clone()
    }

    /// Waits until the command itself has ended. What it left in the background may go on.
    pub async fn exited(&mut self) -> Exit {
        let state = self.control.until(|state| state.exit.is_some() || state.is_over()).await;
        state.exit.unwrap_or(Exit::Lost)
    }

    /// Ends it: closes stdin, asks with SIGTERM, kills what is left after the grace. Returns when
    /// the whole tree is gone.
    ///
    /// A caller that took [`Self::stdin`] should have dropped it.
    ///
    /// # Errors
    /// Something cannot be ended. It goes on being tried.
    pub async fn stop(&mut self, grace: Duration) -> Result<Exit, Survivors> {
        self.stdin = None;
        self.control.order(StopOrder::Stop(grace));
        self.control.wait_until_gone().await?;
        Ok(self.exited().await)
    }

    /// Leaves what the command has in the background to its scope, which ends it when it closes.
    pub fn detach(mut self) {
        self.detached = true;
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        if !self.detached {
            self.control.order(StopOrder::Kill);
        }
    }
}

impl fmt::Debug for RunningCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningCommand").field("control", &self.control).finish_non_exhaustive()
    }
}

/// What a supervisor is told to do with a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopOrder {
    /// SIGTERM, and SIGKILL after the grace.
    Stop(Duration),
    /// SIGKILL.
    Kill,
}

impl StopOrder {
    pub(crate) const fn grace(self) -> Duration {
        match self {
            Self::Stop(grace) => grace,
            Self::Kill => Duration::ZERO,
        }
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// With a code.
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// It was not observed: its supervisor was killed.
    Lost,
}

impl Exit {
    /// Whether it ended well.
    #[must_use]
    pub const fn is_success(self) -> bool {
        matches!(self, Self::Code(0))
    }
}

impl From<io::Result<ExitStatus>> for Exit {
    fn from(status: io::Result<ExitStatus>) -> Self {
        match status.map(|status| (status.code(), status.signal())) {
            Ok((Some(code), _)) => Self::Code(code),
            Ok((None, Some(signal))) => Self::Signal(signal),
            Ok((None, None)) | Err(_) => Self::Lost,
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Lost => write!(f, "the loss of its supervisor"),
        }
    }
}

/// What is known of a command and its tree. Each part is told once, in this order.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CommandState {
    /// Whether it could be started.
    pub started: Option<Result<(), SpawnError>>,
    /// The processes a run record should hold.
    pub processes: Vec<ProcessId>,
    /// How the command ended.
    pub exit: Option<Exit>,
    /// What could not be ended in time; tried on.
    pub left: Vec<Survivor>,
    /// Nothing of the tree is left.
    pub gone: bool,
}

impl CommandState {
    pub(crate) fn end(&mut self) {
        self.gone = true;
        self.left.clear();
    }

    const fn is_over(&self) -> bool {
        self.gone || !self.left.is_empty()
    }
}

/// Orders to one command, and its state.
#[derive(Clone, Debug)]
pub struct Control {
    orders: mpsc::UnboundedSender<StopOrder>,
    state: watch::Receiver<CommandState>,
}

/// The two ends of a supervision: one for [`RunningCommand`], one for the task that supervises.
///
/// The task tells what happens through the sender. When all orders' senders are gone it kills.
#[must_use]
pub fn supervision() -> (Control, mpsc::UnboundedReceiver<StopOrder>, watch::Sender<CommandState>) {
    let (orders, receiver) = mpsc::unbounded_channel();
    let (sender, state) = watch::channel(CommandState::default());
    (Control { orders, state }, receiver, sender)
}

impl Control {
    pub(crate) fn order(&self, order: StopOrder) {
        // A supervisor that does not listen any more has ended the tree.
        let _ = self.orders.send(order);
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.state.borrow().gone
    }

    /// Waits until nothing is left.
    pub(crate) async fn wait_until_gone(&mut self) -> Result<(), Survivors> {
        let state = self.until(CommandState::is_over).await;
        if state.gone { Ok(()) } else { Err(Survivors { processes: state.left.into() }) }
    }

    async fn until(&mut self, is_so: impl FnMut(&CommandState) -> bool) -> CommandState {
        // An error means that the supervisor is gone with its runtime: then the last state counts.
        let _ = self.state.wait_for(is_so).await;
        self.state.borrow().clone()
    }
}

/// A process that is still there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivor {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
}

/// Processes could not be ended: another user's, or stuck in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivors {
    /// Which.
    pub processes: Arc<[Survivor]>,
}

impl fmt::Display for Survivors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.processes.is_empty() {
            return f.write_str("it is not supervised any more");
        }
        f.write_str("could not be ended:")?;
        self.processes.iter().try_for_each(|left| write!(f, " {} ({})", left.pid, left.name))
    }
}

impl std::error::Error for Survivors {}
