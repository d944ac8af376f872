//! Workspaces on disk (contract section 9).
//!
//! Everything under a root is reached through open handles, one component at a time, and never
//! through a symlink; no path that is made of an issue's text is ever handed to the system.
//! Symphony's own things are in `~symphony`, a name that no workspace can have:
//!
//! | under `~symphony` | what it is |
//! |---|---|
//! | `address` | where the service answers, as long as it lives |
//! | `lock` | held by the service that uses the root, with its process number; so is the root itself |
//! | `id` | what the service's processes are marked with, and the root that it was made for |
//! | `state.json` | what survived a restart in versions before the store |
//! | `records/` | whose folder each workspace is, and whether it is ready |
//! | `runs/` | the processes of live runs, for the next life to end |
//! | `home` | where the service began that uses this root since a reload |
//! | `trash/` | folders that are being removed |
//! | `aside/` | what stood in a workspace's place and was no folder |

mod address;
mod file;
mod folder;
mod id;
mod lock;
mod mode;
mod processes;
mod record;
mod root;
#[cfg(test)]
mod tests;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::CWD;
use rustix::io::Errno;
use symphony_core::{WorkspaceKey, WorkspaceRecord};
use symphony_host::is_exhaustion;

pub use address::{AnnouncedAddress, service_address};
pub(crate) use id::ID_FILE;
pub use lock::LockHolder;
pub(crate) use root::{OWN_FOLDER, Root};

/// Whether a root that is not open has workspaces with records, or a service that uses it.
pub(crate) fn is_in_use(root: &Path) -> bool {
    let own = || mode::open_folder(CWD, &root.join(OWN_FOLDER)).ok();
    record::has_records(root) || own().is_some_and(|own| lock::living_holder(&own).is_some())
}

/// What can go wrong with a workspace or its root.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiskError {
    /// The operating system said no.
    #[error("{doing} {}: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: Errno,
    },
    /// The operating system said no, and it is another user's.
    #[error("{doing} {}: {source}; it belongs to user {owner}, not to us", path.display())]
    NotOurs {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Why not.
        source: Errno,
    },
    /// The root is not one we can trust.
    #[error("the workspace root {} {why}; set another workspace.root", path.display())]
    UnsafeRoot {
        /// The root.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The root, or our lock in it, is not the one that was opened.
    #[error(
        "the workspace root {} was removed or replaced while it was in use: start the service again",
        path.display()
    )]
    RootReplaced {
        /// The root.
        path: PathBuf,
    },
    /// The lock file is not the one that was locked, and nothing else keeps a second service out.
    #[error(
        "the lock of the workspace root {} was removed or replaced while it was in use: start the service again",
        path.display()
    )]
    LockLost {
        /// The root.
        path: PathBuf,
    },
    /// A symlink stands in a workspace's place.
    #[error("{} is a symlink, and workspaces are never reached through one: remove it", path.display())]
    Symlink {
        /// The place.
        path: PathBuf,
    },
    /// The folder is not the one that was opened.
    #[error("{} was replaced while it was in use", path.display())]
    Replaced {
        /// The place.
        path: PathBuf,
    },
    /// The folder does not get empty.
    #[error("{} cannot be removed: something still writes into it", path.display())]
    Busy {
        /// The place.
        path: PathBuf,
    },
    /// Another service uses the root.
    #[error("another Symphony uses the workspace root {}: {holder}", path.display())]
    Locked {
        /// The root.
        path: PathBuf,
        /// The service that holds it.
        holder: LockHolder,
    },
    /// A recorded workspace is under no root that this service holds.
    #[error("{} is not under a workspace root that this service holds", path.display())]
    Foreign {
        /// The place.
        path: PathBuf,
    },
    /// The work was given up because the service ends.
    #[error("the service ends")]
    Ending,
}

impl DiskError {
    fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(Errno) -> Self {
        let path = path.into();
        move |source| Self::Io { doing, path, source }
    }

    /// Whether the machine has no room now: files or memory ran out.
    pub(crate) fn is_exhaustion(&self) -> bool {
        matches!(self, Self::Io { source, .. } if is_exhaustion(source.raw_os_error()))
    }

    /// Whether a file of ours is not the trouble, but something else in its place.
    pub(crate) const fn is_foreign(&self) -> bool {
        use Errno as E;
        matches!(self, Self::Io { source: E::ACCESS | E::PERM | E::ISDIR | E::LOOP | E::NXIO, .. })
    }

