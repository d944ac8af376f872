//! Contract 12.8: what the tracker delivers by itself is a hint, never the truth.

use std::time::Duration;

use symphony_core::orchestrator::{Command, Event, Happened, Job};
use symphony_core::snapshot::{Mode, Reason, WebhookView};
use symphony_core::tracker::{Purpose, TrackerErrorKind};
use symphony_core::{Failure, FailureKind, IssueId};

use crate::desk::{Desk, Draft, NONE, Place, id, issue, record};

const MINUTE: u64 = 60_000;

/// A desk whose tracker wants two seconds between reads, with nothing on its board.
fn settled() -> Desk {
    let mut desk = Desk::with(|setup| {
        setup.min_read_gap = 2_000;
        setup.settings.agent.common.stall_timeout = None;
    });
    desk.settle();
    desk.advance(5_000);
    desk.asked();
    desk
}

fn unreachable() -> Failure {
    Failure::new(FailureKind::Tracker(TrackerErrorKind::Request), "no route")
}

fn webhook(desk: &Desk) -> WebhookView {
    desk.snapshot().polling.webhook.expect("a delivery came")
}

/// How many polls go out in this time, all answered at once.
fn polls_in(millis: u64, desk: &mut Desk) -> usize {
    desk.asked();
    desk.live(millis);
    desk.asked().iter().filter(|read| read.starts_with("poll")).count()
}

// What is read.

#[test]
fn rule_12_8_a_delivery_starts_a_new_issue_without_a_poll() {
    let mut desk = settled();
    desk.board([issue("MT-1")]);
    desk.delivered(["MT-1"]);
    assert_eq!(desk.asked(), ["read MT-1"]);
    desk.answer();
    assert_eq!(desk.starts(), NONE, "only the read before a start can start anything");
    assert_eq!(desk.asked(), ["read MT-1"]);
    desk.answer();
    assert_eq!(desk.starts(), ["MT-1"]);
    assert_eq!(desk.asked(), NONE);
}

#[test]
fn rule_12_8_a_delivery_stops_a_run_without_a_poll() {
    let mut desk = settled();
    desk.works_on([issue("MT-1"), issue("MT-2")]);
    desk.board([issue("MT-1").state("Cancelled"), issue("MT-2").state("Cancelled")]);
    desk.delivered(["MT-1"]);
    desk.live(0);
    assert_eq!(desk.told(), ["stop MT-1: Terminal"], "nothing else is read");
}

#[test]
fn rule_12_8_what_a_delivery_says_is_not_believed() {
    let mut desk = settled();
    desk.works_on([issue("MT-1")]);
    desk.delivered(["MT-1", "MT-404"]);
    desk.live(0);
    assert_eq!(desk.asked(), ["read MT-1 MT-404"]);
    assert_eq!(desk.place("MT-1"), Place::Running);
    assert_eq!((desk.told(), desk.starts()), (vec![], vec![]));
}

#[test]
fn rule_12_8_a_delivery_about_nothing_of_ours_reads_nothing() {
    let mut desk = settled();
    desk.delivered([]);
    assert_eq!(desk.asked(), NONE);
    assert_eq!(webhook(&desk).received, 1);
}

#[test]
fn rule_12_8_an_issue_that_is_no_candidate_any_more_leaves_the_list() {
    let mut desk = Desk::with(|setup| _ = setup.slots(1));
    desk.works_on([issue("MT-1").priority(1)]);
    desk.is_done("MT-1");
    desk.command(Command::Pause);
    desk.board([issue("MT-2"), issue("MT-3")]);
    desk.live(30_000);
    assert_eq!(desk.reason("MT-2"), Reason::Paused);
    desk.board([issue("MT-2").state("Backlog"), issue("MT-3").label("urgent")]);
    desk.delivered(["MT-2", "MT-3"]);
    desk.live(0);
    assert_eq!(desk.unstarted("MT-2"), None);
    assert_eq!(desk.reason("MT-3"), Reason::Paused);
    desk.gone("MT-3");
    desk.delivered(["MT-3"]);
    desk.live(0);
    assert_eq!(desk.unstarted("MT-3"), None);
    assert_eq!(desk.starts(), NONE);
}

