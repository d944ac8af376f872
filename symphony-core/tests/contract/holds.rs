//! Contract 7.6: holds.

use std::sync::Arc;
use std::time::Duration;

use symphony_core::agent::{AgentErrorKind, AgentUpdate, RateLimitWindow, RateLimits};
use symphony_core::hooks::Hook;
use symphony_core::orchestrator::{Command, RunEnd};
use symphony_core::snapshot::{Reason, Verdict};
use symphony_core::tracker::TrackerErrorKind;
use symphony_core::{Failure, FailureKind};

use crate::harness::{Draft, Harness, NONE, id, issue};

/// MT-1 hits a limit; MT-2 and MT-3 could start.
fn held(kind: AgentErrorKind, retry_after_ms: Option<u64>) -> Harness {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.board([issue("MT-2"), issue("MT-3")]);
    harness.run("MT-1").fails_as(kind, retry_after_ms);
    harness
}

#[test]
fn rule_7_6_a_limit_holds_all_starts_to_that_agent_visibly() {
    for kind in
        [AgentErrorKind::UsageLimit, AgentErrorKind::RateLimited, AgentErrorKind::Unauthorized]
    {
        let mut harness = held(kind, None);
        let hold = harness.hold();
        assert_eq!((hold.agent.as_str(), hold.probe), ("codex", None));
        assert_eq!(hold.until, harness.after(300_000), "max_retry_backoff_ms");
        harness.live(299_999);
        assert_eq!(harness.starts(), NONE);
        assert_eq!(harness.reason("MT-2"), Reason::Hold(hold.until));
        assert_eq!(harness.verdict(), Verdict::Held(hold));
    }
}

#[test]
fn rule_7_6_the_agent_may_say_how_long() {
    let harness = held(AgentErrorKind::UsageLimit, Some(60_000));
    assert_eq!(harness.hold().until, harness.after(60_000));
}

#[test]
fn rule_7_6_a_machine_without_room_holds_all_starts_and_burns_no_attempt() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.run("MT-1").fails();
    harness.live(10_000);
    assert_eq!(harness.starts(), ["MT-1 attempt 1"]);
    harness.board([issue("MT-2"), issue("MT-3")]);
    let full = Failure::new(FailureKind::Machine, "too many open files");
    harness.run("MT-1").ends(RunEnd::Failed(full.clone()));
    let hold = harness.hold();
    assert_eq!((hold.until, &hold.failure), (harness.after(10_000), &full));
    harness.live(9_999);
    assert_eq!(harness.starts(), NONE);
    // One run tries; while there is no room, it is the only one.
    harness.live(1);
    assert_eq!(harness.starts(), ["MT-1 attempt 1"]);
    harness.run("MT-1").ends(RunEnd::Failed(full));
    harness.live(10_000);
    assert_eq!(harness.starts(), ["MT-1 attempt 1"]);
    // A process that runs is the answer.
    harness.run("MT-1").works();
    harness.live(0);
    assert_eq!(harness.starts(), ["MT-2", "MT-3"]);
}

#[test]
fn rule_7_6_a_probe_that_gets_past_the_machine_ends_its_hold() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.board([issue("MT-2"), issue("MT-3")]);
    let full = Failure::new(FailureKind::Machine, "too many open files");
    harness.run("MT-1").ends(RunEnd::Failed(full));
    harness.live(10_000);
    assert_eq!(harness.starts(), ["MT-1"]);
    let hook = Failure::new(FailureKind::Hook(Hook::BeforeRun), "exit code 1");
    harness.run("MT-1").ends(RunEnd::Failed(hook));
    harness.live(30_000);
    assert_eq!(harness.starts(), ["MT-1 attempt 1", "MT-2", "MT-3"]);
}

#[test]
fn rule_7_6_of_two_reasons_the_longer_one_is_shown() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1"), issue("MT-2")]);
    harness.run("MT-1").fails_as(AgentErrorKind::UsageLimit, Some(3_600_000));
    let hold = harness.hold();
    let full = Failure::new(FailureKind::Machine, "too many open files");
    harness.run("MT-2").ends(RunEnd::Failed(full));
    assert_eq!(harness.hold(), hold);
}

