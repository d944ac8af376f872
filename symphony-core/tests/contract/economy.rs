//! Contract section 12: polling economy, as decisions.

use std::collections::BTreeMap;
use std::time::Duration;

use symphony_core::budget::{BudgetView, Spent};
use symphony_core::orchestrator::{Command, Effect, Event, Job, NoticeKind};
use symphony_core::settings::ActivitySettings;
use symphony_core::snapshot::Mode;
use symphony_core::store::{PollRow, Write};
use symphony_core::tracker::TrackerErrorKind;
use symphony_core::{Failure, FailureKind};

use crate::harness::{Draft, Harness, NONE, Stage, issue, record};

const MINUTE: u64 = 60_000;

/// Active every 30 s, idle after 10 minutes every 2, dormant after an hour every 5.
fn with_activity() -> Harness {
    Harness::with(|setup| {
        setup.settings.polling.activity = Some(ActivitySettings::default());
        setup.settings.agent.common.stall_timeout = None;
    })
}

/// How many reads go out in this time, all answered at once.
fn reads_in(millis: u64, harness: &mut Harness) -> usize {
    harness.asked();
    harness.live(millis);
    harness.asked().len()
}

fn mode(harness: &Harness) -> Mode {
    harness.snapshot().polling.mode
}

// 12.1

#[test]
fn rule_12_1_each_job_has_its_own_interval() {
    let mut harness = Harness::with(|setup| {
        setup.settings.polling.jobs.candidates = Some(Duration::from_secs(10));
        setup.settings.polling.jobs.refresh = Some(Duration::from_secs(25));
    });
    harness.works_on([issue("MT-1")]);
    harness.live(50_000);
    let asked = harness.asked();
    let polls = asked.iter().filter(|read| read.starts_with("poll")).count();
    let refreshes = asked.iter().filter(|read| read.contains("MT-1")).count();
    assert_eq!((polls, refreshes), (5, 2), "{asked:?}");
}

#[test]
fn rule_12_1_without_claims_there_is_nothing_to_refresh() {
    let mut harness = Harness::with(|setup| {
        setup.settings.polling.jobs.candidates = Some(Duration::from_secs(60));
        setup.settings.polling.jobs.refresh = Some(Duration::from_secs(5));
    });
    harness.settle();
    harness.asked();
    harness.live(59_999);
    assert_eq!(harness.asked(), NONE);
    assert_eq!(harness.job(&Job::Refresh).next, None);
}

#[test]
fn rule_12_1_an_embedder_adds_a_job() {
    let mut harness = Harness::new();
    harness.settle();
    harness.event(Event::JobAdded { name: "report".into(), interval: Duration::from_secs(60) });
    harness.live(60_000);
    assert_eq!(harness.job_runs(), ["report"]);
    harness.live(600_000);
    assert_eq!(harness.job_runs(), NONE, "not while it runs");
    harness.job_ends("report", Ok(()));
    harness.live(60_000);
    assert_eq!(harness.job_runs(), ["report"]);
}

#[test]
fn rule_12_1_an_embedders_job_may_fail() {
    let mut harness = Harness::new();
    harness.event(Event::JobAdded { name: "report".into(), interval: Duration::from_secs(60) });
    harness.live(60_000);
    harness.job_runs();
    let failure = Failure::new(FailureKind::Internal, "printer on fire");
    harness.job_ends("report", Err(failure.clone()));
    let job = Job::Custom("report".into());
    assert_eq!(harness.job(&job).failure, Some(failure.clone()));
    let told = NoticeKind::JobFailed { job, failure };
    assert!(harness.notices().contains(&told));
    harness.live(60_000);
    assert_eq!(harness.job_runs(), ["report"]);
}

#[test]
fn rule_12_1_what_is_local_never_waits_for_a_poll() {
    let mut harness = Harness::with(|setup| {
        setup.settings.polling.interval = Duration::from_secs(86_400);
    });
    harness.works_on([issue("MT-1"), issue("MT-2")]);
    harness.run("MT-1").fails();
    assert_eq!(harness.stage("MT-1"), Stage::Waiting);
    harness.live(10_000);
    assert_eq!(harness.starts(), ["MT-1 attempt 1"]);
    harness.live(290_000);
    assert_eq!(harness.told(), ["stop MT-2: Stalled"]);
}

// 12.2

