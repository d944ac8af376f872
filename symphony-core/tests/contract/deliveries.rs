//! Contract 12.8: what the tracker delivers by itself is a hint, never the truth.

use std::time::Duration;

use symphony_core::orchestrator::{Command, Event, Job, NoticeKind};
use symphony_core::settings::ActivitySettings;
use symphony_core::snapshot::{Mode, Reason, WebhookView};
use symphony_core::tracker::{Purpose, TrackerErrorKind};
use symphony_core::{Failure, FailureKind, IssueId};

use crate::harness::{Draft, Harness, NONE, Stage, id, issue, record};

const MINUTE: u64 = 60_000;

/// A harness whose tracker wants two seconds between reads, with nothing on its board.
fn settled() -> Harness {
    let mut harness = Harness::with(|setup| {
        setup.min_read_gap = 2_000;
        setup.settings.agent.common.stall_timeout = None;
    });
    harness.settle();
    harness.advance(5_000);
    harness.asked();
    harness
}

fn unreachable() -> Failure {
    Failure::new(FailureKind::Tracker(TrackerErrorKind::Request), "no route")
}

fn webhook(harness: &Harness) -> WebhookView {
    harness.snapshot().polling.webhook.expect("a delivery came")
}

/// How many polls go out in this time, all answered at once.
fn polls_in(millis: u64, harness: &mut Harness) -> usize {
    harness.asked();
    harness.live(millis);
    harness.asked().iter().filter(|read| read.starts_with("poll")).count()
}

// What is read.

#[test]
fn rule_12_8_a_delivery_starts_a_new_issue_without_a_poll() {
    let mut harness = settled();
    harness.board([issue("MT-1")]);
    harness.delivered(["MT-1"]);
    assert_eq!(harness.asked(), ["read MT-1"]);
    harness.answer();
    assert_eq!(harness.starts(), NONE, "only the read before a start can start anything");
    assert_eq!(harness.asked(), ["read MT-1"]);
    harness.answer();
    assert_eq!(harness.starts(), ["MT-1"]);
    assert_eq!(harness.asked(), NONE);
}

#[test]
fn rule_12_8_a_delivery_stops_a_run_without_a_poll() {
    let mut harness = settled();
    harness.works_on([issue("MT-1"), issue("MT-2")]);
    harness.board([issue("MT-1").state("Cancelled"), issue("MT-2").state("Cancelled")]);
    harness.delivered(["MT-1"]);
    harness.live(0);
    assert_eq!(harness.told(), ["stop MT-1: Terminal"], "nothing else is read");
}

#[test]
fn rule_12_8_what_a_delivery_says_is_not_believed() {
    let mut harness = settled();
    harness.works_on([issue("MT-1")]);
    harness.delivered(["MT-1", "MT-404"]);
    harness.live(0);
    assert_eq!(harness.asked(), ["read MT-1 MT-404"]);
    assert_eq!(harness.stage("MT-1"), Stage::Running);
    assert_eq!((harness.told(), harness.starts()), (vec![], vec![]));
}

#[test]
fn rule_12_8_a_delivery_about_nothing_of_ours_reads_nothing() {
    let mut harness = settled();
    harness.delivered([]);
    assert_eq!(harness.asked(), NONE);
    assert_eq!(webhook(&harness).received, 1);
}

#[test]
fn rule_12_8_an_issue_that_ceases_to_be_a_candidate_leaves_the_list() {
    let mut harness = Harness::with(|setup| _ = setup.slots(1));
    harness.works_on([issue("MT-1").priority(1)]);
    harness.completes("MT-1");
    harness.command(Command::Pause);
    harness.board([issue("MT-2"), issue("MT-3")]);
    harness.live(30_000);
    assert_eq!(harness.reason("MT-2"), Reason::Paused);
    harness.board([issue("MT-2").state("Backlog"), issue("MT-3").label("urgent")]);
    harness.delivered(["MT-2", "MT-3"]);
    harness.live(0);
    assert_eq!(harness.unstarted("MT-2"), None);
    assert_eq!(harness.reason("MT-3"), Reason::Paused);
    harness.delete("MT-3");
    harness.delivered(["MT-3"]);
    harness.live(0);
    assert_eq!(harness.unstarted("MT-3"), None);
    assert_eq!(harness.starts(), NONE);
}

