//! Contract 7.6: holds.

use std::sync::Arc;
use std::time::Duration;

use symphony_core::agent::{AgentErrorKind, AgentUpdate, RateLimitWindow, RateLimits};
use symphony_core::hooks::Hook;
use symphony_core::orchestrator::{Command, RunEnd};
use symphony_core::snapshot::{Reason, Verdict};
use symphony_core::tracker::TrackerErrorKind;
use symphony_core::{Failure, FailureKind};

use crate::desk::{Desk, Draft, NONE, id, issue};

/// MT-1 hits a limit; MT-2 and MT-3 could start.
fn held(kind: AgentErrorKind, retry_after_ms: Option<u64>) -> Desk {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.board([issue("MT-2"), issue("MT-3")]);
    desk.run("MT-1").fails_as(kind, retry_after_ms);
    desk
}

#[test]
fn rule_7_6_a_limit_holds_all_starts_to_that_agent_visibly() {
    for kind in
        [AgentErrorKind::UsageLimit, AgentErrorKind::RateLimited, AgentErrorKind::Unauthorized]
    {
        let mut desk = held(kind, None);
        let hold = desk.hold();
        assert_eq!((hold.agent.as_str(), hold.probe), ("codex", None));
        assert_eq!(hold.until, desk.after(300_000), "max_retry_backoff_ms");
        desk.live(299_999);
        assert_eq!(desk.starts(), NONE);
        assert_eq!(desk.reason("MT-2"), Reason::Hold(hold.until));
        assert_eq!(desk.verdict(), Verdict::Held(hold));
    }
}

#[test]
fn rule_7_6_the_agent_may_say_how_long() {
    let desk = held(AgentErrorKind::UsageLimit, Some(60_000));
    assert_eq!(desk.hold().until, desk.after(60_000));
}

#[test]
fn rule_7_6_a_machine_without_room_holds_all_starts_and_burns_no_attempt() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.run("MT-1").fails();
    desk.live(10_000);
    assert_eq!(desk.starts(), ["MT-1 attempt 1"]);
    desk.board([issue("MT-2"), issue("MT-3")]);
    let full = Failure::new(FailureKind::Machine, "too many open files");
    desk.run("MT-1").ends(RunEnd::Failed(full.clone()));
    let hold = desk.hold();
    assert_eq!((hold.until, &hold.failure), (desk.after(10_000), &full));
    desk.live(9_999);
    assert_eq!(desk.starts(), NONE);
    // One run tries; while there is no room, it is the only one.
    desk.live(1);
    assert_eq!(desk.starts(), ["MT-1 attempt 1"]);
    desk.run("MT-1").ends(RunEnd::Failed(full));
    desk.live(10_000);
    assert_eq!(desk.starts(), ["MT-1 attempt 1"]);
    // A process that runs is the answer.
    desk.run("MT-1").works();
    desk.live(0);
    assert_eq!(desk.starts(), ["MT-2", "MT-3"]);
}

#[test]
fn rule_7_6_a_probe_that_gets_past_the_machine_ends_its_hold() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.board([issue("MT-2"), issue("MT-3")]);
    let full = Failure::new(FailureKind::Machine, "too many open files");
    desk.run("MT-1").ends(RunEnd::Failed(full));
    desk.live(10_000);
    assert_eq!(desk.starts(), ["MT-1"]);
    let hook = Failure::new(FailureKind::Hook(Hook::BeforeRun), "exit code 1");
    desk.run("MT-1").ends(RunEnd::Failed(hook));
    desk.live(30_000);
    assert_eq!(desk.starts(), ["MT-1 attempt 1", "MT-2", "MT-3"]);
}

#[test]
fn rule_7_6_of_two_reasons_the_longer_one_is_shown() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1"), issue("MT-2")]);
    desk.run("MT-1").fails_as(AgentErrorKind::UsageLimit, Some(3_600_000));
    let hold = desk.hold();
    let full = Failure::new(FailureKind::Machine, "too many open files");
    desk.run("MT-2").ends(RunEnd::Failed(full));
    assert_eq!(desk.hold(), hold);
}

