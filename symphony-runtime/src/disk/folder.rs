//! Moving folders aside and removing them for good, on handles.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Dir, FileType};
use rustix::io::Errno;

use super::DiskError;
use super::mode::{make_ours, open_folder};
use super::root::{file_type, names, owner};
use crate::plain::safe;

/// How long a process may write into a folder that is being removed.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(60);

/// Moves what stands under `name` into another folder, under a name of its own there. Gone
/// already is fine. A folder that we may not write cannot change its parent: then it is opened to
/// us first.
pub(super) fn move_to(
    from: &OwnedFd,
    name: &CStr,
    to: &OwnedFd,
    label: &str,
) -> Result<String, Errno> {
    loop {
        let new = format!("{label}~{}", fresh_number());
        if file_type(to, &new).is_some() {
            continue;
        }
        let moved = match rustix::fs::renameat(from, name, to, &new) {
            Err(Errno::ACCESS) => {
                make_ours(from, name).and_then(|()| rustix::fs::renameat(from, name, to, &new))
            }
            other => other,
        };
        return ignore_missing(moved).map(|()| new);
    }
}

fn fresh_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Removes everything in the trash that is labelled so, or all of it.
///
/// No recursion: a folder inside a folder is first moved up into the trash, so a tree of any depth
/// needs two handles, and every step is on one component of a folder of ours. What cannot be
/// removed, such as another user's, keeps nothing else on the disk.
///
/// `path` is where the trash is.
pub(super) fn purge(trash: &OwnedFd, label: Option<&str>, path: &Path) -> Result<(), DiskError> {
    let begun = Instant::now();
    let mine = |name: &String| label.is_none_or(|label| label_of(name) == label);
    let mut before = BTreeSet::new();
    loop {
        let found: BTreeSet<String> = names(trash, path)?.into_iter().filter(mine).collect();
        if found.is_empty() {
            return Ok(());
        }
        if begun.elapsed() > REMOVAL_TIMEOUT {
            return Err(DiskError::Busy { path: path.to_owned() });
        }
        let failed = found.iter().fold(None, |failed, name| failed.or(empty(trash, name).err()));
        if let (Some(stuck), true) = (failed, found == before) {
            return Err(DiskError::denied("cannot remove", path.join(stuck.name), stuck.owner)(
                stuck.why,
            ));
        }
        before = found;
    }
}

fn label_of(name: &str) -> &str {
    name.split('~').next().unwrap_or(name)
}

/// What could not be removed.
struct Stuck {
    /// Below the trash.
    name: PathBuf,
    owner: Option<u32>,
    why: Errno,
}

/// Removes one entry of the trash, moving the folders inside it up into the trash.
fn empty(trash: &OwnedFd, name: &str) -> Result<(), Stuck> {
    let stuck = |why| Stuck { name: name.into(), owner: owner(trash, name), why };
    if file_type(trash, name) != Some(FileType::Directory) {
        return ignore_missing(rustix::fs::unlinkat(trash, name, AtFlags::empty())).map_err(stuck);
    }
    make_ours(trash, name).map_err(stuck)?;
    let folder = match open_folder(trash, name) {
        Ok(folder) => folder,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(stuck(error)),
    };
    let mut failed = None;
    for entry in entries(&folder).map_err(stuck)? {
        if let Err(why) = remove_entry(&folder, &entry, trash, label_of(name)) {
            // An agent has named it.
            let name = Path::new(name).join(safe(entry.to_string_lossy()));
            failed = failed.or(Some(Stuck { name, owner: owner(&folder, &*entry), why }));
        }
    }
    if let Some(failed) = failed {
        return Err(failed);
    }
    match rustix::fs::unlinkat(trash, name, AtFlags::REMOVEDIR) {
        // A process still writes into it: the next pass sees what is new.
        Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY) => Ok(()),
        Err(error) => Err(stuck(error)),
    }
}

fn remove_entry(folder: &OwnedFd, entry: &CStr, trash: &OwnedFd, label: &str) -> Result<(), Errno> {
    match rustix::fs::unlinkat(folder, entry, AtFlags::empty()) {
        // Linux says that it is a folder, others that it is not permitted. Another user's that is
        // empty can be removed, but not moved.
        Err(Errno::ISDIR | Errno::PERM) => {
            move_to(folder, entry, trash, label).map(drop).or_else(|error| {
                ignore_missing(rustix::fs::unlinkat(folder, entry, AtFlags::REMOVEDIR))
                    .map_err(|_| error)
            })
        }
        other => ignore_missing(other),
    }
}

fn entries(folder: &OwnedFd) -> Result<Vec<CString>, Errno> {
    let mut entries = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            entries.push(entry.file_name().to_owned());
        }
    }
    Ok(entries)
}

fn ignore_missing(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}