#[test]
fn rule_12_8_what_waits_for_an_issue_is_read_with_it() {
    let mut harness = settled();
    harness.board([issue("MT-1").state("Review"), issue("MT-2").blocked_by("MT-1", "Review")]);
    harness.live(30_000);
    assert_eq!(harness.reason("MT-2"), Reason::BlockedBy("MT-1".to_owned()));
    harness.asked();
    harness.board([issue("MT-1").state("Done"), issue("MT-2").blocked_by("MT-1", "Done")]);
    harness.delivered(["MT-1"]);
    harness.live(0);
    assert_eq!(harness.asked(), ["read MT-1 MT-2", "read MT-2"]);
    assert_eq!(harness.starts(), ["MT-2"]);
}

#[test]
fn rule_12_8_a_candidate_that_was_found_wanting_gets_another_chance() {
    let mut harness = settled();
    harness.board([issue("MT-1")]);
    harness.event(Event::Command(Command::PollNow));
    harness.answer();
    harness.board([issue("MT-1").undispatchable()]);
    harness.answer();
    assert_eq!(harness.reason("MT-1"), Reason::NotDispatchable(None));
    harness.board([issue("MT-1")]);
    harness.delivered(["MT-1"]);
    harness.live(0);
    assert_eq!(harness.starts(), ["MT-1"]);
}

#[test]
fn rule_12_8_the_workspace_of_a_finished_issue_goes_at_once() {
    let mut harness = Harness::with(|setup| _ = setup.left_behind(record("MT-1")));
    harness.board([issue("MT-1").state("Backlog")]);
    harness.settle();
    harness.board([issue("MT-1").state("Done")]);
    harness.delivered(["MT-1"]);
    harness.live(0);
    assert_eq!(harness.removals(), ["MT-1"]);
}

#[test]
fn rule_12_8_deliveries_that_come_together_are_read_together() {
    let mut harness = settled();
    harness.delivered(["MT-1"]);
    harness.delivered(["MT-2", "MT-3"]);
    harness.delivered(["MT-2"]);
    assert_eq!(harness.asked(), ["read MT-1"], "one at a time");
    assert_eq!(webhook(&harness).waiting, 2);
    harness.answer();
    harness.advance(1_999);
    assert_eq!(harness.asked(), NONE, "the tracker's least gap");
    harness.advance(1);
    assert_eq!(harness.asked(), ["read MT-2 MT-3"]);
    harness.answer();
    harness.advance(5_000);
    assert_eq!(harness.asked(), NONE, "nothing is read twice for one delivery");
}

#[test]
fn rule_12_8_many_deliveries_cost_no_more_than_polls() {
    let mut harness = settled();
    for second in 0..1_800 {
        harness.board([issue("MT-1").state("Backlog").updated(second)]);
        harness.delivered(["MT-1"]);
        harness.live(1_000);
    }
    let asked = harness.asked();
    let targeted = asked.iter().filter(|read| read.starts_with("read")).count();
    // Half an hour of polls, and the first few that came faster.
    assert!((30..=65).contains(&targeted), "{targeted}");
    harness.live(5 * MINUTE);
    harness.asked();
    harness.delivered(["MT-1"]);
    assert_eq!(harness.asked(), ["read MT-1"], "after a pause the first is read at once");
}

#[test]
fn rule_12_8_too_many_at_once_are_left_to_an_early_poll() {
    let mut harness = settled();
    let issues: Vec<IssueId> = (0..51).map(|n| id(&format!("MT-{n}"))).collect();
    harness.event(Event::Delivered { issues });
    assert_eq!(harness.reads(), NONE, "not sooner than ten seconds after the last");
    harness.advance(5_000);
    assert_eq!(harness.asked(), ["poll"]);
    assert_eq!(webhook(&harness).waiting, 0);
}

#[test]
fn rule_12_8_an_early_poll_waits_as_long_as_the_tracker_wants() {
    let mut harness = Harness::new();
    harness.answer_fails(&unreachable().with_retry_after(Some(Duration::from_secs(90))));
    harness.asked();
    let issues: Vec<IssueId> = (0..51).map(|n| id(&format!("MT-{n}"))).collect();
    harness.event(Event::Delivered { issues });
    harness.delivered(["MT-1"]);
    harness.advance(89_999);
    assert_eq!(harness.asked(), NONE);
    harness.advance(1);
    assert_eq!(harness.asked(), ["poll"]);
}

