//! Many spenders that want more than there is.

use std::time::Duration;

use crate::world::{CANDIDATES, HOUR, REFRESH, World, hourly, limited, most_in, reserving, tool};

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap()
}

#[test]
fn rule_12_6_a_hog_of_tool_calls_starves_neither_refresh_nor_candidates_nor_other_agents() {
    let mut world = World::new(hourly(2500));
    let begin = world.millis();
    let mut refused = 0;
    // These two do as they are told.
    let mut obedient = [(CANDIDATES, begin), (tool(1), begin)];
    for tick in 0..HOUR / 10 {
        world.pass(10);
        _ = world.ask(&tool(0));
        if tick % 3000 == 0 {
            refused += usize::from(world.ask(&REFRESH).is_err());
        }
        for (spender, due) in &mut obedient {
            if world.millis() >= *due {
                let wait = match world.ask(spender) {
                    Ok(_) => Duration::from_secs(30),
                    Err(refused) => refused.retry_after,
                };
                *due = world.millis() + millis(wait);
            }
        }
    }
    assert_eq!((world.count(&REFRESH), refused), (120, 0));
    assert!(world.count(&CANDIDATES) >= 55, "{}", world.count(&CANDIDATES));
    assert!(world.count(&tool(1)) >= 105, "{}", world.count(&tool(1)));
    let all = most_in(&world.times(), HOUR);
    assert!(all <= 2500, "{all}");
    assert!(all >= 2450, "nothing is wasted: {all}");
}

#[test]
fn rule_12_6_a_hog_cannot_keep_refresh_waiting_without_a_reserve_either() {
    let mut world = World::new(reserving(0.0, hourly(100)));
    // A tenth at once leaves 91 an hour.
    let interval = 39_561;
    let mut longest = 0;
    let mut asked = None;
    for tick in 0..3 * 3600 {
        world.pass(1000);
        for agent in 0..20 {
            _ = world.ask(&tool(agent));
        }
        if asked.is_none() && tick % 300 == 0 {
            asked = Some(world.millis());
        }
        if let Some(since) = asked
            && world.ask(&REFRESH).is_ok()
        {
            longest = longest.max(world.millis() - since);
            asked = None;
        }
    }
    assert!(world.count(&REFRESH) >= 35, "{}", world.count(&REFRESH));
    assert!(longest <= 2 * interval, "{longest}");
}

#[test]
fn rule_12_6_agents_share_evenly_however_fast_they_ask() {
    let mut world = World::new(hourly(1000));
    world.drain(&tool(99));
    for tick in 0..HOUR / 20 {
        world.pass(20);
        for agent in 0..7 {
            if tick % (1 + 20 * agent) == 0 {
                _ = world.ask(&tool(usize::try_from(agent).unwrap()));
            }
        }
    }
    let counts: Vec<_> = (0..7).map(|agent| world.count(&tool(agent))).collect();
    let (least, most) = (*counts.iter().min().unwrap(), *counts.iter().max().unwrap());
    assert!(most - least <= 2 && least >= 120, "{counts:?}");
}

#[test]
fn rule_12_6_a_spender_that_waits_gets_as_much_as_one_that_does_not() {
    let mut world = World::new(hourly(1000));
    world.drain(&tool(99));
    let mut due = [0; 6];
    for _ in 0..HOUR / 50 {
        world.pass(50);
        _ = world.ask(&tool(6));
        for (agent, due) in due.iter_mut().enumerate() {
            if world.millis() >= *due {
                let wait =
                    world.ask(&tool(agent)).map_or_else(|no| no.retry_after, |_| Duration::ZERO);
                *due = world.millis() + millis(wait);
            }
        }
    }
    let counts: Vec<_> = (0..7).map(|agent| world.count(&tool(agent))).collect();
    let (least, most) = (*counts.iter().min().unwrap(), *counts.iter().max().unwrap());
    assert!(most - least <= 2 && least >= 120, "{counts:?}");
}

