//! The `symphony` command: arguments, logging, the table of adapters, exit codes, and nothing else.
//!
//! It is a library too, for a command that knows adapters of your own besides: [`main_with`] takes
//! what may be named in a workflow file, and all of `run`, `check`, `top`, `explain` works with it.

mod adapters;
mod args;
mod command_name;
mod commands;
mod local;
mod logging;
mod masked;
mod remote;
mod report;
mod table;

use std::process::ExitCode;

use args::{Args, CliCommand, IssueSubcommand, LoggingArgs};
use commands::steer::{self, IssueCommand, ServiceCommand};

pub use adapters::bundled as registry;

/// Runs the command with these kinds of tracker and agent, as the arguments of the process say. It
/// is called first thing in `main`; the registry is made anew each time that a file is read.
///
/// ```no_run
/// use std::process::ExitCode;
/// use std::sync::Arc;
///
/// fn main() -> ExitCode {
///     symphony_cli::main_with(|| {
///         let mut registry = symphony_cli::registry();
///         registry.add_tracker(Arc::new(symphony_memory::MemoryFactory::new())); // or your own
///         registry
///     })
/// }
/// ```
pub fn main_with(
    registry: impl Fn() -> symphony_runtime::Registry + Send + Sync + 'static,
) -> ExitCode {
    // Every hook and agent runs below a second process of this program: it branches off here.
    symphony_host::init();
    adapters::use_registry(registry);
    let Args { run, log, command } = command_name::parse();
    let command = command.unwrap_or(CliCommand::Run(run));
    perform(&command, log.as_deref()).unwrap_or_else(|error| {
        // A reader that closes the pipe, as `head` does, has what it wanted.
        let closed = |cause: &std::io::Error| cause.kind() == std::io::ErrorKind::BrokenPipe;
        if error.downcast_ref().is_some_and(closed) {
            return ExitCode::SUCCESS;
        }
        report::error(&error);
        ExitCode::FAILURE
    })
}

fn perform(command: &CliCommand, log: Option<&str>) -> anyhow::Result<ExitCode> {
    if let CliCommand::Run(args) = command {
        return commands::run::run(args, log);
    }
    let _log =
        log.map(|filter| logging::start(&LoggingArgs::default(), Some(filter))).transpose()?;
    match command {
        CliCommand::Run(args) => commands::run::run(args, log),
        CliCommand::Check(args) => commands::check::check(args),
        CliCommand::Demo(args) => commands::demo::demo(args),
        CliCommand::DemoAgent(args) => commands::demo::agent::serve(args),
        CliCommand::Init(args) => commands::init::init(args),
        CliCommand::Prompt(args) => commands::prompt::prompt(args),
        CliCommand::Top(args) => commands::top::top(args),
        CliCommand::Status(args) => commands::status::status(args),
        CliCommand::Explain(args) => commands::explain::explain(args),
        CliCommand::Pause(args) => steer::service(ServiceCommand::Pause, args),
        CliCommand::Resume(args) => steer::service(ServiceCommand::Resume, args),
        CliCommand::Refresh(args) => steer::service(ServiceCommand::Refresh, args),
        CliCommand::ClearHolds(args) => steer::service(ServiceCommand::ClearHolds, args),
        CliCommand::Stop(args) => steer::issue(IssueCommand::Stop, args),
        CliCommand::Retry(args) => steer::issue(IssueCommand::Retry, args),
        CliCommand::Logs(args) => commands::logs::logs(args),
        CliCommand::Doctor(args) => commands::doctor::doctor(args),
        CliCommand::Issue(IssueSubcommand::Add(args)) => commands::issue_add::add(args),
        CliCommand::Schema => commands::schema::schema(),
        CliCommand::Completions(args) => commands::generated::completions(args),
        CliCommand::Man(args) => commands::generated::man(args),
    }
}
