//! Records beside the workspaces: whose folder it is, and whether it is ready (contract 4.2).

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use symphony_core::WorkspaceRecord;

use super::root::{OWN_FOLDER, names};
use super::{DiskError, file};

/// A record as it stands on disk.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Stored {
    #[serde(flatten)]
    pub(super) record: WorkspaceRecord,
    /// Whether `after_create` has run to its end.
    pub(super) ready: bool,
}

pub(super) fn read(records: &OwnedFd, key: &str) -> Option<Stored> {
    let text = file::read(records, &file_name(key)).ok()?;
    let stored: Stored = serde_json::from_slice(&text).ok()?;
    (stored.record.key.as_str() == key).then_some(stored)
}

pub(super) fn write(records: &OwnedFd, record: &WorkspaceRecord, ready: bool) -> Result<(), Errno> {
    let stored = Stored { record: record.clone(), ready };
    let text = serde_json::to_vec_pretty(&stored).map_err(|_| Errno::INVAL)?;
    file::replace(records, &file_name(record.key.as_str()), &text)
}

pub(super) fn remove(records: &OwnedFd, key: &str) -> Result<(), Errno> {
    file::remove(records, &file_name(key))
}

/// Whether there are records below a root that is not open.
pub(super) fn has_records(root: &Path) -> bool {
    let records = root.join(OWN_FOLDER).join("records");
    std::fs::read_dir(records).is_ok_and(|mut names| names.next().is_some())
}

/// Every record that can be read. A damaged one is told and passed over.
///
/// A record lies beside its folder, so that is where the folder is, whatever the record says: the
/// root may have been moved since.
pub(super) fn all(records: &OwnedFd, root: &Path) -> Result<Vec<WorkspaceRecord>, DiskError> {
    let mut found = Vec::new();
    for name in names(records, root)? {
        let Some(key) = name.strip_suffix(".json") else { continue };
        match read(records, key) {
            Some(stored) => found.push(WorkspaceRecord { path: root.join(key), ..stored.record }),
            None => {
                tracing::warn!(record = %name, root = %root.display(), "a damaged record is ignored");
            }
        }
    }
    found.sort_by(|a, b| a.issue.cmp(&b.issue));
    Ok(found)
}

fn file_name(key: &str) -> String {
    format!("{key}.json")
}
