//! A workspace root: resolved once, opened once, ours alone.

use std::ffi::{CString, OsString};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, Stat, fstat};
use rustix::io::Errno;
use rustix::path::Arg;
use symphony_core::orchestrator::Workspaces;
use symphony_core::run::RunId;
use symphony_core::{WorkspaceKey, WorkspaceRecord};
use symphony_host::ProcessId;

use super::file::{self, errno};
use super::id::{self, ServiceId};
use super::lock::RootLock;
use super::{DiskError, Made, Opened, folder, mode, processes, record};

/// The name of Symphony's own folder under a root: no key contains its first character.
pub(crate) const OWN_FOLDER: &str = "~symphony";

/// The file that leads to where the service began.
pub(super) const HOME_FILE: &str = "home";

/// How often a place may change under our eyes before we give up.
const MAX_ATTEMPTS: u32 = 16;

/// A root that this service holds the lock of.
#[derive(Debug)]
pub(crate) struct Root {
    path: PathBuf,
    handle: OwnedFd,
    own: OwnedFd,
    records: OwnedFd,
    runs: OwnedFd,
    trash: OwnedFd,
    aside: OwnedFd,
    lock: RootLock,
    service: ServiceId,
    former_service: Option<String>,
    /// What is missing is made anew by one at a time.
    checking: Mutex<()>,
}

