//! The simulation: random worlds around the real orchestrator, judged after every step.
//!
//! `SYMPHONY_SIM_WORLDS` says how many worlds there are (500). `SYMPHONY_SIM_EXTRA` adds a hundred
//! from that seed on: the tests take it from the commit, so that each commit explores new ones.
//! `SYMPHONY_SIM_SEED` replays one, a seed or a whole plan as a failure prints it, with every step.
//! `SYMPHONY_SIM_TRACE` names a file for the hash of every world's events, steps and snapshots, or
//! with `SYMPHONY_SIM_SEED` for their text: it tells whether two orchestrators do the same.
//! `SYMPHONY_SIM_SURVEY` runs all worlds and names every failure in a line.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    reason = "the test measures itself, uses both cores and reports"
)]
#![expect(clippy::expect_used, reason = "a test fails loudly")]
#![expect(
    clippy::type_complexity,
    clippy::manual_unwrap_or,
    reason = "the model reads like the rules it judges by"
)]

mod agenda;
mod agents;
mod board;
mod books;
mod brief;
mod claims;
mod courier;
mod deliveries;
mod dispatch;
mod eligibility;
mod faults;
mod files;
mod holds;
mod ledger;
mod liveness;
mod operator;
mod oracle;
mod order;
mod pace;
mod plan;
mod reads;
mod reasons;
mod replay;
mod restart;
mod retries;
mod rng;
mod runs;
mod script;
mod session;
mod settle;
mod tail;
mod totals;
mod trace;
mod tracker;
mod turns;
mod violation;
mod workspaces;
mod world;

use plan::Plan;
use session::{Detail, Session, run};
use trace::Grain;

/// How many worlds `SYMPHONY_SIM_EXTRA` adds.
const EXTRA_WORLDS: u64 = 100;

#[test]
fn worlds_keep_every_rule() {
    let trace = std::env::var_os("SYMPHONY_SIM_TRACE");
    if let Ok(text) = std::env::var("SYMPHONY_SIM_SEED") {
        let plan: Plan = text.parse().expect("SYMPHONY_SIM_SEED");
        let outcome = run(&plan, if trace.is_some() { Grain::Text } else { Grain::Print });
        if let Some(file) = trace {
            std::fs::write(file, &outcome.trace.text).expect("SYMPHONY_SIM_TRACE");
        }
        println!("{plan}: {} events", outcome.events);
        assert_eq!(outcome.result, Ok(()));
        return;
    }
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let worlds = number("SYMPHONY_SIM_WORLDS").unwrap_or(500);
    let extra = number("SYMPHONY_SIM_EXTRA").map(|seed| seed..seed.saturating_add(EXTRA_WORLDS));
    if let Some(seeds) = &extra {
        println!("and the worlds of the seeds {} to {}", seeds.start, seeds.end - 1);
    }
    let survey = std::env::var("SYMPHONY_SIM_SURVEY").is_ok();
    let detail = if survey { Detail::Survey } else { Detail::Report };
    let grain = if trace.is_some() { Grain::Hash } else { Grain::None };
    let session = Session::run((0..worlds).chain(extra.into_iter().flatten()), detail, grain);
    println!("{session}");
    if let Some(file) = trace {
        let lines = session.traces.iter().map(|(plan, hash)| format!("{plan} {hash:016x}\n"));
        std::fs::write(file, lines.collect::<String>()).expect("SYMPHONY_SIM_TRACE");
    }
    for failure in &session.failures {
        println!("{failure}");
    }
    assert_eq!(session.failures.len(), 0, "worlds broke rules: see above");
    assert_eq!(session.tally.missing(), [], "a fault that never happened is a gap");
}

#[test]
fn a_recorded_world_replays_from_json() {
    let plan: Plan = "3:20:6".parse().expect("a plan");
    let outcome = run(&plan, Grain::Record);
    assert_eq!(outcome.result, Ok(()));
    let events: usize = outcome.trace.lives.iter().map(replay::check).sum();
    println!("{} lives, {events} events replayed from JSON", outcome.trace.lives.len());
    assert!(events > 1_000, "a world with something in it");
}
