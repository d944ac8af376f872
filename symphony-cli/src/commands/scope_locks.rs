//! One service per tracker scope on one machine (contract 16.6).
//!
//! Below the user's state folder each scope has a folder, and in it a file for each service that
//! works on it, which that service keeps locked: the kernel frees it however the service ends. A
//! second service is refused unless it works on other states.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use symphony_core::issue::StateName;
use symphony_core::{Scope, Settings, WorkspaceKey};
use symphony_host::ProcessId;
use symphony_memory::MEMORY;
use symphony_runtime::{HeldScope, ScopeGuard, plain};
use tracing::warn;

/// Below the state folder.
const SCOPES_FOLDER: &str = "scopes";

/// Locked while one service looks at the others.
const TURN_FILE: &str = "turn";

/// How often a lock is tried again whose holder has ended. A child that a killed holder had forked
/// keeps it until it calls exec: a moment.
const LOCK_RETRIES: u32 = 100;
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// What is read of another service's file.
const MAX_ENTRY_BYTES: u64 = 64 << 10;

/// The locks of one service.
#[derive(Debug)]
pub(super) struct ScopeLocks {
    folder: PathBuf,
    workflow: PathBuf,
    allow_second: bool,
    taken: AtomicU64,
}

/// What a service says of itself.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    pid: u32,
    scope: String,
    workflow: PathBuf,
    root: PathBuf,
    active_states: Vec<String>,
}

/// The file of a service, locked. It goes when the scope is left.
struct LockedEntry {
    path: PathBuf,
    _file: File,
}

impl Drop for LockedEntry {
    fn drop(&mut self) {
        // What stays behind is not locked, and the next service removes it.
        let _ = fs::remove_file(&self.path);
    }
}

impl ScopeLocks {
    /// Prepares the locks of the service of a workflow file.
    pub(super) fn new(state_folder: &Path, workflow: &Path, allow_second: bool) -> Self {
        let workflow = std::path::absolute(workflow).unwrap_or_else(|_| workflow.to_owned());
        let folder = state_folder.join(SCOPES_FOLDER);
        Self { folder, workflow, allow_second, taken: AtomicU64::new(0) }
    }

    fn entry(&self, scope: &Scope, settings: &Settings) -> Entry {
        let states = settings.tracker.active_states.names();
        Entry {
            pid: std::process::id(),
            scope: scope.to_string(),
            workflow: self.workflow.clone(),
            root: settings.workspace.root.clone(),
            active_states: states.iter().map(ToString::to_string).collect(),
        }
    }

    /// Looks at the other services of the scope, and adds this one.
    fn try_take(&self, entry: &Entry) -> io::Result<Result<LockedEntry, Entry>> {
        let name = WorkspaceKey::derive(&entry.scope).map_err(io::Error::other)?;
        let folder = self.folder.join(name.as_str());
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let turn = create(&folder.join(TURN_FILE))?;
        turn.lock()?;
        for found in fs::read_dir(&folder)? {
            let path = found?.path();
            if path.extension().is_some_and(|extension| extension == "json")
                && let Some(other) = holder(&path)?
                && !self.allow_second
                && other.pid != entry.pid
                && other.shares_a_state(entry)
            {
                return Ok(Err(other));
            }
        }
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("{}-{number}.json", entry.pid));
        let mut file = create(&path)?;
        file.try_lock()?;
        file.set_len(0)?;
        file.write_all(&serde_json::to_vec(entry)?)?;
        Ok(Ok(LockedEntry { path, _file: file }))
    }
}

impl ScopeGuard for ScopeLocks {
    fn take(&self, scope: &Scope, settings: &Settings) -> Result<HeldScope, String> {
        // A board in the workflow file is this service's own.
        if scope.as_str() == MEMORY {
            return Ok(HeldScope::new(()));
        }
        match self.try_take(&self.entry(scope, settings)) {
            Ok(Ok(entry)) => Ok(HeldScope::new(entry)),
            Ok(Err(other)) => Err(other.refusal()),
            Err(error) if self.allow_second => {
                warn!(%error, folder = %self.folder.display(), "the tracker's scope is not locked");
                Ok(HeldScope::new(()))
            }
            Err(error) => Err(format!(
                "the lock of the tracker's scope cannot be taken in {}: {error}; set \
                 XDG_STATE_HOME to a folder that can be written, or start with --allow-second",
                self.folder.display()
            )),
        }
    }
}

impl Entry {
    fn shares_a_state(&self, other: &Self) -> bool {
        let states = |entry: &Self| -> Vec<StateName> {
            entry.active_states.iter().map(|name| name.as_str().into()).collect()
        };
        let known = states(other);
        // One that says nothing may work on anything.
        self.active_states.is_empty() || states(self).iter().any(|state| known.contains(state))
    }

    fn refusal(&self) -> String {
        let (scope, root) = (plain(&self.scope, 200), plain(&self.root.to_string_lossy(), 500));
        let workflow = plain(&self.workflow.to_string_lossy(), 500);
        let who = if self.pid == 0 { "another".to_owned() } else { self.pid.to_string() };
        format!(
            "process {who} works on the same issues ({scope}), in {root}, as {workflow} says: stop \
             it, give the two different tracker.active_states, or start this one with \
             --allow-second if something else keeps them apart, such as tracker.required_labels"
        )
    }
}

