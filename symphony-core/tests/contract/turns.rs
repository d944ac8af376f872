//! Contract section 10, as far as the core decides: turns, questions, conversations, tokens.

use std::sync::Arc;
use std::time::Duration;

use symphony_core::agent::ClientTurnId;
use symphony_core::agent::{AgentUpdate, Opened, Question, RateLimits, Tokens, Usage, UsdMicros};
use symphony_core::orchestrator::{BlockReason, Command, Effect, NoticeKind, Phase, TurnText};
use symphony_core::snapshot::Reason;
use symphony_core::tracker::{Purpose, TrackerErrorKind};
use symphony_core::{Failure, FailureKind};

use crate::harness::{Draft, Harness, NONE, Stage, id, issue};

fn working() -> Harness {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness
}

fn unreachable(retry_after_ms: Option<u64>) -> Failure {
    let kind = FailureKind::Tracker(TrackerErrorKind::Request);
    Failure::new(kind, "connection refused")
        .with_retry_after(retry_after_ms.map(Duration::from_millis))
}

// 10.1

#[test]
fn rule_10_1_after_a_turn_an_active_issue_gets_the_next_turn_with_fresh_news() {
    let mut harness = working();
    let moved = issue("MT-1").state("In Progress");
    harness.board([moved.clone()]);
    harness.run("MT-1").turn_ends();
    harness.advance(49);
    assert_eq!(harness.reads(), NONE);
    harness.advance(1);
    assert_eq!(harness.reads(), ["read MT-1"]);
    harness.answer();
    let run = harness.run("MT-1").id();
    let client_id = ClientTurnId::of_turn(run, 2);
    let (issue, text) = (Arc::new(moved), TurnText::Continue);
    let next = Effect::NextTurn { run, turn: 2, issue, client_id, text };
    assert!(harness.effects().contains(&next));
    assert_eq!(harness.running("MT-1").turns, 2);
}

#[test]
fn rule_10_1_turns_go_on_up_to_the_limit() {
    let mut harness = Harness::with(|setup| {
        setup.turns(3);
    });
    harness.works_on([issue("MT-1")]);
    for expected in ["next turn MT-1: 2", "next turn MT-1: 3", "finish MT-1"] {
        harness.turn_ends("MT-1");
        assert_eq!(harness.told(), [expected]);
    }
    harness.run("MT-1").ends_well();
    assert_eq!(harness.wait_of("MT-1"), Some(1_000), "a normal end");
}

#[test]
fn rule_10_1_after_a_turn_a_terminal_issue_ends_and_is_cleaned() {
    let mut harness = working();
    harness.board([issue("MT-1").state("Done")]);
    harness.ends_normally("MT-1");
    assert_eq!(harness.stage("MT-1"), Stage::Cleaning);
    assert_eq!(harness.removals(), ["MT-1"]);
}

#[test]
fn rule_10_1_after_a_turn_an_issue_that_is_not_active_ends_and_is_released() {
    let parked = Some(issue("MT-1").state("Human Review"));
    for found in [parked, Some(issue("MT-1").undispatchable()), None] {
        let mut harness = working();
        harness.delete("MT-1");
        harness.board(found);
        harness.ends_normally("MT-1");
        assert_eq!(harness.stage("MT-1"), Stage::Unclaimed);
        assert_eq!(harness.removals(), NONE);
    }
}

#[test]
fn rule_10_1_a_failed_read_keeps_the_session_and_is_tried_again() {
    let mut harness = working();
    harness.run("MT-1").turn_ends();
    harness.advance(50);
    harness.answer_fails(&unreachable(None));
    assert_eq!(harness.told(), NONE);
    harness.advance(9_999);
    assert_eq!(harness.reads(), NONE);
    harness.advance(1);
    assert_eq!(harness.reads(), ["read MT-1"]);
    harness.answer();
    assert_eq!(harness.told(), ["next turn MT-1: 2"]);
}

#[test]
fn rule_10_1_a_failed_read_is_tried_again_when_the_tracker_says() {
    let mut harness = working();
    harness.run("MT-1").turn_ends();
    harness.advance(50);
    harness.answer_fails(&unreachable(Some(3_000)));
    harness.advance(2_999);
    assert_eq!(harness.reads(), NONE);
    harness.advance(1);
    assert_eq!(harness.reads(), ["read MT-1"]);
}

#[test]
fn rule_10_1_after_three_more_failures_the_attempt_ends_as_failed() {
    let mut harness = Harness::with(|setup| {
        // Polls would get in between.
        setup.settings.polling.interval = Duration::from_secs(3_600);
    });
    harness.works_on([issue("MT-1")]);
    harness.run("MT-1").turn_ends();
    for wait in [50, 10_000, 20_000, 40_000] {
        assert_eq!(harness.told(), NONE);
        harness.advance(wait);
        assert_eq!(harness.reads(), ["read MT-1"]);
        harness.answer_fails(&unreachable(None));
    }
    assert_eq!(harness.told(), ["finish MT-1"]);
    harness.run("MT-1").ends_well();
    let row = harness.waiting("MT-1");
    assert_eq!(row.attempt, 1);
    assert!(row.failure.is_some(), "it counts as failed");
    assert_eq!(harness.wait_of("MT-1"), Some(10_000));
}