#[test]
fn rule_12_8_what_waits_for_an_issue_is_read_with_it() {
    let mut desk = settled();
    desk.board([issue("MT-1").state("Review"), issue("MT-2").blocked_by("MT-1", "Review")]);
    desk.live(30_000);
    assert_eq!(desk.reason("MT-2"), Reason::BlockedBy("MT-1".to_owned()));
    desk.asked();
    desk.board([issue("MT-1").state("Done"), issue("MT-2").blocked_by("MT-1", "Done")]);
    desk.delivered(["MT-1"]);
    desk.live(0);
    assert_eq!(desk.asked(), ["read MT-1 MT-2", "read MT-2"]);
    assert_eq!(desk.starts(), ["MT-2"]);
}

#[test]
fn rule_12_8_a_candidate_that_was_found_wanting_gets_another_chance() {
    let mut desk = settled();
    desk.board([issue("MT-1")]);
    desk.event(Event::Command(Command::PollNow));
    desk.answer();
    desk.board([issue("MT-1").undispatchable()]);
    desk.answer();
    assert_eq!(desk.reason("MT-1"), Reason::NotDispatchable);
    desk.board([issue("MT-1")]);
    desk.delivered(["MT-1"]);
    desk.live(0);
    assert_eq!(desk.starts(), ["MT-1"]);
}

#[test]
fn rule_12_8_the_workspace_of_a_finished_issue_goes_at_once() {
    let mut desk = Desk::with(|setup| _ = setup.left_behind(record("MT-1")));
    desk.board([issue("MT-1").state("Backlog")]);
    desk.settle();
    desk.board([issue("MT-1").state("Done")]);
    desk.delivered(["MT-1"]);
    desk.live(0);
    assert_eq!(desk.removals(), ["MT-1"]);
}

#[test]
fn rule_12_8_deliveries_that_come_together_are_read_together() {
    let mut desk = settled();
    desk.delivered(["MT-1"]);
    desk.delivered(["MT-2", "MT-3"]);
    desk.delivered(["MT-2"]);
    assert_eq!(desk.asked(), ["read MT-1"], "one at a time");
    assert_eq!(webhook(&desk).waiting, 2);
    desk.answer();
    desk.advance(1_999);
    assert_eq!(desk.asked(), NONE, "the tracker's least gap");
    desk.advance(1);
    assert_eq!(desk.asked(), ["read MT-2 MT-3"]);
    desk.answer();
    desk.advance(5_000);
    assert_eq!(desk.asked(), NONE, "nothing is read twice for one delivery");
}

#[test]
fn rule_12_8_many_deliveries_cost_no_more_than_polls() {
    let mut desk = settled();
    for second in 0..1_800 {
        desk.board([issue("MT-1").state("Backlog").updated(second)]);
        desk.delivered(["MT-1"]);
        desk.live(1_000);
    }
    let asked = desk.asked();
    let targeted = asked.iter().filter(|read| read.starts_with("read")).count();
    // Half an hour of polls, and the first few that came faster.
    assert!((30..=65).contains(&targeted), "{targeted}");
    desk.live(5 * MINUTE);
    desk.asked();
    desk.delivered(["MT-1"]);
    assert_eq!(desk.asked(), ["read MT-1"], "after a pause the first is read at once");
}

#[test]
fn rule_12_8_too_many_at_once_are_left_to_an_early_poll() {
    let mut desk = settled();
    let issues: Vec<IssueId> = (0..51).map(|n| id(&format!("MT-{n}"))).collect();
    desk.event(Event::Delivered { issues });
    assert_eq!(desk.reads(), NONE, "not sooner than ten seconds after the last");
    desk.advance(5_000);
    assert_eq!(desk.asked(), ["poll"]);
    assert_eq!(webhook(&desk).waiting, 0);
}

