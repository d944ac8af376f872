//! Contract 13.2 and 5.5: what the orchestrator shows, and why it does nothing.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use symphony_core::agent::{AgentErrorKind, AgentEvent, AgentUpdate, Question, ThreadId, Tokens};
use symphony_core::orchestrator::{BlockReason, Command, Job, Phase, StopReason};
use symphony_core::snapshot::{Mode, Reason, Slots, Totals, Verdict};
use symphony_core::tracker::TrackerErrorKind;
use symphony_core::{Failure, FailureKind, HostId, WorkspaceKey};

use crate::harness::{Draft, Harness, NONE, id, issue};

fn unreachable() -> Failure {
    let kind = FailureKind::Tracker(TrackerErrorKind::Request);
    Failure::new(kind, "connection refused")
}

// 13.2

#[test]
fn rule_13_2_a_running_row_shows_phase_turns_tokens_and_the_last_event() {
    let mut harness = Harness::new();
    harness.board([issue("MT-1")]);
    harness.settle();
    let started = harness.now();
    harness.run("MT-1").works();
    harness.advance(7_000);
    let event = Arc::new(AgentEvent {
        name: "notification".to_owned(),
        summary: "reading the door".to_owned(),
        at: harness.now().wall,
    });
    harness.run("MT-1").says(AgentUpdate::Event(Arc::clone(&event)));
    harness.run("MT-1").has_used("thread-1", 120);
    let run = harness.run("MT-1").id();
    let expected = json!([{
        "issue": issue("MT-1"),
        "run": run,
        "attempt": null,
        "host": HostId::local(),
        "key": WorkspaceKey::derive("MT-1").unwrap(),
        "phase": Phase::StreamingTurn,
        "stopping": null,
        "stop_overdue": false,
        "started": started,
        "turns": 1,
        "max_turns": 20,
        "unrequested_turns": 0,
        "finish_by": null,
        "thread": ThreadId::from("thread-1"),
        "session_id": "thread-1-1",
        "pid": 4242,
        "model": null,
        "effort": null,
        "tokens": Tokens { input: 120, total: 120, ..Tokens::default() },
        "cost": null,
        "last_event": event,
        "last_alive": harness.now().mono,
    }]);
    assert_eq!(json!(harness.snapshot().running), expected);
}

#[test]
fn rule_13_2_a_run_that_is_being_stopped_says_why() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.command(Command::Stop(id("MT-1")));
    let row = harness.running("MT-1");
    assert_eq!(row.stopping, Some(StopReason::Operator));
}

#[test]
fn rule_13_2_rows_for_waiting_blocked_checking_and_cleaning() {
    let mut harness = Harness::with(|setup| {
        setup.turns(1);
    });
    harness.works_on([issue("MT-1"), issue("MT-2"), issue("MT-3")]);
    harness.run("MT-1").fails();
    harness.run("MT-2").asks("Which door?");
    let since = harness.now();
    let failed_at = harness.now().mono;
    harness.settle();
    harness.board([issue("MT-3").state("Done"), issue("MT-4")]);
    harness.ends_normally("MT-3");
    harness.command(Command::PollNow);
    harness.answer();

    let snapshot = harness.snapshot();
    let kind = FailureKind::Agent(AgentErrorKind::ProcessExit);
    let waiting = json!([{
        "issue": issue("MT-1"),
        "attempt": 1,
        "until": failed_at + Duration::from_secs(10),
        "failure": Failure::new(kind, "it broke"),
        "unchanged_ends": 0,
    }]);
    let blocked = json!([{
        "issue": issue("MT-2"),
        "why": BlockReason::Question(Question::text("q-1", "Which door?")),
        "since": since,
    }]);
    let done = issue("MT-3").state("Done");
    let cleaning = json!([{ "issue": done, "failures": 0, "until": null }]);
    let checking = json!([{ "issue": issue("MT-4"), "attempt": null }]);
    assert_eq!(json!(snapshot.waiting), waiting);
    assert_eq!(json!(snapshot.blocked), blocked);
    assert_eq!(json!(snapshot.cleaning), cleaning);
    assert_eq!(json!(snapshot.checking), checking);
    assert_eq!(snapshot.now, harness.now());
}