#[test]
fn rule_10_6_a_start_that_the_machine_refused_keeps_the_conversation_that_asked() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.run("MT-1").works();
    desk.run("MT-1").asks("Which door?");
    desk.command(Command::Retry(id("MT-1")));
    desk.live(0);
    let first = desk.started().pop().unwrap();
    assert!(first.resume.is_some() && first.unanswered, "{first:?}");
    let full = Failure::new(FailureKind::Machine, "too many open files");
    desk.run("MT-1").ends(RunEnd::Failed(full));
    desk.live(10_000);
    let second = desk.started().pop().unwrap();
    assert_eq!((second.resume, second.unanswered), (first.resume, true));
}

fn window(name: &str, used_percent: f64, resets_in_s: u64, desk: &Desk) -> RateLimitWindow {
    RateLimitWindow {
        name: name.to_owned(),
        used_percent,
        window_minutes: None,
        resets_at: Some(desk.now().wall + Duration::from_secs(resets_in_s)),
    }
}

/// How many seconds the hold lasts when the windows were like this.
fn hold_with(windows: [(f64, u64); 2]) -> u64 {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    let [primary, secondary] = windows;
    let limits = RateLimits {
        windows: vec![
            window("primary", primary.0, primary.1, &desk),
            window("secondary", secondary.0, secondary.1, &desk),
        ],
        ..RateLimits::default()
    };
    let limits = AgentUpdate::RateLimits(Arc::new(limits));
    let run = desk.run("MT-1").says(limits);
    run.fails_as(AgentErrorKind::UsageLimit, None);
    desk.now().mono.until(desk.hold().until).as_secs()
}

#[test]
fn rule_7_6_the_reset_time_comes_from_the_windows_that_are_used_up() {
    assert_eq!(hold_with([(100.0, 3_600), (40.0, 7_200)]), 3_600);
    assert_eq!(hold_with([(100.0, 3_600), (100.0, 7_200)]), 7_200);
    assert_eq!(hold_with([(90.0, 3_600), (40.0, 7_200)]), 300);
}

#[test]
fn rule_7_6_a_hold_lasts_a_day_at_most() {
    assert_eq!(hold_with([(100.0, 3_600), (100.0, 604_800)]), 86_400);
}

#[test]
fn rule_7_6_a_limit_burns_no_attempt() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.run("MT-1").fails();
    desk.live(10_000);
    desk.starts();
    desk.run("MT-1").fails_as(AgentErrorKind::UsageLimit, None);
    desk.live(310_000);
    assert_eq!(desk.starts(), ["MT-1 attempt 1"]);
}

#[test]
fn rule_7_6_a_limit_in_a_first_run_leaves_it_a_first_run() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.run("MT-1").fails_as(AgentErrorKind::RateLimited, None);
    desk.live(310_000);
    assert_eq!(desk.starts(), ["MT-1"]);
}

#[test]
fn rule_7_6_running_agents_go_on() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1"), issue("MT-2")]);
    desk.run("MT-1").fails_as(AgentErrorKind::UsageLimit, None);
    desk.turn_ends("MT-2");
    assert_eq!(desk.told(), ["next turn MT-2: 2"]);
}

#[test]
fn rule_7_6_one_probe_run_ends_the_hold() {
    let mut desk = held(AgentErrorKind::UsageLimit, None);
    desk.live(600_000);
    let started = desk.started();
    assert_eq!(started.len(), 1, "one probe");
    assert_eq!(desk.hold().probe, Some(started[0].run));
    let name = started[0].issue.identifier.as_str().to_owned();
    desk.run(&name).works();
    desk.turn_ends(&name);
    assert!(desk.snapshot().holds.is_empty());
    desk.live(30_000);
    assert_eq!(desk.starts().len(), 2, "the others follow");
}

#[test]
fn rule_7_6_tokens_used_by_the_probe_show_that_the_agent_works() {
    let mut desk = held(AgentErrorKind::UsageLimit, None);
    desk.live(310_000);
    let name = desk.started()[0].issue.identifier.as_str().to_owned();
    desk.run(&name).works();
    assert_eq!(desk.snapshot().holds.len(), 1, "opening a session shows nothing");
    desk.run(&name).has_used("thread-2", 10);
    assert!(desk.snapshot().holds.is_empty());
}

#[test]
fn rule_7_6_a_probe_that_hits_the_limit_renews_the_hold() {
    let mut desk = held(AgentErrorKind::UsageLimit, None);
    desk.live(310_000);
    let name = desk.started()[0].issue.identifier.as_str().to_owned();
    desk.run(&name).fails_as(AgentErrorKind::UsageLimit, Some(50_000));
    assert_eq!(desk.hold().until, desk.after(50_000));
    assert_eq!(desk.hold().probe, None);
    desk.live(49_000);
    assert_eq!(desk.starts(), NONE);
}

