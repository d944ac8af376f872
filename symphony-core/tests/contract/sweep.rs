//! Contract 4.2: the sweep.

use symphony_core::orchestrator::{NoticeKind, Removal, Workspaces};
use symphony_core::tracker::{Purpose, TrackerErrorKind};
use symphony_core::{Failure, FailureKind, Scope, WorkspaceKey};

use crate::harness::{Draft, Harness, NONE, Stage, issue, record};

fn unreachable() -> Failure {
    let kind = FailureKind::Tracker(TrackerErrorKind::Request);
    Failure::new(kind, "connection refused")
}

#[test]
fn rule_4_2_at_start_the_workspaces_of_terminal_issues_are_removed() {
    let mut harness = Harness::with(|setup| {
        setup.left_behind(record("MT-1")).left_behind(record("MT-2"));
    });
    assert_eq!(harness.reads(), ["poll with MT-1 MT-2"]);
    harness.board([issue("MT-1").state("Done"), issue("MT-2").state("Backlog")]);
    harness.answer();
    assert_eq!(harness.removals(), ["MT-1"]);
    assert_eq!(harness.removal("MT-1"), Removal::Recorded(record("MT-1")));
    harness.removed("MT-1");
    assert_eq!(harness.stage("MT-1"), Stage::Unclaimed);
}

#[test]
fn rule_4_2_a_workspace_of_an_issue_that_is_gone_is_left_alone() {
    let mut harness = Harness::with(|setup| {
        setup.left_behind(record("MT-1"));
    });
    harness.settle();
    assert_eq!(harness.removals(), NONE);
}

#[test]
fn rule_4_2_the_sweep_comes_back_every_hour() {
    let mut harness = Harness::with(|setup| {
        setup.left_behind(record("MT-1"));
    });
    harness.board([issue("MT-1").state("Backlog")]);
    harness.settle();
    harness.asked();
    // A tenth of the hour early at most: it travels with a poll.
    harness.live(3_200_000);
    assert!(harness.asked().iter().all(|read| read == "poll"));
    harness.board([issue("MT-1").state("Done")]);
    harness.live(400_000);
    assert!(harness.asked().contains(&"poll with MT-1".to_owned()));
    assert_eq!(harness.removals(), ["MT-1"]);
}

#[test]
fn rule_4_2_a_workspace_once_removed_is_not_read_again() {
    let mut harness = Harness::with(|setup| {
        setup.left_behind(record("MT-1"));
    });
    harness.board([issue("MT-1").state("Done")]);
    harness.settle();
    harness.removed("MT-1");
    harness.asked();
    harness.live(7_200_000);
    assert!(harness.asked().iter().all(|read| read == "poll"));
}

#[test]
fn rule_4_2_a_record_of_another_tracker_scope_is_not_read() {
    let mut foreign = record("MT-1");
    foreign.scope = Scope::from("another board");
    let harness = Harness::with(|setup| {
        setup.left_behind(foreign);
    });
    assert_eq!(harness.reads(), ["poll"]);
}

#[test]
fn rule_4_2_folders_without_a_record_are_matched_once_with_the_terminal_issues() {
    let mut harness = Harness::with(|setup| {
        setup.stray("MT-1").stray("notes");
    });
    assert_eq!(harness.reads(), ["poll", "states Done Cancelled"]);
    harness.board([issue("MT-1").state("Done"), issue("MT-2").state("Done")]);
    harness.settle();
    assert_eq!(harness.removals(), ["MT-1"]);
    let key = |name| WorkspaceKey::parse(name).unwrap();
    assert_eq!(harness.removal("MT-1"), Removal::Stray(key("MT-1")));
    let left = NoticeKind::StraysLeft { keys: vec![key("notes")] };
    assert!(harness.notices().contains(&left));
    harness.removed("MT-1");
    harness.asked();
    harness.live(7_200_000);
    assert!(harness.asked().iter().all(|read| read == "poll"));
}

#[test]
fn rule_4_2_without_such_folders_closed_issues_are_never_listed() {
    let mut harness = Harness::with(|setup| {
        setup.left_behind(record("MT-1"));
    });
    harness.board([issue("MT-1"), issue("MT-2").state("Done")]);
    harness.live(7_200_000);
    assert!(!harness.asked().iter().any(|read| read.starts_with("states")));
}

#[test]
fn rule_4_2_a_failed_sweep_is_a_warning() {
    let mut harness = Harness::with(|setup| {
        setup.left_behind(record("MT-1")).stray("MT-2");
    });
    harness.board([issue("MT-3")]);
    let (failure, copy) = (unreachable(), unreachable());
    let reads = harness.reads();
    assert_eq!(reads, ["poll with MT-1", "states Done Cancelled"]);
    harness.answer_to_but("poll with MT-1", |answer| answer.by_id = Some(Err(copy)));
    let copy = failure.clone();
    harness.answer_to_but("states Done Cancelled", |answer| {
        answer.candidates = Some(Err(copy));
    });
    let warning = NoticeKind::ReadFailed { purpose: Purpose::Sweep, failure };
    assert!(harness.notices().contains(&warning));
    assert_eq!(harness.removals(), NONE);
    harness.settle();
    assert_eq!(harness.starts(), ["MT-3"]);
}

#[test]
fn rule_4_2_a_folder_whose_record_was_lost_meanwhile_is_removed_once() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    let key = WorkspaceKey::derive("MT-1").unwrap();
    harness.reloads_root("/symphony", Workspaces { records: vec![], strays: vec![key] });
    harness.board([issue("MT-1").state("Done")]);
    harness.live(30_000);
    harness.run("MT-1").stops();
    assert_eq!(harness.removals(), ["MT-1"]);
    harness.removed("MT-1");
    harness.live(7_200_000);
    assert_eq!(harness.removals(), NONE);
}

#[test]
fn rule_4_2_a_removal_that_ends_under_another_tracker_counts_for_its_own() {
    let mut harness = Harness::with(|setup| {
        setup.left_behind(record("MT-1"));
    });
    let scope = harness.scope();
    harness.board([issue("MT-1").state("Done")]);
    harness.settle();
    harness.reloads_tracker("elsewhere");
    harness.removed("MT-1");
    harness.reloads_tracker(&scope);
    harness.live(7_200_000);
    assert_eq!(harness.removals(), NONE, "the folder is gone, and is not removed again");
}

#[test]
fn rule_4_2_a_folder_without_a_record_is_not_looked_for_under_another_root() {
    let mut harness = Harness::with(|setup| {
        setup.stray("MT-1");
    });
    harness.board([issue("MT-1").state("Done")]);
    harness.settle();
    harness.removal_fails("MT-1");
    harness.reloads_root("/elsewhere", Workspaces::default());
    harness.advance(10_000);
    assert_eq!(harness.removals(), NONE, "there the same name is another folder");
    assert_eq!(harness.stage("MT-1"), Stage::Unclaimed);
}