#[test]
fn rule_12_2_without_activity_polling_slows_down_in_two_steps() {
    let mut harness = with_activity();
    assert_eq!(mode(&harness), Mode::Active);
    assert_eq!(reads_in(9 * MINUTE, &mut harness), 18);
    harness.live(MINUTE);
    assert_eq!(mode(&harness), Mode::Idle);
    harness.live(2 * MINUTE);
    assert_eq!(reads_in(20 * MINUTE, &mut harness), 10);
    harness.live(28 * MINUTE);
    assert_eq!(mode(&harness), Mode::Dormant);
    harness.live(5 * MINUTE);
    assert_eq!(reads_in(20 * MINUTE, &mut harness), 4);
    let modes: Vec<_> = harness
        .notices()
        .into_iter()
        .filter(|what| matches!(what, NoticeKind::ModeChanged { .. }))
        .collect();
    let changed = |mode| NoticeKind::ModeChanged { mode };
    assert_eq!(modes, [changed(Mode::Idle), changed(Mode::Dormant)]);
}

#[test]
fn rule_12_2_without_the_section_polling_keeps_its_pace() {
    let mut harness = Harness::new();
    harness.live(24 * 60 * MINUTE);
    assert_eq!(mode(&harness), Mode::Active);
    assert_eq!(reads_in(10 * MINUTE, &mut harness), 20);
}

/// A harness that has been dormant for long, its last poll just answered.
fn dormant() -> Harness {
    let mut harness = with_activity();
    harness.live(3 * 60 * MINUTE);
    assert_eq!(mode(&harness), Mode::Dormant);
    harness.asked();
    harness
}

#[test]
fn rule_12_2_a_sign_from_outside_returns_to_active_at_once() {
    let mut harness = dormant();
    harness.event(Event::Activity);
    assert_eq!(mode(&harness), Mode::Active);
    assert!(reads_in(30_000, &mut harness) > 0);
    assert_eq!(reads_in(5 * MINUTE, &mut harness), 10);
}

#[test]
fn rule_12_2_an_operators_command_is_activity() {
    for command in [Command::PollNow, Command::Pause, Command::ClearHolds] {
        let mut harness = dormant();
        harness.command(command);
        assert_eq!(mode(&harness), Mode::Active);
    }
}

#[test]
fn rule_12_2_a_new_candidate_is_activity_also_when_it_cannot_start() {
    let mut harness = dormant();
    harness.board([issue("MT-1").undispatchable()]);
    harness.live(5 * MINUTE);
    assert_eq!(mode(&harness), Mode::Active);
    harness.live(20 * MINUTE);
    assert_eq!(mode(&harness), Mode::Idle, "it is new only once");
}

#[test]
fn rule_12_2_a_change_of_state_is_activity() {
    let mut harness = with_activity();
    harness.works_on([issue("MT-1")]);
    harness.live(20 * MINUTE);
    assert_eq!(mode(&harness), Mode::Idle);
    harness.board([issue("MT-1").state("In Progress")]);
    harness.live(30_000);
    assert_eq!(mode(&harness), Mode::Active);
}

#[test]
fn rule_12_2_one_candidate_for_another_and_a_change_of_its_state_are_activity() {
    let mut harness = with_activity();
    harness.board([issue("MT-1").undispatchable()]);
    let second = issue("MT-2").undispatchable();
    for changed in [second.clone(), second.state("In Progress")] {
        harness.live(20 * MINUTE);
        assert_eq!(mode(&harness), Mode::Idle);
        harness.delete("MT-1");
        harness.board([changed]);
        harness.live(2 * MINUTE);
        assert_eq!(mode(&harness), Mode::Active, "the list is as long as before");
    }
}

#[test]
fn rule_12_2_starts_and_ends_are_activity() {
    let mut harness = with_activity();
    harness.works_on([issue("MT-1")]);
    harness.live(20 * MINUTE);
    assert_eq!(mode(&harness), Mode::Idle);
    harness.run("MT-1").fails();
    assert_eq!(mode(&harness), Mode::Active);
}

