//! Contract section 6: claims.

use symphony_core::agent::{AgentErrorKind, AgentUpdate, Question};
use symphony_core::orchestrator::{
    BlockReason, Command, Event, Happened, Phase, Removal, RunEnd, RunNews,
};
use symphony_core::run::RunId;
use symphony_core::snapshot::Reason;
use symphony_core::{Issue, WorkspaceKey, WorkspaceRecord};

use crate::desk::{Desk, Draft, NONE, Place, id, issue, record};

fn one_slot() -> Desk {
    Desk::with(|setup| {
        setup.slots(1).turns(1);
    })
}

/// MT-1 was found terminal while it ran, and is being stopped.
fn stopping_for_good() -> Desk {
    let mut desk = one_slot();
    desk.board([issue("MT-2")]);
    desk.works_on([issue("MT-1")]);
    desk.board([issue("MT-1").state("Done")]);
    desk.live(30_000);
    assert_eq!(desk.told(), ["stop MT-1: Terminal"]);
    desk
}

// 6.1

#[test]
fn rule_6_1_an_issue_is_in_exactly_one_place() {
    // The desk checks after every step that no issue is in two.
    let mut desk = one_slot();
    assert_eq!(desk.place("MT-1"), Place::Unclaimed);
    desk.board([issue("MT-1")]);
    desk.answer();
    assert_eq!(desk.place("MT-1"), Place::Checking);
    desk.answer();
    assert_eq!(desk.place("MT-1"), Place::Running);
    desk.run("MT-1").works().fails();
    assert_eq!(desk.place("MT-1"), Place::Waiting);
    desk.advance(10_000);
    assert_eq!(desk.place("MT-1"), Place::Checking);
    desk.answer();
    assert_eq!(desk.place("MT-1"), Place::Running);
    desk.run("MT-1").works().asks("Which door?");
    assert_eq!(desk.place("MT-1"), Place::Blocked);
    desk.command(Command::Retry(id("MT-1")));
    desk.settle();
    desk.run("MT-1").works();
    desk.board([issue("MT-1").state("Done")]);
    desk.live(30_000);
    assert_eq!(desk.place("MT-1"), Place::Stopping);
    desk.run("MT-1").stops();
    assert_eq!(desk.place("MT-1"), Place::Cleaning);
    desk.removed("MT-1");
    assert_eq!(desk.place("MT-1"), Place::Unclaimed);
}

// 6.2

#[test]
fn rule_6_2_a_stopping_run_holds_its_slot_until_it_is_gone() {
    let mut desk = stopping_for_good();
    desk.live(20_000);
    assert_eq!(desk.starts(), NONE);
    desk.run("MT-1").stops();
    desk.settle();
    assert_eq!(desk.starts(), ["MT-2"]);
}

#[test]
fn rule_6_2_cleaning_holds_the_workspace_but_no_slot() {
    let mut desk = stopping_for_good();
    desk.run("MT-1").stops();
    desk.settle();
    assert_eq!(desk.place("MT-1"), Place::Cleaning);
    assert_eq!(desk.starts(), ["MT-2"]);
}

#[test]
fn rule_6_2_nothing_starts_in_a_folder_that_is_being_removed() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.board([issue("MT-1").state("Done")]);
    desk.live(30_000);
    desk.run("MT-1").stops();
    assert_eq!(desk.removals(), ["MT-1"]);
    // The issue is opened again, and another one has the same folder.
    desk.board([issue("MT-1"), issue("MT-2").called("mt-1")]);
    desk.live(300_000);
    assert_eq!(desk.starts(), NONE);
    assert_eq!(desk.reason("MT-1"), Reason::Claimed);
    assert_eq!(desk.reason("MT-2"), Reason::WorkspaceHeld(id("MT-1")));
    desk.removed("MT-1");
    desk.live(30_000);
    assert_eq!(desk.starts().len(), 1);
}

#[test]
fn rule_6_2_a_check_reserves_its_slot() {
    let mut desk = one_slot();
    desk.board([issue("MT-1")]);
    desk.answer();
    assert_eq!(desk.place("MT-1"), Place::Checking);
    desk.board([issue("MT-0").priority(1)]);
    desk.command(Command::PollNow);
    desk.settle();
    assert_eq!(desk.starts().len(), 1);
}

// 6.3

