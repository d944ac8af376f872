//! What a person sees and does.

use crate::stage::{HOSTILE, Stage, issue};

/// Tab, Enter, Escape and Backspace, as WebDriver calls them.
const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";
const ESCAPE: &str = "\u{e00c}";

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_rows_appear_change_and_vanish_while_somebody_looks() {
    let stage = Stage::new().await;
    stage.visit("/").await;
    stage.browser.until("document.querySelector('#none-running')").await;
    stage.browser.until("document.querySelector('#link').textContent === 'live'").await;
    stage.browser.run("window.here = true").await;

    stage.add(issue("7", "Mend the door", "speak"));
    let last = "document.querySelector('#run-MT-7 .last')?.innerText";
    stage.browser.until(&format!("{last}?.includes('first word')")).await;
    stage.gate.open();
    stage.browser.until(&format!("{last}?.includes('second word')")).await;
    stage.board.set_state("7", "Done");
    stage.handle.poll_now().unwrap();
    stage.browser.until("document.querySelector('#run-MT-7') === null").await;

    stage.add(issue("8", "Order paint", "fail"));
    stage
        .browser
        .until("document.querySelector('#wait-MT-8')?.innerText.includes('overloaded')")
        .await;
    stage
        .browser
        .until("/^\\d+ s$/.test(document.querySelector('#wait-MT-8 time')?.innerText)")
        .await;
    stage.add(issue("9", "Pay", "ask"));
    stage
        .browser
        .until("document.querySelector('#ask-MT-9')?.innerText.includes('providers')")
        .await;
    let mut waits = issue("10", "Paint the door", "hang");
    waits.state = "Todo".into();
    waits.blocked_by = vec![blocker("9")];
    stage.add(waits);
    let why = "document.querySelector('#why-MT-10')?.innerText.includes('blocked by MT-9')";
    stage.browser.until(why).await;
    assert_eq!(stage.browser.run("return window.here").await, true, "it was one page all along");
    stage.close().await;
}

