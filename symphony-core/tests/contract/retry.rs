//! Contract section 7: retry.

use std::time::Duration;

use symphony_core::agent::AgentErrorKind;
use symphony_core::orchestrator::{Happened, ReleaseReason};
use symphony_core::policy;
use symphony_core::snapshot::Reason;
use symphony_core::tracker::TrackerErrorKind;
use symphony_core::{Failure, FailureKind};

use crate::desk::{Desk, Draft, NONE, Place, issue, record};

/// One turn per run, so that a run ends with its first turn.
fn one_turn() -> Desk {
    Desk::with(|setup| {
        setup.turns(1);
    })
}

fn unreachable(retry_after_ms: Option<u64>) -> Failure {
    let kind = FailureKind::Tracker(TrackerErrorKind::Request);
    Failure::new(kind, "connection refused").retry_after(retry_after_ms.map(Duration::from_millis))
}

/// MT-1 failed once and waits for its first retry.
fn failed_once() -> Desk {
    let mut desk = one_turn();
    desk.works_on([issue("MT-1")]);
    desk.run("MT-1").fails();
    desk
}

/// MT-1's first retry is due, but MT-2 has the only slot.
fn queued() -> Desk {
    let mut desk = Desk::with(|setup| {
        setup.slots(1).turns(1);
    });
    desk.works_on([issue("MT-1")]);
    desk.run("MT-1").fails();
    desk.works_on([issue("MT-2")]);
    desk.notices();
    desk.live(10_000);
    desk.asked();
    desk
}

// 7.1

#[test]
fn rule_7_1_after_a_normal_end_a_continuation_check_follows_in_a_second() {
    let mut desk = one_turn();
    desk.works_on([issue("MT-1")]);
    desk.ends_normally("MT-1");
    let row = desk.waiting("MT-1");
    assert_eq!((row.attempt, row.failure), (1, None));
    assert_eq!(desk.wait_of("MT-1"), Some(1_000));
    desk.advance(999);
    assert_eq!(desk.reads(), NONE);
    desk.advance(1);
    assert_eq!(desk.reads(), ["read MT-1"]);
    desk.answer();
    assert_eq!(desk.starts(), ["MT-1 attempt 1"]);
}

#[test]
fn rule_7_1_a_continuation_is_attempt_one_whatever_came_before() {
    let mut desk = one_turn();
    desk.works_on([issue("MT-1")]);
    for _ in 0..3 {
        desk.run("MT-1").fails();
        desk.live(300_000);
    }
    assert_eq!(desk.starts().last().unwrap(), "MT-1 attempt 3");
    desk.ends_normally("MT-1");
    assert_eq!(desk.waiting("MT-1").attempt, 1);
}

// 7.2

#[test]
fn rule_7_2_failures_double_the_wait_up_to_the_limit() {
    let mut desk = one_turn();
    desk.works_on([issue("MT-1")]);
    let waits = [10, 20, 40, 80, 160, 300, 300, 300];
    for (attempt, seconds) in (1..).zip(waits) {
        desk.run("MT-1").fails();
        assert_eq!(desk.wait_of("MT-1"), Some(seconds * 1_000));
        desk.live(seconds * 1_000 - 1);
        assert_eq!(desk.starts(), NONE);
        desk.live(1);
        assert_eq!(desk.starts(), [format!("MT-1 attempt {attempt}")]);
    }
}

#[test]
fn rule_7_2_a_low_limit_holds_from_the_first_failure() {
    let mut desk = Desk::with(|setup| {
        setup.settings.agent.max_retry_backoff = Duration::from_secs(3);
    });
    desk.works_on([issue("MT-1")]);
    desk.run("MT-1").fails();
    assert_eq!(desk.wait_of("MT-1"), Some(3_000));
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
    let desk = failed_once();
    let failure = desk.waiting("MT-1").failure.expect("a failure");
    assert_eq!(failure.kind, FailureKind::Agent(AgentErrorKind::ProcessExit));
}

// 7.3

#[test]
fn rule_7_3_a_due_retry_that_is_still_eligible_starts_with_its_attempt() {
    let mut desk = failed_once();
    desk.live(10_000);
    let start = desk.started().remove(0);
    assert_eq!(start.attempt, Some(1));
    assert_eq!(start.record, Some(record("MT-1")));
}

