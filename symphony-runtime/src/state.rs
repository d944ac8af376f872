//! The small state file that survives a restart (contract 12.4).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use symphony_core::Scope;
use symphony_core::orchestrator::{Job, Saved, Spent};
use symphony_core::time::Wall;
use tokio::sync::watch;

use crate::disk::{Root, read_file, replace_file};

const FILE: &str = "state.json";

/// What the last life left.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    /// Which life of the service it was.
    pub(crate) boot: u64,
    scope: Option<Scope>,
    #[serde(default)]
    last_runs: Vec<(Job, Wall)>,
    #[serde(default)]
    spent: Spent,
}

impl State {
    /// Reads the file; a missing or damaged one is as good as none.
    pub(crate) fn read(root: &Root) -> Self {
        let Ok(text) = read_file(root.own(), FILE) else { return Self::default() };
        serde_json::from_slice(&text).unwrap_or_else(|error| {
            tracing::warn!(%error, "the state file is damaged and ignored");
            Self::default()
        })
    }

    pub(crate) fn write(&self, root: &Root) {
        let text = serde_json::to_vec_pretty(self).unwrap_or_default();
        if let Err(error) = replace_file(root.own(), FILE, &text) {
            tracing::warn!(%error, "the state file could not be written");
        }
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

    pub(crate) fn take(&mut self, saved: Saved) {
        self.scope = Some(saved.scope);
        self.last_runs = saved.last_runs.into_iter().collect();
        self.spent = saved.spent;
    }
}

/// Writes the latest state, and only that, away from the driver.
#[derive(Debug)]
pub(crate) struct Saver(watch::Sender<Option<Saved>>);

impl Saver {
    /// Starts the task that writes.
    pub(crate) fn start(mut state: State, root: Arc<Root>) -> Self {
        let (sender, mut latest) = watch::channel(None);
        tokio::spawn(async move {
            while latest.changed().await.is_ok() {
                let Some(saved) = latest.borrow_and_update().clone() else { continue };
                state.take(saved);
                let (state, root) = (state.clone(), Arc::clone(&root));
                // The file is small, but the disk may be slow.
                let _ = tokio::task::spawn_blocking(move || state.write(&root)).await;
            }
        });
        Self(sender)
    }

    pub(crate) fn save(&self, saved: Saved) {
        self.0.send_replace(Some(saved));
    }
}
