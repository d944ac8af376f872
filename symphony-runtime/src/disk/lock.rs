//! One service per workspace root (contract 14.3).

use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use symphony_core::time::Wall;
use symphony_host::ProcessId;

use super::DiskError;
use crate::clock::wall_now;

/// How often to look again at a lock whose holder lets go of it. A child that the holder was about
/// to start when it was killed has its open files until it becomes another program: a moment.
const LOOKS: u32 = 100;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// The lock of a root, held as long as this lives. The kernel frees it when the process ends,
/// however it ends.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

/// Who holds a lock, as far as it could be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LockHolder {
    /// Its process.
    pub pid: Option<u32>,
    /// Since when.
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
    /// Whether it is known by name and no longer there; or it is this process, in which an earlier
    /// service may have ended whose last tasks are being dropped.
    fn may_let_go(&self) -> bool {
        let is_gone = |pid| !ProcessId::of(pid).is_some_and(ProcessId::is_alive);
        self.pid.is_some_and(|pid| pid == std::process::id() || is_gone(pid))
    }
}

impl Lock {
    pub(super) fn take(own: &OwnedFd, root: &Path) -> Result<Self, DiskError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(own, "lock", flags, Mode::RUSR | Mode::WUSR);
        let mut file = File::from(handle.map_err(DiskError::io("cannot lock", root))?);
        let mut looks = 0;
        while let Err(error) = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            if error != Errno::WOULDBLOCK {
                return Err(DiskError::io("cannot lock", root)(error));
            }
            let holder = holder(&mut file);
            if looks == LOOKS || !holder.may_let_go() {
                return Err(DiskError::Locked { path: root.to_owned(), holder });
            }
            looks += 1;
            std::thread::sleep(BETWEEN_LOOKS);
        }
        let holder = LockHolder { pid: Some(std::process::id()), since: Some(wall_now()) };
        let text = serde_json::to_vec(&holder).unwrap_or_default();
        // Only for people: a lock without a name is a lock.
        let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(&text));
        Ok(Self { _file: file })
    }
}

/// What is written in the lock.
fn holder(file: &mut File) -> LockHolder {
    let mut text = String::new();
    let _ = file.rewind().and_then(|()| file.take(4096).read_to_string(&mut text));
    serde_json::from_str(&text).unwrap_or_default()
}
