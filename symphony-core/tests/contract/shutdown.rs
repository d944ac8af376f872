//! Contract 14.2, as far as the core decides: the service drains.

use symphony_core::orchestrator::{Command, NoticeKind, RunEnd};

use crate::harness::{Draft, Harness, NONE, Stage, id, issue};

#[test]
fn rule_14_2_everything_is_stopped_and_nothing_new_begins() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1"), issue("MT-2"), issue("MT-3")]);
    harness.run("MT-2").fails();
    harness.run("MT-3").asks("Which door?");
    harness.board([issue("MT-4")]);
    harness.command(Command::ShutDown);
    assert_eq!(harness.told(), ["stop MT-1: ShutDown"]);
    let snapshot = harness.snapshot();
    assert!(snapshot.shutting_down);
    assert_eq!(harness.stage("MT-2"), Stage::Waiting, "for the next life");
    assert_eq!(harness.stage("MT-3"), Stage::Blocked, "for the next life");
    assert!(!harness.is_drained());
    harness.asked();
    harness.live(600_000);
    assert_eq!(harness.asked(), NONE);
    harness.run("MT-1").stops();
    assert!(harness.is_drained());
    assert_eq!(harness.told(), NONE);
}

#[test]
fn rule_14_2_removals_under_way_may_finish() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.board([issue("MT-1").state("Done")]);
    harness.ends_normally("MT-1");
    harness.command(Command::ShutDown);
    assert!(!harness.is_drained());
    harness.removed("MT-1");
    assert!(harness.is_drained());
}

#[test]
fn rule_14_2_whatever_a_run_says_when_it_ends_nothing_follows() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1"), issue("MT-2"), issue("MT-3")]);
    harness.run("MT-1").turn_ends();
    harness.command(Command::ShutDown);
    harness.run("MT-1").ends(RunEnd::Cancelled);
    harness.run("MT-2").fails();
    harness.run("MT-3").asks("Which door?");
    let stages = ["MT-1", "MT-2", "MT-3"].map(|name| harness.stage(name));
    assert_eq!(stages, [Stage::Waiting, Stage::Waiting, Stage::Blocked]);
    assert_eq!(harness.starts(), NONE);
    assert!(harness.is_drained());
    assert_eq!(harness.removals(), NONE);
}

#[test]
fn rule_14_2_commands_and_answers_start_nothing_any_more() {
    let mut harness = Harness::new();
    harness.board([issue("MT-2")]);
    harness.works_on([issue("MT-1")]);
    harness.run("MT-1").fails();
    harness.advance(10_000);
    assert_eq!(harness.reads(), ["read MT-1"]);
    harness.command(Command::ShutDown);
    harness.command(Command::ShutDown);
    harness.command(Command::PollNow);
    harness.command(Command::Resume);
    harness.command(Command::Retry(id("MT-1")));
    harness.reloads(|_| ());
    harness.settle();
    harness.asked();
    harness.live(600_000);
    assert_eq!(harness.asked(), NONE);
    assert_eq!(harness.starts(), NONE);
    assert_eq!(harness.told(), ["stop MT-2: ShutDown"], "once");
    let told = |what: &&NoticeKind| **what == NoticeKind::ShuttingDown;
    assert_eq!(harness.notices().iter().filter(told).count(), 1);
}

#[test]
fn rule_14_2_a_run_that_is_being_stopped_is_not_stopped_again() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.board([issue("MT-1").state("Done")]);
    harness.live(30_000);
    assert_eq!(harness.told(), ["stop MT-1: Terminal"]);
    harness.command(Command::ShutDown);
    assert_eq!(harness.told(), NONE);
}

#[test]
fn rule_14_2_an_idle_service_is_drained_at_once() {
    let mut harness = Harness::new();
    harness.settle();
    harness.command(Command::ShutDown);
    assert!(harness.is_drained());
}
