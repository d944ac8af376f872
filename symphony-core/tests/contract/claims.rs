//! Contract section 6: claims.

use symphony_core::agent::{AgentErrorKind, AgentUpdate, Question};
use symphony_core::orchestrator::{
    BlockReason, Command, Event, NoticeKind, Phase, Removal, RunEnd, RunEvent,
};
use symphony_core::run::RunId;
use symphony_core::snapshot::Reason;
use symphony_core::{Issue, WorkspaceKey, WorkspaceRecord};

use crate::harness::{Draft, Harness, NONE, Stage, id, issue, record};

fn one_slot() -> Harness {
    Harness::with(|setup| {
        setup.slots(1).turns(1);
    })
}

/// MT-1 was found terminal while it ran, and is being stopped.
fn stopping_for_good() -> Harness {
    let mut harness = one_slot();
    harness.board([issue("MT-2")]);
    harness.works_on([issue("MT-1")]);
    harness.board([issue("MT-1").state("Done")]);
    harness.live(30_000);
    assert_eq!(harness.told(), ["stop MT-1: Terminal"]);
    harness
}

// 6.1

#[test]
fn rule_6_1_an_issue_is_in_exactly_one_place() {
    // The harness checks after every step that no issue is in two.
    let mut harness = one_slot();
    assert_eq!(harness.stage("MT-1"), Stage::Unclaimed);
    harness.board([issue("MT-1")]);
    harness.answer();
    assert_eq!(harness.stage("MT-1"), Stage::Checking);
    harness.answer();
    assert_eq!(harness.stage("MT-1"), Stage::Running);
    harness.run("MT-1").works().fails();
    assert_eq!(harness.stage("MT-1"), Stage::Waiting);
    harness.advance(10_000);
    assert_eq!(harness.stage("MT-1"), Stage::Checking);
    harness.answer();
    assert_eq!(harness.stage("MT-1"), Stage::Running);
    harness.run("MT-1").works().asks("Which door?");
    assert_eq!(harness.stage("MT-1"), Stage::Blocked);
    harness.command(Command::Retry(id("MT-1")));
    harness.settle();
    harness.run("MT-1").works();
    harness.board([issue("MT-1").state("Done")]);
    harness.live(30_000);
    assert_eq!(harness.stage("MT-1"), Stage::Stopping);
    harness.run("MT-1").stops();
    assert_eq!(harness.stage("MT-1"), Stage::Cleaning);
    harness.removed("MT-1");
    assert_eq!(harness.stage("MT-1"), Stage::Unclaimed);
}

// 6.2

#[test]
fn rule_6_2_a_stopping_run_holds_its_slot_until_it_is_gone() {
    let mut harness = stopping_for_good();
    harness.live(20_000);
    assert_eq!(harness.starts(), NONE);
    harness.run("MT-1").stops();
    harness.settle();
    assert_eq!(harness.starts(), ["MT-2"]);
}

#[test]
fn rule_6_2_cleaning_holds_the_workspace_but_no_slot() {
    let mut harness = stopping_for_good();
    harness.run("MT-1").stops();
    harness.settle();
    assert_eq!(harness.stage("MT-1"), Stage::Cleaning);
    assert_eq!(harness.starts(), ["MT-2"]);
}

#[test]
fn rule_6_2_nothing_starts_in_a_folder_that_is_being_removed() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.board([issue("MT-1").state("Done")]);
    harness.live(30_000);
    harness.run("MT-1").stops();
    assert_eq!(harness.removals(), ["MT-1"]);
    // The issue is opened again, and another one has the same folder.
    harness.board([issue("MT-1"), issue("MT-2").called("mt-1")]);
    harness.live(300_000);
    assert_eq!(harness.starts(), NONE);
    assert_eq!(harness.reason("MT-1"), Reason::Claimed);
    assert_eq!(harness.reason("MT-2"), Reason::WorkspaceHeld(id("MT-1")));
    harness.removed("MT-1");
    harness.live(30_000);
    assert_eq!(harness.starts().len(), 1);
}

#[test]
fn rule_6_2_a_check_reserves_its_slot() {
    let mut harness = one_slot();
    harness.board([issue("MT-1")]);
    harness.answer();
    assert_eq!(harness.stage("MT-1"), Stage::Checking);
    harness.board([issue("MT-0").priority(1)]);
    harness.command(Command::PollNow);
    harness.settle();
    assert_eq!(harness.starts().len(), 1);
}

