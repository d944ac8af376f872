//! The rules of contract 16.2 for a [`Store`].

mod batches;
mod queries;
mod rows;
mod samples;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use serde_json::Value;

use super::{Able, Deviation, Rule, RuleResult, Unable, broken, ensure};
use crate::store::{
    Batch, Durability, RowKey, Rows, RunQuery, RunRow, SpendQuery, SpendRow, Store, StoreError,
    Write,
};
use crate::time::Wall;
use crate::workspace::Scope;

pub use batches::*;
pub use queries::*;
pub use rows::*;

/// A store that tests can open again, as the next life of a service does.
///
/// Each rule gets a fresh one, which is empty. What it cannot do it says with [`Unable`]; the rules
/// that need it then have to be named in `skip`, or they fail.
pub trait StoreFixture {
    /// Runs a future to its end. With a time limit, a store that hangs fails instead.
    fn block_on<F: Future>(&self, future: F) -> F::Output;

    /// Opens the store, with what was kept in it. The rules drop what an earlier call returned
    /// before they open it again.
    fn open(&self) -> Arc<dyn Store>;

    /// From now on no run can be written, whatever came before it in its batch; `false` heals.
    ///
    /// # Errors
    /// The store cannot be made to fail, which is what is assumed unless the fixture says otherwise.
    fn refuse_runs(&self, _refused: bool) -> Able {
        Err(Unable("the fixture cannot make a write fail"))
    }

    /// Begins to commit a batch and ends the store, as by `kill -9`, before all of it is kept. The
    /// rules have dropped what [`open`](Self::open) returned.
    ///
    /// # Errors
    /// The store cannot be cut off, which is what is assumed unless the fixture says otherwise.
    fn cut_off(&self, _batch: &Batch) -> Able {
        Err(Unable("the fixture cannot cut off a commit"))
    }

    /// Adds a field to a stored row, as a newer version would. The store may be open.
    ///
    /// # Errors
    /// A stored row has no place for it, which is what is assumed unless the fixture says otherwise.
    fn plant(&self, _row: &RowKey, _field: &str, _value: &Value) -> Able {
        Err(Unable("the fixture cannot change a stored row"))
    }

    /// Returns such a field of a stored row.
    ///
    /// # Errors
    /// The fixture cannot look, which is what is assumed unless it says otherwise.
    fn planted(&self, _row: &RowKey, _field: &str) -> Able<Option<Value>> {
        Err(Unable("the fixture cannot look into a stored row"))
    }
}

/// A life on a fixture's store, called to the end, with errors as broken rules.
struct StoreTrial<'f, F> {
    fixture: &'f F,
    store: Arc<dyn Store>,
    boot: u64,
    /// What the life began with, of the first scope.
    found: Rows,
}

impl<'f, F: StoreFixture> StoreTrial<'f, F> {
    fn begin(fixture: &'f F) -> Result<Self, Deviation> {
        let store = fixture.open();
        let now = Wall::from_unix_millis(1_790_000_000_000);
        let life = fixture.block_on(store.begin(&samples::here(), now)).map_err(unexpected)?;
        Ok(Self { fixture, store, boot: life.boot, found: sorted(life.rows) })
    }

    /// Ends this life and begins the next one.
    fn next_life(self) -> Result<Self, Deviation> {
        let fixture = self.fixture;
        drop(self);
        Self::begin(fixture)
    }

    fn try_commit(&self, writes: &[Write]) -> Result<(), StoreError> {
        let batch = Batch { durability: Durability::Process, writes: writes.to_vec() };
        self.fixture.block_on(self.store.commit(&batch))
    }

    fn commit(&self, writes: &[Write]) -> RuleResult {
        self.try_commit(writes).map_err(unexpected)
    }

    /// The rows of the first scope.
    fn rows(&self) -> Result<Rows, Deviation> {
        self.rows_of(&samples::here())
    }

    fn rows_of(&self, scope: &Scope) -> Result<Rows, Deviation> {
        self.fixture.block_on(self.store.rows(scope)).map(sorted).map_err(unexpected)
    }

