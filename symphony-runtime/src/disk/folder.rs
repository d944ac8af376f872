//! Moving folders aside and removing them for good, on handles.

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::DiskError;
use super::root::{FOLDER, file_type, names};

/// Moves what stands under `name` into another folder, under a name of its own there.
pub(super) fn move_to(
    from: &OwnedFd,
    name: &str,
    to: &OwnedFd,
    path: &Path,
) -> Result<String, DiskError> {
    loop {
        let new = format!("{name}~{}", fresh_number());
        if file_type(to, &new).is_some() {
            continue;
        }
        return match rustix::fs::renameat(from, name, to, &new) {
            Ok(()) | Err(Errno::NOENT) => Ok(new),
            Err(error) => Err(DiskError::io("cannot move aside", path)(error)),
        };
    }
}

fn fresh_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Removes everything in the trash whose name begins with `key` and a tilde, or all of it.
///
/// No recursion: a folder inside a folder is first moved up into the trash, so a tree of any depth
/// needs two handles, and every step is on one component of a folder of ours.
pub(super) fn purge(trash: &OwnedFd, key: &str, root: &Path) -> Result<(), DiskError> {
    let prefix = format!("{key}~");
    let mine = |name: &String| key.is_empty() || name.starts_with(&prefix);
    loop {
        let found: Vec<String> = names(trash, root)?.into_iter().filter(mine).collect();
        if found.is_empty() {
            return Ok(());
        }
        for name in found {
            empty(trash, &name, root)?;
        }
    }
}

/// Removes one entry of the trash, moving the folders inside it up into the trash.
fn empty(trash: &OwnedFd, name: &str, root: &Path) -> Result<(), DiskError> {
    let failed = |error| DiskError::io("cannot remove a file under", root)(error);
    if file_type(trash, name) != Some(FileType::Directory) {
        return gone(rustix::fs::unlinkat(trash, name, AtFlags::empty())).map_err(failed);
    }
    let folder = open_whatever_its_mode(trash, name).map_err(failed)?;
    let mut entries: Vec<CString> = Vec::new();
    for entry in Dir::read_from(&folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            entries.push(entry.file_name().to_owned());
        }
    }
    let key = name.split('~').next().unwrap_or(name);
    for entry in entries {
        match rustix::fs::unlinkat(&folder, &*entry, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::ISDIR | Errno::PERM) => loop {
                let new = format!("{key}~{}", fresh_number());
                if file_type(trash, &new).is_none() {
                    gone(rustix::fs::renameat(&folder, &*entry, trash, &new)).map_err(failed)?;
                    break;
                }
            },
            Err(error) => return Err(failed(error)),
        }
    }
    match rustix::fs::unlinkat(trash, name, AtFlags::REMOVEDIR) {
        // Somebody still writes into it: the next pass sees what is new.
        Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY) => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

/// Opens a folder, giving ourselves the right to if its mode does not.
fn open_whatever_its_mode(parent: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    // Through a handle that cannot be a link, so that nothing else is ever changed.
    let path = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let handle = rustix::fs::openat(parent, name, path, Mode::empty())?;
    let through = format!("/proc/self/fd/{}", handle.as_raw_fd());
    rustix::fs::chmod(through, Mode::RWXU)?;
    rustix::fs::openat(parent, name, FOLDER, Mode::empty())
}

fn gone(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}
