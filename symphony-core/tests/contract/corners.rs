//! Corners where rules meet: late answers, clocks of two machines, limits, twins and slips of the pen.

use std::collections::BTreeMap;
use std::time::Duration;

use symphony_core::agent::{AgentErrorKind, AgentUpdate, RateLimitWindow, RateLimits};
use symphony_core::budget::Spent;
use symphony_core::orchestrator::{Command, Effect, Happened};
use symphony_core::tracker::TrackerErrorKind;
use symphony_core::{Failure, FailureKind, Issue, Scope, StateSet};

use crate::desk::{Desk, Draft, NONE, Place, id, issue, record};

/// A check may hang for half a minute while the next list arrives. The list was asked later and
/// shows the issue alive, so the check's "Done" is old news: acting on it deletes a person's work.
#[test]
fn rule_6_3_a_check_older_than_the_list_does_not_clean_an_issue_that_was_opened_again() {
    let mut desk = Desk::with(|setup| {
        setup.left_behind(record("MT-1"));
    });
    desk.board([issue("MT-1")]);
    desk.answer_to("poll with MT-1");
    assert_eq!(desk.reads(), ["read MT-1"]);
    desk.board([issue("MT-1").state("Done")]);
    let late = desk.withhold();
    desk.board([issue("MT-1")]);
    desk.advance(30_000);
    desk.answer_to("poll");
    desk.deliver(late);
    assert_eq!(desk.removals(), NONE);
}

/// The same with a refresh that hangs while candidates, on their own interval, are read.
#[test]
fn rule_6_3_a_refresh_older_than_the_list_does_not_clean_an_issue_that_was_opened_again() {
    let mut desk = Desk::with(|setup| {
        setup.settings.polling.jobs.candidates = Some(Duration::from_secs(40));
        setup.settings.polling.jobs.refresh = Some(Duration::from_secs(30));
    });
    desk.works_on([issue("MT-1")]);
    desk.command(Command::Stop(id("MT-1")));
    desk.run("MT-1").stops();
    assert_eq!(desk.place("MT-1"), Place::Blocked);
    desk.advance(30_000);
    desk.board([issue("MT-1").state("Done")]);
    let late = desk.withhold_to("refresh MT-1");
    desk.board([issue("MT-1")]);
    desk.advance(10_000);
    desk.answer_to("poll");
    desk.deliver(late);
    assert_eq!(desk.removals(), NONE);
    assert_eq!(desk.place("MT-1"), Place::Blocked, "the operator's word stands");
}

/// A retry whose read is overtaken like that keeps its attempt.
#[test]
fn rule_7_3_a_retry_that_an_older_check_calls_done_keeps_its_attempt() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.run("MT-1").fails();
    desk.advance(10_000);
    desk.board([issue("MT-1").state("Done")]);
    let late = desk.withhold_to("read MT-1");
    desk.board([issue("MT-1")]);
    desk.advance(20_000);
    desk.answer_to("poll");
    desk.deliver(late);
    desk.settle();
    assert_eq!(desk.starts(), ["MT-1 attempt 1"]);
}

/// A removal that failed is tried again ten seconds later. If a list says meanwhile that the issue
/// is open again, the workspace is needed.
#[test]
fn rule_6_3_a_removal_is_not_tried_again_when_a_newer_list_says_not_terminal() {
    let mut desk = Desk::with(|setup| {
        setup.settings.polling.interval = Duration::from_secs(3);
    });
    desk.works_on([issue("MT-1")]);
    desk.board([issue("MT-1").state("Done")]);
    desk.live(3_000);
    desk.run("MT-1").stops();
    desk.removal_fails("MT-1");
    desk.board([issue("MT-1")]);
    desk.live(20_000);
    assert_eq!(desk.removals(), NONE);
}

