//! The budget by its rules (contract 12.6), in virtual time.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod hogs;
mod properties;
mod world;

use std::collections::BTreeMap;
use std::time::Duration;

use symphony_core::budget::{Budget, BudgetView, Limit, Quota, Refused, Reported, Spender, Spent};
use symphony_core::settings::BudgetSettings;
use symphony_core::time::Wall;
use symphony_core::tracker::{Purpose, TrackerErrorKind};
use symphony_core::{Failure, FailureKind};

use world::{
    CANDIDATES, DAY, HOUR, MANUAL, NOON, REFRESH, World, hourly, limited, most_in, quota, spenders,
    tool,
};

#[test]
fn rule_12_6_candidates_give_way_first_then_tools_then_refresh() {
    let mut world = World::new(hourly(1000));
    // A tenth may go at once: 100, of which 20 are the reserve.
    let taken = [CANDIDATES, tool(1), REFRESH].map(|spender| world.drain(&spender));
    assert_eq!(taken, [80, 10, 10]);
    assert_eq!(world.ask(&REFRESH).unwrap_err().limit, Limit::Hour);
}

#[test]
fn rule_12_6_what_the_tracker_says_is_left_has_its_own_reserve() {
    let mut world = World::new(BudgetSettings::default());
    let permit = world.ask(&REFRESH).expect("nothing known");
    world.learn(permit, 2500, 502);
    assert_eq!(world.drain(&CANDIDATES), 2);
    let permit = world.ask(&REFRESH).expect("within the reserve");
    world.learn(permit, 2500, 1);
    assert_eq!(world.ask(&tool(1)).unwrap_err().limit, Limit::Left);
    assert!(world.ask(&REFRESH).is_ok());
    assert_eq!(world.ask(&REFRESH).unwrap_err().limit, Limit::Left);
}

#[test]
fn rule_12_6_points_are_limited_like_requests() {
    let mut world = World::new(BudgetSettings::default());
    let permit = world.ask_for(&REFRESH, 100).expect("nothing known");
    let charged = |points| Reported {
        points: quota(30_000, 29_000),
        charged: Some(points),
        ..Reported::default()
    };
    world.budget.learn(world.now, permit, &charged(100));
    // A tenth at once, less what the first request cost: 2900, of which 600 are the reserve.
    assert!(world.ask_for(&CANDIDATES, 2300).is_ok());
    let refused = world.ask_for(&CANDIDATES, 1).unwrap_err();
    assert_eq!(refused.limit, Limit::Points);
    // What was really charged is paid back before anything else.
    let permit = world.ask_for(&REFRESH, 100).expect("in reserve");
    world.budget.learn(world.now, permit, &charged(700));
    assert_eq!(world.ask_for(&REFRESH, 1).unwrap_err().limit, Limit::Points);
    assert!(world.ask(&REFRESH).is_ok(), "costs no points");
    // Of 100 in debt, 27001 an hour pay back 98 in 13 seconds.
    world.pass(13_000);
    assert!(world.ask_for(&REFRESH, 1).is_err());
    world.pass(1000);
    assert!(world.ask_for(&REFRESH, 1).is_ok());
}

#[test]
fn rule_12_6_a_request_dearer_than_the_burst_goes_when_the_bucket_is_full() {
    let mut world = World::new(BudgetSettings::default());
    let permit = world.ask(&REFRESH).expect("nothing known");
    let points = quota(1000, 1000);
    let reported = Reported { points, ..Reported::default() };
    world.budget.learn(world.now, permit, &reported);
    assert!(world.ask_for(&CANDIDATES, 400).is_ok());
    // 901 an hour, and 300 in debt.
    world.pass(HOUR / 4);
    assert!(world.ask_for(&REFRESH, 1).is_err());
    world.pass(HOUR / 4);
    assert!(world.ask_for(&CANDIDATES, 400).is_ok());
}

#[test]
fn rule_12_6_a_refused_request_waits_one_refill_interval_not_for_a_far_reset() {
    let mut world = World::new(BudgetSettings::default());
    let permit = world.ask(&REFRESH).expect("nothing known");
    let requests =
        Quota { resets: Some(world.now.wall + Duration::from_millis(HOUR)), ..quota(2500, 0) };
    let reported = Reported { requests, ..Reported::default() };
    world.budget.learn(world.now, permit, &reported);
    let wait = world.ask(&REFRESH).unwrap_err().retry_after;
    let jitter = wait.checked_sub(Duration::from_millis(1440));
    assert!(jitter.is_some_and(|jitter| jitter <= Duration::from_millis(1600)));
    world.pass(1440);
    assert!(world.ask(&REFRESH).is_ok());
}

