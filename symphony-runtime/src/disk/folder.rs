//! Moving folders aside and removing them for good, on handles.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::DiskError;
use super::root::{FOLDER, file_type, names};

/// How long somebody may write into a folder that is being removed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Moves what stands under `name` into another folder, under a name of its own there. Gone
/// already is fine.
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
        return match rustix::fs::renameat(from, name, to, &new) {
            Ok(()) | Err(Errno::NOENT) => Ok(new),
            Err(error) => Err(error),
        };
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
pub(super) fn purge(trash: &OwnedFd, label: Option<&str>, path: &Path) -> Result<(), DiskError> {
    let begun = Instant::now();
    let mine = |name: &String| label.is_none_or(|label| label_of(name) == label);
    let mut before = BTreeSet::new();
    loop {
        let found: BTreeSet<String> = names(trash, path)?.into_iter().filter(mine).collect();
        if found.is_empty() {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            return Err(DiskError::Busy { path: path.to_owned() });
        }
        let failed = found.iter().fold(None, |failed, name| failed.or(empty(trash, name).err()));
        if let (Some(error), true) = (failed, found == before) {
            return Err(DiskError::io("cannot remove what is in", path)(error));
        }
        before = found;
    }
}

fn label_of(name: &str) -> &str {
    name.split('~').next().unwrap_or(name)
}

/// Removes one entry of the trash, moving the folders inside it up into the trash.
fn empty(trash: &OwnedFd, name: &str) -> Result<(), Errno> {
    if file_type(trash, name) != Some(FileType::Directory) {
        return gone(rustix::fs::unlinkat(trash, name, AtFlags::empty()));
    }
    let own = CString::new(name).map_err(|_| Errno::INVAL)?;
    make_ours(trash, &own)?;
    let folder = match rustix::fs::openat(trash, name, FOLDER, Mode::empty()) {
        Ok(folder) => folder,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut failed = None;
    for entry in entries(&folder)? {
        let removed = match rustix::fs::unlinkat(&folder, &*entry, AtFlags::empty()) {
            // Linux says that it is a folder, others that it is not permitted. One that we may not
            // write cannot change its parent.
            Err(Errno::ISDIR | Errno::PERM) => make_ours(&folder, &entry)
                .and_then(|()| move_to(&folder, &entry, trash, label_of(name)).map(drop)),
            other => gone(other),
        };
        failed = failed.or(removed.err());
    }
    if let Some(error) = failed {
        return Err(error);
    }
    match rustix::fs::unlinkat(trash, name, AtFlags::REMOVEDIR) {
        // Somebody still writes into it: the next pass sees what is new.
        Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY) => Ok(()),
        Err(error) => Err(error),
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

/// Gives ourselves every right to a folder, through a handle that cannot be a link, so that
/// nothing else is ever changed.
fn make_ours(parent: &OwnedFd, name: &CStr) -> Result<(), Errno> {
    #[cfg(target_os = "linux")]
    {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = match rustix::fs::openat(parent, name, flags, Mode::empty()) {
            Ok(handle) => handle,
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(error),
        };
        let mode = Mode::from_raw_mode(rustix::fs::fstat(&handle)?.st_mode);
        if !mode.contains(Mode::RWXU) {
            rustix::fs::chmod(format!("/proc/self/fd/{}", handle.as_raw_fd()), Mode::RWXU)?;
        }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let _ = rustix::fs::chmodat(parent, name, Mode::RWXU, flags);
    }
    Ok(())
}

fn gone(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}
