//! The board through its Rust API.

use symphony_core::tracker::{IssuesById, TrackerExt, Unreadable};
use symphony_core::{Blocker, Issue, Label, StateKind, StateSet};
use symphony_memory::{MemoryBoard, MemoryTracker};

use super::{at, board, clock, identifiers, ids, issue};

#[tokio::test]
async fn rule_11_5_an_issue_added_in_rust_is_read_as_it_was_added() {
    let board = board();
    let mut added = issue(1, "Todo");
    added.priority = Some(2);
    added.labels = Label::list(["Bug"]);
    added.description = Some("It squeaks".to_owned());
    added.url = Some("https://example.com/1".to_owned());
    added.created_at = Some(at(-5));
    added.updated_at = Some(at(-3));
    board.add(added.clone());
    assert_eq!(board.issues(), [added.clone()]);
    let by_id = board.fetch_issues_by_ids(&ids(&["1"])).await.unwrap();
    assert_eq!(by_id, IssuesById { found: vec![added], unreadable: vec![] });
}

#[test]
fn rule_11_5_updated_at_moves_on_every_change_and_only_then() {
    let board = board();
    board.add(issue(1, "Todo"));
    let updated_at = || board.issue("1").unwrap().updated_at;
    assert_eq!(updated_at(), Some(at(0)));
    assert!(board.set_state("1", "In Progress"));
    assert_eq!(updated_at(), Some(at(1)), "the clock stands still, the issue does not");
    assert!(board.update("1", |issue| issue.title.push('!')));
    assert_eq!(updated_at(), Some(at(2)));
    assert!(board.set_state("1", "In Progress"));
    assert_eq!(updated_at(), Some(at(2)), "nothing changed");
    assert!(board.set_state("1", "in progress"));
    assert_eq!(updated_at(), Some(at(3)), "another spelling is a change");
    assert!(board.update("1", |issue| issue.updated_at = Some(at(99))));
    assert_eq!(updated_at(), Some(at(99)), "whoever sets it has the say");
    assert!(board.update("1", |issue| issue.updated_at = None));
    assert_eq!(updated_at(), Some(at(100)), "but it never goes back");
}

#[test]
fn rule_11_5_an_issue_that_is_not_there_cannot_be_changed() {
    let board = board();
    assert!(!board.set_state("1", "Done"));
    assert_eq!(board.remove("1"), None);
    assert_eq!(board.issues(), []);
}

#[test]
fn rule_1_1_an_id_is_for_life() {
    let board = board();
    board.add(issue(1, "Todo"));
    board.update("1", |issue| {
        issue.id = "2".into();
        issue.identifier = "NEW-1".into();
    });
    assert_eq!(identifiers(&board.issues()), ["NEW-1"]);
    assert_eq!(board.issue("2"), None);
}

#[test]
fn rule_1_1_blockers_show_how_they_stand_at_each_read() {
    let board = board();
    board.add(issue(1, "Todo"));
    board.add(with_blockers(issue(2, "Todo"), &[by_identifier("MT-1"), by_identifier("XX-9")]));
    let blockers = || board.issue("2").unwrap().blocked_by;
    let mt_1 = |state: &str, state_kind| Blocker {
        id: Some("1".into()),
        identifier: Some("MT-1".into()),
        state: Some(state.into()),
        state_kind,
    };
    assert_eq!(blockers(), [mt_1("Todo", None), by_identifier("XX-9")]);
    board.update("1", |issue| {
        issue.state = "Done".into();
        issue.state_kind = Some(StateKind::Completed);
    });
    assert_eq!(blockers(), [mt_1("Done", Some(StateKind::Completed)), by_identifier("XX-9")]);
    board.spoil("1", "torn");
    assert_eq!(blockers(), [by_identifier("MT-1"), by_identifier("XX-9")], "not known for now");
    board.mend("1");
    board.remove("1");
    assert_eq!(blockers(), [by_identifier("MT-1"), by_identifier("XX-9")]);
}