#[test]
fn rule_12_8_what_a_poll_is_about_to_tell_is_not_read_besides() {
    let mut harness = settled();
    harness.works_on([issue("MT-1")]);
    harness.delivered(["MT-1"]);
    harness.answer();
    harness.asked();
    harness.delivered(["MT-1", "MT-2"]);
    harness.command(Command::PollNow);
    harness.advance(2_000);
    assert_eq!(harness.asked(), ["poll with MT-1"]);
    harness.answer();
    harness.advance(4_000);
    assert_eq!(harness.asked(), NONE);
}

/// The list that was to tell of a delivery ends before its issue.
#[test]
fn rule_12_8_what_a_list_does_not_reach_is_read_by_id() {
    let mut harness = settled();
    harness.board([issue("MT-1"), issue("MT-2")]);
    harness.delivered(["MT-3"]);
    harness.answer();
    harness.asked();
    harness.delivered(["MT-1", "MT-2"]);
    harness.command(Command::PollNow);
    harness.advance(2_000);
    assert_eq!(harness.asked(), ["poll"]);
    harness.answer_but(|answer| {
        if let Some(Ok(list)) = &mut answer.candidates {
            list.issues.truncate(1);
            list.more = true;
        }
    });
    assert_eq!(harness.asked(), ["read MT-1", "read MT-2"], "the first one before its start");
}

// When it is read.

#[test]
fn rule_12_8_a_check_under_way_comes_first() {
    let mut harness = settled();
    harness.board([issue("MT-1")]);
    harness.command(Command::PollNow);
    harness.answer();
    assert_eq!(harness.reads(), ["read MT-1"]);
    let before = harness.withhold();
    harness.asked();
    harness.board([issue("MT-1").state("Cancelled")]);
    harness.delivered(["MT-1"]);
    assert_eq!(harness.asked(), NONE);
    harness.deliver(before);
    assert_eq!(harness.starts(), ["MT-1"], "as the check saw it");
    assert_eq!(harness.asked(), ["read MT-1"]);
    harness.answer();
    assert_eq!(harness.told(), ["stop MT-1: Terminal"]);
}

#[test]
fn rule_12_8_a_removal_under_way_comes_first() {
    let mut harness = settled();
    harness.works_on([issue("MT-1")]);
    harness.board([issue("MT-1").state("Done")]);
    harness.ends_normally("MT-1");
    assert_eq!(harness.stage("MT-1"), Stage::Cleaning);
    harness.board([issue("MT-1")]);
    harness.asked();
    harness.delivered(["MT-1"]);
    assert_eq!(harness.asked(), NONE);
    harness.removed("MT-1");
    harness.live(0);
    assert_eq!(harness.starts(), ["MT-1"], "reopened while its workspace went");
}

#[test]
fn rule_12_8_without_a_slot_only_claimed_issues_are_read() {
    let mut harness = Harness::with(|setup| _ = setup.slots(1));
    harness.works_on([issue("MT-1")]);
    harness.board([issue("MT-2")]);
    harness.delivered(["MT-1", "MT-2"]);
    assert_eq!(harness.asked(), ["read MT-1"]);
    harness.answer();
    harness.completes("MT-1");
    harness.live(0);
    assert_eq!(harness.starts(), ["MT-2"]);
}

#[test]
fn rule_12_8_with_an_invalid_file_only_claimed_issues_are_read() {
    let mut harness = settled();
    harness.works_on([issue("MT-1")]);
    harness.file_breaks("agent.max_turns");
    harness.board([issue("MT-1").state("Backlog"), issue("MT-2")]);
    harness.delivered(["MT-1", "MT-2"]);
    assert_eq!(harness.asked(), ["read MT-1"]);
    harness.answer();
    assert_eq!(harness.told(), ["stop MT-1: NotActive"]);
    harness.reloads(|_| ());
    harness.live(0);
    assert_eq!(harness.starts(), ["MT-2"]);
}