#[test]
fn rule_7_6_an_operator_can_clear_it() {
    let mut desk = held(AgentErrorKind::Unauthorized, None);
    desk.command(Command::ClearHolds);
    assert!(desk.snapshot().holds.is_empty());
    desk.live(30_000);
    assert_eq!(desk.starts().len(), 3);
}

#[test]
fn rule_7_6_another_agent_is_not_held() {
    let mut desk = held(AgentErrorKind::UsageLimit, None);
    desk.reloads(|settings| "other".clone_into(&mut settings.agent.kind));
    desk.live(30_000);
    assert!(desk.starts().contains(&"MT-2".to_owned()));
}

#[test]
fn rule_7_6_a_retry_that_comes_due_waits_for_the_hold_and_keeps_its_attempt() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1"), issue("MT-2")]);
    desk.run("MT-2").fails();
    desk.run("MT-1").fails_as(AgentErrorKind::UsageLimit, Some(60_000));
    desk.live(59_999);
    assert_eq!(desk.starts(), NONE);
    desk.command(Command::Stop(id("MT-1")));
    desk.live(30_000);
    assert_eq!(desk.starts(), ["MT-2 attempt 1"]);
}

#[test]
fn rule_7_6_a_probe_that_shows_nothing_makes_room_for_another() {
    let mut desk = held(AgentErrorKind::UsageLimit, Some(60_000));
    desk.live(90_000);
    let probe = desk.started().remove(0).issue;
    desk.board([issue(probe.identifier.as_str()).state("Backlog")]);
    desk.live(30_000);
    desk.run(probe.identifier.as_str()).stops();
    desk.live(30_000);
    assert_eq!(desk.started().len(), 1);
    assert_eq!(desk.snapshot().holds.len(), 1);
}

#[test]
fn rule_7_6_a_probe_that_cannot_be_read_is_tried_again() {
    let mut desk = held(AgentErrorKind::UsageLimit, Some(60_000));
    desk.live(59_999);
    desk.advance(60_000);
    let kind = FailureKind::Tracker(TrackerErrorKind::Request);
    let check = desk.reads().into_iter().find(|read| read.starts_with("read"));
    desk.answer_to_but(&check.expect("a check"), |answer| {
        answer.by_id = Some(Err(Failure::new(kind, "connection refused")));
    });
    assert_eq!(desk.starts(), NONE);
    desk.live(300_000);
    assert_eq!(desk.starts().len(), 1);
}

#[test]
fn rule_7_6_another_agent_takes_over_what_waits_for_a_hold() {
    let mut desk = held(AgentErrorKind::UsageLimit, None);
    desk.live(1_000);
    assert_eq!(desk.starts(), NONE);
    desk.reloads(|settings| settings.agent.kind = "other".to_owned());
    desk.settle();
    assert!(desk.starts().contains(&"MT-1".to_owned()));
}

#[test]
fn rule_7_6_a_limit_on_the_way_out_holds_and_burns_no_attempt() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1"), issue("MT-2")]);
    desk.board([issue("MT-1").state("Done")]);
    desk.live(30_000);
    assert_eq!(desk.told(), ["stop MT-1: Terminal"]);
    desk.run("MT-1").fails_as(AgentErrorKind::UsageLimit, None);
    assert_eq!(desk.removals(), ["MT-1"], "what was decided stays");
    assert_eq!(desk.hold().until, desk.after(300_000));
    // A stalled run that turns out to be refused has not failed.
    desk.advance(300_000);
    assert_eq!(desk.told(), ["stop MT-2: Stalled"]);
    desk.run("MT-2").fails_as(AgentErrorKind::UsageLimit, None);
    assert_eq!(desk.waiting("MT-2").attempt, 0);
    assert_eq!(desk.wait_of("MT-2"), Some(300_000));
}

#[test]
fn rule_7_6_a_turn_that_ends_during_a_stop_shows_that_the_agent_works() {
    let mut desk = held(AgentErrorKind::UsageLimit, None);
    desk.live(300_000);
    let probe = desk.starts().remove(0);
    let probe = probe.split(' ').next().unwrap_or_default().to_owned();
    desk.run(&probe).works();
    desk.command(Command::Stop(id(&probe)));
    desk.run(&probe).turn_ends();
    assert_eq!(desk.snapshot().holds, []);
}
