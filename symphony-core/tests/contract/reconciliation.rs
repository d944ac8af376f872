//! Contract section 8: reconciliation.

use std::time::Duration;

use symphony_core::agent::AgentUpdate;
use symphony_core::orchestrator::{Happened, Phase};
use symphony_core::tracker::{Purpose, TrackerErrorKind};
use symphony_core::{Failure, FailureKind, Issue, Label};

use crate::desk::{Desk, Draft, NONE, Place, issue, record};

fn working() -> Desk {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk
}

// 8.1

#[test]
fn rule_8_1_a_silent_agent_is_stopped_and_retried() {
    let mut desk = working();
    desk.live(299_999);
    assert_eq!(desk.told(), NONE);
    desk.live(1);
    assert_eq!(desk.told(), ["stop MT-1: Stalled"]);
    desk.run("MT-1").stops();
    assert_eq!(desk.place("MT-1"), Place::Waiting);
}

#[test]
fn rule_8_1_by_deadline_and_not_by_poll() {
    let mut desk = Desk::with(|setup| {
        setup.settings.agent.common.stall_timeout = Some(Duration::from_millis(1_234));
    });
    desk.works_on([issue("MT-1")]);
    desk.advance(1_233);
    assert_eq!(desk.told(), NONE);
    desk.advance(1);
    assert_eq!(desk.told(), ["stop MT-1: Stalled"]);
    assert_eq!(desk.asked(), NONE);
}

#[test]
fn rule_8_1_by_deadline_also_when_a_tool_call_outlasted_an_earlier_one() {
    let mut desk = Desk::with(|setup| {
        setup.settings.polling.interval = Duration::from_secs(3_600);
    });
    desk.works_on([issue("MT-1")]);
    desk.run("MT-1").says(AgentUpdate::ToolBegan);
    desk.advance(400_000);
    desk.run("MT-1").says(AgentUpdate::ToolEnded { changed_issue: false });
    desk.advance(300_000);
    assert_eq!(desk.told(), ["stop MT-1: Stalled"]);
}

#[test]
fn rule_8_1_every_line_is_a_sign_of_life() {
    let mut desk = working();
    for _ in 0..10 {
        desk.live(299_999);
        desk.run("MT-1").says(AgentUpdate::Alive);
    }
    assert_eq!(desk.told(), NONE);
    assert_eq!(desk.running("MT-1").last_alive, desk.now().mono);
    desk.live(300_000);
    assert_eq!(desk.told(), ["stop MT-1: Stalled"]);
}

#[test]
fn rule_8_1_the_clock_starts_with_the_agent() {
    let mut desk = Desk::new();
    desk.board([issue("MT-1")]);
    desk.settle();
    desk.live(1_000_000);
    desk.run("MT-1").enters(Phase::BuildingPrompt);
    desk.live(1_000_000);
    assert_eq!(desk.told(), NONE, "hooks have their own timeout");
    desk.run("MT-1").enters(Phase::LaunchingAgent);
    desk.live(299_999);
    assert_eq!(desk.told(), NONE);
    desk.live(1);
    assert_eq!(desk.told(), ["stop MT-1: Stalled"]);
}

#[test]
fn rule_8_1_the_clock_stands_still_during_tool_calls() {
    let mut desk = working();
    desk.run("MT-1").says(AgentUpdate::ToolBegan);
    desk.run("MT-1").says(AgentUpdate::ToolBegan);
    desk.live(1_000_000);
    desk.run("MT-1").says(AgentUpdate::ToolEnded { changed_issue: false });
    desk.live(1_000_000);
    assert_eq!(desk.told(), NONE, "one of them still runs");
    desk.run("MT-1").says(AgentUpdate::ToolEnded { changed_issue: false });
    desk.live(299_999);
    assert_eq!(desk.told(), NONE);
    desk.live(1);
    assert_eq!(desk.told(), ["stop MT-1: Stalled"]);
}