#[test]
fn rule_12_6_the_trackers_retry_time_binds_everyone_and_ends_without_a_burst() {
    let mut world = World::new(BudgetSettings::default());
    let permit = world.ask(&REFRESH).expect("nothing known");
    world.learn(permit, 2500, 2499);
    let pause = Duration::from_secs(600);
    world.budget.refused(world.now, Some(pause));
    for spender in spenders() {
        let bound = match spender {
            Spender::Read(Purpose::Manual) => Duration::from_secs(60),
            Spender::Read(Purpose::Refresh | Purpose::Turn) => Duration::from_secs(300),
            _ => pause,
        };
        // Of a copy: a refused spender keeps a position.
        let refused = world.budget.clone().admit(world.now, &spender, 0).unwrap_err();
        assert!(refused.retry_after >= bound);
    }
    world.pass(599_999);
    assert_eq!(world.ask(&tool(1)).unwrap_err().limit, Limit::Held);
    world.pass(1);
    assert_eq!(world.drain(&REFRESH), 1);
    world.pass(100_000);
    // A tenth at once leaves 2251 an hour: one in 1600 ms.
    assert_eq!(world.drain(&REFRESH), 62);
}

#[test]
fn rule_12_6_news_during_a_hold_does_not_end_it_with_a_burst() {
    let mut world = World::new(BudgetSettings::default());
    let first = world.ask(&REFRESH).expect("nothing known");
    world.learn(first, 2500, 2499);
    let second = world.ask(&REFRESH).expect("plenty left");
    world.budget.refused(world.now, Some(Duration::from_secs(600)));
    // An answer that was on its way says that the limit is another one.
    world.learn(second, 2400, 2300);
    world.pass(601_000);
    assert_eq!(world.drain(&REFRESH), 1);
}

#[test]
fn rule_12_6_a_hold_without_a_retry_time_is_one_refill_interval_and_none_exceeds_an_hour() {
    let mut world = World::new(hourly(3600));
    let held = |world: &World| world.budget.view(world.now).held_for;
    world.budget.refused(world.now, None);
    // A tenth at once leaves 3241 an hour.
    assert_eq!(held(&world), Some(Duration::from_millis(1111)));
    let week = Duration::from_secs(7 * 24 * 3600);
    world.budget.refused(world.now, Some(week));
    assert_eq!(held(&world), Some(Duration::from_millis(HOUR)));
    world.pass(HOUR);
    assert_eq!(held(&world), None);
    assert!(world.ask(&REFRESH).is_ok());
}

#[test]
fn rule_12_6_an_operators_poll_passes_a_hold_once_a_minute() {
    let mut world = World::new(BudgetSettings::default());
    let hour = Some(Duration::from_millis(HOUR));
    world.budget.refused(world.now, hour);
    assert!(world.ask(&MANUAL).is_err(), "just refused");
    world.pass(60_000);
    assert!(world.ask(&REFRESH).is_err(), "only an operator's passes");
    assert!(world.ask(&MANUAL).is_ok());
    world.budget.refused(world.now, hour);
    assert!(world.ask(&MANUAL).is_err());
    world.pass(59_999);
    assert!(world.ask(&MANUAL).is_err());
    world.pass(1);
    assert!(world.ask(&MANUAL).is_ok());
}

#[test]
fn rule_12_6_claimed_issues_are_read_through_a_hold_every_five_minutes() {
    let mut world = World::new(BudgetSettings::default());
    let hour = Some(Duration::from_millis(HOUR));
    world.budget.refused(world.now, hour);
    for _ in 0..3 {
        world.pass(299_999);
        assert!(world.ask(&REFRESH).is_err());
        world.pass(1);
        assert!(world.ask(&CANDIDATES).is_err() && world.ask(&tool(1)).is_err());
        assert!(world.ask(&REFRESH).is_ok());
        world.budget.refused(world.now, hour);
    }
}

#[test]
fn rule_12_6_an_operators_poll_that_passes_a_hold_keeps_to_the_settings() {
    let mut world = World::new(hourly(1));
    assert!(world.ask(&MANUAL).is_ok());
    world.budget.refused(world.now, Some(Duration::from_secs(300)));
    world.pass(61_000);
    assert!(world.ask(&MANUAL).is_err(), "one an hour");
}

#[test]
fn rule_12_6_old_news_and_requests_on_the_way_are_not_mistaken_for_what_is_left() {
    let mut world = World::new(BudgetSettings::default());
    let permits: Vec<_> = (0..4).map(|_| world.ask(&REFRESH).unwrap()).collect();
    let left = |world: &World| world.budget.view(world.now).requests_left;
    world.learn(permits[1], 100, 60);
    assert_eq!(left(&world), Some(58), "two more are on the way");
    world.learn(permits[3], 100, 40);
    assert_eq!(left(&world), Some(40));
    world.learn(permits[0], 100, 99);
    assert_eq!(left(&world), Some(40), "the first answer came last");
}

