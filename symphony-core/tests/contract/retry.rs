//! Contract section 7: retry.

use std::time::Duration;

use symphony_core::agent::AgentErrorKind;
use symphony_core::orchestrator::{NoticeKind, ReleaseReason};
use symphony_core::policy;
use symphony_core::snapshot::Reason;
use symphony_core::tracker::TrackerErrorKind;
use symphony_core::{Failure, FailureKind};

use crate::harness::{Draft, Harness, NONE, Stage, issue, record};

/// One turn per run, so that a run ends with its first turn.
fn one_turn() -> Harness {
    Harness::with(|setup| {
        setup.turns(1);
    })
}

fn unreachable(retry_after_ms: Option<u64>) -> Failure {
    let kind = FailureKind::Tracker(TrackerErrorKind::Request);
    Failure::new(kind, "connection refused")
        .with_retry_after(retry_after_ms.map(Duration::from_millis))
}

/// MT-1 failed once and waits for its first retry.
fn failed_once() -> Harness {
    let mut harness = one_turn();
    harness.works_on([issue("MT-1")]);
    harness.run("MT-1").fails();
    harness
}

/// MT-1's first retry is due, but MT-2 has the only slot.
fn queued() -> Harness {
    let mut harness = Harness::with(|setup| {
        setup.slots(1).turns(1);
    });
    harness.works_on([issue("MT-1")]);
    harness.run("MT-1").fails();
    harness.works_on([issue("MT-2")]);
    harness.notices();
    harness.live(10_000);
    harness.asked();
    harness
}

// 7.1

#[test]
fn rule_7_1_after_a_normal_end_a_continuation_check_follows_in_a_second() {
    let mut harness = one_turn();
    harness.works_on([issue("MT-1")]);
    harness.ends_normally("MT-1");
    let row = harness.waiting("MT-1");
    assert_eq!((row.attempt, row.failure), (1, None));
    assert_eq!(harness.wait_of("MT-1"), Some(1_000));
    harness.advance(999);
    assert_eq!(harness.reads(), NONE);
    harness.advance(1);
    assert_eq!(harness.reads(), ["read MT-1"]);
    harness.answer();
    assert_eq!(harness.starts(), ["MT-1 attempt 1"]);
}

#[test]
fn rule_7_1_a_continuation_is_attempt_one_whatever_came_before() {
    let mut harness = one_turn();
    harness.works_on([issue("MT-1")]);
    for _ in 0..3 {
        harness.run("MT-1").fails();
        harness.live(300_000);
    }
    assert_eq!(harness.starts().last().unwrap(), "MT-1 attempt 3");
    harness.ends_normally("MT-1");
    assert_eq!(harness.waiting("MT-1").attempt, 1);
}

// 7.2

#[test]
fn rule_7_2_failures_double_the_wait_up_to_the_limit() {
    let mut harness = one_turn();
    harness.works_on([issue("MT-1")]);
    let waits = [10, 20, 40, 80, 160, 300, 300, 300];
    for (attempt, seconds) in (1..).zip(waits) {
        harness.run("MT-1").fails();
        assert_eq!(harness.wait_of("MT-1"), Some(seconds * 1_000));
        harness.live(seconds * 1_000 - 1);
        assert_eq!(harness.starts(), NONE);
        harness.live(1);
        assert_eq!(harness.starts(), [format!("MT-1 attempt {attempt}")]);
    }
}

#[test]
fn rule_7_2_a_low_limit_holds_from_the_first_failure() {
    let mut harness = Harness::with(|setup| {
        setup.settings.agent.max_retry_backoff = Duration::from_secs(3);
    });
    harness.works_on([issue("MT-1")]);
    harness.run("MT-1").fails();
    assert_eq!(harness.wait_of("MT-1"), Some(3_000));
}

#[test]
fn rule_7_2_no_attempt_number_overflows() {
    let max = Duration::from_secs(300);
    assert_eq!(policy::backoff(1, max), Duration::from_secs(10));
    assert_eq!(policy::backoff(5, max), Duration::from_secs(160));
    assert_eq!(policy::backoff(6, max), max);
    for attempt in [63, 64, 65, 1_000_000, u32::MAX] {
        assert_eq!(policy::backoff(attempt, max), max);
    }
    assert!(policy::backoff(0, max) <= max);
    assert!(policy::backoff(u32::MAX, Duration::MAX) > max);
}