/// The sweep's answer is seven seconds late. Meanwhile the issue was opened again, worked on and
/// put aside: its claim is gone and the newest list does not name it, but it is not over.
#[test]
fn rule_4_8_a_late_sweep_does_not_remove_the_workspace_of_a_claim_that_came_and_went() {
    let mut desk = Desk::with(|setup| {
        setup.left_behind(record("MT-1"));
        setup.settings.polling.interval = Duration::from_secs(3);
        setup.settings.polling.jobs.sweep = Duration::from_millis(20_500);
    });
    // The first sweep finds it in another state; the second one asks when it is done.
    desk.board([issue("MT-1").state("Backlog")]);
    desk.live(20_000);
    desk.board([issue("MT-1").state("Done")]);
    desk.advance(500);
    let late = desk.withhold_to("refresh MT-1");
    // It is opened again, and an agent works on it.
    desk.board([issue("MT-1")]);
    desk.advance(500);
    desk.answer_to("poll");
    desk.answer_to("read MT-1");
    desk.run("MT-1").works();
    // It is put aside; the workspace stays.
    desk.board([issue("MT-1").state("Backlog")]);
    desk.advance(3_000);
    desk.answer_to("poll with MT-1");
    desk.run("MT-1").stops();
    assert_eq!(desk.place("MT-1"), Place::Unclaimed);
    desk.advance(3_000);
    desk.answer_to("poll");
    desk.deliver(late);
    assert_eq!(desk.removals(), NONE);
}

/// A tracker that stops when it knows enough never shows what stands behind issues whose state has
/// no slot: a slot stays free for ever while there is work for it.
#[test]
fn rule_11_1_candidates_without_a_slot_in_their_state_do_not_hide_those_behind_them() {
    let mut desk = Desk::with(|setup| {
        setup.slots(2).state_slots("In Progress", 1);
        setup.settings.agent.common.stall_timeout = None;
    });
    desk.board((10..60).map(|n| issue(&format!("MT-{n}")).state("In Progress").priority(1)));
    desk.board([issue("MT-99").priority(2)]);
    let by_rank = |a: &Issue, b: &Issue| {
        (a.priority, a.identifier.as_str()).cmp(&(b.priority, b.identifier.as_str()))
    };
    let mut started = Vec::new();
    for _ in 0..40 {
        let effects = desk.effects();
        let enough = effects.iter().find_map(|effect| match effect {
            Effect::Read { poll, .. } => Some(poll.candidates.as_ref()?.enough),
            _ => None,
        });
        started.extend(effects.iter().filter_map(|effect| match effect {
            Effect::Start(start) => Some(start.issue.identifier.to_string()),
            _ => None,
        }));
        if let (Some(enough), Some(poll)) =
            (enough, desk.reads().into_iter().find(|read| read.starts_with("poll")))
        {
            desk.answer_to_but(&poll, |answer| {
                if let Some(Ok(list)) = &mut answer.candidates {
                    list.issues.sort_by(by_rank);
                    list.more = list.issues.len() > enough;
                    list.issues.truncate(enough);
                }
            });
        }
        for read in desk.reads() {
            desk.answer_to(&read);
        }
        if enough.is_none() {
            desk.advance(30_000);
        }
    }
    assert!(started.contains(&"MT-99".to_owned()), "only {started:?}");
}

/// The probe's tokens end the hold and make what waited for it due. The snapshot must say so, also
/// while starts are paused: it goes on saying `waiting_until` while `explain` says `paused`.
#[test]
fn rule_5_5_the_snapshot_tells_the_reason_of_what_a_lifted_hold_made_due() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1"), issue("MT-2")]);
    desk.run("MT-1").fails_as(AgentErrorKind::UsageLimit, Some(60_000));
    desk.live(60_000);
    desk.run("MT-1").works();
    desk.run("MT-2").fails_as(AgentErrorKind::UsageLimit, Some(600_000));
    desk.command(Command::Pause);
    desk.run("MT-1").has_used("thread-x", 10);
    let counts = desk.snapshot().candidates.reasons.clone();
    assert_eq!(counts, BTreeMap::from([("paused".to_owned(), 1)]));
}

/// Yesterday's requests are not part of today, as `requests_today` knows.
#[test]
fn rule_12_7_the_projected_day_does_not_count_yesterdays_requests() {
    let fresh = Desk::new().snapshot().polling;
    let yesterday = Desk::with(|setup| {
        let requests = BTreeMap::from([("candidates".to_owned(), 1_000_000)]);
        setup.restored.spent = Spent { day: 20_501, requests };
    });
    assert!(yesterday.now().wall.day() > 20_501);
    let polling = yesterday.snapshot().polling;
    assert_eq!(polling.requests_today, BTreeMap::new());
    assert_eq!(polling.projected_today, fresh.projected_today);
}