#[test]
fn rule_12_6_the_end_of_patience_opens_the_reserve_to_one_at_a_time() {
    let mut world = World::new(hourly(1000));
    world.drain(&REFRESH);
    for agent in 0..9 {
        world.ask(&tool(agent)).unwrap_err();
    }
    // One in 3996 ms: nine are back, and ten are kept from tools.
    world.pass(9 * 3996);
    let asks = (0..9).rev().map(|agent| world.ask(&tool(agent)));
    assert_eq!(asks.filter(Result::is_ok).count(), 1);
}

#[test]
fn rule_12_6_the_end_of_patience_counts_also_while_a_better_rank_waits() {
    let mut world = World::new(hourly(1000));
    world.drain(&REFRESH);
    world.ask(&CANDIDATES).unwrap_err();
    // One in 3996 ms. Refresh takes all of them, and its next one just before patience ends.
    world.pass(76_000);
    assert_eq!(world.drain(&REFRESH), 19);
    world.pass(8000);
    assert!(world.ask(&CANDIDATES).is_ok(), "twenty would be the reserve, and two are there");
    assert!(world.ask(&REFRESH).is_ok(), "the other was left for it");
}

#[test]
fn rule_12_6_a_refused_herd_does_not_return_at_once() {
    for settings in [hourly(100), limited(None, None)] {
        let mut world = World::new(settings);
        world.budget.refused(world.now, Some(Duration::from_secs(60)));
        let returns = (0..50).map(|agent| world.ask(&tool(agent)).unwrap_err().retry_after);
        let mut returns: Vec<_> = returns.map(millis).collect();
        returns.sort_unstable();
        assert!(most_in(&returns, 5000) <= 2, "{returns:?}");
        assert!(returns[0] >= 60_000, "{returns:?}");
    }
}

/// A day of agents that call their tool every five seconds, on a tracker whose bucket leaks.
#[test]
fn rule_12_6_a_day_of_twenty_busy_agents_is_never_refused_by_the_tracker() {
    let mut world = World::new(limited(None, None));
    let mut tracker = Leaking::new(2500, world.millis());
    let mut spenders: Vec<_> = (0..20).map(|agent| (tool(agent), 5000, 0)).collect();
    spenders.push((REFRESH, 30_000, 0));
    spenders.push((CANDIDATES, 30_000, 0));
    for _ in 0..12 * 3600 {
        world.pass(2000);
        let now = world.millis();
        for (spender, every, due) in &mut spenders {
            if now < *due {
                continue;
            }
            match world.ask(spender) {
                Ok(permit) => {
                    let left = tracker.serve(now).expect("never refused");
                    world.learn(permit, 2500, left);
                    *due = now + *every;
                }
                Err(refused) => *due = now + millis(refused.retry_after),
            }
        }
    }
    let (refreshes, polls) = (world.count(&REFRESH), world.count(&CANDIDATES));
    assert!(refreshes >= 2800, "{refreshes} of 2880");
    assert!(polls >= 1200, "{polls} of 2880");
    assert!(most_in(&world.times(), HOUR) <= 2500);
    assert!(world.admitted.len() >= 24 * 2200, "{}", world.admitted.len());
}

/// The tracker's side: it refills evenly and refuses when it is empty.
struct Leaking {
    limit: u64,
    /// In parts of an hour's milliseconds.
    level: u64,
    at: u64,
}

impl Leaking {
    const fn new(limit: u64, at: u64) -> Self {
        let level = limit * HOUR;
        Self { limit, level, at }
    }

    /// What is left after one more.
    fn serve(&mut self, now: u64) -> Option<u64> {
        let refilled = self.level + (now - self.at) * self.limit;
        self.at = now;
        self.level = refilled.min(self.limit * HOUR).checked_sub(HOUR)?;
        Some(self.level / HOUR)
    }
}
