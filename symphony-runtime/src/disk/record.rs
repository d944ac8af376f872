//! Records beside the workspaces: whose folder it is, and whether it is ready (contract 4.2).

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use symphony_core::WorkspaceRecord;

use super::DiskError;
use super::root::names;

/// A record as it stands on disk.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Stored {
    #[serde(flatten)]
    pub(super) record: WorkspaceRecord,
    /// Whether `after_create` has run to its end.
    pub(super) ready: bool,
}

pub(super) fn read(records: &OwnedFd, key: &str) -> Option<Stored> {
    let text = read_file(records, &file_name(key)).ok()?;
    serde_json::from_slice(&text).ok()
}

pub(super) fn write(records: &OwnedFd, record: &WorkspaceRecord, ready: bool) -> Result<(), Errno> {
    let stored = Stored { record: record.clone(), ready };
    let text = serde_json::to_vec_pretty(&stored).map_err(|_| Errno::INVAL)?;
    replace_file(records, &file_name(record.key.as_str()), &text)
}

pub(super) fn remove(records: &OwnedFd, key: &str) -> Result<(), Errno> {
    match rustix::fs::unlinkat(records, file_name(key), AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Every record that can be read. A damaged one is told and left alone, and so is its folder.
pub(super) fn all(records: &OwnedFd, root: &Path) -> Result<Vec<WorkspaceRecord>, DiskError> {
    let mut found = Vec::new();
    for name in names(records, root)? {
        let Some(key) = name.strip_suffix(".json") else { continue };
        match read(records, key) {
            Some(stored) if stored.record.key.as_str() == key => found.push(stored.record),
            _ => tracing::warn!(record = %name, root = %root.display(), "a damaged record is ignored"),
        }
    }
    found.sort_by(|a, b| a.issue.cmp(&b.issue));
    Ok(found)
}

fn file_name(key: &str) -> String {
    format!("{key}.json")
}

pub(crate) fn read_file(folder: &OwnedFd, name: &str) -> Result<Vec<u8>, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = rustix::fs::openat(folder, name, flags, Mode::empty())?;
    let mut text = Vec::new();
    let read = File::from(handle).take(1 << 20).read_to_end(&mut text);
    read.map(|_| text).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Replaces a file as a whole: a reader, or a crash, sees the old one or the new one.
pub(crate) fn replace_file(folder: &OwnedFd, name: &str, text: &[u8]) -> Result<(), Errno> {
    let new = format!("{name}~");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = rustix::fs::openat(folder, &new, flags, Mode::RUSR | Mode::WUSR)?;
    let mut file = File::from(handle);
    let written = file.write_all(text).and_then(|()| file.sync_data());
    written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    rustix::fs::renameat(folder, &new, folder, name)
}