#[test]
fn rule_10_6_a_start_that_the_machine_refused_keeps_the_conversation_that_asked() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.run("MT-1").works();
    harness.run("MT-1").asks("Which door?");
    harness.command(Command::Retry(id("MT-1")));
    harness.live(0);
    let first = harness.started().pop().unwrap();
    assert!(first.resume.is_some() && first.unanswered, "{first:?}");
    let full = Failure::new(FailureKind::Machine, "too many open files");
    harness.run("MT-1").ends(RunEnd::Failed(full));
    harness.live(10_000);
    let second = harness.started().pop().unwrap();
    assert_eq!((second.resume, second.unanswered), (first.resume, true));
}

fn window(name: &str, used_percent: f64, resets_in_s: u64, harness: &Harness) -> RateLimitWindow {
    RateLimitWindow {
        name: name.to_owned(),
        used_percent,
        window_minutes: None,
        resets_at: Some(harness.now().wall + Duration::from_secs(resets_in_s)),
    }
}

/// How many seconds the hold lasts when the windows were like this.
fn hold_with(windows: [(f64, u64); 2]) -> u64 {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    let [primary, secondary] = windows;
    let limits = RateLimits {
        windows: vec![
            window("primary", primary.0, primary.1, &harness),
            window("secondary", secondary.0, secondary.1, &harness),
        ],
        ..RateLimits::default()
    };
    let limits = AgentUpdate::RateLimits(Arc::new(limits));
    let run = harness.run("MT-1").says(limits);
    run.fails_as(AgentErrorKind::UsageLimit, None);
    harness.now().mono.until(harness.hold().until).as_secs()
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
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.run("MT-1").fails();
    harness.live(10_000);
    harness.starts();
    harness.run("MT-1").fails_as(AgentErrorKind::UsageLimit, None);
    harness.live(310_000);
    assert_eq!(harness.starts(), ["MT-1 attempt 1"]);
}

#[test]
fn rule_7_6_a_limit_in_a_first_run_leaves_it_a_first_run() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.run("MT-1").fails_as(AgentErrorKind::RateLimited, None);
    harness.live(310_000);
    assert_eq!(harness.starts(), ["MT-1"]);
}

#[test]
fn rule_7_6_running_agents_go_on() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1"), issue("MT-2")]);
    harness.run("MT-1").fails_as(AgentErrorKind::UsageLimit, None);
    harness.turn_ends("MT-2");
    assert_eq!(harness.told(), ["next turn MT-2: 2"]);
}

#[test]
fn rule_7_6_one_probe_run_ends_the_hold() {
    let mut harness = held(AgentErrorKind::UsageLimit, None);
    harness.live(600_000);
    let started = harness.started();
    assert_eq!(started.len(), 1, "one probe");
    assert_eq!(harness.hold().probe, Some(started[0].run));
    let name = started[0].issue.identifier.as_str().to_owned();
    harness.run(&name).works();
    harness.turn_ends(&name);
    assert!(harness.snapshot().holds.is_empty());
    harness.live(30_000);
    assert_eq!(harness.starts().len(), 2, "the others follow");
}

#[test]
fn rule_7_6_tokens_used_by_the_probe_show_that_the_agent_works() {
    let mut harness = held(AgentErrorKind::UsageLimit, None);
    harness.live(310_000);
    let name = harness.started()[0].issue.identifier.as_str().to_owned();
    harness.run(&name).works();
    assert_eq!(harness.snapshot().holds.len(), 1, "opening a session shows nothing");
    harness.run(&name).has_used("thread-2", 10);
    assert!(harness.snapshot().holds.is_empty());
}

#[test]
fn rule_7_6_a_probe_that_hits_the_limit_renews_the_hold() {
    let mut harness = held(AgentErrorKind::UsageLimit, None);
    harness.live(310_000);
    let name = harness.started()[0].issue.identifier.as_str().to_owned();
    harness.run(&name).fails_as(AgentErrorKind::UsageLimit, Some(50_000));
    assert_eq!(harness.hold().until, harness.after(50_000));
    assert_eq!(harness.hold().probe, None);
    harness.live(49_000);
    assert_eq!(harness.starts(), NONE);
}

