//! The kit for stores, on the one in memory and on wrong ones.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use serde_json::Value;
use symphony_core::Scope;
use symphony_core::conformance::{Able, StoreFixture, store};
use symphony_core::store::{
    Batch, Life, MemoryStore, RowKey, Rows, RunQuery, RunRow, SpendQuery, SpendRow, Store,
    StoreError, StoreErrorKind, Write,
};
use symphony_core::time::Wall;
use tokio::runtime::Runtime;
use tokio::task::yield_now;

use crate::broken;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    CountsLivesAnew,
    ForgetsAtTheEnd,
    KeepsPartOfAFailure,
    KeepsPartOfACutOff,
    ShowsParts,
    CommitsLate,
    AppendsRuns,
    TakesTheFirstWrite,
    TakesRowsAwayLast,
    BeginsPaused,
    EndsTextAtNul,
    RoundsGreatNumbers,
    FoldsStates,
    KeepsOlderFields,
    FoldsScopes,
    HoldsOneScope,
    EndsNoRun,
    KeepsOpenRunsApart,
    StopsAtAThousand,
    DropsUnknownFields,
    KeepsFieldsOfTheGone,
    OrdersById,
    OrdersByTimeAlone,
    IgnoresTheIssue,
    IgnoresTheScope,
    LeavesOutTheFirstMoment,
    LimitsBeforeItSkips,
    RoundsDaysToZero,
    SpendsAllScopes,
}

/// A row with the fields that only a newer version knows.
type Planted = (Write, BTreeMap<String, Value>);

#[derive(Clone, Debug, Default)]
struct Kept {
    boot: u64,
    rows: BTreeMap<RowKey, Planted>,
    /// Fields of rows that are gone.
    gone: BTreeMap<RowKey, BTreeMap<String, Value>>,
    /// Runs that were written again.
    again: Vec<RunRow>,
    late: Vec<Write>,
    refuses_runs: bool,
}

/// A store with at most one mistake.
#[derive(Debug)]
struct WrongStore {
    mistake: Option<Mistake>,
    kept: Arc<Mutex<Kept>>,
}

impl WrongStore {
    fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap()
    }

    fn apply(&self, kept: &mut Kept, write: &Write) -> Result<(), StoreError> {
        let key = write.key();
        match write {
            Write::Run(_) if kept.refuses_runs => {
                return Err(StoreError::new(StoreErrorKind::Io, "refused"));
            }
            Write::ClaimGone { .. } | Write::HoldGone { .. } => {
                let (_, fields) = kept.rows.remove(&key).unzip();
                kept.gone.extend(fields.map(|fields| (key, fields)));
                return Ok(());
            }
            Write::Run(row) if kept.rows.contains_key(&key) => kept.again.push((**row).clone()),
            _ => {}
        }
        let (older, fields) = kept.rows.remove(&key).unzip();
        let fields = match fields {
            Some(_) if self.makes(Mistake::DropsUnknownFields) => BTreeMap::new(),
            None if self.makes(Mistake::KeepsFieldsOfTheGone) => {
                kept.gone.remove(&key).unwrap_or_default()
            }
            fields => fields.unwrap_or_default(),
        };
        kept.rows.insert(key, (self.changed(write, older.as_ref()), fields));
        Ok(())
    }

    /// What is made of a row on its way in.
    fn changed(&self, write: &Write, older: Option<&Write>) -> Write {
        let mut write = write.clone();
        match (self.mistake, &mut write, older) {
            (Some(Mistake::EndsTextAtNul), Write::Run(row), _) => {
                row.title = row.title.split('\0').next().unwrap().to_owned();
            }
            (Some(Mistake::RoundsGreatNumbers), Write::Run(row), _) => {
                row.tokens.total = row.tokens.total.min(i64::MAX as u64);
            }
            (Some(Mistake::FoldsStates), Write::Claim(row), _) => {
                row.issue.state = row.issue.state.key().into();
            }
            (Some(Mistake::KeepsOlderFields), Write::Claim(row), Some(Write::Claim(older))) => {
                row.question = row.question.take().or_else(|| older.question.clone());
            }
            _ => {}
        }
        write
    }

    /// A right store with the same rows.
    async fn right(&self) -> MemoryStore {
        let store = MemoryStore::new();
        let writes = self.kept().rows.values().map(|(write, _)| write.clone()).collect();
        store.commit(&Batch { writes, ..Batch::default() }).await.unwrap();
        store
    }

    fn order(&self, writes: &[Write]) -> Vec<Write> {
        let mut writes = writes.to_vec();
        let is_gone =
            |write: &Write| matches!(write, Write::ClaimGone { .. } | Write::HoldGone { .. });
        if self.makes(Mistake::TakesTheFirstWrite) {
            let mut seen = Vec::new();
            writes.retain(|write| {
                let is_new = is_gone(write) || !seen.contains(&write.key());
                seen.push(write.key());
                is_new
            });
        }
        if self.makes(Mistake::TakesRowsAwayLast) {
            writes.sort_by_key(is_gone);
        }
        writes
    }
}