#[test]
fn rule_6_3_a_run_id_is_never_used_again() {
    let mut desk = Desk::with(|setup| setup.restored.boot = 8);
    let mut ids: Vec<RunId> = Vec::new();
    desk.board([issue("MT-1")]);
    desk.settle();
    for _ in 0..5 {
        ids.extend(desk.started().iter().map(|start| start.run));
        desk.run("MT-1").fails();
        desk.live(300_000);
    }
    assert_eq!(ids.len(), 5);
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    assert!(ids.iter().all(|id| id.boot == 8));
}

#[test]
fn rule_6_3_late_news_of_an_old_run_is_dropped() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    let old = desk.run("MT-1").id();
    desk.run("MT-1").fails();
    desk.live(10_000);
    assert_eq!(desk.starts(), ["MT-1 attempt 1"]);
    let before = desk.snapshot();
    let failure = symphony_core::Failure::new(symphony_core::FailureKind::Internal, "late");
    for news in [
        RunNews::TurnEnded,
        RunNews::Agent(AgentUpdate::Alive),
        RunNews::Phase(Phase::Finishing),
        RunNews::WorkspaceGone,
        RunNews::Ended(RunEnd::Failed(failure)),
        RunNews::Ended(RunEnd::Succeeded),
    ] {
        desk.event(Event::Run { run: old, news });
    }
    assert_eq!(desk.snapshot(), before);
    assert_eq!(desk.told(), NONE);
}

#[test]
fn rule_6_3_a_stop_for_retry_becomes_a_release_when_the_issue_is_parked() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.live(300_000);
    assert_eq!(desk.told(), ["stop MT-1: Stalled"]);
    desk.board([issue("MT-1").state("Backlog")]);
    desk.live(30_000);
    desk.run("MT-1").stops();
    assert_eq!(desk.place("MT-1"), Place::Unclaimed);
    assert_eq!(desk.removals(), NONE);
}

#[test]
fn rule_6_3_a_stop_for_release_becomes_cleaning_when_the_issue_is_done() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.board([issue("MT-1").state("Backlog")]);
    desk.live(30_000);
    assert_eq!(desk.told(), ["stop MT-1: NotActive"]);
    desk.board([issue("MT-1").state("Done")]);
    desk.live(30_000);
    desk.run("MT-1").stops();
    assert_eq!(desk.place("MT-1"), Place::Cleaning);
}

#[test]
fn rule_6_3_a_stop_for_release_does_not_fall_back_to_a_retry() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.board([issue("MT-1").state("Backlog")]);
    desk.live(30_000);
    desk.board([issue("MT-1")]);
    desk.live(30_000);
    desk.run("MT-1").stops();
    assert_eq!(desk.place("MT-1"), Place::Unclaimed);
}

#[test]
fn rule_6_3_cleaning_is_skipped_when_a_newer_read_says_not_terminal() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.board([issue("MT-1").state("Done")]);
    desk.live(30_000);
    assert_eq!(desk.told(), ["stop MT-1: Terminal"]);
    desk.board([issue("MT-1")]);
    desk.live(30_000);
    desk.run("MT-1").stops();
    assert_eq!(desk.removals(), NONE);
    assert_eq!(desk.place("MT-1"), Place::Unclaimed);
    desk.live(30_000);
    let again = desk.started();
    assert_eq!(again.len(), 1, "it is worked on again");
    assert_eq!(again[0].record, Some(record("MT-1")), "where it was");
}

#[test]
fn rule_6_3_an_operators_stop_outweighs_a_retry() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.live(300_000);
    assert_eq!(desk.told(), ["stop MT-1: Stalled"]);
    desk.command(Command::Stop(id("MT-1")));
    desk.run("MT-1").stops();
    assert_eq!(desk.blocked("MT-1").why, BlockReason::Operator);
}

#[test]
fn rule_6_3_an_issue_stopped_by_an_operator_is_cleaned_when_it_is_done() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.command(Command::Stop(id("MT-1")));
    desk.board([issue("MT-1").state("Done")]);
    desk.live(30_000);
    desk.run("MT-1").stops();
    assert_eq!(desk.place("MT-1"), Place::Cleaning);
}