#[test]
fn rule_12_2_while_a_run_lives_refresh_keeps_the_active_interval() {
    let mut harness = with_activity();
    harness.works_on([issue("MT-1")]);
    harness.live(20 * MINUTE);
    assert_eq!(mode(&harness), Mode::Idle);
    harness.asked();
    harness.live(10 * MINUTE);
    let asked = harness.asked();
    let refreshes = asked.iter().filter(|read| read.contains("MT-1")).count();
    let polls = asked.iter().filter(|read| read.starts_with("poll")).count();
    assert_eq!((refreshes, polls), (20, 5), "{asked:?}");
}

// 12.3

#[test]
fn rule_12_3_quiet_hours_force_dormant() {
    let mut harness = with_activity();
    harness.settle();
    harness.event(Event::QuietHours { on: true });
    assert_eq!(mode(&harness), Mode::Dormant);
    assert!(harness.snapshot().polling.quiet);
    harness.live(10 * MINUTE);
    assert_eq!(reads_in(10 * MINUTE, &mut harness), 2);
    harness.event(Event::Activity);
    assert_eq!(mode(&harness), Mode::Dormant);
}

#[test]
fn rule_12_3_a_manual_poll_still_works() {
    let mut harness = with_activity();
    harness.settle();
    harness.event(Event::QuietHours { on: true });
    harness.board([issue("MT-1")]);
    harness.command(Command::PollNow);
    harness.settle();
    assert_eq!(harness.starts(), ["MT-1"]);
}

#[test]
fn rule_12_3_they_end() {
    let mut harness = with_activity();
    harness.settle();
    harness.event(Event::QuietHours { on: true });
    harness.live(MINUTE);
    harness.event(Event::QuietHours { on: false });
    assert_eq!(mode(&harness), Mode::Active);
    harness.asked();
    harness.live(30_000);
    assert_eq!(harness.asked(), ["poll"]);
}

#[test]
fn rule_12_3_live_runs_are_refreshed_all_the_same() {
    let mut harness = with_activity();
    harness.works_on([issue("MT-1")]);
    harness.event(Event::QuietHours { on: true });
    harness.asked();
    harness.live(10 * MINUTE);
    let asked = harness.asked();
    let refreshes = asked.iter().filter(|read| read.contains("MT-1")).count();
    let polls = asked.iter().filter(|read| read.starts_with("poll")).count();
    assert_eq!((refreshes, polls), (20, 2), "{asked:?}");
}

#[test]
fn rule_12_3_a_clock_that_jumps_neither_misses_nor_doubles_work() {
    const HOUR: i64 = 3_600_000;
    let reads_after = |jump: i64| {
        let mut harness = with_activity();
        harness.works_on([issue("MT-1"), issue("MT-2")]);
        harness.run("MT-1").fails();
        harness.live(5_000);
        harness.asked();
        harness.wall_jumps(jump);
        harness.live(4_999);
        assert_eq!(harness.starts(), NONE, "a retry is not due earlier: {jump}");
        harness.live(1);
        assert_eq!(harness.starts(), ["MT-1 attempt 1"], "nor later: {jump}");
        harness.live(30 * MINUTE);
        assert_eq!(harness.starts(), NONE, "{jump}");
        assert_eq!(harness.stage("MT-2"), Stage::Running, "{jump}");
        harness.asked()
    };
    let expected = reads_after(0);
    for jump in [-7 * 24 * HOUR, -HOUR, HOUR, 7 * 24 * HOUR] {
        assert_eq!(reads_after(jump), expected, "{jump}");
    }
}

// 12.4

#[test]
fn rule_12_4_last_runs_and_counts_are_saved_with_each_read() {
    let mut harness = Harness::with(|setup| {
        setup.left_behind(record("MT-1"));
    });
    let opened = harness.now().wall;
    harness.live(30_000);
    let writes = harness.writes();
    assert!(writes.iter().all(|write| matches!(write, Write::Polls(_))), "{writes:?}");
    let PollRow { scope, last_runs, spent } = harness.rows().polls.expect("a poll");
    assert_eq!(scope.as_str(), "board");
    assert_eq!(last_runs[&Job::Candidates], harness.now().wall);
    assert_eq!(last_runs[&Job::Sweep], opened);
    assert_eq!(spent.day, opened.day());
    assert!(spent.requests["candidates"] >= 1);
}