#[test]
fn rule_12_8_while_paused_issues_are_read_and_nothing_starts() {
    let mut harness = settled();
    harness.command(Command::Pause);
    harness.board([issue("MT-1")]);
    harness.delivered(["MT-1"]);
    harness.live(0);
    assert_eq!(harness.starts(), NONE);
    assert_eq!(harness.reason("MT-1"), Reason::Paused);
    harness.command(Command::Resume);
    harness.live(0);
    assert_eq!(harness.starts(), ["MT-1"]);
}

#[test]
fn rule_12_8_after_shutdown_nothing_is_read() {
    let mut harness = settled();
    harness.works_on([issue("MT-1")]);
    harness.command(Command::ShutDown);
    harness.asked();
    harness.delivered(["MT-1"]);
    harness.advance(10 * MINUTE);
    assert_eq!(harness.asked(), NONE);
}

#[test]
fn rule_12_8_the_first_list_comes_first() {
    let mut harness = Harness::new();
    assert_eq!(harness.asked(), ["poll"]);
    let before = harness.withhold();
    harness.board([issue("MT-1")]);
    harness.delivered(["MT-1"]);
    assert_eq!(harness.asked(), NONE);
    harness.deliver(before);
    assert_eq!(harness.asked(), ["read MT-1"]);
    harness.settle();
    assert_eq!(harness.starts(), ["MT-1"]);
}

// What an answer changes (4.8).

#[test]
fn rule_12_8_an_older_list_does_not_undo_what_a_delivery_brought() {
    let mut harness = Harness::new();
    harness.board([issue("MT-2")]);
    harness.command(Command::Pause);
    harness.settle();
    harness.command(Command::PollNow);
    let older = harness.withhold_to("poll");
    harness.board([issue("MT-1"), issue("MT-2").state("Backlog")]);
    harness.delivered(["MT-1", "MT-2"]);
    harness.answer_to("read MT-1 MT-2");
    harness.deliver(older);
    assert_eq!(harness.reason("MT-1"), Reason::Paused);
    assert_eq!(harness.unstarted("MT-2"), None);
}

#[test]
fn rule_12_8_a_later_list_outweighs_what_a_delivery_brought() {
    let mut harness = Harness::new();
    harness.command(Command::Pause);
    harness.settle();
    harness.board([issue("MT-1")]);
    harness.delivered(["MT-1"]);
    let older = harness.withhold_to("read MT-1");
    harness.delete("MT-1");
    harness.command(Command::PollNow);
    harness.answer_to("poll");
    harness.deliver(older);
    assert_eq!(harness.unstarted("MT-1"), None);
}

#[test]
fn rule_12_8_a_claim_that_changed_meanwhile_is_left_alone() {
    let mut harness = settled();
    harness.works_on([issue("MT-1")]);
    harness.board([issue("MT-1").state("Cancelled")]);
    harness.delivered(["MT-1"]);
    harness.run("MT-1").fails();
    harness.answer();
    assert_eq!(harness.stage("MT-1"), Stage::Waiting);
}

/// Both are under way when the issue is over, and both say so: the second answer finds a claim that
/// cleans.
#[test]
fn rule_4_2_a_sweep_and_a_delivery_remove_a_workspace_once() {
    let mut harness = Harness::with(|setup| {
        setup.left_behind(record("MT-1"));
        setup.settings.polling.jobs.sweep = Duration::from_millis(20_500);
    });
    harness.board([issue("MT-1").state("Backlog")]);
    harness.live(20_000);
    harness.delivered(["MT-1"]);
    harness.board([issue("MT-1").state("Done")]);
    let delivery = harness.withhold();
    harness.advance(500);
    let sweep = harness.withhold_to("refresh MT-1");
    harness.deliver(delivery);
    assert_eq!(harness.removals(), ["MT-1"]);
    harness.deliver(sweep);
    assert_eq!(harness.removals(), ["MT-1"]);
}

