//! Watching the workflow file (contract 2.6), and whether the root that it names is still ours.
//!
//! Folders are watched, not the file: editors replace files by rename, and that kills a watch on
//! an inode. A look with each poll, and every few seconds besides, finds what the watch missed.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecursiveMode, Watcher};
use symphony_core::failure::chain;
use symphony_core::orchestrator::{Event, Generation};
use symphony_core::problem::{Problem, ProblemKind};
use symphony_host::Host;
use tokio::sync::Notify;

use crate::disk::{DiskError, Root, blocking};
use crate::driver::{DriverMessage, Inbox};
use crate::home::Home;
use crate::loader::{Loaded, Loader, WorkflowSource};
use crate::panics::isolated;

/// A file is read when it has not changed for this long: the last of a burst wins, and a file that
/// is written in two steps is not read between them.
const DEBOUNCE: Duration = Duration::from_millis(200);

/// How long an edit without a file event may go unnoticed.
const RECHECK_INTERVAL: Duration = Duration::from_secs(10);

/// How many links may lead to the file.
const MAX_LINKS: usize = 40;

/// What stands in the file's place.
type FileState = Result<String, Problem>;

/// Watches the file of a service.
pub(crate) struct Watch {
    pub(crate) loader: Arc<Loader>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) home: Home,
    pub(crate) recheck: Arc<Notify>,
    pub(crate) inbox: Inbox,
    /// The last good version, which is in force, and its text.
    pub(crate) in_force: Loaded,
    pub(crate) text: String,
}