#[test]
fn rule_12_4_the_days_counts_go_on_after_a_restart() {
    let restarted = |days_ago: i64| {
        let today = Harness::new().now().wall.day();
        let mut harness = Harness::with(|setup| {
            let requests = BTreeMap::from([("candidates".to_owned(), 41)]);
            setup.polled(86_400_000, &[], Spent { day: today - days_ago, requests });
        });
        harness.settle();
        harness.snapshot().polling.requests_today["candidates"]
    };
    assert_eq!(restarted(0), 42);
    assert_eq!(restarted(1), 1);
    assert_eq!(restarted(-1), 42, "a clock that was set back a little wipes nothing");
    for ahead in [2, 365, 31_724 - 20_000] {
        assert_eq!(restarted(-ahead), 1, "a clock that was wrong once is not believed for ever");
    }
}

#[test]
fn rule_12_4_a_restart_loop_causes_no_request_storm() {
    let mut reads = 0;
    for restart in 0..100_u64 {
        // Each life lasts 50 ms; what is saved says when the last read was.
        let mut harness = Harness::with(|setup| {
            if restart > 0 {
                let jobs = [Job::Candidates, Job::Refresh, Job::Sweep];
                setup.polled(restart * 50 % 10_000, &jobs, Spent::default());
            }
            setup.left_behind(record("MT-1"));
        });
        harness.live(50);
        reads += harness.asked().len();
    }
    assert_eq!(reads, 1);
}

// 12.5

#[test]
fn rule_12_5_an_issue_that_is_claimed_and_has_a_record_is_asked_for_once() {
    // The harness checks that no read names an issue twice.
    let mut harness = Harness::with(|setup| {
        setup.left_behind(record("MT-1")).left_behind(record("MT-2"));
    });
    harness.board([issue("MT-2").state("Backlog")]);
    harness.works_on([issue("MT-1")]);
    harness.live(3_200_000);
    harness.asked();
    harness.live(400_000);
    assert!(harness.asked().contains(&"poll with MT-1 MT-2".to_owned()));
}

#[test]
fn rule_12_5_a_poll_asks_nothing_twice_but_the_one_check_before_a_start() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.board([issue("MT-2")]);
    harness.live(30_000);
    assert_eq!(harness.asked(), ["poll with MT-1", "read MT-2"]);
}

// 12.6, as far as the core decides: the next poll.

fn rate_limited(retry_after_ms: u64) -> Failure {
    let kind = FailureKind::Tracker(TrackerErrorKind::RateLimited);
    Failure::new(kind, "slow down").with_retry_after(Some(Duration::from_millis(retry_after_ms)))
}

#[test]
fn rule_12_6_a_poll_that_was_refused_waits_for_its_time() {
    let mut harness = Harness::new();
    harness.answer_fails(&rate_limited(90_000));
    harness.advance(89_999);
    assert_eq!(harness.reads(), NONE);
    harness.advance(1);
    assert_eq!(harness.reads(), ["poll"]);
}

#[test]
fn rule_12_6_a_suggested_next_poll_is_honoured() {
    let mut harness = Harness::new();
    harness.answer_but(|answer| answer.next_poll = Some(Duration::from_secs(45)));
    harness.advance(44_999);
    assert_eq!(harness.reads(), NONE);
    harness.advance(1);
    assert_eq!(harness.reads(), ["poll"]);
}

#[test]
fn rule_12_6_a_suggested_next_poll_is_bounded() {
    let mut harness = Harness::new();
    harness.answer_but(|answer| answer.next_poll = Some(Duration::from_secs(365 * 86_400)));
    harness.live(24 * 60 * MINUTE);
    assert!(harness.asked().len() > 1);
    let mut harness = Harness::new();
    harness.answer_but(|answer| answer.next_poll = Some(Duration::ZERO));
    harness.asked();
    harness.advance(999);
    assert_eq!(harness.asked(), NONE);
}

// 12.7

#[test]
fn rule_12_7_status_shows_the_next_run_of_each_job() {
    let mut harness = Harness::with(|setup| {
        setup.left_behind(record("MT-2"));
    });
    harness.board([issue("MT-2").state("Backlog")]);
    let row = harness.job(&Job::Candidates);
    assert!(row.in_progress);
    harness.works_on([issue("MT-1")]);
    harness.advance(10_000);
    let row = harness.job(&Job::Candidates);
    assert_eq!((row.in_progress, row.next), (false, Some(harness.after(20_000))));
    let row = harness.job(&Job::Refresh);
    assert_eq!((row.in_progress, row.next), (false, Some(harness.after(20_000))));
    let row = harness.job(&Job::Sweep);
    assert_eq!((row.in_progress, row.next), (false, Some(harness.after(3_590_000))));
}

