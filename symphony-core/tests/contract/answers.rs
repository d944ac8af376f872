//! Contract 4.8: what an answer may change.

use std::time::Duration;

use symphony_core::orchestrator::Command;

use crate::harness::{Draft, Harness, NONE, Stage, id, issue, record};

#[test]
fn rule_4_8_an_answer_does_not_touch_a_claim_that_changed_since() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.board([issue("MT-1").state("Done")]);
    harness.advance(30_000);
    let late = harness.withhold();
    // The run fails and another one starts before the answer arrives.
    harness.board([issue("MT-1")]);
    harness.run("MT-1").fails();
    harness.advance(10_000);
    harness.answer_to("read MT-1");
    harness.deliver(late);
    assert_eq!(harness.starts(), ["MT-1 attempt 1"]);
    assert_eq!(harness.told(), NONE);
    assert_eq!(harness.stage("MT-1"), Stage::Running);
}

#[test]
fn rule_4_8_an_answer_does_not_start_what_was_stopped_meanwhile() {
    let mut harness = Harness::new();
    harness.board([issue("MT-1")]);
    harness.answer();
    assert_eq!(harness.stage("MT-1"), Stage::Checking);
    harness.command(Command::Stop(id("MT-1")));
    harness.answer_to("read MT-1");
    assert_eq!(harness.starts(), NONE);
    assert_eq!(harness.stage("MT-1"), Stage::Blocked);
}

#[test]
fn rule_4_8_an_answer_that_comes_twice_changes_nothing() {
    let mut harness = Harness::new();
    harness.board([issue("MT-1")]);
    let twin = harness.withhold();
    harness.settle();
    harness.effects_in_order();
    harness.event(twin.into_event());
    assert_eq!(harness.effects_in_order(), NONE);
}

#[test]
fn rule_4_8_an_answer_of_an_older_tracker_chooses_nothing() {
    for scope in ["another board", "board"] {
        let mut harness = Harness::new();
        harness.board([issue("MT-1")]);
        let late = harness.withhold();
        harness.reloads_tracker(scope);
        harness.deliver(late);
        assert!(!harness.reads().contains(&"read MT-1".to_owned()));
        assert_eq!(harness.starts(), NONE);
    }
}

#[test]
fn rule_4_8_an_issue_that_was_not_asked_for_is_not_started() {
    let mut harness = Harness::new();
    harness.board([issue("MT-1")]);
    harness.answer();
    harness.answer_but(|answer| {
        let by_id = answer.by_id.as_mut().unwrap().as_mut().unwrap();
        by_id.found.push(issue("MT-2"));
        by_id.found.push(issue("MT-1"));
    });
    assert_eq!(harness.starts(), ["MT-1"]);
    assert_eq!(harness.stage("MT-2"), Stage::Unclaimed);
}

#[test]
fn rule_4_8_a_late_sweep_does_not_remove_the_workspace_of_a_new_claim() {
    let mut harness = Harness::with(|setup| {
        setup.slots(1).left_behind(record("MT-2"));
        setup.settings.agent.common.stall_timeout = None;
    });
    harness.board([issue("MT-2").priority(3)]);
    harness.works_on([issue("MT-1").priority(1)]);
    harness.live(3_200_000);
    harness.board([issue("MT-2").state("Done")]);
    while !harness.reads().contains(&"refresh MT-1 MT-2".to_owned()) {
        harness.settle();
        harness.advance(30_000);
    }
    let late = harness.withhold();
    // MT-2 is opened again and starts before the sweep's answer arrives.
    harness.board([issue("MT-2")]);
    harness.run("MT-1").fails();
    harness.answer_to("read MT-2");
    assert_eq!(harness.starts(), ["MT-2"]);
    harness.deliver(late);
    assert_eq!(harness.removals(), NONE);
    assert_eq!(harness.stage("MT-2"), Stage::Running);
}

#[test]
fn rule_4_8_a_late_list_of_closed_issues_does_not_remove_a_folder_in_use() {
    let mut harness = Harness::with(|setup| {
        setup.stray("MT-1");
    });
    harness.board([issue("MT-1").state("Done")]);
    let [poll, states] = ["poll", "states Done Cancelled"];
    let late = harness.withhold_to(states);
    harness.board([issue("MT-1")]);
    harness.answer_to(poll);
    harness.answer_to("read MT-1");
    assert_eq!(harness.starts(), ["MT-1"]);
    harness.deliver(late);
    assert_eq!(harness.removals(), NONE);
}

#[test]
fn rule_4_8_a_late_turn_read_does_not_touch_a_run_that_failed_meanwhile() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.run("MT-1").turn_ends();
    harness.advance(50);
    harness.board([issue("MT-1").state("Done")]);
    let late = harness.withhold();
    harness.board([issue("MT-1")]);
    harness.run("MT-1").fails();
    harness.deliver(late);
    assert_eq!(harness.stage("MT-1"), Stage::Waiting);
    assert_eq!(harness.removals(), NONE);
}

