//! Contract section 5: what may start, and in which order.

use symphony_core::orchestrator::Command;
use symphony_core::settings::HostLimit;
use symphony_core::snapshot::Reason;
use symphony_core::{Blocker, HostId, Issue, Label, StateKind};

use crate::harness::{Draft, Harness, NONE, Stage, id, issue, name, record};

/// Why this issue, alone on the board, is not even read before a start.
fn refusal(harness: &mut Harness, issue: Issue) -> Reason {
    let name = name(&issue.id);
    // Put into the list as it is: a tracker may well answer more than it was asked for.
    harness.answer_but(|answer| {
        let list = answer.candidates.as_mut().unwrap().as_mut().unwrap();
        list.issues.push(issue);
    });
    assert_eq!(harness.reads(), NONE);
    harness.reason(&name)
}

fn starts_alone(issue: Issue) -> bool {
    let mut harness = Harness::new();
    harness.board([issue]);
    harness.settle();
    !harness.starts().is_empty()
}

// 5.1

#[test]
fn rule_5_1_an_active_routable_unclaimed_issue_starts() {
    assert!(starts_alone(issue("MT-1")));
    assert!(starts_alone(issue("MT-1").state(" in PROGRESS ")));
}

#[test]
fn rule_5_1_an_issue_without_its_required_fields_does_not_start() {
    let reason = refusal(&mut Harness::new(), issue("MT-1").titled("  "));
    assert_eq!(reason, Reason::Malformed);
}

#[test]
fn rule_5_1_an_issue_whose_identifier_names_no_folder_does_not_start() {
    let reason = refusal(&mut Harness::new(), issue("MT-1").called(".."));
    assert_eq!(reason, Reason::InvalidIdentifier);
}

#[test]
fn rule_5_1_an_issue_in_another_state_does_not_start() {
    let reason = refusal(&mut Harness::new(), issue("MT-1").state("Backlog"));
    assert_eq!(reason, Reason::NotActive("Backlog".into()));
}

#[test]
fn rule_5_1_a_state_that_is_active_and_terminal_is_terminal() {
    let mut harness = Harness::with(|setup| {
        setup.settings.tracker.terminal_states = symphony_core::StateSet::new(["todo"]);
    });
    let reason = refusal(&mut harness, issue("MT-1"));
    assert_eq!(reason, Reason::Terminal("Todo".into()));
}

#[test]
fn rule_5_1_an_issue_that_the_adapter_refuses_does_not_start() {
    let reason = refusal(&mut Harness::new(), issue("MT-1").undispatchable());
    assert_eq!(reason, Reason::NotDispatchable(None));
}

#[test]
fn rule_5_1_every_required_label_must_be_there() {
    let labelled = || {
        Harness::with(|setup| {
            let labels = [" Agent ", "ready"].map(Label::new);
            setup.settings.tracker.required_labels = labels.into();
        })
    };
    let reason = refusal(&mut labelled(), issue("MT-1").label("AGENT"));
    assert_eq!(reason, Reason::MissingLabel(Label::new("ready")));
    let mut harness = labelled();
    harness.board([issue("MT-1").label("AGENT").label("Ready")]);
    harness.settle();
    assert_eq!(harness.starts(), ["MT-1"]);
}

#[test]
fn rule_5_1_a_blank_required_label_matches_nothing() {
    let mut harness = Harness::with(|setup| {
        setup.settings.tracker.required_labels = vec![Label::new(" ")];
    });
    let reason = refusal(&mut harness, issue("MT-1").label("x"));
    assert_eq!(reason, Reason::MissingLabel(Label::new("")));
}

#[test]
fn rule_5_1_a_claimed_issue_does_not_start_again() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.live(600_000);
    assert_eq!(harness.starts(), NONE);
}

#[test]
fn rule_5_1_a_workspace_key_serves_one_claim_also_where_case_does_not_count() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.board([issue("MT-2").called("mt-1")]);
    harness.live(30_000);
    assert_eq!(harness.starts(), NONE);
    assert_eq!(harness.reason("MT-2"), Reason::WorkspaceHeld(id("MT-1")));
}

