//! What a page of 250 issues costs, from its bytes to issues, beside a bare parse of the same bytes
//! in the same run: prints, asserts nothing.
//!
//! `cargo bench -p symphony-linear`; called as a test it makes one round, to see that it works.

#![expect(clippy::unwrap_used, reason = "a measurement that cannot be made fails")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde_json::{Value, json};
use symphony_core::settings::Provider;
use symphony_core::tracker::{Tracker, TrackerContext, TrackerExt, TrackerFactory};
use symphony_core::{Settings, StateSet};
use symphony_linear::{Bounds, Bytes, HeaderMap, LinearFactory, NoReply, Reply, Transport};
use symphony_linear_fake::{Answered, Fake, FakeIssue, KEY};

const ISSUES: usize = 250;

/// Answers what it was given, and keeps what it was asked.
#[derive(Debug, Default)]
struct Canned {
    answer: Mutex<Bytes>,
    asked: Mutex<Bytes>,
}

#[async_trait]
impl Transport for Canned {
    async fn post(&self, body: Bytes, _: Bounds) -> Result<Reply, NoReply> {
        *self.asked.lock().unwrap() = body;
        let body = self.answer.lock().unwrap().clone();
        Ok(Reply { status: 200, headers: HeaderMap::new(), body })
    }
}

fn tracker(canned: &Arc<Canned>) -> Arc<dyn Tracker> {
    let canned = Arc::clone(canned);
    let factory = LinearFactory::connecting(move |_, _| {
        let canned: Arc<dyn Transport> = Arc::<Canned>::clone(&canned);
        Ok(canned)
    });
    let mut settings =
        Settings::new("linear", StateSet::new(["Todo"]), StateSet::new(["Done"]), "/".into());
    let keys = [("api_key", KEY), ("project_slug", "abc123")];
    let keys = keys.into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect();
    settings.tracker.provider = Provider::new(keys);
    let env = BTreeMap::new();
    let cx = TrackerContext::new(&settings.tracker, &settings.polling.budget, &env);
    factory.build(&cx).unwrap().tracker
}

/// The answer of the fake to the question of the adapter, with as many issues.
fn page(question: &[u8]) -> Bytes {
    let fake = Fake::new();
    fake.put((1..=ISSUES).map(|n| FakeIssue {
        title: format!("Mend the gate number {n}, which squeaks"),
        description: Some("It squeaks, and it does not close. ".repeat(20)),
        priority: 2,
        assignee: Some("ada@example.com".to_owned()),
        labels: vec!["Bug".to_owned(), "Carpentry".to_owned()],
        blocked_by: if n % 5 == 0 { vec!["id-1".to_owned()] } else { Vec::new() },
        ..FakeIssue::new(n)
    }));
    let mut question: Value = serde_json::from_slice(question).unwrap();
    question["variables"]["candidatesFirst"] = ISSUES.into();
    fake.set_limits(symphony_linear_fake::FakeLimits { query: u64::MAX, ..Default::default() });
    match fake.answer(Some(KEY), question.to_string().as_bytes()) {
        Answered::Reply { body, .. } => body.into(),
        other => unreachable!("{other:?}"),
    }
}

fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let rounds = if is_bench { 500 } else { 1 };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let canned = Arc::new(Canned::default());
    let states = StateSet::new(["Todo"]);
    // The first question fails, and tells what the adapter asks.
    let _ = runtime.block_on(tracker(&canned).fetch_issues_by_states(&states));
    let body = page(&canned.asked.lock().unwrap());
    *canned.answer.lock().unwrap() = body.clone();

    let (mut ours, mut bare, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..=rounds {
        // A new one each time: a budget that never hears of limits must not run dry.
        let tracker = tracker(&canned);
        let start = Instant::now();
        let issues = runtime.block_on(tracker.fetch_issues_by_states(&states)).unwrap();
        let took = start.elapsed();
        assert_eq!(issues.len(), ISSUES);
        drop(issues);
        let start = Instant::now();
        let value: Value = serde_json::from_slice(&body).unwrap();
        let parsed = start.elapsed();
        drop(value);
        ours.push(took);
        bare.push(parsed);
        ratios.push(took.as_secs_f64() / parsed.as_secs_f64().max(1e-9));
    }
    if !is_bench {
        return println!("page: runs");
    }
    let median = |times: &mut Vec<Duration>| {
        times.sort();
        times[times.len() / 2]
    };
    ratios.sort_by(f64::total_cmp);
    let ratio = ratios[ratios.len() / 2];
    println!("### A page of Linear, from its bytes to issues\n");
    println!("| what | ours | limit | ratio | goal | met |\n|---|---|---|---|---|---|");
    println!(
        "| {ISSUES} issues, {} KB | {:.2?} | {:.2?} bare `serde_json` | {ratio:.2} | 3 | {} |",
        body.len() / 1000,
        median(&mut ours),
        median(&mut bare),
        if ratio <= 3.0 { "yes" } else { "NO" },
    );
}
