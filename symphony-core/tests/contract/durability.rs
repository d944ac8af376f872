//! Contract section 16, as far as the core decides: what is written, and what a life makes of it.

use std::time::Duration;

use symphony_core::agent::{AgentErrorKind, ClientTurnId, LastTurn, LastTurnState, Opened};
use symphony_core::orchestrator::{
    BlockReason, Command, Effect, Event, NoticeKind, Outcome, Phase, RunEnd, TurnText,
};
use symphony_core::snapshot::{Reason, Verdict};
use symphony_core::store::{ClaimStage, Durability, Write};
use symphony_core::tracker::TrackerErrorKind;
use symphony_core::{Failure, FailureKind, Scope};

use crate::harness::{Draft, Harness, NONE, Stage, id, issue};

fn working() -> Harness {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.writes();
    harness
}

/// The next life, whose run of MT-1 has opened its session.
fn reopened(harness: &Harness, opened: impl FnOnce(&Harness) -> Opened) -> Harness {
    let mut next = harness.restarted(60_000);
    next.board([issue("MT-1")]);
    next.settle();
    assert_eq!(next.started().len(), 1);
    let opened = opened(harness);
    next.run("MT-1").enters(Phase::InitializingSession).opens(opened);
    next
}

fn first_text(harness: &mut Harness) -> Option<TurnText> {
    harness.effects().into_iter().find_map(|effect| match effect {
        Effect::NextTurn { turn: 1, text, .. } => Some(text),
        _ => None,
    })
}

/// The conversation of MT-1, whose last turn was this one.
fn resumed(harness: &Harness, last: Option<(u32, LastTurnState)>) -> Opened {
    let row = &harness.rows().claims[0];
    let mut opened = Opened::new(row.thread.clone().expect("a conversation"));
    opened.last_turn = last.map(|(turn, state)| {
        let run = harness.rows().open_runs[0].run;
        LastTurn::new(Some(ClientTurnId::of_turn(run, turn)), state)
    });
    opened
}

// 16.1 Rows

#[test]
fn rule_16_1_a_start_writes_its_claim_and_its_run_first() {
    let mut harness = Harness::new();
    harness.board([issue("MT-1")]);
    harness.settle();
    assert_eq!(harness.starts(), ["MT-1"]);
    let rows = harness.rows();
    assert_eq!((rows.claims[0].stage, rows.open_runs.len()), (ClaimStage::Running, 1));
    assert_eq!(rows.totals.started, 1);
    assert_eq!(rows.claims[0].issue.description, None);
}

#[test]
fn rule_16_1_a_sign_of_life_writes_nothing() {
    let mut harness = working();
    for _ in 0..100 {
        harness.run("MT-1").says(symphony_core::agent::AgentUpdate::Alive);
        harness.run("MT-1").has_used("thread-1", 5);
    }
    assert_eq!(harness.writes(), []);
}

#[test]
fn rule_16_1_counts_of_tokens_are_at_most_thirty_seconds_old() {
    let mut harness = working();
    harness.run("MT-1").has_used("thread-1", 1_000);
    harness.run("MT-1").has_used("thread-1", 2_000);
    harness.advance(29_999);
    assert!(!harness.writes().iter().any(|write| matches!(write, Write::Totals(_))));
    harness.advance(1);
    let rows = harness.rows();
    assert_eq!((rows.totals.tokens.total, rows.open_runs[0].tokens.total), (2_000, 2_000));
    assert_eq!(rows.claims[0].counted.len(), 1);
}

#[test]
fn rule_16_1_sums_are_written_with_what_is_in_them() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1"), issue("MT-2")]);
    harness.run("MT-2").has_used("thread-2", 500);
    harness.turn_ends("MT-1");
    let rows = harness.rows();
    let counted = rows.claims.iter().flat_map(|row| row.counted.values());
    let counted: u64 = counted.filter_map(|usage| usage.tokens).map(|tokens| tokens.total).sum();
    assert_eq!(counted, rows.totals.tokens.total, "or a restart would count it twice");
}