#[test]
fn rule_8_1_the_clock_stands_still_during_the_read_after_a_turn() {
    let mut desk = working();
    desk.run("MT-1").turn_ends();
    desk.advance(1_000_000);
    assert_eq!(desk.told(), NONE);
    desk.answer_to("read MT-1");
    assert_eq!(desk.told(), ["next turn MT-1: 2"]);
    desk.advance(299_999);
    assert_eq!(desk.told(), NONE);
    desk.advance(1);
    assert_eq!(desk.told(), ["stop MT-1: Stalled"]);
}

#[test]
fn rule_8_1_finishing_is_no_stall() {
    let mut desk = Desk::with(|setup| {
        setup.turns(1);
    });
    desk.works_on([issue("MT-1")]);
    desk.turn_ends("MT-1");
    assert_eq!(desk.told(), ["finish MT-1"]);
    desk.run("MT-1").enters(Phase::Finishing);
    desk.live(1_000_000);
    assert_eq!(desk.told(), NONE);
}

#[test]
fn rule_8_1_it_can_be_off() {
    let mut desk = Desk::with(|setup| setup.settings.agent.common.stall_timeout = None);
    desk.works_on([issue("MT-1")]);
    desk.live(86_400_000);
    assert_eq!(desk.told(), NONE);
}

// 8.2

/// What a running MT-1 is told when the refresh finds it like this.
fn told_when(found: Option<Issue>) -> (Vec<String>, Desk) {
    let mut desk = Desk::with(|setup| {
        setup.settings.tracker.required_labels = vec![Label::new("agent")];
    });
    desk.works_on([issue("MT-1").label("agent")]);
    desk.gone("MT-1");
    desk.board(found);
    desk.live(30_000);
    (desk.told(), desk)
}

#[test]
fn rule_8_2_a_running_issue_that_is_terminal_is_stopped_and_then_cleaned() {
    let done = issue("MT-1").label("agent").state("done");
    let (told, mut desk) = told_when(Some(done));
    assert_eq!(told, ["stop MT-1: Terminal"]);
    assert_eq!(desk.removals(), NONE, "not before it is gone");
    desk.run("MT-1").stops();
    assert_eq!(desk.removals(), ["MT-1"]);
    desk.removed("MT-1");
    assert_eq!(desk.place("MT-1"), Place::Unclaimed);
}

#[test]
fn rule_8_2_a_running_issue_that_is_active_and_routable_is_updated() {
    let moved = issue("MT-1").label("agent").state("In Progress");
    let (told, desk) = told_when(Some(moved.clone()));
    assert_eq!(told, NONE);
    assert_eq!(*desk.running("MT-1").issue, moved);
}

#[test]
fn rule_8_2_a_running_issue_that_is_anything_else_is_stopped_and_keeps_its_workspace() {
    let parked = issue("MT-1").label("agent").state("Backlog");
    let unlabelled = issue("MT-1");
    let refused = issue("MT-1").label("agent").undispatchable();
    for found in [parked, unlabelled, refused] {
        let (told, mut desk) = told_when(Some(found));
        assert_eq!(told, ["stop MT-1: NotActive"]);
        desk.run("MT-1").stops();
        assert_eq!(desk.place("MT-1"), Place::Unclaimed);
        assert_eq!(desk.removals(), NONE);
    }
    let (told, mut desk) = told_when(None);
    assert_eq!(told, ["stop MT-1: Gone"]);
    desk.run("MT-1").stops();
    assert_eq!(desk.place("MT-1"), Place::Unclaimed);
    assert_eq!(desk.removals(), NONE);
}

#[test]
fn rule_8_2_the_workspace_that_was_kept_is_used_again() {
    let (_, mut desk) = told_when(None);
    desk.run("MT-1").stops();
    desk.board([issue("MT-1").label("agent")]);
    desk.live(30_000);
    let start = desk.started().remove(0);
    assert_eq!((start.attempt, start.record), (None, Some(record("MT-1"))));
}

/// A waiting and a blocked issue, both refreshed after `change`.
fn refreshed(change: impl Fn(Issue) -> Option<Issue>) -> Desk {
    let mut desk = Desk::with(|setup| {
        // No retry may come in between.
        setup.settings.polling.interval = Duration::from_secs(5);
    });
    desk.works_on([issue("MT-1"), issue("MT-2")]);
    desk.run("MT-1").fails();
    desk.run("MT-2").asks("Which door?");
    for name in ["MT-1", "MT-2"] {
        desk.gone(name);
        desk.board(change(issue(name)));
    }
    desk.live(5_000);
    desk
}

