//! What an operator may want.

use serde_json::json;

use crate::stage::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn rule_4_7_a_poll_is_asked_for_in_the_shape_of_the_specification() {
    let stage = Stage::busy().await;
    let before = stage.board.requests();
    for body in ["", "{}"] {
        let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        let reply = stage.ask("POST", "/api/v1/refresh", kind, body).await;
        assert_eq!(reply.status, 202, "{reply:?}");
        let answer = reply.json();
        assert_eq!(answer["queued"], true);
        assert!(answer["coalesced"].is_boolean());
        assert!(answer["requested_at"].is_string());
        assert_eq!(answer["operations"], json!(["poll", "reconcile"]));
    }
    let polled = stage.until(|_| stage.board.requests() > before);
    polled.await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_4_7_starts_are_paused_and_resumed() {
    let stage = Stage::busy().await;
    let answer = stage.post("/api/v1/pause").await.json();
    assert_eq!(answer["operations"], json!(["pause"]));
    stage.until(|now| now.paused).await;
    assert_eq!(stage.get("/api/v1/state").await.json()["verdict"]["code"], "paused");
    assert_eq!(stage.post("/api/v1/pause").await.json()["coalesced"], true);
    stage.post("/api/v1/resume").await;
    stage.until(|now| !now.paused).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_4_7_an_issue_is_stopped_and_tried_again() {
    let stage = Stage::busy().await;
    assert_eq!(stage.post("/api/v1/MT-1/stop").await.status, 202);
    stage.until(|now| now.blocked.iter().any(|row| row.issue.id.as_str() == "1")).await;
    let issue = stage.get("/api/v1/MT-1").await.json();
    assert_eq!(
        (&issue["status"], &issue["blocked"]["reason"]),
        (&json!("blocked"), &json!("operator"))
    );
    assert_eq!(stage.post("/api/v1/MT-1/retry").await.status, 202);
    stage.until(|now| now.running.iter().any(|row| row.issue.id.as_str() == "1")).await;
    // One that waits for its next attempt need not wait.
    assert_eq!(stage.post("/api/v1/MT-2/retry").await.status, 202);
    stage.until(|now| now.totals.failed == 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_7_6_an_operator_clears_a_hold() {
    let stage = Stage::with(symphony_http::Config::default(), 1).await;
    stage.board.add(crate::stage::issue("1", "Sand the door", "limit"));
    stage.handle.poll_now().unwrap();
    stage.until(|now| now.holds.len() == 1 && now.running.is_empty()).await;
    let page = stage.get("/").await.body;
    assert!(page.contains("used up") && page.contains("/api/v1/clear-holds"), "{page}");
    let tried = stage.handle.last_snapshot().totals.started;
    let answer = stage.post("/api/v1/clear-holds").await.json();
    assert_eq!(answer["operations"], json!(["clear_holds"]));
    stage.until(|now| now.totals.started > tried).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_5_5_the_service_explains_itself() {
    let stage = Stage::busy().await;
    let answer = stage.get("/api/v1/explain").await.json();
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
        let answer = stage.get(&format!("/api/v1/explain/{name}")).await.json();
        assert_eq!(answer["status"], status, "{answer}");
        assert!(answer["message"].as_str().unwrap().starts_with(message), "{answer}");
    }
    assert_eq!(stage.get("/api/v1/explain/MT-99").await.code(), "issue_not_found");
}
