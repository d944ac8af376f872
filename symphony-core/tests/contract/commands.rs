//! Contract 4.7: what an operator can do.

use symphony_core::orchestrator::{Command, Happened};
use symphony_core::snapshot::Reason;

use crate::desk::{Desk, Draft, NONE, Place, id, issue};

#[test]
fn rule_4_7_a_manual_poll_goes_at_once() {
    let mut desk = Desk::new();
    desk.settle();
    desk.advance(1_000);
    desk.command(Command::PollNow);
    assert_eq!(desk.reads(), ["poll"]);
}

#[test]
fn rule_4_7_several_manual_polls_are_one() {
    let mut desk = Desk::new();
    desk.settle();
    desk.asked();
    for _ in 0..5 {
        desk.command(Command::PollNow);
    }
    assert_eq!(desk.reads(), ["poll"]);
    desk.live(1_000);
    assert!(desk.asked().len() <= 2);
}

#[test]
fn rule_4_7_while_paused_nothing_starts_and_all_else_goes_on() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1"), issue("MT-2")]);
    desk.command(Command::Pause);
    desk.run("MT-2").fails();
    desk.board([issue("MT-1").state("Done"), issue("MT-3")]);
    desk.live(60_000);
    assert_eq!(desk.starts(), NONE);
    assert_eq!(desk.told(), ["stop MT-1: Terminal"]);
    assert_eq!(desk.reason("MT-3"), Reason::Paused);
    desk.command(Command::Resume);
    desk.live(30_000);
    assert_eq!(desk.starts(), ["MT-2 attempt 1", "MT-3"]);
}

#[test]
fn rule_4_7_a_pause_also_holds_what_is_being_read() {
    let mut desk = Desk::new();
    desk.board([issue("MT-1")]);
    desk.answer();
    assert_eq!(desk.reads(), ["read MT-1"]);
    desk.command(Command::Pause);
    desk.answer();
    assert_eq!(desk.starts(), NONE);
    desk.command(Command::Resume);
    desk.live(30_000);
    assert_eq!(desk.starts(), ["MT-1"]);
}

#[test]
fn rule_4_7_an_operator_stops_a_run_and_the_issue_stays_blocked() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.command(Command::Stop(id("MT-1")));
    assert_eq!(desk.told(), ["stop MT-1: Operator"]);
    assert_eq!(desk.place("MT-1"), Place::Stopping);
    desk.run("MT-1").stops();
    assert_eq!(desk.place("MT-1"), Place::Blocked);
    desk.live(3_600_000);
    assert_eq!(desk.place("MT-1"), Place::Blocked);
    assert_eq!(desk.starts(), NONE);
}

#[test]
fn rule_4_7_a_stopped_issue_goes_on_when_the_operator_says_so() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.command(Command::Stop(id("MT-1")));
    desk.run("MT-1").stops();
    desk.settle();
    desk.command(Command::Retry(id("MT-1")));
    assert_eq!(desk.reads(), ["read MT-1"]);
    desk.answer();
    assert_eq!(desk.starts(), ["MT-1 attempt 1"]);
}

#[test]
fn rule_4_7_a_stopped_issue_goes_on_when_its_state_changes() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.command(Command::Stop(id("MT-1")));
    desk.run("MT-1").stops();
    assert_eq!(desk.reads(), ["refresh MT-1"], "in which state it is left");
    desk.settle();
    desk.board([issue("MT-1").state("In Progress")]);
    desk.live(30_000);
    assert_eq!(desk.starts(), ["MT-1 attempt 1"]);
}

#[test]
fn rule_4_7_an_operator_stops_a_waiting_issue_too() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.run("MT-1").fails();
    desk.command(Command::Stop(id("MT-1")));
    assert_eq!(desk.place("MT-1"), Place::Blocked);
    desk.live(600_000);
    assert_eq!(desk.starts(), NONE);
}

#[test]
fn rule_4_7_an_operator_can_cut_a_wait_short() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.run("MT-1").fails();
    desk.command(Command::Retry(id("MT-1")));
    desk.settle();
    assert_eq!(desk.starts(), ["MT-1 attempt 1"]);
}

#[test]
fn rule_4_7_a_command_for_an_unknown_issue_says_so() {
    let mut desk = Desk::new();
    desk.settle();
    desk.notices();
    desk.command(Command::Stop(id("MT-1")));
    desk.command(Command::Retry(id("MT-1")));
    let notices = desk.notices();
    let ignored = |what: &&Happened| matches!(what, Happened::CommandIgnored { .. });
    assert_eq!(notices.iter().filter(ignored).count(), 2);
    assert_eq!(desk.reads(), NONE);
}

#[test]
fn rule_4_7_a_running_issue_cannot_be_retried() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.notices();
    desk.command(Command::Retry(id("MT-1")));
    let ignored = |what: &Happened| matches!(what, Happened::CommandIgnored { .. });
    assert!(desk.notices().iter().any(ignored));
    assert_eq!(desk.place("MT-1"), Place::Running);
}

#[test]
fn rule_4_7_a_manual_poll_asks_for_no_candidates_when_none_can_start() {
    let mut desk = Desk::with(|setup| {
        setup.slots(1);
    });
    desk.works_on([issue("MT-1")]);
    desk.command(Command::PollNow);
    assert_eq!(desk.reads(), ["refresh MT-1"]);

    let mut desk = Desk::new();
    desk.settle();
    desk.file_breaks("agent.max_turns");
    desk.command(Command::PollNow);
    assert_eq!(desk.reads(), NONE);
}