#[test]
fn rule_12_7_status_shows_requests_by_job_and_what_is_left() {
    let mut harness = Harness::with(|setup| {
        setup.turns(1);
    });
    harness.works_on([issue("MT-1")]);
    harness.ends_normally("MT-1");
    let requests = harness.snapshot().polling.requests_today;
    let expected = [("candidates", 1), ("check", 1), ("turn", 1)];
    let expected = expected.map(|(purpose, count)| (purpose.to_owned(), count));
    assert_eq!(requests, BTreeMap::from(expected));

    let left = BudgetView { requests_left: Some(1_200), ..BudgetView::default() };
    let copy = left.clone();
    harness.advance(30_000);
    let read = harness.reads().remove(0);
    harness.answer_to_but(&read, |answer| answer.budget = Some(copy));
    assert_eq!(harness.snapshot().polling.budget, Some(left));
}

#[test]
fn rule_12_7_the_counts_begin_anew_each_day() {
    let mut harness = Harness::new();
    harness.live(14 * 60 * MINUTE);
    let yesterday = harness.snapshot().polling.requests_today["candidates"];
    assert_eq!(yesterday, 14 * 120 + 1);
    harness.live(60 * MINUTE);
    assert!(harness.snapshot().polling.requests_today["candidates"] <= 61);
}

#[test]
fn rule_12_7_requests_of_a_tracker_that_was_replaced_are_counted() {
    let mut harness = Harness::new();
    let late = harness.withhold();
    harness.reloads_tracker("harness");
    harness.deliver(late);
    let total: u64 = harness.snapshot().polling.requests_today.values().sum();
    assert_eq!(total, 1);
}

#[test]
fn rule_12_7_after_midnight_the_day_before_is_not_shown() {
    let mut harness = Harness::new();
    harness.settle();
    assert_ne!(harness.snapshot().polling.requests_today, BTreeMap::new());
    harness.advance(30_000);
    assert_eq!(harness.reads(), ["poll"]);
    harness.advance(86_400_000);
    assert_eq!(harness.snapshot().polling.requests_today, BTreeMap::new());
}

#[test]
fn rule_12_5_a_wish_that_comes_with_a_refresh_does_not_put_candidates_off() {
    let mut harness = Harness::with(|setup| {
        setup.settings.polling.jobs.candidates = Some(Duration::from_secs(60));
        setup.settings.polling.jobs.refresh = Some(Duration::from_secs(10));
    });
    harness.works_on([issue("MT-1")]);
    harness.asked();
    harness.advance(10_000);
    harness.answer_to_but("refresh MT-1", |answer| {
        answer.next_poll = Some(Duration::from_secs(3_600));
    });
    harness.live(60_000);
    assert!(harness.asked().iter().any(|read| read.starts_with("poll")));
}

#[test]
fn rule_12_5_no_job_travels_along_before_the_tracker_wants_it() {
    let mut harness = Harness::with(|setup| {
        setup.settings.polling.jobs.candidates = Some(Duration::from_secs(100));
        setup.settings.polling.jobs.refresh = Some(Duration::from_secs(95));
        setup.settings.agent.common.stall_timeout = None;
    });
    harness.works_on([issue("MT-1")]);
    harness.asked();
    harness.advance(95_000);
    assert_eq!(harness.reads(), ["poll with MT-1"], "they travel together");
    let failure = Failure::new(FailureKind::Tracker(TrackerErrorKind::RateLimited), "no more")
        .with_retry_after(Some(Duration::from_secs(105)));
    harness.answer_but(|answer| answer.candidates = Some(Err(failure)));
    harness.asked();
    harness.advance(95_000);
    assert_eq!(harness.asked(), ["refresh MT-1"], "candidates are not asked for before that");
}