    /// The same for something that may be another user's.
    fn denied(
        doing: &'static str,
        path: impl Into<PathBuf>,
        owner: Option<u32>,
    ) -> impl FnOnce(Errno) -> Self {
        let path = path.into();
        let us = rustix::process::geteuid().as_raw();
        move |source| match owner.filter(|&owner| owner != us) {
            Some(owner) if matches!(source, Errno::ACCESS | Errno::PERM) => {
                Self::NotOurs { doing, path, owner, source }
            }
            _ => Self::Io { doing, path, source },
        }
    }
}

/// The roots this service holds: the current one, and earlier ones with workspaces of theirs.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    roots: Mutex<Vec<Arc<Root>>>,
}

impl Disk {
    /// Keeps hold of a root until the service ends.
    pub(crate) fn add_root(&self, root: &Arc<Root>) {
        let mut roots = self.roots.lock().unwrap_or_else(PoisonError::into_inner);
        if !roots.iter().any(|known| Arc::ptr_eq(known, root)) {
            roots.push(Arc::clone(root));
        }
    }

    /// The root with this resolved path, if it is held already.
    pub(crate) fn root_at(&self, path: &Path) -> Option<Arc<Root>> {
        let roots = self.roots.lock().unwrap_or_else(PoisonError::into_inner);
        roots.iter().find(|root| root.path() == path).cloned()
    }

    /// Where a recorded workspace is, also after the root has changed (contract 9.6).
    pub(crate) fn place(&self, record: &WorkspaceRecord) -> Result<WorkspacePlace, DiskError> {
        let root = record.path.parent().and_then(|parent| self.root_at(parent));
        let root = root.ok_or_else(|| DiskError::Foreign { path: record.path.clone() })?;
        let place = WorkspacePlace::new(root, record.key.clone());
        if place.path() == record.path {
            Ok(place)
        } else {
            Err(DiskError::Foreign { path: record.path.clone() })
        }
    }
}

/// A workspace's place: one component under a root.
#[derive(Clone, Debug)]
pub(crate) struct WorkspacePlace {
    root: Arc<Root>,
    key: WorkspaceKey,
}

/// What a new workspace is when its folder has been made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    /// `after_create` is still to be run.
    Half,
    /// Nothing is to be run.
    Whole,
}

/// A workspace that can be entered.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    pub(crate) folder: Arc<OwnedFd>,
    /// Whether `after_create` is still to be run.
    pub(crate) is_new: bool,
}

impl WorkspacePlace {
    pub(crate) const fn new(root: Arc<Root>, key: WorkspaceKey) -> Self {
        Self { root, key }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.root.path().join(self.key.as_str())
    }

    /// Creates the workspace, or goes on in the one there is. Every file is kept (9.3).
    pub(crate) async fn open(
        &self,
        record: WorkspaceRecord,
        made: Made,
    ) -> Result<Opened, DiskError> {
        self.with(move |root, _| root.open_workspace(&record, made)).await
    }

    /// Notes that `after_create` has run.
    pub(crate) async fn mark_ready(&self, record: WorkspaceRecord) -> Result<(), DiskError> {
        self.with(move |root, _| root.write_record(&record, true)).await
    }

    /// The folder, if there is one.
    pub(crate) async fn folder(&self) -> Result<Option<Arc<OwnedFd>>, DiskError> {
        self.with(Root::folder).await
    }

    /// Whether the path still means the folder that was opened.
    pub(crate) async fn check(&self, folder: &Arc<OwnedFd>) -> Result<(), DiskError> {
        let folder = Arc::clone(folder);
        self.with(move |root, key| root.check(key, &folder)).await
    }

    /// Removes the workspace and its record. A missing folder is fine: it is gone.
    pub(crate) async fn remove(&self) -> Result<(), DiskError> {
        self.with(Root::remove_workspace).await
    }

    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Root, &WorkspaceKey) -> Result<T, DiskError> + Send + 'static,
    ) -> Result<T, DiskError> {
        let (root, key) = (Arc::clone(&self.root), self.key.clone());
        blocking(move || work(&root, &key)).await
    }
}

/// Runs file work where it may block.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, DiskError> + Send + 'static,
) -> Result<T, DiskError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(DiskError::Ending),
        },
    }
}
