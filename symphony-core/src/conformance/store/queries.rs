//! What is asked of all runs.

use super::samples::{SCOPES, at, run};
use super::{StoreFixture, StoreTrial, ensure_same};
use crate::agent::{Tokens, UsdMicros};
use crate::conformance::{Deviation, RuleResult};
use crate::store::{RunQuery, RunRow, SpendGroup, SpendQuery, Write, sum_spend};
use crate::time::Wall;
use crate::workspace::Scope;

const DAY: i64 = 86_400;

/// Runs of several scopes, issues, models and days; some begin at the same moment.
fn history() -> Vec<RunRow> {
    let begins = [0, 0, 5, -1, DAY - 1, DAY, DAY, -DAY, 40 * DAY, 5, 5, 3];
    let mut runs = Vec::new();
    for (boot, scope) in (1..).zip(&SCOPES[..3]) {
        for (number, began) in (0_u64..).zip(begins) {
            let mut row = run(if number % 5 == 4 { u64::MAX } else { boot }, number, at(began));
            row.run.number |= boot << 32;
            row.scope = Scope::from(*scope);
            row.issue = format!("id-{}", number % 3).into();
            row.identifier = format!("MT-{}", number % 3).into();
            row.model = (number % 4 > 0).then(|| format!("model {}", number % 4));
            row.tokens = Tokens { input: number, total: 10 * number, ..Tokens::default() };
            row.cost = (number % 3 == 1).then_some(UsdMicros(number));
            runs.push(row);
        }
    }
    runs
}

/// A life on a store with a history, which was not written in its order.
fn begin<F: StoreFixture>(
    fixture: &F,
    mut runs: Vec<RunRow>,
) -> Result<(StoreTrial<'_, F>, Vec<RunRow>), Deviation> {
    let trial = StoreTrial::begin(fixture)?;
    let writes: Vec<Write> = runs.iter().map(|run| Write::Run(Box::new(run.clone()))).collect();
    for part in writes.chunks(5) {
        trial.commit(part)?;
    }
    runs.sort_by_key(|run| std::cmp::Reverse((run.began, run.run)));
    Ok((trial, runs))
}

/// By the time they began, and by their ids where that is the same.
pub fn rule_16_2_runs_come_latest_first<F: StoreFixture>(fixture: &F) -> RuleResult {
    let (trial, runs) = begin(fixture, history())?;
    ensure_same("runs", &trial.runs(&RunQuery::default())?, &runs)?;
    let next = trial.next_life()?;
    ensure_same("runs in the next life", &next.runs(&RunQuery::default())?, &runs)
}

/// One filter alone, and all of them.
pub fn rule_16_2_runs_are_chosen_by_scope_issue_and_time<F: StoreFixture>(
    fixture: &F,
) -> RuleResult {
    let (trial, runs) = begin(fixture, history())?;
    let scopes = [None, Some(Scope::from(SCOPES[0])), Some(Scope::from("unknown"))];
    let times = [None, Some(at(5)), Some(Wall::from_unix_millis(-1)), Some(at(i64::MAX / 1000))];
    for scope in scopes {
        for issue in [None, Some("id-1".into()), Some("unknown".into())] {
            for since in times {
                let expected = runs.iter().filter(|run| {
                    scope.as_ref().is_none_or(|scope| *scope == run.scope)
                        && issue.as_ref().is_none_or(|issue| *issue == run.issue)
                        && since.is_none_or(|since| run.began >= since)
                });
                let expected: Vec<RunRow> = expected.cloned().collect();
                let query = RunQuery {
                    scope: scope.clone(),
                    issue: issue.clone(),
                    since,
                    ..RunQuery::default()
                };
                ensure_same(&format!("runs of {query:?}"), &trial.runs(&query)?, &expected)?;
            }
        }
    }
    Ok(())
}

/// Pages of what the filters leave.
pub fn rule_16_2_runs_are_skipped_and_limited_in_their_order<F: StoreFixture>(
    fixture: &F,
) -> RuleResult {
    let (trial, runs) = begin(fixture, history())?;
    for issue in [None, Some("id-1".into())] {
        let all = runs.iter().filter(|run| issue.as_ref().is_none_or(|issue| *issue == run.issue));
        let all: Vec<RunRow> = all.cloned().collect();
        for skip in [0, 1, 7, usize::MAX] {
            for limit in [None, Some(0), Some(1), Some(7), Some(usize::MAX)] {
                let page = all.iter().skip(skip).take(limit.unwrap_or(usize::MAX));
                let page: Vec<RunRow> = page.cloned().collect();
                let query = RunQuery { issue: issue.clone(), skip, limit, ..RunQuery::default() };
                ensure_same(&format!("runs of {query:?}"), &trial.runs(&query)?, &page)?;
            }
        }
    }
    Ok(())
}

/// In every group, of a scope or of all, since a time or since ever; sums stop at the greatest
/// number.
pub fn rule_16_2_spend_is_the_sum_of_the_runs<F: StoreFixture>(fixture: &F) -> RuleResult {
    let mut runs = history();
    for (run, huge) in runs.iter_mut().skip(4).zip([u64::MAX, 1 << 63, (1 << 63) - 1]) {
        run.tokens = Tokens { input: huge, output: huge, total: huge, ..Tokens::default() };
        run.cost = Some(UsdMicros(huge));
    }
    let (trial, runs) = begin(fixture, runs)?;
    for by in [SpendGroup::Day, SpendGroup::Issue, SpendGroup::Model] {
        for scope in [None, Some(Scope::from(SCOPES[0])), Some(Scope::from("unknown"))] {
            for since in [None, Some(at(5)), Some(Wall::from_unix_millis(-1)), Some(at(DAY))] {
                let query = SpendQuery { scope: scope.clone(), since, by };
                let expected = sum_spend(&runs, &query);
                ensure_same(&format!("{query:?}"), &trial.spend(&query)?, &expected)?;
            }
        }
    }
    Ok(())
}
