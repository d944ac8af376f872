//! What survives a restart, and where it is kept (contract section 16).
//!
//! The scheduler says with each step which [rows](rows) changed; the service hands them to a
//! [`Store`], and starts nothing that depends on them before they are kept. [`MemoryStore`] keeps
//! them for as long as the process lives.

mod memory;
mod row_map;
mod rows;
mod spend;

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::issue::IssueId;
use crate::time::Wall;
use crate::workspace::Scope;

pub use memory::MemoryStore;
pub use row_map::RowMap;
pub use rows::{
    AskedTurn, ClaimRow, ClaimStage, DueTime, HeldAgentRow, OperatorRow, PollRow, RowKey, Rows,
    RunRow, Write,
};
pub use spend::{SpendGroup, SpendQuery, SpendRow, sum_spend};

/// Keeps rows (contract 16.2). Third-party stores check themselves with the conformance kit.
///
/// One service at a time uses a store. Calls may overlap, but for [`commit`](Self::commit), which is
/// called again only when the last call has returned.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync {
    /// Begins a life of the service: returns a number that is greater than that of any life before,
    /// and the rows of this scope.
    ///
    /// # Errors
    /// When the rows cannot be read, or another service is using them.
    async fn begin(&self, scope: &Scope, now: Wall) -> Result<Life, StoreError>;

    /// Returns the rows of another scope, within a life.
    ///
    /// # Errors
    /// When they cannot be read.
    async fn rows(&self, scope: &Scope) -> Result<Rows, StoreError>;

    /// Keeps all of a batch, or none of it. A batch that was kept already may come again.
    ///
    /// # Errors
    /// When it could not be kept. It will be tried again, perhaps with more in it.
    async fn commit(&self, batch: &Batch) -> Result<(), StoreError>;

    /// Returns runs, the latest first. It never delays a commit.
    ///
    /// # Errors
    /// When they cannot be read.
    async fn runs(&self, query: &RunQuery) -> Result<Vec<RunRow>, StoreError>;

    /// Returns what runs used, in groups, the greatest key last. It never delays a commit.
    ///
    /// # Errors
    /// When it cannot be read.
    async fn spend(&self, query: &SpendQuery) -> Result<Vec<SpendRow>, StoreError>;
}

/// What a life of the service begins with.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Life {
    /// Greater than in any earlier life: keeps the ids of runs unique.
    pub boot: u64,
    /// What the last life left.
    pub rows: Rows,
}

impl Life {
    /// Makes a life of what the last one left.
    #[must_use]
    pub const fn new(boot: u64, rows: Rows) -> Self {
        Self { boot, rows }
    }
}

/// Changes that belong together, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// What must be reached before the commit returns.
    pub durability: Durability,
    /// The changes.
    pub writes: Vec<Write>,
}

/// What a commit must reach before it returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// It outlives the process. The machine may lose the last second of it.
    #[default]
    Process,
    /// It outlives the machine: it is on the disk.
    Machine,
}

/// Which runs are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunQuery {
    /// Only of this scope.
    pub scope: Option<Scope>,
    /// Only of this issue.
    pub issue: Option<IssueId>,
    /// Only those that began at this time or later.
    pub since: Option<Wall>,
    /// How many to leave out, of the latest.
    pub skip: usize,
    /// How many at most; `None` for all.
    pub limit: Option<usize>,
}

/// Why a store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct StoreError {
    /// What sort of error.
    pub kind: StoreErrorKind,
    /// What went wrong, for people, with what to do about it.
    pub message: String,
    /// The error behind it.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// What sort of error a store reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// Another service uses it.
    InUse,
    /// A newer version wrote it.
    Newer,
    /// It is full.
    Full,
    /// Anything else.
    Io,
}

impl StoreError {
    /// Makes an error of this kind.
    #[must_use]
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// Adds the error behind it.
    #[must_use]
    pub fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }
}
