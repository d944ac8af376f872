//! Deliveries of a tracker: which are accepted, and what comes of them (contract 12.8, 13.3).

use std::sync::Arc;

use async_trait::async_trait;
use secrecy::SecretString;
use serde_json::json;
use symphony_core::IssueId;
use symphony_core::time::Wall;
use symphony_core::tracker::{AgentTools, Poll, Polled, Tracker};
use symphony_core::webhook::{Delivery, DeliveryRefused, Webhook};
use symphony_http::Config;
use symphony_memory::MemoryTracker;

use crate::harness::{Harness, issue};

/// A board that delivers: `signature: board's` makes a delivery its own, the body names issues.
#[derive(Debug)]
struct Delivers(MemoryTracker);

#[async_trait]
impl Tracker for Delivers {
    async fn poll(&self, poll: &Poll) -> Polled {
        self.0.poll(poll).await
    }

    fn tools(&self) -> Option<Arc<dyn AgentTools>> {
        self.0.tools()
    }

    fn webhook(&self) -> Option<Arc<dyn Webhook>> {
        Some(Arc::new(Signature))
    }
}

#[derive(Debug)]
struct Signature;

impl Webhook for Signature {
    fn receive(&self, delivery: &Delivery<'_>, _: Wall) -> Result<Vec<IssueId>, DeliveryRefused> {
        if delivery.header("Signature") != Some(b"board's") {
            return Err(DeliveryRefused::Signature);
        }
        match delivery.body() {
            b"late" => Err(DeliveryRefused::Time),
            b"panic" => panic!("an adapter of somebody else"),
            body => {
                let ids = std::str::from_utf8(body).map_err(|_| DeliveryRefused::Content)?;
                Ok(ids.split_ascii_whitespace().map(IssueId::from).collect())
            }
        }
    }
}

const SIGNED: &str = "Signature: board's\r\n";

async fn harness() -> Harness {
    let harness = Harness::over(Config::default(), 3, |board| Arc::new(Delivers(board))).await;
    harness.until(|now| now.candidates.read_at.is_some()).await;
    harness
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_12_8_a_delivery_has_its_issues_read() {
    let harness = harness().await;
    harness.board.add(issue("1", "Sand the door", "hang"));
    let reply = harness.ask("POST", "/webhooks/board", SIGNED, "1").await;
    // Linear sends again what is not answered with 200.
    assert_eq!((reply.status, reply.json()), (200, json!({"received": true, "duplicate": false})));
    harness.until(|now| now.running.len() == 1).await;
    let state = harness.get("/api/v1/state").await.json();
    let webhook = &state["polling"]["webhook"];
    assert_eq!((&webhook["received"], &webhook["healthy"]), (&json!(1), &json!(true)));
    assert!(harness.get("/").await.body.contains("polls rely on them"));
    let candidates =
        harness.handle.last_snapshot().polling.requests_today.get("candidates").copied();
    assert_eq!(candidates, Some(1), "the first poll, and no other");
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_12_8_a_replayed_delivery_is_taken_once() {
    let harness = harness().await;
    for (number, duplicate) in [false, true, true].into_iter().enumerate() {
        // What is not signed may differ each time.
        let more = format!("{SIGNED}Delivery-Id: {number}\r\n");
        let reply = harness.ask("POST", "/webhooks/board", &more, "1 2").await;
        assert_eq!((reply.status, reply.json()["duplicate"].clone()), (200, json!(duplicate)));
    }
    harness.until(|now| now.polling.webhook.is_some()).await;
    let webhook = harness.handle.last_snapshot().polling.webhook.clone().unwrap();
    assert_eq!(webhook.received, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_12_8_forged_late_and_odd_deliveries_are_refused() {
    let harness = harness().await;
    harness.board.add(issue("1", "Sand the door", "hang"));
    for (more, body, status, code) in [
        ("", "1", 401, "bad_signature"),
        ("Signature: guess\r\n", "1", 401, "bad_signature"),
        ("Signature: board's\r\nSignature: board's\r\n", "1", 401, "bad_signature"),
        (SIGNED, "late", 400, "stale_delivery"),
        (SIGNED, "panic", 400, "bad_delivery"),
    ] {
        let reply = harness.ask("POST", "/webhooks/board", more, body).await;
        assert_eq!((reply.status, reply.code().as_str()), (status, code), "{more} {body}");
        assert_eq!(reply.header("www-authenticate"), None, "a browser has nothing to ask");
    }
    let snapshot = harness.handle.last_snapshot();
    assert_eq!((snapshot.polling.webhook.clone(), snapshot.running.len()), (None, 0));
    let metrics = harness.get("/metrics").await.body;
    assert!(metrics.contains("symphony_webhook_refused_total 5\n"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_12_8_only_the_tracker_that_runs_takes_deliveries() {
    let harness = harness().await;
    for path in ["/webhooks/linear", "/webhooks/Board", "/webhooks/board%20"] {
        let reply = harness.ask("POST", path, SIGNED, "1").await;
        assert_eq!((reply.status, reply.code().as_str()), (404, "no_webhook"), "{path}");
    }
    let plain = Harness::with(Config::default(), 1).await;
    let reply = plain.ask("POST", "/webhooks/board", SIGNED, "1").await;
    assert_eq!((reply.status, reply.code().as_str()), (404, "no_webhook"));
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_a_delivery_needs_its_signature_and_no_token() {
    let token = Some(SecretString::from("a token that is long enough to be one"));
    let config =
        Config { token, allowed_hosts: vec!["hooks.example".to_owned()], ..Config::default() };
    let harness = Harness::over(config, 1, |board| Arc::new(Delivers(board))).await;
    assert_eq!(harness.ask("POST", "/webhooks/board", SIGNED, "1").await.status, 200);
    assert_eq!(harness.post("/api/v1/refresh").await.status, 401);
    // Behind a proxy the Host is the one that the tracker knows.
    let request = |host: &str| {
        format!(
            "POST /webhooks/board HTTP/1.1\r\nHost: {host}\r\n{SIGNED}Content-Length: 1\r\n\
             Connection: close\r\n\r\n2"
        )
    };
    assert_eq!(harness.say(&request("hooks.example")).await.status, 200);
    assert_eq!(harness.say(&request("evil.example")).await.status, 403);
}