#[test]
fn rule_8_2_waiting_and_blocked_issues_that_are_terminal_are_cleaned() {
    let mut desk = refreshed(|issue| Some(issue.state("Done")));
    assert_eq!(desk.removals(), ["MT-1", "MT-2"]);
    desk.removed("MT-1");
    desk.removed("MT-2");
    assert_eq!(desk.place("MT-1"), Place::Unclaimed);
}

#[test]
fn rule_8_2_waiting_and_blocked_issues_that_are_anything_else_are_released() {
    for desk in [
        refreshed(|_| None),
        refreshed(|issue| Some(issue.state("Backlog"))),
        refreshed(|issue| Some(issue.undispatchable())),
    ] {
        assert_eq!(desk.place("MT-1"), Place::Unclaimed);
        assert_eq!(desk.place("MT-2"), Place::Unclaimed);
        assert_eq!(desk.removals(), NONE);
    }
}

#[test]
fn rule_8_2_a_refresh_counts_also_for_a_retry_that_came_due_meanwhile() {
    let mut desk = Desk::with(|setup| {
        setup.slots(1);
    });
    desk.board([issue("MT-2")]);
    desk.works_on([issue("MT-1")]);
    desk.advance(25_000);
    desk.run("MT-1").fails();
    desk.settle();
    assert_eq!(desk.starts(), ["MT-2"], "so that the retry finds no slot");
    desk.advance(5_000);
    desk.board([issue("MT-1").state("Backlog")]);
    let late = desk.withhold_to("refresh MT-1 MT-2");
    desk.advance(5_000);
    assert_eq!(desk.wait_of("MT-1"), None, "it is due");
    desk.deliver(late);
    assert_eq!(desk.place("MT-1"), Place::Unclaimed);
}

#[test]
fn rule_8_2_waiting_and_blocked_issues_that_are_active_stay() {
    let desk = refreshed(|issue| Some(issue.titled("Fix the window")));
    assert_eq!(desk.waiting("MT-1").issue.title, "Fix the window");
    assert_eq!(desk.wait_of("MT-1"), Some(5_000));
    assert_eq!(desk.blocked("MT-2").issue.title, "Fix the window");
}

// 8.3

fn unreachable() -> Failure {
    let kind = FailureKind::Tracker(TrackerErrorKind::Status);
    Failure::new(kind, "503")
}

#[test]
fn rule_8_3_if_the_refresh_fails_workers_go_on() {
    let mut desk = working();
    desk.board([issue("MT-1").state("Done"), issue("MT-2")]);
    desk.notices();
    desk.advance(30_000);
    desk.answer_but(|answer| answer.by_id = Some(Err(unreachable())));
    let failed = Happened::ReadFailed { purpose: Purpose::Refresh, failure: unreachable() };
    assert!(desk.notices().contains(&failed));
    assert_eq!(desk.place("MT-1"), Place::Running);
    desk.settle();
    assert_eq!(desk.starts(), ["MT-2"], "the candidates came all the same");
    desk.live(30_000);
    assert_eq!(desk.told(), ["stop MT-1: Terminal"], "the next one works");
}

#[test]
fn rule_8_3_if_only_the_candidates_fail_the_refresh_counts() {
    let mut desk = working();
    desk.board([issue("MT-1").state("Done")]);
    desk.advance(30_000);
    desk.answer_but(|answer| answer.candidates = Some(Err(unreachable())));
    assert_eq!(desk.told(), ["stop MT-1: Terminal"]);
}

#[test]
fn rule_8_3_one_unreadable_issue_does_not_spoil_the_others() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1"), issue("MT-2")]);
    desk.unreadable("MT-1");
    desk.board([issue("MT-1").state("Done"), issue("MT-2").state("Done")]);
    desk.live(30_000);
    assert_eq!(desk.told(), ["stop MT-2: Terminal"]);
    assert_eq!(desk.place("MT-1"), Place::Running);
}
