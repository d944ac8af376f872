//! A workspace root: resolved once, opened once, ours alone.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use symphony_core::orchestrator::Workspaces;
use symphony_core::{WorkspaceKey, WorkspaceRecord};

use super::lock::Lock;
use super::{DiskError, Opened, folder, record};

/// The name of Symphony's own folder under a root.
const OWN: &str = "~symphony";

pub(super) const FOLDER: OFlags =
    OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::RDONLY);

/// A root that this service holds the lock of.
#[derive(Debug)]
pub(crate) struct Root {
    path: PathBuf,
    handle: OwnedFd,
    records: OwnedFd,
    trash: OwnedFd,
    aside: OwnedFd,
    own: OwnedFd,
    _lock: Lock,
}

impl Root {
    /// The root's real path. The root itself may be a symlink: it is resolved here, once.
    pub(crate) fn resolve(path: &Path) -> Result<PathBuf, DiskError> {
        std::fs::create_dir_all(path)
            .and_then(|()| std::fs::canonicalize(path))
            .map_err(errno)
            .map_err(DiskError::io("cannot create the workspace root", path))
    }

    /// Opens the root, checks that it is ours, and takes its lock.
    pub(crate) fn open(path: &Path) -> Result<Self, DiskError> {
        let path = Self::resolve(path)?;
        let handle = rustix::fs::openat(CWD, &path, FOLDER, Mode::empty())
            .map_err(DiskError::io("cannot open the workspace root", &path))?;
        check_owner(&handle, &path)?;
        let own = subfolder(&handle, OWN, &path)?;
        let lock = Lock::take(own.as_fd(), &path)?;
        let root = Self {
            records: subfolder(&own, "records", &path)?,
            trash: subfolder(&own, "trash", &path)?,
            aside: subfolder(&own, "aside", &path)?,
            handle,
            own,
            path,
            _lock: lock,
        };
        // What an earlier life had begun to remove is finished now.
        folder::purge(&root.trash, "", &root.path)?;
        Ok(root)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Symphony's own folder, for files that belong to the root.
    pub(crate) fn own(&self) -> &OwnedFd {
        &self.own
    }

    /// Creates or reuses a workspace. The record is written first: a folder without one would be
    /// nobody's after a crash.
    pub(super) fn open_workspace(&self, record: WorkspaceRecord) -> Result<Opened, DiskError> {
        let key = record.key.as_str();
        let path = self.path.join(key);
        let was_ready = record::read(&self.records, key).is_some_and(|known| known.ready);
        match file_type(&self.handle, key) {
            Some(FileType::Symlink) => return Err(DiskError::Symlink { path }),
            Some(FileType::Directory) if !was_ready && record::read(&self.records, key).is_some() => {
                // Half-made: `after_create` never came to its end.
                folder::move_to(&self.handle, key, &self.trash, &path)?;
                folder::purge(&self.trash, key, &self.path)?;
            }
            Some(FileType::Directory) | None => {}
            Some(_) => {
                let name = folder::move_to(&self.handle, key, &self.aside, &path)?;
                tracing::warn!(
                    workspace = %path.display(),
                    moved_to = %self.path.join(OWN).join("aside").join(name).display(),
                    "something that is not a folder stood in a workspace's place; it was moved aside"
                );
            }
        }
        let exists = file_type(&self.handle, key).is_some();
        self.write_record(&record, exists)?;
        let is_new = match rustix::fs::mkdirat(&self.handle, key, Mode::RWXU) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(error) => return Err(DiskError::io("cannot create the workspace", path)(error)),
        };
        // Opening it without following links is what makes it ours to enter.
        match rustix::fs::openat(&self.handle, key, FOLDER, Mode::empty()) {
            Ok(_) => Ok(Opened { record, is_new }),
            Err(Errno::LOOP | Errno::NOTDIR) => Err(DiskError::Symlink { path }),
            Err(error) => Err(DiskError::io("cannot open the workspace", path)(error)),
        }
    }

    pub(super) fn write_record(
        &self,
        record: &WorkspaceRecord,
        ready: bool,
    ) -> Result<(), DiskError> {
        record::write(&self.records, record, ready)
            .map_err(DiskError::io("cannot write the record of", &record.path))
    }

    pub(super) fn has_folder(&self, key: &str) -> bool {
        file_type(&self.handle, key) == Some(FileType::Directory)
    }

    /// Removes a workspace: first aside, so that nothing half-removed is ever entered.
    pub(super) fn remove_workspace(&self, key: &str) -> Result<(), DiskError> {
        let path = self.path.join(key);
        match file_type(&self.handle, key) {
            Some(FileType::Symlink) => return Err(DiskError::Symlink { path }),
            Some(_) => drop(folder::move_to(&self.handle, key, &self.trash, &path)?),
            None => {}
        }
        folder::purge(&self.trash, key, &self.path)?;
        record::remove(&self.records, key).map_err(DiskError::io("cannot remove the record of", path))
    }

    /// Workspaces with a record, and folders without one.
    pub(super) fn list(&self) -> Result<Workspaces, DiskError> {
        let records = record::all(&self.records, &self.path)?;
        let mut strays = Vec::new();
        for name in names(&self.handle, &self.path)? {
            let Ok(key) = WorkspaceKey::parse(&name) else { continue };
            let is_recorded = records.iter().any(|record| record.key == key);
            if !is_recorded && self.has_folder(&name) {
                strays.push(key);
            }
        }
        strays.sort();
        Ok(Workspaces { records, strays })
    }
}

fn check_owner(handle: &OwnedFd, path: &Path) -> Result<(), DiskError> {
    let unsafe_root = |why: String| DiskError::UnsafeRoot { path: path.to_owned(), why };
    let stat = rustix::fs::fstat(handle).map_err(DiskError::io("cannot look at", path))?;
    let us = rustix::process::geteuid();
    if stat.st_uid != us.as_raw() {
        let why = format!("belongs to user {}, not to us ({})", stat.st_uid, us.as_raw());
        return Err(unsafe_root(why));
    }
    if path.parent().is_none() {
        return Err(unsafe_root("is the root of the file system".to_owned()));
    }
    if stat.st_mode & 0o077 != 0 {
        rustix::fs::fchmod(handle, Mode::RWXU)
            .map_err(DiskError::io("cannot close to others", path))?;
    }
    Ok(())
}

/// Opens a folder of ours, making it if need be.
fn subfolder(parent: &OwnedFd, name: &str, root: &Path) -> Result<OwnedFd, DiskError> {
    match rustix::fs::mkdirat(parent, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(DiskError::io("cannot create a folder in", root)(error)),
    }
    rustix::fs::openat(parent, name, FOLDER, Mode::empty())
        .map_err(DiskError::io("cannot open a folder in", root))
}

/// What stands under a name; `None` if nothing does.
pub(super) fn file_type(folder: &OwnedFd, name: &str) -> Option<FileType> {
    let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(FileType::from_raw_mode(stat.st_mode))
}

/// The names in a folder that are text.
pub(super) fn names(folder: &OwnedFd, path: &Path) -> Result<Vec<String>, DiskError> {
    let dir = Dir::read_from(folder).map_err(DiskError::io("cannot list", path))?;
    let mut names = Vec::new();
    for entry in dir {
        let entry = entry.map_err(DiskError::io("cannot list", path))?;
        if let Ok(name) = entry.file_name().to_str()
            && name != "."
            && name != ".."
        {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}