#[test]
fn rule_7_3_a_due_retry_that_is_gone_is_released() {
    let mut desk = failed_once();
    desk.gone("MT-1");
    desk.live(10_000);
    assert_eq!(desk.place("MT-1"), Place::Unclaimed);
    assert_eq!((desk.starts().len(), desk.removals().len()), (0, 0));
}

#[test]
fn rule_7_3_a_due_retry_that_is_not_active_is_released() {
    let mut desk = failed_once();
    desk.board([issue("MT-1").state("Backlog")]);
    desk.live(10_000);
    assert_eq!(desk.place("MT-1"), Place::Unclaimed);
    assert_eq!((desk.starts().len(), desk.removals().len()), (0, 0));
}

#[test]
fn rule_7_3_a_due_retry_with_a_blocker_is_released() {
    let mut desk = failed_once();
    desk.notices();
    desk.board([issue("MT-1").blocked_by("MT-3", "Todo")]);
    desk.live(10_000);
    assert_eq!(desk.place("MT-1"), Place::Unclaimed);
    let why = ReleaseReason::NotEligible;
    assert!(desk.notices().contains(&Happened::Released { why }));
    desk.live(30_000);
    assert_eq!(desk.reason("MT-1"), Reason::BlockedBy("MT-3".to_owned()));
}

#[test]
fn rule_7_3_a_due_retry_that_is_terminal_is_cleaned() {
    let mut desk = failed_once();
    desk.board([issue("MT-1").state("Done")]);
    desk.live(10_000);
    assert_eq!(desk.place("MT-1"), Place::Cleaning);
    desk.removed("MT-1");
    assert_eq!(desk.place("MT-1"), Place::Unclaimed);
}

#[test]
fn rule_7_3_a_terminal_issue_without_a_workspace_has_nothing_to_clean() {
    let mut desk = Desk::new();
    desk.board([issue("MT-1")]);
    desk.settle();
    desk.run("MT-1").fails();
    desk.board([issue("MT-1").state("Done")]);
    desk.live(10_000);
    assert_eq!(desk.place("MT-1"), Place::Unclaimed);
    assert_eq!(desk.removals(), NONE);
}

#[test]
fn rule_7_3_a_retry_without_a_slot_waits_and_keeps_its_attempt() {
    let mut desk = queued();
    assert!(desk.notices().contains(&Happened::Queued));
    let row = desk.waiting("MT-1");
    assert_eq!((row.attempt, row.until), (1, None));
    desk.live(3_600_000);
    let row = desk.waiting("MT-1");
    assert_eq!((row.attempt, row.until), (1, None));
    assert_eq!(desk.starts(), NONE);
}

#[test]
fn rule_7_3_a_queued_retry_is_not_read_until_a_slot_frees() {
    let mut desk = queued();
    desk.live(25_000);
    assert_eq!(desk.asked(), ["refresh MT-1 MT-2"]);
    desk.is_done("MT-2");
    desk.settle();
    assert_eq!(desk.asked().last().unwrap(), "read MT-1");
    assert_eq!(desk.starts(), ["MT-1 attempt 1"]);
}

#[test]
fn rule_7_3_a_queued_retry_is_not_starved_by_new_issues() {
    let mut desk = Desk::with(|setup| {
        setup.slots(1).turns(1);
    });
    desk.works_on([issue("MT-1").created(99)]);
    desk.run("MT-1").fails();
    desk.board((3..20).map(|n| issue(&format!("MT-{n}")).created(n)));
    desk.works_on([issue("MT-2").created(1)]);
    desk.live(10_000);
    desk.is_done("MT-2");
    desk.settle();
    assert_eq!(desk.starts(), ["MT-1 attempt 1"]);
}

#[test]
fn rule_7_3_a_retry_without_a_slot_for_its_state_waits_too() {
    let mut desk = Desk::with(|setup| {
        setup.state_slots("Todo", 1).turns(1);
    });
    desk.works_on([issue("MT-1")]);
    desk.run("MT-1").fails();
    desk.works_on([issue("MT-2")]);
    desk.live(10_000);
    assert_eq!(desk.asked(), NONE);
    assert_eq!(desk.waiting("MT-1").attempt, 1);
    desk.is_done("MT-2");
    desk.settle();
    assert_eq!(desk.starts(), ["MT-1 attempt 1"]);
}

