//! What runs used, in groups.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use serde::Serialize;

use super::RunRow;
use crate::agent::{Tokens, Usage, UsdMicros};
use crate::time::Wall;
use crate::workspace::Scope;

/// Which sums are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpendQuery {
    /// Only of this scope.
    pub scope: Option<Scope>,
    /// Only of runs that began at this time or later.
    pub since: Option<Wall>,
    /// By what to group.
    pub by: SpendGroup,
}

/// By what sums are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpendGroup {
    /// By the day (UTC) on which a run began: days since 1970.
    Day,
    /// By the issue's identifier.
    Issue,
    /// By the model; blank where the agent did not name it.
    Model,
}

/// What the runs of one group used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SpendRow {
    /// The group.
    pub key: String,
    /// How many runs.
    pub runs: u64,
    /// Their tokens.
    pub tokens: Tokens,
    /// What their agents say that cost, where any of them did.
    pub cost: Option<UsdMicros>,
}

impl SpendRow {
    /// Begins the sums of a group.
    #[must_use]
    pub fn new(key: impl Into<String>) -> Self {
        Self { key: key.into(), ..Self::default() }
    }
}

/// Sums up runs: what a store without a language for it can answer [`spend`](super::Store::spend)
/// with.
#[must_use]
pub fn sum_spend(
    runs: impl IntoIterator<Item = impl Borrow<RunRow>>,
    query: &SpendQuery,
) -> Vec<SpendRow> {
    let mut groups = BTreeMap::new();
    for run in runs {
        let run = run.borrow();
        let is_other = query.scope.as_ref().is_some_and(|scope| *scope != run.scope);
        if is_other || query.since.is_some_and(|since| run.began < since) {
            continue;
        }
        let (order, key) = match query.by {
            SpendGroup::Day => (run.began.day(), run.began.day().to_string()),
            SpendGroup::Issue => (0, run.identifier.to_string()),
            SpendGroup::Model => (0, run.model.clone().unwrap_or_default()),
        };
        let group = groups.entry((order, key)).or_insert_with_key(|(_, key)| SpendRow::new(key));
        group.runs += 1;
        let used = Usage { tokens: Some(run.tokens), cost: run.cost };
        used.add_to(&mut group.tokens, &mut group.cost);
    }
    groups.into_values().collect()
}
