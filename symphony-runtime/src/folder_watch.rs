//! File events of the workflow file.
//!
//! Folders are watched, not the file: editors replace files by rename, and that kills a watch on
//! an inode.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::Instant;

/// How many links may lead to the file.
const MAX_LINKS: usize = 40;

/// How long after a failure the watch is tried again. The pause doubles while failures go on; the
/// re-check of the file covers it.
const MIN_RETRY_PAUSE: Duration = Duration::from_secs(10);
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(300);

/// Creates a watcher that reports to [`FileEvents`].
type CreateWatcher = Box<dyn Fn(Arc<FileEvents>) -> notify::Result<Box<dyn Watcher + Send>> + Send>;

/// Device, inode and creation of a folder. An inode alone may be that of a folder made anew, whose
/// watch ended with the old one.
type FolderIdentity = (u64, u64, Option<SystemTime>);

/// Watches the folders in which a change of the file shows: its own, and those of the links to it.
pub(crate) struct FolderWatch {
    path: PathBuf,
    create: CreateWatcher,
    watcher: Option<Box<dyn Watcher + Send>>,
    /// Each watched folder, and which one it was: a folder that was replaced is watched anew.
    folders: BTreeMap<PathBuf, FolderIdentity>,
    events: Arc<FileEvents>,
    /// When the watch may be tried again after the last failure, and the pause that led to it.
    retry_at: Option<(Instant, Duration)>,
    is_failing: bool,
}

impl FolderWatch {
    pub(crate) fn new(path: PathBuf, wake: &Arc<Notify>) -> Self {
        let create: CreateWatcher = Box::new(|events| {
            let watcher = notify::recommended_watcher(move |event| events.on_event(event))?;
            Ok(Box::new(watcher))
        });
        Self::with_watcher(path, wake, create)
    }

    fn with_watcher(path: PathBuf, wake: &Arc<Notify>, create: CreateWatcher) -> Self {
        Self {
            path,
            create,
            watcher: None,
            folders: BTreeMap::new(),
            events: Arc::new(FileEvents {
                wake: Arc::clone(wake),
                names: Mutex::default(),
                error: Mutex::default(),
            }),
            retry_at: None,
            is_failing: false,
        }
    }

    /// Watches what has to be watched now. What fails is tried again, with a backoff.
    pub(crate) fn rearm(&mut self) {
        let error = lock(&self.events.error).take();
        if let Some(error) = error {
            // It may have lost its watches.
            self.watcher = None;
            self.folders.clear();
            self.on_failure(&error);
        }
        if self.retry_at.is_some_and(|(at, _)| Instant::now() < at) {
            return;
        }
        match self.watch_folders() {
            Ok(()) if std::mem::take(&mut self.is_failing) => {
                tracing::info!("the workflow file is watched again");
            }
            Ok(()) => {}
            Err(error) => self.on_failure(&error),
        }
    }

    fn watch_folders(&mut self) -> notify::Result<()> {
        let (wanted, mut names) = folders(&self.path);
        names.extend(wanted.keys().cloned());
        // Before the folders are watched: no event of theirs is to be missed.
        *lock(&self.events.names) = names;
        let watcher = match &mut self.watcher {
            Some(watcher) => watcher,
            None => self.watcher.insert((self.create)(Arc::clone(&self.events))?),
        };
        let mut watched = Ok(());
        self.folders.retain(|folder, identity| {
            let is_current = wanted.get(folder) == Some(identity);
            if !is_current {
                let _ = watcher.unwatch(folder);
            }
            is_current
        });
        for (folder, identity) in wanted {
            if self.folders.contains_key(&folder) {
                continue;
            }
            match watcher.watch(&folder, RecursiveMode::NonRecursive) {
                Ok(()) => drop(self.folders.insert(folder, identity)),
                Err(error) => watched = Err(error),
            }
        }
        watched
    }

    /// Plans the next try. A failure soon after the last one doubles the pause.
    fn on_failure(&mut self, error: &notify::Error) {
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::warn!(
                %error,
                "the workflow file cannot be watched; it is read every few seconds instead, and the \
                 watch is tried again"
            );
        }
        let now = Instant::now();
        let pause = match self.retry_at {
            Some((at, pause)) if now < at + MAX_RETRY_PAUSE => (pause * 2).min(MAX_RETRY_PAUSE),
            _ => MIN_RETRY_PAUSE,
        };
        self.retry_at = Some((now + pause, pause));
    }
}

/// What the watcher's thread shares with the task.
struct FileEvents {
    wake: Arc<Notify>,
    /// The names whose events count: the file's, those of links to it, and the folders themselves.
    names: Mutex<BTreeSet<PathBuf>>,
    /// The last error of the watcher.
    error: Mutex<Option<notify::Error>>,
}

