//! What an operator says by signals (contract 14.2, 4.7).

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// SIGINT, which is Ctrl-C, or SIGTERM.
    Stop,
    /// SIGHUP.
    HangUp,
}

/// From its making on, no signal is lost and none ends this process by itself.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    /// To be called within a tokio runtime.
    pub(super) fn new() -> anyhow::Result<Self> {
        let hear = |kind| signal(kind).context("signals cannot be heard");
        Ok(Self {
            interrupt: hear(SignalKind::interrupt())?,
            terminate: hear(SignalKind::terminate())?,
            hang_up: hear(SignalKind::hangup())?,
        })
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> Said {
        tokio::select! {
            _ = self.interrupt.recv() => Said::Stop,
            _ = self.terminate.recv() => Said::Stop,
            _ = self.hang_up.recv() => Said::HangUp,
        }
    }

    /// The next one that says stop.
    pub(super) async fn stop(&mut self) {
        while self.next().await != Said::Stop {}
    }
}