/// A tool that never answers before its turn ends must not switch the stall off for all turns after
/// it: nobody owes anything to the turn that is over.
#[test]
fn rule_8_1_a_tool_call_of_a_turn_that_is_over_does_not_stop_the_clock_of_the_next() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.run("MT-1").says(AgentUpdate::ToolBegan);
    desk.turn_ends("MT-1");
    assert_eq!(desk.told(), ["next turn MT-1: 2"]);
    desk.live(600_000);
    assert_eq!(desk.told(), ["stop MT-1: Stalled"]);
}

/// A run keeps the hooks it began with, so its `after_run` may take what they may take. Calling it
/// overdue by the new file's timeout tells people that a healthy stop hangs.
#[test]
fn rule_2_7_the_bound_of_a_stop_is_that_of_the_hooks_the_run_began_with() {
    let mut desk = Desk::with(|setup| {
        setup.settings.hooks.timeout = Duration::from_secs(600);
    });
    desk.works_on([issue("MT-1")]);
    desk.reloads(|settings| settings.hooks.timeout = Duration::from_secs(1));
    desk.settle();
    desk.command(Command::Stop(id("MT-1")));
    desk.live(60_000);
    assert!(!desk.running("MT-1").stop_overdue);
}

/// A due retry that finds starts paused is told to wait for a slot, with nine of ten slots free.
#[test]
fn rule_7_3_a_paused_retry_is_not_told_to_lack_a_slot() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.run("MT-1").fails();
    desk.advance(10_000);
    assert_eq!(desk.reads(), ["read MT-1"]);
    desk.command(Command::Pause);
    desk.notices();
    desk.answer();
    assert!(!desk.notices().contains(&Happened::Queued));
}

/// Two records whose names differ in case only are one folder on a file system that ignores case.
/// The sweep of one must wait while an agent lives in the other.
#[test]
fn rule_6_2_the_sweep_does_not_remove_a_folder_in_which_another_issue_runs() {
    let mut twin = record("mt-1");
    twin.issue = id("X-1");
    let mut desk = Desk::with(|setup| {
        setup.left_behind(record("MT-1")).left_behind(twin);
        setup.settings.agent.common.stall_timeout = None;
    });
    desk.works_on([issue("MT-1")]);
    desk.board([issue("X-1").called("mt-1").state("Done")]);
    // The desk itself refuses the removal of a folder in use.
    desk.live(3_700_000);
}

/// A removal forgets the record of the folder that is gone, and no other: the same id and key in
/// another scope, under another root, is another workspace, which would never be found again.
#[test]
fn rule_9_6_a_removal_forgets_only_the_record_of_the_folder_that_is_gone() {
    let mut other = record("MT-1");
    other.scope = Scope::from("other board");
    other.path = "/old/MT-1".into();
    let mut desk = Desk::with(|setup| {
        setup.left_behind(record("MT-1")).left_behind(other);
    });
    desk.board([issue("MT-1").state("Done")]);
    desk.settle();
    desk.removed("MT-1");
    desk.asked();
    desk.reloads_tracker("other board");
    desk.live(3_700_000);
    assert!(desk.asked().iter().any(|read| read == "poll with MT-1"));
}

/// A check holds its slots (5.4). While it hangs, polls for candidates that nothing could start are
/// requests for nothing.
#[test]
fn rule_4_5_no_candidates_are_asked_for_while_a_check_reserves_the_last_slot() {
    let mut desk = Desk::with(|setup| {
        setup.slots(1);
    });
    desk.board([issue("MT-1")]);
    desk.answer_to("poll");
    assert_eq!(desk.reads(), ["read MT-1"]);
    desk.advance(30_000);
    assert_eq!(desk.reads(), ["read MT-1"]);
}

