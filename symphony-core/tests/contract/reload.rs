//! Contract 2.6 and 2.7, as far as the core decides: what a reload changes and what it leaves.

use std::time::Duration;

use symphony_core::orchestrator::{Happened, Removal, Workspaces};
use symphony_core::snapshot::Reason;
use symphony_core::tracker::TrackerErrorKind;
use symphony_core::{Failure, FailureKind, Label, StateSet};

use crate::desk::{Desk, Draft, NONE, Place, issue, record};

fn working() -> Desk {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk
}

// 2.6

#[test]
fn rule_2_6_the_file_is_looked_at_with_each_poll_for_candidates() {
    let mut desk = Desk::new();
    assert_eq!(desk.rechecks(), 1);
    desk.live(60_000);
    assert_eq!(desk.rechecks(), 2);
}

#[test]
fn rule_2_6_an_invalid_file_blocks_starts_and_keeps_reconciliation() {
    let mut desk = working();
    desk.board([issue("MT-2")]);
    desk.file_breaks("agent.max_turns");
    desk.live(60_000);
    assert_eq!(desk.starts(), NONE);
    assert_eq!(desk.asked(), ["refresh MT-1", "refresh MT-1"]);
    desk.board([issue("MT-1").state("Backlog")]);
    desk.live(30_000);
    assert_eq!(desk.told(), ["stop MT-1: NotActive"]);
}

#[test]
fn rule_2_6_an_invalid_file_also_holds_what_is_being_read() {
    let mut desk = Desk::new();
    desk.board([issue("MT-1")]);
    desk.answer();
    assert_eq!(desk.reads(), ["read MT-1"]);
    desk.file_breaks("agent.max_turns");
    desk.answer();
    assert_eq!(desk.starts(), NONE);
    desk.reloads(|_| ());
    desk.live(60_000);
    assert_eq!(desk.starts(), ["MT-1"]);
}

#[test]
fn rule_2_6_an_invalid_file_lets_running_agents_go_on() {
    let mut desk = working();
    desk.file_breaks("agent.max_turns");
    desk.turn_ends("MT-1");
    assert_eq!(desk.told(), ["next turn MT-1: 2"]);
}

#[test]
fn rule_2_6_a_retry_waits_for_a_valid_file_and_keeps_its_attempt() {
    let mut desk = working();
    desk.run("MT-1").fails();
    desk.file_breaks("agent.max_turns");
    desk.live(600_000);
    assert_eq!(desk.starts(), NONE);
    desk.reloads(|_| ());
    desk.live(30_000);
    assert_eq!(desk.starts(), ["MT-1 attempt 1"]);
}

#[test]
fn rule_2_6_each_distinct_problem_is_told_once() {
    let mut desk = Desk::new();
    desk.settle();
    desk.notices();
    for message in ["one", "one", "two", "two"] {
        desk.file_breaks(message);
        desk.live(60_000);
    }
    let told = |what: &&Happened| matches!(what, Happened::WorkflowInvalid { .. });
    assert_eq!(desk.notices().iter().filter(told).count(), 2);
    assert_eq!(desk.snapshot().problems[0].message, "two");
}

#[test]
fn rule_2_6_the_problem_shows_until_it_is_fixed() {
    let mut desk = Desk::new();
    desk.board([issue("MT-2")]);
    desk.answer();
    desk.file_breaks("agent.max_turns");
    desk.live(3_600_000);
    assert_eq!(desk.snapshot().problems.len(), 1);
    assert_eq!(desk.reason("MT-2"), Reason::InvalidWorkflow);
    desk.notices();
    desk.reloads(|_| ());
    assert!(desk.snapshot().problems.is_empty());
    assert!(desk.notices().contains(&Happened::Reloaded));
    desk.live(30_000);
    assert_eq!(desk.starts(), ["MT-2"]);
}

#[test]
fn rule_2_6_a_problem_that_comes_back_is_told_again() {
    let mut desk = Desk::new();
    desk.file_breaks("one");
    desk.reloads(|_| ());
    desk.notices();
    desk.file_breaks("one");
    let told = |what: &Happened| matches!(what, Happened::WorkflowInvalid { .. });
    assert!(desk.notices().iter().any(told));
}

