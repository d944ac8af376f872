//! File events of the workflow file.
//!
//! Folders are watched, not the file: editors replace files by rename, and that kills a watch on
//! an inode.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecursiveMode, Watcher};
use tokio::sync::Notify;

/// How many links may lead to the file.
const MAX_LINKS: usize = 40;

/// The folders in which a change of the file shows: its own, and those of the links to it.
pub(crate) struct FolderWatch {
    path: PathBuf,
    watcher: Option<notify::RecommendedWatcher>,
    /// Each watched folder, and which one it was: a folder that was replaced is watched anew.
    folders: BTreeMap<PathBuf, (u64, u64)>,
    /// The names whose events count: the file's, those of links to it, and the folders themselves.
    names: Arc<Mutex<BTreeSet<PathBuf>>>,
}

impl FolderWatch {
    pub(crate) fn new(path: PathBuf, wake: &Arc<Notify>) -> Self {
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
    pub(crate) fn rearm(&mut self) {
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

    use std::time::Duration;

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