// 6.3

#[test]
fn rule_6_3_a_run_id_is_never_used_again() {
    let mut harness = Harness::with(|setup| setup.restored.boot = 8);
    let mut ids: Vec<RunId> = Vec::new();
    harness.board([issue("MT-1")]);
    harness.settle();
    for _ in 0..5 {
        ids.extend(harness.started().iter().map(|start| start.run));
        harness.run("MT-1").fails();
        harness.live(300_000);
    }
    assert_eq!(ids.len(), 5);
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    assert!(ids.iter().all(|id| id.boot == 8));
}

#[test]
fn rule_6_3_late_news_of_an_old_run_is_dropped() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    let old = harness.run("MT-1").id();
    harness.run("MT-1").fails();
    harness.live(10_000);
    assert_eq!(harness.starts(), ["MT-1 attempt 1"]);
    let before = harness.snapshot();
    let failure = symphony_core::Failure::new(symphony_core::FailureKind::Internal, "late");
    for news in [
        RunEvent::TurnEnded,
        RunEvent::Agent(AgentUpdate::Alive),
        RunEvent::Phase(Phase::Finishing),
        RunEvent::WorkspaceGone,
        RunEvent::Ended(RunEnd::Failed(failure)),
        RunEvent::Ended(RunEnd::Succeeded),
    ] {
        harness.event(Event::Run { run: old, news });
    }
    assert_eq!(harness.snapshot(), before);
    assert_eq!(harness.told(), NONE);
}

#[test]
fn rule_6_3_a_stop_for_retry_becomes_a_release_when_the_issue_is_parked() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.live(300_000);
    assert_eq!(harness.told(), ["stop MT-1: Stalled"]);
    harness.board([issue("MT-1").state("Backlog")]);
    harness.live(30_000);
    harness.run("MT-1").stops();
    assert_eq!(harness.stage("MT-1"), Stage::Unclaimed);
    assert_eq!(harness.removals(), NONE);
}

#[test]
fn rule_6_3_a_stop_for_release_becomes_cleaning_when_the_issue_is_done() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.board([issue("MT-1").state("Backlog")]);
    harness.live(30_000);
    assert_eq!(harness.told(), ["stop MT-1: NotActive"]);
    harness.board([issue("MT-1").state("Done")]);
    harness.live(30_000);
    harness.run("MT-1").stops();
    assert_eq!(harness.stage("MT-1"), Stage::Cleaning);
}

#[test]
fn rule_6_3_a_stop_for_release_does_not_fall_back_to_a_retry() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.board([issue("MT-1").state("Backlog")]);
    harness.live(30_000);
    harness.board([issue("MT-1")]);
    harness.live(30_000);
    harness.run("MT-1").stops();
    assert_eq!(harness.stage("MT-1"), Stage::Unclaimed);
}

#[test]
fn rule_6_3_cleaning_is_skipped_when_a_newer_read_says_not_terminal() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.board([issue("MT-1").state("Done")]);
    harness.live(30_000);
    assert_eq!(harness.told(), ["stop MT-1: Terminal"]);
    harness.board([issue("MT-1")]);
    harness.live(30_000);
    harness.run("MT-1").stops();
    assert_eq!(harness.removals(), NONE);
    assert_eq!(harness.stage("MT-1"), Stage::Unclaimed);
    harness.live(30_000);
    let again = harness.started();
    assert_eq!(again.len(), 1, "it is worked on again");
    assert_eq!(again[0].record, Some(record("MT-1")), "where it was");
}

#[test]
fn rule_6_3_an_operators_stop_outweighs_a_retry() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.live(300_000);
    assert_eq!(harness.told(), ["stop MT-1: Stalled"]);
    harness.command(Command::Stop(id("MT-1")));
    harness.run("MT-1").stops();
    assert_eq!(harness.blocked("MT-1").why, BlockReason::Operator);
}

#[test]
fn rule_6_3_an_issue_stopped_by_an_operator_is_cleaned_when_it_is_done() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.command(Command::Stop(id("MT-1")));
    harness.board([issue("MT-1").state("Done")]);
    harness.live(30_000);
    harness.run("MT-1").stops();
    assert_eq!(harness.stage("MT-1"), Stage::Cleaning);
}

