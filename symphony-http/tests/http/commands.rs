//! What an operator may want.

use serde_json::json;

use crate::harness::Harness;

#[tokio::test(flavor = "multi_thread")]
async fn rule_4_7_a_poll_is_asked_for_in_the_shape_of_the_specification() {
    let harness = Harness::busy().await;
    let before = harness.board.requests();
    for body in ["", "{}"] {
        let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        let reply = harness.ask("POST", "/api/v1/refresh", kind, body).await;
        assert_eq!(reply.status, 202, "{reply:?}");
        let answer = reply.json();
        assert_eq!(answer["queued"], true);
        assert!(answer["coalesced"].is_boolean());
        assert!(answer["requested_at"].is_string());
        assert_eq!(answer["operations"], json!(["poll", "reconcile"]));
    }
    let polled = harness.until(|_| harness.board.requests() > before);
    polled.await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_4_7_starts_are_paused_and_resumed() {
    let harness = Harness::busy().await;
    let answer = harness.post("/api/v1/pause").await.json();
    assert_eq!(answer["operations"], json!(["pause"]));
    harness.until(|now| now.paused).await;
    assert_eq!(harness.get("/api/v1/state").await.json()["verdict"]["code"], "paused");
    assert_eq!(harness.post("/api/v1/pause").await.json()["coalesced"], true);
    harness.post("/api/v1/resume").await;
    harness.until(|now| !now.paused).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_4_7_an_issue_is_stopped_and_tried_again() {
    let harness = Harness::busy().await;
    assert_eq!(harness.post("/api/v1/MT-1/stop").await.status, 202);
    harness.until(|now| now.blocked.iter().any(|row| row.issue.id.as_str() == "1")).await;
    let issue = harness.get("/api/v1/MT-1").await.json();
    assert_eq!(
        (&issue["status"], &issue["blocked"]["reason"]),
        (&json!("blocked"), &json!("operator"))
    );
    assert_eq!(harness.post("/api/v1/MT-1/retry").await.status, 202);
    harness.until(|now| now.running.iter().any(|row| row.issue.id.as_str() == "1")).await;
    // One that waits for its next attempt need not wait.
    assert_eq!(harness.post("/api/v1/MT-2/retry").await.status, 202);
    harness.until(|now| now.totals.failed == 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_7_6_an_operator_clears_a_hold() {
    let harness = Harness::with(symphony_http::Config::default(), 1).await;
    harness.board.add(crate::harness::issue("1", "Sand the door", "limit"));
    harness.handle.poll_now().unwrap();
    harness.until(|now| now.holds.len() == 1 && now.running.is_empty()).await;
    let page = harness.get("/").await.body;
    assert!(page.contains("used up") && page.contains("/api/v1/clear-holds"), "{page}");
    let tried = harness.handle.last_snapshot().totals.started;
    let answer = harness.post("/api/v1/clear-holds").await.json();
    assert_eq!(answer["operations"], json!(["clear_holds"]));
    harness.until(|now| now.totals.started > tried).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_5_5_the_service_explains_itself() {
    let harness = Harness::busy().await;
    let answer = harness.get("/api/v1/explain").await.json();
    assert_eq!(answer["verdict"]["code"], "nothing_eligible");
    let rows = answer["unstarted"].as_array().unwrap();
    let names: Vec<&str> =
        rows.iter().map(|row| row["issue_identifier"].as_str().unwrap()).collect();
    assert_eq!(names, ["MT-2", "MT-3", "MT-4"]);
    for (name, status, message) in [
        ("MT-1", "running", "an agent works on it"),
        ("MT-2", "retrying", "waits for its next attempt"),
        ("MT-3", "blocked", "asks: Which <b>colour</b>?"),
        ("MT-4", "candidate", "blocked by MT-1"),
    ] {
        let answer = harness.get(&format!("/api/v1/explain/{name}")).await.json();
        assert_eq!(answer["status"], status, "{answer}");
        assert!(answer["message"].as_str().unwrap().starts_with(message), "{answer}");
    }
    assert_eq!(harness.get("/api/v1/explain/MT-99").await.code(), "issue_not_found");
}
