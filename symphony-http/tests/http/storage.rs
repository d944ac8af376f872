//! What clients learn of a store that cannot be written (contract 16.1, 16.3).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use symphony_core::Scope;
use symphony_core::store::{
    Batch, Life, MemoryStore, Rows, RunQuery, RunRow, SpendQuery, SpendRow, Store, StoreError,
    StoreErrorKind,
};
use symphony_core::time::Wall;
use symphony_http::Config;

use crate::harness::{Harness, issue};

/// A store on a disk that can be full.
#[derive(Debug, Default)]
struct SmallStore {
    inner: MemoryStore,
    is_full: AtomicBool,
}

#[async_trait]
impl Store for SmallStore {
    async fn begin(&self, scope: &Scope, now: Wall) -> Result<Life, StoreError> {
        self.inner.begin(scope, now).await
    }

    async fn rows(&self, scope: &Scope) -> Result<Rows, StoreError> {
        self.inner.rows(scope).await
    }

    async fn commit(&self, batch: &Batch) -> Result<(), StoreError> {
        if self.is_full.load(Ordering::SeqCst) {
            let message = "<b>the disk is full</b>";
            return Err(StoreError::new(StoreErrorKind::Full, message));
        }
        self.inner.commit(batch).await
    }

    async fn runs(&self, query: &RunQuery) -> Result<Vec<RunRow>, StoreError> {
        self.inner.runs(query).await
    }

    async fn spend(&self, query: &SpendQuery) -> Result<Vec<SpendRow>, StoreError> {
        self.inner.spend(query).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_16_1_a_command_that_cannot_be_kept_is_in_force_and_says_storage() {
    let store = Arc::<SmallStore>::default();
    let board = |board| Arc::new(board) as _;
    let harness = Harness::keeping(Config::default(), 1, board, store.clone()).await;
    assert_eq!(harness.post("/api/v1/pause").await.status, 202);
    store.is_full.store(true, Ordering::SeqCst);
    let reply = harness.post("/api/v1/resume").await;
    assert_eq!((reply.status, reply.code().as_str()), (503, "storage"));
    assert!(reply.body.contains("in force"), "{reply:?}");
    harness.until(|snapshot| !snapshot.paused).await;
    store.is_full.store(false, Ordering::SeqCst);
    harness.until(|snapshot| snapshot.storage.is_none()).await;
    assert_eq!(harness.post("/api/v1/pause").await.status, 202);
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_16_3_a_store_that_fails_shows_wherever_people_look() {
    let store = Arc::<SmallStore>::default();
    let board = |board| Arc::new(board) as _;
    let harness = Harness::keeping(Config::default(), 1, board, store.clone()).await;
    assert_eq!(harness.get("/readyz").await.status, 200);
    store.is_full.store(true, Ordering::SeqCst);
    harness.board.add(issue("1", "Sand the door", "hang"));
    harness.handle.poll_now().unwrap();
    harness.until(|snapshot| snapshot.storage.is_some()).await;
    let reply = harness.get("/readyz").await;
    assert_eq!((reply.status, reply.code().as_str()), (503, "storage"));
    assert!(harness.get("/metrics").await.body.contains("\nsymphony_storage_failing 1\n"));
    let state = harness.get("/api/v1/state").await.json();
    assert!(state.to_string().contains("the disk is full"), "{state}");
    let page = harness.get("/").await.body;
    assert!(page.contains("the disk is full") && !page.contains("<b>the disk"), "{page}");
    assert_eq!(harness.get("/healthz").await.status, 200, "it lives");
    store.is_full.store(false, Ordering::SeqCst);
    harness.until(|snapshot| snapshot.storage.is_none() && snapshot.running.len() == 1).await;
    assert_eq!(harness.get("/readyz").await.status, 200);
}