#[test]
fn rule_12_8_an_early_poll_waits_as_long_as_the_tracker_wants() {
    let mut desk = Desk::new();
    desk.answer_fails(&unreachable().retry_after(Some(Duration::from_secs(90))));
    desk.asked();
    let issues: Vec<IssueId> = (0..51).map(|n| id(&format!("MT-{n}"))).collect();
    desk.event(Event::Delivered { issues });
    desk.delivered(["MT-1"]);
    desk.advance(89_999);
    assert_eq!(desk.asked(), NONE);
    desk.advance(1);
    assert_eq!(desk.asked(), ["poll"]);
}

#[test]
fn rule_12_8_what_a_poll_is_about_to_tell_is_not_read_besides() {
    let mut desk = settled();
    desk.works_on([issue("MT-1")]);
    desk.delivered(["MT-1"]);
    desk.answer();
    desk.asked();
    desk.delivered(["MT-1", "MT-2"]);
    desk.command(Command::PollNow);
    desk.advance(2_000);
    assert_eq!(desk.asked(), ["poll with MT-1"]);
    desk.answer();
    desk.advance(4_000);
    assert_eq!(desk.asked(), NONE);
}

// When it is read.

#[test]
fn rule_12_8_a_check_under_way_comes_first() {
    let mut desk = settled();
    desk.board([issue("MT-1")]);
    desk.command(Command::PollNow);
    desk.answer();
    assert_eq!(desk.reads(), ["read MT-1"]);
    let before = desk.withhold();
    desk.asked();
    desk.board([issue("MT-1").state("Cancelled")]);
    desk.delivered(["MT-1"]);
    assert_eq!(desk.asked(), NONE);
    desk.deliver(before);
    assert_eq!(desk.starts(), ["MT-1"], "as the check saw it");
    assert_eq!(desk.asked(), ["read MT-1"]);
    desk.answer();
    assert_eq!(desk.told(), ["stop MT-1: Terminal"]);
}

#[test]
fn rule_12_8_a_removal_under_way_comes_first() {
    let mut desk = settled();
    desk.works_on([issue("MT-1")]);
    desk.board([issue("MT-1").state("Done")]);
    desk.ends_normally("MT-1");
    assert_eq!(desk.place("MT-1"), Place::Cleaning);
    desk.board([issue("MT-1")]);
    desk.asked();
    desk.delivered(["MT-1"]);
    assert_eq!(desk.asked(), NONE);
    desk.removed("MT-1");
    desk.live(0);
    assert_eq!(desk.starts(), ["MT-1"], "reopened while its workspace went");
}

#[test]
fn rule_12_8_without_a_slot_only_claimed_issues_are_read() {
    let mut desk = Desk::with(|setup| _ = setup.slots(1));
    desk.works_on([issue("MT-1")]);
    desk.board([issue("MT-2")]);
    desk.delivered(["MT-1", "MT-2"]);
    assert_eq!(desk.asked(), ["read MT-1"]);
    desk.answer();
    desk.is_done("MT-1");
    desk.live(0);
    assert_eq!(desk.starts(), ["MT-2"]);
}

#[test]
fn rule_12_8_with_an_invalid_file_only_claimed_issues_are_read() {
    let mut desk = settled();
    desk.works_on([issue("MT-1")]);
    desk.file_breaks("agent.max_turns");
    desk.board([issue("MT-1").state("Backlog"), issue("MT-2")]);
    desk.delivered(["MT-1", "MT-2"]);
    assert_eq!(desk.asked(), ["read MT-1"]);
    desk.answer();
    assert_eq!(desk.told(), ["stop MT-1: NotActive"]);
    desk.reloads(|_| ());
    desk.live(0);
    assert_eq!(desk.starts(), ["MT-2"]);
}

#[test]
fn rule_12_8_while_paused_issues_are_read_and_nothing_starts() {
    let mut desk = settled();
    desk.command(Command::Pause);
    desk.board([issue("MT-1")]);
    desk.delivered(["MT-1"]);
    desk.live(0);
    assert_eq!(desk.starts(), NONE);
    assert_eq!(desk.reason("MT-1"), Reason::Paused);
    desk.command(Command::Resume);
    desk.live(0);
    assert_eq!(desk.starts(), ["MT-1"]);
}