#[async_trait]
impl Store for WrongStore {
    async fn begin(&self, scope: &Scope, _: Wall) -> Result<Life, StoreError> {
        self.kept().boot += 1;
        let boot = self.kept().boot;
        Ok(Life::new(boot, self.rows(scope).await?))
    }

    async fn rows(&self, scope: &Scope) -> Result<Rows, StoreError> {
        let right = self.right().await;
        let mut rows = right.rows(scope).await?;
        let other = Scope::from(scope.as_str().to_lowercase());
        match self.mistake {
            Some(Mistake::BeginsPaused) => rows.operator.paused = true,
            Some(Mistake::HoldsOneScope) if scope.as_str().is_empty() => rows.holds.clear(),
            Some(Mistake::StopsAtAThousand) => rows.claims.truncate(1000),
            Some(Mistake::FoldsScopes) if rows.claims.is_empty() || other != *scope => {
                rows.claims = right.rows(&other).await?.claims;
            }
            Some(Mistake::EndsNoRun) => {
                rows.open_runs = right.runs(&RunQuery::default()).await?;
            }
            Some(Mistake::KeepsOpenRunsApart) => rows.open_runs.retain(|run| run.scope == *scope),
            _ => {}
        }
        Ok(rows)
    }

    async fn commit(&self, batch: &Batch) -> Result<(), StoreError> {
        let late = match self.makes(Mistake::CommitsLate) {
            true => std::mem::replace(&mut self.kept().late, batch.writes.clone()),
            false => Vec::new(),
        };
        yield_now().await;
        let before = self.kept().clone();
        for write in self.order(&batch.writes).iter().chain(&late) {
            let applied = self.apply(&mut self.kept(), write);
            if applied.is_err() {
                if !self.makes(Mistake::KeepsPartOfAFailure) {
                    *self.kept() = before;
                }
                return applied;
            }
            if self.makes(Mistake::ShowsParts) {
                yield_now().await;
            }
        }
        self.kept().late.clear();
        Ok(())
    }

    async fn runs(&self, query: &RunQuery) -> Result<Vec<RunRow>, StoreError> {
        let mut all = query.clone();
        (all.skip, all.limit) = (0, None);
        match self.mistake {
            Some(Mistake::IgnoresTheIssue) => all.issue = None,
            Some(Mistake::IgnoresTheScope) => all.scope = None,
            _ => {}
        }
        let mut runs = self.right().await.runs(&all).await?;
        match self.mistake {
            Some(Mistake::AppendsRuns) => runs.extend(self.kept().again.clone()),
            Some(Mistake::LeavesOutTheFirstMoment) => {
                runs.retain(|run| query.since.is_none_or(|since| run.began > since));
            }
            Some(Mistake::OrdersById) => runs.sort_by_key(|run| Reverse(run.run)),
            Some(Mistake::OrdersByTimeAlone) => {
                runs.sort_by_key(|run| (Reverse(run.began), run.run));
            }
            _ => {}
        }
        let limit = query.limit.unwrap_or(usize::MAX);
        if self.makes(Mistake::LimitsBeforeItSkips) {
            runs.truncate(limit);
        }
        Ok(runs.into_iter().skip(query.skip).take(limit).collect())
    }

