//! Faults that tests ask for.

use std::time::Duration;

use symphony_core::StateSet;
use symphony_core::tracker::{Tracker, TrackerErrorKind, TrackerExt};
use symphony_memory::{MemoryFault, Requests};
use tokio::time::{Instant, timeout};

use super::reads::poll;
use super::{at, board, identifiers, ids, issue};

#[tokio::test]
async fn rule_11_2_a_fault_has_its_category_and_time() {
    let board = board();
    board.faults().next(MemoryFault::fail(TrackerErrorKind::Status));
    board.faults().next(MemoryFault::rate_limited(Some(at(60_000))));
    let first = board.fetch_issues_by_ids(&ids(&["1"])).await.unwrap_err();
    assert_eq!((first.kind, first.retry_at), (TrackerErrorKind::Status, None));
    let second = board.fetch_issues_by_states(&StateSet::new(["Todo"])).await.unwrap_err();
    assert_eq!((second.kind, second.retry_at), (TrackerErrorKind::RateLimited, Some(at(60_000))));
    assert!(board.fetch_issues_by_ids(&ids(&["1"])).await.is_ok(), "the queue is empty");
    assert_eq!(board.requests(), 3);
}

#[tokio::test]
async fn rule_11_2_a_fault_of_a_whole_poll_is_in_every_part_that_was_asked_for() {
    let board = board();
    board.faults().always(Requests::Reads, MemoryFault::fail(TrackerErrorKind::Request));
    let polled = board.poll(&poll(Some(&["Todo"]), &["1"])).await;
    assert!(polled.candidates.unwrap().is_err());
    assert!(polled.by_id.is_err());
    let polled = board.poll(&poll(Some(&["Todo"]), &[])).await;
    assert!(polled.candidates.unwrap().is_err());
    assert!(polled.by_id.is_ok(), "nothing was asked for by id");
    board.faults().clear();
    let polled = board.poll(&poll(Some(&["Todo"]), &["1"])).await;
    assert!(polled.candidates.unwrap().is_ok());
    assert!(polled.by_id.is_ok());
}

#[tokio::test]
async fn rule_11_1_the_parts_of_a_poll_fail_apart() {
    let board = board();
    board.add(issue(1, "Todo"));
    let fault = || MemoryFault::fail(TrackerErrorKind::Pagination);
    board.faults().next_of(Requests::Candidates, fault());
    board.faults().next_of(Requests::IssuesById, fault());
    let polled = board.poll(&poll(Some(&["Todo"]), &["1"])).await;
    assert!(polled.candidates.unwrap().is_err());
    assert_eq!(identifiers(&polled.by_id.unwrap().found), ["MT-1"]);
    let polled = board.poll(&poll(Some(&["Todo"]), &["1"])).await;
    assert_eq!(identifiers(&polled.candidates.unwrap().unwrap().issues), ["MT-1"]);
    assert!(polled.by_id.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_read_that_hangs_is_answered_on_release_with_what_is_true_then() {
    let board = board();
    board.add(issue(1, "Todo"));
    board.faults().next(MemoryFault::Hang);
    let reading = tokio::spawn({
        let board = board.clone();
        async move { board.fetch_issues_by_ids(&ids(&["1"])).await.unwrap() }
    });
    board.faults().until_hanging(1).await;
    board.set_state("1", "Done");
    board.faults().release();
    assert_eq!(reading.await.unwrap().found[0].state, "done".into());
    assert_eq!(board.faults().hanging(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_read_that_hangs_may_be_dropped() {
    let board = board();
    board.faults().always(Requests::Reads, MemoryFault::Hang);
    let year = Duration::from_secs(365 * 24 * 3600);
    let reading = timeout(year, board.fetch_issues_by_ids(&ids(&["1"]))).await;
    assert!(reading.is_err());
    assert_eq!(board.faults().hanging(), 0);
    board.faults().clear();
    assert!(board.fetch_issues_by_ids(&ids(&["1"])).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_read_can_be_late() {
    let board = board();
    board.faults().next(MemoryFault::Delay(Duration::from_secs(20)));
    let began = Instant::now();
    assert!(board.fetch_issues_by_ids(&ids(&["1"])).await.is_ok());
    // Virtual time: nothing but the delay moves it.
    assert_eq!(began.elapsed(), Duration::from_secs(20));
}