#[test]
fn rule_10_1_an_unreadable_record_is_a_failed_read() {
    let mut harness = working();
    harness.unreadable("MT-1");
    harness.run("MT-1").turn_ends();
    harness.advance(50);
    harness.answer();
    assert_eq!(harness.told(), NONE);
    harness.advance(10_000);
    assert_eq!(harness.reads(), ["read MT-1"]);
}

#[test]
fn rule_10_1_a_failed_read_is_told() {
    let mut harness = working();
    harness.notices();
    harness.run("MT-1").turn_ends();
    harness.advance(50);
    harness.answer_fails(&unreachable(None));
    let told = NoticeKind::ReadFailed { purpose: Purpose::Turn, failure: unreachable(None) };
    assert!(harness.notices().contains(&told));
}

#[test]
fn rule_10_1_a_run_that_was_told_to_stop_gets_no_other_answer() {
    let mut harness = working();
    harness.run("MT-1").turn_ends();
    harness.advance(50);
    harness.command(Command::Stop(id("MT-1")));
    harness.answer();
    assert_eq!(harness.told(), ["stop MT-1: Operator"]);
}

// 10.3

#[test]
fn rule_10_3_a_conversation_goes_on_after_a_normal_end() {
    let mut harness = Harness::with(|setup| {
        setup.turns(1);
    });
    harness.works_on([issue("MT-1")]);
    let thread = harness.run("MT-1").thread();
    harness.ends_normally("MT-1");
    harness.live(1_000);
    assert_eq!(harness.started()[0].resume, Some(thread));
}

#[test]
fn rule_10_3_after_a_failure_a_new_one_begins() {
    let mut harness = working();
    harness.run("MT-1").fails();
    harness.live(10_000);
    assert_eq!(harness.started()[0].resume, None);
}

// 10.6

fn asked() -> Harness {
    let mut harness = Harness::with(|setup| {
        setup.slots(1);
    });
    harness.works_on([issue("MT-1")]);
    harness.run("MT-1").asks("Which door?");
    harness.settle();
    harness.asked();
    harness
}

#[test]
fn rule_10_6_a_question_blocks_the_issue_and_is_kept() {
    let mut harness = asked();
    let row = harness.blocked("MT-1");
    let why = BlockReason::Question(Question::text("q-1", "Which door?"));
    assert_eq!((row.why, row.since), (why.clone(), harness.now()));
    harness.live(86_400_000);
    assert_eq!(harness.blocked("MT-1").why, why);
    assert_eq!(harness.reason("MT-1"), Reason::NeedsPerson(why));
    assert_eq!(harness.starts(), NONE);
}

#[test]
fn rule_10_6_a_blocked_issue_holds_no_slot() {
    let mut harness = asked();
    harness.board([issue("MT-2")]);
    harness.live(30_000);
    assert_eq!(harness.starts(), ["MT-2"]);
}

#[test]
fn rule_10_6_a_change_of_state_unblocks() {
    let mut harness = asked();
    harness.board([issue("MT-1").state("In Progress")]);
    harness.live(30_000);
    assert_eq!(harness.starts(), ["MT-1 attempt 1"]);
}

#[test]
fn rule_10_6_other_changes_do_not_unblock() {
    let mut harness = asked();
    let edited = issue("MT-1").state(" todo ").titled("The left door").updated(9);
    harness.board([edited]);
    harness.live(300_000);
    assert_eq!(harness.stage("MT-1"), Stage::Blocked);
}

#[test]
fn rule_10_6_an_operator_unblocks() {
    let mut harness = asked();
    harness.command(Command::Retry(id("MT-1")));
    harness.settle();
    assert_eq!(harness.starts(), ["MT-1 attempt 1"]);
}

#[test]
fn rule_10_6_an_issue_that_is_no_longer_active_or_routable_is_released() {
    for found in [issue("MT-1").state("Backlog"), issue("MT-1").undispatchable()] {
        let mut harness = asked();
        harness.board([found]);
        harness.live(30_000);
        assert_eq!(harness.stage("MT-1"), Stage::Unclaimed);
    }
}

#[test]
fn rule_10_6_a_blocked_issue_is_not_lost_when_the_refresh_fails() {
    let mut harness = asked();
    harness.delete("MT-1");
    harness.advance(30_000);
    harness.answer_fails(&unreachable(None));
    assert_eq!(harness.stage("MT-1"), Stage::Blocked);
}

// 10.8