#[test]
fn rule_7_2_the_failure_is_shown_while_it_waits() {
    let harness = failed_once();
    let failure = harness.waiting("MT-1").failure.expect("a failure");
    assert_eq!(failure.kind, FailureKind::Agent(AgentErrorKind::ProcessExit));
}

// 7.3

#[test]
fn rule_7_3_a_due_retry_that_is_still_eligible_starts_with_its_attempt() {
    let mut harness = failed_once();
    harness.live(10_000);
    let start = harness.started().remove(0);
    assert_eq!(start.attempt, Some(1));
    assert_eq!(start.record, Some(record("MT-1")));
}

#[test]
fn rule_7_3_a_due_retry_that_is_gone_is_released() {
    let mut harness = failed_once();
    harness.delete("MT-1");
    harness.live(10_000);
    assert_eq!(harness.stage("MT-1"), Stage::Unclaimed);
    assert_eq!((harness.starts().len(), harness.removals().len()), (0, 0));
}

#[test]
fn rule_7_3_a_due_retry_that_is_not_active_is_released() {
    let mut harness = failed_once();
    harness.board([issue("MT-1").state("Backlog")]);
    harness.live(10_000);
    assert_eq!(harness.stage("MT-1"), Stage::Unclaimed);
    assert_eq!((harness.starts().len(), harness.removals().len()), (0, 0));
}

#[test]
fn rule_7_3_a_due_retry_with_a_blocker_is_released() {
    let mut harness = failed_once();
    harness.notices();
    harness.board([issue("MT-1").blocked_by("MT-3", "Todo")]);
    harness.live(10_000);
    assert_eq!(harness.stage("MT-1"), Stage::Unclaimed);
    let why = ReleaseReason::NotEligible;
    assert!(harness.notices().contains(&NoticeKind::Released { why }));
    harness.live(30_000);
    assert_eq!(harness.reason("MT-1"), Reason::BlockedBy("MT-3".to_owned()));
}

#[test]
fn rule_7_3_a_due_retry_that_is_terminal_is_cleaned() {
    let mut harness = failed_once();
    harness.board([issue("MT-1").state("Done")]);
    harness.live(10_000);
    assert_eq!(harness.stage("MT-1"), Stage::Cleaning);
    harness.removed("MT-1");
    assert_eq!(harness.stage("MT-1"), Stage::Unclaimed);
}

#[test]
fn rule_7_3_a_terminal_issue_without_a_workspace_has_nothing_to_clean() {
    let mut harness = Harness::new();
    harness.board([issue("MT-1")]);
    harness.settle();
    harness.run("MT-1").fails();
    harness.board([issue("MT-1").state("Done")]);
    harness.live(10_000);
    assert_eq!(harness.stage("MT-1"), Stage::Unclaimed);
    assert_eq!(harness.removals(), NONE);
}

#[test]
fn rule_7_3_a_retry_without_a_slot_waits_and_keeps_its_attempt() {
    let mut harness = queued();
    assert!(harness.notices().contains(&NoticeKind::Queued));
    let row = harness.waiting("MT-1");
    assert_eq!((row.attempt, row.until), (1, None));
    harness.live(3_600_000);
    let row = harness.waiting("MT-1");
    assert_eq!((row.attempt, row.until), (1, None));
    assert_eq!(harness.starts(), NONE);
}

#[test]
fn rule_7_3_a_queued_retry_is_not_read_until_a_slot_frees() {
    let mut harness = queued();
    harness.live(25_000);
    assert_eq!(harness.asked(), ["refresh MT-1 MT-2"]);
    harness.completes("MT-2");
    harness.settle();
    assert_eq!(harness.asked().last().unwrap(), "read MT-1");
    assert_eq!(harness.starts(), ["MT-1 attempt 1"]);
}

#[test]
fn rule_7_3_a_queued_retry_is_not_starved_by_new_issues() {
    let mut harness = Harness::with(|setup| {
        setup.slots(1).turns(1);
    });
    harness.works_on([issue("MT-1").created(99)]);
    harness.run("MT-1").fails();
    harness.board((3..20).map(|n| issue(&format!("MT-{n}")).created(n)));
    harness.works_on([issue("MT-2").created(1)]);
    harness.live(10_000);
    harness.completes("MT-2");
    harness.settle();
    assert_eq!(harness.starts(), ["MT-1 attempt 1"]);
}