    fn runs(&self, query: &RunQuery) -> Result<Vec<RunRow>, Deviation> {
        self.fixture.block_on(self.store.runs(query)).map_err(unexpected)
    }

    fn spend(&self, query: &SpendQuery) -> Result<Vec<SpendRow>, Deviation> {
        self.fixture.block_on(self.store.spend(query)).map_err(unexpected)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err hands over")]
fn unexpected(error: StoreError) -> Deviation {
    broken(format!("an error: {}", crate::failure::chain(&error)))
}

/// A store may return rows in any order.
fn sorted(mut rows: Rows) -> Rows {
    rows.claims.sort_by(|one, other| one.issue.id.cmp(&other.issue.id));
    rows.holds.sort_by(|one, other| one.agent.cmp(&other.agent));
    rows.open_runs.sort_by_key(|run| run.run);
    rows
}

/// Compares every letter: a state that is spelled in another way counts as the same elsewhere.
fn ensure_same<T: fmt::Debug>(what: &str, found: &T, expected: &T) -> RuleResult {
    let (found, expected) = (format!("{found:?}"), format!("{expected:?}"));
    ensure(found == expected, || {
        let differs = found.chars().zip(expected.chars()).position(|(one, other)| one != other);
        let from = differs.unwrap_or(found.len().min(expected.len())).saturating_sub(60);
        let part = |text: &str| text.chars().skip(from).take(160).collect::<String>();
        format!("{what}: expected ...{}..., found ...{}...", part(&expected), part(&found))
    })
}

/// Every rule with its name, for a run outside the test harness.
#[must_use]
pub fn rules<F: StoreFixture>() -> Vec<Rule<F>> {
    crate::__store_rules!(__conformance_list,)
}

/// One test per rule for a store.
///
/// The argument is an expression that makes a fresh `conformance::StoreFixture`; it is evaluated
/// once per test. Rules that the fixture cannot set up follow, each with the reason:
/// `skip: { rule_name: "why", .. }`. Their tests are `#[ignore]`d.
#[macro_export]
macro_rules! store_conformance {
    ($fixture:expr $(, skip: { $($skipped:ident: $why:literal),* $(,)? })? $(,)?) => {
        $crate::__conformance_skips! { ($) store; $($($skipped: $why),*)? }
        $crate::__store_rules!(__conformance_tests, store, $fixture);
    };
}

#[doc(hidden)]
pub mod names {
    crate::__store_rules!(__conformance_names,);
}

#[doc(hidden)]
#[macro_export]
macro_rules! __store_rules {
    ($then:ident, $($args:tt)*) => {
        $crate::$then! { $($args)*;
            rule_16_2_each_life_has_a_greater_number,
            rule_16_2_the_next_life_finds_what_the_last_one_left,
            rule_16_2_a_batch_that_fails_changes_nothing,
            rule_16_2_a_batch_that_is_cut_off_is_kept_whole_or_not_at_all,
            rule_16_2_a_reader_never_sees_a_part_of_a_batch,
            rule_16_2_a_dropped_commit_comes_whole_and_before_the_next,
            rule_16_2_a_repeated_batch_changes_nothing,
            rule_16_2_of_two_writes_of_a_row_the_later_one_counts,
            rule_16_2_a_row_that_is_gone_can_be_written_again,
            rule_16_2_a_new_store_is_empty,
            rule_16_2_every_row_comes_back_as_it_was_written,
            rule_16_2_an_updated_row_keeps_nothing_of_the_older_one,
            rule_16_2_rows_of_one_scope_do_not_show_in_another,
            rule_16_2_operator_totals_holds_and_open_runs_are_of_every_scope,
            rule_16_2_open_runs_are_those_without_an_end,
            rule_16_2_ten_thousand_claims_come_back,
            rule_16_2_fields_of_a_newer_version_survive_an_update,
            rule_16_2_runs_come_latest_first,
            rule_16_2_runs_are_chosen_by_scope_issue_and_time,
            rule_16_2_runs_are_skipped_and_limited_in_their_order,
            rule_16_2_spend_is_the_sum_of_the_runs,
        }
    };
}
