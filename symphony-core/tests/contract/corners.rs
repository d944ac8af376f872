//! Corners where rules meet: late answers, clocks of two machines, limits, twins and slips of the pen.

use std::collections::BTreeMap;
use std::time::Duration;

use symphony_core::agent::{AgentErrorKind, AgentUpdate, RateLimitWindow, RateLimits};
use symphony_core::budget::Spent;
use symphony_core::orchestrator::{Command, Effect, NoticeKind};
use symphony_core::tracker::TrackerErrorKind;
use symphony_core::{Failure, FailureKind, Issue, Scope, StateSet};

use crate::harness::{Draft, Harness, NONE, Stage, id, issue, record};

/// A check may hang for half a minute while the next list arrives. The list was asked later and
/// shows the issue alive, so the check's "Done" is old news: acting on it deletes a person's work.
#[test]
fn rule_6_3_a_check_older_than_the_list_does_not_clean_an_issue_that_was_opened_again() {
    let mut harness = Harness::with(|setup| {
        setup.left_behind(record("MT-1"));
    });
    harness.board([issue("MT-1")]);
    harness.answer_to("poll with MT-1");
    assert_eq!(harness.reads(), ["read MT-1"]);
    harness.board([issue("MT-1").state("Done")]);
    let late = harness.withhold();
    harness.board([issue("MT-1")]);
    harness.advance(30_000);
    harness.answer_to("poll");
    harness.deliver(late);
    assert_eq!(harness.removals(), NONE);
}

/// The same with a refresh that hangs while candidates, on their own interval, are read.
#[test]
fn rule_6_3_a_refresh_older_than_the_list_does_not_clean_an_issue_that_was_opened_again() {
    let mut harness = Harness::with(|setup| {
        setup.settings.polling.jobs.candidates = Some(Duration::from_secs(40));
        setup.settings.polling.jobs.refresh = Some(Duration::from_secs(30));
    });
    harness.works_on([issue("MT-1")]);
    harness.command(Command::Stop(id("MT-1")));
    harness.run("MT-1").stops();
    assert_eq!(harness.stage("MT-1"), Stage::Blocked);
    harness.advance(30_000);
    harness.board([issue("MT-1").state("Done")]);
    let late = harness.withhold_to("refresh MT-1");
    harness.board([issue("MT-1")]);
    harness.advance(10_000);
    harness.answer_to("poll");
    harness.deliver(late);
    assert_eq!(harness.removals(), NONE);
    assert_eq!(harness.stage("MT-1"), Stage::Blocked, "the operator's word stands");
}

/// A retry whose read is overtaken like that keeps its attempt.
#[test]
fn rule_7_3_a_retry_that_an_older_check_calls_done_keeps_its_attempt() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.run("MT-1").fails();
    harness.advance(10_000);
    harness.board([issue("MT-1").state("Done")]);
    let late = harness.withhold_to("read MT-1");
    harness.board([issue("MT-1")]);
    harness.advance(20_000);
    harness.answer_to("poll");
    harness.deliver(late);
    harness.settle();
    assert_eq!(harness.starts(), ["MT-1 attempt 1"]);
}

/// A removal that failed is tried again ten seconds later. If a list says meanwhile that the issue
/// is open again, the workspace is needed.
#[test]
fn rule_6_3_a_removal_is_not_tried_again_when_a_newer_list_says_not_terminal() {
    let mut harness = Harness::with(|setup| {
        setup.settings.polling.interval = Duration::from_secs(3);
    });
    harness.works_on([issue("MT-1")]);
    harness.board([issue("MT-1").state("Done")]);
    harness.live(3_000);
    harness.run("MT-1").stops();
    harness.removal_fails("MT-1");
    harness.board([issue("MT-1")]);
    harness.live(20_000);
    assert_eq!(harness.removals(), NONE);
}