impl FileEvents {
    /// Wakes the task, unless an event is about other files of the folder, the log perhaps, or the
    /// task's own reading.
    fn on_event(&self, event: notify::Result<notify::Event>) {
        match event {
            Ok(event) if is_reading(event.kind) || is_elsewhere(&event, &self.names) => return,
            Ok(_) => {}
            Err(error) => *lock(&self.error) = Some(error),
        }
        self.wake.notify_one();
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

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the folders to watch, and the names in them that lead to the file.
fn folders(path: &Path) -> (BTreeMap<PathBuf, FolderIdentity>, BTreeSet<PathBuf>) {
    let (mut folders, mut names) = (BTreeMap::new(), BTreeSet::new());
    let mut add = |file: &Path| {
        names.insert(file.to_owned());
        let folder = file.parent().map(Path::to_owned);
        let identity = folder.as_ref().and_then(|folder| std::fs::metadata(folder).ok());
        if let (Some(folder), Some(identity)) = (folder, identity) {
            folders.insert(folder, (identity.dev(), identity.ino(), identity.created().ok()));
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
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    /// Waits for a wake that follows an edit.
    async fn woken(watch: &mut FolderWatch, wake: &Notify, edit: impl FnOnce()) {
        watch.rearm();
        // What the last edit, or rearming, has left.
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
    async fn rule_2_6_a_folder_that_was_made_anew_is_watched_again() {
        let dir = tempfile::Builder::new().prefix("runtime-").tempdir().unwrap();
        let (folder, file) = (dir.path().join("a"), dir.path().join("a/WORKFLOW.md"));
        let wake = Arc::new(Notify::new());
        let mut watch = FolderWatch::new(file.clone(), &wake);
        // Often with the inode that it had before.
        for _ in 0..3 {
            fs::create_dir(&folder).unwrap();
            fs::write(&file, "1").unwrap();
            woken(&mut watch, &wake, || fs::write(&file, "2").unwrap()).await;
            fs::remove_dir_all(&folder).unwrap();
        }
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
    /// A watcher whose watches fail while told so, and are counted.
    #[derive(Default)]
    struct FlakyWatcher {
        is_failing: AtomicBool,
        tries: AtomicUsize,
    }

    #[derive(Clone)]
    struct Flaky(Arc<FlakyWatcher>);

    impl Watcher for Flaky {
        fn new<F: notify::EventHandler>(_: F, _: notify::Config) -> notify::Result<Self> {
            Err(notify::Error::generic("made by the test"))
        }

        fn watch(&mut self, _: &Path, _: RecursiveMode) -> notify::Result<()> {
            self.0.tries.fetch_add(1, Ordering::Relaxed);
            match self.0.is_failing.load(Ordering::Relaxed) {
                true => Err(notify::Error::generic("no space left on device")),
                false => Ok(()),
            }
        }

        fn unwatch(&mut self, _: &Path) -> notify::Result<()> {
            Ok(())
        }

        fn kind() -> notify::WatcherKind {
            notify::WatcherKind::NullWatcher
        }
    }

    /// Looks at the file every ten seconds, and returns how often a watch was tried.
    async fn tries(watch: &mut FolderWatch, flaky: &Flaky, looks: u32) -> usize {
        flaky.0.tries.store(0, Ordering::Relaxed);
        for _ in 0..looks {
            tokio::time::advance(MIN_RETRY_PAUSE).await;
            watch.rearm();
            watch.rearm();
        }
        flaky.0.tries.load(Ordering::Relaxed)
    }

    #[tokio::test(start_paused = true)]
    async fn rule_2_6_a_failed_watch_is_tried_again_with_a_backoff() {
        let dir = tempfile::Builder::new().prefix("runtime-").tempdir().unwrap();
        let file = dir.path().canonicalize().unwrap().join("WORKFLOW.md");
        let flaky = Flaky(Arc::default());
        flaky.0.is_failing.store(true, Ordering::Relaxed);
        let watcher = flaky.clone();
        let create: CreateWatcher = Box::new(move |_| Ok(Box::new(watcher.clone())));
        let mut watch = FolderWatch::with_watcher(file, &Arc::default(), create);
        assert_eq!(tries(&mut watch, &flaky, 1).await, 1);
        assert_eq!(tries(&mut watch, &flaky, 7).await, 3, "after 10, 20 and 40 s");
        assert_eq!(tries(&mut watch, &flaky, 360).await, 13, "then every 5 minutes");
        flaky.0.is_failing.store(false, Ordering::Relaxed);
        assert_eq!(tries(&mut watch, &flaky, 30).await, 1, "watched again");
        assert_eq!(tries(&mut watch, &flaky, 360).await, 0);

        // An error of the watcher itself: it is made anew.
        watch.events.on_event(Err(notify::Error::generic("made by the test")));
        watch.rearm();
        assert_eq!(tries(&mut watch, &flaky, 1).await, 1);
        assert_eq!(tries(&mut watch, &flaky, 360).await, 0);
    }
}