#[test]
fn rule_5_1_two_issues_of_one_list_never_share_a_workspace_key() {
    let mut harness = Harness::new();
    harness.board([issue("MT-1").called("door"), issue("MT-2").called("Door")]);
    harness.settle();
    assert_eq!(harness.starts().len(), 1);
}

#[test]
fn rule_5_1_there_must_be_a_slot() {
    let mut harness = Harness::with(|setup| {
        setup.slots(2);
    });
    harness.board([issue("MT-1"), issue("MT-2"), issue("MT-3")]);
    harness.settle();
    assert_eq!(harness.starts(), ["MT-1", "MT-2"]);
    assert_eq!(harness.reason("MT-3"), Reason::NoSlot);
}

#[test]
fn rule_5_1_there_must_be_a_slot_for_its_state() {
    let mut harness = Harness::with(|setup| {
        setup.state_slots("in progress", 1);
    });
    harness.board([
        issue("MT-1").state("In Progress"),
        issue("MT-2").state("In Progress"),
        issue("MT-3"),
    ]);
    harness.settle();
    assert_eq!(harness.starts(), ["MT-1", "MT-3"]);
    assert_eq!(harness.reason("MT-2"), Reason::StateSlot("In Progress".into()));
}

#[test]
fn rule_5_1_state_slots_follow_the_tracked_state_of_live_runs() {
    let mut harness = Harness::with(|setup| {
        setup.state_slots("Todo", 1);
    });
    harness.works_on([issue("MT-1")]);
    harness.board([issue("MT-1").state("In Progress"), issue("MT-2")]);
    harness.live(30_000);
    assert_eq!(harness.starts(), ["MT-2"]);
}

fn two_hosts() -> Harness {
    Harness::with(|setup| {
        setup.settings.hosts =
            ["east", "west"].map(|id| HostLimit { id: HostId::from(id), max_agents: 1 }).into();
        let mut far = record("MT-9");
        far.host = HostId::from("west");
        setup.left_behind(far);
    })
}

#[test]
fn rule_5_1_where_hosts_are_configured_there_must_be_a_host_slot() {
    let mut harness = two_hosts();
    harness.board([issue("MT-1"), issue("MT-2"), issue("MT-3")]);
    harness.settle();
    let hosts: Vec<_> = harness.started().into_iter().map(|start| start.host).collect();
    assert_eq!(hosts.len(), 2);
    assert_ne!(hosts[0], hosts[1]);
    assert_eq!(harness.stage("MT-3"), Stage::Unclaimed);
}

#[test]
fn rule_5_1_an_issue_with_a_workspace_runs_where_that_is() {
    let mut harness = two_hosts();
    harness.board([issue("MT-9")]);
    harness.settle();
    assert_eq!(harness.started()[0].host, HostId::from("west"));

    let mut harness = two_hosts();
    harness.works_on([issue("MT-1"), issue("MT-2")]);
    let eastern = ["MT-1", "MT-2"].map(|name| (harness.running(name).host, name));
    let eastern = eastern.iter().find(|(host, _)| host.as_str() == "east");
    // The other machine has room now, but the folder is not there.
    harness.run(eastern.expect("one on each").1).fails();
    harness.board([issue("MT-9")]);
    harness.command(Command::PollNow);
    harness.settle();
    assert_eq!(harness.starts(), NONE);
    assert_eq!(harness.reason("MT-9"), Reason::HostSlot(HostId::from("west")));
}

// 5.2

#[test]
fn rule_5_2_an_unstarted_issue_waits_for_its_blockers() {
    let blocked = issue("MT-1").blocked_by("MT-3", "In Progress");
    let reason = refusal(&mut Harness::new(), blocked);
    assert_eq!(reason, Reason::BlockedBy("MT-3".to_owned()));
    let blocked =
        issue("MT-1").state("In Progress").kind(StateKind::Unstarted).blocked_by("MT-3", "Todo");
    let reason = refusal(&mut Harness::new(), blocked);
    assert_eq!(reason, Reason::BlockedBy("MT-3".to_owned()));
}

#[test]
fn rule_5_2_a_blocker_that_is_done_blocks_nothing() {
    assert!(starts_alone(issue("MT-1").blocked_by("MT-3", " done ")));
    let over = |kind| Blocker {
        state: Some("Shipped".into()),
        state_kind: Some(kind),
        ..Blocker::default()
    };
    assert!(starts_alone(issue("MT-1").blocker(over(StateKind::Completed))));
    assert!(starts_alone(issue("MT-1").blocker(over(StateKind::Cancelled))));
}