    async fn spend(&self, query: &SpendQuery) -> Result<Vec<SpendRow>, StoreError> {
        let mut query = query.clone();
        if self.makes(Mistake::SpendsAllScopes) {
            query.scope = None;
        }
        let mut rows = self.right().await.spend(&query).await?;
        if self.makes(Mistake::RoundsDaysToZero) {
            for row in &mut rows {
                row.key = if row.key == "-1" { "0".to_owned() } else { row.key.clone() };
            }
        }
        Ok(rows)
    }
}

struct Fixture {
    mistake: Option<Mistake>,
    kept: Arc<Mutex<Kept>>,
    runtime: Runtime,
}

impl Fixture {
    fn new(mistake: Option<Mistake>) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        Self { mistake, kept: Arc::default(), runtime }
    }
}

impl StoreFixture for Fixture {
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    fn open(&self) -> Arc<dyn Store> {
        let mut kept = self.kept.lock().unwrap();
        match self.mistake {
            Some(Mistake::ForgetsAtTheEnd) => kept.rows.clear(),
            Some(Mistake::CountsLivesAnew) => kept.boot = 0,
            _ => {}
        }
        Arc::new(WrongStore { mistake: self.mistake, kept: Arc::clone(&self.kept) })
    }

    fn refuse_runs(&self, refused: bool) -> Able {
        self.kept.lock().unwrap().refuses_runs = refused;
        Ok(())
    }

    fn cut_off(&self, batch: &Batch) -> Able {
        let mut batch = batch.clone();
        if self.mistake == Some(Mistake::KeepsPartOfACutOff) {
            batch.writes.pop();
        }
        let store = self.open();
        self.block_on(store.commit(&batch)).unwrap();
        Ok(())
    }

    fn plant(&self, row: &RowKey, field: &str, value: &Value) -> Able {
        let mut kept = self.kept.lock().unwrap();
        kept.rows.get_mut(row).unwrap().1.insert(field.to_owned(), value.clone());
        Ok(())
    }

    fn planted(&self, row: &RowKey, field: &str) -> Able<Option<Value>> {
        let kept = self.kept.lock().unwrap();
        Ok(kept.rows.get(row).and_then(|(_, fields)| fields.get(field).cloned()))
    }
}

/// The store in memory, which ends with its process.
struct InMemory(Arc<MemoryStore>);

impl StoreFixture for InMemory {
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    fn open(&self) -> Arc<dyn Store> {
        Arc::clone(&self.0) as Arc<dyn Store>
    }
}

mod correct {
    symphony_core::store_conformance!(super::Fixture::new(None));
}

mod memory {
    symphony_core::store_conformance!(super::InMemory(std::sync::Arc::default()), skip: {
        rule_16_2_a_batch_that_fails_changes_nothing: "memory does not fail",
        rule_16_2_a_batch_that_is_cut_off_is_kept_whole_or_not_at_all: "it ends with its process",
        rule_16_2_fields_of_a_newer_version_survive_an_update: "it ends with its version",
    });
}

const LIVES: &str = "rule_16_2_each_life_has_a_greater_number";
const NEXT_LIFE: &str = "rule_16_2_the_next_life_finds_what_the_last_one_left";
const FAILED: &str = "rule_16_2_a_batch_that_fails_changes_nothing";
const CUT_OFF: &str = "rule_16_2_a_batch_that_is_cut_off_is_kept_whole_or_not_at_all";
const PARTS: &str = "rule_16_2_a_reader_never_sees_a_part_of_a_batch";
const DROPPED: &str = "rule_16_2_a_dropped_commit_comes_whole_and_before_the_next";
const REPEATED: &str = "rule_16_2_a_repeated_batch_changes_nothing";
const LATER: &str = "rule_16_2_of_two_writes_of_a_row_the_later_one_counts";
const GONE: &str = "rule_16_2_a_row_that_is_gone_can_be_written_again";
const EMPTY: &str = "rule_16_2_a_new_store_is_empty";
const EXACT: &str = "rule_16_2_every_row_comes_back_as_it_was_written";
const UPDATED: &str = "rule_16_2_an_updated_row_keeps_nothing_of_the_older_one";
const SCOPES: &str = "rule_16_2_rows_of_one_scope_do_not_show_in_another";
const EVERY_SCOPE: &str = "rule_16_2_operator_totals_holds_and_open_runs_are_of_every_scope";
const OPEN_RUNS: &str = "rule_16_2_open_runs_are_those_without_an_end";
const MANY: &str = "rule_16_2_ten_thousand_claims_come_back";
const UNKNOWN: &str = "rule_16_2_fields_of_a_newer_version_survive_an_update";
const ORDER: &str = "rule_16_2_runs_come_latest_first";
const CHOSEN: &str = "rule_16_2_runs_are_chosen_by_scope_issue_and_time";
const PAGES: &str = "rule_16_2_runs_are_skipped_and_limited_in_their_order";
const SPEND: &str = "rule_16_2_spend_is_the_sum_of_the_runs";