impl Root {
    /// The root's real path. The root itself may be a symlink: it is resolved here, once. What is
    /// not there is made, closed to others.
    pub(crate) fn resolve(path: &Path) -> Result<PathBuf, DiskError> {
        let failed = |error: std::io::Error| {
            DiskError::io("cannot use the workspace root", path)(errno(&error))
        };
        if !path.is_dir() {
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent).map_err(failed)?;
            }
            match std::fs::DirBuilder::new().mode(0o700).create(path) {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(failed(error));
                }
                _ => {}
            }
        }
        std::fs::canonicalize(path).map_err(failed)
    }

    /// Opens the root at a resolved path, checks that it is ours, and takes its lock.
    pub(crate) fn open(path: PathBuf) -> Result<Self, DiskError> {
        let handle = mode::open_folder(CWD, &path)
            .map_err(DiskError::io("cannot open the workspace root", &path))?;
        claim(&handle, &path)?;
        let own = subfolder(&handle, OWN_FOLDER, &path)?;
        let lock = RootLock::take(&handle, &own, &path)?;
        let (service, former_service) = service_of(&handle, &own, &path)?;
        let root = Self {
            records: subfolder(&own, "records", &path)?,
            runs: subfolder(&own, "runs", &path)?,
            trash: subfolder(&own, "trash", &path)?,
            aside: subfolder(&own, "aside", &path)?,
            handle,
            own,
            path,
            lock,
            service,
            former_service,
            checking: Mutex::default(),
        };
        // What an earlier life had begun to remove is finished now. If it cannot be, it does no
        // harm.
        if let Err(error) = folder::purge(&root.trash, None, &root.own_path("trash")) {
            tracing::warn!(%error, "an earlier removal could not be finished");
        }
        Ok(root)
    }

    /// What the processes of the service that begins here are marked with, in every life of it.
    pub(crate) fn service(&self) -> &str {
        self.service.as_str()
    }

    /// What a version before this one called them, if the last life here may have been of such a one.
    pub(crate) fn former_service(&self) -> Option<&str> {
        self.former_service.as_deref()
    }

    /// Writes down what the service is called, so that the next life knows.
    pub(crate) fn keep_service(&self) -> Result<(), DiskError> {
        self.restore_modes();
        self.service.store(&self.own).map_err(DiskError::io("cannot write", self.own_path("id")))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The text of a file of Symphony's own; `None` if there is none.
    pub(crate) fn read_own(&self, name: &str) -> Result<Option<Vec<u8>>, DiskError> {
        self.restore_modes();
        match file::read(&self.own, name) {
            Ok(text) => Ok(Some(text)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(DiskError::io("cannot read", self.own_path(name))(error)),
        }
    }

    /// Replaces a file of Symphony's own.
    pub(crate) fn write_own(&self, name: &str, text: &[u8]) -> Result<(), DiskError> {
        self.restore_modes();
        file::replace(&self.own, name, text)
            .map_err(DiskError::io("cannot write", self.own_path(name)))
    }

    /// Moves a file of Symphony's own out of the way, and says where it is now.
    pub(crate) fn set_own_aside(&self, name: &str) -> Result<PathBuf, DiskError> {
        let path = self.own_path(name);
        let new = move_aside(&self.own, name, &self.aside)
            .map_err(DiskError::io("cannot set aside", path))?;
        Ok(self.own_path("aside").join(new))
    }

    /// The folder of Symphony's own files.
    pub(super) const fn own_folder(&self) -> &OwnedFd {
        &self.own
    }

    fn own_path(&self, name: &str) -> PathBuf {
        self.path.join(OWN_FOLDER).join(name)
    }

    /// Creates or reuses a workspace. The record is written first: a folder without one would be
    /// an orphan after a crash. It is written once where that is enough: each time waits for the disk.
    pub(super) fn open_workspace(
        &self,
        record: &WorkspaceRecord,
        made: Made,
    ) -> Result<Opened, DiskError> {
        let key = record.key.as_str();
        let path = self.path.join(key);
        self.check_lock()?;
        for _ in 0..MAX_ATTEMPTS {
            let known = record::read(&self.records, key);
            match file_type(&self.handle, key) {
                Some(FileType::Symlink) => return Err(DiskError::Symlink { path }),
                Some(FileType::Directory) => {
                    if known.as_ref().is_none_or(|known| known.ready) {
                        if known.is_none_or(|known| known.record != *record) {
                            self.write_record(record, true)?;
                        }
                        if let Some(folder) = self.folder(&record.key)? {
                            self.open_to_us(&folder, &path)?;
                            return Ok(Opened { folder, is_new: false });
                        }
                    } else {
                        // Half-made: `after_create` never came to its end.
                        self.discard(&record.key)?;
                    }
                }
                None => {
                    let is_new = made == Made::Half;
                    self.write_record(record, !is_new)?;
                    match rustix::fs::mkdirat(&self.handle, key, Mode::RWXU) {
                        Ok(()) => {
                            if let Some(folder) = self.folder(&record.key)? {
                                return Ok(Opened { folder, is_new });
                            }
                        }
                        // Another process was faster: what it made is not half-made by us.
                        Err(Errno::EXIST) => self.write_record(record, true)?,
                        Err(error) => {
                            return Err(DiskError::io("cannot create the workspace", path)(error));
                        }
                    }
                }
                Some(_) => {
                    let name = move_aside(&self.handle, key, &self.aside)
                        .map_err(DiskError::io("cannot move aside", &path))?;
                    tracing::warn!(
                        workspace = %path.display(),
                        moved_to = %self.own_path("aside").join(name).display(),
                        "a workspace's place was taken by something that is not a folder; it was moved aside"
                    );
                }
            }
        }
        Err(DiskError::Replaced { path })
    }

    pub(super) fn write_record(
        &self,
        record: &WorkspaceRecord,
        ready: bool,
    ) -> Result<(), DiskError> {
        record::write(&self.records, record, ready)
            .map_err(DiskError::io("cannot write the record of", &record.path))
    }

    /// A workspace's folder, if there is one. Opening it without following links is what makes it
    /// safe to enter.
    pub(super) fn folder(&self, key: &WorkspaceKey) -> Result<Option<Arc<OwnedFd>>, DiskError> {
        let path = self.path.join(key.as_str());
        match mode::open_folder(&self.handle, key.as_str()) {
            Ok(folder) => Ok(Some(Arc::new(folder))),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => match file_type(&self.handle, key.as_str()) {
                Some(FileType::Symlink) => Err(DiskError::Symlink { path }),
                _ => Ok(None),
            },
            Err(error) => {
                let owner = owner(&self.handle, key.as_str());
                Err(DiskError::denied("cannot open the workspace", path, owner)(error))
            }
        }
    }

    /// A workspace that an agent has closed, also to itself, is opened for the next attempt.
    fn open_to_us(&self, folder: &OwnedFd, path: &Path) -> Result<(), DiskError> {
        match mode::open_to_us(folder) {
            Ok(false) => Ok(()),
            Ok(true) => {
                tracing::warn!(workspace = %path.display(), "the workspace was closed to us; its mode was restored");
                Ok(())
            }
            Err(error) => {
                let owner = fstat(folder).ok().map(|stat| stat.st_uid);
                Err(DiskError::denied("cannot open the workspace", path, owner)(error))
            }
        }
    }

    /// Whether a workspace's place still holds the folder that was opened.
    pub(super) fn check(&self, key: &WorkspaceKey, opened: &OwnedFd) -> Result<(), DiskError> {
        self.check_lock()?;
        match self.folder(key)? {
            Some(now) if is_same(fstat(now.as_ref()), fstat(opened)) => Ok(()),
            _ => Err(DiskError::Replaced { path: self.path.join(key.as_str()) }),
        }
    }

    /// Whether the root is still this service's: its path, which agents and hooks are told, means it,
    /// and our lock is in it. What can be set right is.
    pub(crate) fn check_lock(&self) -> Result<(), DiskError> {
        let _one_at_a_time = self.checking.lock().unwrap_or_else(PoisonError::into_inner);
        self.restore_modes();
        let named = |folder: BorrowedFd<'_>, name: &Path| {
            rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
        };
        if !is_same(named(CWD, &self.path), fstat(&self.handle))
            || !is_same(named(self.handle.as_fd(), Path::new(OWN_FOLDER)), fstat(&self.own))
        {
            return Err(DiskError::RootReplaced { path: self.path.clone() });
        }
        self.lock.check(&self.own, &self.path)?;
        self.keep_service()
    }

    /// An agent runs as our user, and can close the root or a folder of ours, or open it to others.
    fn restore_modes(&self) {
        let own = [&self.records, &self.runs, &self.trash, &self.aside];
        for folder in [&self.handle, &self.own].into_iter().chain(own) {
            match mode::make_private(folder) {
                Ok(false) => {}
                Ok(true) => tracing::warn!(
                    root = %self.path.display(),
                    "the mode of the workspace root, or of a folder of Symphony's own in it, was changed; it was restored"
                ),
                Err(error) => tracing::debug!(%error, "the mode of a folder could not be restored"),
            }
        }
    }

    /// Removes a workspace: first aside, so that nothing half-removed is ever entered.
    pub(super) fn remove_workspace(&self, key: &WorkspaceKey) -> Result<(), DiskError> {
        let path = self.path.join(key.as_str());
        // Under a root that is not ours any more the folder may be another service's.
        self.check_lock()?;
        self.restore_modes();
        if file_type(&self.handle, key.as_str()) == Some(FileType::Symlink) {
            return Err(DiskError::Symlink { path });
        }
        self.discard(key)?;
        record::remove(&self.records, key.as_str())
            .map_err(DiskError::io("cannot remove the record of", path))
    }

    fn discard(&self, key: &WorkspaceKey) -> Result<(), DiskError> {
        let path = self.path.join(key.as_str());
        if file_type(&self.handle, key.as_str()).is_some() {
            let owner = owner(&self.handle, key.as_str());
            move_aside(&self.handle, key.as_str(), &self.trash).map_err(DiskError::denied(
                "cannot move aside",
                &path,
                owner,
            ))?;
        }
        folder::purge(&self.trash, Some(key.as_str()), &self.own_path("trash"))
    }

    /// Workspaces with a record, and folders without one.
    pub(crate) fn list(&self) -> Result<Workspaces, DiskError> {
        self.restore_modes();
        let records = record::all(&self.records, &self.path)?;
        let mut strays = Vec::new();
        for name in names(&self.handle, &self.path)? {
            let Ok(key) = WorkspaceKey::parse(&name) else { continue };
            let is_recorded = records.iter().any(|record| record.key == key);
            if !is_recorded && file_type(&self.handle, &name) == Some(FileType::Directory) {
                strays.push(key);
            }
        }
        strays.sort();
        Ok(Workspaces { records, strays })
    }

    /// Notes the processes of a run.
    pub(crate) fn write_run(&self, run: RunId, of: &[ProcessId]) -> Result<(), DiskError> {
        self.restore_modes();
        processes::write(&self.runs, run, of)
            .map_err(DiskError::io("cannot write a run record in", self.own_path("runs")))
    }

    /// A run is over, and nothing of it is left.
    pub(crate) fn forget_run(&self, run: RunId) -> Result<(), DiskError> {
        self.restore_modes();
        processes::remove(&self.runs, run)
            .map_err(DiskError::io("cannot remove a run record in", self.own_path("runs")))
    }

    /// The processes that an earlier life has recorded.
    pub(crate) fn recorded_processes(&self) -> Result<Vec<ProcessId>, DiskError> {
        processes::all(&self.runs, &self.own_path("runs"))
    }

    /// Where the service that last used this root began, if that was elsewhere.
    pub(crate) fn read_home(&self) -> Result<Option<PathBuf>, DiskError> {
        let home = self.read_own(HOME_FILE)?.map(|path| PathBuf::from(OsString::from_vec(path)));
        Ok(home.filter(|home| home.is_absolute()))
    }

    /// Notes where the service began that uses this root now.
    pub(crate) fn write_home(&self, home: &Path) -> Result<(), DiskError> {
        self.write_own(HOME_FILE, home.as_os_str().as_bytes())
    }

    /// Nothing of that service is left.
    pub(crate) fn forget_home(&self) -> Result<(), DiskError> {
        file::remove(&self.own, HOME_FILE)
            .map_err(DiskError::io("cannot remove", self.own_path(HOME_FILE)))
    }

    /// They are gone.
    pub(crate) fn forget_runs(&self) -> Result<(), DiskError> {
        processes::clear(&self.runs, &self.own_path("runs"))
    }
}