#[test]
fn rule_12_5_a_long_list_reaches_beyond_what_cannot_start() {
    let mut harness = Harness::with(|setup| {
        setup.slots(1);
    });
    let stuck = |number: u32| issue(&format!("MT-{number}")).undispatchable();
    harness.board((1..=20).map(stuck));
    let enough = |harness: &mut Harness| {
        harness
            .effects()
            .iter()
            .find_map(|effect| match effect {
                Effect::Read { poll, .. } => poll.candidates.clone(),
                _ => None,
            })
            .map(|query| query.enough)
    };
    assert_eq!(enough(&mut harness), Some(6));
    harness.answer_but(|answer| {
        if let Some(Ok(list)) = &mut answer.candidates {
            list.issues.truncate(6);
            list.more = true;
        }
    });
    harness.advance(30_000);
    assert_eq!(enough(&mut harness), Some(12), "six of them cannot start");
}

#[test]
fn rule_12_5_what_the_check_shows_is_known_and_not_read_again_and_again() {
    let mut harness = Harness::with(|setup| {
        setup.state_slots("In Progress", 1);
    });
    harness.board([issue("MT-1"), issue("MT-2"), issue("MT-3")]);
    harness.answer();
    harness.board([
        issue("MT-1").state("In Progress"),
        issue("MT-2").state("In Progress"),
        issue("MT-3").called("mt-1"),
    ]);
    harness.answer();
    assert_eq!(harness.starts(), ["MT-1"], "it takes the slot of one and the folder of the other");
    assert_eq!(harness.reads(), NONE);
}

// 12.6: one far time does not silence everything.

fn refused_until_tomorrow() -> Failure {
    Failure::new(FailureKind::Tracker(TrackerErrorKind::RateLimited), "not now")
        .with_retry_after(Some(Duration::from_secs(24 * 3600)))
}

#[test]
fn rule_12_6_claimed_issues_are_read_every_five_minutes_all_the_same() {
    let mut harness = Harness::with(|setup| setup.settings.agent.common.stall_timeout = None);
    harness.works_on([issue("MT-1")]);
    harness.advance(30_000);
    harness.answer_fails(&refused_until_tomorrow());
    harness.asked();
    harness.advance(299_999);
    assert_eq!(harness.asked(), NONE);
    harness.advance(1);
    assert_eq!(harness.asked(), ["refresh MT-1"], "and no candidates for an hour");
}

#[test]
fn rule_12_6_a_turn_is_not_kept_waiting_for_an_hour() {
    let mut harness = Harness::with(|setup| setup.settings.agent.common.stall_timeout = None);
    harness.works_on([issue("MT-1")]);
    harness.run("MT-1").turn_ends();
    harness.advance(50);
    harness.asked();
    harness.answer_fails(&refused_until_tomorrow());
    harness.advance(300_000);
    assert!(harness.asked().contains(&"read MT-1".to_owned()));
}

// 4.7: an operator's polls keep the tracker's least gap.

#[test]
fn rule_4_7_a_flood_of_manual_polls_keeps_the_least_gap() {
    let mut harness = Harness::with(|setup| setup.min_read_gap = 2_000);
    harness.settle();
    harness.advance(10_000);
    harness.asked();
    let mut polls = 0;
    for _ in 0..1_000 {
        harness.command(Command::PollNow);
        harness.settle();
        polls += harness.asked().len();
        harness.advance(10);
    }
    assert!((4..=6).contains(&polls), "{polls} polls in ten seconds");
}

#[test]
fn rule_4_7_a_manual_poll_within_the_gap_comes_when_it_is_over() {
    let mut harness = Harness::with(|setup| setup.min_read_gap = 2_000);
    harness.settle();
    harness.asked();
    harness.advance(500);
    harness.command(Command::PollNow);
    assert_eq!(harness.asked(), NONE);
    harness.advance(1_500);
    assert_eq!(harness.asked().len(), 1);
}

#[test]
fn rule_10_1_a_limit_does_not_use_up_the_tries_of_a_turn() {
    let mut harness = Harness::with(|setup| setup.settings.agent.common.stall_timeout = None);
    harness.works_on([issue("MT-1")]);
    harness.run("MT-1").turn_ends();
    for _ in 0..10 {
        harness.advance(300_000);
        for read in harness.reads() {
            harness.answer_to_but(&read, |answer| {
                answer.by_id = Some(Err(refused_until_tomorrow()));
                let list = answer.candidates.take();
                answer.candidates = list.map(|_| Err(refused_until_tomorrow()));
            });
        }
    }
    assert_eq!(harness.told(), NONE);
    harness.live(300_000);
    assert_eq!(harness.told(), ["next turn MT-1: 2"]);
}