#[test]
fn rule_13_2_slots_in_use_and_in_all() {
    let mut harness = Harness::with(|setup| {
        setup.slots(5);
    });
    harness.works_on([issue("MT-1"), issue("MT-2").state("In Progress"), issue("MT-3")]);
    let mut expected = Slots::default();
    expected.used = 3;
    expected.limit = 5;
    expected.by_state = [("Todo".into(), 2), ("In Progress".into(), 1)].into();
    expected.by_host = [(HostId::local(), 3)].into();
    assert_eq!(harness.snapshot().slots, expected);
}

#[test]
fn rule_13_2_totals_include_live_runtime() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1"), issue("MT-2")]);
    harness.run("MT-1").has_used("thread-1", 100);
    harness.run("MT-2").has_used("thread-2", 20);
    harness.advance(4_000);
    harness.run("MT-1").fails();
    harness.advance(3_000);
    let mut expected = Totals::default();
    expected.tokens = Tokens { input: 120, total: 120, ..Tokens::default() };
    expected.runtime = Duration::from_secs(4 + 7);
    expected.started = 2;
    expected.failed = 1;
    assert_eq!(harness.snapshot().totals, expected);
}

#[test]
fn rule_13_2_the_runtime_of_a_run_that_stalled_stays_in_the_totals() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.advance(300_000);
    assert_eq!(harness.told(), ["stop MT-1: Stalled"]);
    harness.run("MT-1").stops();
    let Totals { runtime, failed, .. } = harness.snapshot().totals;
    assert_eq!((runtime, failed), (Duration::from_secs(300), 1));
}

#[test]
fn rule_13_2_polling_shows_what_is_open_what_is_next_and_the_last_error() {
    let mut harness = Harness::new();
    assert!(harness.job(&Job::Candidates).in_progress);
    harness.answer_fails(&unreachable());
    let row = harness.job(&Job::Candidates);
    assert!(!row.in_progress);
    assert!(row.next > Some(harness.now().mono));
    assert_eq!(row.last_run, Some(harness.now().wall));
    assert_eq!(row.failure, Some(unreachable()));
    harness.live(60_000);
    assert_eq!(harness.job(&Job::Candidates).failure, None);
}

#[test]
fn rule_13_2_a_fresh_orchestrator_shows_nothing() {
    let snapshot = Harness::new().snapshot();
    assert_eq!(snapshot.totals, Totals::default());
    assert_eq!(snapshot.polling.mode, Mode::Active);
    assert_eq!((snapshot.paused, snapshot.shutting_down), (false, false));
    assert!(snapshot.problems.is_empty() && snapshot.holds.is_empty());
    assert_eq!(snapshot.rate_limits, None);
}

// 5.5: one reason each; those of the issue itself are shown with rule 5.1 and 5.2.

#[test]
fn rule_5_5_an_issue_that_waits_says_until_when() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.run("MT-1").fails();
    assert_eq!(harness.reason("MT-1"), Reason::WaitingUntil(harness.after(10_000)));
}

#[test]
fn rule_5_5_an_issue_that_runs_needs_no_reason() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.live(30_000);
    assert_eq!(harness.unstarted("MT-1"), None);
}

#[test]
fn rule_5_5_reasons_are_computed_when_asked() {
    let mut harness = Harness::with(|setup| {
        setup.slots(1);
    });
    harness.board([issue("MT-2")]);
    harness.works_on([issue("MT-1")]);
    assert_eq!(harness.reason("MT-2"), Reason::NoSlot);
    harness.command(Command::Pause);
    assert_eq!(harness.reason("MT-2"), Reason::Paused);
    harness.file_breaks("agent.max_turns");
    assert_eq!(harness.reason("MT-2"), Reason::InvalidWorkflow);
    harness.command(Command::ShutDown);
    assert_eq!(harness.reason("MT-2"), Reason::ShuttingDown);
}