fn move_aside(from: &OwnedFd, name: &str, to: &OwnedFd) -> Result<String, Errno> {
    let own = CString::new(name).map_err(|_| Errno::INVAL)?;
    folder::move_to(from, &own, to, name)
}

/// Makes sure that a root is ours, and closes it to others.
fn claim(handle: &OwnedFd, path: &Path) -> Result<(), DiskError> {
    let unsafe_root = |why: String| DiskError::UnsafeRoot { path: path.to_owned(), why };
    if path.parent().is_none() {
        return Err(unsafe_root("is the root of the file system".to_owned()));
    }
    let stat = fstat(handle).map_err(DiskError::io("cannot look at", path))?;
    let us = rustix::process::geteuid().as_raw();
    if stat.st_uid != us {
        return Err(unsafe_root(format!("belongs to user {}, not to us ({us})", stat.st_uid)));
    }
    if mode::make_private(handle).map_err(DiskError::io("cannot close to others", path))? {
        tracing::info!(root = %path.display(), "the workspace root is closed to other users");
    }
    Ok(())
}

/// What the service at a root is called, and what a version before this one called it: by its path,
/// where an earlier life has left a state but no name.
fn service_of(
    root: &OwnedFd,
    own: &OwnedFd,
    path: &Path,
) -> Result<(ServiceId, Option<String>), DiskError> {
    let found = ServiceId::read(own, root).map_err(DiskError::io("cannot look at", path))?;
    let is_older =
        found == id::FoundId::Nothing && file_type(own, crate::state_file::STATE_FILE).is_some();
    let service = match found {
        id::FoundId::Ours(service) => service,
        id::FoundId::Foreign | id::FoundId::Nothing => {
            ServiceId::new(root).map_err(DiskError::io("cannot name the service of", path))?
        }
    };
    Ok((service, is_older.then(|| path.display().to_string())))
}

