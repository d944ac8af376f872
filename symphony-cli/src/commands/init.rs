//! `symphony init`: a workflow file to begin with.

use std::fs::Permissions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
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
    // A link stays a link: what it leads to is replaced.
    let target = match args.workflow.canonicalize() {
        Ok(target) if args.force => target,
        _ => std::path::absolute(&args.workflow).with_context(|| format!("{path}"))?,
    };
    match write(&target, text, args.force) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{path} is there already; name another file, or replace it with --force");
        }
        written => written.with_context(|| format!("{path} cannot be written"))?,
    }
    println!("Wrote {path}. Next:");
    println!("  symphony check {path}   what it means, and whether it can be used");
    println!("  symphony {path}         run it");
    Ok(ExitCode::SUCCESS)
}

/// Writes beside the target and renames: a full disk does not destroy the file that was there.
fn write(target: &Path, text: &str, replace: bool) -> std::io::Result<()> {
    let usual = Permissions::from_mode(0o666); // less what the umask takes
    let folder = target.parent().unwrap_or(target);
    let mut file = tempfile::Builder::new().permissions(usual).tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    if replace {
        file.persist(target)?
    } else {
        file.persist_noclobber(target)?
    };
    Ok(())
}
