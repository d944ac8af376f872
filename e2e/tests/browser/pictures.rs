//! The pictures of the documents: `scripts/screenshots` puts them there.

use symphony_e2e::Appearance;

use crate::harness::{Harness, NARROW, PHONE, WIDE, blocker, issue, take};

/// Fills the board with what a working day has.
async fn busy(harness: &Harness) {
    for (id, title, label) in [
        ("101", "Checkout: keep the basket when a session ends", "limits"),
        ("102", "Search finds nothing behind an umlaut", "test"),
        ("104", "Rewrite the importer's retry loop", "hang"),
        ("107", "Dark mode for the invoices", "speak"),
        ("108", "Move payments to one provider", "ask"),
        ("110", "Flaky test in the mailer", "fail"),
    ] {
        harness.board.add(issue(id, title, label));
    }
    for (id, title) in [("112", "Delete the second provider"), ("113", "Tell customers")] {
        let mut waits = issue(id, title, "hang");
        waits.state = "Todo".into();
        waits.blocked_by = vec![blocker("MT-108")];
        harness.board.add(waits);
    }
    harness.handle.poll_now().unwrap();
    harness
        .until(|now| {
            now.running.iter().filter(|row| row.last_event.is_some()).count() == 4
                && now.waiting.len() == 1
                && now.blocked.len() == 1
                && now.rate_limits.is_some()
                && now.candidates.first.len() >= 2
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_the_dashboard_fits_every_window_and_its_pictures_are_taken() {
    let harness = Harness::new().await;
    busy(&harness).await;
    harness.visit("/").await;
    harness.browser.until("document.querySelectorAll('#main tr[id^=run-]').length === 4").await;
    harness.browser.until("document.querySelectorAll('.chart rect').length >= 3").await;
    let browser = &harness.browser;
    take(browser, "dashboard-light.png", WIDE).await;
    take(browser, "dashboard-dark.png", Appearance { dark: true, ..WIDE }).await;
    take(browser, "dashboard-phone.png", PHONE).await;
    let named = "return getComputedStyle(document.querySelector('#run-MT-101 [data-label=Age]'), '::before').content";
    let named = harness.browser.run(named).await;
    assert!(
        named.as_str().is_some_and(|text| text.contains("Age")),
        "a number has its name: {named}"
    );
    take(browser, "dashboard-narrow.png", NARROW).await;
    harness.visit("/issues/MT-110").await;
    harness.browser.until("document.querySelector('#timeline')").await;
    let local = "/^\\d/.test(document.querySelector('#timeline time').textContent) && !document.querySelector('#timeline time').textContent.includes('T') && document.querySelector('#timeline time').title.endsWith('Z')";
    harness.browser.until(local).await;
    take(browser, "issue-light.png", WIDE).await;
    take(browser, "issue-phone.png", Appearance { dark: true, ..PHONE }).await;
    harness.close().await;
}