#[test]
fn rule_12_6_a_spender_that_returns_keeps_its_position_and_one_that_does_not_loses_it() {
    let mut world = World::new(hourly(10));
    world.drain(&REFRESH);
    let turn = Spender::Read(Purpose::Turn);
    let wait = world.ask(&turn).unwrap_err().retry_after;
    // The place of the turn's read is before that of this one.
    world.pass(u64::try_from(wait.as_millis()).unwrap());
    assert_eq!(world.ask(&REFRESH).unwrap_err().limit, Limit::Hour);
    let mut other = World { budget: world.budget.clone(), ..World::new(hourly(10)) };
    other.now = world.now;
    assert!(other.ask(&turn).is_ok());
    world.pass(HOUR);
    assert!(world.ask(&REFRESH).is_ok());
}

#[test]
fn rule_12_6_deliveries_give_way_as_candidates_do() {
    let delivery = Spender::Read(Purpose::Delivery);
    let mut world = World::new(hourly(1000));
    let (candidates, mut other) = (world.drain(&CANDIDATES), World::new(hourly(1000)));
    assert_eq!(other.drain(&delivery), candidates);
    assert!(world.ask(&REFRESH).is_ok() && other.ask(&REFRESH).is_ok(), "the reserve is left");
}

#[test]
fn rule_12_6_a_restart_brings_no_second_burst() {
    let settings = limited(Some(1000), Some(300));
    let mut spent = Spent::default();
    for _ in 0..20 {
        let mut world = World::new(settings.clone());
        world.budget = Budget::new(settings.clone(), spent, 1, world.now);
        world.drain(&REFRESH);
        spent = world.budget.spent().clone();
    }
    let requests = BTreeMap::from([("refresh".to_owned(), 100)]);
    assert_eq!(spent.requests, requests);
    let yesterday = Spent { day: spent.day - 1, requests };
    let mut world = World::new(settings.clone());
    world.budget = Budget::new(settings, yesterday, 1, world.now);
    assert_eq!(world.drain(&REFRESH), 100);
}

#[test]
fn rule_12_6_other_settings_apply_without_a_second_burst() {
    let mut world = World::new(hourly(1000));
    assert_eq!(world.drain(&REFRESH), 100);
    world.budget.reconfigure(hourly(100_000), world.now);
    assert_eq!(world.drain(&REFRESH), 0);
    world.pass(1000);
    assert_eq!(world.drain(&REFRESH), 25);
    world.budget.reconfigure(hourly(10), world.now);
    assert_eq!(world.drain(&REFRESH), 0);
    let none = BudgetSettings::default();
    world.budget.reconfigure(none, world.now);
    assert_eq!(world.drain(&CANDIDATES), world::ENDLESS);
}

#[test]
fn rule_12_6_a_clock_that_jumps_gains_and_loses_nothing() {
    let mut world = World::new(limited(None, Some(100)));
    assert_eq!(world.drain(&REFRESH), 50, "half of the day's at once");
    for days in [7, -14, 7] {
        let wall = world.now.wall.as_unix_millis() + days * 86_400_000;
        world.now.wall = Wall::from_unix_millis(wall);
        assert_eq!(world.drain(&REFRESH), 0);
    }
    for _ in 0..36 * 60 {
        world.pass(60_000);
        world.drain(&REFRESH);
    }
    assert_eq!(most_in(&world.times(), DAY), 100);
}

#[test]
fn rule_12_6_a_refusal_is_an_error_with_its_category_and_time() {
    let refused = Refused { limit: Limit::Day, retry_after: Duration::from_secs(9) };
    let now = Wall::from_unix_millis(1000);
    let kind = FailureKind::Tracker(TrackerErrorKind::RateLimited);
    let expected = Failure::new(kind, "request not made: the day's requests are used up")
        .with_retry_after(Some(Duration::from_secs(9)));
    assert_eq!(refused.into_error(now).to_failure(now), expected);
}