#[test]
fn rule_10_8_tokens_are_high_water_marks_per_conversation() {
    let mut harness = working();
    for tokens in [100, 150, 120, 150] {
        harness.run("MT-1").has_used("one", tokens);
    }
    assert_eq!(harness.running("MT-1").tokens.total, 150);
    harness.run("MT-1").has_used("two", 30);
    assert_eq!(harness.running("MT-1").tokens.total, 180);
    assert_eq!(harness.snapshot().totals.tokens.total, 180);
}

#[test]
fn rule_10_8_every_kind_of_token_is_kept() {
    let mut harness = working();
    let total =
        Tokens { input: 100, cached_input: 60, output: 20, reasoning_output: 5, total: 120 };
    harness.run("MT-1").says(AgentUpdate::Usage { thread: "one".into(), total: total.into() });
    assert_eq!(harness.running("MT-1").tokens, total);
    harness.run("MT-1").fails();
    assert_eq!(harness.snapshot().totals.tokens, total, "also after its end");
}

#[test]
fn rule_10_8_a_reported_cost_is_counted_as_tokens_are() {
    let mut harness = working();
    assert_eq!(harness.running("MT-1").cost, None, "not reported is not nothing");
    for (thread, cost) in [("one", 100), ("one", 150), ("one", 120), ("two", 30)] {
        let total = Usage::default().with_cost(UsdMicros(cost));
        harness.run("MT-1").says(AgentUpdate::Usage { thread: thread.into(), total });
    }
    assert_eq!(harness.running("MT-1").cost, Some(UsdMicros(180)));
    assert_eq!(harness.running("MT-1").tokens, Tokens::default());
    harness.run("MT-1").fails();
    assert_eq!(harness.snapshot().totals.cost, Some(UsdMicros(180)), "also after its end");
}

#[test]
fn rule_10_3_an_opened_session_names_its_conversation_before_its_first_turn() {
    let mut harness = Harness::with(|setup| {
        setup.turns(1);
    });
    harness.board([issue("MT-1")]);
    harness.settle();
    let mut opened = Opened::new("early".into());
    opened.model = Some("fast-1".to_owned());
    opened.effort = Some("high".to_owned());
    harness.run("MT-1").enters(Phase::InitializingSession).opens(opened);
    let row = harness.running("MT-1");
    assert_eq!(row.thread, Some("early".into()));
    assert_eq!((row.model.as_deref(), row.effort.as_deref()), (Some("fast-1"), Some("high")));
    harness.run("MT-1").asks("Which door?");
    harness.settle();
    harness.command(Command::Retry(id("MT-1")));
    harness.settle();
    let start = harness.started().pop().expect("a start");
    assert_eq!(start.resume, Some("early".into()));
}

#[test]
fn rule_10_8_a_conversation_that_goes_on_starts_from_what_it_had() {
    let mut harness = Harness::with(|setup| {
        setup.turns(1);
    });
    harness.works_on([issue("MT-1")]);
    let thread = harness.run("MT-1").thread();
    harness.run("MT-1").has_used(thread.as_str(), 150);
    harness.ends_normally("MT-1");
    harness.live(1_000);
    harness.run("MT-1").works().has_used(thread.as_str(), 150);
    assert_eq!(harness.running("MT-1").tokens.total, 0);
    harness.run("MT-1").has_used(thread.as_str(), 200);
    assert_eq!(harness.running("MT-1").tokens.total, 50);
    assert_eq!(harness.snapshot().totals.tokens.total, 200);
}

#[test]
fn rule_10_8_rate_limits_are_kept_as_reported() {
    let mut harness = working();
    let limits = Arc::new(RateLimits { plan: Some("pro".to_owned()), ..RateLimits::default() });
    let update = AgentUpdate::RateLimits(Arc::clone(&limits));
    harness.run("MT-1").says(update);
    assert_eq!(harness.snapshot().rate_limits, Some(limits));
}

#[test]
fn rule_10_6_a_move_by_the_agent_before_its_question_is_not_a_change() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.board([issue("MT-1").state("In Progress")]);
    harness.run("MT-1").asks("Which door?");
    assert_eq!(harness.reads(), ["refresh MT-1"], "in which state it is left");
    harness.live(60_000);
    assert_eq!(harness.stage("MT-1"), Stage::Blocked);
    // Whatever clocks say, this one is a change.
    harness.board([issue("MT-1").updated(0)]);
    harness.live(30_000);
    assert_eq!(harness.starts(), ["MT-1 attempt 1"]);
}

#[test]
fn rule_10_3_a_conversation_with_another_agent_is_not_gone_on_with() {
    let mut harness = Harness::with(|setup| {
        setup.turns(1);
    });
    harness.works_on([issue("MT-1")]);
    harness.ends_normally("MT-1");
    harness.reloads(|settings| settings.agent.kind = "other".to_owned());
    harness.live(10_000);
    assert_eq!(harness.started()[0].resume, None);
    assert_eq!(harness.running("MT-1").thread, None);
}