#[test]
fn rule_1_1_a_blocker_is_found_by_its_id_too() {
    let board = board();
    board.add(issue(1, "Done"));
    let by_id = Blocker { id: Some("1".into()), ..Blocker::default() };
    board.add(with_blockers(issue(2, "Todo"), &[by_id]));
    assert_eq!(board.issue("2").unwrap().blocked_by[0].state, Some("done".into()));
}

#[test]
fn rule_1_1_a_new_state_does_not_keep_the_kind_of_the_old() {
    let board = board();
    let mut added = issue(1, "Todo");
    added.state_kind = Some(StateKind::Unstarted);
    board.add(added);
    board.set_state("1", "Done");
    assert_eq!(board.issue("1").unwrap().state_kind, None);
}

#[tokio::test]
async fn rule_1_2_states_compare_without_case_and_come_back_as_spelled() {
    let board = board();
    board.add(issue(1, "In Progress"));
    let found = board.fetch_issues_by_states(&StateSet::new([" IN progress "])).await.unwrap();
    assert_eq!(identifiers(&found), ["MT-1"]);
    assert_eq!(found[0].state.as_str(), "In Progress");
}

#[tokio::test]
async fn rule_1_3_a_malformed_record_is_dropped_from_lists_and_unreadable_by_id() {
    let board = board();
    board.add(issue(1, "Todo"));
    board.add(issue(2, "Todo"));
    board.add(issue(3, "Todo"));
    board.spoil("1", "torn");
    board.update("2", |issue| issue.title = "  ".to_owned());
    let list = board.fetch_issues_by_states(&StateSet::new(["Todo"])).await.unwrap();
    assert_eq!(identifiers(&list), ["MT-3"]);
    let by_id = board.fetch_issues_by_ids(&ids(&["1", "2", "3"])).await.unwrap();
    assert_eq!(identifiers(&by_id.found), ["MT-3"]);
    let unreadable =
        |id: &str, message: &str| Unreadable { id: id.into(), message: message.to_owned() };
    let expected =
        [unreadable("1", "torn"), unreadable("2", "lacks id, identifier, title or state")];
    assert_eq!(by_id.unreadable, expected);
    board.mend("1");
    assert_eq!(identifiers(&board.issues()), ["MT-1", "MT-3"]);
}

#[tokio::test]
async fn two_ids_may_claim_one_identifier() {
    let board = board();
    board.add(Issue::new("1", "MT-1", "One", "Todo").unwrap());
    board.add(Issue::new("2", "MT-1", "Other", "Done").unwrap());
    board.add(with_blockers(issue(3, "Todo"), &[by_identifier("MT-1")]));
    assert_eq!(identifiers(&board.issues()), ["MT-1", "MT-1", "MT-3"]);
    assert_eq!(board.issue("3").unwrap().blocked_by[0].id, Some("1".into()));
    board.remove("1");
    assert_eq!(board.issue("3").unwrap().blocked_by[0].id, Some("2".into()));
}

#[tokio::test]
async fn rule_11_5_a_change_wakes_its_waiters() {
    let board = board();
    board.add(issue(1, "Todo"));
    let all_done = |board: &MemoryBoard| board.issues().all(|issue| issue.state == "done".into());
    let mut waiting = tokio::spawn({
        let board = board.clone();
        async move { board.wait_until(all_done).await }
    });
    tokio::task::yield_now().await;
    board.set_state("1", "In Progress");
    tokio::select! {
        biased;
        _ = &mut waiting => panic!("it is not done yet"),
        () = std::future::ready(()) => {}
    }
    board.set_state("1", "Done");
    waiting.await.unwrap();
    assert!(board.subscribe().borrow().is_in("1", "done"));
}

#[test]
fn the_default_clock_is_the_machines() {
    let board = MemoryTracker::new();
    board.add(issue(1, "Todo"));
    assert!(board.issue("1").unwrap().updated_at > Some(at(0)));
    assert_eq!(clock().now(), at(0));
}

fn by_identifier(identifier: &str) -> Blocker {
    Blocker { identifier: Some(identifier.into()), ..Blocker::default() }
}

fn with_blockers(mut issue: Issue, blockers: &[Blocker]) -> Issue {
    issue.blocked_by = blockers.to_vec();
    issue
}
