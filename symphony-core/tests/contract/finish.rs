//! Contract 6.4 and 8.2: an agent that moves its own issue may end its turn, and a run is booked by
//! what became of its issue.

use symphony_core::agent::{AgentErrorKind, AgentUpdate};
use symphony_core::orchestrator::{Command, Happened, Outcome, StopReason};
use symphony_core::{StateKind, StateSet};

use crate::desk::{Desk, Draft, NONE, Place, id, issue};

const CHANGED: AgentUpdate = AgentUpdate::ToolEnded { changed_issue: true };
const READ_ONLY: AgentUpdate = AgentUpdate::ToolEnded { changed_issue: false };

fn working() -> Desk {
    let mut desk = Desk::with(|setup| setup.settings.agent.common.stall_timeout = None);
    desk.works_on([issue("MT-1")]);
    desk.notices();
    desk
}

/// The agent moves its issue with a tool, and a refresh sees it.
fn moved_by_its_agent(state: &str) -> Desk {
    let mut desk = working();
    desk.run("MT-1").says(AgentUpdate::ToolBegan).says(CHANGED);
    desk.board([issue("MT-1").state(state)]);
    desk.live(30_000);
    desk
}

fn outcomes(desk: &mut Desk) -> Vec<Outcome> {
    let ended = |what| match what {
        Happened::Ended { outcome, .. } => Some(outcome),
        _ => None,
    };
    desk.notices().into_iter().filter_map(ended).collect()
}

// The grace.

#[test]
fn rule_8_2_an_agent_that_moved_its_issue_may_end_its_turn() {
    let mut desk = moved_by_its_agent("Done");
    assert_eq!(desk.told(), NONE, "not stopped");
    assert_eq!(desk.running("MT-1").finish_by, Some(desk.after(60_000)));
    desk.live(59_000);
    assert_eq!(desk.told(), NONE, "further reads change nothing");
    desk.turn_ends("MT-1");
    assert_eq!(desk.told(), ["finish MT-1"]);
    desk.run("MT-1").ends_well();
    assert_eq!(desk.removals(), ["MT-1"]);
    assert_eq!(outcomes(&mut desk), [Outcome::Done]);
}

#[test]
fn rule_8_2_a_turn_that_outlives_its_grace_is_stopped() {
    for (state, why) in [("Done", StopReason::Terminal), ("Review", StopReason::NotActive)] {
        let mut desk = moved_by_its_agent(state);
        assert_eq!(desk.told(), NONE);
        desk.live(60_000);
        assert_eq!(desk.told(), [format!("stop MT-1: {why:?}")]);
        desk.run("MT-1").stops();
        let removals: &[&str] = if state == "Done" { &["MT-1"] } else { &[] };
        assert_eq!(desk.removals(), removals);
    }
}

#[test]
fn rule_8_2_a_move_by_somebody_else_stops_at_once() {
    let mut desk = working();
    desk.run("MT-1").says(AgentUpdate::ToolBegan).says(READ_ONLY);
    desk.board([issue("MT-1").state("Done")]);
    desk.live(30_000);
    assert_eq!(desk.told(), ["stop MT-1: Terminal"]);
}

#[test]
fn rule_8_2_a_change_of_an_earlier_turn_gives_no_grace() {
    let mut desk = working();
    desk.run("MT-1").says(AgentUpdate::ToolBegan).says(CHANGED);
    desk.turn_ends("MT-1");
    assert_eq!(desk.told(), ["next turn MT-1: 2"]);
    desk.board([issue("MT-1").state("Done")]);
    desk.live(30_000);
    assert_eq!(desk.told(), ["stop MT-1: Terminal"]);
}

#[test]
fn rule_8_2_an_open_tool_call_has_the_grace_until_it_says() {
    for (answer, told) in [(CHANGED, &[][..]), (READ_ONLY, &["stop MT-1: Terminal"][..])] {
        let mut desk = working();
        desk.run("MT-1").says(AgentUpdate::ToolBegan);
        desk.board([issue("MT-1").state("Done")]);
        desk.delivered(["MT-1"]);
        desk.live(0);
        assert_eq!(desk.told(), NONE, "the delivery is faster than the tool's answer");
        desk.run("MT-1").says(answer);
        assert_eq!(desk.told(), told);
    }
}

#[test]
fn rule_8_2_operator_stall_and_shutdown_ignore_the_grace() {
    let mut desk = moved_by_its_agent("Done");
    desk.command(Command::Stop(id("MT-1")));
    assert_eq!(desk.told(), ["stop MT-1: Operator"]);
    desk.run("MT-1").stops();
    assert_eq!(desk.removals(), ["MT-1"], "the issue is over all the same");

    let mut desk = moved_by_its_agent("Done");
    desk.command(Command::ShutDown);
    assert_eq!(desk.told(), ["stop MT-1: ShutDown"]);

    let mut desk = moved_by_its_agent("Done");
    desk.reloads(|settings| {
        settings.agent.common.stall_timeout = Some(std::time::Duration::from_secs(40));
    });
    desk.live(10_000);
    assert_eq!(desk.told(), ["stop MT-1: Stalled"]);
    desk.run("MT-1").stops();
    assert_eq!(desk.removals(), ["MT-1"]);
    assert_eq!(outcomes(&mut desk), [Outcome::Stalled]);
}