#[test]
fn rule_12_8_an_older_terminal_answer_does_not_clean_what_a_delivery_shows_alive() {
    let mut harness = Harness::with(|setup| _ = setup.left_behind(record("MT-1")));
    harness.board([issue("MT-1").state("Done")]);
    assert_eq!(harness.reads(), ["poll with MT-1"]);
    let mut older = None;
    harness.answer_but(|answer| answer.by_id = Some(Err(unreachable())));
    harness.live(30_000);
    while older.is_none() {
        harness.advance(MINUTE);
        let sweep = harness.reads().into_iter().find(|read| read.contains("MT-1"));
        older = sweep.map(|spelling| harness.withhold_to(&spelling));
    }
    harness.command(Command::Pause);
    harness.board([issue("MT-1")]);
    harness.delivered(["MT-1"]);
    harness.answer_to("read MT-1");
    harness.deliver(older.unwrap());
    assert_eq!(harness.removals(), NONE);
}

#[test]
fn rule_12_8_a_failed_read_changes_nothing_and_is_tried_again() {
    let mut harness = settled();
    harness.works_on([issue("MT-1")]);
    harness.board([issue("MT-1").state("Cancelled"), issue("MT-2")]);
    harness.delivered(["MT-1", "MT-2"]);
    harness.notices();
    harness.answer_fails(&unreachable());
    let told = NoticeKind::ReadFailed { purpose: Purpose::Delivery, failure: unreachable() };
    assert!(harness.notices().contains(&told));
    assert_eq!(harness.stage("MT-1"), Stage::Running);
    harness.asked();
    harness.advance(9_999);
    assert_eq!(harness.asked(), NONE);
    harness.advance(1);
    assert_eq!(harness.asked(), ["read MT-1 MT-2"]);
    harness.live(0);
    assert_eq!(
        (harness.told(), harness.starts()),
        (vec!["stop MT-1: Terminal".to_owned()], vec!["MT-2".to_owned()])
    );
}

#[test]
fn rule_12_8_reads_that_fail_again_and_again_are_left_to_the_polls() {
    let mut harness = Harness::with(|setup| {
        setup.settings.polling.interval = Duration::from_secs(3_600);
    });
    harness.settle();
    harness.delivered(["MT-1"]);
    for _ in 0..3 {
        assert_eq!(harness.reads(), ["read MT-1"]);
        harness.answer_fails(&unreachable());
        harness.advance(20_000);
    }
    assert_eq!(harness.reads(), ["poll"], "and not the hour that is left");
    assert_eq!(webhook(&harness).waiting, 0);
}

#[test]
fn rule_12_8_a_record_that_cannot_be_read_changes_nothing() {
    let mut harness = settled();
    harness.works_on([issue("MT-1")]);
    harness.board([issue("MT-1").state("Cancelled"), issue("MT-2")]);
    harness.unreadable("MT-1");
    harness.unreadable("MT-2");
    harness.delivered(["MT-1", "MT-2"]);
    harness.live(0);
    assert_eq!(harness.stage("MT-1"), Stage::Running);
    assert_eq!(harness.starts(), NONE);
}

#[test]
fn rule_12_8_a_refused_read_waits_as_long_as_the_tracker_wants() {
    let mut harness = settled();
    harness.delivered(["MT-1"]);
    harness.answer_fails(&unreachable().with_retry_after(Some(Duration::from_secs(20))));
    harness.asked();
    harness.advance(19_999);
    assert_eq!(harness.asked(), NONE);
    harness.advance(1);
    assert_eq!(harness.asked(), ["read MT-1"]);
}

// Another tracker.

#[test]
fn rule_12_8_another_tracker_of_the_same_scope_is_asked_anew() {
    let mut harness = settled();
    harness.works_on([issue("MT-1")]);
    harness.board([issue("MT-1").state("Cancelled")]);
    harness.delivered(["MT-1"]);
    harness.asked();
    let scope = harness.scope();
    harness.reloads_tracker(&scope);
    assert_eq!(harness.snapshot().polling.webhook, None, "nothing is known of its deliveries");
    harness.live(10_000);
    assert_eq!(harness.told(), ["stop MT-1: Terminal"]);
}

#[test]
fn rule_12_8_issues_of_another_scope_are_forgotten() {
    let mut harness = settled();
    harness.delivered(["MT-1"]);
    harness.delivered(["MT-2"]);
    harness.asked();
    harness.reloads_tracker("another");
    harness.live(10_000);
    assert_eq!(harness.asked(), ["poll"]);
}

// How far polls rely on it.

