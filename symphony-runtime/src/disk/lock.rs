//! One service per workspace root (contract 14.3).
//!
//! Two locks: one on the root's own folder, which cannot be replaced unnoticed, and one on a file,
//! which older versions know and which names the holder. The kernel frees both when the process
//! ends, however it ends.

use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{AtFlags, FlockOperation, OFlags, fstat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use symphony_core::time::Wall;
use symphony_host::ProcessId;

use super::root::is_same;
use super::{DiskError, file, mode};
use crate::clock::wall_now;

const LOCK_FILE: &str = "lock";

/// How many times a lock is tried again whose holder is ending. A child that a killed holder had
/// forked keeps the lock's descriptor until it calls exec: a moment.
const LOCK_RETRIES: u32 = 100;
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// How many times the file may be replaced while it is being locked.
const MAX_REPLACEMENTS: u32 = 16;

/// The locks of a root, held as long as this and the root's handle live.
#[derive(Debug)]
pub(super) struct RootLock {
    file: Mutex<File>,
    /// Whether the root's folder is locked too, which some file systems cannot do.
    folder_is_locked: bool,
}

/// The holder of a lock, as far as it could be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LockHolder {
    /// The PID of the holder.
    pub pid: Option<u32>,
    /// When it took the lock.
    pub since: Option<Wall>,
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(pid) = self.pid {
            write!(f, "process {pid}")?;
            if let Some(since) = self.since {
                write!(f, " since {since}")?;
            }
            f.write_str("; ")?;
        }
        f.write_str("stop it, or set another workspace.root")
    }
}

impl LockHolder {
    /// Combines what the kernel and the file say. Any process of the user can write the file, or remove it.
    fn read(locked: impl AsFd, own_folder: &OwnedFd) -> Self {
        let written = file::read(own_folder, LOCK_FILE).unwrap_or_default();
        let written: Self = serde_json::from_slice(&written).unwrap_or_default();
        match kernel_holder(locked) {
            Some(pid) if written.pid != Some(pid) => Self { pid: Some(pid), since: None },
            _ => written,
        }
    }

    /// Whether the lock may be free in a moment: the holder is known and gone, or it is this
    /// process, where the last tasks of an earlier service may still be ending.
    fn may_release(&self) -> bool {
        let is_gone = |pid| !ProcessId::from_pid(pid).is_some_and(ProcessId::is_alive);
        self.pid.is_some_and(|pid| pid == std::process::id() || is_gone(pid))
    }
}

impl RootLock {
    /// Takes both locks. Where the folder cannot be locked, the file's lock alone counts.
    pub(super) fn take(
        folder: &OwnedFd,
        own_folder: &OwnedFd,
        root: &Path,
    ) -> Result<Self, DiskError> {
        let folder_is_locked = match acquire(folder, own_folder, root) {
            Ok(()) => true,
            Err(DiskError::Io { source, .. }) => {
                tracing::warn!(
                    root = %root.display(),
                    error = %source,
                    "the root's folder cannot be locked, only ~symphony/lock: removing that lets a second service in"
                );
                false
            }
            Err(error) => return Err(error),
        };
        Ok(Self { file: Mutex::new(lock_file(own_folder, root)?), folder_is_locked })
    }

    /// Whether the root is still ours alone. A lock file that was removed or replaced is made anew
    /// while the folder's lock keeps other services out.
    pub(super) fn check(&self, own_folder: &OwnedFd, root: &Path) -> Result<(), DiskError> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if is_current(own_folder, &file) {
            return Ok(());
        }
        if !self.folder_is_locked {
            return Err(DiskError::LockLost { path: root.to_owned() });
        }
        *file = lock_file(own_folder, root)?;
        tracing::warn!(root = %root.display(), "the lock file was removed or replaced; it was made anew");
        Ok(())
    }
}

/// The process that holds the lock in a folder now, as far as that can be told without taking it.
pub(super) fn living_holder(own_folder: &OwnedFd) -> Option<u32> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let handle = mode::open(own_folder, LOCK_FILE, flags).ok()?;
    let pid = LockHolder::read(&handle, own_folder).pid?;
    ProcessId::from_pid(pid).is_some_and(ProcessId::is_alive).then_some(pid)
}

/// Opens and locks the lock file, makes sure that it still has its name, and writes the holder into
/// it.
fn lock_file(own_folder: &OwnedFd, root: &Path) -> Result<File, DiskError> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for _ in 0..MAX_REPLACEMENTS {
        let handle =
            mode::open(own_folder, LOCK_FILE, flags).map_err(DiskError::io("cannot lock", root))?;
        acquire(&handle, own_folder, root)?;
        let mut file = File::from(handle);
        if is_current(own_folder, &file) {
            let holder = LockHolder { pid: Some(std::process::id()), since: Some(wall_now()) };
            let text = serde_json::to_vec(&holder).unwrap_or_default();
            // Only for people: a lock without a name is a lock.
            let _ =
                file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(&text));
            return Ok(file);
        }
    }
    Err(DiskError::LockLost { path: root.to_owned() })
}

/// Takes a lock that is free, or will be in a moment.
fn acquire(handle: &OwnedFd, own_folder: &OwnedFd, root: &Path) -> Result<(), DiskError> {
    let mut tries = 0;
    while let Err(error) = rustix::fs::flock(handle, FlockOperation::NonBlockingLockExclusive) {
        if error == Errno::INTR {
            continue;
        }
        if error != Errno::WOULDBLOCK {
            return Err(DiskError::io("cannot lock", root)(error));
        }
        let holder = LockHolder::read(handle, own_folder);
        if tries == LOCK_RETRIES || !holder.may_release() {
            return Err(DiskError::Locked { path: root.to_owned(), holder });
        }
        tries += 1;
        std::thread::sleep(LOCK_RETRY_INTERVAL);
    }
    Ok(())
}

/// Whether the lock file's name still leads to this file.
fn is_current(own_folder: &OwnedFd, file: &File) -> bool {
    is_same(rustix::fs::statat(own_folder, LOCK_FILE, AtFlags::SYMLINK_NOFOLLOW), fstat(file))
}

/// The process that the kernel lists as the holder of a lock, where it lists one.
#[cfg(target_os = "linux")]
fn kernel_holder(locked: impl AsFd) -> Option<u32> {
    let stat = fstat(locked).ok()?;
    let (major, minor) = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
    let inode = format!("{major:02x}:{minor:02x}:{}", stat.st_ino);
    let locks = File::open("/proc/locks").ok()?;
    let mut text = String::new();
    locks.take(1 << 20).read_to_string(&mut text).ok()?;
    text.lines().find_map(|line| {
        // 1: FLOCK  ADVISORY  WRITE 4711 fe:00:5309531 0 EOF
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let is_this_lock =
            fields.get(1) == Some(&"FLOCK") && fields.get(5) == Some(&inode.as_str());
        if !is_this_lock {
            return None;
        }
        fields.get(4)?.parse().ok().filter(|&pid| pid != 0)
    })
}

#[cfg(not(target_os = "linux"))]
fn kernel_holder(_: impl AsFd) -> Option<u32> {
    None
}
