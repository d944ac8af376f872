//! Contract 6.4 and 8.2: an agent that moves its own issue may end its turn, and a run is booked by
//! what became of its issue.

use symphony_core::agent::{AgentErrorKind, AgentUpdate};
use symphony_core::orchestrator::{Command, NoticeKind, Outcome, StopReason};
use symphony_core::{StateKind, StateSet};

use crate::harness::{Draft, Harness, NONE, Stage, id, issue};

const CHANGED: AgentUpdate = AgentUpdate::ToolEnded { changed_issue: true };
const READ_ONLY: AgentUpdate = AgentUpdate::ToolEnded { changed_issue: false };

fn working() -> Harness {
    let mut harness = Harness::with(|setup| setup.settings.agent.common.stall_timeout = None);
    harness.works_on([issue("MT-1")]);
    harness.notices();
    harness
}

/// The agent moves its issue with a tool, and a refresh sees it.
fn moved_by_its_agent(state: &str) -> Harness {
    let mut harness = working();
    harness.run("MT-1").says(AgentUpdate::ToolBegan).says(CHANGED);
    harness.board([issue("MT-1").state(state)]);
    harness.live(30_000);
    harness
}

fn outcomes(harness: &mut Harness) -> Vec<Outcome> {
    let ended = |what| match what {
        NoticeKind::Ended { outcome, .. } => Some(outcome),
        _ => None,
    };
    harness.notices().into_iter().filter_map(ended).collect()
}

// The grace.

#[test]
fn rule_8_2_an_agent_that_moved_its_issue_may_end_its_turn() {
    let mut harness = moved_by_its_agent("Done");
    assert_eq!(harness.told(), NONE, "not stopped");
    assert_eq!(harness.running("MT-1").finish_by, Some(harness.after(60_000)));
    harness.live(59_000);
    assert_eq!(harness.told(), NONE, "further reads change nothing");
    harness.turn_ends("MT-1");
    assert_eq!(harness.told(), ["finish MT-1"]);
    harness.run("MT-1").ends_well();
    assert_eq!(harness.removals(), ["MT-1"]);
    assert_eq!(outcomes(&mut harness), [Outcome::Done]);
}

#[test]
fn rule_8_2_a_turn_that_outlives_its_grace_is_stopped() {
    for (state, why) in [("Done", StopReason::Terminal), ("Review", StopReason::NotActive)] {
        let mut harness = moved_by_its_agent(state);
        assert_eq!(harness.told(), NONE);
        harness.live(60_000);
        assert_eq!(harness.told(), [format!("stop MT-1: {why:?}")]);
        harness.run("MT-1").stops();
        let removals: &[&str] = if state == "Done" { &["MT-1"] } else { &[] };
        assert_eq!(harness.removals(), removals);
    }
}

#[test]
fn rule_8_2_a_move_by_a_person_stops_at_once() {
    let mut harness = working();
    harness.run("MT-1").says(AgentUpdate::ToolBegan).says(READ_ONLY);
    harness.board([issue("MT-1").state("Done")]);
    harness.live(30_000);
    assert_eq!(harness.told(), ["stop MT-1: Terminal"]);
}

#[test]
fn rule_8_2_a_change_of_an_earlier_turn_gives_no_grace() {
    let mut harness = working();
    harness.run("MT-1").says(AgentUpdate::ToolBegan).says(CHANGED);
    harness.turn_ends("MT-1");
    assert_eq!(harness.told(), ["next turn MT-1: 2"]);
    harness.board([issue("MT-1").state("Done")]);
    harness.live(30_000);
    assert_eq!(harness.told(), ["stop MT-1: Terminal"]);
}

#[test]
fn rule_8_2_an_open_tool_call_has_the_grace_until_it_says() {
    for (answer, told) in [(CHANGED, &[][..]), (READ_ONLY, &["stop MT-1: Terminal"][..])] {
        let mut harness = working();
        harness.run("MT-1").says(AgentUpdate::ToolBegan);
        harness.board([issue("MT-1").state("Done")]);
        harness.delivered(["MT-1"]);
        harness.live(0);
        assert_eq!(harness.told(), NONE, "the delivery is faster than the tool's answer");
        harness.run("MT-1").says(answer);
        assert_eq!(harness.told(), told);
    }
}

#[test]
fn rule_8_2_operator_stall_and_shutdown_ignore_the_grace() {
    let mut harness = moved_by_its_agent("Done");
    harness.command(Command::Stop(id("MT-1")));
    assert_eq!(harness.told(), ["stop MT-1: Operator"]);
    harness.run("MT-1").stops();
    assert_eq!(harness.removals(), ["MT-1"], "the issue is over all the same");

    let mut harness = moved_by_its_agent("Done");
    harness.command(Command::ShutDown);
    assert_eq!(harness.told(), ["stop MT-1: ShutDown"]);

    let mut harness = moved_by_its_agent("Done");
    harness.reloads(|settings| {
        settings.agent.common.stall_timeout = Some(std::time::Duration::from_secs(40));
    });
    harness.live(10_000);
    assert_eq!(harness.told(), ["stop MT-1: Stalled"]);
    harness.run("MT-1").stops();
    assert_eq!(harness.removals(), ["MT-1"]);
    assert_eq!(outcomes(&mut harness), [Outcome::Stalled]);
}

