//! What holds whatever happens.

use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use symphony_core::budget::{Budget, Permit, Quota, Refused, Reported, Spent};
use symphony_core::settings::BudgetSettings;
use symphony_core::time::{Mono, Now, Wall};

use crate::world::{
    CANDIDATES, DAY, HOUR, REFRESH, World, hourly, limited, most_in, quota, reserving, spenders,
    tool,
};

/// One thing that can happen around a budget.
#[derive(Clone, Debug)]
enum Op {
    Ask { who: usize, times: usize, points: u64 },
    Pass(u64),
    Jump(i64),
    Learn { limit: u64, left: u64, charged: Option<u64> },
    Refuse(Option<u64>),
    Configure { per_hour: u32, per_day: u32 },
}

fn ask() -> impl Strategy<Value = Op> {
    let parts = (0..11_usize, 1..60_usize, 0..40_u64);
    parts.prop_map(|(who, times, points)| Op::Ask { who, times, points })
}

fn pass() -> impl Strategy<Value = Op> {
    let span = prop_oneof![0..50_u64, 0..5_000_u64, 0..400_000_u64, 0..3 * HOUR];
    span.prop_map(Op::Pass)
}

fn learn() -> impl Strategy<Value = Op> {
    let parts = (0..600_u64, 0..600_u64, option::of(0..40_u64));
    parts.prop_map(|(limit, left, charged)| Op::Learn { limit, left, charged })
}

/// Everything but other limits.
fn steady_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => ask(),
        6 => pass(),
        1 => any::<i64>().prop_map(Op::Jump),
        1 => option::of(any::<u64>()).prop_map(Op::Refuse),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![8 => steady_op(), 1 => learn()]
}

fn settings() -> impl Strategy<Value = BudgetSettings> {
    let parts = (option::of(0..400_u32), option::of(0..1500_u32), -0.5..1.5_f64);
    parts.prop_map(|(per_hour, per_day, reserve)| reserving(reserve, limited(per_hour, per_day)))
}

