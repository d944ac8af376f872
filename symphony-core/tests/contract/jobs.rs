//! Contract section 4: jobs and cycles.

use std::time::Duration;

use symphony_core::orchestrator::{Command, Happened, Job, Purpose, Removal};
use symphony_core::snapshot::Reason;
use symphony_core::tracker::TrackerErrorKind;
use symphony_core::{Failure, FailureKind, Scope, WorkspaceKey};

use crate::desk::{Desk, Draft, NONE, Place, id, issue, record};

/// Ages with which a restart finds its jobs.
fn restarted(candidates_ms: u64, interval_ms: u64) -> Desk {
    Desk::with(|setup| {
        setup.settings.polling.interval = Duration::from_millis(interval_ms);
        let age = Duration::from_millis(candidates_ms);
        let jobs = [Job::Candidates, Job::Refresh, Job::Sweep];
        setup.restored.job_ages = jobs.into_iter().map(|job| (job, age)).collect();
    })
}

fn unreachable() -> Failure {
    let kind = FailureKind::Tracker(TrackerErrorKind::Request);
    Failure::new(kind, "connection refused")
}

// 4.1

#[test]
fn rule_4_1_the_first_poll_goes_at_once() {
    let desk = Desk::new();
    assert_eq!(desk.reads(), ["poll"]);
}

#[test]
fn rule_4_1_then_every_interval() {
    let mut desk = Desk::new();
    desk.answer();
    desk.advance(29_999);
    assert_eq!(desk.reads(), NONE);
    desk.advance(1);
    assert_eq!(desk.reads(), ["poll"]);
}

#[test]
fn rule_4_1_a_restart_waits_until_the_last_poll_is_ten_seconds_old() {
    let mut desk = restarted(4_000, 30_000);
    assert_eq!(desk.reads(), NONE);
    desk.advance(5_999);
    assert_eq!(desk.reads(), NONE);
    desk.advance(1);
    assert_eq!(desk.reads(), ["poll"]);
}

#[test]
fn rule_4_1_a_restart_waits_no_longer_than_the_interval() {
    let mut desk = restarted(1_000, 3_000);
    desk.advance(1_999);
    assert_eq!(desk.reads(), NONE);
    desk.advance(1);
    assert_eq!(desk.reads(), ["poll"]);
}

#[test]
fn rule_4_1_a_restart_after_a_while_polls_at_once() {
    let desk = restarted(10_000, 30_000);
    assert_eq!(desk.reads(), ["poll"]);
}

// 4.2

#[test]
fn rule_4_2_at_start_the_workspaces_of_terminal_issues_are_removed() {
    let mut desk = Desk::with(|setup| {
        setup.left_behind(record("MT-1")).left_behind(record("MT-2"));
    });
    assert_eq!(desk.reads(), ["poll with MT-1 MT-2"]);
    desk.board([issue("MT-1").state("Done"), issue("MT-2").state("Backlog")]);
    desk.answer();
    assert_eq!(desk.removals(), ["MT-1"]);
    assert_eq!(desk.removal("MT-1"), Removal::Recorded(record("MT-1")));
    desk.removed("MT-1");
    assert_eq!(desk.place("MT-1"), Place::Unclaimed);
}

#[test]
fn rule_4_2_a_workspace_of_an_issue_that_is_gone_is_left_alone() {
    let mut desk = Desk::with(|setup| {
        setup.left_behind(record("MT-1"));
    });
    desk.settle();
    assert_eq!(desk.removals(), NONE);
}

#[test]
fn rule_4_2_the_sweep_comes_back_every_hour() {
    let mut desk = Desk::with(|setup| {
        setup.left_behind(record("MT-1"));
    });
    desk.board([issue("MT-1").state("Backlog")]);
    desk.settle();
    desk.asked();
    // A tenth of the hour early at most: it travels with a poll.
    desk.live(3_200_000);
    assert!(desk.asked().iter().all(|read| read == "poll"));
    desk.board([issue("MT-1").state("Done")]);
    desk.live(400_000);
    assert!(desk.asked().contains(&"poll with MT-1".to_owned()));
    assert_eq!(desk.removals(), ["MT-1"]);
}