#[test]
fn rule_16_1_what_must_not_be_lost_is_written_for_the_machine() {
    let durability = |harness: &mut Harness, event: &dyn Fn(&mut Harness)| {
        harness.durability = Durability::Process;
        event(harness);
        harness.durability
    };
    let mut harness = working();
    let ends = |harness: &mut Harness| harness.turn_ends("MT-1");
    assert_eq!(durability(&mut harness, &ends), Durability::Machine, "a turn is asked");
    let pauses = |harness: &mut Harness| harness.command(Command::Pause);
    assert_eq!(durability(&mut harness, &pauses), Durability::Machine);
    let polls = |harness: &mut Harness| harness.live(30_000);
    assert_eq!(durability(&mut harness, &polls), Durability::Process);
    let asks = |harness: &mut Harness| harness.run("MT-1").asks("Which door?");
    assert_eq!(durability(&mut harness, &asks), Durability::Machine);
}

#[test]
fn rule_16_1_an_idle_service_writes_when_it_read_and_nothing_else() {
    let mut harness = working();
    harness.run("MT-1").fails();
    harness.command(Command::Stop(id("MT-1")));
    harness.live(60_000);
    harness.writes();
    harness.durability = Durability::Process;
    harness.live(3_600_000);
    let writes = harness.writes();
    assert!(writes.iter().all(|write| matches!(write, Write::Polls(_))), "{writes:?}");
    assert_eq!(harness.durability, Durability::Process);
}

#[test]
fn rule_16_1_a_row_survives_encoding_and_a_claim_that_is_over_has_none() {
    let mut harness = working();
    harness.run("MT-1").has_used("thread-1", 7);
    harness.turn_ends("MT-1");
    for write in harness.writes() {
        let text = serde_json::to_string(&write).expect("a row is serialisable");
        assert_eq!(serde_json::from_str::<Write>(&text).expect("and comes back"), write);
    }
    harness.board([issue("MT-1").state("Done")]);
    harness.live(30_000);
    harness.run("MT-1").stops();
    assert_eq!(harness.rows().claims, []);
}

// 16.3 The store that fails

fn storage() -> Failure {
    Failure::new(FailureKind::Storage, "the disk is full")
}

#[test]
fn rule_16_3_nothing_starts_while_nothing_can_be_kept() {
    let mut harness = Harness::new();
    harness.event(Event::Storage(Some(storage())));
    harness.board([issue("MT-1")]);
    harness.live(60_000);
    assert_eq!((harness.starts(), harness.reason("MT-1")), (vec![], Reason::Storage));
    assert_eq!(harness.snapshot().verdict, Verdict::Storage(storage()));
    harness.event(Event::Storage(None));
    harness.settle();
    assert_eq!(harness.starts(), ["MT-1"]);
    let told = harness.notices();
    let storage = told.iter().filter(|what| matches!(what, NoticeKind::Storage { .. }));
    assert_eq!(storage.count(), 2, "once each");
}

#[test]
fn rule_16_3_a_turn_that_waits_for_the_store_does_not_stall() {
    let mut harness = Harness::with(|setup| {
        setup.settings.agent.common.stall_timeout = Some(Duration::from_secs(60));
    });
    harness.works_on([issue("MT-1")]);
    harness.store_hangs = true;
    harness.turn_ends("MT-1");
    harness.told();
    harness.live(299_000);
    assert_eq!(harness.told(), NONE);
    harness.run("MT-1").awaits_answer().enters(Phase::StreamingTurn);
    harness.live(60_000);
    assert_eq!(harness.told(), ["stop MT-1: Stalled"]);
}

#[test]
fn rule_16_3_a_turn_that_cannot_be_kept_gives_way_after_five_minutes() {
    let mut harness = working();
    harness.store_hangs = true;
    harness.turn_ends("MT-1");
    harness.event(Event::Storage(Some(storage())));
    harness.told();
    harness.run("MT-1").awaits_answer();
    harness.live(300_000);
    assert_eq!(harness.told(), ["finish MT-1"]);
    harness.run("MT-1").ends_well();
    let row = harness.waiting("MT-1");
    assert_eq!(row.failure.map(|failure| failure.kind), Some(FailureKind::Storage));
    assert_eq!(row.attempt, 0, "it is not the issue's failure");
    harness.live(600_000);
    assert_eq!(harness.starts(), NONE);
    harness.store_hangs = false;
    harness.event(Event::Storage(None));
    harness.settle();
    let start = harness.started().pop().expect("a start");
    assert_eq!((start.attempt, start.resume), (None, Some("thread-1".into())));
}

