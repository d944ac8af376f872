//! The small state file that survives a restart (contract 12.4).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use symphony_core::Scope;
use symphony_core::orchestrator::{Decisions, Job, Saved, Spent};
use symphony_core::time::Wall;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::disk::{DiskError, Root};

const FILE: &str = "state.json";

/// What the last life left.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    /// Which life of the service it was.
    boot: u64,
    #[serde(default)]
    scope: Option<Scope>,
    #[serde(default)]
    last_runs: BTreeMap<Job, Wall>,
    #[serde(default)]
    spent: Spent,
    #[serde(default)]
    decisions: Decisions,
}

impl State {
    /// Reads what the last life left and begins a new one, with a number that was never used.
    pub(crate) fn begin(root: &Root, now: Wall) -> Result<Self, DiskError> {
        let mut state = match root.read_own(FILE)?.map(|text| serde_json::from_slice(&text)) {
            None => Self::default(),
            Some(Ok(state)) => state,
            Some(Err(error)) => {
                let moved_to = root.set_own_aside(FILE)?;
                let moved_to = moved_to.display();
                tracing::warn!(%error, %moved_to, "the state file is damaged; it was set aside");
                // The numbers of earlier lives are lost, but they counted lives, not seconds.
                let boot = u64::try_from(now.as_unix_millis() / 1000).unwrap_or_default();
                Self { boot, ..Self::default() }
            }
        };
        state.boot = state.boot.saturating_add(1);
        state.write(root)?;
        Ok(state)
    }

    fn write(&self, root: &Root) -> Result<(), DiskError> {
        let text = serde_json::to_vec_pretty(self).unwrap_or_default();
        root.write_own(FILE, &text)
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

    /// What operators decided. The issues they stopped are those of one scope: the same id in
    /// another one is another issue.
    pub(crate) fn decisions(&self, scope: &Scope) -> Decisions {
        let mut decisions = self.decisions.clone();
        if self.scope.as_ref() != Some(scope) {
            decisions.stopped.clear();
        }
        decisions
    }

    fn take(&mut self, saved: Saved) {
        self.scope = Some(saved.scope);
        self.decisions = saved.decisions;
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
    pub(crate) fn start(mut state: State, root: Arc<Root>) -> Self {
        let (sender, mut latest) = watch::channel(None);
        let task = tokio::spawn(async move {
            while latest.changed().await.is_ok() {
                let Some(saved) = latest.borrow_and_update().clone() else { continue };
                state.take(saved);
                let (now, root) = (state.clone(), Arc::clone(&root));
                // The file is small, but the disk may be slow.
                let written = tokio::task::spawn_blocking(move || now.write(&root)).await;
                if let Ok(Err(error)) = written {
                    tracing::warn!(%error, "the state file could not be written");
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
