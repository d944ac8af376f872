//! What is written into the log, as the command line and the workflow file say (contract 13.1).

use std::os::unix::fs::PermissionsExt as _;

use rustix::process::Signal;
use serde_json::Value;

use crate::looking::{get_text, harness, served_with};
use crate::program::{Harness, wait_for};

/// A workflow whose one issue is started and never ends, with this section `logging`.
fn workflow(logging: &str) -> String {
    format!(
        "---\ntracker:\n  kind: memory\n  provider:\n    issues:\n      \
         - {{identifier: MT-1, title: Wait, state: Todo, labels: [hang]}}\nworkspace:\n  root: ./work\n\
         agent:\n  kind: scripted\npolling:\n  interval_ms: 200\n{logging}---\nWait.\n"
    )
}

#[test]
fn rule_13_1_the_file_says_how_lines_look_and_an_edit_counts_at_once() {
    let harness = Harness::new();
    harness.write("WORKFLOW.md", &workflow("logging: {level: \"off\"}\n"));
    let mut service = harness.start(&[]);
    wait_for("a run", || harness.path("work/MT-1").exists());
    let mut told = String::new();
    let mut poll_until = |format: &str, wanted: &str| {
        harness.replace("WORKFLOW.md", &workflow(&format!("logging: {{format: {format}}}\n")));
        told.clear();
        wait_for(wanted, || {
            service.signal(Signal::HUP);
            told.push_str(&service.heard());
            told.contains(wanted)
        });
        told.clone()
    };
    let told = poll_until("json", r#""message":"asked to poll now""#);
    assert!(told.lines().all(|line| line.starts_with('{')), "it said nothing before: {told}");
    poll_until("text", "Z asked to poll now");
    harness.replace("WORKFLOW.md", &workflow("logging: {level: \"warn,symphony_runtime=info\"}\n"));
    service.log_until("the workflow file is in force");
    let rest = service.stop();
    assert!(rest.contains("service ended"), "{rest}");
}

#[test]
fn rule_13_1_the_command_line_outweighs_the_file() {
    let mut harness = Harness::new();
    harness.write("WORKFLOW.md", &workflow("logging: {format: json, level: error}\n"));
    let mut service = harness.start(&["--log", "info", "--log-format", "text"]);
    let started = service.log_until("run started").pop().unwrap();
    assert!(started.contains("Z MT-1 run started "), "{started}");
    assert!(service.stop().contains("service ended"));
    harness.set("SYMPHONY_LOG", "error,symphony_runtime=info");
    let mut service = harness.start(&[]);
    service.log_until("\"message\":\"run started\"");
    let log = service.stop();
    assert!(log.contains("\"message\":\"service ended\""), "{log}");
    assert!(!log.contains("asked to stop"), "the command's own lines are left out: {log}");
}

#[test]
fn rule_13_1_an_invalid_filter_is_refused_at_the_start() {
    let harness = Harness::new();
    harness.write("WORKFLOW.md", &workflow("logging: {level: info;debug}\n"));
    let shown = harness.run(&[]);
    assert_eq!(shown.code, Some(1), "{shown:#?}");
    let wanted = "logging.level: must be a level (off, error, warn, info, debug, trace) or a list";
    assert!(shown.stderr.contains(wanted), "{shown:#?}");
    let shown = harness.run(&["--log", "a=b=c"]);
    assert_eq!(shown.code, Some(1), "{shown:#?}");
    assert!(shown.stderr.contains("--log: \"a=b=c\" is not a filter; try `info`"), "{shown:#?}");
}

#[test]
fn rule_13_1_the_file_says_when_a_log_is_put_aside() {
    let harness = Harness::new();
    harness.write("WORKFLOW.md", &workflow("logging: {max_bytes: 300, max_files: 2}\n"));
    let mut service = harness.start(&["--logs-root", "logs"]);
    service.log_until("run started");
    service.stop();
    let names = ["symphony.log", "symphony.log.1", "symphony.log.2"];
    for name in names {
        assert!(harness.read(&format!("logs/{name}")).len() <= 400, "{name}");
    }
    assert!(!harness.path("logs/symphony.log.3").exists());
}

#[test]
fn rule_13_1_what_is_said_in_a_run_is_kept_without_secrets() {
    let mut harness = Harness::new();
    harness.set("SYMPHONY_TOKEN", "a-token/of-the-service");
    let file = workflow("server: {port: 0, token: $SYMPHONY_TOKEN}\n");
    harness.write("WORKFLOW.md", &file.replace("Wait.", "Say a-token/of-the-service."));
    let mut service = harness.start(&["--logs-root", "logs"]);
    service.log_until("run started");
    let path = "logs/runs/MT-1/1.1.jsonl";
    wait_for("the first line", || {
        std::fs::read_to_string(harness.path(path)).is_ok_and(|text| text.ends_with('\n'))
    });
    service.stop();
    let kept = harness.read(path);
    assert!(kept.contains(r#""prompt":"Say [redacted].""#), "{kept}");
    assert!(!kept.contains("a-token"), "{kept}");
}

#[test]
fn rule_13_1_a_log_beside_the_file_does_not_feed_on_itself() {
    let harness = Harness::new();
    let file = workflow("").replace("interval_ms: 200", "interval_ms: 3600000");
    harness.write("WORKFLOW.md", &file);
    let log = std::fs::File::create(harness.path("stderr.log")).unwrap();
    let service = harness.start_into(log, &["--log", "trace", "--logs-root", "."]);
    let told = |what: &str| harness.read("stderr.log").matches(what).count();
    wait_for("a run", || told("run started") > 0);
    // Events of the watched folder, and then an edit that is told only after them.
    for number in 0..500 {
        harness.write("other", &number.to_string());
    }
    harness.replace("WORKFLOW.md", &file.replace("Wait.", "Wait on."));
    wait_for("the edit", || told("the workflow file is in force") > 0);
    for log in ["stderr.log", "symphony.log"] {
        let lines = harness.read(log).lines().count();
        assert!(lines < 500, "{log} has {lines} lines");
    }
    assert_eq!(service.stop(), Some(0));
    let mode = std::fs::metadata(harness.path("symphony.log")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn rule_13_3_a_status_names_the_file_of_a_run_by_its_whole_path() {
    let harness = harness("");
    let (service, url) = served_with(&harness, &["--logs-root", "logs"]);
    let mut path = None;
    wait_for("a file", || {
        let issue: Value = serde_json::from_str(&get_text(&url, "/api/v1/MT-1")).unwrap();
        path = issue["logs"]["codex_session_logs"][0]["path"].as_str().map(str::to_owned);
        path.is_some()
    });
    assert!(path.as_ref().is_some_and(|path| path.starts_with('/')), "{path:?}");
    service.stop();
}
