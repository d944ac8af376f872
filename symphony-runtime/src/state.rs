//! The small state file that survives a restart (contract 12.4).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use symphony_core::Scope;
use symphony_core::budget::Spent;
use symphony_core::orchestrator::{Decisions, Job, Saved, StoppedIssue};
use symphony_core::time::Wall;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::disk::{DiskError, Root};

/// Its name among Symphony's own.
pub(crate) const STATE_FILE: &str = "state.json";

/// What the last life left.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedState {
    /// Which life of the service it was.
    boot: u64,
    #[serde(default)]
    scope: Option<Scope>,
    #[serde(default)]
    last_runs: BTreeMap<Job, Wall>,
    #[serde(default)]
    spent: Spent,
    #[serde(default)]
    paused: bool,
    /// What operators stopped, by the tracker's scope: the same id in another one is another issue.
    #[serde(default)]
    stopped: BTreeMap<Scope, Vec<StoppedIssue>>,
}

impl SavedState {
    /// Reads what the last life left and begins a new one, with a number that was never used.
    pub(crate) fn begin(root: &Root, now: Wall) -> Result<Self, DiskError> {
        let mut state = match Self::read(root)? {
            Ok(state) => state,
            Err(error) => {
                let moved_to = root.set_own_aside(STATE_FILE)?;
                let moved_to = moved_to.display();
                tracing::warn!(error, %moved_to, "the state file is damaged; it was set aside");
                // The numbers of earlier lives are lost, but they counted lives, not seconds.
                let boot = u64::try_from(now.as_unix_millis() / 1000).unwrap_or_default();
                Self { boot, ..Self::default() }
            }
        };
        state.boot = state.boot.saturating_add(1);
        state.write(root)?;
        Ok(state)
    }

    /// What the last life left; or why that is nothing one can use, such as another user's file, a link
    /// or a folder in its place.
    fn read(root: &Root) -> Result<Result<Self, String>, DiskError> {
        match root.read_own(STATE_FILE) {
            Ok(None) => Ok(Ok(Self::default())),
            Ok(Some(text)) => Ok(serde_json::from_slice(&text).map_err(|error| error.to_string())),
            Err(error) if error.is_foreign() => Ok(Err(error.to_string())),
            Err(error) => Err(error),
        }
    }

    fn write(&self, root: &Root) -> Result<(), DiskError> {
        let text = serde_json::to_vec_pretty(self).unwrap_or_default();
        root.write_own(STATE_FILE, &text)
    }

    /// Which life of the service this is.
    pub(crate) const fn boot(&self) -> u64 {
        self.boot
    }

    /// How long ago each job last ran on this scope. A clock that went back makes no age negative.
    pub(crate) fn job_ages(&self, scope: &Scope, now: Wall) -> BTreeMap<Job, Duration> {
        if self.scope.as_ref() != Some(scope) {
            return BTreeMap::new();
        }
        let age = |at: Wall| at.until(now).unwrap_or_default();
        self.last_runs.iter().map(|(job, at)| (job.clone(), age(*at))).collect()
    }

    /// The requests of the saved day.
    pub(crate) fn spent(&self) -> Spent {
        self.spent.clone()
    }

    /// What operators decided about the issues of this scope.
    pub(crate) fn decisions(&self, scope: &Scope) -> Decisions {
        let stopped = self.stopped.get(scope).cloned().unwrap_or_default();
        Decisions { paused: self.paused, stopped }
    }

    fn update(&mut self, saved: Saved) {
        let Decisions { paused, stopped } = saved.decisions;
        self.paused = paused;
        if stopped.is_empty() {
            self.stopped.remove(&saved.scope);
        } else {
            self.stopped.insert(saved.scope.clone(), stopped);
        }
        self.scope = Some(saved.scope);
        self.last_runs = saved.last_runs;
        self.spent = saved.spent;
    }
}

/// Writes the latest state, and only that, away from the driver.
#[derive(Debug)]
pub(crate) struct Saver {
    latest: watch::Sender<Option<Saved>>,
    task: AbortOnDropHandle<()>,
}

impl Saver {
    /// Starts the task that writes.
    pub(crate) fn start(mut state: SavedState, root: Arc<Root>) -> Self {
        let (sender, mut latest) = watch::channel(None);
        let task = tokio::spawn(async move {
            let mut troubles = Troubles::default();
            while latest.changed().await.is_ok() {
                let Some(saved) = latest.borrow_and_update().clone() else { continue };
                state.update(saved);
                let (now, root) = (state.clone(), Arc::clone(&root));
                // The file is small, but the disk may be slow.
                let written = tokio::task::spawn_blocking(move || now.write(&root)).await;
                match written
                    .map(|written| troubles.update(written.map_err(|error| error.to_string())))
                {
                    Ok(Some(SaveNotice::Trouble(error))) => {
                        tracing::warn!(error, "the state file could not be written");
                    }
                    Ok(Some(SaveNotice::Over)) => tracing::info!("the state file is written again"),
                    Ok(None) | Err(_) => {}
                }
            }
        });
        Self { latest: sender, task: AbortOnDropHandle::new(task) }
    }

    pub(crate) fn save(&self, saved: Saved) {
        self.latest.send_replace(Some(saved));
    }

    /// Waits until the last of it is written.
    pub(crate) async fn finish(self) {
        drop(self.latest);
        let _ = self.task.await;
    }
}

/// What has been told of a thing that is tried again and again: each trouble once, until it is over.
#[derive(Debug, Default)]
struct Troubles(BTreeSet<String>);

/// What is to be told.
#[derive(Debug, PartialEq, Eq)]
enum SaveNotice {
    Trouble(String),
    Over,
}

impl Troubles {
    /// Takes in one more try, and says what is new.
    fn update(&mut self, outcome: Result<(), String>) -> Option<SaveNotice> {
        match outcome {
            Ok(()) => (!std::mem::take(&mut self.0).is_empty()).then_some(SaveNotice::Over),
            Err(error) => self.0.insert(error.clone()).then_some(SaveNotice::Trouble(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_12_4_a_state_file_of_another_version_is_read() {
        let newer = r#"{"boot": 7, "paused": true, "of_a_later_version": {"a": [1]}}"#;
        let state: SavedState = serde_json::from_str(newer).unwrap();
        assert_eq!(state, SavedState { boot: 7, paused: true, ..SavedState::default() });
        let older: SavedState = serde_json::from_str(r#"{"boot": 8}"#).unwrap();
        assert_eq!(older, SavedState { boot: 8, ..SavedState::default() });
    }

    #[test]
    fn rule_12_4_each_trouble_with_the_state_file_is_told_once() {
        let mut troubles = Troubles::default();
        let mut told = |outcome: Result<(), &str>| troubles.update(outcome.map_err(Into::into));
        let trouble = |error: &str| Some(SaveNotice::Trouble(error.into()));
        assert_eq!(told(Ok(())), None);
        assert_eq!(told(Err("full")), trouble("full"));
        assert_eq!(told(Err("full")), None);
        assert_eq!(told(Err("gone")), trouble("gone"));
        assert_eq!(told(Err("full")), None);
        assert_eq!(told(Ok(())), Some(SaveNotice::Over));
        assert_eq!(told(Ok(())), None);
        assert_eq!(told(Err("full")), trouble("full"));
    }
}
