//! What went wrong, by category (contract 11.2).

use std::time::Duration;

use super::{Fault, TrackerFixture, TrackerTrial};
use crate::conformance::{Deviation, RuleResult, broken, ensure, ensure_eq};
use crate::settings::StateSet;
use crate::tracker::{TrackerError, TrackerErrorKind};

/// No answer at all.
pub fn rule_11_2_an_unreachable_tracker_is_a_request_error<F: TrackerFixture>(
    fixture: &F,
) -> RuleResult {
    fails_as(fixture, Fault::Unreachable, TrackerErrorKind::Request).map(drop)
}

/// An answer that says no.
pub fn rule_11_2_an_error_status_is_a_status_error<F: TrackerFixture>(fixture: &F) -> RuleResult {
    fails_as(fixture, Fault::Status, TrackerErrorKind::Status).map(drop)
}

/// An answer that cannot be understood.
pub fn rule_11_2_nonsense_is_a_response_error<F: TrackerFixture>(fixture: &F) -> RuleResult {
    fails_as(fixture, Fault::Nonsense, TrackerErrorKind::Response).map(drop)
}

/// A refusal for a while, with its end.
pub fn rule_11_2_a_rate_limit_says_when_to_come_back<F: TrackerFixture>(fixture: &F) -> RuleResult {
    let fault = Fault::RateLimited(Duration::from_secs(90));
    for error in fails_as(fixture, fault, TrackerErrorKind::RateLimited)? {
        ensure(error.retry_at.is_some(), || "retry_at is missing".to_owned())?;
    }
    Ok(())
}

/// Neither part of a poll looks like "nothing there".
pub fn rule_11_2_a_failed_poll_is_an_error_in_every_part<F: TrackerFixture>(
    fixture: &F,
) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    let id = trial.put("Here")?;
    fixture.fail(Some(Fault::Unreachable))?;
    let polled = trial.poll(Some(trial.query(10)), vec![id]);
    ensure(matches!(polled.candidates, Some(Err(_))), || {
        format!("candidates of an unreachable tracker: {:?}", polled.candidates)
    })?;
    ensure(polled.by_id.is_err(), || {
        format!("issues of an unreachable tracker: {:?}", polled.by_id)
    })
}

/// When the tracker is back, so are its answers.
pub fn rule_11_2_a_failure_is_not_remembered<F: TrackerFixture>(fixture: &F) -> RuleResult {
    let trial = TrackerTrial::new(fixture);
    let id = trial.put("Here")?;
    fixture.fail(Some(Fault::Unreachable))?;
    ensure(trial.try_by_ids(std::slice::from_ref(&id)).is_err(), || {
        "an unreachable tracker answered".to_owned()
    })?;
    fixture.fail(None)?;
    ensure_eq("the issue afterwards", &trial.one(&id)?.id, &id)
}

fn fails_as<F: TrackerFixture>(
    fixture: &F,
    fault: Fault,
    kind: TrackerErrorKind,
) -> Result<[TrackerError; 2], Deviation> {
    let trial = TrackerTrial::new(fixture);
    let id = trial.put("Here")?;
    fixture.fail(Some(fault))?;
    let list = trial.try_list(&StateSet::new([trial.open.clone()]));
    let by_ids = trial.try_by_ids(&[id]);
    let (Err(list), Err(by_ids)) = (list, by_ids) else {
        return Err(broken(format!("{fault:?} was not an error")));
    };
    for error in [&list, &by_ids] {
        ensure_eq("category", error.kind.as_str(), kind.as_str())?;
        ensure(!error.message.trim().is_empty(), || "the message is empty".to_owned())?;
    }
    Ok([list, by_ids])
}
