//! Where the service that holds a root answers: a file beside its lock, for commands on the same
//! machine (contract 14.5).

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, fstat};
use serde::{Deserialize, Serialize};

use super::root::{HOME_FILE, OWN_FOLDER, Root};
use super::{DiskError, file, lock};

const ADDRESS_FILE: &str = "address";

/// What the file says. The process tells an address that a killed service has left.
#[derive(Debug, Serialize, Deserialize)]
struct AddressRecord {
    pid: u32,
    url: String,
}

impl AddressRecord {
    fn read(own_folder: &OwnedFd) -> Option<Self> {
        serde_json::from_slice(&file::read(own_folder, ADDRESS_FILE).ok()?).ok()
    }
}

/// An address that commands find as long as this lives.
#[derive(Debug)]
pub struct AnnouncedAddress {
    own: OwnedFd,
}

impl AnnouncedAddress {
    pub(crate) fn write(root: &Root, url: &str) -> Result<Self, DiskError> {
        let record = AddressRecord { pid: std::process::id(), url: url.to_owned() };
        let text = serde_json::to_vec(&record).unwrap_or_default();
        let own = root
            .own_folder()
            .try_clone()
            .map_err(|error| DiskError::io("cannot open", root.path())(file::errno(&error)))?;
        root.write_own(ADDRESS_FILE, &text)?;
        Ok(Self { own })
    }
}

impl Drop for AnnouncedAddress {
    fn drop(&mut self) {
        // The next service may have written its own by now.
        if AddressRecord::read(&self.own).is_some_and(|record| record.pid == std::process::id()) {
            let _ = file::remove(&self.own, ADDRESS_FILE);
        }
    }
}

/// Finds where the service answers that uses a workspace root now. What another user could have
/// written is not believed: a token may be sent there.
#[must_use]
pub fn service_address(root: &Path) -> Option<String> {
    let (_, own) = open_home(root, RootOwner::Caller)?;
    let record = AddressRecord::read(&own)?;
    (lock::living_holder(&own) == Some(record.pid)).then_some(record.url)
}

/// Finds the process that uses a workspace root now.
#[must_use]
pub fn root_holder(root: &Path) -> Option<u32> {
    let (_, own) = open_home(root, RootOwner::CallerUnlessRoot)?;
    lock::living_holder(&own)
}

/// Whose a root must be for its service to be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RootOwner {
    /// The caller's own.
    Caller,
    /// Anybody's where the caller is root.
    CallerUnlessRoot,
}

/// Opens Symphony's own folder of the service that uses a root, and says under which root it is: a
/// service that moved here by a reload answers where it began.
pub(super) fn open_home(root: &Path, owner: RootOwner) -> Option<(PathBuf, OwnedFd)> {
    let own = open_own(root, owner)?;
    let home = file::read(&own, HOME_FILE).ok().map(|path| PathBuf::from(OsString::from_vec(path)));
    let moved = home.and_then(|home| open_own(&home, owner).map(|own| (home, own)));
    Some(moved.unwrap_or_else(|| (root.to_owned(), own)))
}

/// Opens Symphony's own folder under a root, if both are open to their owner alone.
fn open_own(root: &Path, owner: RootOwner) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::openat(CWD, root, flags, Mode::empty()).ok()?;
    is_closed(&root, owner).then_some(())?;
    let own =
        rustix::fs::openat(&root, OWN_FOLDER, flags | OFlags::NOFOLLOW, Mode::empty()).ok()?;
    is_closed(&own, owner).then_some(own)
}

fn is_closed(folder: &OwnedFd, owner: RootOwner) -> bool {
    let caller = rustix::process::geteuid();
    fstat(folder).is_ok_and(|stat| {
        let is_open = Mode::from_raw_mode(stat.st_mode).intersects(Mode::WGRP | Mode::WOTH);
        let is_ours = stat.st_uid == caller.as_raw()
            || (owner == RootOwner::CallerUnlessRoot && caller.is_root());
        !is_open && is_ours
    })
}
