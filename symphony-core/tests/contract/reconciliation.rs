//! Contract section 8: reconciliation.

use std::time::Duration;

use symphony_core::agent::AgentUpdate;
use symphony_core::orchestrator::{NoticeKind, Phase};
use symphony_core::tracker::{Purpose, TrackerErrorKind};
use symphony_core::{Failure, FailureKind, Issue, Label};

use crate::harness::{Draft, Harness, NONE, Stage, issue, record};

fn working() -> Harness {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness
}

// 8.1

#[test]
fn rule_8_1_a_silent_agent_is_stopped_and_retried() {
    let mut harness = working();
    harness.live(299_999);
    assert_eq!(harness.told(), NONE);
    harness.live(1);
    assert_eq!(harness.told(), ["stop MT-1: Stalled"]);
    harness.run("MT-1").stops();
    assert_eq!(harness.stage("MT-1"), Stage::Waiting);
}

#[test]
fn rule_8_1_by_deadline_and_not_by_poll() {
    let mut harness = Harness::with(|setup| {
        setup.settings.agent.common.stall_timeout = Some(Duration::from_millis(1_234));
    });
    harness.works_on([issue("MT-1")]);
    harness.advance(1_233);
    assert_eq!(harness.told(), NONE);
    harness.advance(1);
    assert_eq!(harness.told(), ["stop MT-1: Stalled"]);
    assert_eq!(harness.asked(), NONE);
}

#[test]
fn rule_8_1_by_deadline_also_when_a_tool_call_outlasted_an_earlier_one() {
    let mut harness = Harness::with(|setup| {
        setup.settings.polling.interval = Duration::from_secs(3_600);
    });
    harness.works_on([issue("MT-1")]);
    harness.run("MT-1").says(AgentUpdate::ToolBegan);
    harness.advance(400_000);
    harness.run("MT-1").says(AgentUpdate::ToolEnded { changed_issue: false });
    harness.advance(300_000);
    assert_eq!(harness.told(), ["stop MT-1: Stalled"]);
}

#[test]
fn rule_8_1_every_line_is_a_sign_of_life() {
    let mut harness = working();
    for _ in 0..10 {
        harness.live(299_999);
        harness.run("MT-1").says(AgentUpdate::Alive);
    }
    assert_eq!(harness.told(), NONE);
    assert_eq!(harness.running("MT-1").last_alive, harness.now().mono);
    harness.live(300_000);
    assert_eq!(harness.told(), ["stop MT-1: Stalled"]);
}

#[test]
fn rule_8_1_the_clock_starts_with_the_agent() {
    let mut harness = Harness::new();
    harness.board([issue("MT-1")]);
    harness.settle();
    harness.live(1_000_000);
    harness.run("MT-1").enters(Phase::BuildingPrompt);
    harness.live(1_000_000);
    assert_eq!(harness.told(), NONE, "hooks have their own timeout");
    harness.run("MT-1").enters(Phase::LaunchingAgent);
    harness.live(299_999);
    assert_eq!(harness.told(), NONE);
    harness.live(1);
    assert_eq!(harness.told(), ["stop MT-1: Stalled"]);
}

#[test]
fn rule_8_1_the_clock_stands_still_during_tool_calls() {
    let mut harness = working();
    harness.run("MT-1").says(AgentUpdate::ToolBegan);
    harness.run("MT-1").says(AgentUpdate::ToolBegan);
    harness.live(1_000_000);
    harness.run("MT-1").says(AgentUpdate::ToolEnded { changed_issue: false });
    harness.live(1_000_000);
    assert_eq!(harness.told(), NONE, "one of them still runs");
    harness.run("MT-1").says(AgentUpdate::ToolEnded { changed_issue: false });
    harness.live(299_999);
    assert_eq!(harness.told(), NONE);
    harness.live(1);
    assert_eq!(harness.told(), ["stop MT-1: Stalled"]);
}

