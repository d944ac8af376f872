//! What a read asks and answers.

use symphony_core::tracker::{
    CandidateQuery, Candidates, IssuesById, Poll, Purpose, Tracker, TrackerExt,
};
use symphony_core::{IssueId, StateSet};

use super::{board, identifiers, ids, issue};

#[tokio::test]
async fn rule_11_1_empty_input_makes_no_request() {
    let board = board();
    board.add(issue(1, "Todo"));
    assert_eq!(board.fetch_issues_by_states(&StateSet::default()).await.unwrap(), []);
    assert_eq!(board.fetch_issues_by_ids(&[]).await.unwrap(), IssuesById::default());
    let polled = board.poll(&poll(Some(&[]), &[])).await;
    assert_eq!(polled.candidates.unwrap().unwrap(), Candidates::default());
    assert_eq!(polled.by_id.unwrap(), IssuesById::default());
    assert_eq!((polled.requests, board.requests()), (0, 0));
}

#[tokio::test]
async fn rule_11_1_ids_are_a_set_and_what_is_not_there_is_omitted() {
    let board = board();
    board.add(issue(1, "Todo"));
    board.add(issue(2, "Done"));
    let by_id = board.fetch_issues_by_ids(&ids(&["2", "1", "2", "9"])).await.unwrap();
    assert_eq!(identifiers(&by_id.found), ["MT-1", "MT-2"]);
    assert_eq!(by_id.unreadable, []);
    assert_eq!(board.requests(), 1);
}

#[tokio::test]
async fn rule_11_1_a_poll_brings_both_parts_in_one_request() {
    let board = board();
    for (number, state) in [(1, "Todo"), (2, "In Progress"), (3, "Done")] {
        board.add(issue(number, state));
    }
    let polled = board.poll(&poll(Some(&["Todo"]), &["2", "3"])).await;
    let candidates = polled.candidates.unwrap().unwrap();
    assert_eq!(identifiers(&candidates.issues), ["MT-1"]);
    assert!(!candidates.more);
    assert_eq!(identifiers(&polled.by_id.unwrap().found), ["MT-2", "MT-3"]);
    assert_eq!((polled.requests, board.requests()), (1, 1));
    assert_eq!((polled.next_poll, polled.budget), (None, None));
}

#[tokio::test]
async fn rule_11_1_a_poll_without_candidates_brings_none() {
    let board = board();
    board.add(issue(1, "Todo"));
    let polled = board.poll(&poll(None, &["1"])).await;
    assert!(polled.candidates.is_none());
    assert_eq!(identifiers(&polled.by_id.unwrap().found), ["MT-1"]);
}

#[tokio::test]
async fn rule_11_1_issues_are_read_whether_dispatchable_or_not() {
    let board = board();
    board.add(issue(1, "Todo"));
    board.update("1", |issue| issue.dispatchable = false);
    let found = board.fetch_issues_by_states(&StateSet::new(["Todo"])).await.unwrap();
    assert!(!found[0].dispatchable);
}

pub(crate) fn poll(states: Option<&[&str]>, ids: &[&str]) -> Poll {
    let query = |states: &[&str]| CandidateQuery {
        states: StateSet::new(states.iter().copied()),
        enough: 5,
    };
    let purpose = Purpose::Candidates;
    Poll {
        purpose,
        candidates: states.map(query),
        ids: ids.iter().map(|id| IssueId::from(*id)).collect(),
    }
}
