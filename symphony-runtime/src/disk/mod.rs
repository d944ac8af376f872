//! Workspaces on disk (contract section 9).
//!
//! Everything under a root is reached through open handles, one component at a time, never through
//! a symlink. Symphony's own things are in `~symphony`, a name no workspace can have.

mod folder;
mod lock;
mod record;
mod root;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use symphony_core::orchestrator::{Removal, Start, Workspaces};
use symphony_core::{Scope, WorkspaceRecord};

pub(crate) use lock::LockHolder;
pub(crate) use root::Root;

/// What can go wrong with a workspace.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The operating system said no.
    #[error("{doing} {}: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: rustix::io::Errno,
    },
    /// The root is not one we can trust.
    #[error("the workspace root {} {why}", path.display())]
    UnsafeRoot {
        /// The root.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Something that is not a folder stands in a workspace's place.
    #[error("{} is a symlink; workspaces are never reached through one: remove it", path.display())]
    Symlink {
        /// The place.
        path: PathBuf,
    },
    /// Another service uses the root.
    #[error("another Symphony uses the workspace root {}: {holder}", path.display())]
    Locked {
        /// The root.
        path: PathBuf,
        /// Who.
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
    fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(rustix::io::Errno) -> Self {
        let path = path.into();
        move |source| Self::Io { doing, path, source }
    }
}

/// A workspace that is ready to be entered.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    pub(crate) record: WorkspaceRecord,
    /// Whether `after_create` is still to be run.
    pub(crate) is_new: bool,
}

/// The roots this service holds: the current one, and earlier ones that still have workspaces.
#[derive(Debug)]
pub(crate) struct Disk {
    roots: Mutex<Vec<Arc<Root>>>,
    scope: Mutex<Scope>,
}

impl Disk {
    /// Takes the lock of the first root.
    pub(crate) fn new(root: Arc<Root>, scope: Scope) -> Self {
        Self { roots: Mutex::new(vec![root]), scope: Mutex::new(scope) }
    }

    fn roots(&self) -> Vec<Arc<Root>> {
        self.roots.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The root that new workspaces are made under.
    pub(crate) fn current(&self) -> Arc<Root> {
        let roots = self.roots.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(roots.last().unwrap_or(&roots[0]))
    }

    /// Makes another root the current one.
    pub(crate) fn use_root(&self, root: Arc<Root>, scope: Scope) {
        let mut roots = self.roots.lock().unwrap_or_else(PoisonError::into_inner);
        roots.retain(|known| known.path() != root.path());
        roots.push(root);
        *self.scope.lock().unwrap_or_else(PoisonError::into_inner) = scope;
    }

    /// The root with this resolved path, if it is held already.
    pub(crate) fn held(&self, path: &std::path::Path) -> Option<Arc<Root>> {
        self.roots().into_iter().find(|root| root.path() == path)
    }

    fn root_of(&self, workspace: &Removal) -> Result<Arc<Root>, DiskError> {
        match workspace {
            Removal::Stray(_) => Ok(self.current()),
            Removal::Recorded(record) => self
                .roots()
                .into_iter()
                .find(|root| record.path.parent() == Some(root.path()))
                .ok_or_else(|| DiskError::Foreign { path: record.path.clone() }),
        }
    }

    /// Creates the workspace of a run, or goes on in the one it has. Every file is kept (9.3).
    pub(crate) async fn open(&self, start: &Start) -> Result<Opened, DiskError> {
        let root = match &start.record {
            Some(record) => self.root_of(&Removal::Recorded(record.clone()))?,
            None => self.current(),
        };
        let scope = self.scope.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let record = start.record.clone().unwrap_or_else(|| WorkspaceRecord {
            issue: start.issue.id.clone(),
            identifier: start.issue.identifier.clone(),
            scope,
            host: start.host.clone(),
            key: start.key.clone(),
            path: root.path().join(start.key.as_str()),
        });
        blocking(move || root.open_workspace(record)).await
    }

    /// Notes that `after_create` has run.
    pub(crate) async fn mark_ready(&self, record: &WorkspaceRecord) -> Result<(), DiskError> {
        let root = self.root_of(&Removal::Recorded(record.clone()))?;
        let record = record.clone();
        blocking(move || root.write_record(&record, true)).await
    }

    /// Where the workspace is.
    pub(crate) fn locate(&self, workspace: &Removal) -> PathBuf {
        match workspace {
            Removal::Recorded(record) => record.path.clone(),
            Removal::Stray(key) => self.current().path().join(key.as_str()),
        }
    }

    /// Whether there is a folder to remove.
    pub(crate) async fn exists(&self, workspace: &Removal) -> bool {
        let Ok(root) = self.root_of(workspace) else { return false };
        let key = key_of(workspace).to_owned();
        blocking(move || Ok(root.has_folder(&key))).await.unwrap_or(false)
    }

    /// Removes a workspace and its record. A missing folder is fine: it is gone.
    pub(crate) async fn remove(&self, workspace: &Removal) -> Result<(), DiskError> {
        let root = self.root_of(workspace)?;
        let key = key_of(workspace).to_owned();
        blocking(move || root.remove_workspace(&key)).await
    }

    /// What is on disk under the current root.
    pub(crate) async fn list(&self) -> Result<Workspaces, DiskError> {
        let root = self.current();
        blocking(move || root.list()).await
    }
}

fn key_of(workspace: &Removal) -> &str {
    match workspace {
        Removal::Recorded(record) => record.key.as_str(),
        Removal::Stray(key) => key.as_str(),
    }
}

/// Runs file work where it may block.
async fn blocking<T: Send + 'static>(
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
