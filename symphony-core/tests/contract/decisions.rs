//! Contract 4.7: what an operator decided survives a restart, clean or not.

use symphony_core::Label;
use symphony_core::orchestrator::{BlockReason, Command, Decisions};
use symphony_core::snapshot::Reason;

use crate::desk::{Desk, Draft, NONE, Place, id, issue};

/// Another life, with what the last one saved.
fn restarted(desk: &mut Desk) -> Desk {
    let saved = desk.saves().pop().expect("something was saved");
    Desk::with(|setup| {
        setup.restored.boot = 8;
        setup.restored.decisions = saved.decisions;
    })
}

fn stopped_by_operator() -> Desk {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.command(Command::Stop(id("MT-1")));
    desk.run("MT-1").stops();
    desk.settle();
    desk
}

#[test]
fn rule_4_7_a_pause_survives_a_restart() {
    let mut desk = Desk::new();
    desk.settle();
    desk.command(Command::Pause);
    let mut next = restarted(&mut desk);
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
    let mut desk = stopped_by_operator();
    let since = desk.blocked("MT-1").since.wall;
    let mut next = restarted(&mut desk);
    let row = next.blocked("MT-1");
    assert_eq!((row.why, row.since.wall), (BlockReason::Operator, since));
    assert_eq!(row.issue.description, None, "what an issue says stays in the tracker");
    next.board([issue("MT-1")]);
    next.live(3_600_000);
    assert_eq!((next.starts(), next.place("MT-1")), (vec![], Place::Blocked));
    next.command(Command::Retry(id("MT-1")));
    next.settle();
    assert_eq!(next.starts(), ["MT-1 attempt 1"]);
    let decisions = next.saves().pop().expect("a save").decisions;
    assert_eq!(decisions, Decisions::default());
}

#[test]
fn rule_4_7_a_stop_that_is_under_way_survives_a_kill() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.command(Command::Stop(id("MT-1")));
    let next = restarted(&mut desk);
    assert_eq!(next.place("MT-1"), Place::Blocked);
}

#[test]
fn rule_4_7_a_clean_end_keeps_what_was_decided() {
    let mut desk = stopped_by_operator();
    desk.command(Command::ShutDown);
    desk.command(Command::Stop(id("MT-1")));
    let next = restarted(&mut desk);
    assert_eq!(next.place("MT-1"), Place::Blocked);
}

#[test]
fn rule_4_7_another_state_ends_a_stop_also_while_nobody_was_there() {
    let mut desk = stopped_by_operator();
    let mut next = restarted(&mut desk);
    next.board([issue("MT-1").state("In Progress")]);
    next.settle();
    assert_eq!(next.starts(), ["MT-1 attempt 1"]);

    let mut next = Desk::with(|setup| {
        setup.restored.decisions = stopped_by_operator().saves().pop().unwrap().decisions;
    });
    next.board([issue("MT-1").state("Review")]);
    next.settle();
    assert_eq!((next.starts(), next.place("MT-1")), (vec![], Place::Unclaimed));
}

#[test]
fn rule_4_7_a_stop_that_was_never_read_is_read_first() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.command(Command::Stop(id("MT-1")));
    let mut next = restarted(&mut desk);
    // The agent had moved its issue just before: that is not a person's change of state.
    next.board([issue("MT-1").state("In Progress")]);
    next.settle();
    assert_eq!((next.starts(), next.place("MT-1")), (vec![], Place::Blocked));
    next.board([issue("MT-1")]);
    next.live(30_000);
    assert_eq!(next.starts(), ["MT-1"]);
}

#[test]
fn rule_4_7_what_an_agent_asked_is_not_an_operators_decision() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.run("MT-1").asks("Which door?");
    assert_eq!(desk.saves().pop().expect("a save").decisions, Decisions::default());
    assert_eq!(desk.starts(), NONE);
}

#[test]
fn rule_4_7_a_stop_outlives_an_issue_that_is_inactive_for_a_while() {
    for stop_first in [true, false] {
        let mut desk = Desk::with(|setup| {
            setup.settings.tracker.required_labels = vec![Label::new("ready")];
        });
        desk.works_on([issue("MT-1").label("ready")]);
        desk.board([issue("MT-1")]);
        desk.live(30_000);
        assert_eq!(desk.told(), ["stop MT-1: NotActive"]);
        if stop_first {
            desk.command(Command::Stop(id("MT-1")));
        }
        desk.board([issue("MT-1").label("ready")]);
        desk.live(30_000);
        if !stop_first {
            desk.command(Command::Stop(id("MT-1")));
        }
        assert_eq!(desk.saves().pop().expect("a save").decisions.stopped.len(), 1);
        desk.run("MT-1").stops();
        desk.live(60_000);
        assert_eq!((desk.starts(), desk.place("MT-1")), (vec![], Place::Blocked));
    }
}

#[test]
fn rule_4_7_what_is_decided_while_the_service_drains_is_saved() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1"), issue("MT-2")]);
    desk.command(Command::Stop(id("MT-2")));
    desk.run("MT-2").stops();
    desk.command(Command::ShutDown);
    desk.command(Command::Stop(id("MT-1")));
    desk.command(Command::Pause);
    let decisions = desk.saves().pop().expect("a save").decisions;
    let stopped: Vec<_> = decisions.stopped.iter().map(|stopped| &stopped.issue.id).collect();
    assert_eq!((decisions.paused, stopped), (true, vec![&id("MT-1"), &id("MT-2")]));
}
