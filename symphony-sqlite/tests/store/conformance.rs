//! The conformance kit.

use std::fs;
use std::future::Future;
use std::sync::Arc;

use rusqlite::params_from_iter;
use rusqlite::types::Value as Column;
use serde_json::Value;
use symphony_core::conformance::{Able, StoreFixture};
use symphony_core::store::{Batch, RowKey, Store};

use crate::{Place, block_on};

struct Fixture(Place);

impl Fixture {
    fn new() -> Self {
        Self(Place::new())
    }
}

/// The table of a row, with a condition that finds it.
fn found_by(key: &RowKey) -> (&'static str, Vec<Column>) {
    let text = |text: &str| Column::Text(text.to_owned());
    let number = |number: u64| Column::Integer(number.cast_signed());
    match key {
        RowKey::Operator => ("operator WHERE id = 1", vec![]),
        RowKey::Totals => ("totals WHERE id = 1", vec![]),
        RowKey::Polls(scope) => ("polls WHERE scope = ?", vec![text(scope.as_str())]),
        RowKey::Claim(scope, issue) => {
            let key = vec![text(scope.as_str()), text(issue.as_str())];
            ("claim WHERE scope = ? AND issue = ?", key)
        }
        RowKey::Run(run) => {
            ("run WHERE boot = ? AND number = ?", vec![number(run.boot), number(run.number)])
        }
        RowKey::Hold(agent) => ("hold WHERE agent = ?", vec![text(agent)]),
    }
}

impl StoreFixture for Fixture {
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        block_on(future)
    }

    fn open(&self) -> Arc<dyn Store> {
        Arc::new(self.0.open())
    }

    fn refuse_runs(&self, refused: bool) -> Able {
        let connection = self.0.connection();
        connection.execute_batch("DROP TRIGGER IF EXISTS refusal").unwrap();
        if refused {
            let refusal = "CREATE TRIGGER refusal BEFORE INSERT ON run
                           BEGIN SELECT RAISE(ABORT, 'refused'); END";
            connection.execute_batch(refusal).unwrap();
        }
        Ok(())
    }

    /// Leaves the first half of what a commit wrote to the log, as a kill within it does.
    fn cut_off(&self, batch: &Batch) -> Able {
        let store = self.open();
        let log = self.0.beside("-wal");
        let before = fs::read(&log).map_or(0, |log| log.len());
        block_on(store.commit(batch)).unwrap();
        let (file, written) = (fs::read(&self.0.path).unwrap(), fs::read(&log).unwrap());
        drop(store);
        let half = before.midpoint(written.len());
        fs::write(&self.0.path, file).unwrap();
        fs::write(log, &written[..half]).unwrap();
        Ok(())
    }

    fn plant(&self, row: &RowKey, field: &str, value: &Value) -> Able {
        let (found, key) = found_by(row);
        let (table, condition) = found.split_once(' ').unwrap();
        let path = Column::Text(format!("$.{field}"));
        let values = [path, Column::Text(value.to_string())].into_iter().chain(key);
        let update = format!("UPDATE {table} SET body = json_set(body, ?, json(?)) {condition}");
        let changed = self.0.connection().execute(&update, params_from_iter(values)).unwrap();
        assert_eq!(changed, 1, "{row:?}");
        Ok(())
    }

    fn planted(&self, row: &RowKey, field: &str) -> Able<Option<Value>> {
        let (found, key) = found_by(row);
        let select = format!("SELECT body FROM {found}");
        let body: String = self
            .0
            .connection()
            .query_one(&select, params_from_iter(key), |row| row.get(0))
            .unwrap();
        let body: Value = serde_json::from_str(&body).unwrap();
        Ok(body.get(field).cloned())
    }
}

symphony_core::store_conformance!(Fixture::new());