#[test]
fn rule_12_8_after_shutdown_nothing_is_read() {
    let mut desk = settled();
    desk.works_on([issue("MT-1")]);
    desk.command(Command::ShutDown);
    desk.asked();
    desk.delivered(["MT-1"]);
    desk.advance(10 * MINUTE);
    assert_eq!(desk.asked(), NONE);
}

#[test]
fn rule_12_8_the_first_list_comes_first() {
    let mut desk = Desk::new();
    assert_eq!(desk.asked(), ["poll"]);
    let before = desk.withhold();
    desk.board([issue("MT-1")]);
    desk.delivered(["MT-1"]);
    assert_eq!(desk.asked(), NONE);
    desk.deliver(before);
    assert_eq!(desk.asked(), ["read MT-1"]);
    desk.settle();
    assert_eq!(desk.starts(), ["MT-1"]);
}

// What an answer changes (4.8).

#[test]
fn rule_12_8_an_older_list_does_not_undo_what_a_delivery_brought() {
    let mut desk = Desk::new();
    desk.board([issue("MT-2")]);
    desk.command(Command::Pause);
    desk.settle();
    desk.command(Command::PollNow);
    let older = desk.withhold_to("poll");
    desk.board([issue("MT-1"), issue("MT-2").state("Backlog")]);
    desk.delivered(["MT-1", "MT-2"]);
    desk.answer_to("read MT-1 MT-2");
    desk.deliver(older);
    assert_eq!(desk.reason("MT-1"), Reason::Paused);
    assert_eq!(desk.unstarted("MT-2"), None);
}

#[test]
fn rule_12_8_a_later_list_outweighs_what_a_delivery_brought() {
    let mut desk = Desk::new();
    desk.command(Command::Pause);
    desk.settle();
    desk.board([issue("MT-1")]);
    desk.delivered(["MT-1"]);
    let older = desk.withhold_to("read MT-1");
    desk.gone("MT-1");
    desk.command(Command::PollNow);
    desk.answer_to("poll");
    desk.deliver(older);
    assert_eq!(desk.unstarted("MT-1"), None);
}

#[test]
fn rule_12_8_a_claim_that_changed_meanwhile_is_left_alone() {
    let mut desk = settled();
    desk.works_on([issue("MT-1")]);
    desk.board([issue("MT-1").state("Cancelled")]);
    desk.delivered(["MT-1"]);
    desk.run("MT-1").fails();
    desk.answer();
    assert_eq!(desk.place("MT-1"), Place::Waiting);
}

#[test]
fn rule_12_8_an_older_terminal_answer_does_not_clean_what_a_delivery_shows_alive() {
    let mut desk = Desk::with(|setup| _ = setup.left_behind(record("MT-1")));
    desk.board([issue("MT-1").state("Done")]);
    assert_eq!(desk.reads(), ["poll with MT-1"]);
    let mut older = None;
    desk.answer_but(|answer| answer.by_id = Some(Err(unreachable())));
    desk.live(30_000);
    while older.is_none() {
        desk.advance(MINUTE);
        let sweep = desk.reads().into_iter().find(|read| read.contains("MT-1"));
        older = sweep.map(|spelling| desk.withhold_to(&spelling));
    }
    desk.command(Command::Pause);
    desk.board([issue("MT-1")]);
    desk.delivered(["MT-1"]);
    desk.answer_to("read MT-1");
    desk.deliver(older.unwrap());
    assert_eq!(desk.removals(), NONE);
}

