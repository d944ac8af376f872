//! Contract 4.8: what an answer may change.

use std::time::Duration;

use symphony_core::orchestrator::Command;

use crate::desk::{Desk, Draft, NONE, Place, id, issue, record};

#[test]
fn rule_4_8_an_answer_does_not_touch_a_claim_that_changed_since() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.board([issue("MT-1").state("Done")]);
    desk.advance(30_000);
    let late = desk.withhold();
    // The run fails and another one starts before the answer arrives.
    desk.board([issue("MT-1")]);
    desk.run("MT-1").fails();
    desk.advance(10_000);
    desk.answer_to("read MT-1");
    desk.deliver(late);
    assert_eq!(desk.starts(), ["MT-1 attempt 1"]);
    assert_eq!(desk.told(), NONE);
    assert_eq!(desk.place("MT-1"), Place::Running);
}

#[test]
fn rule_4_8_an_answer_does_not_start_what_was_stopped_meanwhile() {
    let mut desk = Desk::new();
    desk.board([issue("MT-1")]);
    desk.answer();
    assert_eq!(desk.place("MT-1"), Place::Checking);
    desk.command(Command::Stop(id("MT-1")));
    desk.answer_to("read MT-1");
    assert_eq!(desk.starts(), NONE);
    assert_eq!(desk.place("MT-1"), Place::Blocked);
}

#[test]
fn rule_4_8_an_answer_that_comes_twice_changes_nothing() {
    let mut desk = Desk::new();
    desk.board([issue("MT-1")]);
    let twin = desk.withhold();
    desk.settle();
    desk.wanted();
    desk.event(twin.into_event());
    assert_eq!(desk.wanted(), NONE);
}

#[test]
fn rule_4_8_an_answer_of_an_older_tracker_chooses_nothing() {
    for scope in ["another board", "board"] {
        let mut desk = Desk::new();
        desk.board([issue("MT-1")]);
        let late = desk.withhold();
        desk.reloads_tracker(scope);
        desk.deliver(late);
        assert!(!desk.reads().contains(&"read MT-1".to_owned()));
        assert_eq!(desk.starts(), NONE);
    }
}

#[test]
fn rule_4_8_an_issue_that_was_not_asked_for_is_not_started() {
    let mut desk = Desk::new();
    desk.board([issue("MT-1")]);
    desk.answer();
    desk.answer_but(|answer| {
        let by_id = answer.by_id.as_mut().unwrap().as_mut().unwrap();
        by_id.found.push(issue("MT-2"));
        by_id.found.push(issue("MT-1"));
    });
    assert_eq!(desk.starts(), ["MT-1"]);
    assert_eq!(desk.place("MT-2"), Place::Unclaimed);
}

#[test]
fn rule_4_8_a_late_sweep_does_not_remove_the_workspace_of_a_new_claim() {
    let mut desk = Desk::with(|setup| {
        setup.slots(1).left_behind(record("MT-2"));
        setup.settings.agent.common.stall_timeout = None;
    });
    desk.board([issue("MT-2").priority(3)]);
    desk.works_on([issue("MT-1").priority(1)]);
    desk.live(3_200_000);
    desk.board([issue("MT-2").state("Done")]);
    while !desk.reads().contains(&"refresh MT-1 MT-2".to_owned()) {
        desk.settle();
        desk.advance(30_000);
    }
    let late = desk.withhold();
    // MT-2 is opened again and starts before the sweep's answer arrives.
    desk.board([issue("MT-2")]);
    desk.run("MT-1").fails();
    desk.answer_to("read MT-2");
    assert_eq!(desk.starts(), ["MT-2"]);
    desk.deliver(late);
    assert_eq!(desk.removals(), NONE);
    assert_eq!(desk.place("MT-2"), Place::Running);
}

#[test]
fn rule_4_8_a_late_list_of_closed_issues_does_not_remove_a_folder_in_use() {
    let mut desk = Desk::with(|setup| {
        setup.stray("MT-1");
    });
    desk.board([issue("MT-1").state("Done")]);
    let [poll, states] = ["poll", "states Done Cancelled"];
    let late = desk.withhold_to(states);
    desk.board([issue("MT-1")]);
    desk.answer_to(poll);
    desk.answer_to("read MT-1");
    assert_eq!(desk.starts(), ["MT-1"]);
    desk.deliver(late);
    assert_eq!(desk.removals(), NONE);
}

#[test]
fn rule_4_8_a_late_turn_read_does_not_touch_a_run_that_failed_meanwhile() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.run("MT-1").turn_ends();
    desk.advance(50);
    desk.board([issue("MT-1").state("Done")]);
    let late = desk.withhold();
    desk.board([issue("MT-1")]);
    desk.run("MT-1").fails();
    desk.deliver(late);
    assert_eq!(desk.place("MT-1"), Place::Waiting);
    assert_eq!(desk.removals(), NONE);
}

