//! `symphony completions` and `symphony man`: what is made from the definitions of the arguments.

use std::fs;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Command, CommandFactory as _};
use clap_mangen::Man;

use crate::args::{Args, CompletionsArgs, ManArgs, VERSION};

/// Prints the completions of a shell.
pub(crate) fn completions(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut visible(&documented()), "symphony", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the page of the program, or writes one for each command.
pub(crate) fn man(args: &ManArgs) -> anyhow::Result<ExitCode> {
    match &args.dir {
        Some(folder) => {
            let at = || format!("cannot write into {}", folder.display());
            fs::create_dir_all(folder).with_context(at)?;
            clap_mangen::generate_to(documented(), folder).with_context(at)?;
        }
        None => {
            let mut page = Vec::new();
            Man::new(documented()).render(&mut page)?;
            std::io::stdout().lock().write_all(&page)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn documented() -> Command {
    Args::command().disable_help_subcommand(true)
}

/// The same without what is hidden, which completions would offer.
fn visible(command: &Command) -> Command {
    let arguments = command.get_arguments().filter(|argument| !argument.is_hide_set());
    let below = command.get_subcommands().filter(|below| !below.is_hide_set());
    let copy = Command::new(command.get_name().to_owned())
        .about(command.get_about().cloned().unwrap_or_default())
        .args(arguments.cloned())
        .subcommands(below.map(visible))
        .disable_help_subcommand(true);
    match command.get_version() {
        Some(_) => copy.version(VERSION),
        None => copy,
    }
}