/// The sweep's answer is seven seconds late. Meanwhile the issue was opened again, worked on and
/// put aside: its claim is gone and the newest list does not name it, but it is not over.
#[test]
fn rule_4_8_a_late_sweep_does_not_remove_the_workspace_of_a_claim_that_came_and_went() {
    let mut harness = Harness::with(|setup| {
        setup.left_behind(record("MT-1"));
        setup.settings.polling.interval = Duration::from_secs(3);
        setup.settings.polling.jobs.sweep = Duration::from_millis(20_500);
    });
    // The first sweep finds it in another state; the second one asks when it is done.
    harness.board([issue("MT-1").state("Backlog")]);
    harness.live(20_000);
    harness.board([issue("MT-1").state("Done")]);
    harness.advance(500);
    let late = harness.withhold_to("refresh MT-1");
    // It is opened again, and an agent works on it.
    harness.board([issue("MT-1")]);
    harness.advance(500);
    harness.answer_to("poll");
    harness.answer_to("read MT-1");
    harness.run("MT-1").works();
    // It is put aside; the workspace stays.
    harness.board([issue("MT-1").state("Backlog")]);
    harness.advance(3_000);
    harness.answer_to("poll with MT-1");
    harness.run("MT-1").stops();
    assert_eq!(harness.stage("MT-1"), Stage::Unclaimed);
    harness.advance(3_000);
    harness.answer_to("poll");
    harness.deliver(late);
    assert_eq!(harness.removals(), NONE);
}

/// A tracker that stops when it knows enough never shows what stands behind issues whose state has
/// no slot: a slot stays free for ever while there is work for it.
#[test]
fn rule_11_1_candidates_without_a_slot_in_their_state_do_not_hide_those_behind_them() {
    let mut harness = Harness::with(|setup| {
        setup.slots(2).state_slots("In Progress", 1);
        setup.settings.agent.common.stall_timeout = None;
    });
    harness.board((10..60).map(|n| issue(&format!("MT-{n}")).state("In Progress").priority(1)));
    harness.board([issue("MT-99").priority(2)]);
    let by_rank = |a: &Issue, b: &Issue| {
        (a.priority, a.identifier.as_str()).cmp(&(b.priority, b.identifier.as_str()))
    };
    let mut started = Vec::new();
    for _ in 0..40 {
        let effects = harness.effects();
        let enough = effects.iter().find_map(|effect| match effect {
            Effect::Read { poll, .. } => Some(poll.candidates.as_ref()?.enough),
            _ => None,
        });
        started.extend(effects.iter().filter_map(|effect| match effect {
            Effect::Start(start) => Some(start.issue.identifier.to_string()),
            _ => None,
        }));
        if let (Some(enough), Some(poll)) =
            (enough, harness.reads().into_iter().find(|read| read.starts_with("poll")))
        {
            harness.answer_to_but(&poll, |answer| {
                if let Some(Ok(list)) = &mut answer.candidates {
                    list.issues.sort_by(by_rank);
                    list.more = list.issues.len() > enough;
                    list.issues.truncate(enough);
                }
            });
        }
        for read in harness.reads() {
            harness.answer_to(&read);
        }
        if enough.is_none() {
            harness.advance(30_000);
        }
    }
    assert!(started.contains(&"MT-99".to_owned()), "only {started:?}");
}

/// The probe's tokens end the hold and make what waited for it due. The snapshot must say so, also
/// while starts are paused: it goes on saying `waiting_until` while `explain` says `paused`.
#[test]
fn rule_5_5_the_snapshot_tells_the_reason_of_what_a_lifted_hold_made_due() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1"), issue("MT-2")]);
    harness.run("MT-1").fails_as(AgentErrorKind::UsageLimit, Some(60_000));
    harness.live(60_000);
    harness.run("MT-1").works();
    harness.run("MT-2").fails_as(AgentErrorKind::UsageLimit, Some(600_000));
    harness.command(Command::Pause);
    harness.run("MT-1").has_used("thread-x", 10);
    let counts = harness.snapshot().candidates.reasons.clone();
    assert_eq!(counts, BTreeMap::from([("paused".to_owned(), 1)]));
}

/// Yesterday's requests are not part of today, as `requests_today` knows.
#[test]
fn rule_12_7_the_projected_day_does_not_count_yesterdays_requests() {
    let fresh = Harness::new().snapshot().polling;
    let yesterday = Harness::with(|setup| {
        let requests = BTreeMap::from([("candidates".to_owned(), 1_000_000)]);
        setup.polled(86_400_000, &[], Spent { day: 20_501, requests });
    });
    assert!(yesterday.now().wall.day() > 20_501);
    let polling = yesterday.snapshot().polling;
    assert_eq!(polling.requests_today, BTreeMap::new());
    assert_eq!(polling.projected_today, fresh.projected_today);
}