#[test]
fn rule_8_1_the_clock_stands_still_during_the_read_after_a_turn() {
    let mut harness = working();
    harness.run("MT-1").turn_ends();
    harness.advance(1_000_000);
    assert_eq!(harness.told(), NONE);
    harness.answer_to("read MT-1");
    assert_eq!(harness.told(), ["next turn MT-1: 2"]);
    harness.advance(299_999);
    assert_eq!(harness.told(), NONE);
    harness.advance(1);
    assert_eq!(harness.told(), ["stop MT-1: Stalled"]);
}

#[test]
fn rule_8_1_finishing_is_not_a_stall() {
    let mut harness = Harness::with(|setup| {
        setup.turns(1);
    });
    harness.works_on([issue("MT-1")]);
    harness.turn_ends("MT-1");
    assert_eq!(harness.told(), ["finish MT-1"]);
    harness.run("MT-1").enters(Phase::Finishing);
    harness.live(1_000_000);
    assert_eq!(harness.told(), NONE);
}

#[test]
fn rule_8_1_it_can_be_off() {
    let mut harness = Harness::with(|setup| setup.settings.agent.common.stall_timeout = None);
    harness.works_on([issue("MT-1")]);
    harness.live(86_400_000);
    assert_eq!(harness.told(), NONE);
}

// 8.2

/// What a running MT-1 is told when the refresh finds it like this.
fn told_when(found: Option<Issue>) -> (Vec<String>, Harness) {
    let mut harness = Harness::with(|setup| {
        setup.settings.tracker.required_labels = vec![Label::new("agent")];
    });
    harness.works_on([issue("MT-1").label("agent")]);
    harness.delete("MT-1");
    harness.board(found);
    harness.live(30_000);
    (harness.told(), harness)
}

#[test]
fn rule_8_2_a_running_issue_that_is_terminal_is_stopped_and_then_cleaned() {
    let done = issue("MT-1").label("agent").state("done");
    let (told, mut harness) = told_when(Some(done));
    assert_eq!(told, ["stop MT-1: Terminal"]);
    assert_eq!(harness.removals(), NONE, "not before it is gone");
    harness.run("MT-1").stops();
    assert_eq!(harness.removals(), ["MT-1"]);
    harness.removed("MT-1");
    assert_eq!(harness.stage("MT-1"), Stage::Unclaimed);
}

#[test]
fn rule_8_2_a_running_issue_that_is_active_and_routable_is_updated() {
    let moved = issue("MT-1").label("agent").state("In Progress");
    let (told, harness) = told_when(Some(moved.clone()));
    assert_eq!(told, NONE);
    assert_eq!(*harness.running("MT-1").issue, moved);
}

#[test]
fn rule_8_2_a_running_issue_that_is_anything_else_is_stopped_and_keeps_its_workspace() {
    let parked = issue("MT-1").label("agent").state("Backlog");
    let unlabelled = issue("MT-1");
    let refused = issue("MT-1").label("agent").undispatchable();
    for found in [parked, unlabelled, refused] {
        let (told, mut harness) = told_when(Some(found));
        assert_eq!(told, ["stop MT-1: NotActive"]);
        harness.run("MT-1").stops();
        assert_eq!(harness.stage("MT-1"), Stage::Unclaimed);
        assert_eq!(harness.removals(), NONE);
    }
    let (told, mut harness) = told_when(None);
    assert_eq!(told, ["stop MT-1: Gone"]);
    harness.run("MT-1").stops();
    assert_eq!(harness.stage("MT-1"), Stage::Unclaimed);
    assert_eq!(harness.removals(), NONE);
}

#[test]
fn rule_8_2_the_workspace_that_was_kept_is_used_again() {
    let (_, mut harness) = told_when(None);
    harness.run("MT-1").stops();
    harness.board([issue("MT-1").label("agent")]);
    harness.live(30_000);
    let start = harness.started().remove(0);
    assert_eq!((start.attempt, start.record), (None, Some(record("MT-1"))));
}

/// A waiting and a blocked issue, both refreshed after `change`.
fn refreshed(change: impl Fn(Issue) -> Option<Issue>) -> Harness {
    let mut harness = Harness::with(|setup| {
        // No retry may come in between.
        setup.settings.polling.interval = Duration::from_secs(5);
    });
    harness.works_on([issue("MT-1"), issue("MT-2")]);
    harness.run("MT-1").fails();
    harness.run("MT-2").asks("Which door?");
    for name in ["MT-1", "MT-2"] {
        harness.delete(name);
        harness.board(change(issue(name)));
    }
    harness.live(5_000);
    harness
}

