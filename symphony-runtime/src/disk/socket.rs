//! The unix socket of the service that holds a root, beside its lock (contract 14.7).

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
use rustix::fs::OFlags;
use rustix::fs::{AtFlags, FileType, Mode, Stat};

use super::address::{RootOwner, open_home};
use super::root::{OWN_FOLDER, Root};
use super::{DiskError, file, lock};

const SOCKET_FILE: &str = "socket";

/// The longest path of a socket: `sun_path` has 104 bytes on some systems, with the last one 0.
const MAX_SOCKET_PATH_BYTES: usize = 103;

/// A listening socket beside the lock. Its file is removed when this is dropped.
#[derive(Debug)]
pub struct ServiceSocket {
    own: OwnedFd,
    /// The socket that was made here, to tell it from that of the next service.
    made: Stat,
    /// Keeps the file's number from being used again, where that can be.
    _pinned: Option<OwnedFd>,
    listener: Option<UnixListener>,
}

impl ServiceSocket {
    pub(crate) fn bind(root: &Root) -> Result<Self, DiskError> {
        let path = root.path().join(OWN_FOLDER).join(SOCKET_FILE);
        Self::bind_at(root, &path)
            .map_err(|error| DiskError::io("cannot listen on", &path)(file::errno(&error)))
    }

    fn bind_at(root: &Root, path: &Path) -> io::Result<Self> {
        let own = root.own_folder().try_clone()?;
        // The lock is held, so a socket that is there belongs to a service that has ended.
        file::remove(&own, SOCKET_FILE)?;
        let listener = UnixListener::bind(reachable(path, &own))?;
        let made = restrict(&own)?;
        listener.set_nonblocking(true)?;
        let _pinned = pin(&own);
        Ok(Self { own, made, _pinned, listener: Some(listener) })
    }

    /// Takes the listener, which does not block. `None` the second time.
    pub fn take_listener(&mut self) -> Option<UnixListener> {
        self.listener.take()
    }
}

/// Makes the socket its owner's alone, and returns what it is.
fn restrict(own: &OwnedFd) -> Result<Stat, rustix::io::Errno> {
    rustix::fs::chmodat(own, SOCKET_FILE, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
    rustix::fs::statat(own, SOCKET_FILE, AtFlags::SYMLINK_NOFOLLOW)
}

#[cfg(target_os = "linux")]
fn pin(own: &OwnedFd) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(own, SOCKET_FILE, flags, Mode::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
const fn pin(_own: &OwnedFd) -> Option<OwnedFd> {
    None
}

impl Drop for ServiceSocket {
    fn drop(&mut self) {
        let now = rustix::fs::statat(&self.own, SOCKET_FILE, AtFlags::SYMLINK_NOFOLLOW);
        let is_same = |now: Stat| (now.st_dev, now.st_ino) == (self.made.st_dev, self.made.st_ino);
        if now.is_ok_and(is_same) {
            let _ = file::remove(&self.own, SOCKET_FILE);
        }
    }
}

/// The socket of a running service, found by its workspace root.
#[derive(Debug)]
pub struct FoundSocket {
    path: PathBuf,
    reachable: PathBuf,
    own: OwnedFd,
}

impl FoundSocket {
    /// Finds the socket of the service that uses a workspace root now. Believed under the same
    /// conditions as [`service_address`](crate::service_address), but that root finds those of
    /// other users too: no token is sent there.
    #[must_use]
    pub fn of_root(root: &Path) -> Option<Self> {
        let (home, own) = open_home(root, RootOwner::CallerUnlessRoot)?;
        lock::living_holder(&own)?;
        let found = rustix::fs::statat(&own, SOCKET_FILE, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        (FileType::from_raw_mode(found.st_mode) == FileType::Socket).then_some(())?;
        let path = home.join(OWN_FOLDER).join(SOCKET_FILE);
        let reachable = reachable(&path, &own);
        Some(Self { path, reachable, own })
    }

    /// Returns where the socket is, for people.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path to connect to, which is short enough, and the folder that must stay open
    /// for it.
    #[must_use]
    pub fn into_parts(self) -> (PathBuf, OwnedFd) {
        (self.reachable, self.own)
    }
}

/// A path that fits into the address of a socket: by the folder's descriptor where it is too long.
/// Without `/proc` such a path leads nowhere, and the service says that it has no socket.
fn reachable(path: &Path, own: &OwnedFd) -> PathBuf {
    if path.as_os_str().len() <= MAX_SOCKET_PATH_BYTES {
        return path.to_owned();
    }
    PathBuf::from(format!("/proc/self/fd/{}/{SOCKET_FILE}", own.as_raw_fd()))
}
