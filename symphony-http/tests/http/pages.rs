//! The dashboard without a browser: see e2e for one.

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
        "notification",
        "MT-2",
        "as the label says",
        "MT-3",
        "Which &#60;b&#62;colour",
        "blocked by MT-1",
        "no candidate may start",
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
