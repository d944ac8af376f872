//! The widest numbers a file or a tracker can give: nothing overflows, nothing hangs.

use std::time::Duration;

use symphony_core::orchestrator::{Event, RemovalId};

use crate::harness::{Draft, Harness, NONE, issue};

#[test]
fn rule_5_4_any_number_of_slots_is_a_number() {
    let mut harness = Harness::with(|setup| {
        setup.slots(u32::MAX).turns(u32::MAX).state_slots("Todo", u32::MAX);
    });
    harness.works_on([issue("MT-1")]);
    harness.turn_ends("MT-1");
    assert_eq!(harness.told(), ["next turn MT-1: 2"]);
}

#[test]
fn rule_12_1_any_interval_is_an_interval() {
    let mut harness = Harness::with(|setup| {
        setup.settings.polling.interval = Duration::MAX;
        setup.settings.polling.jobs.sweep = Duration::MAX;
        setup.settings.agent.common.stall_timeout = Some(Duration::MAX);
        setup.settings.agent.stop_grace = Duration::MAX;
        setup.settings.hooks.timeout = Duration::MAX;
        setup.settings.agent.max_retry_backoff = Duration::MAX;
    });
    harness.works_on([issue("MT-1")]);
    harness.live(86_400_000);
    assert_eq!(harness.asked(), NONE);
    harness.run("MT-1").fails();
    harness.live(10_000);
    assert_eq!(harness.starts(), ["MT-1 attempt 1"]);
    let mut harness = Harness::with(|setup| {
        setup.settings.polling.interval = Duration::from_millis(1);
    });
    harness.live(10);
    assert_eq!(harness.asked().len(), 11);
}

#[test]
fn rule_10_8_any_count_of_tokens_is_a_count() {
    let mut harness = Harness::new();
    harness.works_on([issue("MT-1")]);
    harness.run("MT-1").has_used("one", u64::MAX);
    harness.run("MT-1").has_used("two", u64::MAX);
    assert_eq!(harness.snapshot().totals.tokens.total, u64::MAX);
}

#[test]
fn rule_5_5_an_issue_that_is_listed_twice_has_one_reason() {
    let mut harness = Harness::new();
    let copy = issue("MT-1").undispatchable();
    harness.board([copy.clone(), issue("MT-2")]);
    harness.answer_but(|answer| {
        let list = answer.candidates.as_mut().unwrap().as_mut().unwrap();
        list.issues.extend([copy, issue("MT-2")]);
    });
    assert_eq!(harness.reads(), ["read MT-2"]);
    let view = harness.snapshot().candidates;
    let rows = view.first.iter().map(|row| row.identifier.as_str());
    assert_eq!(rows.collect::<Vec<_>>(), ["MT-1", "MT-2"]);
}

#[test]
fn rule_7_4_an_answer_without_the_part_that_was_asked_for_is_a_failed_read() {
    let mut harness = Harness::new();
    harness.answer_but(|answer| answer.candidates = None);
    harness.board([issue("MT-1")]);
    harness.live(30_000);
    harness.starts();
    harness.run("MT-1").works().fails();
    harness.advance(10_000);
    harness.answer_but(|answer| answer.by_id = None);
    harness.live(60_000);
    assert_eq!(harness.starts(), ["MT-1 attempt 1"]);
}

#[test]
fn rule_4_8_news_of_nothing_known_changes_nothing() {
    let mut harness = Harness::new();
    harness.settle();
    let before = harness.snapshot();
    harness.event(Event::Removed { removal: RemovalId(99), outcome: Ok(()) });
    harness.event(Event::JobEnded { name: "nobody's".into(), outcome: Ok(()) });
    assert_eq!(harness.snapshot(), before);
}