fn blocker(id: &str) -> symphony_core::Blocker {
    let mut blocker = symphony_core::Blocker::default();
    blocker.id = Some(id.into());
    blocker.identifier = Some(format!("MT-{id}").as_str().into());
    blocker.state = Some("In Progress".into());
    blocker
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_1_a_hostile_title_is_shown_as_text() {
    let stage = Stage::new().await;
    stage.add(issue("3", HOSTILE, "hang"));
    stage.until(|now| now.running.len() == 1).await;
    for path in ["/", "/?q=script", "/issues/MT-3"] {
        stage.visit(path).await;
        let shown = "document.body.innerText.includes('<script>window.hacked = 1</script>')";
        stage.browser.until(shown).await;
        assert_eq!(stage.browser.run("return document.scripts.length").await, 1, "{path}");
        let pictures = "return [...document.images].filter((i) => !i.src.endsWith('.svg')).length";
        assert_eq!(stage.browser.run(pictures).await, 0, "{path}");
        assert!(stage.browser.run("return window.hacked").await.is_null(), "{path}");
    }
    // The same over the stream, which changes a page that is open.
    stage.visit("/").await;
    stage.board.update("3", |issue| issue.title = format!("{HOSTILE} again"));
    stage.handle.poll_now().unwrap();
    stage.browser.until("document.querySelector('#run-MT-3').innerText.includes('again')").await;
    assert!(stage.browser.run("return window.hacked").await.is_null());
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_everything_can_be_done_with_the_keyboard() {
    let stage = Stage::new().await;
    stage.add(issue("1", "Sand the door", "hang"));
    stage.add(issue("2", "Oil the hinges", "speak"));
    stage.until(|now| now.running.len() == 2).await;
    stage.visit("/").await;
    stage.browser.until("document.querySelector('#run-MT-2')").await;
    let shown = |id: u32| format!("document.querySelector('#run-MT-{id}').offsetParent !== null");

    // A search, and back.
    stage.browser.press("/hinges").await;
    stage.browser.until(&format!("!({}) && {}", shown(1), shown(2))).await;
    stage.browser.press(ESCAPE).await;
    stage.browser.until(&shown(1)).await;
    // Sent off, it looks through everything, and its page follows what happens.
    stage.browser.press("/hinges").await;
    stage.browser.press(ENTER).await;
    stage
        .browser
        .until("location.search === '?q=hinges' && document.querySelector('#run-MT-2')")
        .await;
    stage.browser.until("document.querySelector('#run-MT-1') === null").await;
    stage.board.update("2", |issue| issue.title = "Oil all hinges".to_owned());
    stage.handle.poll_now().unwrap();
    stage
        .browser
        .until("document.querySelector('#run-MT-2').innerText.includes('all hinges')")
        .await;
    stage.handle.pause().unwrap();
    let resume = "document.querySelector('[data-post=\"/api/v1/resume\"]')";
    stage.browser.until(&format!("!{resume}.hidden")).await;
    stage.handle.resume().unwrap();
    stage.browser.until(&format!("{resume}.hidden")).await;
    stage.visit("/").await;
    stage.browser.until("document.querySelector('#run-MT-1')").await;

    // A poll.
    let before = stage.board.requests();
    stage.browser.press("r").await;
    stage.browser.until("document.querySelector('#say').innerText.includes('poll')").await;
    stage.until(|_| stage.board.requests() > before).await;

    // From the top, Tab reaches the button that stops MT-2; it stays in hand when its row changes.
    stage.browser.run("document.activeElement.blur()").await;
    let button = "document.activeElement.dataset.post === '/api/v1/MT-2/stop'";
    for _ in 0..40 {
        stage.browser.press(TAB).await;
        if stage.browser.run(&format!("return {button}")).await == true {
            break;
        }
    }
    stage.browser.until(button).await;
    stage.gate.open();
    stage
        .browser
        .until("document.querySelector('#run-MT-2 .last').innerText.includes('second')")
        .await;
    stage.browser.until(button).await;
    stage.browser.press(ENTER).await;
    stage.browser.accept().await;
    stage.browser.until("document.querySelector('#ask-MT-2')").await;
    stage.until(|now| now.blocked.len() == 1 && now.running.len() == 1).await;

    // Pause and resume: one button takes the place of the other.
    stage.browser.run("document.querySelector('[data-post=\"/api/v1/pause\"]').focus()").await;
    stage.browser.press(ENTER).await;
    stage.browser.until("document.querySelector('#alert-paused')").await;
    stage.browser.run("document.querySelector('[data-post=\"/api/v1/resume\"]').focus()").await;
    stage.browser.press(ENTER).await;
    stage.browser.until("document.querySelector('#alert-paused') === null").await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_an_issue_has_a_page_that_follows_it() {
    let stage = Stage::new().await;
    stage.add(issue("1", "Sand the door", "speak"));
    stage.until(|now| now.running.iter().any(|row| row.last_event.is_some())).await;
    stage.visit("/").await;
    stage.browser.until("document.querySelector('#run-MT-1')").await;
    stage.browser.run("document.querySelector('#run-MT-1 a').click()").await;
    stage
        .browser
        .until("document.querySelector('#timeline')?.innerText.includes('first word')")
        .await;
    stage.gate.open();
    stage
        .browser
        .until("document.querySelector('#timeline').innerText.includes('second word')")
        .await;
    stage.board.set_state("1", "Done");
    stage.handle.poll_now().unwrap();
    stage.browser.until("document.querySelector('#title').innerText.includes('released')").await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_2_a_page_that_hears_nothing_says_so() {
    let stage = Stage::new().await;
    stage.visit("/").await;
    stage.browser.until("document.querySelector('#link').textContent === 'live'").await;
    stage.end_server();
    stage.browser.until("document.querySelector('#link').textContent === 'no connection'").await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_any_number_of_tabs_can_be_open() {
    let stage = Stage::new().await;
    stage.add(issue("1", "Sand the door", "hang"));
    // A browser has six connections to one server.
    for _ in 0..8 {
        stage.visit("/").await;
        stage.browser.until("document.querySelector('#link').textContent === 'live'").await;
        stage.browser.new_tab().await;
    }
    stage.visit("/").await;
    stage.browser.until("document.querySelector('#run-MT-1')").await;
    stage.board.set_state("1", "Done");
    stage.handle.poll_now().unwrap();
    stage.browser.until("document.querySelector('#run-MT-1') === null").await;
    // One that is looked at again has not missed anything.
    stage.browser.first_tab().await;
    stage.browser.until("document.querySelector('#none-running')").await;
    stage.close().await;
}
