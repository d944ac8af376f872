//! Every request is admitted by one budget per key (contract 12.4, 12.6).

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use symphony_core::budget::Spent;
use symphony_core::tracker::TrackerErrorKind;
use symphony_linear_fake::{Fake, FakeFault, FakeIssue, FakeLimits};

use crate::harness::{factory, settings, tracker, try_build};
use crate::polls::{poll, refresh};

#[tokio::test]
async fn rule_12_6_the_headers_reach_the_status() {
    let fake = Fake::new();
    fake.put([FakeIssue::new(1)]);
    fake.drain(100);
    let polled = tracker(&fake).poll(&poll(5, &["id-1"])).await;
    let budget = polled.budget.unwrap();
    assert_eq!((budget.requests_left, budget.requests_limit), (Some(2399), Some(2500)));
    assert_eq!(budget.points_limit, Some(3_000_000));
    assert!(budget.points_left < Some(3_000_000) && budget.resets.is_some());
    assert_eq!(budget.today, BTreeMap::from([("candidates".to_owned(), 1)]));
}

#[tokio::test(start_paused = true)]
async fn rule_12_6_candidates_give_way_and_what_runs_is_read_all_the_same() {
    let fake = Fake::new();
    fake.put((1..=3).map(FakeIssue::new));
    let tracker = tracker(&fake);
    // Another client has used nearly all of the key.
    fake.drain(2400);
    assert!(tracker.poll(&poll(5, &["id-1"])).await.candidates.unwrap().is_ok());
    let polled = tracker.poll(&poll(5, &["id-1"])).await;
    let error = polled.candidates.unwrap().unwrap_err();
    assert_eq!(error.kind, TrackerErrorKind::RateLimited);
    let message = "request not made: the tracker has no requests left for us";
    assert_eq!(error.message, message);
    assert!(error.retry_at.is_some());
    assert_eq!(polled.by_id.unwrap().found.len(), 1);
    assert_eq!((polled.requests, fake.requests()), (1, 2));
    let last = fake.made().pop().unwrap();
    assert_eq!(last.variables["askCandidates"], json!(false));
}

#[tokio::test(start_paused = true)]
async fn rule_12_6_what_runs_is_read_in_full_when_candidates_give_way() {
    let fake = Fake::new();
    let labels = (0..12).map(|n| format!("label-{n}")).collect();
    fake.put([FakeIssue { labels, ..FakeIssue::new(1) }]);
    let tracker = tracker(&fake);
    fake.drain(2400);
    assert!(tracker.poll(&poll(5, &["id-1"])).await.by_id.is_ok());
    let polled = tracker.poll(&poll(5, &["id-1"])).await;
    assert!(polled.candidates.unwrap().is_err());
    assert_eq!(polled.by_id.unwrap().found[0].labels.len(), 12);
}

#[tokio::test(start_paused = true)]
async fn rule_12_6_a_refusal_without_a_time_still_pauses_requests() {
    let fake = Fake::new();
    let tools = tracker(&fake).tools().unwrap();
    let headers = vec![("retry-after".to_owned(), "0".to_owned())];
    fake.fail(Some(FakeFault::Answer { status: 429, headers, body: Vec::new() }));
    let query = json!({ "query": "{ viewer { name } }" });
    let result = crate::tool::call(&*tools, symphony_linear::LINEAR_GRAPHQL, query).await;
    assert!(!result.success);
    assert_eq!(fake.requests(), 1, "no limit is known, so nothing else would pace it");
}

#[tokio::test(start_paused = true)]
async fn rule_12_6_a_refusal_holds_everybody_and_is_over_without_a_burst() {
    let fake = Fake::new();
    fake.put([FakeIssue::new(1)]);
    let tracker = tracker(&fake);
    assert!(tracker.poll(&refresh(&["id-1"])).await.by_id.is_ok());
    fake.fail_next(1, FakeFault::RateLimited { retry_after: Some(60) });
    assert!(tracker.poll(&refresh(&["id-1"])).await.by_id.is_err());
    let made = fake.requests();
    // No request is made while the hold lasts.
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let error = tracker.poll(&refresh(&["id-1"])).await.by_id.unwrap_err();
        assert_eq!(error.kind, TrackerErrorKind::RateLimited);
    }
    assert_eq!(fake.requests(), made);
    let held = tracker.poll(&refresh(&["id-1"])).await.budget.unwrap().held_for.unwrap();
    assert!(held <= Duration::from_secs(10), "{held:?}");
    tokio::time::sleep(Duration::from_secs(12)).await;
    let mut served = 0;
    for _ in 0..20 {
        served += u32::from(tracker.poll(&refresh(&["id-1"])).await.by_id.is_ok());
    }
    assert!((1..=3).contains(&served), "a few at the steady pace, no burst: {served}");
}