/// A tool that never answers before its turn ends must not switch the stall off for all turns after
/// it: nothing is owed to the turn that is over.
#[test]
fn rule_8_1_a_tool_call_of_a_turn_that_is_over_does_not_stop_the_clock_of_the_next() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.run("MT-1").says(AgentUpdate::ToolBegan);
    harness.turn_ends("MT-1");
    assert_eq!(harness.told(), ["next turn MT-1: 2"]);
    harness.live(600_000);
    assert_eq!(harness.told(), ["stop MT-1: Stalled"]);
}

/// A run keeps the hooks it began with, so its `after_run` may take what they may take. Calling it
/// overdue by the new file's timeout tells people that a healthy stop hangs.
#[test]
fn rule_2_7_the_bound_of_a_stop_is_that_of_the_hooks_the_run_began_with() {
    let mut harness = Harness::with(|setup| {
        setup.settings.hooks.timeout = Duration::from_secs(600);
    });
    harness.works_on([issue("MT-1")]);
    harness.reloads(|settings| settings.hooks.timeout = Duration::from_secs(1));
    harness.settle();
    harness.command(Command::Stop(id("MT-1")));
    harness.live(60_000);
    assert!(!harness.running("MT-1").stop_overdue);
}

/// A due retry that finds starts paused is told to wait for a slot, with nine of ten slots free.
#[test]
fn rule_7_3_a_paused_retry_is_not_told_to_lack_a_slot() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.run("MT-1").fails();
    harness.advance(10_000);
    assert_eq!(harness.reads(), ["read MT-1"]);
    harness.command(Command::Pause);
    harness.notices();
    harness.answer();
    assert!(!harness.notices().contains(&NoticeKind::Queued));
}

/// Two records whose names differ in case only are one folder on a file system that ignores case.
/// The sweep of one must wait while an agent lives in the other.
#[test]
fn rule_6_2_the_sweep_does_not_remove_a_folder_in_which_another_issue_runs() {
    let mut twin = record("mt-1");
    twin.issue = id("X-1");
    let mut harness = Harness::with(|setup| {
        setup.left_behind(record("MT-1")).left_behind(twin);
        setup.settings.agent.common.stall_timeout = None;
    });
    harness.works_on([issue("MT-1")]);
    harness.board([issue("X-1").called("mt-1").state("Done")]);
    // The harness itself refuses the removal of a folder in use.
    harness.live(3_700_000);
}

/// A removal forgets the record of the folder that is gone, and no other: the same id and key in
/// another scope, under another root, is another workspace, which would never be found again.
#[test]
fn rule_9_6_a_removal_forgets_only_the_record_of_the_folder_that_is_gone() {
    let mut other = record("MT-1");
    other.scope = Scope::from("other board");
    other.path = "/old/MT-1".into();
    let mut harness = Harness::with(|setup| {
        setup.left_behind(record("MT-1")).left_behind(other);
    });
    harness.board([issue("MT-1").state("Done")]);
    harness.settle();
    harness.removed("MT-1");
    harness.asked();
    harness.reloads_tracker("other board");
    harness.live(3_700_000);
    assert!(harness.asked().iter().any(|read| read == "poll with MT-1"));
}

/// A check holds its slots (5.4). While it hangs, polls for candidates that nothing could start are
/// requests for nothing.
#[test]
fn rule_4_5_no_candidates_are_asked_for_while_a_check_reserves_the_last_slot() {
    let mut harness = Harness::with(|setup| {
        setup.slots(1);
    });
    harness.board([issue("MT-1")]);
    harness.answer_to("poll");
    assert_eq!(harness.reads(), ["read MT-1"]);
    harness.advance(30_000);
    assert_eq!(harness.reads(), ["read MT-1"]);
}

