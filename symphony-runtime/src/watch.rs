//! Watching the workflow file (contract 2.6).
//!
//! The folder is watched, not the file: editors replace files by rename, and that kills a watch on
//! an inode. A re-check before each poll finds what the watch missed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use notify::{RecursiveMode, Watcher};
use symphony_core::orchestrator::{Event, Generation};
use symphony_core::problem::{Problem, ProblemKind};
use tokio::sync::Notify;

use crate::disk::{Disk, Root};
use crate::driver::{Inbox, Message};
use crate::loader::{Loaded, Loader};

/// The last of a burst of edits wins: this long after it, the file is read.
const SETTLE: Duration = Duration::from_millis(100);

/// Watches, re-reads and hands over until the driver is gone.
pub(crate) async fn watch(
    loader: Loader,
    disk: Arc<Disk>,
    recheck: Arc<Notify>,
    inbox: Inbox,
    mut seen: String,
) {
    let wake = Arc::clone(&recheck);
    let _watcher = start_watcher(&loader.path, wake);
    let mut generation = Generation(0);
    let mut last_problems: Option<Vec<Problem>> = None;
    loop {
        recheck.notified().await;
        tokio::time::sleep(SETTLE).await;
        let text = match loader.text() {
            Ok(text) => text,
            Err(problem) => {
                seen.clear();
                tell_problems(&inbox, vec![problem], &mut last_problems);
                continue;
            }
        };
        if text == seen && last_problems.is_none() {
            continue;
        }
        if text == seen && last_problems.is_some() && !seen.is_empty() {
            continue;
        }
        seen.clone_from(&text);
        let next = Generation(generation.0 + 1);
        let loaded = match loader.load(&text, next) {
            Ok(loaded) => take_root(loaded, &disk).await,
            Err(problems) => Err(problems),
        };
        match loaded {
            Ok(loaded) => {
                generation = next;
                last_problems = None;
                if !inbox.pass(Message::Loaded(Box::new(loaded))) {
                    return;
                }
            }
            Err(problems) => tell_problems(&inbox, problems, &mut last_problems),
        }
    }
}

fn tell_problems(inbox: &Inbox, problems: Vec<Problem>, last: &mut Option<Vec<Problem>>) {
    if last.as_ref() != Some(&problems) {
        inbox.send(Event::ReloadFailed { problems: problems.clone() });
        *last = Some(problems);
    }
}

/// A reload to another root takes its lock first.
async fn take_root(mut loaded: Loaded, disk: &Arc<Disk>) -> Result<Loaded, Vec<Problem>> {
    let scope = loaded.configuration.scope.clone();
    let wanted = loaded.configuration.settings.workspace.root.clone();
    let current = disk.current();
    let held = Arc::clone(disk);
    let opened = tokio::task::spawn_blocking(move || {
        let resolved = Root::resolve(&wanted)?;
        match held.held(&resolved) {
            Some(root) => Ok(root),
            None => Root::open(&resolved).map(Arc::new),
        }
    });
    let root = match opened.await {
        Ok(Ok(root)) => root,
        Ok(Err(error)) => {
            let problem = Problem::new(ProblemKind::InvalidSetting, error.to_string());
            return Err(vec![problem.path("workspace.root")]);
        }
        Err(error) => {
            let problem = Problem::new(ProblemKind::InvalidSetting, error.to_string());
            return Err(vec![problem.path("workspace.root")]);
        }
    };
    let is_other = root.path() != current.path();
    disk.use_root(root, scope);
    if is_other {
        match disk.list().await {
            Ok(workspaces) => loaded.workspaces = Some(workspaces),
            Err(error) => tracing::warn!(%error, "the workspaces could not be listed"),
        }
    }
    Ok(loaded)
}

/// A watch that fails is a warning: the re-check still finds every edit.
fn start_watcher(path: &Path, wake: Arc<Notify>) -> Option<notify::RecommendedWatcher> {
    let path = std::path::absolute(path).ok()?;
    let folder = path.parent()?.to_owned();
    // A symlinked file changes where it points to.
    let target = std::fs::canonicalize(&path).ok().and_then(|real| real.parent().map(Path::to_owned));
    let watcher = notify::recommended_watcher(move |_: Result<notify::Event, notify::Error>| {
        wake.notify_one();
    });
    let result = watcher.and_then(|mut watcher| {
        watcher.watch(&folder, RecursiveMode::NonRecursive)?;
        if let Some(target) = target.filter(|target| *target != folder) {
            watcher.watch(&target, RecursiveMode::NonRecursive)?;
        }
        Ok(watcher)
    });
    result
        .inspect_err(|error| {
            tracing::warn!(%error, "the workflow file cannot be watched; it is re-read with each poll");
        })
        .ok()
}