#[test]
fn rule_16_3_a_limit_that_ends_a_run_which_gives_way_burns_no_attempt() {
    let mut harness = working();
    harness.store_hangs = true;
    harness.turn_ends("MT-1");
    harness.run("MT-1").awaits_answer();
    harness.live(300_000);
    assert_eq!(harness.told().last().map(String::as_str), Some("finish MT-1"));
    harness.run("MT-1").fails_as(AgentErrorKind::UsageLimit, Some(3_600_000));
    assert_eq!(harness.waiting("MT-1").attempt, 0);
    assert_eq!(harness.snapshot().holds.len(), 1);
}

// 16.4 Restart

#[test]
fn rule_16_4_a_waiting_claim_waits_for_what_is_left() {
    let mut harness = working();
    harness.run("MT-1").fails();
    let mut next = harness.restarted(4_000);
    next.board([issue("MT-1")]);
    let row = next.waiting("MT-1");
    assert_eq!((row.attempt, row.until), (1, Some(next.after(6_000))));
    next.live(5_999);
    assert_eq!(next.starts(), NONE);
    next.live(1);
    assert_eq!(next.starts(), ["MT-1 attempt 1"]);
    // A clock that went back makes no wait longer.
    let mut next = harness.restarted(0);
    next.wall_jumps(-3_600_000);
    assert_eq!(next.waiting("MT-1").until, Some(next.after(10_000)));
}

#[test]
fn rule_16_4_a_run_that_was_cut_off_is_interrupted_and_burns_no_attempt() {
    let harness = working();
    let mut next = harness.restarted(60_000);
    next.board([issue("MT-1")]);
    let row = next.waiting("MT-1");
    assert_eq!(row.failure.map(|failure| failure.kind), Some(FailureKind::Interrupted));
    assert_eq!(next.reads(), ["poll with MT-1"], "nothing starts before it is read");
    next.settle();
    let start = next.started().pop().expect("a start");
    assert_eq!((start.attempt, start.resume), (None, Some("thread-1".into())));
    let ended = next.writes().into_iter().find_map(|write| match write {
        Write::Run(row) if row.ended.is_some() => Some(row),
        _ => None,
    });
    assert_eq!(ended.and_then(|row| row.outcome), Some(Outcome::Interrupted));
    assert_eq!(next.snapshot().totals.interrupted, 1);
}

#[test]
fn rule_16_4_from_the_third_interruption_in_a_row_on_it_waits() {
    let mut harness = Harness::with(|setup| {
        setup.turns(1);
    });
    harness.works_on([issue("MT-1")]);
    let mut waits = Vec::new();
    for _ in 0..4 {
        harness = harness.restarted(60_000);
        harness.board([issue("MT-1")]);
        let until = harness.waiting("MT-1").until;
        waits.push(until.map(|at| at.since(harness.now().mono).as_secs()));
        harness.live(30_000);
        assert_eq!(harness.starts(), ["MT-1"]);
        harness.run("MT-1").works();
    }
    assert_eq!(waits, [None, None, Some(10), Some(20)]);
    harness.ends_normally("MT-1");
    harness = harness.restarted(0);
    assert_eq!(harness.rows().claims[0].interruptions, 0);
}

#[test]
fn rule_16_4_a_question_survives_with_its_conversation() {
    let mut harness = working();
    harness.run("MT-1").asks("Which door?");
    let mut next = harness.restarted(60_000);
    next.board([issue("MT-1")]);
    next.live(60_000);
    let BlockReason::Question(question) = next.blocked("MT-1").why else {
        panic!("not a question");
    };
    assert_eq!(question.to_string(), "Which door?");
    assert_eq!(next.starts(), NONE);
    next.command(Command::Retry(id("MT-1")));
    next.settle();
    let start = next.started().pop().expect("a start");
    assert_eq!((start.resume, start.unanswered), (Some("thread-1".into()), true));
}