#[test]
fn rule_12_7_the_view_shows_what_is_left_and_the_spenders() {
    let mut world = World::new(limited(None, Some(1000)));
    world.ask(&CANDIDATES).unwrap();
    world.ask(&tool(1)).unwrap();
    let permit = world.ask_for(&tool(2), 50).unwrap();
    let resets = Some(Wall::from_unix_millis(NOON + 3_600_000));
    let requests = Quota { resets, ..quota(2500, 2400) };
    let reported = Reported { requests, points: quota(3_000_000, 2_999_000), charged: Some(50) };
    world.budget.learn(world.now, permit, &reported);
    let today = BTreeMap::from([("candidates".to_owned(), 1), ("tool".to_owned(), 2)]);
    let view = BudgetView {
        requests_left: Some(2400),
        requests_limit: Some(2500),
        points_left: Some(2_999_000),
        points_limit: Some(3_000_000),
        day_left: Some(997),
        resets,
        // Half of the day's at once leaves 501 a day.
        refill: Some(Duration::from_millis(172_456)),
        held_for: None,
        waiting: 0,
        today,
        tools: BTreeMap::from([("issue-1".into(), 1), ("issue-2".into(), 1)]),
    };
    assert_eq!(world.budget.view(world.now), view);

    let pause = Duration::from_secs(5);
    world.budget.refused(world.now, Some(pause));
    world.ask(&REFRESH).unwrap_err();
    let view = BudgetView { requests_left: Some(0), held_for: Some(pause), waiting: 1, ..view };
    assert_eq!(world.budget.view(world.now), view);
    let json = serde_json::to_string(&view).unwrap();
    assert_eq!(serde_json::from_str::<BudgetView>(&json).unwrap(), view);

    world.pass(DAY);
    let view = world.budget.view(world.now);
    assert_eq!((view.today, view.tools), (BTreeMap::new(), BTreeMap::new()));
    world.ask(&REFRESH).unwrap();
    let requests = BTreeMap::from([("refresh".to_owned(), 1)]);
    let day = world.now.wall.day();
    assert_eq!(*world.budget.spent(), Spent { day, requests });
}

#[test]
fn rule_12_7_the_issues_with_the_most_tool_calls_are_counted_and_no_others() {
    let mut world = World::new(BudgetSettings::default());
    for agent in 0..1_000 {
        world.ask(&tool(agent)).unwrap();
        world.ask(&tool(7)).unwrap();
    }
    let tools = world.budget.view(world.now).tools;
    assert_eq!(tools.len(), 256);
    assert!(tools["issue-7"] >= 990, "{tools:?}");
}

#[test]
fn rule_12_6_each_purpose_passes_a_hold_by_itself_and_is_told_when() {
    let mut world = World::new(BudgetSettings::default());
    let turn = Spender::Read(Purpose::Turn);
    world.budget.refused(world.now, Some(Duration::from_millis(HOUR)));
    world.pass(30_000);
    let told = world.ask(&REFRESH).unwrap_err().retry_after;
    assert!(told >= Duration::from_secs(270) && told <= Duration::from_secs(280), "{told:?}");
    world.pass(270_000);
    for _ in 0..5 {
        assert!(world.ask(&turn).is_ok());
        world.pass(1_000);
        assert!(world.ask(&REFRESH).is_ok(), "what a turn takes is not taken from a refresh");
        world.budget.refused(world.now, Some(Duration::from_millis(HOUR)));
        world.pass(299_000);
        assert!(world.ask(&REFRESH).is_err());
        world.pass(1_000);
    }
}

#[test]
fn rule_12_6_a_read_of_several_requests_passes_a_hold_as_one() {
    let mut world = World::new(BudgetSettings::default());
    world.budget.refused(world.now, Some(Duration::from_millis(HOUR)));
    world.pass(60_000);
    assert!(world.ask(&MANUAL).is_ok());
    world.pass(300);
    assert!(world.ask(&MANUAL).is_ok());
    world.budget.refused(world.now, Some(Duration::from_millis(HOUR)));
    assert!(world.ask(&MANUAL).is_err(), "unless it is refused again");
}

#[test]
fn rule_12_6_equal_settings_do_not_close_a_hold_to_what_may_pass() {
    let mut world = World::new(hourly(1000));
    world.budget.refused(world.now, Some(Duration::from_millis(HOUR)));
    world.budget.reconfigure(hourly(1000), world.now);
    world.pass(300_000);
    assert!(world.ask(&REFRESH).is_ok());
}

#[test]
fn rule_12_6_a_tracker_that_answers_again_is_not_held_any_more() {
    let mut world = World::new(BudgetSettings::default());
    world.budget.refused(world.now, Some(Duration::from_millis(HOUR)));
    world.pass(60_000);
    let permit = world.ask(&MANUAL).expect("it passes");
    world.learn(permit, 2500, 2400);
    assert_eq!(world.budget.view(world.now).held_for, None);
    world.pass(10_000);
    assert!(world.ask(&CANDIDATES).is_ok());
}
