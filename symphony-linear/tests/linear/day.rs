//! A day with twenty agents that call the tool all the time, and an hour in which Linear refuses.

use std::time::Duration;

use serde_json::json;
use symphony_linear::LINEAR_GRAPHQL;
use symphony_linear_fake::{Fake, FakeFault, FakeIssue, MadeRequest};
use symphony_memory::AgentScript;
use tokio::time::Instant;

use crate::service::Live;

const HOUR: Duration = Duration::from_secs(3600);
const HOURLY_LIMIT: usize = 2500;

/// Each agent wants a call every twenty seconds: together they want 3,600 an hour.
fn busy(hours: u32) -> AgentScript {
    let arguments = json!({ "query": "{ viewer { name } }" });
    let calls = HOUR * hours / 20;
    (0..calls.as_secs()).fold(AgentScript::new(), |script, _| {
        script.wait(Duration::from_secs(20)).call(LINEAR_GRAPHQL, arguments.clone())
    })
}

fn is_poll(made: &MadeRequest) -> bool {
    made.query.contains("candidates")
}

/// The most in any span of this length.
fn most_in(made: &[MadeRequest], span: Duration) -> usize {
    let mut from = 0;
    let counts = (0..made.len()).map(|to| {
        while made[to].at - made[from].at >= span {
            from += 1;
        }
        to - from + 1
    });
    counts.max().unwrap_or(0)
}

fn between(made: &[MadeRequest], from: Instant, to: Instant) -> Vec<MadeRequest> {
    made.iter().filter(|made| (from..to).contains(&made.at)).cloned().collect()
}

#[tokio::test(start_paused = true)]
async fn rule_12_6_a_day_with_twenty_busy_agents_stays_under_the_limit() {
    const HOURS: u32 = 24;
    const REFUSED: u32 = 12;
    let fake = Fake::new();
    fake.put((1..=40).map(FakeIssue::new));
    let began = Instant::now();
    let live = Live::start(&fake, 20, busy(HOURS).hang()).await;
    tokio::time::sleep_until(began + HOUR * REFUSED).await;
    fake.fail(Some(FakeFault::RateLimited { retry_after: None }));
    tokio::time::sleep_until(began + HOUR * (REFUSED + 1)).await;
    fake.fail(None);
    tokio::time::sleep_until(began + HOUR * HOURS).await;

    let made = fake.made();
    let hour = |n: u32| between(&made, began + HOUR * n, began + HOUR * (n + 1));
    println!("hour  polls  tools  refused by Linear");
    for n in 0..HOURS {
        let made = hour(n);
        let polls = made.iter().filter(|made| is_poll(made)).count();
        let refused = made.iter().filter(|made| made.status != 200).count();
        let bar = "#".repeat(made.len() / 50);
        println!("{n:>4} {polls:>6} {:>6} {refused:>8}  {bar}", made.len() - polls);
    }
    let snapshot = live.handle.last_snapshot();
    assert_eq!(snapshot.running.len(), 20, "all of them still work");

    assert!(most_in(&made, HOUR) <= HOURLY_LIMIT, "{}", most_in(&made, HOUR));
    let is_refused = |n: u32| hour(n).iter().any(|made| made.status != 200);
    assert!((0..HOURS).filter(|n| *n != REFUSED).all(|n| !is_refused(n)));
    for n in (1..HOURS).filter(|n| *n != REFUSED) {
        let made = hour(n);
        let polls = made.iter().filter(|made| is_poll(made)).count();
        assert!((118..=122).contains(&polls), "hour {n}: refresh keeps its pace: {polls}");
        assert!(
            made.len() >= HOURLY_LIMIT * 85 / 100,
            "hour {n}: little is wasted: {}",
            made.len()
        );
    }
    // The hour that follows begins at the steady pace, which is 42 a minute.
    let after = began + HOUR * (REFUSED + 1);
    let minute = Duration::from_secs(60);
    let minutes: Vec<usize> = (0..30)
        .map(|n| between(&made, after + minute * n, after + minute * (n + 1)).len())
        .collect();
    println!("a minute each, after the hour of refusals: {minutes:?}");
    assert!(minutes[1] > 20, "it recovers at once: {minutes:?}");
    assert!(minutes.iter().all(|count| *count <= 50), "and without a burst: {minutes:?}");
    live.shut_down().await;
}