#[test]
fn rule_4_2_a_workspace_once_removed_is_not_read_again() {
    let mut desk = Desk::with(|setup| {
        setup.left_behind(record("MT-1"));
    });
    desk.board([issue("MT-1").state("Done")]);
    desk.settle();
    desk.removed("MT-1");
    desk.asked();
    desk.live(7_200_000);
    assert!(desk.asked().iter().all(|read| read == "poll"));
}

#[test]
fn rule_4_2_a_record_of_another_tracker_scope_is_not_read() {
    let mut foreign = record("MT-1");
    foreign.scope = Scope::from("another board");
    let desk = Desk::with(|setup| {
        setup.left_behind(foreign);
    });
    assert_eq!(desk.reads(), ["poll"]);
}

#[test]
fn rule_4_2_folders_without_a_record_are_matched_once_with_the_terminal_issues() {
    let mut desk = Desk::with(|setup| {
        setup.stray("MT-1").stray("notes");
    });
    assert_eq!(desk.reads(), ["poll", "states Done Cancelled"]);
    desk.board([issue("MT-1").state("Done"), issue("MT-2").state("Done")]);
    desk.settle();
    assert_eq!(desk.removals(), ["MT-1"]);
    let key = |name| WorkspaceKey::parse(name).unwrap();
    assert_eq!(desk.removal("MT-1"), Removal::Stray(key("MT-1")));
    let left = Happened::StraysLeft { keys: vec![key("notes")] };
    assert!(desk.notices().contains(&left));
    desk.removed("MT-1");
    desk.asked();
    desk.live(7_200_000);
    assert!(desk.asked().iter().all(|read| read == "poll"));
}

#[test]
fn rule_4_2_without_such_folders_closed_issues_are_never_listed() {
    let mut desk = Desk::with(|setup| {
        setup.left_behind(record("MT-1"));
    });
    desk.board([issue("MT-1"), issue("MT-2").state("Done")]);
    desk.live(7_200_000);
    assert!(!desk.asked().iter().any(|read| read.starts_with("states")));
}

#[test]
fn rule_4_2_a_failed_sweep_is_a_warning() {
    let mut desk = Desk::with(|setup| {
        setup.left_behind(record("MT-1")).stray("MT-2");
    });
    desk.board([issue("MT-3")]);
    let (failure, copy) = (unreachable(), unreachable());
    let reads = desk.reads();
    assert_eq!(reads, ["poll with MT-1", "states Done Cancelled"]);
    desk.answer_to_but("poll with MT-1", |answer| answer.by_id = Some(Err(copy)));
    let copy = failure.clone();
    desk.answer_to_but("states Done Cancelled", |answer| {
        answer.candidates = Some(Err(copy));
    });
    let warning = Happened::ReadFailed { purpose: Purpose::Sweep, failure };
    assert!(desk.notices().contains(&warning));
    assert_eq!(desk.removals(), NONE);
    desk.settle();
    assert_eq!(desk.starts(), ["MT-3"]);
}

// 4.3

#[test]
fn rule_4_3_a_tracker_that_hangs_delays_nothing_else() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1"), issue("MT-2")]);
    desk.advance(30_000);
    let hanging = "poll with MT-1 MT-2";
    assert_eq!(desk.reads(), [hanging]);

    desk.run("MT-1").fails();
    desk.advance(10_000);
    assert_eq!(desk.reads(), [hanging, "read MT-1"], "a retry");
    desk.answer_to("read MT-1");
    assert_eq!(desk.starts(), ["MT-1 attempt 1"]);

    desk.advance(260_000);
    assert_eq!(desk.told(), ["stop MT-2: Stalled"], "a stall");
    desk.command(Command::Stop(id("MT-1")));
    assert_eq!(desk.told(), ["stop MT-1: Operator"], "an operator");
    desk.reloads(|settings| settings.agent.max_concurrent_agents = 3);
    assert_eq!(desk.snapshot().slots.limit, 3, "a reload");
    assert_eq!(desk.reads(), [hanging]);
}