#[test]
fn rule_12_8_while_deliveries_are_healthy_polls_are_rare() {
    let mut harness = settled();
    assert_eq!(polls_in(10 * MINUTE, &mut harness), 20);
    harness.delivered([]);
    assert!(webhook(&harness).healthy);
    harness.live(2 * MINUTE);
    assert_eq!(polls_in(20 * MINUTE, &mut harness), 10);
    assert_eq!(harness.snapshot().polling.mode, Mode::Active);
}

#[test]
fn rule_12_8_after_an_hour_of_silence_polls_keep_their_pace() {
    let mut harness = settled();
    harness.delivered([]);
    harness.live(59 * MINUTE);
    assert!(webhook(&harness).healthy);
    harness.live(MINUTE);
    assert!(!webhook(&harness).healthy);
    assert_eq!(polls_in(10 * MINUTE, &mut harness), 20);
    harness.delivered([]);
    harness.live(2 * MINUTE);
    assert_eq!(polls_in(20 * MINUTE, &mut harness), 10);
}

#[test]
fn rule_12_8_the_end_of_trust_is_noticed_when_it_comes() {
    let mut harness = Harness::with(|setup| {
        let day = Duration::from_secs(86_400);
        let activity = setup.settings.polling.activity.insert(ActivitySettings::default());
        (activity.idle_after, activity.idle) = (day, day);
        (activity.dormant_after, activity.dormant) = (day, day);
    });
    harness.settle();
    harness.delivered([]);
    harness.asked();
    harness.live(59 * MINUTE);
    assert_eq!(harness.asked(), NONE);
    harness.live(MINUTE);
    assert_eq!(harness.asked(), ["poll"], "not a day later");
}

#[test]
fn rule_12_8_while_a_run_lives_refresh_keeps_its_pace() {
    let mut harness = settled();
    harness.works_on([issue("MT-1")]);
    harness.delivered([]);
    harness.live(2 * MINUTE);
    harness.asked();
    harness.live(20 * MINUTE);
    let asked = harness.asked();
    let refreshes = asked.iter().filter(|read| read.contains("MT-1")).count();
    let polls = asked.iter().filter(|read| read.starts_with("poll")).count();
    assert_eq!((refreshes, polls), (40, 10), "{asked:?}");
}

#[test]
fn rule_12_8_a_failed_poll_is_not_put_off() {
    let mut harness = settled();
    harness.delivered([]);
    harness.advance(2 * MINUTE);
    harness.answer_fails(&unreachable());
    harness.asked();
    harness.advance(30_000);
    assert_eq!(harness.asked(), ["poll"]);
}

#[test]
fn rule_12_8_a_missed_delivery_ends_the_trust() {
    let mut harness = settled();
    harness.delivered([]);
    harness.live(4 * MINUTE);
    assert!(webhook(&harness).healthy);
    harness.board([issue("MT-1")]);
    harness.live(2 * MINUTE);
    assert_eq!(harness.starts(), ["MT-1"], "the poll is the truth");
    harness.notices();
    harness.live(MINUTE);
    let view = webhook(&harness);
    assert_eq!((view.healthy, view.missed), (false, 1));
    assert!(harness.notices().contains(&NoticeKind::DeliveryMissed { id: id("MT-1") }));
    harness.delivered([]);
    assert!(!webhook(&harness).healthy, "not for an hour");
    assert_eq!(polls_in(10 * MINUTE, &mut harness), 20);
    harness.live(50 * MINUTE);
    harness.delivered([]);
    assert!(webhook(&harness).healthy);
}

#[test]
fn rule_12_8_a_missed_change_of_a_claim_ends_the_trust() {
    let mut harness = settled();
    harness.works_on([issue("MT-1")]);
    harness.delivered([]);
    harness.live(4 * MINUTE);
    harness.board([issue("MT-1").state("In Progress")]);
    harness.live(2 * MINUTE);
    let view = webhook(&harness);
    assert_eq!((view.healthy, view.missed), (false, 1));
}

#[test]
fn rule_12_8_a_delivery_may_come_a_little_after_the_poll() {
    let mut harness = settled();
    harness.works_on([issue("MT-1")]);
    harness.delivered([]);
    harness.live(4 * MINUTE);
    harness.board([issue("MT-1").state("In Progress"), issue("MT-2")]);
    harness.command(Command::PollNow);
    harness.live(59_000);
    harness.delivered(["MT-1", "MT-2"]);
    harness.live(10 * MINUTE);
    let view = webhook(&harness);
    assert_eq!((view.healthy, view.missed), (true, 0));
}

