//! The dashboard without a browser: see e2e for one.

use symphony_http::Config;

use crate::harness::Harness;

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_1_a_hostile_title_is_text_on_every_page() {
    let harness = Harness::busy().await;
    for path in ["/", "/?q=script", "/issues/MT-3", "/?q=%3Cscript%3Ealert(2)%3C%2Fscript%3E"] {
        let page = harness.get(path).await;
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
        let scripts = page.body.matches("<script").count();
        assert_eq!(scripts, 1, "only our own: {path}\n{}", page.body);
        assert!(!page.body.contains("<b>colour"), "{path}");
        assert!(!page.body.contains("javascript:"), "{path}");
        assert!(!page.body.contains(['\u{1b}', '\u{202e}']), "{path}");
        assert!(!page.body.contains("style=") && !page.body.contains("onclick"), "{path}");
    }
    assert!(harness.get("/").await.body.contains("&#60;script&#62;alert(1)"));
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_the_dashboard_is_readable_without_a_script() {
    let harness = Harness::busy().await;
    let page = harness.get("/").await.body;
    for text in [
        "MT-1",
        "Sand the door",
        "https://tracker.example/MT-1",
        "at work",
        "MT-2",
        "as the label says",
        "MT-3",
        "Which &#60;b&#62;colour",
        "blocked by MT-1",
        "1 runs, 1 waits, 1 needs a person, 1 blocked by others",
        "Paint the door",
        "candidates",
        "next in",
    ] {
        assert!(page.contains(text), "{text} is not on the page\n{page}");
    }
    let found = harness.get("/?q=door").await.body;
    assert!(found.contains("MT-1") && !found.contains("MT-2"), "{found}");
    let issue = harness.get("/issues/MT-2").await.body;
    for text in ["run_started", "run_failed", "as the label says", "Workspace"] {
        assert!(issue.contains(text), "{text} is not on the page\n{issue}");
    }
    let missing = harness.get("/issues/MT-99").await;
    assert!(missing.status == 404 && missing.body.contains("no issue MT-99 is known"));
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_what_was_said_in_a_run_is_a_page_of_escaped_text() {
    let harness = Harness::busy().await;
    let issue = harness.get("/api/v1/MT-3").await.json();
    let logs = issue["logs"]["codex_session_logs"].as_array().unwrap().clone();
    let urls: Vec<&str> = logs.iter().filter_map(|log| log["url"].as_str()).collect();
    assert!(urls.contains(&"/issues/MT-3/runs/0.7"), "{logs:?}");
    assert!(harness.get("/issues/MT-3").await.body.contains("href=\"/issues/MT-3/runs/0.7\""));
    let page = harness.get("/issues/MT-3/runs/0.7").await;
    assert_eq!(page.status, 200);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(page.body.contains("&#60;script&#62;alert(3)") && !page.body.contains("<script>alert"));
    assert!(page.body.contains("2 lines were lost here"), "{}", page.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_no_path_leads_to_another_file_than_a_transcript() {
    let harness = Harness::busy().await;
    for path in [
        "/issues/MT-3/runs/..%2F..%2F..%2Fetc%2Fpasswd",
        "/issues/MT-3/runs/0.7.jsonl",
        "/issues/MT-3/runs/0.7%00",
        "/issues/MT-3/runs/%2e%2e",
        "/issues/MT-3/runs/9.9",
        "/issues/MT-1/runs/0.7",
        "/issues/..%2FMT-3/runs/0.7",
        "/issues/%2e%2e/runs/0.7",
        "/issues/MT-3%2F./runs/0.7",
    ] {
        let page = harness.get(path).await;
        assert_eq!(page.status, 404, "{path}");
        assert!(!page.body.contains("root:"), "{path}");
    }
    let foreign =
        harness.ask("GET", "/issues/MT-3/runs/0.7", "Origin: http://evil.example\r\n", "");
    assert_eq!(foreign.await.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_a_page_says_which_service_it_is_of() {
    let harness = Harness::busy().await;
    for path in ["/", "/issues/MT-1"] {
        let page = harness.get(path).await.body;
        assert!(page.contains(&format!("<bdi>127.0.0.1:{}</bdi>", harness.port)), "{page}");
        assert!(page.contains("<bdi>board</bdi>"), "{page}");
    }
    assert!(harness.get("/").await.body.contains("<title>board · Symphony</title>"));
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_what_waits_or_is_blocked_is_not_repeated_among_candidates() {
    let harness = Harness::busy().await;
    let page = harness.get("/").await.body;
    assert!(page.contains("id=\"why-MT-4\""), "{page}");
    for name in ["MT-1", "MT-2", "MT-3"] {
        assert!(!page.contains(&format!("id=\"why-{name}\"")), "{name}\n{page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_an_issue_that_is_over_keeps_its_title_and_its_outcome() {
    let harness = Harness::busy().await;
    harness.board.add(crate::harness::issue("9", "Varnish the door", "done"));
    harness.handle.poll_now().unwrap();
    harness
        .until(|now| now.totals.done == 1 && now.claimed().all(|row| row.id.as_str() != "9"))
        .await;
    let issue = harness.get("/api/v1/MT-9").await.json();
    assert_eq!(
        (&issue["title"], &issue["last_error"]),
        (&"Varnish the door".into(), &serde_json::Value::Null)
    );
    assert_eq!(issue["tracked"]["state"], "Done");
    let page = harness.get("/issues/MT-9").await.body;
    for text in ["Varnish the door", "id=\"outcome\">done<", "<bdi>Done</bdi>"] {
        assert!(page.contains(text), "{text}\n{page}");
    }
    assert!(!page.contains("Last error"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_limits_without_a_window_have_no_card() {
    let harness = Harness::with(Config::default(), 1).await;
    harness.board.add(crate::harness::issue("1", "Sand the door", "windowless"));
    harness.handle.poll_now().unwrap();
    harness.until(|now| now.rate_limits.is_some()).await;
    let page = harness.get("/").await.body;
    assert!(page.contains("id=\"card-chart\"") && !page.contains("id=\"card-limits\""), "{page}");
}