#[test]
fn rule_12_8_a_failed_read_changes_nothing_and_is_tried_again() {
    let mut desk = settled();
    desk.works_on([issue("MT-1")]);
    desk.board([issue("MT-1").state("Cancelled"), issue("MT-2")]);
    desk.delivered(["MT-1", "MT-2"]);
    desk.notices();
    desk.answer_fails(&unreachable());
    let told = Happened::ReadFailed { purpose: Purpose::Delivery, failure: unreachable() };
    assert!(desk.notices().contains(&told));
    assert_eq!(desk.place("MT-1"), Place::Running);
    desk.asked();
    desk.advance(9_999);
    assert_eq!(desk.asked(), NONE);
    desk.advance(1);
    assert_eq!(desk.asked(), ["read MT-1 MT-2"]);
    desk.live(0);
    assert_eq!(
        (desk.told(), desk.starts()),
        (vec!["stop MT-1: Terminal".to_owned()], vec!["MT-2".to_owned()])
    );
}

#[test]
fn rule_12_8_reads_that_fail_again_and_again_are_left_to_the_polls() {
    let mut desk = Desk::with(|setup| {
        setup.settings.polling.interval = Duration::from_secs(3_600);
    });
    desk.settle();
    desk.delivered(["MT-1"]);
    for _ in 0..3 {
        assert_eq!(desk.reads(), ["read MT-1"]);
        desk.answer_fails(&unreachable());
        desk.advance(20_000);
    }
    assert_eq!(desk.reads(), ["poll"], "and not the hour that is left");
    assert_eq!(webhook(&desk).waiting, 0);
}

#[test]
fn rule_12_8_a_record_that_cannot_be_read_changes_nothing() {
    let mut desk = settled();
    desk.works_on([issue("MT-1")]);
    desk.board([issue("MT-1").state("Cancelled"), issue("MT-2")]);
    desk.unreadable("MT-1");
    desk.unreadable("MT-2");
    desk.delivered(["MT-1", "MT-2"]);
    desk.live(0);
    assert_eq!(desk.place("MT-1"), Place::Running);
    assert_eq!(desk.starts(), NONE);
}

#[test]
fn rule_12_8_a_refused_read_waits_as_long_as_the_tracker_wants() {
    let mut desk = settled();
    desk.delivered(["MT-1"]);
    desk.answer_fails(&unreachable().retry_after(Some(Duration::from_secs(20))));
    desk.asked();
    desk.advance(19_999);
    assert_eq!(desk.asked(), NONE);
    desk.advance(1);
    assert_eq!(desk.asked(), ["read MT-1"]);
}

// Another tracker.

#[test]
fn rule_12_8_another_tracker_of_the_same_scope_is_asked_anew() {
    let mut desk = settled();
    desk.works_on([issue("MT-1")]);
    desk.board([issue("MT-1").state("Cancelled")]);
    desk.delivered(["MT-1"]);
    desk.asked();
    let scope = desk.scope();
    desk.reloads_tracker(&scope);
    assert_eq!(desk.snapshot().polling.webhook, None, "nothing is known of its deliveries");
    desk.live(10_000);
    assert_eq!(desk.told(), ["stop MT-1: Terminal"]);
}

#[test]
fn rule_12_8_issues_of_another_scope_are_forgotten() {
    let mut desk = settled();
    desk.delivered(["MT-1"]);
    desk.delivered(["MT-2"]);
    desk.asked();
    desk.reloads_tracker("another");
    desk.live(10_000);
    assert_eq!(desk.asked(), ["poll"]);
}

// How far polls rely on it.

#[test]
fn rule_12_8_while_deliveries_are_healthy_polls_are_rare() {
    let mut desk = settled();
    assert_eq!(polls_in(10 * MINUTE, &mut desk), 20);
    desk.delivered([]);
    assert!(webhook(&desk).healthy);
    desk.live(2 * MINUTE);
    assert_eq!(polls_in(20 * MINUTE, &mut desk), 10);
    assert_eq!(desk.snapshot().polling.mode, Mode::Active);
}

