//! Contract 2.6 and 2.7, as far as the core decides: what a reload changes and what it leaves.

use std::time::Duration;

use symphony_core::orchestrator::{NoticeKind, Removal, Workspaces};
use symphony_core::snapshot::Reason;
use symphony_core::tracker::TrackerErrorKind;
use symphony_core::{Failure, FailureKind, Label, StateSet};

use crate::harness::{Draft, Harness, NONE, Stage, issue, record};

fn working() -> Harness {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness
}

// 2.6

#[test]
fn rule_2_6_the_file_is_looked_at_with_each_poll_for_candidates() {
    let mut harness = Harness::new();
    assert_eq!(harness.rechecks(), 1);
    harness.live(60_000);
    assert_eq!(harness.rechecks(), 2);
}

#[test]
fn rule_2_6_an_invalid_file_blocks_starts_and_keeps_reconciliation() {
    let mut harness = working();
    harness.board([issue("MT-2")]);
    harness.file_breaks("agent.max_turns");
    harness.live(60_000);
    assert_eq!(harness.starts(), NONE);
    assert_eq!(harness.asked(), ["refresh MT-1", "refresh MT-1"]);
    harness.board([issue("MT-1").state("Backlog")]);
    harness.live(30_000);
    assert_eq!(harness.told(), ["stop MT-1: NotActive"]);
}

#[test]
fn rule_2_6_an_invalid_file_also_holds_what_is_being_read() {
    let mut harness = Harness::new();
    harness.board([issue("MT-1")]);
    harness.answer();
    assert_eq!(harness.reads(), ["read MT-1"]);
    harness.file_breaks("agent.max_turns");
    harness.answer();
    assert_eq!(harness.starts(), NONE);
    harness.reloads(|_| ());
    harness.live(60_000);
    assert_eq!(harness.starts(), ["MT-1"]);
}

#[test]
fn rule_2_6_an_invalid_file_lets_running_agents_go_on() {
    let mut harness = working();
    harness.file_breaks("agent.max_turns");
    harness.turn_ends("MT-1");
    assert_eq!(harness.told(), ["next turn MT-1: 2"]);
}

#[test]
fn rule_2_6_a_retry_waits_for_a_valid_file_and_keeps_its_attempt() {
    let mut harness = working();
    harness.run("MT-1").fails();
    harness.file_breaks("agent.max_turns");
    harness.live(600_000);
    assert_eq!(harness.starts(), NONE);
    harness.reloads(|_| ());
    harness.live(30_000);
    assert_eq!(harness.starts(), ["MT-1 attempt 1"]);
}

#[test]
fn rule_2_6_each_distinct_problem_is_told_once() {
    let mut harness = Harness::new();
    harness.settle();
    harness.notices();
    for message in ["one", "one", "two", "two"] {
        harness.file_breaks(message);
        harness.live(60_000);
    }
    let told = |what: &&NoticeKind| matches!(what, NoticeKind::WorkflowInvalid { .. });
    assert_eq!(harness.notices().iter().filter(told).count(), 2);
    assert_eq!(harness.snapshot().problems[0].message, "two");
}

#[test]
fn rule_2_6_the_problem_shows_until_it_is_fixed() {
    let mut harness = Harness::new();
    harness.board([issue("MT-2")]);
    harness.answer();
    harness.file_breaks("agent.max_turns");
    harness.live(3_600_000);
    assert_eq!(harness.snapshot().problems.len(), 1);
    assert_eq!(harness.reason("MT-2"), Reason::InvalidWorkflow);
    harness.notices();
    harness.reloads(|_| ());
    assert!(harness.snapshot().problems.is_empty());
    assert!(harness.notices().contains(&NoticeKind::Reloaded));
    harness.live(30_000);
    assert_eq!(harness.starts(), ["MT-2"]);
}

#[test]
fn rule_2_6_a_problem_that_comes_back_is_told_again() {
    let mut harness = Harness::new();
    harness.file_breaks("one");
    harness.reloads(|_| ());
    harness.notices();
    harness.file_breaks("one");
    let told = |what: &NoticeKind| matches!(what, NoticeKind::WorkflowInvalid { .. });
    assert!(harness.notices().iter().any(told));
}

#[test]
fn rule_2_6_another_workspace_root_brings_its_own_records() {
    let mut harness = working();
    let mut moved = record("MT-2");
    moved.path = "/elsewhere/MT-2".into();
    let workspaces = Workspaces { records: vec![moved.clone()], strays: Vec::new() };
    harness.board([issue("MT-2").state("Done")]);
    harness.reloads_root("/elsewhere", workspaces);
    harness.live(3_600_000);
    assert_eq!(harness.removal("MT-2"), Removal::Recorded(moved));
}