#[test]
fn rule_6_3_a_stop_that_outlives_its_bound_is_an_error_and_never_released() {
    let mut harness = stopping_for_good();
    harness.notices();
    // The grace, the hooks' timeout and ten seconds.
    harness.live(74_999);
    assert!(!harness.running("MT-1").stop_overdue);
    harness.live(1);
    assert!(harness.running("MT-1").stop_overdue);
    harness.live(3_600_000);
    let overdue = |what: &&NoticeKind| **what == NoticeKind::StopOverdue;
    assert_eq!(harness.notices().iter().filter(overdue).count(), 1);
    assert_eq!(harness.stage("MT-1"), Stage::Stopping);
    assert_eq!(harness.starts(), NONE);
    harness.run("MT-1").stops();
    assert_eq!(harness.stage("MT-1"), Stage::Cleaning);
}

#[test]
fn rule_6_3_a_removal_that_fails_is_tried_three_times_and_left_to_the_sweep() {
    let mut harness = stopping_for_good();
    harness.run("MT-1").stops();
    harness.removal_fails("MT-1");
    assert_eq!(harness.stage("MT-1"), Stage::Cleaning);
    harness.live(9_999);
    assert_eq!(harness.removals(), NONE);
    harness.live(1);
    harness.removal_fails("MT-1");
    harness.live(19_999);
    assert_eq!(harness.removals(), NONE);
    harness.live(1);
    harness.removal_fails("MT-1");
    assert_eq!(harness.stage("MT-1"), Stage::Unclaimed);
    harness.live(3_600_000);
    assert_eq!(harness.removals(), ["MT-1"], "the sweep finds it");
}

// 6.4

#[test]
fn rule_6_4_phases_are_visible() {
    let mut harness = Harness::new();
    harness.board([issue("MT-1")]);
    harness.settle();
    assert_eq!(harness.running("MT-1").phase, Phase::PreparingWorkspace);
    for phase in [
        Phase::BuildingPrompt,
        Phase::LaunchingAgent,
        Phase::InitializingSession,
        Phase::StreamingTurn,
        Phase::Finishing,
    ] {
        harness.run("MT-1").enters(phase);
        assert_eq!(harness.running("MT-1").phase, phase);
    }
}

/// Where MT-1 is after its run ended like this, and how long it waits there.
fn after(end: RunEnd) -> (Stage, Option<u64>) {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.run("MT-1").ends(end);
    let stage = harness.stage("MT-1");
    let wait = (stage == Stage::Waiting).then(|| harness.wait_of("MT-1"));
    (stage, wait.flatten())
}

#[test]
fn rule_6_4_a_failed_or_timed_out_run_is_retried() {
    for kind in [AgentErrorKind::TurnFailed, AgentErrorKind::TurnTimeout] {
        let kind = symphony_core::FailureKind::Agent(kind);
        let failure = symphony_core::Failure::new(kind, "no");
        assert_eq!(after(RunEnd::Failed(failure)), (Stage::Waiting, Some(10_000)));
    }
}

#[test]
fn rule_6_4_a_run_that_asks_for_input_is_blocked() {
    let question = Question::text("q-1", "Which door?");
    assert_eq!(after(RunEnd::InputRequired { question }), (Stage::Blocked, None));
}

#[test]
fn rule_6_4_each_end_is_counted_as_what_it_was() {
    let mut harness = Harness::with(|setup| {
        setup.turns(1);
    });
    harness.works_on(["MT-1", "MT-2", "MT-3", "MT-4", "MT-5"].map(issue));
    harness.ends_normally("MT-1");
    harness.run("MT-2").fails();
    harness.run("MT-3").asks("Which door?");
    harness.command(Command::Stop(id("MT-4")));
    harness.run("MT-4").stops();
    harness.command(Command::Stop(id("MT-1")));
    harness.live(300_000);
    harness.run("MT-5").stops();
    let totals = harness.snapshot().totals;
    let ends = [totals.out_of_turns, totals.failed, totals.cancelled, totals.input_required];
    assert_eq!(ends, [1, 2, 1, 1], "a stall is a failure");
}

// 6.5

fn renamed() -> Issue {
    issue("MT-1").called("NEW-9")
}

#[test]
fn rule_6_5_a_renamed_issue_keeps_its_workspace() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.run("MT-1").fails();
    harness.board([renamed()]);
    harness.live(10_000);
    let start = harness.started().remove(0);
    assert_eq!(start.key, WorkspaceKey::derive("MT-1").unwrap());
    assert_eq!(start.record, Some(record("MT-1")));
}

