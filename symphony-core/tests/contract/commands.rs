//! Contract 4.7: what an operator can do.

use symphony_core::orchestrator::{Command, NoticeKind};
use symphony_core::snapshot::Reason;

use crate::harness::{Draft, Harness, NONE, Stage, id, issue};

#[test]
fn rule_4_7_a_manual_poll_goes_at_once() {
    let mut harness = Harness::new();
    harness.settle();
    harness.advance(1_000);
    harness.command(Command::PollNow);
    assert_eq!(harness.reads(), ["poll"]);
}

#[test]
fn rule_4_7_several_manual_polls_are_one() {
    let mut harness = Harness::new();
    harness.settle();
    harness.asked();
    for _ in 0..5 {
        harness.command(Command::PollNow);
    }
    assert_eq!(harness.reads(), ["poll"]);
    harness.live(1_000);
    assert!(harness.asked().len() <= 2);
}

#[test]
fn rule_4_7_while_paused_nothing_starts_and_all_else_goes_on() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1"), issue("MT-2")]);
    harness.command(Command::Pause);
    harness.run("MT-2").fails();
    harness.board([issue("MT-1").state("Done"), issue("MT-3")]);
    harness.live(60_000);
    assert_eq!(harness.starts(), NONE);
    assert_eq!(harness.told(), ["stop MT-1: Terminal"]);
    assert_eq!(harness.reason("MT-3"), Reason::Paused);
    harness.command(Command::Resume);
    harness.live(30_000);
    assert_eq!(harness.starts(), ["MT-2 attempt 1", "MT-3"]);
}

#[test]
fn rule_4_7_a_pause_also_holds_what_is_being_read() {
    let mut harness = Harness::new();
    harness.board([issue("MT-1")]);
    harness.answer();
    assert_eq!(harness.reads(), ["read MT-1"]);
    harness.command(Command::Pause);
    harness.answer();
    assert_eq!(harness.starts(), NONE);
    harness.command(Command::Resume);
    harness.live(30_000);
    assert_eq!(harness.starts(), ["MT-1"]);
}

#[test]
fn rule_4_7_an_operator_stops_a_run_and_the_issue_stays_blocked() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.command(Command::Stop(id("MT-1")));
    assert_eq!(harness.told(), ["stop MT-1: Operator"]);
    assert_eq!(harness.stage("MT-1"), Stage::Stopping);
    harness.run("MT-1").stops();
    assert_eq!(harness.stage("MT-1"), Stage::Blocked);
    harness.live(3_600_000);
    assert_eq!(harness.stage("MT-1"), Stage::Blocked);
    assert_eq!(harness.starts(), NONE);
}

#[test]
fn rule_4_7_a_stopped_issue_goes_on_when_the_operator_says_so() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.command(Command::Stop(id("MT-1")));
    harness.run("MT-1").stops();
    harness.settle();
    harness.command(Command::Retry(id("MT-1")));
    assert_eq!(harness.reads(), ["read MT-1"]);
    harness.answer();
    assert_eq!(harness.starts(), ["MT-1 attempt 1"]);
}

#[test]
fn rule_4_7_a_stopped_issue_goes_on_when_its_state_changes() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.command(Command::Stop(id("MT-1")));
    harness.run("MT-1").stops();
    assert_eq!(harness.reads(), ["refresh MT-1"], "in which state it is left");
    harness.settle();
    harness.board([issue("MT-1").state("In Progress")]);
    harness.live(30_000);
    assert_eq!(harness.starts(), ["MT-1 attempt 1"]);
}

#[test]
fn rule_4_7_an_operator_stops_a_waiting_issue_too() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.run("MT-1").fails();
    harness.command(Command::Stop(id("MT-1")));
    assert_eq!(harness.stage("MT-1"), Stage::Blocked);
    harness.live(600_000);
    assert_eq!(harness.starts(), NONE);
}

#[test]
fn rule_4_7_an_operator_can_cut_a_wait_short() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.run("MT-1").fails();
    harness.command(Command::Retry(id("MT-1")));
    harness.settle();
    assert_eq!(harness.starts(), ["MT-1 attempt 1"]);
}

#[test]
fn rule_4_7_a_command_for_an_unknown_issue_says_so() {
    let mut harness = Harness::new();
    harness.settle();
    harness.notices();
    harness.command(Command::Stop(id("MT-1")));
    harness.command(Command::Retry(id("MT-1")));
    let notices = harness.notices();
    let ignored = |what: &&NoticeKind| matches!(what, NoticeKind::CommandIgnored { .. });
    assert_eq!(notices.iter().filter(ignored).count(), 2);
    assert_eq!(harness.reads(), NONE);
}

#[test]
fn rule_4_7_a_running_issue_cannot_be_retried() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.notices();
    harness.command(Command::Retry(id("MT-1")));
    let ignored = |what: &NoticeKind| matches!(what, NoticeKind::CommandIgnored { .. });
    assert!(harness.notices().iter().any(ignored));
    assert_eq!(harness.stage("MT-1"), Stage::Running);
}

#[test]
fn rule_4_7_a_manual_poll_asks_for_no_candidates_when_none_can_start() {
    let mut harness = Harness::with(|setup| {
        setup.slots(1);
    });
    harness.works_on([issue("MT-1")]);
    harness.command(Command::PollNow);
    assert_eq!(harness.reads(), ["refresh MT-1"]);

    let mut harness = Harness::new();
    harness.settle();
    harness.file_breaks("agent.max_turns");
    harness.command(Command::PollNow);
    assert_eq!(harness.reads(), NONE);
}
