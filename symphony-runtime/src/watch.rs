//! Watching the workflow file (contract 2.6), or what code makes of it (2.11), and whether the root
//! that it names is still ours.
//!
//! A look with each poll, and every few seconds besides, finds what the file watch missed.

use std::sync::Arc;
use std::time::Duration;

use symphony_core::failure::chain;
use symphony_core::orchestrator::{Event, Generation};
use symphony_core::problem::{Problem, ProblemKind};
use symphony_host::Host;
use tokio::sync::{Notify, mpsc};

use crate::changes::{Change, ChangeError, ChangeReply};
use crate::disk::{DiskError, Root, blocking};
use crate::driver::{DriverMessage, Inbox};
use crate::folder_watch::FolderWatch;
use crate::home::HomeRoot;
use crate::loader::{Loaded, Loader, WorkflowSource, WorkflowVersion};
use crate::panics::isolated;

/// A file is read when it has not changed for this long: the last of a burst wins, and a file that
/// is written in two steps is not read between them.
const DEBOUNCE: Duration = Duration::from_millis(200);

/// How long an edit without a file event may go unnoticed.
const RECHECK_INTERVAL: Duration = Duration::from_secs(10);

/// What stands in the file's place.
type FileState = Result<WorkflowVersion, Problem>;

/// Watches the file of a service.
pub(crate) struct Watch {
    pub(crate) loader: Arc<Loader>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) home: HomeRoot,
    pub(crate) recheck: Arc<Notify>,
    pub(crate) inbox: Inbox,
    /// What is changed from code.
    pub(crate) changes: mpsc::Receiver<(Change, ChangeReply)>,
    /// The last good version, which is in force.
    pub(crate) in_force: Loaded,
    pub(crate) version: WorkflowVersion,
}

impl Watch {
    /// Looks, loads and hands over until the driver is gone.
    pub(crate) async fn run(mut self) {
        let mut watch = match self.loader.source.clone() {
            WorkflowSource::File(path) => Some(FolderWatch::new(path, &self.recheck)),
            WorkflowSource::Code(_) => None,
        };
        let mut seen: FileState = Ok(self.version.clone());
        let mut is_good = true;
        loop {
            watch.iter_mut().for_each(FolderWatch::rearm);
            tokio::select! {
                Some((change, reply)) = self.changes.recv() => {
                    if self.change(change, reply).await {
                        // Not new any more when it is looked at.
                        seen = Ok(self.version.clone());
                        is_good = true;
                    }
                    continue;
                }
                _ = tokio::time::timeout(RECHECK_INTERVAL, self.recheck.notified()) => {}
            }
            let held = self.check_lock().await;
            let Some(found) = self.debounced(&seen, is_good && held.is_ok()).await else {
                continue;
            };
            let outcome = self.load(&found, held).await;
            seen = found;
            is_good = outcome.is_ok();
            let sent = match outcome {
                Ok(loaded) => self.inbox.post(DriverMessage::Loaded(Box::new(loaded), None)),
                Err(problems) => {
                    self.inbox.post(DriverMessage::Event(Event::ReloadFailed { problems }))
                }
            };
            if !sent {
                return;
            }
        }
    }

    /// Makes a change from code, and says whether it is to be in force. The driver answers then. A
    /// refused one is told to its caller alone: what was in force is what code wants still, so that
    /// starts go on.
    async fn change(&mut self, change: Change, reply: ChangeReply) -> bool {
        let WorkflowVersion::Code(before) = &self.version else {
            let file = self.loader.workflow().unwrap_or_default();
            let _ = reply.send(Err(ChangeError::WorkflowFile(file)));
            return false;
        };
        let next = WorkflowVersion::Code(Arc::new(change.apply(before)));
        let held = self.check_lock().await;
        match self.load(&Ok(next), held).await {
            Ok(loaded) => {
                self.inbox.post(DriverMessage::Loaded(Box::new(loaded), Some(reply)));
                true
            }
            Err(problems) => {
                let _ = reply.send(Err(ChangeError::Refused(problems)));
                false
            }
        }
    }

    /// What stands there, once it stands still; `None` if that is nothing new. What could not be
    /// used is tried again: the cause may lie elsewhere, such as in a lock.
    async fn debounced(&self, seen: &FileState, is_good: bool) -> Option<FileState> {
        let mut found = self.read_file().await;
        loop {
            if found == *seen {
                return (!is_good).then_some(found);
            }
            tokio::time::sleep(DEBOUNCE).await;
            let again = self.read_file().await;
            if again == found {
                return Some(found);
            }
            found = again;
        }
    }

    async fn read_file(&self) -> FileState {
        if let WorkflowVersion::Code(_) = self.version {
            return Ok(self.version.clone());
        }
        let loader = Arc::clone(&self.loader);
        match tokio::task::spawn_blocking(move || loader.version()).await {
            Ok(found) => found,
            Err(error) => Err(Problem::new(ProblemKind::MissingWorkflowFile, error.to_string())),
        }
    }

    /// Whether the root in force is still ours alone. If not, nothing is started (contract 14.3), and
    /// that shows as a problem of the file does.
    async fn check_lock(&self) -> Result<(), Problem> {
        let root = Arc::clone(&self.in_force.root);
        match blocking(move || root.check_lock()).await {
            Ok(()) | Err(DiskError::Ending) => Ok(()),
            Err(error) => Err(root_problem(error.to_string())),
        }
    }

    /// The version to put in force. One that is in force already needs no building: it only ends
    /// what was wrong meanwhile. A root that is not held any more cannot be used.
    async fn load(
        &mut self,
        found: &FileState,
        held: Result<(), Problem>,
    ) -> Result<Loaded, Vec<Problem>> {
        let version = found.clone().map_err(|problem| vec![problem])?;
        if version == self.version {
            return held.map(|()| self.in_force.clone()).map_err(|problem| vec![problem]);
        }
        let next = Generation(self.in_force.configuration.generation.0 + 1);
        let (loader, before) = (Arc::clone(&self.loader), self.in_force.clone());
        let task = async move {
            let load =
                move || loader.load(&version, next, Some(&before)).map(|loaded| (loaded, version));
            tokio::task::spawn_blocking(load).await
        };
        let (loaded, version) = match isolated(task).await {
            Ok(Ok(result)) => result.map_err(|error| error.into_problems())?,
            Ok(Err(error)) => return Err(vec![internal(&error.to_string())]),
            Err(failure) => return Err(vec![internal(&failure.message)]),
        };
        if Arc::ptr_eq(&loaded.root, &self.in_force.root) {
            held.map_err(|problem| vec![problem])?;
        }
        self.take_root(&loaded.root).await?;
        self.in_force = Loaded { workspaces: None, ..loaded.clone() };
        self.version = version;
        Ok(loaded)
    }

    /// A root that was not held before is taken: then nothing of an earlier life is left there.
    async fn take_root(&self, root: &Arc<Root>) -> Result<(), Vec<Problem>> {
        if self.loader.disk.root_at(root.path()).is_none() {
            let adopted = self.home.adopt(self.host.as_ref(), root).await;
            adopted.map_err(|error| {
                vec![root_problem(format!("cannot use the new root: {}", chain(&error)))]
            })?;
            self.loader.disk.add_root(root);
        }
        Ok(())
    }
}

fn root_problem(message: String) -> Problem {
    Problem::new(ProblemKind::InvalidSetting, message).with_path("workspace.root")
}

fn internal(message: &str) -> Problem {
    let message = format!("an adapter could not be built: {message}");
    Problem::new(ProblemKind::InvalidSetting, message)
}
