//! Symphony's rows in a SQLite file (contract 16.5): what survives a restart, in a form that people
//! can look into with `sqlite3`.
//!
//! [`SqliteStore`] is a [`Store`]. Commits and reads have a connection and a thread of their own
//! each, so that no query delays a commit and no call blocks an async runtime. SQLite itself is
//! compiled in.
//!
//! ```
//! use symphony_core::store::{Batch, Durability, OperatorRow, Store, Write};
//! use symphony_core::time::Wall;
//! use symphony_core::Scope;
//! use symphony_sqlite::SqliteStore;
//!
//! # async fn example(folder: &std::path::Path) -> Result<(), symphony_core::store::StoreError> {
//! let path = folder.join("symphony.db");
//! let scope = Scope::from("linear:team");
//! let store = SqliteStore::open(&path)?;
//! let first = store.begin(&scope, Wall::default()).await?;
//!
//! let paused = Write::Operator(OperatorRow { paused: true, ..OperatorRow::default() });
//! let batch = Batch { durability: Durability::Machine, writes: vec![paused] };
//! store.commit(&batch).await?; // it is on the disk now
//! drop(store); // the end of a life; `kill -9` would lose nothing either
//!
//! let store = SqliteStore::open(&path)?;
//! let second = store.begin(&scope, Wall::default()).await?;
//! assert!(second.boot > first.boot);
//! assert!(second.rows.operator.paused);
//! # Ok(())
//! # }
//! # let folder = tempfile::tempdir().unwrap();
//! # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
//! # runtime.block_on(example(folder.path())).unwrap();
//! ```

mod change;
mod error;
mod fields;
mod file;
mod open;
mod reads;
mod schema;
mod worker;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::Connection;
use symphony_core::Scope;
use symphony_core::store::{
    Batch, Life, Rows, RunQuery, RunRow, SpendQuery, SpendRow, Store, StoreError, StoreErrorKind,
};
use symphony_core::time::Wall;

use change::RowChange;
use error::failed;
use worker::Worker;
use writer::Writer;

/// Rows in a SQLite file.
///
/// One service at a time opens a file for writing; any number may [read it](Self::open_read_only)
/// meanwhile. Dropping the store closes the file, after what was asked of it is done; that is waited
/// for, but not for long.
#[derive(Debug)]
pub struct SqliteStore {
    path: Arc<Path>,
    // Closed before the writer, which leaves one tidy file if it is the last to close it.
    reader: Worker<Connection>,
    writer: Option<Worker<Writer>>,
}

impl SqliteStore {
    /// Opens a file, or makes it, readable by its owner alone, with the folders above it. An older
    /// file is brought up to date, and a damaged one is set aside.
    ///
    /// It blocks: the whole file is checked, which takes about a second for a gigabyte.
    ///
    /// # Errors
    /// When another service uses it, a newer version wrote it, it is another program's, or it cannot
    /// be read or written.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = absolute(path.as_ref())?;
        let writer = open::for_writing(&path, schema::MIGRATIONS)?;
        Self::start(path, Some(writer))
    }

    /// Opens a file to look into it, also while a service uses it. Nothing can be committed.
    ///
    /// # Errors
    /// When there is none, a newer version or an older one wrote it, or it cannot be read.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::start(absolute(path.as_ref())?, None)
    }

    fn start(path: PathBuf, writer: Option<Writer>) -> Result<Self, StoreError> {
        let reader = Worker::start("store-reader", open::for_reading(&path, schema::MIGRATIONS)?)?;
        let writer = writer.map(|writer| Worker::start("store-writer", writer)).transpose()?;
        Ok(Self { path: path.into(), reader, writer })
    }

    /// Returns the file's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of the last life, 0 if there was none.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn last_boot(&self) -> Result<u64, StoreError> {
        self.read(|connection| reads::boot(connection)).await
    }

    /// Makes the number of the next life greater than this one, which was counted elsewhere.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn continue_after(&self, boot: u64) -> Result<(), StoreError> {
        self.write(move |writer| writer.continue_after(boot)).await
    }

    /// Returns the scopes that have been read, or that have claims.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn scopes(&self) -> Result<Vec<Scope>, StoreError> {
        self.read(|connection| reads::scopes(connection)).await
    }

    /// Copies all rows to a new file, as they are at this moment. Commits go on meanwhile.
    ///
    /// # Errors
    /// When the new file exists already, or cannot be written.
    pub async fn backup(&self, to: impl AsRef<Path>) -> Result<(), StoreError> {
        let to = absolute(to.as_ref())?;
        if to.try_exists().map_err(file::failed("cannot look at", &to))? {
            let message = format!("{} exists already: give another name", to.display());
            return Err(StoreError::new(StoreErrorKind::Io, message));
        }
        self.reader.call(move |connection| open::copy_to(connection, &to)).await
    }

    async fn read<R: Send + 'static>(
        &self,
        read: impl FnOnce(&mut Connection) -> rusqlite::Result<R> + Send + 'static,
    ) -> Result<R, StoreError> {
        let path = Arc::clone(&self.path);
        self.reader.call(move |connection| read(connection).map_err(failed("read", &path))).await
    }

    async fn write<R: Send + 'static>(
        &self,
        write: impl FnOnce(&mut Writer) -> rusqlite::Result<R> + Send + 'static,
    ) -> Result<R, StoreError> {
        let path = Arc::clone(&self.path);
        let Some(writer) = &self.writer else {
            let message = format!("{} was opened to be read only", path.display());
            return Err(StoreError::new(StoreErrorKind::Io, message));
        };
        writer.call(move |writer| write(writer).map_err(failed("write", &path))).await
    }
}

/// Returns a path that SQLite takes for a file, whatever it is called.
fn absolute(path: &Path) -> Result<PathBuf, StoreError> {
    std::path::absolute(path).map_err(file::failed("cannot find", path))
}

#[async_trait]
impl Store for SqliteStore {
    async fn begin(&self, scope: &Scope, _: Wall) -> Result<Life, StoreError> {
        let scope = scope.clone();
        self.write(move |writer| writer.begin(&scope)).await
    }

    async fn rows(&self, scope: &Scope) -> Result<Rows, StoreError> {
        let scope = scope.clone();
        self.read(move |connection| reads::rows(&*connection.transaction()?, &scope)).await
    }

    async fn commit(&self, batch: &Batch) -> Result<(), StoreError> {
        let changes = batch.writes.iter().map(RowChange::new).collect::<Result<Vec<_>, _>>()?;
        let durability = batch.durability;
        self.write(move |writer| writer.commit(&changes, durability)).await
    }

    async fn runs(&self, query: &RunQuery) -> Result<Vec<RunRow>, StoreError> {
        let query = query.clone();
        self.read(move |connection| reads::runs(connection, &query)).await
    }

    async fn spend(&self, query: &SpendQuery) -> Result<Vec<SpendRow>, StoreError> {
        let query = query.clone();
        self.read(move |connection| reads::spend(connection, &query)).await
    }
}