#[test]
fn rule_4_8_a_stop_and_a_turn_read_do_not_both_answer_a_turn() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.advance(30_000);
    harness.board([issue("MT-1").state("Done")]);
    harness.run("MT-1").turn_ends();
    harness.advance(50);
    assert_eq!(harness.reads(), ["poll with MT-1", "read MT-1"]);
    harness.answer_to("poll with MT-1");
    harness.answer_to("read MT-1");
    assert_eq!(harness.told(), ["stop MT-1: Terminal"]);
}

#[test]
fn rule_4_8_another_tracker_leaves_no_check_hanging() {
    let mut harness = Harness::new();
    harness.board([issue("MT-1")]);
    harness.answer();
    assert_eq!(harness.stage("MT-1"), Stage::Checking);
    harness.reloads_tracker("board");
    harness.live(60_000);
    assert_eq!(harness.stage("MT-1"), Stage::Running);
}

#[test]
fn rule_4_8_another_tracker_leaves_no_turn_unanswered() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.run("MT-1").turn_ends();
    harness.advance(50);
    harness.reloads_tracker("board");
    harness.live(60_000);
    assert_eq!(harness.told(), ["next turn MT-1: 2"]);
}

#[test]
fn rule_4_8_a_late_check_does_not_overrule_a_newer_list() {
    let mut harness = Harness::new();
    harness.board([issue("MT-1")]);
    harness.answer();
    harness.delete("MT-1");
    let late = harness.withhold_to("read MT-1");
    // It comes back, and a poll that was asked later lists it.
    harness.board([issue("MT-1")]);
    harness.advance(30_000);
    harness.answer_to("poll");
    harness.deliver(late);
    harness.settle();
    assert_eq!(harness.starts(), ["MT-1"]);
}

#[test]
fn rule_4_8_an_answer_does_not_clean_up_after_a_run_that_ended_meanwhile() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.board([issue("MT-1").state("Done")]);
    harness.advance(30_000);
    let late = harness.withhold_to("poll with MT-1");
    harness.run("MT-1").fails();
    harness.deliver(late);
    assert_eq!(harness.removals(), NONE, "it was asked about a run, and that is over");
    assert_eq!(harness.stage("MT-1"), Stage::Waiting);
}

#[test]
fn rule_4_8_a_late_refresh_does_not_stop_what_a_newer_read_let_go_on() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.board([issue("MT-1").state("Done")]);
    harness.advance(30_000);
    let late = harness.withhold_to("poll with MT-1");
    harness.board([issue("MT-1")]);
    harness.run("MT-1").turn_ends();
    harness.advance(50);
    harness.answer_to("read MT-1");
    harness.deliver(late);
    assert_eq!(harness.told(), ["next turn MT-1: 2"]);
}

#[test]
fn rule_4_8_a_late_turn_read_does_not_overwrite_what_a_newer_read_brought() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.advance(29_900);
    harness.run("MT-1").turn_ends();
    harness.advance(50);
    harness.board([issue("MT-1").state("Done")]);
    let late = harness.withhold_to("read MT-1");
    harness.board([issue("MT-1").state("In Progress")]);
    harness.advance(50);
    harness.answer_to("poll with MT-1");
    harness.deliver(late);
    assert_eq!(harness.told(), ["next turn MT-1: 2"]);
    assert_eq!(harness.running("MT-1").issue.state.as_str(), "In Progress");
}

#[test]
fn rule_4_8_another_tracker_leaves_no_retry_hanging() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.run("MT-1").fails();
    harness.advance(10_000);
    assert_eq!(harness.reads(), ["read MT-1"]);
    harness.reloads_tracker("board");
    harness.live(60_000);
    assert_eq!(harness.starts(), ["MT-1 attempt 1"]);
}

#[test]
fn rule_4_8_a_late_sweep_does_not_remove_what_a_newer_list_shows_alive() {
    let mut harness = Harness::with(|setup| {
        setup.left_behind(record("MT-1"));
        setup.settings.polling.jobs.sweep = Duration::from_secs(45);
    });
    harness.board([issue("MT-1").state("Backlog")]);
    harness.live(44_000);
    harness.board([issue("MT-1").state("Done")]);
    harness.advance(1_000);
    let late = harness.withhold_to("refresh MT-1");
    // It is opened again, and waits for another one.
    harness.board([issue("MT-1").blocked_by("MT-9", "Todo")]);
    harness.advance(15_000);
    harness.answer_to("poll");
    harness.deliver(late);
    assert_eq!(harness.removals(), NONE);
}
