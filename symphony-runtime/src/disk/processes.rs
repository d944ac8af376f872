//! Run records: the processes of live runs, for the next life to end (contract 14.3).

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::io::Errno;
use symphony_core::run::RunId;
use symphony_host::ProcessId;

use super::root::names;
use super::{DiskError, file};

/// One line per process.
pub(super) fn write(runs: &OwnedFd, run: RunId, processes: &[ProcessId]) -> Result<(), Errno> {
    let lines: String = processes.iter().map(|process| format!("{process}\n")).collect();
    file::replace_quickly(runs, &run.to_string(), lines.as_bytes())
}

pub(super) fn remove(runs: &OwnedFd, run: RunId) -> Result<(), Errno> {
    file::remove(runs, &run.to_string())
}

/// Everything that is recorded. A line that says nothing is passed over.
pub(super) fn all(runs: &OwnedFd, root: &Path) -> Result<Vec<ProcessId>, DiskError> {
    let mut found = Vec::new();
    for name in names(runs, root)? {
        let text = file::read(runs, &name).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        found.extend(text.lines().filter_map(|line| line.trim().parse::<ProcessId>().ok()));
    }
    Ok(found)
}

/// Forgets everything.
pub(super) fn clear(runs: &OwnedFd, root: &Path) -> Result<(), DiskError> {
    for name in names(runs, root)? {
        file::remove(runs, &name).map_err(DiskError::io("cannot remove a run record in", root))?;
    }
    Ok(())
}
