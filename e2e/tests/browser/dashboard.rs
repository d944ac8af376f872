//! What a person sees and does.

use crate::harness::{HOSTILE, Harness, blocker, issue};

/// Tab, Enter, Escape and Backspace, as WebDriver calls them.
const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";
const ESCAPE: &str = "\u{e00c}";

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_rows_appear_change_and_vanish_in_an_open_page() {
    let harness = Harness::new().await;
    harness.visit("/").await;
    harness.browser.until("document.querySelector('#none-running')").await;
    harness.browser.until("document.querySelector('#link').textContent === 'live'").await;
    harness.browser.run("window.here = true").await;

    harness.add(issue("7", "Mend the door", "speak"));
    let last = "document.querySelector('#run-MT-7 .last')?.innerText";
    harness.browser.until(&format!("{last}?.includes('first word')")).await;
    harness.gate.open();
    harness.browser.until(&format!("{last}?.includes('second word')")).await;
    harness.board.set_state("7", "Done");
    harness.handle.poll_now().unwrap();
    harness.browser.until("document.querySelector('#run-MT-7') === null").await;

    harness.add(issue("8", "Order paint", "fail"));
    harness
        .browser
        .until("document.querySelector('#wait-MT-8')?.innerText.includes('overloaded')")
        .await;
    harness
        .browser
        .until("/^\\d+ s$/.test(document.querySelector('#wait-MT-8 time')?.innerText)")
        .await;
    harness.add(issue("9", "Pay", "ask"));
    harness
        .browser
        .until("document.querySelector('#ask-MT-9')?.innerText.includes('providers')")
        .await;
    let mut waits = issue("10", "Paint the door", "hang");
    waits.state = "Todo".into();
    waits.blocked_by = vec![blocker("MT-9")];
    harness.add(waits);
    let why = "document.querySelector('#why-MT-10')?.innerText.includes('blocked by MT-9')";
    harness.browser.until(why).await;
    assert_eq!(harness.browser.run("return window.here").await, true, "it was one page all along");
    harness.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_1_a_hostile_title_is_shown_as_text() {
    let harness = Harness::new().await;
    harness.add(issue("3", HOSTILE, "hang"));
    harness.until(|now| now.running.len() == 1).await;
    for path in ["/", "/?q=script", "/issues/MT-3"] {
        harness.visit(path).await;
        let shown = "document.body.innerText.includes('<script>window.hacked = 1</script>')";
        harness.browser.until(shown).await;
        assert_eq!(harness.browser.run("return document.scripts.length").await, 1, "{path}");
        let pictures = "return [...document.images].filter((i) => !i.src.endsWith('.svg')).length";
        assert_eq!(harness.browser.run(pictures).await, 0, "{path}");
        assert!(harness.browser.run("return window.hacked").await.is_null(), "{path}");
    }
    // The same over the stream, which changes a page that is open.
    harness.visit("/").await;
    harness.board.update("3", |issue| issue.title = format!("{HOSTILE} again"));
    harness.handle.poll_now().unwrap();
    harness.browser.until("document.querySelector('#run-MT-3').innerText.includes('again')").await;
    assert!(harness.browser.run("return window.hacked").await.is_null());
    harness.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_everything_can_be_done_with_the_keyboard() {
    let harness = Harness::new().await;
    harness.add(issue("1", "Sand the door", "hang"));
    harness.add(issue("2", "Oil the hinges", "speak"));
    harness.until(|now| now.running.len() == 2).await;
    harness.visit("/").await;
    harness.browser.until("document.querySelector('#run-MT-2')").await;
    let shown = |id: u32| format!("document.querySelector('#run-MT-{id}').offsetParent !== null");

    // A search, and back.
    harness.browser.press("/hinges").await;
    harness.browser.until(&format!("!({}) && {}", shown(1), shown(2))).await;
    harness.browser.press(ESCAPE).await;
    harness.browser.until(&shown(1)).await;
    // Sent off, it looks through everything, and its page follows what happens.
    harness.browser.press("/hinges").await;
    harness.browser.press(ENTER).await;
    harness
        .browser
        .until("location.search === '?q=hinges' && document.querySelector('#run-MT-2')")
        .await;
    harness.browser.until("document.querySelector('#run-MT-1') === null").await;
    harness.board.update("2", |issue| issue.title = "Oil all hinges".to_owned());
    harness.handle.poll_now().unwrap();
    harness
        .browser
        .until("document.querySelector('#run-MT-2').innerText.includes('all hinges')")
        .await;
    harness.handle.pause().await.unwrap();
    let resume = "document.querySelector('[data-post=\"/api/v1/resume\"]')";
    harness.browser.until(&format!("!{resume}.hidden")).await;
    harness.handle.resume().await.unwrap();
    harness.browser.until(&format!("{resume}.hidden")).await;
    harness.visit("/").await;
    harness.browser.until("document.querySelector('#run-MT-1')").await;

    // A poll.
    let before = harness.board.requests();
    harness.browser.press("r").await;
    harness.browser.until("document.querySelector('#say').innerText.includes('poll')").await;
    harness.until(|_| harness.board.requests() > before).await;

    // From the top, Tab reaches the button that stops MT-2; it stays in hand when its row changes.
    harness.browser.run("document.activeElement.blur()").await;
    let button = "document.activeElement.dataset.post === '/api/v1/MT-2/stop'";
    for _ in 0..40 {
        harness.browser.press(TAB).await;
        if harness.browser.run(&format!("return {button}")).await == true {
            break;
        }
    }
    harness.browser.until(button).await;
    harness.gate.open();
    harness
        .browser
        .until("document.querySelector('#run-MT-2 .last').innerText.includes('second')")
        .await;
    harness.browser.until(button).await;
    harness.browser.press(ENTER).await;
    harness.browser.accept().await;
    harness.browser.until("document.querySelector('#ask-MT-2')").await;
    harness.until(|now| now.blocked.len() == 1 && now.running.len() == 1).await;

    // Pause and resume: one button takes the place of the other.
    harness.browser.run("document.querySelector('[data-post=\"/api/v1/pause\"]').focus()").await;
    harness.browser.press(ENTER).await;
    harness.browser.until("document.querySelector('#alert-paused')").await;
    harness.browser.run("document.querySelector('[data-post=\"/api/v1/resume\"]').focus()").await;
    harness.browser.press(ENTER).await;
    harness.browser.until("document.querySelector('#alert-paused') === null").await;
    harness.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_an_issue_has_a_page_that_follows_it() {
    let harness = Harness::new().await;
    harness.add(issue("1", "Sand the door", "speak"));
    harness.until(|now| now.running.iter().any(|row| row.last_event.is_some())).await;
    harness.visit("/").await;
    harness.browser.until("document.querySelector('#run-MT-1')").await;
    harness.browser.run("document.querySelector('#run-MT-1 a').click()").await;
    harness
        .browser
        .until("document.querySelector('#timeline')?.innerText.includes('first word')")
        .await;
    harness.gate.open();
    harness
        .browser
        .until("document.querySelector('#timeline').innerText.includes('second word')")
        .await;
    harness.board.set_state("1", "Done");
    harness.handle.poll_now().unwrap();
    harness.browser.until("document.querySelector('#title').innerText.includes('released')").await;
    harness.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_2_a_page_that_hears_nothing_says_so() {
    let harness = Harness::new().await;
    harness.visit("/").await;
    harness.browser.until("document.querySelector('#link').textContent === 'live'").await;
    harness.end_server();
    harness.browser.until("document.querySelector('#link').textContent === 'no connection'").await;
    harness.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_any_number_of_tabs_can_be_open() {
    let harness = Harness::new().await;
    harness.add(issue("1", "Sand the door", "hang"));
    // A browser has six connections to one server.
    for _ in 0..8 {
        harness.visit("/").await;
        harness.browser.until("document.querySelector('#link').textContent === 'live'").await;
        harness.browser.new_tab().await;
    }
    harness.visit("/").await;
    harness.browser.until("document.querySelector('#run-MT-1')").await;
    harness.board.set_state("1", "Done");
    harness.handle.poll_now().unwrap();
    harness.browser.until("document.querySelector('#run-MT-1') === null").await;
    // One that is looked at again has not missed anything.
    harness.browser.first_tab().await;
    harness.browser.until("document.querySelector('#none-running')").await;
    harness.close().await;
}