#[test]
fn rule_7_6_an_operator_can_clear_it() {
    let mut harness = held(AgentErrorKind::Unauthorized, None);
    harness.command(Command::ClearHolds);
    assert!(harness.snapshot().holds.is_empty());
    harness.live(30_000);
    assert_eq!(harness.starts().len(), 3);
}

#[test]
fn rule_7_6_another_agent_is_not_held() {
    let mut harness = held(AgentErrorKind::UsageLimit, None);
    harness.reloads(|settings| "other".clone_into(&mut settings.agent.kind));
    harness.live(30_000);
    assert!(harness.starts().contains(&"MT-2".to_owned()));
}

#[test]
fn rule_7_6_a_retry_that_comes_due_waits_for_the_hold_and_keeps_its_attempt() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1"), issue("MT-2")]);
    harness.run("MT-2").fails();
    harness.run("MT-1").fails_as(AgentErrorKind::UsageLimit, Some(60_000));
    harness.live(59_999);
    assert_eq!(harness.starts(), NONE);
    harness.command(Command::Stop(id("MT-1")));
    harness.live(30_000);
    assert_eq!(harness.starts(), ["MT-2 attempt 1"]);
}

#[test]
fn rule_7_6_a_probe_that_shows_nothing_makes_room_for_another() {
    let mut harness = held(AgentErrorKind::UsageLimit, Some(60_000));
    harness.live(90_000);
    let probe = harness.started().remove(0).issue;
    harness.board([issue(probe.identifier.as_str()).state("Backlog")]);
    harness.live(30_000);
    harness.run(probe.identifier.as_str()).stops();
    harness.live(30_000);
    assert_eq!(harness.started().len(), 1);
    assert_eq!(harness.snapshot().holds.len(), 1);
}

#[test]
fn rule_7_6_a_probe_that_cannot_be_read_is_tried_again() {
    let mut harness = held(AgentErrorKind::UsageLimit, Some(60_000));
    harness.live(59_999);
    harness.advance(60_000);
    let kind = FailureKind::Tracker(TrackerErrorKind::Request);
    let check = harness.reads().into_iter().find(|read| read.starts_with("read"));
    harness.answer_to_but(&check.expect("a check"), |answer| {
        answer.by_id = Some(Err(Failure::new(kind, "connection refused")));
    });
    assert_eq!(harness.starts(), NONE);
    harness.live(300_000);
    assert_eq!(harness.starts().len(), 1);
}

#[test]
fn rule_7_6_another_agent_takes_over_what_waits_for_a_hold() {
    let mut harness = held(AgentErrorKind::UsageLimit, None);
    harness.live(1_000);
    assert_eq!(harness.starts(), NONE);
    harness.reloads(|settings| settings.agent.kind = "other".to_owned());
    harness.settle();
    assert!(harness.starts().contains(&"MT-1".to_owned()));
}

#[test]
fn rule_7_6_a_limit_on_the_way_out_holds_and_burns_no_attempt() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1"), issue("MT-2")]);
    harness.board([issue("MT-1").state("Done")]);
    harness.live(30_000);
    assert_eq!(harness.told(), ["stop MT-1: Terminal"]);
    harness.run("MT-1").fails_as(AgentErrorKind::UsageLimit, None);
    assert_eq!(harness.removals(), ["MT-1"], "what was decided stays");
    assert_eq!(harness.hold().until, harness.after(300_000));
    // A stalled run that turns out to be refused has not failed.
    harness.advance(300_000);
    assert_eq!(harness.told(), ["stop MT-2: Stalled"]);
    harness.run("MT-2").fails_as(AgentErrorKind::UsageLimit, None);
    assert_eq!(harness.waiting("MT-2").attempt, 0);
    assert_eq!(harness.wait_of("MT-2"), Some(300_000));
}

#[test]
fn rule_7_6_a_turn_that_ends_during_a_stop_shows_that_the_agent_works() {
    let mut harness = held(AgentErrorKind::UsageLimit, None);
    harness.live(300_000);
    let probe = harness.starts().remove(0);
    let probe = probe.split(' ').next().unwrap_or_default().to_owned();
    harness.run(&probe).works();
    harness.command(Command::Stop(id(&probe)));
    harness.run(&probe).turn_ends();
    assert_eq!(harness.snapshot().holds, []);
}