#[test]
fn rule_6_5_also_across_a_restart_and_until_it_is_removed() {
    let mut harness = Harness::with(|setup| {
        setup.left_behind(record("MT-1")).turns(1);
    });
    harness.works_on([renamed()]);
    assert_eq!(harness.running("MT-1").key, record("MT-1").key);
    harness.board([renamed().state("Done")]);
    harness.ends_normally("MT-1");
    assert_eq!(harness.removal("MT-1"), Removal::Recorded(record("MT-1")));
}

#[test]
fn rule_6_5_the_key_of_a_record_is_held_also_without_a_run() {
    let mut harness = Harness::with(|setup| {
        setup.left_behind(record("MT-1"));
    });
    harness.board([renamed().state("Backlog"), issue("MT-2").called("MT-1")]);
    harness.settle();
    assert_eq!(harness.starts(), NONE);
    assert_eq!(harness.reason("MT-2"), Reason::WorkspaceHeld(id("MT-1")));
}

#[test]
fn rule_6_5_a_workspace_taken_back_leaves_no_record() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    let run = harness.run("MT-1").id();
    harness.event(Event::Run { run, news: RunEvent::WorkspaceGone });
    harness.run("MT-1").fails();
    harness.board([renamed()]);
    harness.live(10_000);
    let start = harness.started().remove(0);
    assert_eq!(start.record, None);
    assert_eq!(start.key, WorkspaceKey::derive("NEW-9").unwrap());
}

/// A record of an issue that has the id and the name of MT-1, but is on another board.
fn on_another_board() -> Harness {
    Harness::with(|setup| {
        setup.left_behind(WorkspaceRecord { scope: "another board".into(), ..record("MT-1") });
    })
}

#[test]
fn rule_6_5_the_record_of_a_namesake_on_another_board_is_not_the_issues_own() {
    let mut harness = on_another_board();
    harness.board([renamed()]);
    harness.settle();
    let start = harness.started().remove(0);
    assert_eq!(start.record, None);
    assert_eq!(start.key, WorkspaceKey::derive("NEW-9").unwrap());
}

#[test]
fn rule_6_2_nothing_starts_in_the_folder_of_a_namesake_on_another_board() {
    let mut harness = on_another_board();
    harness.board([issue("MT-1")]);
    harness.settle();
    assert_eq!(harness.starts(), NONE);
    assert_eq!(harness.reason("MT-1"), Reason::WorkspaceHeld(id("MT-1")));
}

#[test]
fn rule_6_2_a_folder_that_two_records_name_is_held_until_both_are_gone() {
    let mut harness = Harness::with(|setup| {
        let other = WorkspaceRecord { issue: id("MT-2"), host: "far".into(), ..record("MT-1") };
        setup.left_behind(record("MT-1")).left_behind(other);
    });
    harness.board([issue("MT-1").state("Done"), issue("MT-2").state("Backlog")]);
    harness.settle();
    harness.removed("MT-1");
    harness.board([issue("MT-3").called("MT-1")]);
    harness.live(30_000);
    assert_eq!(harness.starts(), NONE);
    assert_eq!(harness.reason("MT-3"), Reason::WorkspaceHeld(id("MT-2")));
}

#[test]
fn rule_10_6_a_retried_question_goes_on_with_its_conversation() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    let thread = harness.run("MT-1").thread();
    harness.run("MT-1").asks("Which door?");
    harness.settle();
    harness.command(Command::Retry(id("MT-1")));
    harness.settle();
    let start = harness.started().pop().expect("a start");
    assert_eq!((start.resume, start.unanswered), (Some(thread), true));
    harness.run("MT-1").works().fails();
    harness.live(20_000);
    let start = harness.started().pop().expect("a start");
    assert_eq!((start.resume, start.unanswered), (None, false), "said once");
}

#[test]
fn rule_10_3_an_operators_stop_begins_a_new_conversation() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.run("MT-1").asks("Which door?");
    harness.settle();
    harness.command(Command::Stop(id("MT-1")));
    harness.command(Command::Retry(id("MT-1")));
    harness.settle();
    let start = harness.started().pop().expect("a start");
    assert_eq!((start.resume, start.unanswered), (None, false));
}