#[test]
fn rule_6_3_a_stop_that_outlives_its_bound_is_an_error_and_never_released() {
    let mut desk = stopping_for_good();
    desk.notices();
    // The grace, the hooks' timeout and ten seconds.
    desk.live(74_999);
    assert!(!desk.running("MT-1").stop_overdue);
    desk.live(1);
    assert!(desk.running("MT-1").stop_overdue);
    desk.live(3_600_000);
    let overdue = |what: &&Happened| **what == Happened::StopOverdue;
    assert_eq!(desk.notices().iter().filter(overdue).count(), 1);
    assert_eq!(desk.place("MT-1"), Place::Stopping);
    assert_eq!(desk.starts(), NONE);
    desk.run("MT-1").stops();
    assert_eq!(desk.place("MT-1"), Place::Cleaning);
}

#[test]
fn rule_6_3_a_removal_that_fails_is_tried_three_times_and_left_to_the_sweep() {
    let mut desk = stopping_for_good();
    desk.run("MT-1").stops();
    desk.removal_fails("MT-1");
    assert_eq!(desk.place("MT-1"), Place::Cleaning);
    desk.live(9_999);
    assert_eq!(desk.removals(), NONE);
    desk.live(1);
    desk.removal_fails("MT-1");
    desk.live(19_999);
    assert_eq!(desk.removals(), NONE);
    desk.live(1);
    desk.removal_fails("MT-1");
    assert_eq!(desk.place("MT-1"), Place::Unclaimed);
    desk.live(3_600_000);
    assert_eq!(desk.removals(), ["MT-1"], "the sweep finds it");
}

// 6.4

#[test]
fn rule_6_4_phases_are_visible() {
    let mut desk = Desk::new();
    desk.board([issue("MT-1")]);
    desk.settle();
    assert_eq!(desk.running("MT-1").phase, Phase::PreparingWorkspace);
    for phase in [
        Phase::BuildingPrompt,
        Phase::LaunchingAgent,
        Phase::InitializingSession,
        Phase::StreamingTurn,
        Phase::Finishing,
    ] {
        desk.run("MT-1").enters(phase);
        assert_eq!(desk.running("MT-1").phase, phase);
    }
}

/// Where MT-1 is after its run ended like this, and how long it waits there.
fn after(end: RunEnd) -> (Place, Option<u64>) {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.run("MT-1").ends(end);
    let place = desk.place("MT-1");
    let wait = (place == Place::Waiting).then(|| desk.wait_of("MT-1"));
    (place, wait.flatten())
}

#[test]
fn rule_6_4_a_failed_or_timed_out_run_is_retried() {
    for kind in [AgentErrorKind::TurnFailed, AgentErrorKind::TurnTimeout] {
        let kind = symphony_core::FailureKind::Agent(kind);
        let failure = symphony_core::Failure::new(kind, "no");
        assert_eq!(after(RunEnd::Failed(failure)), (Place::Waiting, Some(10_000)));
    }
}

#[test]
fn rule_6_4_a_run_that_asks_for_input_is_blocked() {
    let question = Question::text("q-1", "Which door?");
    assert_eq!(after(RunEnd::InputRequired { question }), (Place::Blocked, None));
}

#[test]
fn rule_6_4_each_end_is_counted_as_what_it_was() {
    let mut desk = Desk::with(|setup| {
        setup.turns(1);
    });
    desk.works_on(["MT-1", "MT-2", "MT-3", "MT-4", "MT-5"].map(issue));
    desk.ends_normally("MT-1");
    desk.run("MT-2").fails();
    desk.run("MT-3").asks("Which door?");
    desk.command(Command::Stop(id("MT-4")));
    desk.run("MT-4").stops();
    desk.command(Command::Stop(id("MT-1")));
    desk.live(300_000);
    desk.run("MT-5").stops();
    let totals = desk.snapshot().totals;
    let ends = [totals.out_of_turns, totals.failed, totals.cancelled, totals.input_required];
    assert_eq!(ends, [1, 2, 1, 1], "a stall is a failure");
}

// 6.5

fn renamed() -> Issue {
    issue("MT-1").called("NEW-9")
}

#[test]
fn rule_6_5_a_renamed_issue_keeps_its_workspace() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.run("MT-1").fails();
    desk.board([renamed()]);
    desk.live(10_000);
    let start = desk.started().remove(0);
    assert_eq!(start.key, WorkspaceKey::derive("MT-1").unwrap());
    assert_eq!(start.record, Some(record("MT-1")));
}

