//! The dashboard of the demo, which is the command that people run first.

use std::process::Stdio;
use std::time::Duration;

use symphony_e2e::{Browser, symphony};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_the_demo_can_be_watched_in_a_browser() {
    let mut demo = Command::new(symphony(env!("CARGO_BIN_EXE_helper")))
        .args(["demo", "--port", "0"])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    let url = loop {
        let line = lines.next_line().await.unwrap().unwrap();
        if let Some((_, rest)) = line.split_once("Dashboard: ") {
            break rest.split(' ').next().unwrap().to_owned();
        }
    };
    let drain = tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    let browser = Browser::open().await;
    browser.visit(&url).await;
    browser.until("document.querySelector('#run-DEMO-1')").await;
    browser.until("document.querySelector('#run-DEMO-1 .last bdi')").await;
    browser.until("document.querySelector('#why-DEMO-2')?.innerText.includes('DEMO-1')").await;
    browser.until("document.querySelector('#run-DEMO-3') === null").await;
    browser.until("document.querySelector('#run-DEMO-5')").await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    let requests = browser.requests().await;
    let others: Vec<&String> = requests.iter().filter(|asked| !asked.starts_with(&url)).collect();
    assert!(others.is_empty(), "{others:#?}");
    browser.close().await;

    let pid = demo.id().unwrap().to_string();
    Command::new("kill").args(["-INT", &pid]).status().await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(60), demo.wait()).await;
    assert!(ended.unwrap().unwrap().success());
    drain.await.unwrap();
}
