//! `symphony init`: a workflow file to begin with.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

use anstream::println;
use anyhow::{Context as _, bail};

use crate::args::{InitArgs, TrackerKind};

pub(crate) fn init(args: &InitArgs) -> anyhow::Result<ExitCode> {
    let text = match args.tracker {
        TrackerKind::Memory => include_str!("../../templates/memory.md"),
        TrackerKind::Linear => include_str!("../../templates/linear.md"),
    };
    let path = args.workflow.display();
    let mut options = OpenOptions::new();
    options.write(true).create_new(!args.force).create(args.force).truncate(args.force);
    match options.open(&args.workflow) {
        Ok(mut file) => file.write_all(text.as_bytes()).with_context(|| format!("{path}"))?,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{path} is there already; name another file, or replace it with --force");
        }
        Err(error) => return Err(error).with_context(|| format!("{path} cannot be written")),
    }
    println!("Wrote {path}. Next:");
    println!("  symphony check {path}   what it means, and whether it can be used");
    println!("  symphony {path}         run it");
    Ok(ExitCode::SUCCESS)
}