#[test]
fn rule_6_5_also_across_a_restart_and_until_it_is_removed() {
    let mut desk = Desk::with(|setup| {
        setup.left_behind(record("MT-1")).turns(1);
    });
    desk.works_on([renamed()]);
    assert_eq!(desk.running("MT-1").key, record("MT-1").key);
    desk.board([renamed().state("Done")]);
    desk.ends_normally("MT-1");
    assert_eq!(desk.removal("MT-1"), Removal::Recorded(record("MT-1")));
}

#[test]
fn rule_6_5_the_key_of_a_record_is_held_also_when_nobody_works_there() {
    let mut desk = Desk::with(|setup| {
        setup.left_behind(record("MT-1"));
    });
    desk.board([renamed().state("Backlog"), issue("MT-2").called("MT-1")]);
    desk.settle();
    assert_eq!(desk.starts(), NONE);
    assert_eq!(desk.reason("MT-2"), Reason::WorkspaceHeld(id("MT-1")));
}

#[test]
fn rule_6_5_a_workspace_taken_back_leaves_no_record() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    let run = desk.run("MT-1").id();
    desk.event(Event::Run { run, news: RunNews::WorkspaceGone });
    desk.run("MT-1").fails();
    desk.board([renamed()]);
    desk.live(10_000);
    let start = desk.started().remove(0);
    assert_eq!(start.record, None);
    assert_eq!(start.key, WorkspaceKey::derive("NEW-9").unwrap());
}

/// A record of an issue that has the id and the name of MT-1, but is on another board.
fn on_another_board() -> Desk {
    Desk::with(|setup| {
        setup.left_behind(WorkspaceRecord { scope: "another board".into(), ..record("MT-1") });
    })
}

#[test]
fn rule_6_5_the_record_of_a_namesake_on_another_board_is_not_the_issues_own() {
    let mut desk = on_another_board();
    desk.board([renamed()]);
    desk.settle();
    let start = desk.started().remove(0);
    assert_eq!(start.record, None);
    assert_eq!(start.key, WorkspaceKey::derive("NEW-9").unwrap());
}

#[test]
fn rule_6_2_nothing_starts_in_the_folder_of_a_namesake_on_another_board() {
    let mut desk = on_another_board();
    desk.board([issue("MT-1")]);
    desk.settle();
    assert_eq!(desk.starts(), NONE);
    assert_eq!(desk.reason("MT-1"), Reason::WorkspaceHeld(id("MT-1")));
}

#[test]
fn rule_6_2_a_folder_that_two_records_name_is_held_until_both_are_gone() {
    let mut desk = Desk::with(|setup| {
        let other = WorkspaceRecord { issue: id("MT-2"), host: "far".into(), ..record("MT-1") };
        setup.left_behind(record("MT-1")).left_behind(other);
    });
    desk.board([issue("MT-1").state("Done"), issue("MT-2").state("Backlog")]);
    desk.settle();
    desk.removed("MT-1");
    desk.board([issue("MT-3").called("MT-1")]);
    desk.live(30_000);
    assert_eq!(desk.starts(), NONE);
    assert_eq!(desk.reason("MT-3"), Reason::WorkspaceHeld(id("MT-2")));
}

#[test]
fn rule_10_6_a_retried_question_goes_on_with_its_conversation() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    let thread = desk.run("MT-1").thread();
    desk.run("MT-1").asks("Which door?");
    desk.settle();
    desk.command(Command::Retry(id("MT-1")));
    desk.settle();
    let start = desk.started().pop().expect("a start");
    assert_eq!((start.resume, start.unanswered), (Some(thread), true));
    desk.run("MT-1").works().fails();
    desk.live(20_000);
    let start = desk.started().pop().expect("a start");
    assert_eq!((start.resume, start.unanswered), (None, false), "said once");
}

#[test]
fn rule_10_3_an_operators_stop_begins_a_new_conversation() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.run("MT-1").asks("Which door?");
    desk.settle();
    desk.command(Command::Stop(id("MT-1")));
    desk.command(Command::Retry(id("MT-1")));
    desk.settle();
    let start = desk.started().pop().expect("a start");
    assert_eq!((start.resume, start.unanswered), (None, false));
}
