//! The state file of versions before the store: its rows are taken over once (contract 12.4, 16.2).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use symphony_core::budget::Spent;
use symphony_core::orchestrator::Job;
use symphony_core::store::{
    Batch, ClaimRow, ClaimStage, Durability, Life, OperatorRow, PollRow, Rows, Store, Write,
};
use symphony_core::time::Wall;
use symphony_core::workspace::HostId;
use symphony_core::{Issue, Scope, WorkspaceKey};

use crate::disk::{DiskError, Root, blocking};
use crate::service::StartError;

/// Its name among Symphony's own.
pub(crate) const STATE_FILE: &str = "state.json";

/// What the last life of such a version left.
#[derive(Debug, Default, Deserialize)]
struct StateFile {
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
    /// What operators stopped, by the tracker's scope.
    #[serde(default)]
    stopped: BTreeMap<Scope, Vec<StoppedRow>>,
}

/// An issue that an operator stopped.
#[derive(Debug, Deserialize)]
struct StoppedRow {
    issue: Issue,
    since: Wall,
    #[serde(default)]
    seen: bool,
    #[serde(default)]
    attempt: Option<u32>,
}

/// Begins a life with what a state file says, if there is one and the store has nothing yet.
pub(crate) async fn begin(
    store: &dyn Store,
    root: &Arc<Root>,
    scope: &Scope,
    now: Wall,
) -> Result<Life, StartError> {
    let mut life = store.begin(scope, now).await?;
    let found = Arc::clone(root);
    if let Some(state) = blocking(move || read(&found, now)).await? {
        let batch =
            Batch { durability: Durability::Machine, writes: state.into_writes(&life.rows) };
        store.commit(&batch).await?;
        life.rows = store.rows(scope).await?;
        let done = Arc::clone(root);
        let moved_to = blocking(move || done.set_own_aside(STATE_FILE)).await?;
        let moved_to = moved_to.display();
        tracing::info!(%moved_to, "the state file was taken over and set aside");
    }
    // Whatever number the store begins with, none is used twice.
    life.boot = life.boot.saturating_add(life.rows.operator.earlier_lives);
    Ok(life)
}

/// Reads the file; one that cannot be used counts as one that says nothing but that lives have been.
fn read(root: &Root, now: Wall) -> Result<Option<StateFile>, DiskError> {
    let error = match root.read_own(STATE_FILE) {
        Ok(None) => return Ok(None),
        Ok(Some(text)) => match serde_json::from_slice(&text) {
            Ok(state) => return Ok(Some(state)),
            Err(error) => error.to_string(),
        },
        // Such as another user's file, a link or a folder in its place.
        Err(error) if error.is_foreign() => error.to_string(),
        Err(error) => return Err(error),
    };
    tracing::warn!(error, "the state file is damaged; nothing is taken over from it");
    // The numbers of earlier lives are lost, but they counted lives, not seconds.
    let boot = u64::try_from(now.as_unix_millis() / 1000).unwrap_or_default();
    Ok(Some(StateFile { boot, ..StateFile::default() }))
}

impl StateFile {
    /// Returns the rows of it. A store that has rows of its own knows better: only the lives count.
    fn into_writes(self, known: &Rows) -> Vec<Write> {
        let is_new = *known == Rows::default();
        let paused = if is_new { self.paused } else { known.operator.paused };
        let earlier_lives = self.boot.max(known.operator.earlier_lives);
        let mut writes = vec![Write::Operator(OperatorRow { paused, earlier_lives })];
        if !is_new {
            return writes;
        }
        if let Some(scope) = self.scope {
            let (last_runs, spent) = (self.last_runs, self.spent);
            writes.push(Write::Polls(PollRow { scope, last_runs, spent }));
        }
        for (scope, issues) in self.stopped {
            let claims = issues.into_iter().filter_map(|row| row.into_claim(scope.clone()));
            writes.extend(claims.map(|claim| Write::Claim(Box::new(claim))));
        }
        writes
    }
}

impl StoppedRow {
    fn into_claim(self, scope: Scope) -> Option<ClaimRow> {
        let id = &self.issue.id;
        let key = WorkspaceKey::derive(self.issue.identifier.as_str());
        let key = key.or_else(|_| WorkspaceKey::derive(&format!("stopped-{id}"))).ok()?;
        Some(ClaimRow {
            scope,
            issue: self.issue,
            key,
            host: HostId::local(),
            stage: ClaimStage::Blocked,
            attempt: self.attempt,
            failure: None,
            unchanged_ends: 0,
            interruptions: 0,
            due: None,
            thread: None,
            agent: None,
            unanswered: false,
            asked: None,
            counted: BTreeMap::new(),
            question: None,
            since: Some(self.since),
            seen: self.seen,
        })
    }
}