#[test]
fn rule_12_8_after_an_hour_of_silence_polls_keep_their_pace() {
    let mut desk = settled();
    desk.delivered([]);
    desk.live(59 * MINUTE);
    assert!(webhook(&desk).healthy);
    desk.live(MINUTE);
    assert!(!webhook(&desk).healthy);
    assert_eq!(polls_in(10 * MINUTE, &mut desk), 20);
    desk.delivered([]);
    desk.live(2 * MINUTE);
    assert_eq!(polls_in(20 * MINUTE, &mut desk), 10);
}

#[test]
fn rule_12_8_the_end_of_trust_is_noticed_when_it_comes() {
    let mut desk = Desk::with(|setup| {
        setup.settings.polling.activity = Some(symphony_core::settings::ActivitySettings {
            idle_after: Duration::from_secs(86_400),
            idle: Duration::from_secs(86_400),
            dormant_after: Duration::from_secs(86_400),
            dormant: Duration::from_secs(86_400),
        });
    });
    desk.settle();
    desk.delivered([]);
    desk.asked();
    desk.live(59 * MINUTE);
    assert_eq!(desk.asked(), NONE);
    desk.live(MINUTE);
    assert_eq!(desk.asked(), ["poll"], "not a day later");
}

#[test]
fn rule_12_8_while_a_run_lives_refresh_keeps_its_pace() {
    let mut desk = settled();
    desk.works_on([issue("MT-1")]);
    desk.delivered([]);
    desk.live(2 * MINUTE);
    desk.asked();
    desk.live(20 * MINUTE);
    let asked = desk.asked();
    let refreshes = asked.iter().filter(|read| read.contains("MT-1")).count();
    let polls = asked.iter().filter(|read| read.starts_with("poll")).count();
    assert_eq!((refreshes, polls), (40, 10), "{asked:?}");
}

#[test]
fn rule_12_8_a_failed_poll_is_not_put_off() {
    let mut desk = settled();
    desk.delivered([]);
    desk.advance(2 * MINUTE);
    desk.answer_fails(&unreachable());
    desk.asked();
    desk.advance(30_000);
    assert_eq!(desk.asked(), ["poll"]);
}

#[test]
fn rule_12_8_a_missed_delivery_ends_the_trust() {
    let mut desk = settled();
    desk.delivered([]);
    desk.live(4 * MINUTE);
    assert!(webhook(&desk).healthy);
    desk.board([issue("MT-1")]);
    desk.live(2 * MINUTE);
    assert_eq!(desk.starts(), ["MT-1"], "the poll is the truth");
    desk.notices();
    desk.live(MINUTE);
    let view = webhook(&desk);
    assert_eq!((view.healthy, view.missed), (false, 1));
    assert!(desk.notices().contains(&Happened::DeliveryMissed { id: id("MT-1") }));
    desk.delivered([]);
    assert!(!webhook(&desk).healthy, "not for an hour");
    assert_eq!(polls_in(10 * MINUTE, &mut desk), 20);
    desk.live(50 * MINUTE);
    desk.delivered([]);
    assert!(webhook(&desk).healthy);
}

#[test]
fn rule_12_8_a_missed_change_of_a_claim_ends_the_trust() {
    let mut desk = settled();
    desk.works_on([issue("MT-1")]);
    desk.delivered([]);
    desk.live(4 * MINUTE);
    desk.board([issue("MT-1").state("In Progress")]);
    desk.live(2 * MINUTE);
    let view = webhook(&desk);
    assert_eq!((view.healthy, view.missed), (false, 1));
}

#[test]
fn rule_12_8_a_delivery_may_come_a_little_after_the_poll() {
    let mut desk = settled();
    desk.works_on([issue("MT-1")]);
    desk.delivered([]);
    desk.live(4 * MINUTE);
    desk.board([issue("MT-1").state("In Progress"), issue("MT-2")]);
    desk.command(Command::PollNow);
    desk.live(59_000);
    desk.delivered(["MT-1", "MT-2"]);
    desk.live(10 * MINUTE);
    let view = webhook(&desk);
    assert_eq!((view.healthy, view.missed), (true, 0));
}

