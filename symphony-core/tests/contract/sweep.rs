//! Contract 4.2: the sweep.

use symphony_core::orchestrator::{Happened, Removal, Workspaces};
use symphony_core::tracker::{Purpose, TrackerErrorKind};
use symphony_core::{Failure, FailureKind, Scope, WorkspaceKey};

use crate::desk::{Desk, Draft, NONE, Place, issue, record};

fn unreachable() -> Failure {
    let kind = FailureKind::Tracker(TrackerErrorKind::Request);
    Failure::new(kind, "connection refused")
}

#[test]
fn rule_4_2_at_start_the_workspaces_of_terminal_issues_are_removed() {
    let mut desk = Desk::with(|setup| {
        setup.left_behind(record("MT-1")).left_behind(record("MT-2"));
    });
    assert_eq!(desk.reads(), ["poll with MT-1 MT-2"]);
    desk.board([issue("MT-1").state("Done"), issue("MT-2").state("Backlog")]);
    desk.answer();
    assert_eq!(desk.removals(), ["MT-1"]);
    assert_eq!(desk.removal("MT-1"), Removal::Recorded(record("MT-1")));
    desk.removed("MT-1");
    assert_eq!(desk.place("MT-1"), Place::Unclaimed);
}

#[test]
fn rule_4_2_a_workspace_of_an_issue_that_is_gone_is_left_alone() {
    let mut desk = Desk::with(|setup| {
        setup.left_behind(record("MT-1"));
    });
    desk.settle();
    assert_eq!(desk.removals(), NONE);
}

#[test]
fn rule_4_2_the_sweep_comes_back_every_hour() {
    let mut desk = Desk::with(|setup| {
        setup.left_behind(record("MT-1"));
    });
    desk.board([issue("MT-1").state("Backlog")]);
    desk.settle();
    desk.asked();
    // A tenth of the hour early at most: it travels with a poll.
    desk.live(3_200_000);
    assert!(desk.asked().iter().all(|read| read == "poll"));
    desk.board([issue("MT-1").state("Done")]);
    desk.live(400_000);
    assert!(desk.asked().contains(&"poll with MT-1".to_owned()));
    assert_eq!(desk.removals(), ["MT-1"]);
}

#[test]
fn rule_4_2_a_workspace_once_removed_is_not_read_again() {
    let mut desk = Desk::with(|setup| {
        setup.left_behind(record("MT-1"));
    });
    desk.board([issue("MT-1").state("Done")]);
    desk.settle();
    desk.removed("MT-1");
    desk.asked();
    desk.live(7_200_000);
    assert!(desk.asked().iter().all(|read| read == "poll"));
}

#[test]
fn rule_4_2_a_record_of_another_tracker_scope_is_not_read() {
    let mut foreign = record("MT-1");
    foreign.scope = Scope::from("another board");
    let desk = Desk::with(|setup| {
        setup.left_behind(foreign);
    });
    assert_eq!(desk.reads(), ["poll"]);
}

#[test]
fn rule_4_2_folders_without_a_record_are_matched_once_with_the_terminal_issues() {
    let mut desk = Desk::with(|setup| {
        setup.stray("MT-1").stray("notes");
    });
    assert_eq!(desk.reads(), ["poll", "states Done Cancelled"]);
    desk.board([issue("MT-1").state("Done"), issue("MT-2").state("Done")]);
    desk.settle();
    assert_eq!(desk.removals(), ["MT-1"]);
    let key = |name| WorkspaceKey::parse(name).unwrap();
    assert_eq!(desk.removal("MT-1"), Removal::Stray(key("MT-1")));
    let left = Happened::StraysLeft { keys: vec![key("notes")] };
    assert!(desk.notices().contains(&left));
    desk.removed("MT-1");
    desk.asked();
    desk.live(7_200_000);
    assert!(desk.asked().iter().all(|read| read == "poll"));
}

#[test]
fn rule_4_2_without_such_folders_closed_issues_are_never_listed() {
    let mut desk = Desk::with(|setup| {
        setup.left_behind(record("MT-1"));
    });
    desk.board([issue("MT-1"), issue("MT-2").state("Done")]);
    desk.live(7_200_000);
    assert!(!desk.asked().iter().any(|read| read.starts_with("states")));
}

#[test]
fn rule_4_2_a_failed_sweep_is_a_warning() {
    let mut desk = Desk::with(|setup| {
        setup.left_behind(record("MT-1")).stray("MT-2");
    });
    desk.board([issue("MT-3")]);
    let (failure, copy) = (unreachable(), unreachable());
    let reads = desk.reads();
    assert_eq!(reads, ["poll with MT-1", "states Done Cancelled"]);
    desk.answer_to_but("poll with MT-1", |answer| answer.by_id = Some(Err(copy)));
    let copy = failure.clone();
    desk.answer_to_but("states Done Cancelled", |answer| {
        answer.candidates = Some(Err(copy));
    });
    let warning = Happened::ReadFailed { purpose: Purpose::Sweep, failure };
    assert!(desk.notices().contains(&warning));
    assert_eq!(desk.removals(), NONE);
    desk.settle();
    assert_eq!(desk.starts(), ["MT-3"]);
}

#[test]
fn rule_4_2_a_folder_whose_record_was_lost_meanwhile_is_removed_once() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    let key = WorkspaceKey::derive("MT-1").unwrap();
    desk.reloads_root("/symphony", Workspaces { records: vec![], strays: vec![key] });
    desk.board([issue("MT-1").state("Done")]);
    desk.live(30_000);
    desk.run("MT-1").stops();
    assert_eq!(desk.removals(), ["MT-1"]);
    desk.removed("MT-1");
    desk.live(7_200_000);
    assert_eq!(desk.removals(), NONE);
}

#[test]
fn rule_4_2_a_removal_that_ends_under_another_tracker_counts_for_its_own() {
    let mut desk = Desk::with(|setup| {
        setup.left_behind(record("MT-1"));
    });
    let scope = desk.scope();
    desk.board([issue("MT-1").state("Done")]);
    desk.settle();
    desk.reloads_tracker("elsewhere");
    desk.removed("MT-1");
    desk.reloads_tracker(&scope);
    desk.live(7_200_000);
    assert_eq!(desk.removals(), NONE, "the folder is gone, and is not removed again");
}

#[test]
fn rule_4_2_a_folder_without_a_record_is_not_looked_for_under_another_root() {
    let mut desk = Desk::with(|setup| {
        setup.stray("MT-1");
    });
    desk.board([issue("MT-1").state("Done")]);
    desk.settle();
    desk.removal_fails("MT-1");
    desk.reloads_root("/elsewhere", Workspaces::default());
    desk.advance(10_000);
    assert_eq!(desk.removals(), NONE, "there the same name is another folder");
    assert_eq!(desk.place("MT-1"), Place::Unclaimed);
}