#[test]
fn rule_8_2_waiting_and_blocked_issues_that_are_terminal_are_cleaned() {
    let mut harness = refreshed(|issue| Some(issue.state("Done")));
    assert_eq!(harness.removals(), ["MT-1", "MT-2"]);
    harness.removed("MT-1");
    harness.removed("MT-2");
    assert_eq!(harness.stage("MT-1"), Stage::Unclaimed);
}

#[test]
fn rule_8_2_waiting_and_blocked_issues_that_are_anything_else_are_released() {
    for harness in [
        refreshed(|_| None),
        refreshed(|issue| Some(issue.state("Backlog"))),
        refreshed(|issue| Some(issue.undispatchable())),
    ] {
        assert_eq!(harness.stage("MT-1"), Stage::Unclaimed);
        assert_eq!(harness.stage("MT-2"), Stage::Unclaimed);
        assert_eq!(harness.removals(), NONE);
    }
}

#[test]
fn rule_8_2_a_refresh_counts_also_for_a_retry_that_came_due_meanwhile() {
    let mut harness = Harness::with(|setup| {
        setup.slots(1);
    });
    harness.board([issue("MT-2")]);
    harness.works_on([issue("MT-1")]);
    harness.advance(25_000);
    harness.run("MT-1").fails();
    harness.settle();
    assert_eq!(harness.starts(), ["MT-2"], "so that the retry finds no slot");
    harness.advance(5_000);
    harness.board([issue("MT-1").state("Backlog")]);
    let late = harness.withhold_to("refresh MT-1 MT-2");
    harness.advance(5_000);
    assert_eq!(harness.wait_of("MT-1"), None, "it is due");
    harness.deliver(late);
    assert_eq!(harness.stage("MT-1"), Stage::Unclaimed);
}

#[test]
fn rule_8_2_waiting_and_blocked_issues_that_are_active_stay() {
    let harness = refreshed(|issue| Some(issue.titled("Fix the window")));
    assert_eq!(harness.waiting("MT-1").issue.title, "Fix the window");
    assert_eq!(harness.wait_of("MT-1"), Some(5_000));
    assert_eq!(harness.blocked("MT-2").issue.title, "Fix the window");
}

// 8.3

fn unreachable() -> Failure {
    let kind = FailureKind::Tracker(TrackerErrorKind::Status);
    Failure::new(kind, "503")
}

#[test]
fn rule_8_3_if_the_refresh_fails_workers_go_on() {
    let mut harness = working();
    harness.board([issue("MT-1").state("Done"), issue("MT-2")]);
    harness.notices();
    harness.advance(30_000);
    harness.answer_but(|answer| answer.by_id = Some(Err(unreachable())));
    let failed = NoticeKind::ReadFailed { purpose: Purpose::Refresh, failure: unreachable() };
    assert!(harness.notices().contains(&failed));
    assert_eq!(harness.stage("MT-1"), Stage::Running);
    harness.settle();
    assert_eq!(harness.starts(), ["MT-2"], "the candidates came all the same");
    harness.live(30_000);
    assert_eq!(harness.told(), ["stop MT-1: Terminal"], "the next one works");
}

#[test]
fn rule_8_3_if_only_the_candidates_fail_the_refresh_counts() {
    let mut harness = working();
    harness.board([issue("MT-1").state("Done")]);
    harness.advance(30_000);
    harness.answer_but(|answer| answer.candidates = Some(Err(unreachable())));
    assert_eq!(harness.told(), ["stop MT-1: Terminal"]);
}

#[test]
fn rule_8_3_one_unreadable_issue_does_not_spoil_the_others() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1"), issue("MT-2")]);
    harness.unreadable("MT-1");
    harness.board([issue("MT-1").state("Done"), issue("MT-2").state("Done")]);
    harness.live(30_000);
    assert_eq!(harness.told(), ["stop MT-2: Terminal"]);
    assert_eq!(harness.stage("MT-1"), Stage::Running);
}
