//! A thousand issues whose titles would like to be more than text.

use symphony_core::{Issue, Label};
use symphony_e2e::Appearance;

use crate::harness::{
    HOSTILE_TITLES, Harness, LONG_STATE, NARROW, PHONE, WIDE, blocker, issue, take,
};

const ENTER: &str = "\u{e007}";

/// How many issues there are of each kind.
const RUNNING: usize = 4;
const WAITING: usize = 230;
const ASKING: usize = 2;
const ALL: usize = 1_000;

fn title(number: usize) -> &'static str {
    HOSTILE_TITLES[number % HOSTILE_TITLES.len()]
}

fn nth(number: usize) -> Issue {
    let label = match number {
        n if n <= RUNNING => "hang",
        n if n <= RUNNING + ASKING => "ask",
        n if n <= RUNNING + ASKING + WAITING => "fail",
        _ => "",
    };
    let mut issue = issue(&number.to_string(), title(number), label);
    if label.is_empty() {
        issue.labels = Label::list(["<b>label</b>"]);
        issue.state = "Todo".into();
        issue.blocked_by = vec![blocker("MT-1")];
    }
    // Names and states are no better than titles.
    if number == 2 || number == ALL {
        issue.identifier =
            format!("AVERYLONGKEYWITHOUTANYPLACETOBREAKIT<b>-{number}").as_str().into();
    }
    if number == 3 {
        issue.state = LONG_STATE.into();
    }
    issue
}

async fn crowded() -> Harness {
    let harness = Harness::new().await;
    (1..=ALL).for_each(|number| harness.board.add(nth(number)));
    harness.handle.poll_now().unwrap();
    harness
        .until(|now| {
            now.waiting.len() == WAITING
                && now.blocked.len() == ASKING
                && now.running.len() == RUNNING
                && now.running.iter().all(|row| row.last_event.is_some())
        })
        .await;
    // What has failed is not tried again while it is looked at.
    harness.handle.pause().await.unwrap();
    harness.until(|now| now.paused).await;
    harness
}

/// Whether nothing on the page has become more than text.
async fn assert_is_text(harness: &Harness, page: &str) {
    let more = "return [window.hacked ?? null, document.scripts.length,
        [...document.images].filter((image) => !image.src.endsWith('.svg')).length,
        document.querySelectorAll('main b, [onmouseover], [onerror], [style]').length,
        document.querySelectorAll('main').length,
        /[\\u001b\\u202e\\u2066\\u200f\\u00ad]/.test(document.body.textContent)]";
    let wanted = serde_json::json!([null, 1, 0, 0, 1, false]);
    assert_eq!(harness.browser.run(more).await, wanted, "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_a_thousand_hostile_issues_fit_every_window_and_stay_text() {
    let harness = crowded().await;
    let browser = &harness.browser;
    let pages = [
        ("crowd", "/"),
        ("crowd-search", "/?q=%3Cscript%3E"),
        ("crowd-issue", "/issues/AVERYLONGKEYWITHOUTANYPLACETOBREAKIT%3Cb%3E-2"),
        ("crowd-long", "/issues/MT-4"),
        ("crowd-candidate", "/issues/MT-999"),
    ];
    for (name, path) in pages {
        browser.look(WIDE).await;
        harness.visit(path).await;
        browser.until("document.querySelector('#main .issue, #title')").await;
        assert_is_text(&harness, path).await;
        take(browser, &format!("{name}-light.png"), WIDE).await;
        take(browser, &format!("{name}-narrow.png"), Appearance { dark: true, ..NARROW }).await;
        take(browser, &format!("{name}-phone.png"), PHONE).await;
    }
    let heading = browser.run("return document.querySelector('#title').innerText").await;
    assert!(
        heading.as_str().unwrap().contains("onmouseover"),
        "a candidate has its title: {heading}"
    );

    // On a phone every number of every row keeps its name, and every row its title.
    harness.visit("/").await;
    browser.until("document.querySelectorAll('tr[id^=why-]').length === 200").await;
    let nameless = "return [...document.querySelectorAll('tbody td.n')].filter((cell) =>
        !getComputedStyle(cell, '::before').content.includes(cell.dataset.label)).length";
    assert_eq!(browser.run(nameless).await, 0);
    let titled =
        "return [...document.querySelectorAll('td.issue bdi, p.issue bdi')].every((title) =>
        title.innerText !== '' && title.getBoundingClientRect().width > 0)";
    assert_eq!(browser.run(titled).await, true);
    harness.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_a_thousand_issues_can_be_searched_and_a_page_of_them_stays_alive() {
    let harness = crowded().await;
    let browser = &harness.browser;
    harness.visit("/").await;
    browser.until("document.querySelector('#link').textContent === 'live'").await;
    browser.run("window.here = true").await;
    // The lists have their first 200 rows, and say how many there are besides.
    browser.until("document.querySelectorAll('tr[id^=why-]').length === 200").await;
    browser.until("document.querySelectorAll('tr[id^=wait-]').length === 200").await;
    let unstarted = ALL - RUNNING - ASKING - WAITING;
    let more = format!("and {} more; search for one.", unstarted - 200);
    browser
        .until(&format!("document.querySelector('#more-candidates').innerText === '{more}'"))
        .await;

    // A change comes to the open page; a row that did not change is the same element.
    browser.until("sent.has('why-MT-300')").await;
    browser.run("window.row = document.querySelector('#why-MT-300')").await;
    harness.board.update("1", |issue| issue.title = "The door again".to_owned());
    harness.board.remove("998");
    harness.handle.poll_now().unwrap();
    browser.until("document.querySelector('#run-MT-1').innerText.includes('The door again')").await;
    let fewer = more.replace(&(unstarted - 200).to_string(), &(unstarted - 201).to_string());
    browser
        .until(&format!("document.querySelector('#more-candidates').innerText === '{fewer}'"))
        .await;
    let untouched = "return window.row === document.querySelector('#why-MT-300')";
    assert_eq!(browser.run(untouched).await, true);

    // What is typed filters what is there, and says so where nothing is left.
    browser.press("/no such title").await;
    let said =
        "getComputedStyle(document.querySelector('[data-piece=candidates]'), '::after').content";
    browser.until(&format!("{said}.includes('Nothing here contains that')")).await;
    let hidden = "document.querySelector('#why-MT-300').offsetParent === null";
    browser.until(hidden).await;
    browser.press("\u{e00c}").await;
    browser.until(&format!("!({hidden}) && {said} === 'none'")).await;
    assert_eq!(browser.run("return window.here").await, true, "it was one page all along");

    // With Enter it looks through all of them, also through those that the page did not show.
    browser.press("/MT-999").await;
    browser.press(ENTER).await;
    browser.until("location.search === '?q=MT-999' && document.querySelector('#why-MT-999')").await;
    assert_eq!(browser.run("return document.querySelectorAll('main tbody tr').length").await, 1);
    let none = browser.run("return document.querySelector('#none-running').innerText").await;
    assert_eq!(none, "Nothing here contains that.");
    harness.close().await;
}
