//! One issue by its name (contract 11.8).

use super::{Fault, Seed, TrackerFixture, TrackerTrial, failed};
use crate::conformance::{Deviation, RuleResult, broken, ensure, ensure_eq};
use crate::issue::{Issue, IssueId};
use crate::tracker::TrackerError;

impl<F: TrackerFixture> TrackerTrial<'_, F> {
    fn try_find(&self, name: &str) -> Result<Option<Issue>, TrackerError> {
        self.fixture.block_on(self.tracker.find(name))
    }

    fn find(&self, name: &str) -> Result<Option<Issue>, Deviation> {
        self.try_find(name).map_err(|error| failed(&format!("the search for {name:?}"), &error))
    }

    fn identifier(&self, id: &IssueId) -> Result<String, Deviation> {
        Ok(self.one(id)?.identifier.to_string())
    }
}

/// Asked about an issue, the adapter knows it by both names, candidate or not, as it is now.
pub fn rule_11_8_an_issue_is_found_by_identifier_and_by_id_in_any_state<F: TrackerFixture>(
    fixture: &F,
) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    let here = trial.put("Here")?;
    let there = fixture.put(Seed::new("There", &trial.other))?;
    let moves = trial.put("Moves")?;
    for id in [&here, &there, &moves] {
        found_by_both_names(&trial, id)?;
    }
    fixture.move_to(&moves, &trial.other);
    found_by_both_names(&trial, &moves)
}

fn found_by_both_names<F: TrackerFixture>(trial: &TrackerTrial<'_, F>, id: &IssueId) -> RuleResult {
    let expected = trial.one(id)?;
    for name in [expected.identifier.as_str(), id.as_str()] {
        let found = trial.find(name)?;
        ensure_eq(&format!("what {name:?} finds"), found.as_ref(), Some(&expected))?;
    }
    Ok(())
}

/// Not the nearest one, not one whose name begins alike, and not one that is gone.
pub fn rule_11_8_an_unknown_name_finds_nothing<F: TrackerFixture>(fixture: &F) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    let (stays, goes) = (trial.put("Stays")?, trial.put("Goes")?);
    let (stay, gone) = (trial.identifier(&stays)?, trial.identifier(&goes)?);
    fixture.remove(&goes);
    let begins_alike: String = stay.chars().take(stay.chars().count() - 1).collect();
    let names = ["no-such-issue", &gone, goes.as_str(), &format!("{stay}0"), &begins_alike];
    for name in names {
        ensure_eq(&format!("what {name:?} finds"), trial.find(name)?, None)?;
    }
    Ok(())
}

/// A name from another project does not exist here.
pub fn rule_11_8_what_is_out_of_scope_is_not_found<F: TrackerFixture>(fixture: &F) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    trial.put("Inside")?;
    let outside = fixture.put_outside(Seed::new("Outside", &trial.open))?;
    ensure_eq("what its id finds", trial.find(outside.as_str())?, None)
}

/// "It does not exist" is said only by a tracker that was read.
pub fn rule_11_8_a_search_that_fails_is_an_error<F: TrackerFixture>(fixture: &F) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    let id = trial.put("Here")?;
    fixture.fail(Some(Fault::Unreachable))?;
    let found = trial.try_find(id.as_str());
    ensure(found.is_err(), || format!("a search in an unreachable tracker: {found:?}"))
}

/// Nor of a record that is there and cannot be read.
pub fn rule_11_8_a_malformed_record_is_an_error<F: TrackerFixture>(fixture: &F) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    let all = trial.put_many(2)?;
    fixture.spoil(&all[0])?;
    match trial.try_find(all[0].as_str()) {
        Err(_) => ensure_eq(
            "what the other's id finds",
            trial.find(all[1].as_str())?.map(|issue| issue.id),
            Some(all[1].clone()),
        ),
        Ok(found) => Err(broken(format!("the search for a malformed record: {found:?}"))),
    }
}