#[test]
fn rule_4_8_a_stop_and_a_turn_read_do_not_both_answer_a_turn() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.advance(30_000);
    desk.board([issue("MT-1").state("Done")]);
    desk.run("MT-1").turn_ends();
    desk.advance(50);
    assert_eq!(desk.reads(), ["poll with MT-1", "read MT-1"]);
    desk.answer_to("poll with MT-1");
    desk.answer_to("read MT-1");
    assert_eq!(desk.told(), ["stop MT-1: Terminal"]);
}

#[test]
fn rule_4_8_another_tracker_leaves_no_check_hanging() {
    let mut desk = Desk::new();
    desk.board([issue("MT-1")]);
    desk.answer();
    assert_eq!(desk.place("MT-1"), Place::Checking);
    desk.reloads_tracker("board");
    desk.live(60_000);
    assert_eq!(desk.place("MT-1"), Place::Running);
}

#[test]
fn rule_4_8_another_tracker_leaves_no_turn_unanswered() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.run("MT-1").turn_ends();
    desk.advance(50);
    desk.reloads_tracker("board");
    desk.live(60_000);
    assert_eq!(desk.told(), ["next turn MT-1: 2"]);
}

#[test]
fn rule_4_8_a_late_check_does_not_overrule_a_newer_list() {
    let mut desk = Desk::new();
    desk.board([issue("MT-1")]);
    desk.answer();
    desk.gone("MT-1");
    let late = desk.withhold_to("read MT-1");
    // It comes back, and a poll that was asked later lists it.
    desk.board([issue("MT-1")]);
    desk.advance(30_000);
    desk.answer_to("poll");
    desk.deliver(late);
    desk.settle();
    assert_eq!(desk.starts(), ["MT-1"]);
}

#[test]
fn rule_4_8_an_answer_does_not_clean_up_after_a_run_that_ended_meanwhile() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.board([issue("MT-1").state("Done")]);
    desk.advance(30_000);
    let late = desk.withhold_to("poll with MT-1");
    desk.run("MT-1").fails();
    desk.deliver(late);
    assert_eq!(desk.removals(), NONE, "it was asked about a run, and that is over");
    assert_eq!(desk.place("MT-1"), Place::Waiting);
}

#[test]
fn rule_4_8_a_late_refresh_does_not_stop_what_a_newer_read_let_go_on() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.board([issue("MT-1").state("Done")]);
    desk.advance(30_000);
    let late = desk.withhold_to("poll with MT-1");
    desk.board([issue("MT-1")]);
    desk.run("MT-1").turn_ends();
    desk.advance(50);
    desk.answer_to("read MT-1");
    desk.deliver(late);
    assert_eq!(desk.told(), ["next turn MT-1: 2"]);
}

#[test]
fn rule_4_8_a_late_turn_read_does_not_overwrite_what_a_newer_read_brought() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.advance(29_900);
    desk.run("MT-1").turn_ends();
    desk.advance(50);
    desk.board([issue("MT-1").state("Done")]);
    let late = desk.withhold_to("read MT-1");
    desk.board([issue("MT-1").state("In Progress")]);
    desk.advance(50);
    desk.answer_to("poll with MT-1");
    desk.deliver(late);
    assert_eq!(desk.told(), ["next turn MT-1: 2"]);
    assert_eq!(desk.running("MT-1").issue.state.as_str(), "In Progress");
}

#[test]
fn rule_4_8_another_tracker_leaves_no_retry_hanging() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.run("MT-1").fails();
    desk.advance(10_000);
    assert_eq!(desk.reads(), ["read MT-1"]);
    desk.reloads_tracker("board");
    desk.live(60_000);
    assert_eq!(desk.starts(), ["MT-1 attempt 1"]);
}

#[test]
fn rule_4_8_a_late_sweep_does_not_remove_what_a_newer_list_shows_alive() {
    let mut desk = Desk::with(|setup| {
        setup.left_behind(record("MT-1"));
        setup.settings.polling.jobs.sweep = Duration::from_secs(45);
    });
    desk.board([issue("MT-1").state("Backlog")]);
    desk.live(44_000);
    desk.board([issue("MT-1").state("Done")]);
    desk.advance(1_000);
    let late = desk.withhold_to("refresh MT-1");
    // It is opened again, and waits for another one.
    desk.board([issue("MT-1").blocked_by("MT-9", "Todo")]);
    desk.advance(15_000);
    desk.answer_to("poll");
    desk.deliver(late);
    assert_eq!(desk.removals(), NONE);
}