#[test]
fn rule_7_3_a_retry_without_a_slot_for_its_state_waits_too() {
    let mut harness = Harness::with(|setup| {
        setup.state_slots("Todo", 1).turns(1);
    });
    harness.works_on([issue("MT-1")]);
    harness.run("MT-1").fails();
    harness.works_on([issue("MT-2")]);
    harness.live(10_000);
    assert_eq!(harness.asked(), NONE);
    assert_eq!(harness.waiting("MT-1").attempt, 1);
    harness.completes("MT-2");
    harness.settle();
    assert_eq!(harness.starts(), ["MT-1 attempt 1"]);
}

// 7.4

/// MT-1's second retry is due and is being read.
fn second_retry_being_read() -> Harness {
    let mut harness = failed_once();
    harness.live(10_000);
    harness.run("MT-1").works().fails();
    assert_eq!(harness.wait_of("MT-1"), Some(20_000));
    harness.live(19_999);
    harness.starts();
    harness.advance(1);
    harness
}

#[test]
fn rule_7_4_a_failed_read_keeps_the_claim_and_the_attempt() {
    let mut harness = second_retry_being_read();
    harness.answer_to_but("read MT-1", |answer| {
        answer.by_id = Some(Err(unreachable(None)));
    });
    assert_eq!(harness.waiting("MT-1").attempt, 2);
    assert_eq!(harness.wait_of("MT-1"), Some(20_000));
    harness.live(20_000);
    assert_eq!(harness.starts(), ["MT-1 attempt 2"]);
}

#[test]
fn rule_7_4_a_failed_read_comes_back_when_the_tracker_says() {
    let mut harness = second_retry_being_read();
    harness.answer_to_but("read MT-1", |answer| {
        answer.by_id = Some(Err(unreachable(Some(7_000))));
    });
    assert_eq!(harness.wait_of("MT-1"), Some(7_000));
}

#[test]
fn rule_7_4_an_unreadable_record_is_a_failed_read_of_that_issue() {
    let mut harness = second_retry_being_read();
    harness.unreadable("MT-1");
    harness.answer_to("read MT-1");
    assert_eq!(harness.waiting("MT-1").attempt, 2);
    assert_eq!(harness.wait_of("MT-1"), Some(20_000));
}

#[test]
fn rule_7_4_a_first_start_whose_read_fails_is_tried_again_as_a_first_start() {
    let mut harness = Harness::new();
    harness.board([issue("MT-1")]);
    harness.answer();
    harness.answer_fails(&unreachable(None));
    assert_eq!(harness.starts(), NONE);
    harness.live(60_000);
    assert_eq!(harness.starts(), ["MT-1"]);
}

// 7.5

#[test]
fn rule_7_5_a_stalled_run_keeps_its_claim_and_backs_off() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.live(300_000);
    assert_eq!(harness.told(), ["stop MT-1: Stalled"]);
    harness.live(60_000);
    assert_eq!(harness.starts(), NONE, "while it still stops");
    harness.run("MT-1").stops();
    assert_eq!(harness.waiting("MT-1").attempt, 1);
    assert_eq!(harness.waiting("MT-1").failure.unwrap().kind, FailureKind::Stalled);
    assert_eq!(harness.wait_of("MT-1"), Some(10_000));
    harness.live(9_999);
    assert_eq!(harness.starts(), NONE, "while it waits");
    harness.live(1);
    assert_eq!(harness.starts(), ["MT-1 attempt 1"]);
}

// 7.7

#[test]
fn rule_7_7_successes_that_change_nothing_back_off() {
    let mut harness = one_turn();
    harness.works_on([issue("MT-1").updated(5)]);
    let mut counts = Vec::new();
    for wait in [1_000, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000] {
        harness.ends_normally("MT-1");
        assert_eq!(harness.wait_of("MT-1"), Some(wait));
        counts.push(harness.waiting("MT-1").unchanged_ends);
        harness.live(300_000);
        assert_eq!(harness.starts(), ["MT-1 attempt 1"]);
    }
    assert!(counts.windows(2).all(|pair| pair[1] == pair[0] + 1), "{counts:?}");
}

#[test]
fn rule_7_7_any_change_starts_the_count_anew() {
    for changed in [issue("MT-1").updated(6), issue("MT-1").updated(5).state("In Progress")] {
        let mut harness = one_turn();
        harness.works_on([issue("MT-1").updated(5)]);
        for _ in 0..3 {
            harness.ends_normally("MT-1");
            harness.live(300_000);
        }
        harness.board([changed]);
        harness.ends_normally("MT-1");
        assert_eq!(harness.wait_of("MT-1"), Some(1_000));
    }
}
