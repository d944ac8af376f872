//! Contract section 4: jobs and cycles.

use std::time::Duration;

use symphony_core::budget::Spent;
use symphony_core::orchestrator::{Command, Job};
use symphony_core::snapshot::Reason;

use crate::harness::{Draft, Harness, NONE, id, issue};

/// Ages with which a restart finds its jobs.
fn restarted(candidates_ms: u64, interval_ms: u64) -> Harness {
    Harness::with(|setup| {
        setup.settings.polling.interval = Duration::from_millis(interval_ms);
        let jobs = [Job::Candidates, Job::Refresh, Job::Sweep];
        setup.polled(candidates_ms, &jobs, Spent::default());
    })
}

// 4.1

#[test]
fn rule_4_1_the_first_poll_goes_at_once() {
    let harness = Harness::new();
    assert_eq!(harness.reads(), ["poll"]);
}

#[test]
fn rule_4_1_then_every_interval() {
    let mut harness = Harness::new();
    harness.answer();
    harness.advance(29_999);
    assert_eq!(harness.reads(), NONE);
    harness.advance(1);
    assert_eq!(harness.reads(), ["poll"]);
}

#[test]
fn rule_4_1_a_restart_waits_until_the_last_poll_is_ten_seconds_old() {
    let mut harness = restarted(4_000, 30_000);
    assert_eq!(harness.reads(), NONE);
    harness.advance(5_999);
    assert_eq!(harness.reads(), NONE);
    harness.advance(1);
    assert_eq!(harness.reads(), ["poll"]);
}

#[test]
fn rule_4_1_a_restart_waits_no_longer_than_the_interval() {
    let mut harness = restarted(1_000, 3_000);
    harness.advance(1_999);
    assert_eq!(harness.reads(), NONE);
    harness.advance(1);
    assert_eq!(harness.reads(), ["poll"]);
}

#[test]
fn rule_4_1_a_restart_after_a_while_polls_at_once() {
    let harness = restarted(10_000, 30_000);
    assert_eq!(harness.reads(), ["poll"]);
}

// 4.3

#[test]
fn rule_4_3_a_tracker_that_hangs_delays_nothing_else() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1"), issue("MT-2")]);
    harness.advance(30_000);
    let hanging = "poll with MT-1 MT-2";
    assert_eq!(harness.reads(), [hanging]);

    harness.run("MT-1").fails();
    harness.advance(10_000);
    assert_eq!(harness.reads(), [hanging, "read MT-1"], "a retry");
    harness.answer_to("read MT-1");
    assert_eq!(harness.starts(), ["MT-1 attempt 1"]);

    harness.advance(260_000);
    assert_eq!(harness.told(), ["stop MT-2: Stalled"], "a stall");
    harness.command(Command::Stop(id("MT-1")));
    assert_eq!(harness.told(), ["stop MT-1: Operator"], "an operator");
    harness.reloads(|settings| settings.agent.max_concurrent_agents = 3);
    assert_eq!(harness.snapshot().slots.limit, 3, "a reload");
    assert_eq!(harness.reads(), [hanging]);
}

#[test]
fn rule_4_3_a_read_that_is_open_is_not_asked_again() {
    let mut harness = Harness::new();
    harness.advance(300_000);
    assert_eq!(harness.asked(), ["poll"]);
    harness.settle();
    harness.live(30_000);
    assert_eq!(harness.asked().last().map(String::as_str), Some("poll"));
}

#[test]
fn rule_4_3_each_job_has_its_own_state() {
    let mut harness = Harness::with(|setup| {
        setup.settings.polling.jobs.candidates = Some(Duration::from_secs(30));
        setup.settings.polling.jobs.refresh = Some(Duration::from_secs(45));
    });
    harness.works_on([issue("MT-1")]);
    harness.advance(30_000);
    assert_eq!(harness.reads(), ["poll"]);
    harness.advance(15_000);
    assert_eq!(harness.reads(), ["poll", "refresh MT-1"]);
}

#[test]
fn rule_4_3_jobs_due_within_a_tenth_of_their_interval_travel_together() {
    let mut harness = Harness::with(|setup| {
        setup.settings.polling.jobs.candidates = Some(Duration::from_secs(30));
        setup.settings.polling.jobs.refresh = Some(Duration::from_secs(33));
    });
    harness.works_on([issue("MT-1")]);
    harness.live(60_000);
    assert_eq!(harness.asked(), ["poll with MT-1", "poll with MT-1"]);
}

// 4.4

#[test]
fn rule_4_4_stalls_come_before_the_poll() {
    let mut harness = Harness::with(|setup| {
        setup.settings.agent.common.stall_timeout = Some(Duration::from_secs(30));
    });
    harness.works_on([issue("MT-1")]);
    harness.effects_in_order();
    harness.advance(30_000);
    let wanted = harness.effects_in_order();
    assert_eq!(wanted[0], "stop MT-1: Stalled");
    assert_eq!(wanted.len(), 2, "the poll goes too: {wanted:?}");
}

#[test]
fn rule_4_4_the_refresh_is_heard_before_new_issues_are_chosen() {
    let mut harness = Harness::with(|setup| {
        setup.state_slots("In Progress", 1);
    });
    harness.works_on([issue("MT-1").state("In Progress")]);
    // The same answer brings a new issue and frees the slot it needs.
    harness.board([issue("MT-1"), issue("MT-2").state("In Progress")]);
    harness.live(30_000);
    assert_eq!(harness.starts(), ["MT-2"]);
}