// 7.4

/// MT-1's second retry is due and is being read.
fn second_retry_being_read() -> Desk {
    let mut desk = failed_once();
    desk.live(10_000);
    desk.run("MT-1").works().fails();
    assert_eq!(desk.wait_of("MT-1"), Some(20_000));
    desk.live(19_999);
    desk.starts();
    desk.advance(1);
    desk
}

#[test]
fn rule_7_4_a_failed_read_keeps_the_claim_and_the_attempt() {
    let mut desk = second_retry_being_read();
    desk.answer_to_but("read MT-1", |answer| {
        answer.by_id = Some(Err(unreachable(None)));
    });
    assert_eq!(desk.waiting("MT-1").attempt, 2);
    assert_eq!(desk.wait_of("MT-1"), Some(20_000));
    desk.live(20_000);
    assert_eq!(desk.starts(), ["MT-1 attempt 2"]);
}

#[test]
fn rule_7_4_a_failed_read_comes_back_when_the_tracker_says() {
    let mut desk = second_retry_being_read();
    desk.answer_to_but("read MT-1", |answer| {
        answer.by_id = Some(Err(unreachable(Some(7_000))));
    });
    assert_eq!(desk.wait_of("MT-1"), Some(7_000));
}

#[test]
fn rule_7_4_an_unreadable_record_is_a_failed_read_of_that_issue() {
    let mut desk = second_retry_being_read();
    desk.unreadable("MT-1");
    desk.answer_to("read MT-1");
    assert_eq!(desk.waiting("MT-1").attempt, 2);
    assert_eq!(desk.wait_of("MT-1"), Some(20_000));
}

#[test]
fn rule_7_4_a_first_start_whose_read_fails_is_tried_again_as_a_first_start() {
    let mut desk = Desk::new();
    desk.board([issue("MT-1")]);
    desk.answer();
    desk.answer_fails(&unreachable(None));
    assert_eq!(desk.starts(), NONE);
    desk.live(60_000);
    assert_eq!(desk.starts(), ["MT-1"]);
}

// 7.5

#[test]
fn rule_7_5_a_stalled_run_keeps_its_claim_and_backs_off() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.live(300_000);
    assert_eq!(desk.told(), ["stop MT-1: Stalled"]);
    desk.live(60_000);
    assert_eq!(desk.starts(), NONE, "while it still stops");
    desk.run("MT-1").stops();
    assert_eq!(desk.waiting("MT-1").attempt, 1);
    assert_eq!(desk.waiting("MT-1").failure.unwrap().kind, FailureKind::Stalled);
    assert_eq!(desk.wait_of("MT-1"), Some(10_000));
    desk.live(9_999);
    assert_eq!(desk.starts(), NONE, "while it waits");
    desk.live(1);
    assert_eq!(desk.starts(), ["MT-1 attempt 1"]);
}

// 7.7

#[test]
fn rule_7_7_successes_that_change_nothing_back_off() {
    let mut desk = one_turn();
    desk.works_on([issue("MT-1").updated(5)]);
    let mut counts = Vec::new();
    for wait in [1_000, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000] {
        desk.ends_normally("MT-1");
        assert_eq!(desk.wait_of("MT-1"), Some(wait));
        counts.push(desk.waiting("MT-1").unchanged_ends);
        desk.live(300_000);
        assert_eq!(desk.starts(), ["MT-1 attempt 1"]);
    }
    assert!(counts.windows(2).all(|pair| pair[1] == pair[0] + 1), "{counts:?}");
}

#[test]
fn rule_7_7_any_change_starts_the_count_anew() {
    for changed in [issue("MT-1").updated(6), issue("MT-1").updated(5).state("In Progress")] {
        let mut desk = one_turn();
        desk.works_on([issue("MT-1").updated(5)]);
        for _ in 0..3 {
            desk.ends_normally("MT-1");
            desk.live(300_000);
        }
        desk.board([changed]);
        desk.ends_normally("MT-1");
        assert_eq!(desk.wait_of("MT-1"), Some(1_000));
    }
}
