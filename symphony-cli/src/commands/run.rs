//! `symphony run`: a workflow file, until someone says stop.

use std::process::ExitCode;

use anyhow::Context as _;
use symphony_runtime::{Ended, Handle, Service, StartError, inspect};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

use crate::args::RunArgs;
use crate::{adapters, logging, report};

pub(crate) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let _log = logging::start(&args.logging)?;
    symphony_host::harden().context("this process cannot be closed to its agents")?;
    let runtime = super::tokio()?;
    let done = runtime.block_on(serve(args));
    // A disk that hangs must not keep a service from ending.
    runtime.shutdown_background();
    done
}

async fn serve(args: &RunArgs) -> anyhow::Result<ExitCode> {
    // Before the start, so that no signal falls between.
    let mut signals = Signals::new().context("signals cannot be heard")?;
    let builder = Service::builder().workflow(&args.workflow).registry(adapters::registry());
    let service = match builder.build().await {
        Ok(service) => service,
        Err(StartError::Workflow(problems)) => {
            let text = inspect(&args.workflow, &adapters::registry()).text;
            report::to_stderr(&args.workflow, &text, &problems);
            anyhow::bail!("{} cannot be used; see above", args.workflow.display());
        }
        Err(error) => return Err(error.into()),
    };
    let handle = service.handle();
    tokio::select! {
        ended = service.run() => {
            if let Ended::Killed(runs) = ended {
                warn!(runs = runs.len(), "runs that did not end in time were killed");
            }
            Ok(ExitCode::SUCCESS)
        }
        // Dropping the service ends every agent at once, and so does the end of this process.
        () = signals.obey(&handle) => {
            warn!("asked to stop a second time: ending at once");
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// What an operator says by signals (contract 14.2, 4.7).
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Passes signals on; returns when asked to stop for the second time.
    async fn obey(&mut self, handle: &Handle) {
        let mut stopping = false;
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => {}
                _ = self.terminate.recv() => {}
                _ = self.hangup.recv() => {
                    info!("asked to poll now");
                    let _ = handle.poll_now();
                    continue;
                }
            }
            if std::mem::replace(&mut stopping, true) {
                return;
            }
            info!("asked to stop: ending all agents; a second time ends at once");
            let _ = handle.shut_down();
        }
    }
}
