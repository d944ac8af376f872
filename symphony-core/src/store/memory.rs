//! Rows in memory: for tests, and for programs that want nothing to survive them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::{
    Batch, Life, RowMap, Rows, RunQuery, RunRow, SpendQuery, SpendRow, Store, StoreError, sum_spend,
};
use crate::time::Wall;
use crate::workspace::Scope;

/// Keeps rows for as long as it lives itself. Services that share one, one after another, are lives
/// of one service.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<RowMap>);

impl MemoryStore {
    /// Makes an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, RowMap> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn begin(&self, scope: &Scope, _: Wall) -> Result<Life, StoreError> {
        let mut rows = self.lock();
        Ok(Life::new(rows.begin(), rows.of_scope(scope)))
    }

    async fn rows(&self, scope: &Scope) -> Result<Rows, StoreError> {
        Ok(self.lock().of_scope(scope))
    }

    async fn commit(&self, batch: &Batch) -> Result<(), StoreError> {
        let mut rows = self.lock();
        batch.writes.iter().for_each(|write| rows.apply(write));
        Ok(())
    }

    async fn runs(&self, query: &RunQuery) -> Result<Vec<RunRow>, StoreError> {
        let rows = self.lock();
        let mut runs: Vec<&RunRow> = rows.runs().filter(|run| query.wants(run)).collect();
        runs.sort_by_key(|run| std::cmp::Reverse((run.began, run.run)));
        let limit = query.limit.unwrap_or(usize::MAX);
        Ok(runs.into_iter().skip(query.skip).take(limit).cloned().collect())
    }

    async fn spend(&self, query: &SpendQuery) -> Result<Vec<SpendRow>, StoreError> {
        Ok(sum_spend(self.lock().runs(), query))
    }
}

impl RunQuery {
    fn wants(&self, run: &RunRow) -> bool {
        self.scope.as_ref().is_none_or(|scope| *scope == run.scope)
            && self.issue.as_ref().is_none_or(|issue| *issue == run.issue)
            && self.since.is_none_or(|since| run.began >= since)
    }
}