#[test]
fn rule_4_3_a_read_that_is_open_is_not_asked_again() {
    let mut desk = Desk::new();
    desk.advance(300_000);
    assert_eq!(desk.asked(), ["poll"]);
    desk.settle();
    desk.live(30_000);
    assert_eq!(desk.asked().last().map(String::as_str), Some("poll"));
}

#[test]
fn rule_4_3_each_job_has_its_own_state() {
    let mut desk = Desk::with(|setup| {
        setup.settings.polling.jobs.candidates = Some(Duration::from_secs(30));
        setup.settings.polling.jobs.refresh = Some(Duration::from_secs(45));
    });
    desk.works_on([issue("MT-1")]);
    desk.advance(30_000);
    assert_eq!(desk.reads(), ["poll"]);
    desk.advance(15_000);
    assert_eq!(desk.reads(), ["poll", "refresh MT-1"]);
}

#[test]
fn rule_4_3_jobs_due_within_a_tenth_of_their_interval_travel_together() {
    let mut desk = Desk::with(|setup| {
        setup.settings.polling.jobs.candidates = Some(Duration::from_secs(30));
        setup.settings.polling.jobs.refresh = Some(Duration::from_secs(33));
    });
    desk.works_on([issue("MT-1")]);
    desk.live(60_000);
    assert_eq!(desk.asked(), ["poll with MT-1", "poll with MT-1"]);
}

// 4.4

#[test]
fn rule_4_4_stalls_come_before_the_poll() {
    let mut desk = Desk::with(|setup| {
        setup.settings.codex.stall_timeout = Some(Duration::from_secs(30));
    });
    desk.works_on([issue("MT-1")]);
    desk.wanted();
    desk.advance(30_000);
    let wanted = desk.wanted();
    assert_eq!(wanted[0], "stop MT-1: Stalled");
    assert_eq!(wanted.len(), 2, "the poll goes too: {wanted:?}");
}

#[test]
fn rule_4_4_the_refresh_is_heard_before_new_issues_are_chosen() {
    let mut desk = Desk::with(|setup| {
        setup.state_slots("In Progress", 1);
    });
    desk.works_on([issue("MT-1").state("In Progress")]);
    // The same answer brings a new issue and frees the slot it needs.
    desk.board([issue("MT-1"), issue("MT-2").state("In Progress")]);
    desk.live(30_000);
    assert_eq!(desk.starts(), ["MT-2"]);
}

#[test]
fn rule_4_4_with_an_invalid_file_reconciliation_still_runs() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.file_breaks("agent.max_turns");
    desk.board([issue("MT-1").state("Done"), issue("MT-2")]);
    desk.advance(30_000);
    assert_eq!(desk.reads(), ["refresh MT-1"]);
    desk.answer();
    assert_eq!(desk.told(), ["stop MT-1: Terminal"]);
}

// 4.5

#[test]
fn rule_4_5_with_no_free_slot_candidates_are_not_asked_for() {
    let mut desk = Desk::with(|setup| {
        setup.slots(1);
    });
    desk.works_on([issue("MT-1")]);
    desk.live(60_000);
    assert_eq!(desk.asked(), ["refresh MT-1", "refresh MT-1"]);
}

#[test]
fn rule_4_5_a_poll_that_starts_nothing_makes_one_read() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.live(30_000);
    assert_eq!(desk.asked(), ["poll with MT-1"]);
}

#[test]
fn rule_4_5_a_poll_that_starts_some_makes_one_more_for_all_of_them() {
    let mut desk = Desk::new();
    desk.board([issue("MT-1"), issue("MT-2"), issue("MT-3")]);
    desk.settle();
    assert_eq!(desk.asked(), ["poll", "read MT-1 MT-2 MT-3"]);
    assert_eq!(desk.starts(), ["MT-1", "MT-2", "MT-3"]);
}

