//! Moments at which the service kills itself, to show what a kill leaves behind (contract section
//! 16). They are compiled with the feature `kill-points` and debug assertions: in tests alone.
//!
//! `SYMPHONY_KILL_AT=7:before` kills it before the seventh commit. The moments are `before` the
//! commit, `committed` (before anything that depends on it happens) and `performed` (after that);
//! `terminate` asks it to stop as a person would, after the commit. Commits that only say when the
//! tracker was read do not count: how many there are is a matter of luck.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use rustix::process::{Signal, getpid, kill_process};
use symphony_core::Scope;
use symphony_core::env::Env;
use symphony_core::store::{
    Batch, Life, Rows, RunQuery, RunRow, SpendQuery, SpendRow, Store, StoreError, Write,
};
use symphony_core::time::Wall;

/// Names the commit and the moment.
const VARIABLE: &str = "SYMPHONY_KILL_AT";

/// How long what a commit allows may take to happen.
const PERFORMED_AFTER: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    Before,
    Committed,
    Performed,
    Terminate,
}

/// A store whose commits can be the service's last moment.
#[derive(Debug)]
struct KillPoints {
    inner: Arc<dyn Store>,
    at: (u64, Moment),
    commits: AtomicU64,
}

/// Adds the moment that the environment names, if it names any.
pub(super) fn with_kill_points(
    store: Arc<dyn Store>,
    env: &dyn Env,
) -> anyhow::Result<Arc<dyn Store>> {
    let Some(text) = env.var(VARIABLE) else { return Ok(store) };
    let at = plan(&text).with_context(|| format!("{VARIABLE}={text} is not NUMBER:MOMENT"))?;
    Ok(Arc::new(KillPoints { inner: store, at, commits: AtomicU64::new(0) }))
}

fn plan(text: &str) -> Option<(u64, Moment)> {
    let (number, moment) = text.split_once(':')?;
    let moment = match moment {
        "before" => Moment::Before,
        "committed" => Moment::Committed,
        "performed" => Moment::Performed,
        "terminate" => Moment::Terminate,
        _ => return None,
    };
    Some((number.parse().ok()?, moment))
}

/// Sends this process a signal. One that kills it does not return.
fn signal(signal: Signal) {
    let _ = kill_process(getpid(), signal);
}

#[async_trait]
impl Store for KillPoints {
    async fn begin(&self, scope: &Scope, now: Wall) -> Result<Life, StoreError> {
        self.inner.begin(scope, now).await
    }

    async fn rows(&self, scope: &Scope) -> Result<Rows, StoreError> {
        self.inner.rows(scope).await
    }

    async fn commit(&self, batch: &Batch) -> Result<(), StoreError> {
        if batch.writes.iter().all(|write| matches!(write, Write::Polls(_))) {
            return self.inner.commit(batch).await;
        }
        let number = self.commits.fetch_add(1, Ordering::SeqCst) + 1;
        let moment = (self.at.0 == number).then_some(self.at.1);
        if moment == Some(Moment::Before) {
            signal(Signal::KILL);
        }
        self.inner.commit(batch).await?;
        match moment {
            Some(Moment::Committed) => signal(Signal::KILL),
            Some(Moment::Performed) => {
                tokio::spawn(async {
                    tokio::time::sleep(PERFORMED_AFTER).await;
                    signal(Signal::KILL);
                });
            }
            Some(Moment::Terminate) => signal(Signal::TERM),
            Some(Moment::Before) | None => {}
        }
        Ok(())
    }

    async fn runs(&self, query: &RunQuery) -> Result<Vec<RunRow>, StoreError> {
        self.inner.runs(query).await
    }

    async fn spend(&self, query: &SpendQuery) -> Result<Vec<SpendRow>, StoreError> {
        self.inner.spend(query).await
    }
}
