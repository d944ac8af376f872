//! Rows by their keys, as a store without a file keeps them.

use std::collections::BTreeMap;

use super::{RowKey, Rows, RunRow, Write};
use crate::workspace::Scope;

/// Rows by their keys: what all writes so far have come to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowMap {
    boot: u64,
    rows: BTreeMap<RowKey, Write>,
}

impl RowMap {
    /// Begins a life. Returns its number.
    pub const fn begin(&mut self) -> u64 {
        self.boot += 1;
        self.boot
    }

    /// Takes in a write.
    pub fn apply(&mut self, write: &Write) {
        match write {
            Write::ClaimGone { .. } | Write::HoldGone { .. } => {
                self.rows.remove(&write.key());
            }
            row => {
                self.rows.insert(row.key(), row.clone());
            }
        }
    }

    /// Returns the rows that a life in this scope begins with.
    #[must_use]
    pub fn of_scope(&self, scope: &Scope) -> Rows {
        let mut rows = Rows::default();
        for write in self.rows.values() {
            match write {
                Write::Operator(row) => rows.operator = row.clone(),
                Write::Polls(row) if row.scope == *scope => rows.polls = Some(row.clone()),
                Write::Totals(row) => rows.totals = row.clone(),
                Write::Claim(row) if row.scope == *scope => rows.claims.push((**row).clone()),
                Write::Hold(row) => rows.holds.push(row.clone()),
                Write::Run(row) if row.ended.is_none() => rows.open_runs.push((**row).clone()),
                _ => {}
            }
        }
        rows
    }

    /// Returns all runs, in the order of their ids.
    pub fn runs(&self) -> impl DoubleEndedIterator<Item = &RunRow> {
        self.rows.values().filter_map(|write| match write {
            Write::Run(row) => Some(&**row),
            _ => None,
        })
    }
}
