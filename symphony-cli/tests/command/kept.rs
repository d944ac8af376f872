//! `symphony logs`: what was kept of the conversation with an agent.

use std::io::Write as _;

use serde_json::Value;

use crate::looking::harness;
use crate::program::{Harness, wait_for};

/// The demo's agent, which speaks Codex's protocol.
fn file() -> String {
    format!(
        "---\ntracker:\n  kind: memory\n  provider:\n    issues:\n      \
         - {{identifier: MT-1, title: Fix the door, state: Todo}}\nworkspace: {{root: ./work}}\n\
         codex: {{command: '{} demo-agent'}}\n---\nFix it.\nAll of it.\n",
        env!("CARGO_BIN_EXE_symphony")
    )
}

fn logs(harness: &Harness, words: &[&str]) -> String {
    let shown = harness.run(&[&["logs", "mt-1"], words].concat());
    assert_eq!(shown.code, Some(0), "{shown:#?}");
    shown.stdout
}

#[test]
fn rule_14_8_logs_shows_what_was_said_and_spent_with_a_service_and_without() {
    let harness = harness("");
    harness.write("WORKFLOW.md", &file());
    let mut service = harness.start(&["run", "--logs-root", "logs"]);
    service.log_until("run ended");
    wait_for("the end", || harness.run(&["logs", "MT-1"]).stdout.contains("turn completed"));
    let of_service = logs(&harness, &[]);
    service.stop();
    let shown = logs(&harness, &["--logs-root", "logs"]);
    assert!(shown.starts_with(&of_service), "{shown}");
    for wanted in [
        "  symphony: Fix it.\n          All of it.\n",
        "  agent: at work\n",
        "  calls update_issue {\"state\":\"In Progress\"}\n",
        "  turn completed; 1.2k tokens so far (in 1.0k, out 200)\n",
    ] {
        assert!(shown.contains(wanted), "no {wanted:?} in {shown}");
    }
    let json = logs(&harness, &["--logs-root", "logs", "--json"]);
    let raw = harness.read("logs/runs/MT-1/1.1.jsonl");
    assert_eq!(json, raw);
    let parsed: Result<Vec<Value>, _> = json.lines().map(serde_json::from_str).collect();
    assert!(parsed.unwrap().len() > 10);
    assert_eq!(logs(&harness, &["--logs-root", "logs", "--run", "1.1"]), shown);
    let fails = |words: &[&str], wanted: &str| {
        let shown = harness.run(&[&["logs"], words, &["--logs-root", "logs"]].concat());
        assert_eq!((shown.code, shown.stdout.as_str()), (Some(1), ""), "{shown:#?}");
        assert!(shown.stderr.contains(wanted), "no {wanted:?} in {shown:#?}");
    };
    fails(&["MT-2"], "nothing that was said about MT-2 is kept in logs/runs");
    fails(&["MT-1", "--run", "1.7"], "cannot be read; kept are the runs 1.1");
    fails(&["MT-1", "--run", "../x"], "../x is not a run; they look like 4.12");
    fails(&[".."], "nothing that was said about .. is kept");
}

#[test]
fn rule_14_8_a_service_that_keeps_nothing_says_how_it_would() {
    let harness = harness("");
    let mut service = harness.start(&["run"]);
    service.log_until("run started");
    wait_for("the run", || harness.run(&["status"]).stdout.contains("1 of 10 agents"));
    let nothing = harness.run(&["logs", "MT-1"]);
    assert_eq!(nothing.code, Some(1));
    assert!(nothing.stderr.contains("start the service with --logs-root DIR"), "{nothing:#?}");
    let unknown = harness.run(&["logs", "MT-77"]);
    assert!(unknown.stderr.contains("the service knows no issue MT-77"), "{unknown:#?}");
    service.stop();
}

#[test]
fn rule_14_8_logs_are_followed_from_one_file_and_one_run_to_the_next() {
    let harness = harness("");
    let folder = harness.path("logs/runs/MT-1");
    std::fs::create_dir_all(&folder).unwrap();
    let line = |text: &str| format!("{{\"at\":\"2026-01-01T00:00:00Z\",\"note\":\"{text}\"}}\n");
    let path = |name: &str| folder.join(name);
    std::fs::write(path("3.9.earlier.jsonl"), line("first")).unwrap();
    std::fs::write(path("3.9.jsonl"), line("second")).unwrap();
    std::fs::write(path("3.8.jsonl"), line("of an older run")).unwrap();
    let mut watch = harness.start_watch(&["logs", "MT-1", "--follow", "--logs-root", "logs"]);
    let seen = watch.until("second");
    assert_eq!(seen.len(), 3, "{seen:?}");
    assert_eq!(seen[0], "run 3.9");
    assert!(seen[1].contains("-- first"), "{seen:?}");
    let mut file = std::fs::File::options().append(true).open(path("3.9.jsonl")).unwrap();
    let (half, rest) = ("{\"note\":\"in two", " parts\\u001b\"}\n");
    file.write_all(half.as_bytes()).unwrap();
    file.write_all(rest.as_bytes()).unwrap();
    let seen = watch.until("in two parts");
    assert!(seen[0].contains("in two parts\\u{1b}"), "{seen:?}");
    std::fs::rename(path("3.9.jsonl"), path("3.9.earlier.jsonl")).unwrap();
    std::fs::write(path("3.9.jsonl"), line("after the rename")).unwrap();
    watch.until("after the rename");
    std::fs::write(path("3.10.jsonl"), line("next run")).unwrap();
    let seen = watch.until("next run");
    assert_eq!(seen[0], "run 3.10");
    watch.interrupt();
}