#[test]
fn rule_16_4_a_hold_survives_for_what_is_left_of_it() {
    let mut harness = working();
    harness.run("MT-1").fails_as(AgentErrorKind::UsageLimit, Some(3_600_000));
    let mut next = harness.restarted(600_000);
    let hold = &next.snapshot().holds[0];
    assert_eq!(hold.until, next.after(3_000_000));
    next.board([issue("MT-2")]);
    next.live(2_999_999);
    assert_eq!(next.starts(), NONE);
    next.live(2);
    assert_eq!(next.starts().len(), 1, "one probe");
}

#[test]
fn rule_16_4_sums_go_on() {
    let mut harness = Harness::with(|setup| {
        setup.turns(1);
    });
    harness.works_on([issue("MT-1")]);
    harness.run("MT-1").has_used("thread-1", 900);
    harness.ends_normally("MT-1");
    let totals = harness.snapshot().totals;
    let next = harness.restarted(0);
    assert_eq!(next.snapshot().totals, totals);
    assert_eq!((totals.tokens.total, totals.started), (900, 1));
}

#[test]
fn rule_16_4_a_clean_end_keeps_every_claim() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1"), issue("MT-2"), issue("MT-3")]);
    harness.run("MT-2").fails();
    harness.run("MT-3").asks("Which door?");
    harness.command(Command::ShutDown);
    harness.run("MT-1").stops();
    let rows = harness.rows().claims;
    let stages: Vec<_> = rows.iter().map(|row| (row.stage, row.interruptions)).collect();
    let (waiting, blocked) = (ClaimStage::Waiting, ClaimStage::Blocked);
    assert_eq!(stages, [(waiting, 0), (waiting, 0), (blocked, 0)]);
    assert_eq!(rows[0].thread, Some("thread-1".into()));
    let mut next = harness.restarted(60_000);
    next.board([issue("MT-1")]);
    next.settle();
    let starts: Vec<_> = next.started().into_iter().map(|start| start.resume).collect();
    assert!(starts.contains(&Some("thread-1".into())), "{starts:?}");
}

#[test]
fn rule_16_4_a_question_that_comes_while_the_service_ends_is_kept() {
    let mut harness = working();
    harness.command(Command::ShutDown);
    harness.run("MT-1").asks("Which door?");
    assert_eq!(harness.restarted(0).stage("MT-1"), Stage::Blocked);
}

#[test]
fn rule_16_4_claims_of_another_scope_are_kept_for_its_return() {
    let mut harness = working();
    harness.run("MT-1").fails();
    harness.reloads_tracker("other");
    assert_eq!(harness.stage("MT-1"), Stage::Unclaimed);
    harness.live(60_000);
    harness.reloads_tracker("board");
    assert_eq!(harness.stage("MT-1"), Stage::Checking, "due by now");
    assert_eq!(harness.rows().claims[0].attempt, Some(1));
    assert_eq!(harness.rows().claims[0].scope, Scope::from("board"));
}

#[test]
fn rule_16_4_a_scope_that_is_back_before_its_run_ended_finds_its_claim_as_it_is() {
    let mut harness = working();
    harness.reloads_tracker("other");
    harness.reloads_tracker("board");
    harness.board([issue("MT-1").state("Done")]);
    harness.live(30_000);
    harness.run("MT-1").stops();
    harness.removed("MT-1");
    assert_eq!(harness.stage("MT-1"), Stage::Unclaimed, "and is not restored beside it");
}

#[test]
fn rule_16_4_a_restored_claim_does_not_wait_for_a_list_that_works() {
    let mut next = working().restarted(60_000);
    next.board([issue("MT-1")]);
    next.answer_fails(&Failure::new(FailureKind::Tracker(TrackerErrorKind::Request), "down"));
    assert_eq!(next.reads(), ["read MT-1"]);
}

#[test]
fn rule_16_4_a_hold_that_ends_with_a_sign_of_life_is_over_for_the_next_life_too() {
    let mut harness = working();
    harness.run("MT-1").fails_as(AgentErrorKind::UsageLimit, Some(60_000));
    harness.live(61_000);
    harness.run("MT-1").works();
    harness.command(Command::Pause);
    harness.run("MT-1").has_used("thread-2", 5);
    assert_eq!((harness.snapshot().holds, harness.rows().holds), (vec![], vec![]));
}

