//! Contract 14.2, as far as the core decides: the service drains.

use symphony_core::orchestrator::{Command, Happened, RunEnd};

use crate::desk::{Desk, Draft, NONE, Place, id, issue};

#[test]
fn rule_14_2_everything_is_stopped_and_nothing_new_begins() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1"), issue("MT-2"), issue("MT-3")]);
    desk.run("MT-2").fails();
    desk.run("MT-3").asks("Which door?");
    desk.board([issue("MT-4")]);
    desk.command(Command::ShutDown);
    assert_eq!(desk.told(), ["stop MT-1: ShutDown"]);
    let snapshot = desk.snapshot();
    assert!(snapshot.shutting_down);
    assert!(snapshot.waiting.is_empty() && snapshot.blocked.is_empty());
    assert!(!desk.is_drained());
    desk.asked();
    desk.live(600_000);
    assert_eq!(desk.asked(), NONE);
    desk.run("MT-1").stops();
    assert!(desk.is_drained());
    assert_eq!(desk.told(), NONE);
}

#[test]
fn rule_14_2_removals_under_way_may_finish() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.board([issue("MT-1").state("Done")]);
    desk.ends_normally("MT-1");
    desk.command(Command::ShutDown);
    assert!(!desk.is_drained());
    desk.removed("MT-1");
    assert!(desk.is_drained());
}

#[test]
fn rule_14_2_whatever_a_run_says_when_it_ends_nothing_follows() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1"), issue("MT-2"), issue("MT-3")]);
    desk.run("MT-1").turn_ends();
    desk.command(Command::ShutDown);
    desk.run("MT-1").ends(RunEnd::Cancelled);
    desk.run("MT-2").fails();
    desk.run("MT-3").asks("Which door?");
    for name in ["MT-1", "MT-2", "MT-3"] {
        assert_eq!(desk.place(name), Place::Unclaimed);
    }
    assert!(desk.is_drained());
    assert_eq!(desk.removals(), NONE);
}

#[test]
fn rule_14_2_commands_and_answers_start_nothing_any_more() {
    let mut desk = Desk::new();
    desk.board([issue("MT-2")]);
    desk.works_on([issue("MT-1")]);
    desk.run("MT-1").fails();
    desk.advance(10_000);
    assert_eq!(desk.reads(), ["read MT-1"]);
    desk.command(Command::ShutDown);
    desk.command(Command::ShutDown);
    desk.command(Command::PollNow);
    desk.command(Command::Resume);
    desk.command(Command::Retry(id("MT-1")));
    desk.reloads(|_| ());
    desk.settle();
    desk.asked();
    desk.live(600_000);
    assert_eq!(desk.asked(), NONE);
    assert_eq!(desk.starts(), NONE);
    assert_eq!(desk.told(), ["stop MT-2: ShutDown"], "once");
    let told = |what: &&Happened| **what == Happened::ShuttingDown;
    assert_eq!(desk.notices().iter().filter(told).count(), 1);
}

#[test]
fn rule_14_2_a_run_that_is_being_stopped_is_not_stopped_again() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.board([issue("MT-1").state("Done")]);
    desk.live(30_000);
    assert_eq!(desk.told(), ["stop MT-1: Terminal"]);
    desk.command(Command::ShutDown);
    assert_eq!(desk.told(), NONE);
}

#[test]
fn rule_14_2_an_idle_service_is_drained_at_once() {
    let mut desk = Desk::new();
    desk.settle();
    desk.command(Command::ShutDown);
    assert!(desk.is_drained());
}
