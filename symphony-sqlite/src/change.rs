//! A write of the scheduler, as what it changes in a table.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params_from_iter};
use serde::Serialize;
use symphony_core::snapshot::Totals;
use symphony_core::store::{
    ClaimRow, HeldAgentRow, OperatorRow, PollRow, RunRow, StoreError, StoreErrorKind, Write,
};

use crate::fields;

/// The statements of a table.
pub(crate) struct SqlTable {
    select: &'static str,
    upsert: &'static str,
    /// The fields of its rows that this version knows.
    known: fn() -> &'static [&'static str],
    /// When a written row needs a sync. The last reads are written with every poll, and an idle service
    /// must not keep a disk awake.
    sync: SyncNeed,
}

static OPERATOR: SqlTable = SqlTable {
    select: "SELECT body FROM operator WHERE id = ?1",
    upsert: "INSERT INTO operator (id, body) VALUES (?1, ?2)
             ON CONFLICT (id) DO UPDATE SET body = excluded.body",
    known: fields::names::<OperatorRow>,
    sync: SyncNeed::Soon,
};

static TOTALS: SqlTable = SqlTable {
    select: "SELECT body FROM totals WHERE id = ?1",
    upsert: "INSERT INTO totals (id, body) VALUES (?1, ?2)
             ON CONFLICT (id) DO UPDATE SET body = excluded.body",
    known: fields::names::<Totals>,
    sync: SyncNeed::Soon,
};

static POLLS: SqlTable = SqlTable {
    select: "SELECT body FROM polls WHERE scope = ?1",
    upsert: "INSERT INTO polls (scope, body) VALUES (?1, ?2)
             ON CONFLICT (scope) DO UPDATE SET body = excluded.body",
    known: fields::names::<PollRow>,
    sync: SyncNeed::Later,
};

static HOLD: SqlTable = SqlTable {
    select: "SELECT body FROM hold WHERE agent = ?1",
    upsert: "INSERT INTO hold (agent, body) VALUES (?1, ?2)
             ON CONFLICT (agent) DO UPDATE SET body = excluded.body",
    known: fields::names::<HeldAgentRow>,
    sync: SyncNeed::Soon,
};

static CLAIM: SqlTable = SqlTable {
    select: "SELECT body FROM claim WHERE scope = ?1 AND issue = ?2",
    upsert: "INSERT INTO claim (scope, issue, body) VALUES (?1, ?2, ?3)
             ON CONFLICT (scope, issue) DO UPDATE SET body = excluded.body",
    known: fields::names::<ClaimRow>,
    sync: SyncNeed::Soon,
};

static RUN: SqlTable = SqlTable {
    select: "SELECT body FROM run WHERE boot = ?1 AND number = ?2",
    upsert: "INSERT INTO run (boot, number, scope, issue, began, ended, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT (boot, number) DO UPDATE SET scope = excluded.scope,
                 issue = excluded.issue, began = excluded.began, ended = excluded.ended,
                 body = excluded.body",
    known: fields::names::<RunRow>,
    sync: SyncNeed::Soon,
};

/// A row to write, or to take away.
pub(crate) enum RowChange {
    Put {
        table: &'static SqlTable,
        key: Vec<Value>,
        /// What the row says and is found by.
        columns: Vec<Value>,
        /// The row as JSON.
        body: String,
    },
    Delete {
        statement: &'static str,
        key: Vec<Value>,
    },
}

/// When a sync is needed after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SyncNeed {
    /// Not at all: nothing was written.
    Never,
    /// With the next one, whenever that is.
    Later,
    /// Within a second.
    Soon,
}

impl RowChange {
    /// Makes the change of a write.
    pub(crate) fn new(write: &Write) -> Result<Self, StoreError> {
        Ok(match write {
            Write::Operator(row) => Self::put(&OPERATOR, vec![Value::Integer(1)], vec![], row)?,
            Write::Totals(row) => Self::put(&TOTALS, vec![Value::Integer(1)], vec![], row)?,
            Write::Polls(row) => Self::put(&POLLS, vec![text(&row.scope)], vec![], row)?,
            Write::Hold(row) => Self::put(&HOLD, vec![text(&row.agent)], vec![], row)?,
            Write::Claim(row) => {
                Self::put(&CLAIM, vec![text(&row.scope), text(&row.issue.id)], vec![], row)?
            }
            Write::Run(row) => {
                let key = vec![unsigned(row.run.boot), unsigned(row.run.number)];
                let ended = row.ended.map(|at| at.as_unix_millis());
                let columns = vec![
                    text(&row.scope),
                    text(&row.issue),
                    Value::Integer(row.began.as_unix_millis()),
                    ended.map_or(Value::Null, Value::Integer),
                ];
                Self::put(&RUN, key, columns, row)?
            }
            Write::ClaimGone { scope, issue } => Self::Delete {
                statement: "DELETE FROM claim WHERE scope = ?1 AND issue = ?2",
                key: vec![text(scope), text(issue)],
            },
            Write::HoldGone { agent } => Self::Delete {
                statement: "DELETE FROM hold WHERE agent = ?1",
                key: vec![text(agent)],
            },
        })
    }

    fn put(
        table: &'static SqlTable,
        key: Vec<Value>,
        columns: Vec<Value>,
        row: &impl Serialize,
    ) -> Result<Self, StoreError> {
        let body = serde_json::to_string(row).map_err(|error| {
            StoreError::new(StoreErrorKind::Io, "a row has no form as JSON").with_source(error)
        })?;
        Ok(Self::Put { table, key, columns, body })
    }

    /// Makes the change in the file.
    pub(crate) fn apply(&self, connection: &Connection) -> rusqlite::Result<SyncNeed> {
        let (table, key, columns, body) = match self {
            Self::Put { table, key, columns, body } => (table, key, columns, body),
            Self::Delete { statement, key } => {
                let mut delete = connection.prepare_cached(statement)?;
                let deleted = delete.execute(params_from_iter(key))?;
                return Ok(if deleted == 0 { SyncNeed::Never } else { SyncNeed::Soon });
            }
        };
        let mut select = connection.prepare_cached(table.select)?;
        let stored: Option<String> =
            select.query_one(params_from_iter(key), |row| row.get(0)).optional()?;
        let body = match &stored {
            Some(stored) => fields::keep_unknown(body.clone(), stored, (table.known)()),
            None => body.clone(),
        };
        if stored.as_ref() == Some(&body) {
            return Ok(SyncNeed::Never);
        }
        let body = Value::Text(body);
        let values = key.iter().chain(columns).chain([&body]);
        connection.prepare_cached(table.upsert)?.execute(params_from_iter(values))?;
        Ok(table.sync)
    }
}

fn text(text: impl AsRef<str>) -> Value {
    Value::Text(text.as_ref().to_owned())
}

/// SQLite's integers have a sign; these come back by [`from_unsigned`].
pub(crate) const fn unsigned(number: u64) -> Value {
    Value::Integer(number.cast_signed())
}

/// Reads what [`unsigned`] wrote.
pub(crate) const fn from_unsigned(number: i64) -> u64 {
    number.cast_unsigned()
}