// 2.7

#[test]
fn rule_2_7_max_turns_is_frozen_for_a_run_in_flight() {
    let mut harness = working();
    harness.reloads(|settings| settings.agent.max_turns = 1);
    assert_eq!(harness.running("MT-1").max_turns, 20);
    harness.turn_ends("MT-1");
    assert_eq!(harness.told(), ["next turn MT-1: 2"]);
    harness.board([issue("MT-2")]);
    harness.live(30_000);
    assert_eq!(harness.started()[0].max_turns, 1, "the next one has the new limit");
}

#[test]
fn rule_2_7_states_are_live() {
    let mut harness = working();
    harness.reloads(|settings| settings.tracker.active_states = StateSet::new(["Ready"]));
    harness.board([issue("MT-2").state("Ready")]);
    harness.live(30_000);
    assert_eq!(harness.told(), ["stop MT-1: NotActive"]);
    assert_eq!(harness.starts(), ["MT-2"]);
}

#[test]
fn rule_2_7_terminal_states_are_live() {
    let mut harness = working();
    harness.reloads(|settings| settings.tracker.terminal_states = StateSet::new(["Todo"]));
    harness.live(30_000);
    assert_eq!(harness.told(), ["stop MT-1: Terminal"]);
}

#[test]
fn rule_2_7_labels_are_live() {
    let mut harness = working();
    harness.reloads(|settings| settings.tracker.required_labels = vec![Label::new("agent")]);
    harness.live(30_000);
    assert_eq!(harness.told(), ["stop MT-1: NotActive"]);
}

#[test]
fn rule_2_7_a_higher_limit_lets_more_start() {
    let mut harness = Harness::with(|setup| {
        setup.slots(1);
    });
    harness.board([issue("MT-2"), issue("MT-3")]);
    harness.works_on([issue("MT-1")]);
    harness.reloads(|settings| settings.agent.max_concurrent_agents = 2);
    harness.live(30_000);
    assert_eq!(harness.starts(), ["MT-2"]);
}

#[test]
fn rule_2_7_a_lower_limit_stops_no_run() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1"), issue("MT-2"), issue("MT-3")]);
    harness.reloads(|settings| settings.agent.max_concurrent_agents = 1);
    harness.board([issue("MT-4")]);
    harness.live(30_000);
    assert_eq!(harness.told(), NONE);
    for name in ["MT-1", "MT-2"] {
        harness.completes(name);
        harness.live(30_000);
        assert_eq!(harness.starts(), NONE);
    }
    harness.completes("MT-3");
    harness.live(30_000);
    assert_eq!(harness.starts(), ["MT-4"]);
}

#[test]
fn rule_2_7_the_backoff_is_live() {
    let mut harness = working();
    harness.reloads(|settings| settings.agent.max_retry_backoff = Duration::from_secs(2));
    harness.run("MT-1").fails();
    assert_eq!(harness.wait_of("MT-1"), Some(2_000));
}

#[test]
fn rule_2_7_the_stall_timeout_is_live() {
    let mut harness = working();
    harness.advance(5_000);
    harness.reloads(|settings| settings.agent.common.stall_timeout = Some(Duration::from_secs(20)));
    harness.advance(14_999);
    assert_eq!(harness.told(), NONE);
    harness.advance(1);
    assert_eq!(harness.told(), ["stop MT-1: Stalled"]);

    let mut harness = working();
    harness.reloads(|settings| settings.agent.common.stall_timeout = None);
    harness.live(3_600_000);
    assert_eq!(harness.told(), NONE);
}

#[test]
fn rule_2_7_polling_is_live() {
    let mut harness = Harness::new();
    harness.settle();
    harness.advance(4_000);
    harness.reloads(|settings| settings.polling.interval = Duration::from_secs(10));
    harness.asked();
    harness.live(6_000);
    assert!(!harness.asked().is_empty());
    harness.live(60_000);
    assert_eq!(harness.asked().len(), 6);
}

#[test]
fn rule_2_7_a_run_in_flight_keeps_its_issue_and_its_claim() {
    let mut harness = working();
    harness.reloads(|settings| settings.agent.max_concurrent_agents = 4);
    assert_eq!(harness.stage("MT-1"), Stage::Running);
    assert_eq!(harness.told(), NONE);
}

