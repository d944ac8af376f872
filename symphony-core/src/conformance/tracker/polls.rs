//! Both reads in one (contract 11.1).

use super::{Seed, TrackerFixture, TrackerTrial, by_id, candidates, ids, sorted};
use crate::conformance::{RuleResult, ensure, ensure_eq};
use crate::issue::Issue;
use crate::time::Wall;

/// Some noon.
const NOON: i64 = 1_771_416_000_000;

/// A poll for nothing is answered without asking.
pub fn rule_11_1_a_poll_for_nothing_makes_no_request<F: TrackerFixture>(fixture: &F) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    trial.put("Here")?;
    let made = trial.counted(|| {
        let polled = trial.poll(None, Vec::new());
        ensure_eq("candidates", polled.candidates.is_some(), false)?;
        let answer = by_id(&polled)?;
        let all = (answer.found.len(), answer.unreadable.len());
        ensure_eq("issues of no ids", all, (0, 0))
    })?;
    ensure_eq("requests", made, 0)
}

/// An issue that was asked for in both ways is in both answers.
pub fn rule_11_1_a_poll_brings_candidates_and_ids_apart<F: TrackerFixture>(
    fixture: &F,
) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    let here = trial.put_many(2)?;
    let there = fixture.put(Seed::new("There", &trial.other))?;
    let claimed = vec![here[0].clone(), there];
    let polled = trial.poll(Some(trial.query(10)), claimed.clone());
    ensure_eq("candidates", ids(&candidates(&polled)?.issues), sorted(here))?;
    ensure_eq("found by id", ids(&by_id(&polled)?.found), sorted(claimed))
}

/// With no free slot candidates are not asked for, so none come.
pub fn rule_11_1_a_poll_without_candidates_brings_none<F: TrackerFixture>(
    fixture: &F,
) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    let here = trial.put_many(2)?;
    let alone = trial.counted(|| trial.by_ids(&here[..1]).map(drop))?;
    let made = trial.counted(|| {
        let polled = trial.poll(None, here[..1].to_vec());
        ensure_eq("candidates", polled.candidates.is_some(), false)?;
        ensure_eq("found by id", ids(&by_id(&polled)?.found), here[..1].to_vec())
    })?;
    ensure_eq("requests", made, alone)
}

/// Travelling together is never dearer.
pub fn rule_11_1_a_poll_takes_no_more_requests_than_two_reads<F: TrackerFixture>(
    fixture: &F,
) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    let here = trial.put_many(2)?;
    let apart = trial.counted(|| {
        trial.list_open()?;
        trial.by_ids(&here).map(drop)
    })?;
    let together = trial.counted(|| {
        let polled = trial.poll(Some(trial.query(10)), here.clone());
        candidates(&polled)?;
        by_id(&polled).map(drop)
    })?;
    ensure(together <= apart, || {
        format!("two reads made {apart} requests, one poll made {together}")
    })
}

/// The day's counts rest on it.
pub fn rule_11_1_a_poll_counts_its_requests<F: TrackerFixture>(fixture: &F) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    let here = trial.put_many(2)?;
    let query = || Some(trial.query(10));
    for (candidates, ids) in [(query(), here.clone()), (query(), Vec::new()), (None, here)] {
        let mut told = 0;
        let made = trial.counted(|| {
            told = u64::from(trial.poll(candidates, ids).requests);
            Ok(())
        })?;
        ensure_eq("requests of a poll", told, made)?;
    }
    Ok(())
}

/// One bad record costs neither the candidates nor the other ids.
pub fn rule_11_1_an_unreadable_issue_does_not_spoil_a_poll<F: TrackerFixture>(
    fixture: &F,
) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    let all = trial.put_many(3)?;
    fixture.spoil(&all[1])?;
    let polled = trial.poll(Some(trial.query(10)), all.clone());
    let good = sorted(vec![all[0].clone(), all[2].clone()]);
    ensure_eq("candidates", ids(&candidates(&polled)?.issues), good.clone())?;
    let answer = by_id(&polled)?;
    ensure_eq("found by id", ids(&answer.found), good)?;
    let unreadable = answer.unreadable.iter().map(|one| one.id.clone()).collect();
    ensure_eq("unreadable", unreadable, vec![all[1].clone()])
}

/// Either all candidates, or at least enough of them, and then none that is missing may come
/// before one that is there (contract 5.3).
pub fn rule_11_1_a_poll_that_stops_early_brings_the_first_in_order_and_says_so<
    F: TrackerFixture,
>(
    fixture: &F,
) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    let count = fixture.page_size().unwrap_or(2) * 2 + 1;
    for n in 0..i64::try_from(count).unwrap_or(i64::MAX) {
        let hours_ago = (n * 7) % 11;
        let plain = Seed::new(&format!("Issue {n}"), &trial.open);
        let ordered = Seed {
            priority: Some((n * 3 + 1) % 5),
            created_at: Some(Wall::from_unix_millis(NOON - hours_ago * 3_600_000)),
            ..plain.clone()
        };
        fixture.put(ordered).or_else(|_| fixture.put(plain))?;
    }
    let all = trial.list_open()?;
    let enough = 2;
    let polled = trial.poll(Some(trial.query(enough)), Vec::new());
    let found = candidates(&polled)?;
    let there = ids(&found.issues);
    if !found.more {
        return ensure_eq("candidates, with no more to come", there, ids(&all));
    }
    ensure(there.len() >= enough, || {
        format!("stopped at {} candidates, and {enough} were wanted", there.len())
    })?;
    let (mut present, missing): (Vec<_>, Vec<_>) =
        all.iter().partition(|issue| there.binary_search(&issue.id).is_ok());
    present.sort_by_key(|issue| order(issue));
    let last = present.last().map(|issue| order(issue));
    let early = missing.iter().find(|issue| Some(order(issue)) < last);
    ensure(early.is_none(), || {
        format!("stopped early without {early:?}, which comes before others that are there")
    })
}

/// The order of dispatch (contract 5.3).
fn order(issue: &Issue) -> (i64, bool, Option<Wall>, &str) {
    let rank = issue.priority.filter(|rank| (1..=4).contains(rank)).unwrap_or(5);
    let created = issue.created_at;
    (rank, created.is_none(), created, issue.identifier.as_str())
}
