//! `symphony run`: a workflow file, until a signal ends it.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use symphony_codex::{CODEX, login_shell};
use symphony_core::finding::Severity;
use symphony_core::problem::Problem;
use symphony_host::{Host, LocalHost};
use symphony_http::Server;
use symphony_runtime::{Handle, Service, ServiceEnd, StartError, plain, state_folder};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tracing::{info, warn};

use super::dashboard;
use super::scope_locks::ScopeLocks;
use super::signals::{Said, Signals};
use super::storage;
use crate::args::RunArgs;
use crate::logging::{self, Log};
use crate::{adapters, report};

/// Below the folder for logs: what is said with agents, a file for each run.
const TRANSCRIPTS_FOLDER: &str = "runs";

/// The variable with what is logged.
const LOG_VARIABLE: &str = "SYMPHONY_LOG";

pub(crate) fn run(args: &RunArgs, filter: Option<&str>) -> anyhow::Result<ExitCode> {
    let variable = std::env::var(LOG_VARIABLE).ok();
    let log = logging::start(&args.logging, filter.or(variable.as_deref()))?;
    symphony_host::harden().context("this process cannot be closed to its agents")?;
    let runtime = super::tokio()?;
    let done = runtime.block_on(serve(args, &log));
    // A disk that hangs must not keep a service from ending.
    runtime.shutdown_background();
    done
}

async fn serve(args: &RunArgs, log: &Log) -> anyhow::Result<ExitCode> {
    // Before the start, so that no signal falls between.
    let mut signals = Signals::new()?;
    let mut builder = Service::builder().workflow(&args.workflow).registry(adapters::registry());
    if let Some(folder) = &args.logging.logs_root {
        // Statuses name the files, and are read elsewhere.
        let folder = std::path::absolute(folder).context("--logs-root")?;
        builder = builder.transcripts(folder.join(TRANSCRIPTS_FOLDER));
    }
    let inspection = super::inspect(&args.workflow, args.port);
    if inspection.usable.is_none() {
        return refuse(args, &inspection.text, &inspection.problems);
    }
    if let Some(settings) = &inspection.settings {
        builder = builder.store(storage::open(settings, &args.workflow).await?);
    }
    drop(inspection);
    if let Some(folder) = state_folder(&super::CliEnv) {
        builder = builder.scope_guard(ScopeLocks::new(&folder, &args.workflow, args.allow_second));
    }
    let built = tokio::select! {
        built = builder.build() => built,
        () = signals.stop() => {
            info!("asked to stop before the service has started");
            return Ok(ExitCode::SUCCESS);
        }
    };
    let service = match built {
        Ok(service) => service,
        // It was changed a moment ago.
        Err(StartError::Workflow(problems)) => return refuse(args, "", &problems),
        Err(error) => return Err(error.into()),
    };
    let handle = service.handle();
    log.settings().apply(&service.settings().logging);
    tokio::spawn(log.settings().follow(handle.clone()));
    let server = super::listen(service.settings(), args.port).await?;
    let _announced = server.as_ref().and_then(|server| super::announce(&service, server));
    let address = server.as_ref().map(Server::address);
    let _serving = server.map(|server| super::serve(server, &handle));
    if service.settings().agent.kind == CODEX {
        tokio::spawn(log_login_time());
    }
    let (interrupt, interrupts) = unbounded_channel();
    let observability = service.settings().observability.clone();
    let wanted = observability.dashboard_enabled && !args.no_dashboard && dashboard::is_able();
    let shown =
        wanted.then(|| dashboard::show(&handle, &observability, address, interrupt)).flatten();
    tokio::select! {
        ended = service.run() => {
            if let ServiceEnd::Killed(runs) = ended {
                warn!(runs = runs.len(), "runs that did not end in time were killed");
            }
            Ok(ExitCode::SUCCESS)
        }
        // Dropping the service ends every agent at once, and so does the end of this process.
        () = handle_signals(signals, interrupts, &handle) => {
            warn!("asked to stop a second time: ending at once");
            Ok(ExitCode::SUCCESS)
        }
        never = dashboard::until_left(shown) => match never {},
    }
}

/// Says what is wrong with the file.
fn refuse(args: &RunArgs, text: &str, problems: &[Problem]) -> anyhow::Result<ExitCode> {
    report::to_stderr(&args.workflow, text, problems);
    anyhow::bail!("{} cannot be used; see above", args.workflow.display());
}

/// What the login profile costs every agent before it runs.
async fn log_login_time() {
    let host: Arc<dyn Host> = Arc::new(LocalHost::new());
    let finding = login_shell(&host).await;
    let text = plain(&finding.text, 500);
    match finding.severity {
        Severity::Fine => info!("{text}"),
        Severity::Doubtful | Severity::Wrong => warn!("{text}"),
    }
}

/// Passes signals on, and what a dashboard hears instead of one; returns when asked to stop for
/// the second time.
async fn handle_signals(
    mut signals: Signals,
    mut interrupts: UnboundedReceiver<()>,
    handle: &Handle,
) {
    let mut stopping = false;
    loop {
        let said = tokio::select! {
            said = signals.next() => said,
            Some(()) = interrupts.recv() => Said::Stop,
        };
        match said {
            Said::HangUp => {
                info!("asked to poll now");
                let _ = handle.poll_now();
            }
            Said::Stop if stopping => return,
            Said::Stop => {
                stopping = true;
                info!("asked to stop: ending all agents; a second time ends at once");
                let _ = handle.shut_down();
            }
        }
    }
}