/// Performs the operations and returns every answer.
fn perform(world: &mut World, ops: &[Op]) -> Vec<Result<Permit, Refused>> {
    let spenders = spenders();
    let mut answers: Vec<Result<Permit, Refused>> = Vec::new();
    for op in ops {
        match op {
            Op::Ask { who, times, points } => {
                answers.extend((0..*times).map(|_| world.ask_for(&spenders[*who], *points)));
            }
            Op::Pass(millis) => world.pass(*millis),
            Op::Jump(wall) => world.now.wall = Wall::from_unix_millis(*wall),
            Op::Learn { limit, left, charged } => {
                let reported = Reported {
                    requests: quota(*limit, *left),
                    points: quota(limit * 10, *left),
                    charged: *charged,
                };
                if let Some(permit) = answers.iter().rev().find_map(|answer| answer.ok()) {
                    world.budget.learn(world.now, permit, &reported);
                }
            }
            Op::Refuse(after) => {
                world.budget.refused(world.now, after.map(Duration::from_millis));
            }
            Op::Configure { per_hour, per_day } => {
                let settings = limited(Some(*per_hour), Some(*per_day));
                world.budget.reconfigure(settings, world.now);
            }
        }
        _ = world.budget.view(world.now);
    }
    answers
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn rule_12_6_never_above_the_hour_nor_the_day_in_any_window(
        settings in settings(), ops in vec(op(), 1..120)
    ) {
        let mut world = World::new(settings.clone());
        perform(&mut world, &ops);
        for (limit, window) in [(settings.per_hour, HOUR), (settings.per_day, DAY)] {
            let most = most_in(&world.times(), window);
            prop_assert!(limit.is_none_or(|limit| most <= u64::from(limit)), "{most} of {limit:?}");
        }
    }

    #[test]
    fn rule_12_6_never_above_a_learned_limit_of_requests_or_points(
        limit in 1..500_u64, ops in vec(steady_op(), 1..120)
    ) {
        let mut world = World::new(BudgetSettings::default());
        let permit = world.ask(&REFRESH).unwrap();
        // Enough points for the dearest request to fit the burst.
        let points = limit + 400;
        let reported = Reported {
            requests: quota(limit, limit),
            points: quota(points, points),
            charged: None,
        };
        world.budget.learn(world.now, permit, &reported);
        perform(&mut world, &ops);
        let spent = world.admitted.iter();
        let spent = spent.flat_map(|(at, _, points)| (0..*points).map(|_| *at));
        prop_assert!(most_in(&world.times(), HOUR) <= limit);
        prop_assert!(most_in(&spent.collect::<Vec<_>>(), HOUR) <= points);
    }

    #[test]
    fn rule_12_6_changing_limits_never_allow_more_than_the_greatest_of_them(
        limits in vec((1..300_u32, 1..900_u32), 1..12), ops in vec(op(), 1..60),
    ) {
        let mut world = World::new(limited(Some(limits[0].0), Some(limits[0].1)));
        for (op, (per_hour, per_day)) in ops.into_iter().zip(limits.iter().copied().cycle()) {
            perform(&mut world, &[Op::Configure { per_hour, per_day }, op]);
        }
        let hour = limits.iter().map(|limit| u64::from(limit.0)).max();
        let day = limits.iter().map(|limit| u64::from(limit.1)).max();
        prop_assert!(Some(most_in(&world.times(), HOUR)) <= hour);
        prop_assert!(Some(most_in(&world.times(), DAY)) <= day);
    }

    #[test]
    fn rule_12_6_candidates_leave_the_reserve_to_others(
        limit in 20..2000_u32, percent in 0..=100_u32
    ) {
        let mut world = World::new(reserving(f64::from(percent) / 100.0, hourly(limit)));
        let burst = usize::try_from(limit.div_ceil(10)).unwrap();
        let candidates = world.drain(&CANDIDATES);
        let others = world.drain(&tool(1)) + world.drain(&REFRESH);
        prop_assert_eq!(candidates + others, burst);
        // One goes from a full bucket, however great the reserve.
        let reserve = burst * usize::try_from(percent).unwrap() / 100;
        let expected = (burst - reserve).max(1);
        prop_assert!(candidates.abs_diff(expected) <= 1, "{candidates}, not {expected}");
    }

    #[test]
    fn rule_12_6_a_spender_that_returns_when_told_is_admitted(
        limit in 1..3000_u32, who in 0..9_usize, drained in 0..300_u32, idle in 0..HOUR / 10
    ) {
        let mut world = World::new(hourly(limit));
        for _ in 0..drained.min(limit.div_ceil(10)) {
            world.ask(&REFRESH).unwrap();
        }
        world.pass(idle);
        let spender = spenders()[who].clone();
        if let Err(refused) = world.ask(&spender) {
            world.pass(u64::try_from(refused.retry_after.as_millis()).unwrap());
            prop_assert!(world.ask(&spender).is_ok());
        }
    }

    #[test]
    fn rule_12_6_equal_seeds_give_equal_answers(
        settings in settings(), ops in vec(op(), 1..120), seed in any::<u64>()
    ) {
        let mut first = World::seeded(settings.clone(), seed);
        let mut second = World::seeded(settings, seed);
        prop_assert_eq!(perform(&mut first, &ops), perform(&mut second, &ops));
        prop_assert_eq!(first.budget, second.budget);
    }

    #[test]
    fn rule_12_6_no_input_is_too_wild(
        per_hour in any::<u32>(), per_day in any::<u32>(), reserve in any::<f64>(),
        wild in vec(any::<(u64, u64, u64, i64)>(), 1..40)
    ) {
        let settings = reserving(reserve, limited(Some(per_hour), Some(per_day)));
        let mut budget = Budget::new(settings, Spent::default(), 0, Now::default());
        for (a, b, mono, wall) in wild {
            let now = Now { mono: Mono::from_millis(mono), wall: Wall::from_unix_millis(wall) };
            let quota = Quota { window: Duration::from_millis(mono), ..quota(a, b) };
            let reported = Reported { requests: quota, points: quota, charged: Some(b) };
            for spender in spenders() {
                if let Ok(permit) = budget.admit(now, &spender, a) {
                    budget.learn(now, permit, &reported);
                }
            }
            budget.refused(now, Some(Duration::from_millis(b)));
            _ = budget.view(now);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Every spender asks as often as it likes; each is served within a bound of refill intervals.
    #[test]
    fn rule_12_6_no_spender_starves(
        limit in prop_oneof![1..20_u32, 20..3000_u32],
        percent in 0..=100_u32,
        paces in vec(option::of(1..40_u64), 10),
        seed in any::<u64>(),
    ) {
        let reserve = f64::from(percent) / 100.0;
        let mut world = World::seeded(reserving(reserve, hourly(limit)), seed);
        let refill = world.budget.view(world.now).refill.unwrap();
        let step = u64::try_from(refill.as_millis()).unwrap();
        let tick = (step / 10).max(1);
        // Those with a pace do not wait for as long as they are told; the others obey.
        let begin = world.millis();
        let askers = spenders().into_iter().zip(paces);
        let mut askers: Vec<_> = askers.map(|(who, pace)| (who, pace, begin, begin)).collect();
        for _ in 0..4000 {
            world.pass(tick);
            let now = world.millis();
            for (who, pace, due, served) in &mut askers {
                if now < *due {
                    continue;
                }
                let told = match world.ask(who) {
                    Ok(_) => { *served = now; 1 }
                    Err(refused) => u64::try_from(refused.retry_after.as_millis()).unwrap(),
                };
                *due = now + pace.map_or(told, |pace| told.min(pace * tick));
                let waited = (now - *served) / step;
                prop_assert!(waited <= 90, "{who:?} waits for {waited} intervals");
            }
        }
    }
}

#[test]
fn rule_12_6_another_seed_gives_another_jitter() {
    let waits = |seed| {
        let mut world = World::seeded(hourly(10), seed);
        let asks = (0..20).map(|agent| world.ask(&tool(agent)));
        asks.filter_map(Result::err).collect::<Vec<_>>()
    };
    assert_eq!(waits(1), waits(1));
    assert_ne!(waits(1), waits(2));
}