/// Opens a folder of ours, making it if need be.
fn subfolder(parent: &OwnedFd, name: &str, root: &Path) -> Result<OwnedFd, DiskError> {
    match rustix::fs::mkdirat(parent, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(DiskError::io("cannot create a folder in", root)(error)),
    }
    let folder = mode::open_folder(parent, name)
        .map_err(DiskError::io("cannot open a folder of Symphony's own in", root))?;
    mode::make_private(&folder)
        .map_err(DiskError::io("cannot close to others", root.join(name)))?;
    Ok(folder)
}

/// Whether both are there, and one and the same.
pub(super) fn is_same(one: Result<Stat, Errno>, other: Result<Stat, Errno>) -> bool {
    let identity = |stat: Stat| (stat.st_dev, stat.st_ino);
    matches!((one, other), (Ok(one), Ok(other)) if identity(one) == identity(other))
}

/// What stands under a name; `None` if nothing does.
pub(super) fn file_type(folder: &OwnedFd, name: &str) -> Option<FileType> {
    let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(FileType::from_raw_mode(stat.st_mode))
}

/// Whose it is.
pub(super) fn owner(folder: &OwnedFd, name: impl Arg) -> Option<u32> {
    let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(stat.st_uid)
}

/// The names in a folder that are text.
pub(super) fn names(folder: &OwnedFd, path: &Path) -> Result<Vec<String>, DiskError> {
    let dir = Dir::read_from(folder).map_err(DiskError::io("cannot list", path))?;
    let mut names = Vec::new();
    for entry in dir {
        let entry = entry.map_err(DiskError::io("cannot list", path))?;
        if let Ok(name) = entry.file_name().to_str()
            && !matches!(name, "." | "..")
        {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}