#[test]
fn rule_5_2_one_blocker_of_several_is_enough() {
    let blocked = issue("MT-1").blocked_by("MT-3", "Done").blocked_by("MT-4", "Todo");
    let reason = refusal(&mut Harness::new(), blocked);
    assert_eq!(reason, Reason::BlockedBy("MT-4".to_owned()));
}

#[test]
fn rule_5_2_an_unknown_blocker_counts_as_not_done() {
    let unknown = Blocker { identifier: Some("MT-3".into()), ..Blocker::default() };
    let reason = refusal(&mut Harness::new(), issue("MT-1").blocker(unknown));
    assert_eq!(reason, Reason::BlockedBy("MT-3".to_owned()));
    assert!(!starts_alone(issue("MT-1").blocker(Blocker::default())));
}

#[test]
fn rule_5_2_work_that_has_begun_does_not_wait_for_blockers() {
    let begun = issue("MT-1").state("In Progress");
    assert!(starts_alone(begun.blocked_by("MT-3", "Todo")));
    let begun = issue("MT-1").kind(StateKind::Started);
    assert!(starts_alone(begun.blocked_by("MT-3", "Todo")));
}

#[test]
fn rule_5_2_a_blocker_never_stops_a_run() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.board([issue("MT-1").blocked_by("MT-3", "Todo")]);
    harness.live(30_000);
    harness.turn_ends("MT-1");
    assert_eq!(harness.told(), ["next turn MT-1: 2"]);
}

// 5.3

#[test]
fn rule_5_3_priority_one_to_four_then_all_else() {
    let mut harness = Harness::new();
    harness.board([
        issue("MT-1").priority(0),
        issue("MT-2").priority(4),
        issue("MT-3").priority(1),
        issue("MT-4").priority(5),
        issue("MT-5"),
        issue("MT-6").priority(2),
        issue("MT-7").priority(-1),
        issue("MT-8").priority(3),
    ]);
    harness.settle();
    let ranked = ["MT-3", "MT-6", "MT-8", "MT-2"];
    let rest = ["MT-1", "MT-4", "MT-5", "MT-7"];
    assert_eq!(harness.starts(), [ranked, rest].concat());
}

#[test]
fn rule_5_3_then_the_oldest_and_those_without_a_date_last() {
    let mut harness = Harness::new();
    harness.board([
        issue("MT-1"),
        issue("MT-2").created(30),
        issue("MT-3").created(10),
        issue("MT-4").created(20),
    ]);
    harness.settle();
    assert_eq!(harness.starts(), ["MT-3", "MT-4", "MT-2", "MT-1"]);
}

#[test]
fn rule_5_3_then_the_identifier() {
    let mut harness = Harness::new();
    harness.board([
        issue("MT-1").called("C-1").created(5),
        issue("MT-2").called("A-1").created(5),
        issue("MT-3").called("B-1").created(5),
    ]);
    harness.settle();
    assert_eq!(harness.starts(), ["MT-2", "MT-3", "MT-1"]);
}

#[test]
fn rule_5_3_within_a_rank_due_retries_come_first() {
    let mut harness = Harness::with(|setup| {
        setup.slots(1).turns(1);
    });
    harness.works_on([issue("MT-5").priority(2).created(50)]);
    harness.run("MT-5").fails();
    harness.board([
        issue("MT-1").priority(1).created(90),
        issue("MT-2").priority(2).created(1),
        issue("MT-3").priority(1).created(80),
    ]);
    harness.works_on([]);
    harness.live(10_000);
    assert_eq!(harness.stage("MT-5"), Stage::Waiting);
    harness.completes("MT-3");
    harness.settle();
    assert_eq!(harness.starts(), ["MT-1"], "a better rank goes first");
    harness.completes("MT-1");
    harness.settle();
    assert_eq!(harness.starts(), ["MT-5 attempt 1"], "then the retry");
    harness.completes("MT-5");
    harness.settle();
    assert_eq!(harness.starts(), ["MT-2"]);
}

// 5.4

