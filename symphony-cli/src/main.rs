//! The `symphony` command: arguments, logging, the table of adapters, exit codes, and nothing else.

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

use args::{Args, CliCommand, LoggingArgs};

fn main() -> ExitCode {
    // Every hook and agent runs below a second process of this program: it branches off here.
    symphony_host::init();
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
        #[cfg(feature = "sqlite")]
        CliCommand::State(args) => commands::state::state(args),
    }
}