#[test]
fn rule_4_4_with_an_invalid_file_reconciliation_still_runs() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.file_breaks("agent.max_turns");
    harness.board([issue("MT-1").state("Done"), issue("MT-2")]);
    harness.advance(30_000);
    assert_eq!(harness.reads(), ["refresh MT-1"]);
    harness.answer();
    assert_eq!(harness.told(), ["stop MT-1: Terminal"]);
}

// 4.5

#[test]
fn rule_4_5_with_no_free_slot_candidates_are_not_asked_for() {
    let mut harness = Harness::with(|setup| {
        setup.slots(1);
    });
    harness.works_on([issue("MT-1")]);
    harness.live(60_000);
    assert_eq!(harness.asked(), ["refresh MT-1", "refresh MT-1"]);
}

#[test]
fn rule_4_5_a_poll_that_starts_nothing_makes_one_read() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.live(30_000);
    assert_eq!(harness.asked(), ["poll with MT-1"]);
}

#[test]
fn rule_4_5_a_poll_that_starts_some_makes_one_more_for_all_of_them() {
    let mut harness = Harness::new();
    harness.board([issue("MT-1"), issue("MT-2"), issue("MT-3")]);
    harness.settle();
    assert_eq!(harness.asked(), ["poll", "read MT-1 MT-2 MT-3"]);
    assert_eq!(harness.starts(), ["MT-1", "MT-2", "MT-3"]);
}

#[test]
fn rule_4_5_retries_due_together_are_read_together() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1"), issue("MT-2")]);
    harness.run("MT-1").fails();
    harness.run("MT-2").fails();
    harness.live(10_000);
    assert_eq!(harness.asked(), ["read MT-1 MT-2"]);
    assert_eq!(harness.starts(), ["MT-1 attempt 1", "MT-2 attempt 1"]);
}

#[test]
fn rule_4_5_turn_ends_within_50_ms_are_read_together() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1"), issue("MT-2"), issue("MT-3")]);
    harness.run("MT-1").turn_ends();
    harness.advance(40);
    harness.run("MT-2").turn_ends();
    harness.advance(10);
    assert_eq!(harness.reads(), ["read MT-1 MT-2"]);
    harness.answer();
    assert_eq!(harness.told(), ["next turn MT-1: 2", "next turn MT-2: 2"]);
}

// 4.6

#[test]
fn rule_4_6_a_freed_slot_is_filled_at_once_from_the_last_list() {
    let mut harness = Harness::with(|setup| {
        setup.slots(1);
    });
    harness.board([issue("MT-2")]);
    harness.works_on([issue("MT-1")]);
    harness.advance(500);
    harness.run("MT-1").fails();
    assert_eq!(harness.reads(), ["read MT-2"]);
    harness.answer();
    assert_eq!(harness.starts(), ["MT-2"]);
}

#[test]
fn rule_4_6_refills_keep_the_trackers_distance() {
    let mut harness = Harness::with(|setup| {
        setup.slots(1);
        setup.min_read_gap = 2_000;
    });
    harness.board([issue("MT-2")]);
    harness.works_on([issue("MT-1")]);
    harness.advance(500);
    harness.run("MT-1").fails();
    harness.advance(1_499);
    assert_eq!(harness.reads(), NONE);
    harness.advance(1);
    assert_eq!(harness.reads(), ["read MT-2"]);
}

#[test]
fn rule_4_6_candidates_that_wait_for_an_issue_are_read_when_it_is_over() {
    let mut harness = Harness::new();
    harness.board([
        issue("MT-2").blocked_by("MT-1", "Todo"),
        issue("MT-3").blocked_by("MT-9", "Todo"),
        issue("MT-4").blocked_by("MT-9", "Todo").blocked_by("MT-1", "Todo"),
    ]);
    harness.works_on([issue("MT-1")]);
    assert_eq!(harness.reason("MT-2"), Reason::BlockedBy("MT-1".to_owned()));
    harness.board([issue("MT-1").state("Done"), issue("MT-2").blocked_by("MT-1", "Done")]);
    harness.run("MT-1").turn_ends();
    harness.advance(50);
    assert_eq!(harness.reads(), ["read MT-1"], "the turn's own read");
    harness.answer();
    assert_eq!(harness.reads(), ["read MT-2"], "others have another blocker");
    harness.answer();
    harness.answer();
    assert_eq!(harness.starts(), ["MT-2"]);
}

#[test]
fn rule_4_6_a_list_that_shows_the_blocker_over_needs_no_read_of_its_own() {
    let mut harness = Harness::new();
    harness.board([issue("MT-2").blocked_by("MT-1", "Todo")]);
    harness.works_on([issue("MT-1")]);
    harness.board([issue("MT-1").state("Done"), issue("MT-2").blocked_by("MT-1", "Done")]);
    harness.command(Command::PollNow);
    assert_eq!(harness.reads(), ["poll with MT-1"]);
    harness.answer();
    assert_eq!(harness.reads(), ["read MT-2"], "only the read before its start");
    harness.answer();
    assert_eq!((harness.starts(), harness.reads()), (vec!["MT-2".to_owned()], Vec::new()));
}

#[test]
fn rule_4_5_what_did_not_pass_is_not_read_again_from_the_same_list() {
    let mut harness = Harness::new();
    harness.board([issue("MT-1")]);
    harness.answer();
    harness.board([issue("MT-1").blocked_by("MT-9", "Todo")]);
    harness.answer();
    assert_eq!(harness.reads(), NONE);
    assert_eq!(harness.reason("MT-1"), Reason::BlockedBy("MT-9".to_owned()));
}