/// Returns what the service says of itself whose file this is; `None` if that has ended.
fn holder(path: &Path) -> io::Result<Option<Entry>> {
    let file = match open(path, false) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut text = Vec::new();
    (&file).take(MAX_ENTRY_BYTES).read_to_end(&mut text)?;
    let said: Option<Entry> = serde_json::from_slice(&text).ok();
    let is_ending = said
        .as_ref()
        .is_some_and(|entry| !ProcessId::from_pid(entry.pid).is_some_and(ProcessId::is_alive));
    let mut tries = if is_ending { LOCK_RETRIES } else { 0 };
    loop {
        match file.try_lock() {
            Ok(()) => {
                fs::remove_file(path)?;
                return Ok(None);
            }
            Err(TryLockError::WouldBlock) if tries == 0 => break,
            Err(TryLockError::WouldBlock) => {
                tries -= 1;
                std::thread::sleep(LOCK_RETRY_INTERVAL);
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    let unknown = || Entry {
        pid: 0,
        scope: "unknown".to_owned(),
        workflow: path.to_owned(),
        root: PathBuf::from("unknown"),
        active_states: Vec::new(),
    };
    Ok(Some(said.unwrap_or_else(unknown)))
}

fn create(path: &Path) -> io::Result<File> {
    open(path, true)
}

fn open(path: &Path, create: bool) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(create).truncate(false).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use symphony_core::StateSet;

    use super::*;

    fn settings(states: &[&str]) -> Settings {
        let states = StateSet::new(states.iter().copied());
        Settings::new("linear", states, StateSet::default(), "/w".into())
    }

    /// The entry of another process, which holds it for as long as the file lives.
    fn other(locks: &ScopeLocks, states: &[&str]) -> LockedEntry {
        let mut entry = locks.entry(&scope(), &settings(states));
        entry.pid = std::os::unix::process::parent_id();
        locks.try_take(&entry).unwrap().unwrap()
    }

    fn scope() -> Scope {
        Scope::from("linear SYM")
    }

    #[test]
    fn rule_16_6_a_second_service_on_the_same_states_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let locks = ScopeLocks::new(folder.path(), Path::new("/code/WORKFLOW.md"), false);
        let first = other(&locks, &["Todo", "In Progress"]);
        let refused = locks.take(&scope(), &settings(&["in progress "])).unwrap_err();
        let process = format!("process {} ", std::os::unix::process::parent_id());
        for wanted in [&*process, "linear SYM", "/w", "/code/WORKFLOW.md", "--allow-second"] {
            assert!(refused.contains(wanted), "no {wanted:?} in {refused}");
        }
        let apart = locks.take(&scope(), &settings(&["Review"])).unwrap();
        locks.take(&Scope::from("linear OTHER"), &settings(&["Todo"])).unwrap();
        let willing = ScopeLocks::new(folder.path(), Path::new("/code/OTHER.md"), true);
        willing.take(&scope(), &settings(&["Todo"])).unwrap();
        drop((first, apart));
        locks.take(&scope(), &settings(&["Todo"])).unwrap();
    }

    #[test]
    fn rule_16_6_what_a_killed_service_left_keeps_no_other_out() {
        let folder = tempfile::tempdir().unwrap();
        let locks = ScopeLocks::new(folder.path(), Path::new("/code/WORKFLOW.md"), false);
        let first = other(&locks, &["Todo"]);
        let left = first.path.with_file_name("left.json");
        fs::copy(&first.path, &left).unwrap();
        drop(first);
        locks.take(&scope(), &settings(&["Todo"])).unwrap();
        assert!(!left.exists());
    }

    #[test]
    fn rule_16_6_a_service_holds_its_old_scope_while_it_takes_the_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let locks = ScopeLocks::new(folder.path(), Path::new("/code/WORKFLOW.md"), false);
        let before = locks.take(&scope(), &settings(&["Todo"])).unwrap();
        let after = locks.take(&scope(), &settings(&["Todo", "Review"])).unwrap();
        drop(before);
        let held = fs::read_dir(
            folder
                .path()
                .join("scopes")
                .join(WorkspaceKey::derive(scope().as_str()).unwrap().as_str()),
        );
        assert_eq!(held.unwrap().count(), 2, "the turn and what is in force");
        drop(after);
    }

    #[test]
    fn rule_16_6_a_board_in_the_workflow_file_is_the_services_own() {
        let folder = tempfile::tempdir().unwrap();
        let locks = ScopeLocks::new(folder.path(), Path::new("/code/WORKFLOW.md"), false);
        locks.take(&Scope::from(MEMORY), &settings(&["Todo"])).unwrap();
        assert!(!folder.path().join("scopes").exists());
    }

    #[test]
    fn rule_16_6_where_no_lock_can_be_written_the_service_does_not_start_unasked() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let locks = ScopeLocks::new(&file, Path::new("/code/WORKFLOW.md"), false);
        let refused = locks.take(&scope(), &settings(&["Todo"])).unwrap_err();
        assert!(refused.contains("XDG_STATE_HOME") && refused.contains("--allow-second"));
        let willing = ScopeLocks::new(&file, Path::new("/code/WORKFLOW.md"), true);
        willing.take(&scope(), &settings(&["Todo"])).unwrap();
    }
}
