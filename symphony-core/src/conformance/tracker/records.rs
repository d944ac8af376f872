//! What one issue looks like (contract 1.1 to 1.3).

use super::{Seed, TrackerFixture, TrackerTrial, by_id, candidates, ids, sorted};
use crate::conformance::{RuleResult, ensure, ensure_eq};
use crate::issue::{Label, StateName};
use crate::settings::StateSet;
use crate::time::Wall;

/// Title and state survive, and there is an id and an identifier.
pub fn rule_1_1_an_issue_comes_back_as_it_was_put<F: TrackerFixture>(fixture: &F) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    let seed = Seed::new("Mend the \"gate\" \u{2014} {{ soon }}", &trial.open);
    let id = fixture.put(seed.clone())?;
    for issue in trial.list_open()?.into_iter().chain([trial.one(&id)?]) {
        ensure_eq("id", &issue.id, &id)?;
        ensure(!issue.identifier.as_str().trim().is_empty(), || {
            "the identifier is empty".to_owned()
        })?;
        ensure_eq("title", &issue.title, &seed.title)?;
        ensure_eq("state", &issue.state, &seed.state)?;
        ensure_eq("dispatchable", issue.dispatchable, true)?;
    }
    Ok(())
}

/// What the order of dispatch rests on.
pub fn rule_1_1_priority_and_creation_time_come_back<F: TrackerFixture>(fixture: &F) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    let seed = Seed {
        priority: Some(2),
        created_at: Some(Wall::from_unix_millis(1_771_407_000_000)),
        ..Seed::new("Urgent", &trial.open)
    };
    let id = fixture.put(seed.clone())?;
    let issue = trial.one(&id)?;
    ensure_eq("priority", issue.priority, seed.priority)?;
    ensure_eq("created_at", issue.created_at, seed.created_at)
}

/// Two spellings of one label are one label, and a blank one is none.
pub fn rule_1_1_labels_are_trimmed_lowercased_and_without_duplicates<F: TrackerFixture>(
    fixture: &F,
) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    let labels = ["Bug", " bug ", "NEEDS Review", ""];
    let id = fixture.put(Seed {
        labels: labels.map(str::to_owned).to_vec(),
        ..Seed::new("Labelled", &trial.open)
    })?;
    let mut found = trial.one(&id)?.labels;
    found.sort();
    ensure_eq("labels", found, vec![Label::new("bug"), Label::new("needs review")])
}

/// A blocker is there, by id or by identifier.
pub fn rule_1_1_blockers_are_named<F: TrackerFixture>(fixture: &F) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    let first = trial.put("First")?;
    let second = fixture
        .put(Seed { blocked_by: vec![first.clone()], ..Seed::new("Second", &trial.open) })?;
    let (blocker, blocked) = (trial.one(&first)?, trial.one(&second)?);
    ensure_eq("blockers of the first", blocker.blocked_by.len(), 0)?;
    let named = blocked.blocked_by.iter().filter(|by| {
        by.id.as_ref() == Some(&blocker.id) || by.identifier.as_ref() == Some(&blocker.identifier)
    });
    ensure(named.count() == 1 && blocked.blocked_by.len() == 1, || {
        format!(
            "expected {} as the one blocker, found {:?}",
            blocker.identifier, blocked.blocked_by
        )
    })
}

/// An issue waits for its blockers to be done, so their states have to be there, and to be current.
pub fn rule_1_1_a_blockers_state_comes_back_also_after_it_moved<F: TrackerFixture>(
    fixture: &F,
) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    let first = trial.put("First")?;
    let second = fixture
        .put(Seed { blocked_by: vec![first.clone()], ..Seed::new("Second", &trial.open) })?;
    let blocked = |state: &StateName| -> RuleResult {
        let listed = trial.poll(Some(trial.query(10)), Vec::new());
        let read = trial.poll(None, vec![second.clone()]);
        let reads = [
            ("by id", vec![trial.one(&second)?]),
            ("in the list", trial.list_open()?),
            ("among the candidates of a poll", candidates(&listed)?.issues.clone()),
            ("by id in a poll", by_id(&read)?.found.clone()),
        ];
        for (how, issues) in reads {
            let second = issues.into_iter().find(|issue| issue.id == second);
            let blockers = second.map(|issue| issue.blocked_by).unwrap_or_default();
            let states = blockers.into_iter().map(|by| by.state).collect();
            ensure_eq(&format!("the blocker's state, {how}"), states, vec![Some(state.clone())])?;
        }
        Ok(())
    };
    blocked(&trial.open)?;
    fixture.move_to(&first, &trial.other);
    blocked(&trial.other)
}

/// The adapter's verdict is a field, not a filter: reconciliation must see such an issue.
pub fn rule_1_1_an_issue_that_is_not_dispatchable_is_read_and_says_so<F: TrackerFixture>(
    fixture: &F,
) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    let id =
        fixture.put(Seed { dispatchable: false, ..Seed::new("Somebody else's", &trial.open) })?;
    ensure_eq("the list", ids(&trial.list_open()?), vec![id.clone()])?;
    ensure_eq("dispatchable", trial.one(&id)?.dispatchable, false)
}

/// A workflow file may spell a state in its own way.
pub fn rule_1_2_states_are_found_whatever_their_case_and_space<F: TrackerFixture>(
    fixture: &F,
) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    let id = trial.put("Here")?;
    let name = trial.open.as_str();
    for spelling in [name.to_uppercase(), name.to_lowercase(), format!("  {name} ")] {
        let found = trial.list(&StateSet::new([spelling.as_str()]))?;
        ensure_eq(&format!("issues in {spelling:?}"), ids(&found), vec![id.clone()])?;
    }
    Ok(())
}

/// People see their own words.
pub fn rule_1_2_states_come_back_in_the_trackers_spelling<F: TrackerFixture>(
    fixture: &F,
) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    let id = trial.put("Here")?;
    let shouted = StateSet::new([trial.open.as_str().to_uppercase().as_str()]);
    for issue in trial.list(&shouted)?.into_iter().chain([trial.one(&id)?]) {
        ensure_eq("the state's spelling", issue.state.as_str(), trial.open.as_str())?;
    }
    Ok(())
}

/// One bad record does not stop the work on the others.
pub fn rule_1_3_a_list_drops_a_malformed_record_and_keeps_the_others<F: TrackerFixture>(
    fixture: &F,
) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    let all = trial.put_many(3)?;
    fixture.spoil(&all[1])?;
    let found = trial.list_open()?;
    ensure(found.iter().all(|issue| issue.is_well_formed()), || {
        format!("a malformed record is in the list: {found:?}")
    })?;
    ensure_eq("the list", ids(&found), sorted(vec![all[0].clone(), all[2].clone()]))
}

/// "Unreadable" keeps a run alive; omission would end it.
pub fn rule_1_3_a_malformed_record_read_by_id_is_unreadable_and_spoils_no_other<
    F: TrackerFixture,
>(
    fixture: &F,
) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    let all = trial.put_many(3)?;
    fixture.spoil(&all[1])?;
    let answer = trial.by_ids(&all)?;
    let unreadable = answer.unreadable.iter().map(|one| one.id.clone()).collect();
    ensure_eq("unreadable", unreadable, vec![all[1].clone()])?;
    let others = sorted(vec![all[0].clone(), all[2].clone()]);
    ensure_eq("found", ids(&answer.found), others)
}
