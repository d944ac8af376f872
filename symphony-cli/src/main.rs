//! The `symphony` command: arguments, logging, the table of adapters, exit codes, and nothing else.

mod adapters;
mod args;
mod commands;
mod local;
mod logging;
mod masked;
mod remote;
mod report;
mod table;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, CliCommand};

fn main() -> ExitCode {
    // Every hook and agent runs below a second process of this program: it branches off here.
    symphony_host::init();
    let Args { run, command } = Args::parse();
    let done = match command.unwrap_or(CliCommand::Run(run)) {
        CliCommand::Run(args) => commands::run::run(&args),
        CliCommand::Check(args) => commands::check::check(&args),
        CliCommand::Demo(args) => commands::demo::demo(&args),
        CliCommand::DemoAgent(args) => commands::demo::agent::serve(&args),
        CliCommand::Init(args) => commands::init::init(&args),
        CliCommand::Prompt(args) => commands::prompt::prompt(&args),
        CliCommand::Top(args) => commands::top::top(&args),
        CliCommand::Status(args) => commands::status::status(&args),
        CliCommand::Explain(args) => commands::explain::explain(&args),
    };
    done.unwrap_or_else(|error| {
        // A reader that closes the pipe, as `head` does, has what it wanted.
        let closed = |cause: &std::io::Error| cause.kind() == std::io::ErrorKind::BrokenPipe;
        if error.downcast_ref().is_some_and(closed) {
            return ExitCode::SUCCESS;
        }
        report::error(&error);
        ExitCode::FAILURE
    })
}
