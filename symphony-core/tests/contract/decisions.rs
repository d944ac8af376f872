//! Contract 4.7: what an operator decided survives a restart, clean or not.

use symphony_core::Label;
use symphony_core::orchestrator::{BlockReason, Command};
use symphony_core::snapshot::Reason;
use symphony_core::store::ClaimStage;

use crate::harness::{Draft, Harness, Stage, id, issue};

fn stopped_by_operator() -> Harness {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.command(Command::Stop(id("MT-1")));
    harness.run("MT-1").stops();
    harness.settle();
    harness
}

#[test]
fn rule_4_7_a_pause_survives_a_restart() {
    let mut harness = Harness::new();
    harness.settle();
    harness.command(Command::Pause);
    let mut next = harness.restarted(60_000);
    assert!(next.snapshot().paused);
    next.board([issue("MT-1")]);
    next.live(60_000);
    assert_eq!((next.starts(), next.reason("MT-1")), (vec![], Reason::Paused));
    next.command(Command::Resume);
    assert!(!next.rows().operator.paused);
}

#[test]
fn rule_4_7_an_operators_stop_survives_a_restart() {
    let harness = stopped_by_operator();
    let since = harness.blocked("MT-1").since.wall;
    let mut next = harness.restarted(60_000);
    let row = next.blocked("MT-1");
    assert_eq!((row.why, row.since.wall), (BlockReason::Operator, since));
    assert_eq!(row.issue.description, None, "what an issue says stays in the tracker");
    next.board([issue("MT-1")]);
    next.live(3_600_000);
    assert_eq!((next.starts(), next.stage("MT-1")), (vec![], Stage::Blocked));
    next.command(Command::Retry(id("MT-1")));
    next.settle();
    assert_eq!(next.starts(), ["MT-1 attempt 1"]);
    assert_eq!(next.rows().claims[0].stage, ClaimStage::Running);
}

#[test]
fn rule_4_7_a_stop_that_is_under_way_survives_a_kill() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.command(Command::Stop(id("MT-1")));
    let next = harness.restarted(60_000);
    assert_eq!(next.stage("MT-1"), Stage::Blocked);
}

#[test]
fn rule_4_7_a_clean_end_keeps_what_was_decided() {
    let mut harness = stopped_by_operator();
    harness.command(Command::ShutDown);
    harness.command(Command::Stop(id("MT-1")));
    let next = harness.restarted(60_000);
    assert_eq!(next.stage("MT-1"), Stage::Blocked);
}

#[test]
fn rule_4_7_another_state_ends_a_stop_also_while_the_service_was_down() {
    let harness = stopped_by_operator();
    let mut next = harness.restarted(60_000);
    next.board([issue("MT-1").state("In Progress")]);
    next.settle();
    assert_eq!(next.starts(), ["MT-1 attempt 1"]);

    let mut next = harness.restarted(60_000);
    next.board([issue("MT-1").state("Review")]);
    next.settle();
    assert_eq!((next.starts(), next.stage("MT-1")), (vec![], Stage::Unclaimed));
}

#[test]
fn rule_4_7_a_stop_that_was_never_read_is_read_first() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.command(Command::Stop(id("MT-1")));
    let mut next = harness.restarted(60_000);
    // The agent had moved its issue just before: that is not a person's change of state.
    next.board([issue("MT-1").state("In Progress")]);
    next.settle();
    assert_eq!((next.starts(), next.stage("MT-1")), (vec![], Stage::Blocked));
    next.board([issue("MT-1")]);
    next.live(30_000);
    assert_eq!(next.starts(), ["MT-1"]);
}

#[test]
fn rule_4_7_a_stop_outlives_an_issue_that_is_inactive_for_a_while() {
    for stop_first in [true, false] {
        let mut harness = Harness::with(|setup| {
            setup.settings.tracker.required_labels = vec![Label::new("ready")];
        });
        harness.works_on([issue("MT-1").label("ready")]);
        harness.board([issue("MT-1")]);
        harness.live(30_000);
        assert_eq!(harness.told(), ["stop MT-1: NotActive"]);
        if stop_first {
            harness.command(Command::Stop(id("MT-1")));
        }
        harness.board([issue("MT-1").label("ready")]);
        harness.live(30_000);
        if !stop_first {
            harness.command(Command::Stop(id("MT-1")));
        }
        assert_eq!(harness.rows().claims[0].stage, ClaimStage::Blocked);
        harness.run("MT-1").stops();
        harness.live(60_000);
        assert_eq!((harness.starts(), harness.stage("MT-1")), (vec![], Stage::Blocked));
    }
}

#[test]
fn rule_4_7_what_is_decided_while_the_service_drains_is_saved() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1"), issue("MT-2")]);
    harness.command(Command::Stop(id("MT-2")));
    harness.run("MT-2").stops();
    harness.command(Command::ShutDown);
    harness.command(Command::Stop(id("MT-1")));
    harness.command(Command::Pause);
    let rows = harness.rows();
    let stages: Vec<_> = rows.claims.iter().map(|row| (&row.issue.id, row.stage)).collect();
    let (first, second) = (id("MT-1"), id("MT-2"));
    let blocked = ClaimStage::Blocked;
    assert_eq!((rows.operator.paused, stages), (true, vec![(&first, blocked), (&second, blocked)]));
}