/// Clocks of two machines differ by seconds. A person who answers a question faster than that, by
/// moving the issue, is not seen: the first look takes the change for the agent's own, and the issue
/// stays blocked for good.
#[test]
fn rule_10_6_a_blocked_issue_goes_on_when_its_state_changes_on_a_tracker_whose_clock_is_behind() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.run("MT-1").asks("Which door?");
    desk.settle();
    desk.advance(10_000);
    // The tracker's clock is fifteen seconds behind ours.
    let moved = desk.now().wall.as_unix_millis() - 15_000;
    desk.board([issue("MT-1").state("In Progress").updated(moved)]);
    desk.live(60_000);
    assert_eq!(desk.place("MT-1"), Place::Running);
}

/// `CleaningFailed { again: false }` says that the sweep will try again. For a folder without a
/// record nobody ever does, and nobody says so.
#[test]
fn rule_6_3_a_stray_that_could_not_be_removed_is_left_to_the_sweep() {
    let mut desk = Desk::with(|setup| {
        setup.stray("MT-1");
    });
    desk.board([issue("MT-1").state("Done")]);
    desk.settle();
    desk.removal_fails("MT-1");
    desk.live(10_000);
    desk.removal_fails("MT-1");
    desk.live(20_000);
    desk.removal_fails("MT-1");
    desk.live(7_300_000);
    assert_eq!(desk.removals(), ["MT-1"]);
}

/// The agent's only window is used up for so many seconds.
fn used_up_for(seconds: u64, desk: &Desk) -> AgentUpdate {
    let window = RateLimitWindow {
        name: "primary".to_owned(),
        used_percent: 100.0,
        window_minutes: None,
        resets_at: Some(desk.now().wall + Duration::from_secs(seconds)),
    };
    let limits = RateLimits { windows: vec![window], ..RateLimits::default() };
    AgentUpdate::RateLimits(limits.into())
}

/// "Again now" is no time to wait for; the windows know better than the default of five minutes.
#[test]
fn rule_7_6_a_reset_that_is_now_leaves_the_windows_to_say_how_long() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    let limits = used_up_for(3_600, &desk);
    let run = desk.run("MT-1").says(limits);
    run.fails_as(AgentErrorKind::UsageLimit, Some(0));
    assert_eq!(desk.hold().until, desk.after(3_600_000));
}

/// `terminal_states: []` is a valid file. Empty input makes no request (11.1), so it makes no read.
#[test]
fn rule_11_1_without_terminal_states_closed_issues_are_not_listed() {
    let mut desk = Desk::with(|setup| {
        setup.stray("MT-1");
        setup.settings.tracker.terminal_states = StateSet::default();
    });
    desk.settle();
}

/// Deadlines are in milliseconds: a shorter wait is none, and the read is asked again in the very
/// step that took its failure in, for as long as the tracker says so.
#[test]
fn rule_7_4_a_wait_of_less_than_a_millisecond_is_no_loop() {
    let mut desk = Desk::new();
    desk.board([issue("MT-1")]);
    desk.answer_to("poll");
    let failure = Failure::new(FailureKind::Tracker(TrackerErrorKind::RateLimited), "slow down")
        .retry_after(Some(Duration::from_micros(500)));
    desk.answer_fails(&failure);
    assert_eq!(desk.reads(), NONE);
}

/// A whole list, asked after the check, does not have the issue any more. An agent is started all the
/// same, only to be stopped by the next refresh.
#[test]
fn rule_5_4_a_check_older_than_a_list_without_the_issue_starts_nothing() {
    let mut desk = Desk::new();
    desk.board([issue("MT-1")]);
    desk.answer_to("poll");
    let late = desk.withhold();
    desk.board([issue("MT-1").state("Backlog")]);
    desk.advance(30_000);
    desk.answer_to("poll");
    desk.deliver(late);
    assert_eq!(desk.starts(), NONE);
}

/// The windows are those of the agent that reported them. After a change of `agent.kind` they hold
/// another agent's starts for up to a day.
#[test]
fn rule_7_6_a_hold_is_that_of_its_agents_own_windows() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    let limits = used_up_for(80_000, &desk);
    desk.run("MT-1").says(limits);
    desk.run("MT-1").fails();
    desk.reloads(|settings| settings.agent.kind = "other".to_owned());
    desk.live(30_000);
    desk.run("MT-1").works();
    desk.run("MT-1").fails_as(AgentErrorKind::RateLimited, None);
    assert_eq!(desk.hold().until, desk.after(300_000));
}