#[tokio::test]
async fn rule_12_6_a_reload_keeps_the_budget_of_the_key() {
    let fake = Fake::new();
    fake.put([FakeIssue::new(1)]);
    let factory = factory(&fake);
    let first = try_build(&factory, &settings(&json!({})), &[]).unwrap().tracker;
    assert!(first.poll(&refresh(&["id-1"])).await.by_id.is_ok());
    let mut other = settings(&json!({ "team_key": "MT" }));
    other.tracker.timeout = Duration::from_secs(5);
    let second = try_build(&factory, &other, &[]).unwrap().tracker;
    assert!(second.poll(&refresh(&["id-1"])).await.by_id.is_ok());
    let today = second.poll(&refresh(&["id-1"])).await.budget.unwrap().today;
    assert_eq!(today["refresh"], 3, "what the first one spent is spent");
}

#[tokio::test]
async fn rule_12_4_the_days_requests_of_an_earlier_life_count() {
    let fake = Fake::new();
    fake.put([FakeIssue::new(1)]);
    let mut settings = settings(&json!({}));
    settings.polling.budget.per_day = Some(100);
    let built = || try_build(&factory(&fake), &settings, &[]).unwrap().tracker;
    let today = symphony_core::time::Wall::from_unix_millis(
        i64::try_from(std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap(),
    )
    .day();
    let requests = BTreeMap::from([("tool".to_owned(), 70), ("refresh".to_owned(), 29)]);
    let tracker = built();
    tracker.resume(&Spent { day: today, requests });
    let error = tracker.poll(&poll(5, &[])).await.candidates.unwrap().unwrap_err();
    assert_eq!(error.kind, TrackerErrorKind::RateLimited);
    assert_eq!(error.message, "request not made: the day's requests are used up");
    assert!(built().poll(&poll(5, &[])).await.candidates.unwrap().is_ok());
}

#[tokio::test]
async fn rule_12_6_wild_headers_do_no_harm() {
    let fake = Fake::new();
    let body =
        r#"{"data":{"claimed":{"nodes":[],"pageInfo":{"hasNextPage":false,"endCursor":null}}}}"#;
    for value in ["-1", "18446744073709551615", "1e99", "", "NaN", "0"] {
        let names = ["requests-limit", "requests-remaining", "requests-reset", "complexity-limit"];
        let headers = names.map(|name| (format!("x-ratelimit-{name}"), value.to_owned()));
        let mut headers = headers.to_vec();
        headers.push(("x-complexity".to_owned(), value.to_owned()));
        let body = body.as_bytes().to_vec();
        fake.fail(Some(FakeFault::Answer { status: 200, headers, body }));
        let tracker = tracker(&fake);
        for _ in 0..3 {
            let polled = tracker.poll(&refresh(&["id-1"])).await;
            assert!(polled.by_id.is_ok(), "{value}: {:?}", polled.by_id);
        }
    }
}

#[tokio::test]
async fn rule_11_3_pages_get_smaller_when_answers_are_too_large() {
    let fake = Fake::new();
    let long = Some("x".repeat(1 << 20));
    fake.put((1..=80).map(|n| FakeIssue { description: long.clone(), ..FakeIssue::new(n) }));
    let tracker = tracker(&fake);
    let polled = tracker.poll(&poll(5, &[])).await;
    let error = polled.candidates.unwrap().unwrap_err();
    assert_eq!(error.kind, TrackerErrorKind::Response);
    assert_eq!(error.message, "Linear's answer has more than 67108864 bytes");
    let polled = tracker.poll(&poll(5, &[])).await;
    assert_eq!(polled.candidates.unwrap().unwrap().issues.len(), 80);
    assert_eq!(polled.requests, 2);
}

#[tokio::test]
async fn rule_12_6_a_limit_of_points_counts_as_well() {
    let fake = Fake::new();
    fake.put([FakeIssue::new(1)]);
    fake.set_limits(FakeLimits { points: 50_000, ..FakeLimits::default() });
    let tracker = tracker(&fake);
    let mut refused = None;
    for _ in 0..20 {
        if let Err(error) = tracker.poll(&poll(5, &[])).await.candidates.unwrap() {
            refused = Some(error.message);
            break;
        }
    }
    assert!(refused.unwrap().contains("points"));
    assert!(fake.made().iter().all(|made| made.status == 200), "Linear never had to refuse");
}