#[test]
fn rule_12_8_what_deliveries_announced_is_no_surprise() {
    let mut desk = settled();
    desk.works_on([issue("MT-1")]);
    desk.delivered([]);
    desk.live(4 * MINUTE);
    for round in 0..20 {
        let state = if round % 2 == 0 { "In Progress" } else { "Todo" };
        desk.board([issue("MT-1").state(state), issue("MT-2").state(state).undispatchable()]);
        desk.delivered(["MT-1", "MT-2"]);
        desk.live(MINUTE);
    }
    let view = webhook(&desk);
    assert_eq!((view.healthy, view.missed, view.received), (true, 0, 21));
}

#[test]
fn rule_12_8_what_was_announced_and_left_to_a_poll_is_no_surprise() {
    let mut desk = settled();
    desk.works_on([issue("MT-1")]);
    desk.delivered([]);
    desk.live(4 * MINUTE);
    desk.delivered(["MT-1"]);
    desk.live(0);
    // The next read because of a delivery has to wait, and the poll goes out first.
    desk.board([issue("MT-1").state("In Progress"), issue("MT-2").undispatchable()]);
    desk.delivered(["MT-1", "MT-2"]);
    desk.asked();
    desk.command(Command::PollNow);
    desk.advance(2_000);
    assert_eq!(desk.asked(), ["poll with MT-1"]);
    desk.live(2 * MINUTE);
    let view = webhook(&desk);
    assert_eq!((view.healthy, view.missed), (true, 0));
    // What nobody announces afterwards is missed as ever.
    desk.board([issue("MT-1").state("Todo"), issue("MT-2").state("In Progress").undispatchable()]);
    desk.command(Command::PollNow);
    desk.live(2 * MINUTE);
    let view = webhook(&desk);
    assert_eq!((view.healthy, view.missed), (false, 2));
}

#[test]
fn rule_12_8_what_changed_before_the_first_delivery_is_no_surprise() {
    let mut desk = settled();
    desk.works_on([issue("MT-1")]);
    desk.board([issue("MT-1").state("In Progress"), issue("MT-2")]);
    desk.delivered([]);
    desk.live(10 * MINUTE);
    assert_eq!(webhook(&desk).missed, 0);
}

#[test]
fn rule_12_8_another_tracker_is_not_trusted_yet() {
    let mut desk = settled();
    desk.delivered([]);
    let scope = desk.scope();
    desk.reloads_tracker(&scope);
    desk.live(MINUTE);
    assert_eq!(polls_in(10 * MINUTE, &mut desk), 20);
}

#[test]
fn rule_12_2_a_delivery_is_activity() {
    let mut desk = Desk::with(|setup| {
        setup.settings.polling.activity =
            Some(symphony_core::settings::ActivitySettings::default());
    });
    desk.live(70 * MINUTE);
    assert_eq!(desk.snapshot().polling.mode, Mode::Dormant);
    desk.delivered([]);
    assert_eq!(desk.snapshot().polling.mode, Mode::Active);
    let next = desk.job(&Job::Candidates).next.expect("a poll is due");
    assert!(next <= desk.after(2 * MINUTE));
}

#[test]
fn rule_12_8_the_day_counts_what_deliveries_cost() {
    let mut desk = settled();
    desk.delivered(["MT-1"]);
    desk.live(0);
    assert_eq!(desk.snapshot().polling.requests_today.get("delivery"), Some(&1));
}

#[test]
fn rule_5_5_a_removal_does_not_outdate_what_a_delivery_told_since() {
    let mut desk = settled();
    desk.works_on([issue("MT-1")]);
    desk.board([issue("MT-1").state("Done")]);
    desk.turn_ends("MT-1");
    assert_eq!(desk.told(), ["finish MT-1"]);
    // It is reopened, and a read because of that is under way when its run ends.
    desk.delivered(["MT-1"]);
    desk.board([issue("MT-1")]);
    desk.run("MT-1").ends_well();
    desk.settle();
    desk.removed("MT-1");
    desk.live(2_000);
    assert_eq!(desk.starts(), ["MT-1"], "without another list");
}
