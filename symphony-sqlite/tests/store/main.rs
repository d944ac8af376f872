//! The store on real files: the conformance kit, other programs beside it, kills, full disks, damage.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

mod beside;
mod conformance;
mod damage;
mod disks;
mod files;
mod kills;
mod schemas;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use symphony_core::store::{Batch, ClaimRow, Durability, Rows, Store, StoreError, Write};
use symphony_core::time::Wall;
use symphony_core::{Issue, Scope, WorkspaceKey};
use symphony_sqlite::SqliteStore;
use tempfile::TempDir;

/// A store that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(LIMIT, future).await.unwrap() })
}

fn scope() -> Scope {
    Scope::from("linear:team")
}

/// A claim whose attempt tells one version of it from the next.
fn claim(id: &str, attempt: u32) -> ClaimRow {
    let issue = Issue::new(id, id, "Mend the gate", "Todo").unwrap();
    let key = WorkspaceKey::derive(id).unwrap();
    let row = serde_json::json!({"scope": scope(), "issue": issue, "key": key, "attempt": attempt});
    serde_json::from_value(row).unwrap()
}

fn write(id: &str, attempt: u32) -> Write {
    Write::Claim(Box::new(claim(id, attempt)))
}

fn commit(store: &SqliteStore, writes: Vec<Write>) -> Result<(), StoreError> {
    block_on(store.commit(&Batch { durability: Durability::Machine, writes }))
}

fn begin(store: &SqliteStore) -> (u64, Rows) {
    let life = block_on(store.begin(&scope(), Wall::from_unix_millis(0))).unwrap();
    (life.boot, life.rows)
}

fn attempts(store: &SqliteStore) -> Vec<Option<u32>> {
    let rows = block_on(store.rows(&scope())).unwrap();
    rows.claims.iter().map(|claim| claim.attempt).collect()
}

/// A folder with a place for a store.
struct Place {
    folder: TempDir,
    path: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("symphony.db");
        Self { folder, path }
    }

    /// One with a store in it that has begun a life and holds one claim.
    fn filled() -> Self {
        let place = Self::new();
        let store = place.open();
        begin(&store);
        commit(&store, vec![write("id-1", 1)]).unwrap();
        place
    }

    fn open(&self) -> SqliteStore {
        SqliteStore::open(&self.path).unwrap()
    }

    /// What another program sees and does.
    fn connection(&self) -> Connection {
        Connection::open(&self.path).unwrap()
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        PathBuf::from(format!("{}{suffix}", self.path.display()))
    }

    /// The names in the folder.
    fn names(&self) -> Vec<String> {
        names(self.folder.path())
    }

    /// The files that were set aside, without what SQLite kept beside them.
    fn set_aside(&self) -> Vec<PathBuf> {
        let names = self.names().into_iter();
        let names = names.filter(|name| name.contains(".damaged-") && !name.contains("-wal"));
        names.map(|name| self.folder.path().join(name)).collect()
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn integrity(path: &Path) -> String {
    let connection = Connection::open(path).unwrap();
    connection.pragma_query_value(None, "integrity_check", |row| row.get(0)).unwrap()
}

/// Starts a test of this binary, which is not one by itself, as a process of its own.
fn process_of(test: &str, path: &Path) -> std::process::Command {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--ignored", "--nocapture"]).env("SYMPHONY_TEST_STORE", path);
    command
}
