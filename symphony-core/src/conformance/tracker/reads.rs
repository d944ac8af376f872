//! A list alone, and ids alone (contract 11.1).

use super::{Fault, Seed, TrackerFixture, TrackerTrial, failed, ids, sorted};
use crate::conformance::{RuleResult, abandon, broken, ensure, ensure_eq, join_all};
use crate::issue::{Issue, IssueId};
use crate::settings::StateSet;
use crate::tracker::{TrackerError, TrackerExt};

/// Nothing to look for is answered without asking.
pub fn rule_11_1_no_states_make_no_request<F: TrackerFixture>(fixture: &F) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    trial.put("Here")?;
    let made = trial.counted(|| {
        let found = trial.list(&StateSet::default())?;
        ensure_eq("issues in no states", ids(&found), Vec::new())
    })?;
    ensure_eq("requests", made, 0)
}

/// All of them, each once, and nothing else.
pub fn rule_11_1_a_list_holds_the_issues_of_its_states_and_no_others<F: TrackerFixture>(
    fixture: &F,
) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    let here = trial.put_many(3)?;
    let there = fixture.put(Seed::new("Elsewhere", &trial.other))?;
    ensure_eq("the list of one state", ids(&trial.list_open()?), sorted(here.clone()))?;
    let both = StateSet::new([trial.open.clone(), trial.other.clone()]);
    let all = here.into_iter().chain([there]).collect();
    ensure_eq("the list of two states", ids(&trial.list(&both)?), sorted(all))
}

/// The last issue of the last page counts as much as the first.
pub fn rule_11_1_a_list_is_complete_beyond_one_page<F: TrackerFixture>(fixture: &F) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    let all = trial.put_many(fixture.page_size()? * 2 + 1)?;
    ensure_eq("the list", ids(&trial.list_open()?), sorted(all))
}

/// A part must never look like the whole.
pub fn rule_11_1_a_failed_page_fails_the_list<F: TrackerFixture>(fixture: &F) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    trial.put_many(fixture.page_size()? * 2 + 1)?;
    fixture.fail(Some(Fault::LaterPage))?;
    match trial.try_list(&StateSet::new([trial.open.clone()])) {
        Err(_) => Ok(()),
        Ok(part) => Err(broken(format!(
            "the second page failed, and the list came back with {} issues",
            part.len()
        ))),
    }
}

/// A claimed issue is read wherever it went.
pub fn rule_11_1_a_read_by_id_finds_issues_in_any_state<F: TrackerFixture>(
    fixture: &F,
) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    let here = trial.put("Here")?;
    let there = fixture.put(Seed::new("There", &trial.other))?;
    let both = vec![here, there];
    ensure_eq("found", ids(&trial.by_ids(&both)?.found), sorted(both))
}

/// However many ids there are.
pub fn rule_11_1_a_read_by_id_is_complete_beyond_one_page<F: TrackerFixture>(
    fixture: &F,
) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    let all = trial.put_many(fixture.page_size()? * 2 + 1)?;
    ensure_eq("found", ids(&trial.by_ids(&all)?.found), sorted(all))
}

/// An id twice is an id once.
pub fn rule_11_1_ids_are_a_set<F: TrackerFixture>(fixture: &F) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    let (one, two) = (trial.put("One")?, trial.put("Two")?);
    let twice = [&one, &two, &one, &one].map(IssueId::clone);
    let found = trial.by_ids(&twice)?.found;
    ensure_eq("found", ids(&found), sorted(vec![one, two]))
}

/// Gone is neither an error nor unreadable.
pub fn rule_11_1_an_issue_that_is_gone_is_omitted<F: TrackerFixture>(fixture: &F) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    let (stays, goes) = (trial.put("Stays")?, trial.put("Goes")?);
    fixture.remove(&goes);
    omits(&trial, &stays, &goes)
}

/// An issue of another project is not ours, even when it is asked for by id.
pub fn rule_11_1_what_is_out_of_scope_is_omitted<F: TrackerFixture>(fixture: &F) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    let inside = trial.put("Inside")?;
    let outside = fixture.put_outside(Seed::new("Outside", &trial.open))?;
    omits(&trial, &inside, &outside)
}

fn omits<F: TrackerFixture>(
    trial: &TrackerTrial<'_, F>,
    here: &IssueId,
    not: &IssueId,
) -> RuleResult {
    let answer = trial.by_ids(&[not.clone(), here.clone()])?;
    ensure_eq("found by id", ids(&answer.found), vec![here.clone()])?;
    ensure(answer.unreadable.is_empty(), || {
        format!("{:?} is reported as unreadable", answer.unreadable)
    })?;
    ensure_eq("the list", ids(&trial.list_open()?), vec![here.clone()])
}

/// An answer is never that of an earlier read.
pub fn rule_11_1_answers_are_current<F: TrackerFixture>(fixture: &F) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    let id = trial.put("Moves")?;
    ensure_eq("the list before", ids(&trial.list_open()?), vec![id.clone()])?;
    ensure_eq("the state before", &trial.one(&id)?.state, &trial.open)?;
    fixture.move_to(&id, &trial.other);
    ensure_eq("the list after", ids(&trial.list_open()?), Vec::new())?;
    ensure_eq("the state after", &trial.one(&id)?.state, &trial.other)
}

/// Several reads are open at once, one per purpose.
pub fn rule_11_1_calls_side_by_side_do_not_mix<F: TrackerFixture>(fixture: &F) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    let here = trial.put("Here")?;
    let there = fixture.put(Seed::new("There", &trial.other))?;
    let states = [&trial.open, &trial.other].map(|state| StateSet::new([state.clone()]));
    let wanted = [&here, &there].map(IssueId::clone);
    let tracker = &*trial.tracker;
    let list = async |states| tracker.fetch_issues_by_states(states).await;
    let read = async |id| {
        let answer = tracker.fetch_issues_by_ids(std::slice::from_ref(id)).await;
        answer.map(|by_id| by_id.found)
    };
    let answers: Vec<Result<Vec<Issue>, TrackerError>> = fixture.block_on(join_all(vec![
        Box::pin(list(&states[0])),
        Box::pin(read(&wanted[1])),
        Box::pin(list(&states[1])),
        Box::pin(read(&wanted[0])),
    ]));
    let expected = [&here, &there, &there, &here];
    ensure_eq("answers", answers.len(), expected.len())?;
    for (answer, expected) in answers.into_iter().zip(expected) {
        let found = answer.map_err(|error| failed("a call beside others", &error))?;
        ensure_eq("found", ids(&found), vec![expected.clone()])?;
    }
    Ok(())
}

/// A read is dropped when it takes too long, wherever it then is.
pub fn rule_11_1_a_dropped_call_harms_nothing<F: TrackerFixture>(fixture: &F) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    let id = trial.put("Here")?;
    let states = StateSet::new([trial.open.clone()]);
    let wanted = [id.clone()];
    // Often enough that a small pool of connections would run dry.
    for polls in (0..6).cycle().take(60) {
        let list = trial.tracker.fetch_issues_by_states(&states);
        drop(fixture.block_on(abandon(list, polls)));
        let read = trial.tracker.fetch_issues_by_ids(&wanted);
        drop(fixture.block_on(abandon(read, polls)));
    }
    ensure_eq("the list afterwards", ids(&trial.list_open()?), vec![id.clone()])?;
    ensure_eq("the issue afterwards", &trial.one(&id)?.id, &id)
}