/// Clocks of two machines differ by seconds. A person who answers a question faster than that, by
/// moving the issue, is not seen: the first look takes the change for the agent's own, and the issue
/// stays blocked for good.
#[test]
fn rule_10_6_a_blocked_issue_goes_on_although_the_trackers_clock_is_behind() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.run("MT-1").asks("Which door?");
    harness.settle();
    harness.advance(10_000);
    // The tracker's clock is fifteen seconds behind ours.
    let moved = harness.now().wall.as_unix_millis() - 15_000;
    harness.board([issue("MT-1").state("In Progress").updated(moved)]);
    harness.live(60_000);
    assert_eq!(harness.stage("MT-1"), Stage::Running);
}

/// `CleaningFailed { again: false }` says that the sweep will try again. For a folder without a
/// record it never does, and no notice says so.
#[test]
fn rule_6_3_a_stray_that_could_not_be_removed_is_left_to_the_sweep() {
    let mut harness = Harness::with(|setup| {
        setup.stray("MT-1");
    });
    harness.board([issue("MT-1").state("Done")]);
    harness.settle();
    harness.removal_fails("MT-1");
    harness.live(10_000);
    harness.removal_fails("MT-1");
    harness.live(20_000);
    harness.removal_fails("MT-1");
    harness.live(7_300_000);
    assert_eq!(harness.removals(), ["MT-1"]);
}

/// The agent's only window is used up for so many seconds.
fn used_up_for(seconds: u64, harness: &Harness) -> AgentUpdate {
    let window = RateLimitWindow {
        name: "primary".to_owned(),
        used_percent: 100.0,
        window_minutes: None,
        resets_at: Some(harness.now().wall + Duration::from_secs(seconds)),
    };
    let limits = RateLimits { windows: vec![window], ..RateLimits::default() };
    AgentUpdate::RateLimits(limits.into())
}

/// "Again now" is not a time to wait for; the windows know better than the default of five minutes.
#[test]
fn rule_7_6_a_reset_that_is_now_leaves_the_windows_to_say_how_long() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    let limits = used_up_for(3_600, &harness);
    let run = harness.run("MT-1").says(limits);
    run.fails_as(AgentErrorKind::UsageLimit, Some(0));
    assert_eq!(harness.hold().until, harness.after(3_600_000));
}

/// `terminal_states: []` is a valid file. Empty input makes no request (11.1), so it makes no read.
#[test]
fn rule_11_1_without_terminal_states_closed_issues_are_not_listed() {
    let mut harness = Harness::with(|setup| {
        setup.stray("MT-1");
        setup.settings.tracker.terminal_states = StateSet::default();
    });
    harness.settle();
}

/// Deadlines are in milliseconds: a shorter wait is none, and the read is asked again in the very
/// step that took its failure in, for as long as the tracker says so.
#[test]
fn rule_7_4_a_wait_of_less_than_a_millisecond_does_not_loop() {
    let mut harness = Harness::new();
    harness.board([issue("MT-1")]);
    harness.answer_to("poll");
    let failure = Failure::new(FailureKind::Tracker(TrackerErrorKind::RateLimited), "slow down")
        .with_retry_after(Some(Duration::from_micros(500)));
    harness.answer_fails(&failure);
    assert_eq!(harness.reads(), NONE);
}

/// A whole list, asked after the check, does not have the issue any more. An agent is started all the
/// same, only to be stopped by the next refresh.
#[test]
fn rule_5_4_a_check_older_than_a_list_without_the_issue_starts_nothing() {
    let mut harness = Harness::new();
    harness.board([issue("MT-1")]);
    harness.answer_to("poll");
    let late = harness.withhold();
    harness.board([issue("MT-1").state("Backlog")]);
    harness.advance(30_000);
    harness.answer_to("poll");
    harness.deliver(late);
    assert_eq!(harness.starts(), NONE);
}

/// The windows are those of the agent that reported them. After a change of `agent.kind` they hold
/// another agent's starts for up to a day.
#[test]
fn rule_7_6_a_hold_is_that_of_its_agents_own_windows() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    let limits = used_up_for(80_000, &harness);
    harness.run("MT-1").says(limits);
    harness.run("MT-1").fails();
    harness.reloads(|settings| settings.agent.kind = "other".to_owned());
    harness.live(30_000);
    harness.run("MT-1").works();
    harness.run("MT-1").fails_as(AgentErrorKind::RateLimited, None);
    assert_eq!(harness.hold().until, harness.after(300_000));
}