impl Watch {
    /// Looks, loads and hands over until the driver is gone.
    pub(crate) async fn run(mut self) {
        let mut watch = match self.loader.source.clone() {
            WorkflowSource::File(path) => Some(FolderWatch::new(path, &self.recheck)),
            WorkflowSource::Code { .. } => None,
        };
        let mut seen: FileState = Ok(self.text.clone());
        let mut is_good = true;
        loop {
            watch.iter_mut().for_each(FolderWatch::rearm);
            let _ = tokio::time::timeout(RECHECK_INTERVAL, self.recheck.notified()).await;
            let held = self.check_hold().await;
            let Some(found) = self.debounced(&seen, is_good && held.is_ok()).await else {
                continue;
            };
            let outcome = self.load(&found, held).await;
            seen = found;
            is_good = outcome.is_ok();
            let sent = match outcome {
                Ok(loaded) => self.inbox.post(DriverMessage::Loaded(Box::new(loaded))),
                Err(problems) => {
                    self.inbox.post(DriverMessage::Event(Event::ReloadFailed { problems }))
                }
            };
            if !sent {
                return;
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
        let loader = Arc::clone(&self.loader);
        match tokio::task::spawn_blocking(move || loader.text()).await {
            Ok(found) => found,
            Err(error) => Err(Problem::new(ProblemKind::MissingWorkflowFile, error.to_string())),
        }
    }

    /// Whether the root in force is still ours alone. If not, nothing is started (contract 14.3), and
    /// that shows as a problem of the file does.
    async fn check_hold(&self) -> Result<(), Problem> {
        let root = Arc::clone(&self.in_force.root);
        match blocking(move || root.check_hold()).await {
            Ok(()) | Err(DiskError::Ending) => Ok(()),
            Err(error) => Err(root_problem(error.to_string())),
        }
    }

    /// The version to put in force. Text that is in force already needs no building: it only ends
    /// what was wrong meanwhile. A root that is not held any more cannot be used.
    async fn load(
        &mut self,
        found: &FileState,
        held: Result<(), Problem>,
    ) -> Result<Loaded, Vec<Problem>> {
        let text = found.clone().map_err(|problem| vec![problem])?;
        if text == self.text {
            return held.map(|()| self.in_force.clone()).map_err(|problem| vec![problem]);
        }
        let next = Generation(self.in_force.configuration.generation.0 + 1);
        let (loader, before) = (Arc::clone(&self.loader), self.in_force.clone());
        let task = async move {
            let load = move || loader.load(&text, next, Some(&before)).map(|loaded| (loaded, text));
            tokio::task::spawn_blocking(load).await
        };
        let (loaded, text) = match isolated(task).await {
            Ok(Ok(result)) => result.map_err(|error| error.into_problems())?,
            Ok(Err(error)) => return Err(vec![internal(&error.to_string())]),
            Err(failure) => return Err(vec![internal(&failure.message)]),
        };
        if Arc::ptr_eq(&loaded.root, &self.in_force.root) {
            held.map_err(|problem| vec![problem])?;
        }
        self.take_root(&loaded.root).await?;
        self.in_force = Loaded { workspaces: None, ..loaded.clone() };
        self.text = text;
        Ok(loaded)
    }

    /// A root that was not held before is taken: then nothing of an earlier life is left there.
    async fn take_root(&self, root: &Arc<Root>) -> Result<(), Vec<Problem>> {
        if self.loader.disk.held(root.path()).is_none() {
            let adopted = self.home.adopt(self.host.as_ref(), root).await;
            adopted.map_err(|error| {
                vec![root_problem(format!("cannot use the new root: {}", chain(&error)))]
            })?;
            self.loader.disk.hold(root);
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

/// The folders in which a change of the file shows: its own, and those of the links to it.
struct FolderWatch {
    path: PathBuf,
    watcher: Option<notify::RecommendedWatcher>,
    /// Each watched folder, and which one it was: a folder that was replaced is watched anew.
    folders: BTreeMap<PathBuf, (u64, u64)>,
    /// The names whose events count: the file's, those of links to it, and the folders themselves.
    names: Arc<Mutex<BTreeSet<PathBuf>>>,
}

impl FolderWatch {
    fn new(path: PathBuf, wake: &Arc<Notify>) -> Self {
        let wake = Arc::clone(wake);
        let names = Arc::new(Mutex::new(BTreeSet::new()));
        let known = Arc::clone(&names);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Our own reading must not wake us, nor what happens to other files of the folder, our
            // log perhaps. An error may be a lost event: better look.
            if event.is_ok_and(|event| is_reading(event.kind) || is_elsewhere(&event, &known)) {
                return;
            }
            wake.notify_one();
        });
        let watcher = watcher
            .inspect_err(|error| {
                tracing::warn!(%error, "the workflow file cannot be watched; it is looked at every few seconds");
            })
            .ok();
        Self { path, watcher, folders: BTreeMap::new(), names }
    }

    /// Watches what has to be watched now.
    fn rearm(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        let (wanted, mut names) = folders(&self.path);
        names.extend(wanted.keys().cloned());
        // Before the folders are watched: no event of theirs is to be missed.
        *lock(&self.names) = names;
        for old in self.folders.keys().filter(|folder| !wanted.contains_key(*folder)) {
            let _ = watcher.unwatch(old);
        }
        for (folder, identity) in &wanted {
            if self.folders.get(folder) != Some(identity) {
                let _ = watcher.unwatch(folder);
                if let Err(error) = watcher.watch(folder, RecursiveMode::NonRecursive) {
                    tracing::debug!(%error, folder = %folder.display(), "a folder cannot be watched");
                }
            }
        }
        self.folders = wanted;
    }
}

const fn is_reading(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => false,
        EventKind::Access(_) => true,
        _ => false,
    }
}

/// Whether an event tells only of files that are not ours. One without a name tells of anything.
fn is_elsewhere(event: &notify::Event, names: &Mutex<BTreeSet<PathBuf>>) -> bool {
    let names = lock(names);
    let is_unknown = |path: &PathBuf| !names.contains(path);
    !event.need_rescan() && !event.paths.is_empty() && event.paths.iter().all(is_unknown)
}

fn lock(names: &Mutex<BTreeSet<PathBuf>>) -> MutexGuard<'_, BTreeSet<PathBuf>> {
    names.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The folders to watch, each with what it is, and the names in them that lead to the file.
fn folders(path: &Path) -> (BTreeMap<PathBuf, (u64, u64)>, BTreeSet<PathBuf>) {
    let (mut folders, mut names) = (BTreeMap::new(), BTreeSet::new());
    let mut add = |file: &Path| {
        names.insert(file.to_owned());
        let folder = file.parent().map(Path::to_owned);
        let identity = folder.as_ref().and_then(|folder| std::fs::metadata(folder).ok());
        if let (Some(folder), Some(identity)) = (folder, identity) {
            folders.insert(folder, (identity.dev(), identity.ino()));
        }
    };
    let mut next = std::path::absolute(path).ok();
    for _ in 0..MAX_LINKS {
        let Some(link) = next.take() else { break };
        add(&link);
        // A relative link leads from its own folder; joining an absolute one replaces all.
        next = std::fs::read_link(&link).ok().and_then(|to| Some(link.parent()?.join(to)));
    }
    if let Ok(target) = std::fs::canonicalize(path) {
        add(&target);
    }
    (folders, names)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Waits for a wake that follows an edit.
    async fn woken(watch: &mut FolderWatch, wake: &Notify, edit: impl FnOnce()) {
        watch.rearm();
        // What the last edit, or aiming, has left.
        while tokio::time::timeout(Duration::from_millis(50), wake.notified()).await.is_ok() {}
        edit();
        let woken = tokio::time::timeout(Duration::from_secs(30), wake.notified()).await;
        assert!(woken.is_ok(), "no wake-up came");
    }

    #[tokio::test]
    async fn rule_2_6_every_way_to_edit_a_file_wakes_the_watch() {
        let dir = tempfile::Builder::new().prefix("runtime-").tempdir().unwrap();
        let (folder, file) = (dir.path().join("a"), dir.path().join("a/WORKFLOW.md"));
        let real = dir.path().join("b/real.md");
        fs::create_dir_all(&folder).unwrap();
        fs::create_dir_all(real.parent().unwrap()).unwrap();
        fs::write(&file, "1").unwrap();
        let wake = Arc::new(Notify::new());
        let mut watch = FolderWatch::new(file.clone(), &wake);
        woken(&mut watch, &wake, || fs::write(&file, "2").unwrap()).await;
        let new = folder.join("new");
        fs::write(&new, "3").unwrap();
        woken(&mut watch, &wake, || fs::rename(&new, &file).unwrap()).await;
        woken(&mut watch, &wake, || fs::write(&file, "4").unwrap()).await;
        woken(&mut watch, &wake, || fs::remove_file(&file).unwrap()).await;
        fs::write(&real, "5").unwrap();
        woken(&mut watch, &wake, || symlink("../b/real.md", &file).unwrap()).await;
        woken(&mut watch, &wake, || fs::write(&real, "6").unwrap()).await;
        // The folder itself is replaced.
        woken(&mut watch, &wake, || fs::rename(&folder, dir.path().join("old")).unwrap()).await;
        fs::create_dir(&folder).unwrap();
        woken(&mut watch, &wake, || fs::write(&file, "7").unwrap()).await;
    }

    #[tokio::test]
    async fn rule_2_6_what_happens_to_other_files_does_not_wake_the_watch() {
        let dir = tempfile::Builder::new().prefix("runtime-").tempdir().unwrap();
        let (file, log) = (dir.path().join("WORKFLOW.md"), dir.path().join("symphony.log"));
        fs::write(&file, "1").unwrap();
        let wake = Arc::new(Notify::new());
        let mut watch = FolderWatch::new(file.clone(), &wake);
        watch.rearm();
        while tokio::time::timeout(Duration::from_millis(50), wake.notified()).await.is_ok() {}
        for number in 0..100 {
            fs::write(&log, number.to_string()).unwrap();
            fs::rename(&log, dir.path().join("symphony.log.1")).unwrap();
        }
        let woken = tokio::time::timeout(Duration::from_millis(200), wake.notified()).await;
        assert!(woken.is_err());
        woken_by_a_rename_to_the_file(&mut watch, &wake, &file).await;
    }

    async fn woken_by_a_rename_to_the_file(watch: &mut FolderWatch, wake: &Notify, file: &Path) {
        let beside = file.with_extension("new");
        fs::write(&beside, "2").unwrap();
        woken(watch, wake, || fs::rename(&beside, file).unwrap()).await;
    }

    #[tokio::test]
    async fn reading_the_file_does_not_wake_the_watch() {
        let dir = tempfile::Builder::new().prefix("runtime-").tempdir().unwrap();
        let file = dir.path().join("WORKFLOW.md");
        fs::write(&file, "1").unwrap();
        let wake = Arc::new(Notify::new());
        let mut watch = FolderWatch::new(file.clone(), &wake);
        watch.rearm();
        while tokio::time::timeout(Duration::from_millis(50), wake.notified()).await.is_ok() {}
        fs::read(&file).unwrap();
        let woken = tokio::time::timeout(Duration::from_millis(200), wake.notified()).await;
        assert!(woken.is_err());
    }
}
