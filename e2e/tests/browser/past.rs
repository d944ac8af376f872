//! What is over, and what was said.

use symphony_core::Label;
use symphony_e2e::Appearance;

use crate::harness::{HOSTILE, Harness, PHONE, WIDE, issue, take};

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_an_issue_that_is_over_shows_how_it_ended_and_nothing_red() {
    let harness = Harness::new().await;
    harness.add(issue("1", "Sand the door", "fail"));
    harness.until(|now| now.waiting.len() == 1).await;
    harness.visit("/issues/MT-1").await;
    harness
        .browser
        .until("document.querySelector('#error')?.innerText.includes('overloaded')")
        .await;

    // The next attempt gets it done.
    harness.board.update("1", |issue| issue.labels = Label::list(["done"]));
    let id = harness.handle.find(&"MT-1".into()).unwrap();
    harness.handle.retry(id).await.unwrap();
    harness.until(|now| now.totals.done == 1 && now.claimed().count() == 0).await;
    harness.browser.until("document.querySelector('#outcome')?.innerText === 'done'").await;
    let red = "return document.querySelector('.alert') === null";
    assert_eq!(harness.browser.run(red).await, true, "no box after a success");
    let shown = "return [document.querySelector('#title').innerText,
        document.querySelector('#fact-state').innerText,
        document.querySelector('tbody').innerText]";
    let shown = harness.browser.run(shown).await.to_string();
    for wanted in ["MT-1 Sand the door", "Done", "the model is overloaded"] {
        assert!(shown.contains(wanted), "no {wanted:?} in {shown}");
    }
    take(&harness.browser, "over-light.png", WIDE).await;
    take(&harness.browser, "over-phone.png", Appearance { dark: true, ..PHONE }).await;
    harness.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_what_was_said_is_read_from_the_page_of_its_issue() {
    let harness = Harness::new().await;
    harness.add(issue("1", HOSTILE, "speak"));
    harness.until(|now| now.running.iter().any(|row| row.last_event.is_some())).await;
    harness.visit("/issues/MT-1").await;
    let link = "document.querySelector('#fact-said a')";
    harness.browser.until(link).await;
    // What was said is written a moment later.
    harness.browser.run(&format!("{link}.click()")).await;
    let lines = "document.querySelectorAll('.said li').length";
    for _ in 0..100 {
        harness
            .browser
            .until("document.querySelector('#title')?.innerText.includes(', run ')")
            .await;
        if harness.browser.run(&format!("return {lines} >= 3")).await == true {
            break;
        }
        harness.browser.run("location.reload()").await;
    }
    harness.browser.until(&format!("{lines} >= 3")).await;
    let said = harness.browser.run("return document.querySelector('.said').innerText").await;
    let said = said.as_str().unwrap();
    for wanted in ["to agent", "from agent", "<script>window.hacked = 1</script>", "first word"] {
        assert!(said.contains(wanted), "no {wanted:?} in {said}");
    }
    assert!(harness.browser.run("return window.hacked").await.is_null());
    assert_eq!(harness.browser.run("return document.scripts.length").await, 1);
    let local = "document.querySelector('.said time')?.title.endsWith('Z')
        && !document.querySelector('.said time').innerText.includes('T')";
    harness.browser.until(local).await;
    take(&harness.browser, "transcript-light.png", WIDE).await;
    take(&harness.browser, "transcript-phone.png", PHONE).await;
    harness.close().await;
}