#[test]
fn rule_2_7_a_lower_limit_also_counts_for_what_is_being_read() {
    let mut harness = Harness::new();
    harness.board([issue("MT-1"), issue("MT-2"), issue("MT-3")]);
    harness.answer();
    harness.reloads(|settings| settings.agent.max_concurrent_agents = 1);
    harness.settle();
    assert_eq!(harness.starts(), ["MT-1"]);
}

// 9.6, as far as the core decides.

#[test]
fn rule_9_6_a_workspace_is_removed_where_it_was_created() {
    let mut harness = working();
    harness.reloads_root("/elsewhere", Workspaces::default());
    harness.board([issue("MT-1").state("Done")]);
    harness.ends_normally("MT-1");
    assert_eq!(harness.removal("MT-1"), Removal::Recorded(record("MT-1")));
}

#[test]
fn rule_2_6_the_file_is_looked_at_again_before_each_dispatch() {
    let mut harness = Harness::with(|setup| {
        setup.slots(1);
    });
    harness.board([issue("MT-1"), issue("MT-2")]);
    harness.settle();
    harness.rechecks();
    harness.run("MT-1").works().fails();
    harness.settle();
    assert_eq!(harness.starts(), ["MT-1", "MT-2"], "the freed slot is filled from the kept list");
    assert_eq!(harness.rechecks(), 1);
}

#[test]
fn rule_2_6_what_another_tracker_refused_is_asked_of_the_new_one_at_once() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.run("MT-1").fails();
    harness.advance(10_000);
    harness.answer_to_but("read MT-1", |answer| {
        let kind = FailureKind::Tracker(TrackerErrorKind::RateLimited);
        let failure =
            Failure::new(kind, "no more").with_retry_after(Some(Duration::from_secs(3_600)));
        answer.by_id = Some(Err(failure));
    });
    assert_eq!(harness.wait_of("MT-1"), Some(3_600_000));
    let scope = harness.scope();
    harness.reloads_tracker(&scope);
    harness.settle();
    assert_eq!(harness.starts(), ["MT-1 attempt 1"]);
}

#[test]
fn rule_4_2_a_workspace_is_not_forgotten_when_the_scope_comes_back() {
    let mut harness = Harness::new();
    let scope = harness.scope();
    harness.works_on([issue("MT-1")]);
    harness.board([issue("MT-1").state("Backlog")]);
    harness.live(30_000);
    harness.run("MT-1").stops();
    harness.reloads_tracker("elsewhere");
    harness.board([issue("MT-1").called("XY-1")]);
    harness.live(30_000);
    harness.run("MT-1").works();
    harness.board([issue("MT-1").called("XY-1").state("Backlog")]);
    harness.live(30_000);
    harness.run("MT-1").stops();
    harness.reloads_tracker(&scope);
    harness.board([issue("MT-1").state("Done")]);
    harness.live(3_600_000);
    assert_eq!(harness.removals(), ["MT-1"]);
    let Removal::Recorded(record) = harness.removal("MT-1") else { panic!("it has a record") };
    assert_eq!(record.key.as_str(), "MT-1");
}

#[test]
fn rule_9_6_a_workspace_that_is_known_is_not_mistaken_for_one_under_another_root() {
    let mut harness = working();
    let mut twin = record("MT-1");
    twin.path = "/elsewhere/MT-1".into();
    harness.reloads_root("/elsewhere", Workspaces { records: vec![twin], strays: Vec::new() });
    harness.board([issue("MT-1").state("Done")]);
    harness.ends_normally("MT-1");
    assert_eq!(harness.removal("MT-1"), Removal::Recorded(record("MT-1")));
}

#[test]
fn rule_2_3_the_warnings_of_the_file_in_force_show_and_keep_nothing_back() {
    let mut harness = Harness::new();
    harness.board([issue("MT-1")]);
    harness.answer();
    assert!(harness.snapshot().warnings.is_empty());
    harness.reloads_with_warning("agent.colour");
    harness.live(30_000);
    assert_eq!(harness.starts(), ["MT-1"]);
    let shown = |harness: &Harness| harness.snapshot().warnings.to_vec();
    assert_eq!(shown(&harness)[0].path.as_deref(), Some("agent.colour"));
    harness.file_breaks("agent.max_turns");
    assert_eq!(shown(&harness).len(), 1, "the last good file is in force, with its warnings");
    harness.reloads_without_warnings();
    assert_eq!(shown(&harness), []);
}