/// Every mistake, with the rules that it breaks.
const CAUGHT: &[(Mistake, &[&str])] = &[
    (Mistake::CountsLivesAnew, &[LIVES, CUT_OFF]),
    (
        Mistake::ForgetsAtTheEnd,
        &[NEXT_LIFE, CUT_OFF, REPEATED, UPDATED, SCOPES, OPEN_RUNS, MANY, UNKNOWN, ORDER],
    ),
    (Mistake::KeepsPartOfAFailure, &[FAILED]),
    (Mistake::KeepsPartOfACutOff, &[CUT_OFF]),
    (Mistake::ShowsParts, &[PARTS, DROPPED]),
    (Mistake::CommitsLate, &[DROPPED]),
    (Mistake::AppendsRuns, &[REPEATED, OPEN_RUNS]),
    (Mistake::TakesTheFirstWrite, &[LATER, GONE]),
    (Mistake::TakesRowsAwayLast, &[GONE]),
    (Mistake::BeginsPaused, &[EMPTY, UPDATED, SCOPES, UNKNOWN]),
    (Mistake::EndsTextAtNul, &[EXACT]),
    (Mistake::RoundsGreatNumbers, &[EXACT, UNKNOWN, SPEND]),
    (Mistake::FoldsStates, &[EXACT, UPDATED, SCOPES, UNKNOWN]),
    (Mistake::KeepsOlderFields, &[UPDATED]),
    (Mistake::FoldsScopes, &[EXACT, SCOPES]),
    (Mistake::HoldsOneScope, &[EXACT, EVERY_SCOPE]),
    (Mistake::EndsNoRun, &[OPEN_RUNS]),
    (Mistake::KeepsOpenRunsApart, &[EVERY_SCOPE]),
    (Mistake::StopsAtAThousand, &[MANY]),
    (Mistake::DropsUnknownFields, &[UNKNOWN]),
    (Mistake::KeepsFieldsOfTheGone, &[UNKNOWN]),
    (Mistake::OrdersById, &[ORDER, CHOSEN, PAGES]),
    (Mistake::OrdersByTimeAlone, &[ORDER, CHOSEN, PAGES]),
    (Mistake::IgnoresTheIssue, &[CHOSEN, PAGES]),
    (Mistake::IgnoresTheScope, &[CHOSEN]),
    (Mistake::LeavesOutTheFirstMoment, &[CHOSEN]),
    (Mistake::LimitsBeforeItSkips, &[PAGES]),
    (Mistake::RoundsDaysToZero, &[SPEND]),
    (Mistake::SpendsAllScopes, &[SPEND]),
];

#[test]
fn rule_16_2_each_wrong_store_breaks_exactly_the_rules_it_should() {
    for (mistake, expected) in CAUGHT {
        let mut rules = store::rules();
        // It takes long.
        rules.retain(|(name, _)| *name != MANY || expected.contains(name));
        let found = broken(rules, || Fixture::new(Some(*mistake)));
        assert_eq!(found, *expected, "{mistake:?}");
    }
}

#[test]
fn rule_16_2_every_rule_for_stores_catches_something() {
    let caught: BTreeSet<_> = CAUGHT.iter().flat_map(|(_, rules)| *rules).copied().collect();
    let rules = store::rules::<Fixture>().into_iter();
    let idle: Vec<_> = rules.map(|(name, _)| name).filter(|name| !caught.contains(name)).collect();
    assert_eq!(idle, Vec::<&str>::new());
}