#[test]
fn rule_12_8_an_announced_change_is_not_a_missed_delivery() {
    let mut harness = settled();
    harness.works_on([issue("MT-1")]);
    harness.delivered([]);
    harness.live(4 * MINUTE);
    for round in 0..20 {
        let state = if round % 2 == 0 { "In Progress" } else { "Todo" };
        harness.board([issue("MT-1").state(state), issue("MT-2").state(state).undispatchable()]);
        harness.delivered(["MT-1", "MT-2"]);
        harness.live(MINUTE);
    }
    let view = webhook(&harness);
    assert_eq!((view.healthy, view.missed, view.received), (true, 0, 21));
}

#[test]
fn rule_12_8_an_announced_change_left_to_a_poll_is_not_a_missed_delivery() {
    let mut harness = settled();
    harness.works_on([issue("MT-1")]);
    harness.delivered([]);
    harness.live(4 * MINUTE);
    harness.delivered(["MT-1"]);
    harness.live(0);
    // The next read because of a delivery has to wait, and the poll goes out first.
    harness.board([issue("MT-1").state("In Progress"), issue("MT-2").undispatchable()]);
    harness.delivered(["MT-1", "MT-2"]);
    harness.asked();
    harness.command(Command::PollNow);
    harness.advance(2_000);
    assert_eq!(harness.asked(), ["poll with MT-1"]);
    harness.live(2 * MINUTE);
    let view = webhook(&harness);
    assert_eq!((view.healthy, view.missed), (true, 0));
    // A later change without a delivery is missed as ever.
    harness
        .board([issue("MT-1").state("Todo"), issue("MT-2").state("In Progress").undispatchable()]);
    harness.command(Command::PollNow);
    harness.live(2 * MINUTE);
    let view = webhook(&harness);
    assert_eq!((view.healthy, view.missed), (false, 2));
}

#[test]
fn rule_12_8_a_change_before_the_first_delivery_is_not_a_missed_delivery() {
    let mut harness = settled();
    harness.works_on([issue("MT-1")]);
    harness.board([issue("MT-1").state("In Progress"), issue("MT-2")]);
    harness.delivered([]);
    harness.live(10 * MINUTE);
    assert_eq!(webhook(&harness).missed, 0);
}

#[test]
fn rule_12_8_another_tracker_is_not_trusted_yet() {
    let mut harness = settled();
    harness.delivered([]);
    let scope = harness.scope();
    harness.reloads_tracker(&scope);
    harness.live(MINUTE);
    assert_eq!(polls_in(10 * MINUTE, &mut harness), 20);
}

#[test]
fn rule_12_2_a_delivery_is_activity() {
    let mut harness = Harness::with(|setup| {
        setup.settings.polling.activity = Some(ActivitySettings::default());
    });
    harness.live(70 * MINUTE);
    assert_eq!(harness.snapshot().polling.mode, Mode::Dormant);
    harness.delivered([]);
    assert_eq!(harness.snapshot().polling.mode, Mode::Active);
    let next = harness.job(&Job::Candidates).next.expect("a poll is due");
    assert!(next <= harness.after(2 * MINUTE));
}

#[test]
fn rule_12_8_the_day_counts_what_deliveries_cost() {
    let mut harness = settled();
    harness.delivered(["MT-1"]);
    harness.live(0);
    assert_eq!(harness.snapshot().polling.requests_today.get("delivery"), Some(&1));
}

#[test]
fn rule_5_5_a_removal_does_not_outdate_what_a_delivery_told_since() {
    let mut harness = settled();
    harness.works_on([issue("MT-1")]);
    harness.board([issue("MT-1").state("Done")]);
    harness.turn_ends("MT-1");
    assert_eq!(harness.told(), ["finish MT-1"]);
    // It is reopened, and a read because of that is under way when its run ends.
    harness.delivered(["MT-1"]);
    harness.board([issue("MT-1")]);
    harness.run("MT-1").ends_well();
    harness.settle();
    harness.removed("MT-1");
    harness.live(2_000);
    assert_eq!(harness.starts(), ["MT-1"], "without another list");
}
