//! The shapes of the API: field by field those of the public specification 13.7, and the errors.

use serde_json::{Map, Value, json};

use crate::harness::Harness;

fn object(value: &Value) -> &Map<String, Value> {
    value.as_object().unwrap_or_else(|| panic!("no object: {value}"))
}

fn is_time(value: &Value) -> bool {
    value.as_str().is_some_and(|text| symphony_core::time::Wall::parse(text).is_some())
}

/// What a value must be.
type Is = fn(&Value) -> bool;

/// The fields that the specification names, with what each must be.
fn check(value: &Value, fields: &[(&str, Is)]) {
    let object = object(value);
    for (name, is_right) in fields {
        let field = object.get(*name).unwrap_or_else(|| panic!("{name} is missing in {value}"));
        assert!(is_right(field), "{name} is {field} in {value}");
    }
}

fn or_null(is_right: Is) -> impl Fn(&Value) -> bool {
    move |value| value.is_null() || is_right(value)
}

fn check_tokens(value: &Value) {
    let number: Is = Value::is_u64;
    check(value, &[("input_tokens", number), ("output_tokens", number), ("total_tokens", number)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_the_state_has_the_shape_of_the_specification() {
    let harness = Harness::busy().await;
    let reply = harness.get("/api/v1/state").await;
    assert_eq!(reply.status, 200);
    let state = reply.json();
    assert!(is_time(&state["generated_at"]));
    assert_eq!(state["counts"]["running"], 1);
    assert_eq!(state["counts"]["retrying"], 1);
    let [running] = &state["running"].as_array().unwrap()[..] else { panic!("{state}") };
    check(
        running,
        &[
            ("issue_id", |value| value == "1"),
            ("issue_identifier", |value| value == "MT-1"),
            ("issue_url", |value| value == "https://tracker.example/MT-1"),
            ("state", |value| value == "Todo"),
            ("session_id", Value::is_string),
            ("turn_count", |value| value == 1),
            ("last_event", |value| value == "notification"),
            ("last_message", |value| value == "at work"),
            ("started_at", is_time),
            ("last_event_at", is_time),
        ],
    );
    check_tokens(&running["tokens"]);
    let [retrying] = &state["retrying"].as_array().unwrap()[..] else { panic!("{state}") };
    check(
        retrying,
        &[
            ("issue_id", |value| value == "2"),
            ("issue_identifier", |value| value == "MT-2"),
            ("issue_url", |value| value == "https://tracker.example/MT-2"),
            ("attempt", |value| value == 1),
            ("due_at", is_time),
            ("error", |value| value.as_str().is_some_and(|text| text.contains("as the label"))),
        ],
    );
    check_tokens(&state["codex_totals"]);
    assert!(state["codex_totals"]["seconds_running"].is_f64());
    assert!(object(&state).contains_key("rate_limits"));
    assert!(state["rate_limits"].is_null());
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_2_the_state_tells_what_is_asked_and_why_nothing_starts() {
    let harness = Harness::busy().await;
    let state = harness.get("/api/v1/state").await.json();
    assert_eq!(state["blocked"][0]["question"], "Which <b>colour</b>?");
    assert_eq!(state["blocked"][0]["issue_url"], Value::Null, "no link but to a web page");
    let reasons = state["candidates"]["first"].as_array().unwrap();
    let of = |name: &str| reasons.iter().find(|row| row["issue_identifier"] == name).unwrap();
    assert_eq!(of("MT-4")["reason"], "blocked_by");
    assert_eq!(of("MT-4")["message"], "blocked by MT-1");
    assert_eq!(state["verdict"]["code"], "nothing_eligible");
    assert_eq!(
        state["slots"],
        json!({"used": 1, "limit": 3, "by_state": {"Todo": 1}, "by_host": {"local": 1}})
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_an_issue_has_the_shape_of_the_specification() {
    let harness = Harness::busy().await;
    let reply = harness.get("/api/v1/MT-1").await;
    assert_eq!(reply.status, 200);
    let issue = reply.json();
    check(
        &issue,
        &[
            ("issue_identifier", |value| value == "MT-1"),
            ("issue_id", |value| value == "1"),
            ("status", |value| value == "running"),
            ("workspace", |value| value["path"].as_str().unwrap().ends_with("/work/MT-1")),
            ("attempts", |value| value["restart_count"] == 0),
            ("retry", Value::is_null),
            ("logs", |value| value["codex_session_logs"].is_array()),
            ("recent_events", Value::is_array),
            ("last_error", Value::is_null),
            ("tracked", Value::is_object),
        ],
    );
    assert!(object(&issue["attempts"]).contains_key("current_retry_attempt"));
    check(
        &issue["running"],
        &[
            ("session_id", Value::is_string),
            ("turn_count", |value| value == 1),
            ("state", |value| value == "Todo"),
            ("started_at", is_time),
            ("last_event", |value| value == "notification"),
            ("last_message", |value| value == "at work"),
            ("last_event_at", is_time),
        ],
    );
    check_tokens(&issue["running"]["tokens"]);
    let events = issue["recent_events"].as_array().unwrap();
    let [started, .., said] = &events[..] else { panic!("{events:?}") };
    assert_eq!(started["event"], "run_started");
    assert_eq!((&said["event"], &said["message"]), (&json!("notification"), &json!("at work")));
    assert!(is_time(&said["at"]));

    let failed = harness.get("/api/v1/MT-2").await.json();
    assert_eq!(failed["status"], "retrying");
    assert_eq!(failed["attempts"]["current_retry_attempt"], 1);
    assert_eq!(failed["attempts"]["runs"][0]["outcome"], "failed");
    assert!(failed["last_error"].as_str().unwrap().contains("as the label says"));
    assert!(or_null(Value::is_object)(&failed["retry"]) && failed["running"].is_null());
    assert_eq!(harness.get("/api/v1/MT-3").await.json()["status"], "blocked");
    let candidate = harness.get("/api/v1/MT-4").await.json();
    assert_eq!(candidate["status"], "candidate");
    assert_eq!(candidate["unstarted"]["reason"], "blocked_by");
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_6_5_an_issue_that_is_called_otherwise_is_still_worked_on_where_it_was() {
    let harness = Harness::busy().await;
    harness.board.update("1", |issue| issue.identifier = "OPS-9".into());
    let _ = harness.handle.poll_now();
    harness.until(|now| now.running.iter().any(|row| row.issue.identifier == "OPS-9".into())).await;
    let issue = harness.get("/api/v1/OPS-9").await.json();
    assert_eq!(issue["running"]["workspace_key"], "MT-1");
    assert!(issue["workspace"]["path"].as_str().unwrap().ends_with("/work/MT-1"), "{issue}");
    // It is known by its new name after its end too.
    harness.board.set_state("1", "Done");
    let _ = harness.handle.poll_now();
    harness.until(|now| now.totals.done == 1 && now.cleaning.is_empty()).await;
    assert_eq!(harness.get("/api/v1/OPS-9").await.json()["issue_id"], "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_an_issue_is_known_for_a_while_after_its_end() {
    let harness = Harness::with(symphony_http::Config::default(), 1).await;
    harness.board.add(crate::harness::issue("9", "Quick", "none"));
    let _ = harness.handle.poll_now();
    harness.board.wait_until(|board| board.is_in("9", "Done")).await;
    harness.until(|now| now.running.is_empty() && now.totals.done == 1).await;
    harness.until(|now| now.cleaning.is_empty() && now.waiting.is_empty()).await;
    let issue = harness.get("/api/v1/MT-9").await.json();
    assert_eq!(issue["status"], "released");
    assert_eq!(issue["attempts"]["runs"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_errors_have_one_envelope() {
    let harness = Harness::busy().await;
    for (method, path, status, code) in [
        ("GET", "/api/v1/MT-99", 404, "issue_not_found"),
        ("GET", "/api/v1/MT-99/", 404, "not_found"),
        ("GET", "/nowhere", 404, "not_found"),
        ("GET", "/api/v2/state", 404, "not_found"),
        ("POST", "/api/v1/state", 405, "method_not_allowed"),
        ("DELETE", "/api/v1/MT-1", 405, "method_not_allowed"),
        ("GET", "/api/v1/refresh", 405, "method_not_allowed"),
        ("PUT", "/api/v1/pause", 405, "method_not_allowed"),
        ("POST", "/", 405, "method_not_allowed"),
        ("OPTIONS", "/api/v1/refresh", 405, "method_not_allowed"),
        ("POST", "/api/v1/MT-99/stop", 404, "issue_not_found"),
        ("POST", "/api/v1/MT-4/stop", 409, "not_claimed"),
        ("POST", "/api/v1/MT-1/retry", 409, "not_waiting"),
        ("GET", "/api/v1/%ff", 400, "bad_identifier"),
        ("POST", "/webhooks/linear", 404, "no_webhook"),
    ] {
        let reply = harness.ask(method, path, "", "").await;
        assert_eq!((reply.status, reply.code().as_str()), (status, code), "{method} {path}");
        assert_eq!(reply.header("allow").is_some(), status == 405, "{method} {path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_fixed_names_win_and_identifiers_are_percent_encoded() {
    let harness = Harness::with(symphony_http::Config::default(), 4).await;
    for (id, identifier) in [("a", "state"), ("b", "A/B ü"), ("c", "..")] {
        let mut issue = crate::harness::issue(id, "odd", "hang");
        issue.identifier = identifier.into();
        harness.board.add(issue);
    }
    let _ = harness.handle.poll_now();
    harness.until(|now| now.running.len() == 2).await;
    assert!(harness.get("/api/v1/state").await.json()["counts"].is_object());
    assert_eq!(harness.get("/api/v1/%73tate").await.json()["issue_id"], "a");
    assert_eq!(harness.get("/api/v1/A%2FB%20%C3%BC").await.json()["issue_id"], "b");
    assert_eq!(
        harness.get("/api/v1/%2E%2E").await.json()["unstarted"]["reason"],
        "invalid_identifier"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_a_state_that_is_known_is_not_sent_again() {
    let harness = Harness::with(symphony_http::Config::default(), 1).await;
    harness
        .until(|now| {
            now.candidates.read_at.is_some() && !now.polling.jobs.iter().any(|job| job.in_progress)
        })
        .await;
    let first = harness.get("/api/v1/state").await;
    let tag = first.header("etag").unwrap();
    // A proxy that compresses makes the tag a weak one, and a cache may know several.
    for known in [tag.to_owned(), format!("W/{tag}"), format!("\"x\", W/{tag}"), "*".to_owned()] {
        let headers = format!("If-None-Match: {known}\r\n");
        let again = harness.ask("GET", "/api/v1/state", &headers, "").await;
        assert_eq!((again.status, again.body.as_str()), (304, ""), "{known}");
    }
    let _ = harness.handle.pause().await;
    harness.until(|now| now.paused).await;
    let other = harness.ask("GET", "/api/v1/state", &format!("If-None-Match: {tag}\r\n"), "").await;
    assert_eq!((other.status, other.json()["paused"].clone()), (200, json!(true)));
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_every_route_answers_as_its_document_says() {
    let harness = Harness::busy().await;
    let document = harness.get("/api/v1/openapi.json").await.json();
    assert_eq!(document, symphony_http::document());
    let paths = object(&document["paths"]);
    for (path, operations) in paths {
        let (method, operation) = object(operations).iter().next().unwrap();
        let asked =
            path.replace("{identifier}", if path.ends_with("retry") { "MT-2" } else { "MT-1" });
        if path == "/api/v1/events" {
            continue; // has no end; see events.rs
        }
        let reply = harness.ask(&method.to_uppercase(), &asked, "", "").await;
        let responses = object(&operation["responses"]);
        let said = responses
            .get(&reply.status.to_string())
            .unwrap_or_else(|| panic!("{method} {path} gave {}", reply.status));
        assert!(reply.status < 300 || path.starts_with("/webhooks"), "{path}: {reply:?}");
        if let Some(schema) = said["content"]["application/json"]["schema"].as_object() {
            let mut schema = schema.clone();
            schema.insert("components".to_owned(), document["components"].clone());
            let validator = jsonschema::validator_for(&Value::Object(schema)).unwrap();
            let body = reply.json();
            let faults: Vec<String> = validator
                .iter_errors(&body)
                .map(|fault| format!("{fault} at {}", fault.instance_path()))
                .collect();
            assert!(faults.is_empty(), "{path}: {faults:#?}");
        }
        // Any other method is refused, as the document says of every route.
        let other = if method == "get" { "DELETE" } else { "GET" };
        assert_eq!(harness.ask(other, &asked, "", "").await.status, 405, "{other} {path}");
    }
    assert!(paths.len() >= 15, "{paths:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_2_when_the_service_is_gone_the_server_says_so() {
    let harness = Harness::busy().await;
    assert_eq!(harness.get("/healthz").await.body, "ok\n");
    assert_eq!(harness.get("/readyz").await.body, "ready\n");
    harness.handle.shut_down().unwrap();
    let gone = async {
        while harness.handle.snapshot().is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), gone).await.unwrap();
    for path in [
        "/api/v1/state",
        "/api/v1/MT-1",
        "/api/v1/explain",
        "/healthz",
        "/readyz",
        "/metrics",
        "/api/v1/events",
    ] {
        let reply = harness.get(path).await;
        assert_eq!((reply.status, reply.code().as_str()), (503, "unavailable"), "{path}");
    }
    assert_eq!(harness.post("/api/v1/refresh").await.status, 503);
    let page = harness.get("/").await;
    assert!(page.status == 503 && page.body.contains("not running any more"));
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_metrics_are_what_prometheus_reads() {
    let harness = Harness::busy().await;
    let reply = harness.get("/metrics").await;
    assert_eq!(reply.header("content-type"), Some("text/plain; version=0.0.4"));
    for line in [
        "symphony_issues{stage=\"running\"} 1",
        "symphony_issues{stage=\"retrying\"} 1",
        "symphony_issues{stage=\"blocked\"} 1",
        "symphony_unstarted{reason=\"blocked_by\"} 1",
        "symphony_runs_ended_total{outcome=\"failed\"} 1",
        "symphony_tokens_total{kind=\"input\"} 1200",
        "symphony_slots{kind=\"limit\"} 3",
        "symphony_paused 0",
    ] {
        assert!(reply.body.lines().any(|known| known == line), "{line} is not in\n{}", reply.body);
    }
    let mut names = std::collections::BTreeSet::new();
    let mut typed = "";
    for line in reply.body.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            typed = rest.split(' ').next().unwrap();
            assert!(names.insert(typed), "{typed} twice");
        } else if !line.starts_with('#') {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert_eq!(name.split('{').next().unwrap(), typed, "{line}");
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
    }
}