#[test]
fn rule_5_5_a_failed_check_is_a_reason() {
    let mut harness = Harness::new();
    harness.board([issue("MT-1")]);
    harness.answer();
    harness.answer_fails(&unreachable());
    let reason = harness.reason("MT-1");
    let waits = matches!(reason, Reason::CheckFailed | Reason::WaitingUntil(_));
    assert!(waits, "{reason:?}");
}

#[test]
fn rule_5_5_a_refused_check_is_a_matter_of_budget() {
    let mut harness = Harness::new();
    harness.board([issue("MT-1")]);
    harness.answer();
    let kind = FailureKind::Tracker(TrackerErrorKind::RateLimited);
    harness.answer_fails(
        &Failure::new(kind, "slow down").with_retry_after(Some(Duration::from_secs(60))),
    );
    assert_eq!(harness.reason("MT-1"), Reason::Budget);
    harness.live(59_999);
    assert_eq!(harness.starts(), NONE);
    harness.live(60_000);
    assert_eq!(harness.starts(), ["MT-1"]);
}

#[test]
fn rule_5_5_the_snapshot_has_counts_the_first_200_and_the_lists_age() {
    let mut harness = Harness::with(|setup| {
        setup.slots(1);
    });
    harness.board((0..300).map(|n| issue(&format!("MT-{n}")).created(n)));
    harness.board([issue("X-1").undispatchable(), issue("X-2").blocked_by("X-1", "Todo")]);
    harness.settle();
    let read_at = harness.now().mono;
    harness.advance(5_000);
    let view = harness.snapshot().candidates;
    assert_eq!((view.total, view.more, view.read_at), (302, false, Some(read_at)));
    assert_eq!(view.first.len(), 200);
    assert_eq!(view.first[0].id, id("MT-1"), "in dispatch order");
    let counts = [("blocked_by", 1), ("no_slot", 299), ("not_dispatchable", 1)];
    let counts = counts.map(|(reason, count)| (reason.to_owned(), count));
    assert_eq!(view.reasons, counts.into());
}

#[test]
fn rule_5_5_what_another_list_shows_takes_no_place_among_the_first_candidates() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-0").created(0)]);
    harness.run("MT-0").asks("Which door?");
    harness.board((1..=199).map(|n| issue(&format!("MT-{n}")).created(n).undispatchable()));
    harness.live(30_000);
    let first = harness.snapshot().candidates.first.clone();
    assert_eq!((first.len(), &first[199].id), (200, &id("MT-0")), "it comes last");
    harness.board([issue("MT-200").created(200).undispatchable()]);
    harness.live(30_000);
    let first = harness.snapshot().candidates.first.clone();
    assert_eq!((first.len(), &first[199].id), (200, &id("MT-200")), "it gives way");
}

#[test]
fn rule_5_5_nothing_eligible_a_failed_poll_and_a_bad_file_are_three_answers() {
    let mut harness = Harness::new();
    assert_eq!(harness.verdict(), Verdict::NotPolledYet);
    harness.answer_fails(&unreachable());
    assert_eq!(harness.verdict(), Verdict::PollFailed(unreachable()));
    harness.live(60_000);
    assert_eq!(harness.verdict(), Verdict::NoCandidates);
    harness.board([issue("MT-1").undispatchable()]);
    harness.live(30_000);
    assert_eq!(harness.verdict(), Verdict::NothingEligible);
    harness.file_breaks("agent.max_turns");
    assert!(matches!(harness.verdict(), Verdict::InvalidWorkflow(problems) if problems.len() == 1));
    harness.reloads(|_| ());
    harness.command(Command::Pause);
    assert_eq!(harness.verdict(), Verdict::Paused);
    harness.command(Command::ShutDown);
    assert_eq!(harness.verdict(), Verdict::ShuttingDown);
}

#[test]
fn rule_5_5_full_and_about_to_start_are_answers_too() {
    let mut harness = Harness::with(|setup| {
        setup.slots(1);
    });
    harness.board([issue("MT-1"), issue("MT-2")]);
    harness.answer();
    assert_eq!(harness.verdict(), Verdict::Starting);
    harness.answer();
    assert_eq!(harness.verdict(), Verdict::Full);
}
