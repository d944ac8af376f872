//! Reads of the tracker: bounded in time, each ending in exactly one answer.

use std::sync::Arc;
use std::time::Duration;

use symphony_core::orchestrator::Answer;
use symphony_core::time::Wall;
use symphony_core::tracker::{Poll, Tracker, TrackerError, TrackerErrorKind};
use symphony_core::{Failure, FailureKind};

use crate::clock::wall_now;
use crate::panics::isolated;

/// Asks the tracker, within the limit.
pub(crate) async fn read(tracker: Arc<dyn Tracker>, poll: Poll, limit: Duration) -> Answer {
    let lists = poll.candidates.is_some();
    // In a task of its own: a tracker that does not give way is left behind all the same.
    match tokio::time::timeout(limit, isolated(ask(tracker, poll))).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(panic)) => failed(lists, &panic),
        Err(_) => {
            let message = format!("the tracker did not answer within {} ms", limit.as_millis());
            let kind = FailureKind::Tracker(TrackerErrorKind::Request);
            failed(lists, &Failure::new(kind, message))
        }
    }
}

async fn ask(tracker: Arc<dyn Tracker>, poll: Poll) -> Answer {
    let polled = tracker.poll(&poll).await;
    let now = wall_now();
    Answer {
        candidates: polled.candidates.map(|result| to_failure(result, now)),
        by_id: Some(to_failure(polled.by_id, now)),
        next_poll: polled.next_poll,
        requests: polled.requests,
        budget: polled.budget,
    }
}

fn to_failure<T>(result: Result<T, TrackerError>, now: Wall) -> Result<T, Failure> {
    result.map_err(|error| error.to_failure(now))
}

/// The answer that every part of the question failed.
fn failed(lists: bool, failure: &Failure) -> Answer {
    Answer {
        candidates: lists.then(|| Err(failure.clone())),
        by_id: Some(Err(failure.clone())),
        requests: 1,
        ..Answer::default()
    }
}