#[test]
fn rule_8_2_an_issue_that_comes_back_ends_the_grace() {
    let mut harness = moved_by_its_agent("Done");
    harness.board([issue("MT-1")]);
    harness.live(30_000);
    assert_eq!(harness.running("MT-1").finish_by, None);
    harness.live(60_000);
    assert_eq!((harness.told(), harness.stage("MT-1")), (vec![], Stage::Running));
    harness.turn_ends("MT-1");
    assert_eq!(harness.told(), ["next turn MT-1: 2"]);
}

#[test]
fn rule_8_2_an_issue_that_is_gone_is_stopped_within_the_grace() {
    let mut harness = moved_by_its_agent("Done");
    harness.delete("MT-1");
    harness.live(30_000);
    assert_eq!(harness.told(), ["stop MT-1: Gone"]);
    harness.run("MT-1").stops();
    assert_eq!(
        (harness.removals(), harness.stage("MT-1")),
        (vec![], Stage::Unclaimed),
        "the folder stays"
    );
}

#[test]
fn rule_8_2_a_failure_within_the_grace_changes_nothing() {
    let mut harness = moved_by_its_agent("Done");
    harness.run("MT-1").fails_as(AgentErrorKind::TurnFailed, None);
    assert_eq!(harness.removals(), ["MT-1"]);
    assert_eq!(outcomes(&mut harness), [Outcome::Done]);

    let mut harness = moved_by_its_agent("Done");
    harness.run("MT-1").asks("Which door?");
    assert_eq!(harness.removals(), ["MT-1"]);
}

#[test]
fn rule_8_2_without_a_grace_every_move_stops_at_once() {
    let mut harness = Harness::with(|setup| {
        setup.settings.agent.finish_grace = std::time::Duration::ZERO;
    });
    harness.works_on([issue("MT-1")]);
    harness.run("MT-1").says(AgentUpdate::ToolBegan).says(CHANGED);
    harness.board([issue("MT-1").state("Done")]);
    harness.live(30_000);
    assert_eq!(harness.told(), ["stop MT-1: Terminal"]);
}

#[test]
fn rule_2_7_a_grace_ends_when_a_reload_makes_the_issue_active() {
    let mut harness = moved_by_its_agent("Done");
    harness.reloads(|settings| {
        settings.tracker.active_states = StateSet::new(["Todo", "In Progress", "Done"]);
        settings.tracker.terminal_states = StateSet::new(["Cancelled"]);
    });
    harness.advance(60_000);
    assert_eq!(harness.told(), NONE, "also while the tracker does not answer");
    assert_eq!(harness.stage("MT-1"), Stage::Running);
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
        let mut harness = working();
        harness.board([over.clone()]);
        harness.turn_ends("MT-1");
        harness.run("MT-1").ends_well();
        assert_eq!(outcomes(&mut harness), [expected], "{state} {kind:?}, at the end of a turn");

        let mut harness = working();
        harness.board([over]);
        harness.live(30_000);
        harness.run("MT-1").stops();
        assert_eq!(outcomes(&mut harness), [expected], "{state} {kind:?}, stopped in its turn");
    }
}

#[test]
fn rule_6_4_a_run_that_used_up_its_turns_is_out_of_turns() {
    let mut harness = Harness::with(|setup| _ = setup.turns(2));
    harness.works_on([issue("MT-1")]);
    harness.turn_ends("MT-1");
    harness.turn_ends("MT-1");
    harness.run("MT-1").ends_well();
    assert_eq!(outcomes(&mut harness), [Outcome::OutOfTurns]);
    let totals = harness.snapshot().totals;
    assert_eq!((totals.out_of_turns, totals.succeeded, totals.done), (1, 0, 0));
}

#[test]
fn rule_6_4_every_other_end_has_its_own_name() {
    let mut harness = working();
    harness.board([issue("MT-1").state("Review")]);
    harness.turn_ends("MT-1");
    harness.run("MT-1").ends_well();
    assert_eq!(outcomes(&mut harness), [Outcome::Succeeded], "handed over");

    let mut harness = working();
    harness.run("MT-1").fails_as(AgentErrorKind::TurnTimeout, None);
    assert_eq!(outcomes(&mut harness), [Outcome::TimedOut]);

    let mut harness = working();
    harness.run("MT-1").fails();
    assert_eq!(outcomes(&mut harness), [Outcome::Failed]);
    assert_eq!(harness.snapshot().totals.failed, 1);

    let mut harness = working();
    harness.board([issue("MT-1").state("Done")]);
    harness.command(Command::Stop(id("MT-1")));
    harness.run("MT-1").stops();
    assert_eq!(outcomes(&mut harness), [Outcome::Cancelled], "an operator's stop");
}