#[test]
fn rule_5_4_the_best_free_slots_plus_five_are_read_again_in_one_request() {
    let mut harness = Harness::with(|setup| {
        setup.slots(2);
    });
    let list = (1..=20).map(|n| issue(&format!("MT-{}", n + 10)).created(100 - n));
    harness.board(list);
    harness.answer();
    assert_eq!(harness.reads(), ["read MT-24 MT-25 MT-26 MT-27 MT-28 MT-29 MT-30"]);
    harness.answer();
    assert_eq!(harness.starts(), ["MT-30", "MT-29"]);
}

#[test]
fn rule_5_4_each_is_judged_afresh() {
    let mut harness = Harness::with(|setup| {
        setup.slots(2);
    });
    harness.board([issue("MT-1"), issue("MT-2"), issue("MT-3"), issue("MT-4")]);
    harness.answer();
    harness.board([
        issue("MT-1").state("Done"),
        issue("MT-2").titled("Fix the window"),
        issue("MT-3").blocked_by("MT-9", "Todo"),
    ]);
    harness.answer();
    let started = harness.started();
    assert_eq!(started.len(), 2);
    assert_eq!(*started[0].issue, issue("MT-2").titled("Fix the window"));
    assert_eq!(*started[1].issue, issue("MT-4"));
    assert_eq!(harness.stage("MT-1"), Stage::Unclaimed);
    assert_eq!(harness.stage("MT-3"), Stage::Unclaimed);
}

#[test]
fn rule_5_4_what_is_gone_when_read_again_does_not_start() {
    let mut harness = Harness::new();
    harness.board([issue("MT-1"), issue("MT-2")]);
    harness.answer();
    harness.delete("MT-1");
    harness.answer();
    assert_eq!(harness.starts(), ["MT-2"]);
    assert_eq!(harness.stage("MT-1"), Stage::Unclaimed);
}

#[test]
fn rule_5_4_the_slot_of_the_fresh_state_counts() {
    let mut harness = Harness::with(|setup| {
        setup.state_slots("In Progress", 1);
    });
    harness.board([issue("MT-1"), issue("MT-2"), issue("MT-3")]);
    harness.answer();
    let moved = ["MT-1", "MT-2", "MT-3"].map(|name| issue(name).state("In Progress"));
    harness.board(moved);
    harness.answer();
    assert_eq!(harness.starts(), ["MT-1"]);
}

#[test]
fn rule_5_4_slots_left_over_wait_for_the_next_read() {
    let mut harness = Harness::with(|setup| {
        setup.slots(1);
    });
    harness.board((1..=7).map(|n| issue(&format!("MT-{n}")).created(n)));
    harness.answer();
    harness.board((1..=6).map(|n| issue(&format!("MT-{n}")).state("Backlog")));
    harness.answer();
    assert_eq!(harness.starts(), NONE, "MT-7 was not read");
    harness.live(30_000);
    assert_eq!(harness.starts(), ["MT-7"]);
}

#[test]
fn rule_5_4_an_issue_being_read_is_claimed_and_is_not_chosen_twice() {
    let mut harness = Harness::with(|setup| {
        setup.slots(2);
    });
    harness.board([issue("MT-1"), issue("MT-2")]);
    harness.answer();
    assert_eq!(harness.stage("MT-1"), Stage::Checking);
    assert_eq!(harness.reason("MT-1"), Reason::Claimed);
    harness.board([issue("MT-3")]);
    harness.command(Command::PollNow);
    let poll = harness.reads().into_iter().find(|read| read.starts_with("poll"));
    harness.answer_to(&poll.expect("a poll"));
    assert_eq!(harness.reads(), ["read MT-1 MT-2"]);
    harness.settle();
    assert_eq!(harness.starts(), ["MT-1", "MT-2"]);
}

#[test]
fn rule_5_4_a_folder_that_was_held_when_read_is_taken_as_soon_as_it_is_free() {
    let mut harness = Harness::new();
    harness.board([issue("MT-1").priority(1), issue("MT-2").called("mt-1")]);
    harness.settle();
    assert_eq!(harness.starts(), ["MT-1"]);
    harness.completes("MT-1");
    harness.settle();
    assert_eq!(harness.starts(), ["MT-2"], "no new list is needed for that");
}