// 16.3 The fence

#[test]
fn rule_16_3_a_turn_is_recorded_before_the_agent_gets_it() {
    let harness = working();
    let row = &harness.rows().claims[0];
    let run = harness.rows().open_runs[0].run;
    let asked = row.asked.as_ref().expect("a turn");
    assert_eq!((&asked.client_id, asked.number), (&ClientTurnId::of_turn(run, 1), 1));
    assert_eq!(row.thread, Some("thread-1".into()));
}

#[test]
fn rule_16_3_what_the_agent_says_of_its_last_turn_decides_the_next() {
    use LastTurnState::{Completed, Interrupted, Unknown};
    for (turns, last, text) in [
        (1, None, TurnText::Prompt),
        (1, Some((1, Interrupted)), TurnText::Restarted),
        (1, Some((1, Completed)), TurnText::Continue),
        (1, Some((1, Unknown)), TurnText::RestartedWithPrompt),
        (2, Some((1, Completed)), TurnText::Continue),
        (2, Some((2, Interrupted)), TurnText::Restarted),
    ] {
        let mut harness = working();
        for _ in 1..turns {
            harness.turn_ends("MT-1");
        }
        let mut next = reopened(&harness, |old| resumed(old, last));
        assert_eq!(first_text(&mut next), Some(text), "{turns} {last:?}");
    }
}

#[test]
fn rule_16_3_an_agent_that_cannot_say_gets_the_prompt_as_a_reference() {
    let mut next = reopened(&working(), |old| {
        let mut opened = resumed(old, None);
        opened.last_turn = Some(LastTurn::new(None, LastTurnState::Unknown));
        opened
    });
    assert_eq!(first_text(&mut next), Some(TurnText::RestartedWithPrompt));
}

#[test]
fn rule_16_3_a_turn_without_a_name_may_be_the_one_that_was_asked() {
    let mut next = reopened(&working(), |old| {
        let mut opened = resumed(old, None);
        opened.last_turn = Some(LastTurn::new(None, LastTurnState::Interrupted));
        opened
    });
    assert_eq!(first_text(&mut next), Some(TurnText::RestartedWithPrompt));
}

#[test]
fn rule_16_3_an_agent_that_says_nothing_may_have_resumed_its_conversation() {
    let mut next = reopened(&working(), |_| Opened::default());
    assert_eq!(first_text(&mut next), Some(TurnText::RestartedWithPrompt));
}

#[test]
fn rule_16_3_what_never_reached_the_agent_is_said_again() {
    let first = working();
    let cut_off = Some((1, LastTurnState::Interrupted));
    let mut second = reopened(&first, |old| resumed(old, cut_off));
    assert_eq!(first_text(&mut second), Some(TurnText::Restarted));
    // The next end comes before the agent got it.
    let mut third = reopened(&second, |_| resumed(&first, cut_off));
    assert_eq!(first_text(&mut third), Some(TurnText::Restarted), "not the bare prompt");
}

#[test]
fn rule_16_3_a_conversation_that_is_gone_begins_with_the_prompt() {
    let mut next = reopened(&working(), |_| Opened::new("thread-2".into()));
    assert_eq!(first_text(&mut next), Some(TurnText::Prompt));
}

#[test]
fn rule_16_3_a_turn_that_had_failed_is_a_failure() {
    let last = Some((1, LastTurnState::Failed));
    let mut next = reopened(&working(), |old| resumed(old, last));
    assert_eq!(next.told(), ["finish MT-1"]);
    next.run("MT-1").ends(RunEnd::Succeeded);
    let row = next.waiting("MT-1");
    let kind = row.failure.map(|failure| failure.kind);
    assert_eq!(kind, Some(FailureKind::Agent(AgentErrorKind::TurnFailed)));
    assert_eq!(row.attempt, 1);
}

#[test]
fn rule_16_3_a_turn_that_ended_is_not_asked_for_again() {
    let mut harness = working();
    harness.run("MT-1").turn_ends();
    assert_eq!(harness.rows().claims[0].asked, None);
}
