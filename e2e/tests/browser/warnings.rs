//! What is wrong or doubtful in the workflow file, in a browser, with the built command.

use std::path::Path;
use std::process::Stdio;

use symphony_e2e::{Appearance, Browser, symphony};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::harness::{PHONE, WIDE, take};

/// A board with one issue, and these lines after it.
fn workflow(settings: &str) -> String {
    format!(
        "---\ntracker:\n  kind: memory\n  provider:\n    issues:\n      \
         - {{identifier: MT-1, title: Wait, state: Todo, labels: [hang]}}\n\
         workspace: {{root: ./work}}\n{settings}agent:\n  kind: scripted\n---\nWait.\n"
    )
}

/// Replaces the file as an editor does.
fn edit(folder: &Path, text: &str) {
    std::fs::write(folder.join("new"), text).unwrap();
    std::fs::rename(folder.join("new"), folder.join("WORKFLOW.md")).unwrap();
}

/// Starts the service of a folder, and waits for the address at which it is served.
async fn start(folder: &Path) -> (Child, String) {
    let mut service = Command::new(symphony(env!("CARGO_BIN_EXE_helper")))
        .args(["run", "--port", "0"])
        .current_dir(folder)
        .env_remove("SYMPHONY_LOG")
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(service.stderr.take().unwrap()).lines();
    let url = loop {
        let line = lines.next_line().await.unwrap().unwrap();
        if let Some((_, address)) = line.split_once("are served address=") {
            break format!("http://{}", address.trim());
        }
    };
    // Later output is not needed, but must be drained.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    (service, url)
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_2_3_warnings_of_the_workflow_file_come_and_go_on_an_open_page() {
    let folder = tempfile::tempdir().unwrap();
    let doubtful = "server:\n  colour: blue\n  maxTurns: 5\n  \"<b>bold</b>\": 1\n";
    edit(folder.path(), &workflow(doubtful));
    let (mut service, url) = start(folder.path()).await;
    let browser = Browser::open().await;
    browser.visit(&url).await;
    browser.until("document.querySelector('#link').textContent === 'live'").await;
    browser.run("window.here = true").await;
    let warnings = browser.run("return document.querySelector('#alert-warnings').innerText").await;
    let warnings = warnings.as_str().unwrap();
    for wanted in [
        "Workflow file it is in force, with 3 warnings.",
        "line 9: server.colour is unknown and ignored",
        "did you mean `agent.max_turns`?",
        "<b>bold</b>",
    ] {
        assert!(warnings.contains(wanted), "no {wanted:?} in {warnings}");
    }
    assert_eq!(browser.run("return document.querySelectorAll('main b').length").await, 0);
    browser.until("document.querySelector('#run-MT-1')").await;
    take(&browser, "warnings-light.png", WIDE).await;
    take(&browser, "warnings-dark.png", Appearance { dark: true, ..WIDE }).await;
    take(&browser, "warnings-phone.png", PHONE).await;

    edit(folder.path(), &workflow("server:\n  colour: blue\n"));
    let one = "document.querySelector('#alert-warnings')?.innerText.includes('with 1 warning.')";
    browser.until(one).await;
    edit(folder.path(), &workflow("polling: {interval_ms: often}\n"));
    browser.until("document.querySelector('#alert-problems')?.innerText.includes('often')").await;
    let problems = browser.run("return document.querySelector('#alert-problems').innerText").await;
    assert!(problems.as_str().unwrap().contains("the last good version stays in force"));
    // What is shown as doubtful is in the version that stays.
    let one = "document.querySelector('#alert-warnings').innerText.includes('the version in force has 1')";
    browser.until(one).await;
    take(&browser, "problems-phone.png", PHONE).await;
    edit(folder.path(), &workflow(""));
    browser.until("document.querySelector('.alert') === null").await;
    assert_eq!(browser.run("return window.here").await, true, "it was one page all along");
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    browser.close().await;
    service.kill().await.unwrap();
}
