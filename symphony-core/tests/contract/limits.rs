//! The widest numbers a file or a tracker can give: nothing overflows, nothing hangs.

use std::time::Duration;

use symphony_core::orchestrator::{Event, RemovalId};

use crate::desk::{Desk, Draft, NONE, issue};

#[test]
fn rule_5_4_any_number_of_slots_is_a_number() {
    let mut desk = Desk::with(|setup| {
        setup.slots(u32::MAX).turns(u32::MAX).state_slots("Todo", u32::MAX);
    });
    desk.works_on([issue("MT-1")]);
    desk.turn_ends("MT-1");
    assert_eq!(desk.told(), ["next turn MT-1: 2"]);
}

#[test]
fn rule_12_1_any_interval_is_an_interval() {
    let mut desk = Desk::with(|setup| {
        setup.settings.polling.interval = Duration::MAX;
        setup.settings.polling.jobs.sweep = Duration::MAX;
        setup.settings.agent.common.stall_timeout = Some(Duration::MAX);
        setup.settings.agent.stop_grace = Duration::MAX;
        setup.settings.hooks.timeout = Duration::MAX;
        setup.settings.agent.max_retry_backoff = Duration::MAX;
    });
    desk.works_on([issue("MT-1")]);
    desk.live(86_400_000);
    assert_eq!(desk.asked(), NONE);
    desk.run("MT-1").fails();
    desk.live(10_000);
    assert_eq!(desk.starts(), ["MT-1 attempt 1"]);
    let mut desk = Desk::with(|setup| {
        setup.settings.polling.interval = Duration::from_millis(1);
    });
    desk.live(10);
    assert_eq!(desk.asked().len(), 11);
}

#[test]
fn rule_10_8_any_count_of_tokens_is_a_count() {
    let mut desk = Desk::new();
    desk.works_on([issue("MT-1")]);
    desk.run("MT-1").has_used("one", u64::MAX);
    desk.run("MT-1").has_used("two", u64::MAX);
    assert_eq!(desk.snapshot().totals.tokens.total, u64::MAX);
}

#[test]
fn rule_5_5_an_issue_that_is_listed_twice_has_one_reason() {
    let mut desk = Desk::new();
    let copy = issue("MT-1").undispatchable();
    desk.board([copy.clone(), issue("MT-2")]);
    desk.answer_but(|answer| {
        let list = answer.candidates.as_mut().unwrap().as_mut().unwrap();
        list.issues.extend([copy, issue("MT-2")]);
    });
    assert_eq!(desk.reads(), ["read MT-2"]);
    let view = desk.snapshot().candidates;
    let rows = view.first.iter().map(|row| row.identifier.as_str());
    assert_eq!(rows.collect::<Vec<_>>(), ["MT-1", "MT-2"]);
}

#[test]
fn rule_7_4_an_answer_without_the_part_that_was_asked_for_is_a_failed_read() {
    let mut desk = Desk::new();
    desk.answer_but(|answer| answer.candidates = None);
    desk.board([issue("MT-1")]);
    desk.live(30_000);
    desk.starts();
    desk.run("MT-1").works().fails();
    desk.advance(10_000);
    desk.answer_but(|answer| answer.by_id = None);
    desk.live(60_000);
    assert_eq!(desk.starts(), ["MT-1 attempt 1"]);
}

#[test]
fn rule_4_8_news_of_nothing_known_changes_nothing() {
    let mut desk = Desk::new();
    desk.settle();
    let before = desk.snapshot();
    desk.event(Event::Removed { removal: RemovalId(99), outcome: Ok(()) });
    desk.event(Event::JobEnded { name: "nobody's".into(), outcome: Ok(()) });
    assert_eq!(desk.snapshot(), before);
}
