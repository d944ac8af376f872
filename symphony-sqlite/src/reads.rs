//! What is asked of the file.

use std::fmt;

use rusqlite::types::{Type, Value};
use rusqlite::{Connection, OptionalExtension, Row, params_from_iter};
use serde::de::DeserializeOwned;
use symphony_core::Scope;
use symphony_core::store::{Rows, RunQuery, RunRow, SpendQuery, SpendRow, sum_spend};

use crate::change::from_unsigned;

/// A row that is not what this version writes, such as one that was edited by hand.
#[derive(Debug)]
struct UnreadableRow {
    table: &'static str,
    body: String,
    error: serde_json::Error,
}

impl fmt::Display for UnreadableRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start: String = self.body.chars().take(200).collect();
        write!(f, "a row of the table `{}` cannot be read ({}): {start:?}", self.table, self.error)
    }
}

impl std::error::Error for UnreadableRow {}

/// Reads the JSON of a row, its first column.
fn body<T: DeserializeOwned>(table: &'static str, row: &Row<'_>) -> rusqlite::Result<T> {
    let body = row.get_ref(0)?.as_str()?;
    serde_json::from_str(body).map_err(|error| {
        let unreadable = UnreadableRow { table, body: body.to_owned(), error };
        rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(unreadable))
    })
}

/// Returns the number of the last life.
pub(crate) fn boot(connection: &Connection) -> rusqlite::Result<u64> {
    let select = "SELECT value FROM meta WHERE key = 'boot'";
    let boot = connection.query_one(select, (), |row| row.get(0)).optional()?;
    Ok(boot.map_or(0, from_unsigned))
}

/// Returns what a life of this scope begins with.
pub(crate) fn rows(connection: &Connection, scope: &Scope) -> rusqlite::Result<Rows> {
    let scope = scope.as_str();
    let open = "SELECT body FROM run WHERE ended IS NULL";
    Ok(Rows {
        operator: one(connection, "operator", "SELECT body FROM operator", ())?.unwrap_or_default(),
        polls: one(connection, "polls", "SELECT body FROM polls WHERE scope = ?1", [scope])?,
        totals: one(connection, "totals", "SELECT body FROM totals", ())?.unwrap_or_default(),
        claims: all(connection, "claim", "SELECT body FROM claim WHERE scope = ?1", [scope])?,
        holds: all(connection, "hold", "SELECT body FROM hold", ())?,
        open_runs: all(connection, "run", open, ())?,
    })
}

fn one<T: DeserializeOwned>(
    connection: &Connection,
    table: &'static str,
    select: &str,
    values: impl rusqlite::Params,
) -> rusqlite::Result<Option<T>> {
    connection.prepare_cached(select)?.query_one(values, |row| body(table, row)).optional()
}

fn all<T: DeserializeOwned>(
    connection: &Connection,
    table: &'static str,
    select: &str,
    values: impl rusqlite::Params,
) -> rusqlite::Result<Vec<T>> {
    connection.prepare_cached(select)?.query_map(values, |row| body(table, row))?.collect()
}

/// Returns the scopes that rows tell of.
pub(crate) fn scopes(connection: &Connection) -> rusqlite::Result<Vec<Scope>> {
    let mut select =
        connection.prepare_cached("SELECT scope FROM polls UNION SELECT scope FROM claim")?;
    let scopes = select.query_map((), |row| Ok(Scope::from(row.get_ref(0)?.as_str()?)))?;
    scopes.collect()
}

/// Conditions with their values.
#[derive(Debug, Default)]
struct RunFilter {
    conditions: Vec<&'static str>,
    values: Vec<Value>,
}

impl RunFilter {
    fn add(&mut self, condition: &'static str, value: Option<Value>) {
        if let Some(value) = value {
            self.conditions.push(condition);
            self.values.push(value);
        }
    }

    /// Selects the runs that meet all conditions.
    fn select(&self) -> String {
        let conditions = if self.conditions.is_empty() {
            String::new()
        } else {
            format!(" WHERE {}", self.conditions.join(" AND "))
        };
        format!("SELECT body FROM run{conditions}")
    }
}

/// Returns runs, the latest first.
pub(crate) fn runs(connection: &Connection, query: &RunQuery) -> rusqlite::Result<Vec<RunRow>> {
    let mut filter = RunFilter::default();
    filter.add("scope = ?", query.scope.as_ref().map(|scope| text(scope.as_str())));
    filter.add("issue = ?", query.issue.as_ref().map(|issue| text(issue.as_str())));
    filter.add("began >= ?", query.since.map(|since| Value::Integer(since.as_unix_millis())));
    // A number beyond the signed ones is stored as a negative one.
    let order = "began DESC, boot < 0 DESC, boot DESC, number < 0 DESC, number DESC";
    let select = format!("{} ORDER BY {order} LIMIT ? OFFSET ?", filter.select());
    let limit = query.limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(-1);
    let skip = i64::try_from(query.skip).unwrap_or(i64::MAX);
    filter.values.extend([Value::Integer(limit), Value::Integer(skip)]);
    all(connection, "run", &select, params_from_iter(&filter.values))
}

/// Returns what runs used. They are summed up one by one as they are read.
pub(crate) fn spend(
    connection: &Connection,
    query: &SpendQuery,
) -> rusqlite::Result<Vec<SpendRow>> {
    let mut filter = RunFilter::default();
    filter.add("scope = ?", query.scope.as_ref().map(|scope| text(scope.as_str())));
    filter.add("began >= ?", query.since.map(|since| Value::Integer(since.as_unix_millis())));
    let mut select = connection.prepare_cached(&filter.select())?;
    let runs = select.query_map(params_from_iter(&filter.values), |row| body("run", row))?;
    let mut unreadable = None;
    let runs = runs.map_while(|run: rusqlite::Result<RunRow>| {
        run.map_err(|error| unreadable = Some(error)).ok()
    });
    let sums = sum_spend(runs, query);
    unreadable.map_or(Ok(sums), Err)
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}
