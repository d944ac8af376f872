//! A whole day, with every read counted: what polling costs (contract 12).
//!
//! Eight hours of work (30 issues, two turns each), eight idle, eight quiet. One request per read, as
//! a tracker answers that can do a poll in one.

use std::collections::BTreeMap;
use std::time::Duration;

use symphony_core::forecast::{Workload, hourly};
use symphony_core::orchestrator::Event;
use symphony_core::settings::{ActivitySettings, PollingSettings};
use symphony_core::snapshot::Mode;

use crate::harness::{Draft as _, Harness, issue};

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
/// A new issue every 16 minutes, and two turns of 7 minutes: an agent is at work most of the time.
const BETWEEN: u64 = 16 * MINUTE;
const TURN: u64 = 7 * MINUTE;
/// Reads that become due together are one.
const GATHER: u64 = 1_000;
const ISSUES: u64 = 30;

/// Reads by job.
type Counts = BTreeMap<&'static str, usize>;

fn count(counts: &mut Counts, harness: &mut Harness) {
    for read in harness.asked() {
        let job = match read.split_whitespace().next() {
            Some("poll") => "candidates",
            Some("refresh") => "refresh",
            _ => "check, turn",
        };
        *counts.entry(job).or_default() += 1;
    }
}

#[test]
#[expect(clippy::disallowed_macros, reason = "a table for people")]
fn rule_12_2_a_day_of_thirty_issues_takes_few_requests() {
    let mut harness = Harness::with(|setup| {
        setup.settings.polling.activity = Some(ActivitySettings::default());
        setup.settings.agent.common.stall_timeout = None;
    });
    let mut periods: Vec<(&str, Counts)> = Vec::new();

    let mut counts = Counts::new();
    for number in 1..=ISSUES {
        let name = format!("MT-{number}");
        harness.board([issue(&name)]);
        harness.live(30_000);
        assert_eq!(harness.starts(), [name.as_str()], "within the active interval");
        harness.run(&name).works();
        harness.live(TURN);
        harness.run(&name).turn_ends();
        harness.live(GATHER);
        assert_eq!(harness.told(), [format!("next turn {name}: 2")], "at once");
        harness.live(TURN);
        harness.board([issue(&name).state("Done")]);
        harness.run(&name).turn_ends();
        harness.live(GATHER);
        assert_eq!(harness.told(), [format!("finish {name}")], "at once");
        harness.run(&name).ends_well();
        harness.removed(&name);
        harness.live(BETWEEN - 2 * TURN - 30_000 - 2 * GATHER);
        count(&mut counts, &mut harness);
    }
    periods.push(("8 h of work", std::mem::take(&mut counts)));

    harness.live(8 * HOUR);
    assert_eq!(harness.snapshot().polling.mode, Mode::Dormant);
    count(&mut counts, &mut harness);
    periods.push(("8 h idle", std::mem::take(&mut counts)));

    harness.event(Event::QuietHours { on: true });
    harness.live(8 * HOUR);
    count(&mut counts, &mut harness);
    periods.push(("8 h quiet", counts));

    let jobs = ["candidates", "refresh", "check, turn"];
    println!("{:<12} {}   all", "", jobs.map(|job| format!("{job:>13}")).join(" "));
    let mut total = 0;
    for (period, counts) in &periods {
        let row = jobs.map(|job| counts.get(job).copied().unwrap_or_default());
        let all: usize = counts.values().sum();
        println!("{period:<12} {} {all:>5}", row.map(|count| format!("{count:>13}")).join(" "));
        total += all;
    }
    println!(
        "in all {total}; a loop of 60 s: 15,840; today: 23,000; layered: 6,300; hybrid: 2,600"
    );
    assert!(total < 1_600, "{total}: {periods:?}");
}

#[test]
fn rule_12_7_a_forecast_is_what_comes_to_pass_at_most() {
    let second = |seconds| Some(Duration::from_secs(seconds));
    for (candidates, refresh) in [(30, 30), (60, 30), (10, 25), (45, 30), (300, 20)] {
        for agents in 0..3 {
            let mut polling = PollingSettings::default();
            polling.jobs.candidates = second(candidates);
            polling.jobs.refresh = second(refresh);
            let mut harness = Harness::with(|setup| {
                setup.settings.polling = polling.clone();
                setup.settings.agent.common.stall_timeout = None;
            });
            for number in 0..agents {
                harness.works_on([issue(&format!("MT-{number}"))]);
            }
            let workload = Workload { agents, turn: Duration::MAX, turns: 1 };
            let expected = hourly(&polling, Mode::Active, workload);
            harness.live(MINUTE);
            harness.asked();
            harness.live(HOUR);
            let real = u64::try_from(harness.asked().len()).unwrap();
            let case =
                format!("{candidates} s, {refresh} s, {agents} agents: {real}, {expected:?}");
            assert!(real <= expected.polls, "{case}");
            assert!(real * 4 >= expected.polls * 3, "not far below: {case}");
        }
    }
}