#[test]
fn rule_4_5_retries_due_together_are_read_together() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1"), issue("MT-2")]);
    desk.run("MT-1").fails();
    desk.run("MT-2").fails();
    desk.live(10_000);
    assert_eq!(desk.asked(), ["read MT-1 MT-2"]);
    assert_eq!(desk.starts(), ["MT-1 attempt 1", "MT-2 attempt 1"]);
}

#[test]
fn rule_4_5_turn_ends_within_50_ms_are_read_together() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1"), issue("MT-2"), issue("MT-3")]);
    desk.run("MT-1").turn_ends();
    desk.advance(40);
    desk.run("MT-2").turn_ends();
    desk.advance(10);
    assert_eq!(desk.reads(), ["read MT-1 MT-2"]);
    desk.answer();
    assert_eq!(desk.told(), ["next turn MT-1: 2", "next turn MT-2: 2"]);
}

// 4.6

#[test]
fn rule_4_6_a_freed_slot_is_filled_at_once_from_the_last_list() {
    let mut desk = Desk::with(|setup| {
        setup.slots(1);
    });
    desk.board([issue("MT-2")]);
    desk.works_on([issue("MT-1")]);
    desk.advance(500);
    desk.run("MT-1").fails();
    assert_eq!(desk.reads(), ["read MT-2"]);
    desk.answer();
    assert_eq!(desk.starts(), ["MT-2"]);
}

#[test]
fn rule_4_6_refills_keep_the_trackers_distance() {
    let mut desk = Desk::with(|setup| {
        setup.slots(1);
        setup.min_read_gap = 2_000;
    });
    desk.board([issue("MT-2")]);
    desk.works_on([issue("MT-1")]);
    desk.advance(500);
    desk.run("MT-1").fails();
    desk.advance(1_499);
    assert_eq!(desk.reads(), NONE);
    desk.advance(1);
    assert_eq!(desk.reads(), ["read MT-2"]);
}

// 4.7

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

// 4.8

#[test]
fn rule_4_8_an_answer_does_not_touch_a_claim_that_changed_since() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.board([issue("MT-1").state("Done")]);
    desk.advance(30_000);
    let late = desk.withhold();
    // The run fails and another one starts before the answer arrives.
    desk.board([issue("MT-1")]);
    desk.run("MT-1").fails();
    desk.advance(10_000);
    desk.answer_to("read MT-1");
    desk.deliver(late);
    assert_eq!(desk.starts(), ["MT-1 attempt 1"]);
    assert_eq!(desk.told(), NONE);
    assert_eq!(desk.place("MT-1"), Place::Running);
}

#[test]
fn rule_4_8_an_answer_does_not_start_what_was_stopped_meanwhile() {
    let mut desk = Desk::new();
    desk.board([issue("MT-1")]);
    desk.answer();
    assert_eq!(desk.place("MT-1"), Place::Checking);
    desk.command(Command::Stop(id("MT-1")));
    desk.answer();
    assert_eq!(desk.starts(), NONE);
    assert_eq!(desk.place("MT-1"), Place::Blocked);
}

#[test]
fn rule_4_8_an_answer_that_comes_twice_changes_nothing() {
    let mut desk = Desk::new();
    desk.board([issue("MT-1")]);
    let twin = desk.withhold();
    desk.settle();
    desk.wanted();
    desk.event(twin.into_event());
    assert_eq!(desk.wanted(), NONE);
}

#[test]
fn rule_4_8_an_answer_of_an_older_tracker_chooses_nothing() {
    let mut desk = Desk::new();
    desk.board([issue("MT-1")]);
    let late = desk.withhold();
    desk.reloads_tracker("another board");
    desk.deliver(late);
    assert!(!desk.reads().contains(&"read MT-1".to_owned()));
    assert_eq!(desk.starts(), NONE);
}
