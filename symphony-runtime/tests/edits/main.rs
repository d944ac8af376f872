//! Many edits of the workflow file while agents run (contract 2.6): each is applied, none disturbs a
//! run, and the service holds no more memory after them than before.
//!
//! A program of its own, because its allocator counts. `SYMPHONY_EDITS=1000` edits more often.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails loudly")]

#[path = "../service/harness.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod harness;

use std::alloc::System;
use std::fs;

use harness::{Harness, eventually, within, workflow};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use symphony_core::orchestrator::NoticeKind;
use symphony_memory::AgentScript;
use symphony_runtime::ServiceEnd;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Into how many parts the edits are divided: after each it is seen what is held.
const SAMPLES: u32 = 20;

/// How much more may be held per edit: chance, such as the capacity of a buffer, is not growth.
const CHANCE: i64 = 200;

/// Bytes asked for and not given back.
fn held() -> i64 {
    let stats = ALLOCATOR.stats();
    i64::try_from(stats.bytes_allocated).unwrap() - i64::try_from(stats.bytes_deallocated).unwrap()
}

const BROKEN: [&str; 5] = [
    "---\nagent: [\n---\n",
    "---\n- not\n- a map\n---\n",
    "",
    "---\ntracker:\n  kind: nonsense\n---\n",
    "---\ntracker:\n  kind: memory\nagent:\n  kind: scripted\n  max_turns: 0\n---\n",
];

#[tokio::test(start_paused = true)]
async fn rule_2_6_many_edits_half_of_them_broken_while_agents_run() {
    let edits = std::env::var("SYMPHONY_EDITS").map_or(100, |text| text.parse().unwrap());
    let harness = Harness::new(AgentScript::new().hang());
    (0..10).for_each(|n| harness.issue(&format!("{n}"), &format!("MT-{n}")));
    let live = harness.start().await;
    within("ten agents", harness.agent.wait_until(|journal| journal.live_agents() == 10)).await;
    live.until("ten rows", |s| s.running.len() == 10).await;
    let runs: Vec<_> = live.handle.snapshot().unwrap().running.iter().map(|row| row.run).collect();
    let (mut good, mut reloaded, mut refused) = (0, 0, 0);
    let mut curve = Vec::with_capacity(usize::try_from(SAMPLES).unwrap());
    for edit in 0..edits {
        if edit % 2 == 0 {
            good = 1000 + edit;
            let slots = format!("max_concurrent_agents: {good}");
            let text = workflow("").replace("max_concurrent_agents: 50", &slots);
            fs::write(harness.file(), text).unwrap();
            live.until("the edit", |s| s.slots.limit == good && s.problems.is_empty()).await;
        } else {
            let index = usize::try_from(edit / 2).unwrap() % BROKEN.len();
            fs::write(harness.file(), BROKEN[index]).unwrap();
            live.until("its problem", |s| !s.problems.is_empty()).await;
            assert_eq!(live.handle.snapshot().unwrap().slots.limit, good, "the last good one");
        }
        eventually("its notice", || {
            for notice in std::mem::take(&mut *live.notices.lock().unwrap()) {
                match notice.what {
                    NoticeKind::Reloaded => reloaded += 1,
                    NoticeKind::WorkflowInvalid { .. } => refused += 1,
                    _ => {}
                }
            }
            reloaded + refused == edit + 1
        })
        .await;
        if (edit + 1) * SAMPLES / edits > u32::try_from(curve.len()).unwrap() {
            curve.push(held());
        }
    }
    let now: Vec<_> = live.handle.snapshot().unwrap().running.iter().map(|row| row.run).collect();
    assert_eq!(now, runs, "no run was disturbed");
    assert_eq!((reloaded, refused), (edits.div_ceil(2), edits / 2));
    assert_eq!(harness.agent.journal().opened(), 10);
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);

    let kib: Vec<_> = curve.iter().map(|bytes| bytes / 1024).collect();
    println!("{edits} edits; held, KiB: {kib:?}");
    // The least of each part: now and then a file is being read while it is counted.
    let least = |part: &[i64]| part.iter().min().copied().unwrap();
    let quarter = curve.len() / 4;
    let (second, last) = (least(&curve[quarter..2 * quarter]), least(&curve[3 * quarter..]));
    let growth = (last - second) / i64::from(edits / 2);
    println!("growth per edit from the second quarter to the last: {growth} bytes");
    assert!(growth <= CHANCE, "memory grows: {second} bytes held, later {last}");
}