#[test]
fn rule_2_6_another_workspace_root_brings_its_own_records() {
    let mut desk = working();
    let mut moved = record("MT-2");
    moved.path = "/elsewhere/MT-2".into();
    let workspaces = Workspaces { records: vec![moved.clone()], strays: Vec::new() };
    desk.board([issue("MT-2").state("Done")]);
    desk.reloads_root("/elsewhere", workspaces);
    desk.live(3_600_000);
    assert_eq!(desk.removal("MT-2"), Removal::Recorded(moved));
}

// 2.7

#[test]
fn rule_2_7_max_turns_is_frozen_for_a_run_in_flight() {
    let mut desk = working();
    desk.reloads(|settings| settings.agent.max_turns = 1);
    assert_eq!(desk.running("MT-1").max_turns, 20);
    desk.turn_ends("MT-1");
    assert_eq!(desk.told(), ["next turn MT-1: 2"]);
    desk.board([issue("MT-2")]);
    desk.live(30_000);
    assert_eq!(desk.started()[0].max_turns, 1, "the next one has the new limit");
}

#[test]
fn rule_2_7_states_are_live() {
    let mut desk = working();
    desk.reloads(|settings| settings.tracker.active_states = StateSet::new(["Ready"]));
    desk.board([issue("MT-2").state("Ready")]);
    desk.live(30_000);
    assert_eq!(desk.told(), ["stop MT-1: NotActive"]);
    assert_eq!(desk.starts(), ["MT-2"]);
}

#[test]
fn rule_2_7_terminal_states_are_live() {
    let mut desk = working();
    desk.reloads(|settings| settings.tracker.terminal_states = StateSet::new(["Todo"]));
    desk.live(30_000);
    assert_eq!(desk.told(), ["stop MT-1: Terminal"]);
}

#[test]
fn rule_2_7_labels_are_live() {
    let mut desk = working();
    desk.reloads(|settings| settings.tracker.required_labels = vec![Label::new("agent")]);
    desk.live(30_000);
    assert_eq!(desk.told(), ["stop MT-1: NotActive"]);
}

#[test]
fn rule_2_7_a_higher_limit_lets_more_start() {
    let mut desk = Desk::with(|setup| {
        setup.slots(1);
    });
    desk.board([issue("MT-2"), issue("MT-3")]);
    desk.works_on([issue("MT-1")]);
    desk.reloads(|settings| settings.agent.max_concurrent_agents = 2);
    desk.live(30_000);
    assert_eq!(desk.starts(), ["MT-2"]);
}

#[test]
fn rule_2_7_a_lower_limit_stops_nobody() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1"), issue("MT-2"), issue("MT-3")]);
    desk.reloads(|settings| settings.agent.max_concurrent_agents = 1);
    desk.board([issue("MT-4")]);
    desk.live(30_000);
    assert_eq!(desk.told(), NONE);
    for name in ["MT-1", "MT-2"] {
        desk.is_done(name);
        desk.live(30_000);
        assert_eq!(desk.starts(), NONE);
    }
    desk.is_done("MT-3");
    desk.live(30_000);
    assert_eq!(desk.starts(), ["MT-4"]);
}

#[test]
fn rule_2_7_the_backoff_is_live() {
    let mut desk = working();
    desk.reloads(|settings| settings.agent.max_retry_backoff = Duration::from_secs(2));
    desk.run("MT-1").fails();
    assert_eq!(desk.wait_of("MT-1"), Some(2_000));
}

#[test]
fn rule_2_7_the_stall_timeout_is_live() {
    let mut desk = working();
    desk.advance(5_000);
    desk.reloads(|settings| settings.agent.common.stall_timeout = Some(Duration::from_secs(20)));
    desk.advance(14_999);
    assert_eq!(desk.told(), NONE);
    desk.advance(1);
    assert_eq!(desk.told(), ["stop MT-1: Stalled"]);

    let mut desk = working();
    desk.reloads(|settings| settings.agent.common.stall_timeout = None);
    desk.live(3_600_000);
    assert_eq!(desk.told(), NONE);
}

