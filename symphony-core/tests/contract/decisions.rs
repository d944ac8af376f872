//! Contract 4.7: what an operator decided survives a restart, clean or not.

use symphony_core::Label;
use symphony_core::orchestrator::{BlockReason, Command, Decisions};
use symphony_core::snapshot::Reason;

use crate::harness::{Draft, Harness, NONE, Stage, id, issue};

/// Another life, with what the last one saved.
fn restarted(harness: &mut Harness) -> Harness {
    let saved = harness.saves().pop().expect("something was saved");
    Harness::with(|setup| {
        setup.restored.boot = 8;
        setup.restored.decisions = saved.decisions;
    })
}

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
    let mut next = restarted(&mut harness);
    assert!(next.snapshot().paused);
    next.board([issue("MT-1")]);
    next.live(60_000);
    assert_eq!((next.starts(), next.reason("MT-1")), (vec![], Reason::Paused));
    next.command(Command::Resume);
    let decisions = next.saves().pop().expect("a save").decisions;
    assert_eq!(decisions, Decisions::default());
}

#[test]
fn rule_4_7_an_operators_stop_survives_a_restart() {
    let mut harness = stopped_by_operator();
    let since = harness.blocked("MT-1").since.wall;
    let mut next = restarted(&mut harness);
    let row = next.blocked("MT-1");
    assert_eq!((row.why, row.since.wall), (BlockReason::Operator, since));
    assert_eq!(row.issue.description, None, "what an issue says stays in the tracker");
    next.board([issue("MT-1")]);
    next.live(3_600_000);
    assert_eq!((next.starts(), next.stage("MT-1")), (vec![], Stage::Blocked));
    next.command(Command::Retry(id("MT-1")));
    next.settle();
    assert_eq!(next.starts(), ["MT-1 attempt 1"]);
    let decisions = next.saves().pop().expect("a save").decisions;
    assert_eq!(decisions, Decisions::default());
}

#[test]
fn rule_4_7_a_stop_that_is_under_way_survives_a_kill() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.command(Command::Stop(id("MT-1")));
    let next = restarted(&mut harness);
    assert_eq!(next.stage("MT-1"), Stage::Blocked);
}

#[test]
fn rule_4_7_a_clean_end_keeps_what_was_decided() {
    let mut harness = stopped_by_operator();
    harness.command(Command::ShutDown);
    harness.command(Command::Stop(id("MT-1")));
    let next = restarted(&mut harness);
    assert_eq!(next.stage("MT-1"), Stage::Blocked);
}

#[test]
fn rule_4_7_another_state_ends_a_stop_also_while_the_service_was_down() {
    let mut harness = stopped_by_operator();
    let mut next = restarted(&mut harness);
    next.board([issue("MT-1").state("In Progress")]);
    next.settle();
    assert_eq!(next.starts(), ["MT-1 attempt 1"]);

    let mut next = Harness::with(|setup| {
        setup.restored.decisions = stopped_by_operator().saves().pop().unwrap().decisions;
    });
    next.board([issue("MT-1").state("Review")]);
    next.settle();
    assert_eq!((next.starts(), next.stage("MT-1")), (vec![], Stage::Unclaimed));
}

#[test]
fn rule_4_7_a_stop_that_was_never_read_is_read_first() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.command(Command::Stop(id("MT-1")));
    let mut next = restarted(&mut harness);
    // The agent had moved its issue just before: that is not a person's change of state.
    next.board([issue("MT-1").state("In Progress")]);
    next.settle();
    assert_eq!((next.starts(), next.stage("MT-1")), (vec![], Stage::Blocked));
    next.board([issue("MT-1")]);
    next.live(30_000);
    assert_eq!(next.starts(), ["MT-1"]);
}

#[test]
fn rule_4_7_what_an_agent_asked_is_not_an_operators_decision() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.run("MT-1").asks("Which door?");
    assert_eq!(harness.saves().pop().expect("a save").decisions, Decisions::default());
    assert_eq!(harness.starts(), NONE);
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
        assert_eq!(harness.saves().pop().expect("a save").decisions.stopped.len(), 1);
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
    let decisions = harness.saves().pop().expect("a save").decisions;
    let stopped: Vec<_> = decisions.stopped.iter().map(|stopped| &stopped.issue.id).collect();
    assert_eq!((decisions.paused, stopped), (true, vec![&id("MT-1"), &id("MT-2")]));
}
