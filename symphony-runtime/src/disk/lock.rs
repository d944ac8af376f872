//! One service per workspace root (contract 14.3).

use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::DiskError;

/// The lock of a root, held as long as this lives. The kernel frees it when the process ends,
/// however it ends.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

/// Who holds a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockHolder {
    /// Its process.
    pub pid: Option<u32>,
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {pid}; stop it, or set another workspace.root"),
            None => f.write_str("stop it, or set another workspace.root"),
        }
    }
}

impl Lock {
    pub(super) fn take(own: BorrowedFd<'_>, root: &Path) -> Result<Self, DiskError> {
        let failed = |error| DiskError::io("cannot lock", root)(error);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(own, "lock", flags, Mode::RUSR | Mode::WUSR);
        let mut file = File::from(handle.map_err(failed)?);
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut text = String::new();
                let _ = (&mut file).take(4096).read_to_string(&mut text);
                let holder = serde_json::from_str(&text).unwrap_or_default();
                return Err(DiskError::Locked { path: root.to_owned(), holder });
            }
            Err(error) => return Err(failed(error)),
        }
        let holder = LockHolder { pid: Some(std::process::id()) };
        let text = serde_json::to_vec(&holder).unwrap_or_default();
        // Only for people: a lock without a name is a lock.
        let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(&text));
        Ok(Self { _file: file })
    }
}