#[test]
fn rule_2_7_polling_is_live() {
    let mut desk = Desk::new();
    desk.settle();
    desk.advance(4_000);
    desk.reloads(|settings| settings.polling.interval = Duration::from_secs(10));
    desk.asked();
    desk.live(6_000);
    assert!(!desk.asked().is_empty());
    desk.live(60_000);
    assert_eq!(desk.asked().len(), 6);
}

#[test]
fn rule_2_7_a_run_in_flight_keeps_its_issue_and_its_claim() {
    let mut desk = working();
    desk.reloads(|settings| settings.agent.max_concurrent_agents = 4);
    assert_eq!(desk.place("MT-1"), Place::Running);
    assert_eq!(desk.told(), NONE);
}

#[test]
fn rule_2_7_a_lower_limit_also_counts_for_what_is_being_read() {
    let mut desk = Desk::new();
    desk.board([issue("MT-1"), issue("MT-2"), issue("MT-3")]);
    desk.answer();
    desk.reloads(|settings| settings.agent.max_concurrent_agents = 1);
    desk.settle();
    assert_eq!(desk.starts(), ["MT-1"]);
}

// 9.6, as far as the core decides.

#[test]
fn rule_9_6_a_workspace_is_removed_where_it_was_created() {
    let mut desk = working();
    desk.reloads_root("/elsewhere", Workspaces::default());
    desk.board([issue("MT-1").state("Done")]);
    desk.ends_normally("MT-1");
    assert_eq!(desk.removal("MT-1"), Removal::Recorded(record("MT-1")));
}

#[test]
fn rule_2_6_the_file_is_looked_at_again_before_each_dispatch() {
    let mut desk = Desk::with(|setup| {
        setup.slots(1);
    });
    desk.board([issue("MT-1"), issue("MT-2")]);
    desk.settle();
    desk.rechecks();
    desk.run("MT-1").works().fails();
    desk.settle();
    assert_eq!(desk.starts(), ["MT-1", "MT-2"], "the freed slot is filled from the kept list");
    assert_eq!(desk.rechecks(), 1);
}

#[test]
fn rule_2_6_what_another_tracker_refused_is_asked_of_the_new_one_at_once() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.run("MT-1").fails();
    desk.advance(10_000);
    desk.answer_to_but("read MT-1", |answer| {
        let kind = FailureKind::Tracker(TrackerErrorKind::RateLimited);
        let failure = Failure::new(kind, "no more").retry_after(Some(Duration::from_secs(3_600)));
        answer.by_id = Some(Err(failure));
    });
    assert_eq!(desk.wait_of("MT-1"), Some(3_600_000));
    let scope = desk.scope();
    desk.reloads_tracker(&scope);
    desk.settle();
    assert_eq!(desk.starts(), ["MT-1 attempt 1"]);
}

#[test]
fn rule_4_2_a_workspace_is_not_forgotten_when_the_scope_comes_back() {
    let mut desk = Desk::new();
    let scope = desk.scope();
    desk.works_on([issue("MT-1")]);
    desk.board([issue("MT-1").state("Backlog")]);
    desk.live(30_000);
    desk.run("MT-1").stops();
    desk.reloads_tracker("elsewhere");
    desk.board([issue("MT-1").called("XY-1")]);
    desk.live(30_000);
    desk.run("MT-1").works();
    desk.board([issue("MT-1").called("XY-1").state("Backlog")]);
    desk.live(30_000);
    desk.run("MT-1").stops();
    desk.reloads_tracker(&scope);
    desk.board([issue("MT-1").state("Done")]);
    desk.live(3_600_000);
    assert_eq!(desk.removals(), ["MT-1"]);
    let Removal::Recorded(record) = desk.removal("MT-1") else { panic!("it has a record") };
    assert_eq!(record.key.as_str(), "MT-1");
}

#[test]
fn rule_9_6_a_workspace_that_is_known_is_not_mistaken_for_one_under_another_root() {
    let mut desk = working();
    let mut twin = record("MT-1");
    twin.path = "/elsewhere/MT-1".into();
    desk.reloads_root("/elsewhere", Workspaces { records: vec![twin], strays: Vec::new() });
    desk.board([issue("MT-1").state("Done")]);
    desk.ends_normally("MT-1");
    assert_eq!(desk.removal("MT-1"), Removal::Recorded(record("MT-1")));
}