#[test]
fn rule_8_2_an_issue_that_comes_back_ends_the_grace() {
    let mut desk = moved_by_its_agent("Done");
    desk.board([issue("MT-1")]);
    desk.live(30_000);
    assert_eq!(desk.running("MT-1").finish_by, None);
    desk.live(60_000);
    assert_eq!((desk.told(), desk.place("MT-1")), (vec![], Place::Running));
    desk.turn_ends("MT-1");
    assert_eq!(desk.told(), ["next turn MT-1: 2"]);
}

#[test]
fn rule_8_2_an_issue_that_is_gone_is_stopped_within_the_grace() {
    let mut desk = moved_by_its_agent("Done");
    desk.gone("MT-1");
    desk.live(30_000);
    assert_eq!(desk.told(), ["stop MT-1: Gone"]);
    desk.run("MT-1").stops();
    assert_eq!(
        (desk.removals(), desk.place("MT-1")),
        (vec![], Place::Unclaimed),
        "the folder stays"
    );
}

#[test]
fn rule_8_2_a_failure_within_the_grace_changes_nothing() {
    let mut desk = moved_by_its_agent("Done");
    desk.run("MT-1").fails_as(AgentErrorKind::TurnFailed, None);
    assert_eq!(desk.removals(), ["MT-1"]);
    assert_eq!(outcomes(&mut desk), [Outcome::Done]);

    let mut desk = moved_by_its_agent("Done");
    desk.run("MT-1").asks("Which door?");
    assert_eq!(desk.removals(), ["MT-1"]);
}

#[test]
fn rule_8_2_without_a_grace_every_move_stops_at_once() {
    let mut desk = Desk::with(|setup| {
        setup.settings.agent.finish_grace = std::time::Duration::ZERO;
    });
    desk.works_on([issue("MT-1")]);
    desk.run("MT-1").says(AgentUpdate::ToolBegan).says(CHANGED);
    desk.board([issue("MT-1").state("Done")]);
    desk.live(30_000);
    assert_eq!(desk.told(), ["stop MT-1: Terminal"]);
}

#[test]
fn rule_2_7_a_grace_ends_when_a_reload_makes_the_issue_active() {
    let mut desk = moved_by_its_agent("Done");
    desk.reloads(|settings| {
        settings.tracker.active_states = StateSet::new(["Todo", "In Progress", "Done"]);
        settings.tracker.terminal_states = StateSet::new(["Cancelled"]);
    });
    desk.advance(60_000);
    assert_eq!(desk.told(), NONE, "also while the tracker does not answer");
    assert_eq!(desk.place("MT-1"), Place::Running);
}

// How a run is booked.

#[test]
fn rule_6_4_a_run_is_done_only_if_its_issue_is_completed() {
    let kinds = [
        ("Done", None, Outcome::Done),
        ("Cancelled", None, Outcome::Cancelled),
        ("Done", Some(StateKind::Completed), Outcome::Done),
        ("Cancelled", Some(StateKind::Completed), Outcome::Done),
        ("Done", Some(StateKind::Cancelled), Outcome::Cancelled),
    ];
    for (state, kind, expected) in kinds {
        let mut over = issue("MT-1").state(state);
        over.state_kind = kind;
        let mut desk = working();
        desk.board([over.clone()]);
        desk.turn_ends("MT-1");
        desk.run("MT-1").ends_well();
        assert_eq!(outcomes(&mut desk), [expected], "{state} {kind:?}, at the end of a turn");

        let mut desk = working();
        desk.board([over]);
        desk.live(30_000);
        desk.run("MT-1").stops();
        assert_eq!(outcomes(&mut desk), [expected], "{state} {kind:?}, stopped in its turn");
    }
}

#[test]
fn rule_6_4_a_run_that_used_up_its_turns_is_out_of_turns() {
    let mut desk = Desk::with(|setup| _ = setup.turns(2));
    desk.works_on([issue("MT-1")]);
    desk.turn_ends("MT-1");
    desk.turn_ends("MT-1");
    desk.run("MT-1").ends_well();
    assert_eq!(outcomes(&mut desk), [Outcome::OutOfTurns]);
    let totals = desk.snapshot().totals;
    assert_eq!((totals.out_of_turns, totals.succeeded, totals.done), (1, 0, 0));
}

#[test]
fn rule_6_4_every_other_end_has_its_own_name() {
    let mut desk = working();
    desk.board([issue("MT-1").state("Review")]);
    desk.turn_ends("MT-1");
    desk.run("MT-1").ends_well();
    assert_eq!(outcomes(&mut desk), [Outcome::Succeeded], "handed over");

    let mut desk = working();
    desk.run("MT-1").fails_as(AgentErrorKind::TurnTimeout, None);
    assert_eq!(outcomes(&mut desk), [Outcome::TimedOut]);

    let mut desk = working();
    desk.run("MT-1").fails();
    assert_eq!(outcomes(&mut desk), [Outcome::Failed]);
    assert_eq!(desk.snapshot().totals.failed, 1);

    let mut desk = working();
    desk.board([issue("MT-1").state("Done")]);
    desk.command(Command::Stop(id("MT-1")));
    desk.run("MT-1").stops();
    assert_eq!(outcomes(&mut desk), [Outcome::Cancelled], "an operator's stop");
}
