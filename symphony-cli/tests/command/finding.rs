//! Finding a running service by its workspace root, and the one reason of an issue that it does not
//! work on.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

use rustix::process::Signal;
use serde_json::Value;

use crate::program::{Harness, Service};

const BOARD: &str = "---\ntracker:\n  kind: memory\n  required_labels: [go]\n  provider:\n    issues:\n      \
    - {identifier: MT-1, title: One, state: Todo, labels: [go, hang]}\n      \
    - {identifier: MT-2, title: Two, state: Todoo, labels: [go]}\n      \
    - {identifier: MT-3, title: Three, state: Done, labels: [go]}\n      \
    - {identifier: MT-4, title: Four, state: Todo}\n      \
    - {identifier: MT-5, title: Five, state: Todo, labels: [go], dispatchable: false}\n      \
    - {identifier: MT-6, title: Six, state: Todo, labels: [go], blocked_by: [MT-99]}\n      \
    - {identifier: MT-7, title: Seven, state: Todo, labels: [go], blocked_by: [MT-1]}\n      \
    - {identifier: MT-8, title: Eight, state: Somewhere, labels: [go]}\n\
    workspace:\n  root: ./work\n";

const SCRIPTED: &str = "agent:\n  kind: scripted\n---\nWait.\n";

const ADDRESS: &str = "work/~symphony/address";

fn harness() -> Harness {
    let mut harness = Harness::new();
    harness.set("SYMPHONY_URL", "");
    harness.set("SYMPHONY_TOKEN", "");
    harness.write("WORKFLOW.md", &format!("{BOARD}{SCRIPTED}"));
    harness
}

fn served(harness: &Harness) -> Service {
    let mut service = harness.start(&["run", "--port", "0"]);
    service.log_until("run started");
    service
}

fn assert_found(harness: &Harness) {
    let shown = harness.run(&["status"]);
    assert_eq!(shown.code, Some(0), "{shown:#?}");
    assert!(shown.stdout.contains("Symphony at http://127.0.0.1:"), "{shown:#?}");
    let explained = harness.run(&["explain", "MT-1"]);
    assert_eq!(explained.stdout, "MT-1 (running): an agent works on it\n", "{explained:#?}");
}

/// An issue that the service does not know is read by the command.
fn assert_read(harness: &Harness) {
    let (issue, _, wanted) = REASONS[0];
    let explained = harness.run(&["explain", issue]);
    assert_eq!(explained.code, Some(0), "{explained:#?}");
    assert!(explained.stdout.ends_with(&format!("{wanted}\n")), "{explained:#?}");
}

#[test]
fn rule_14_5_a_service_is_found_by_its_root_whatever_is_wrong_with_the_file() {
    let harness = harness();
    let service = served(&harness);
    assert_found(&harness);
    let mode = std::fs::metadata(harness.path(ADDRESS)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let is_yaml = |wrong: &str| !wrong.contains(['\t', '[']);
    for wrong in [
        "polling: {interval_ms: lots}\n",
        "pooling: {interval_ms: 5}\n",
        "server: {port: 9}\n",
        "server: {port: many}\n",
        "codex: [a, {b\n",
        "hooks:\n\tafter_run: x\n",
    ] {
        harness.replace("WORKFLOW.md", &format!("{BOARD}{wrong}{SCRIPTED}"));
        assert_found(&harness);
        if !is_yaml(wrong) {
            let told = harness.run(&["explain", "MT-2"]);
            assert_eq!((told.code, told.stdout.as_str()), (Some(1), ""), "{told:#?}");
            assert!(told.stderr.contains("the service neither works on MT-2 nor has it"));
            continue;
        }
        assert_read(&harness);
    }
    service.signal(Signal::TERM);
    assert_eq!(service.end().0, Some(0));
    assert!(!harness.path(ADDRESS).exists(), "it is gone with the service");
}

#[test]
fn rule_14_5_what_a_killed_service_left_is_not_asked() {
    let harness = harness();
    let service = served(&harness);
    service.signal(Signal::KILL);
    service.end();
    assert!(harness.path(ADDRESS).exists());
    let shown = harness.run(&["status"]);
    assert_eq!(shown.code, Some(1), "{shown:#?}");
    assert!(shown.stderr.contains("no service runs in"), "{shown:#?}");
    // The next one without a port is not asked there, but by its socket.
    let mut service = harness.start(&["run"]);
    service.log_until("run started");
    let shown = harness.run(&["status"]);
    assert!(shown.stdout.contains("/work/~symphony/socket: "), "{shown:#?}");
    service.signal(Signal::TERM);
    assert_eq!(service.end().0, Some(0));
}

#[test]
fn rule_14_5_that_no_service_runs_is_said_before_that_a_token_is_missing() {
    let harness = harness();
    let server = "server: {port: 9, token: $NO_SUCH_TOKEN}\n";
    harness.write("WORKFLOW.md", &format!("{BOARD}{server}{SCRIPTED}"));
    let shown = harness.run(&["status"]);
    assert_eq!(shown.code, Some(1), "{shown:#?}");
    for wanted in ["no service runs in ", "the variable NO_SUCH_TOKEN is not set"] {
        assert!(shown.stderr.contains(wanted), "no {wanted:?} in {shown:#?}");
    }
}

#[test]
fn rule_2_6_a_setting_that_needs_a_restart_is_named() {
    let harness = harness();
    let mut service = served(&harness);
    harness.replace("WORKFLOW.md", &format!("{BOARD}server: {{port: 9}}\n{SCRIPTED}"));
    let told = service.log_until("takes effect after a restart");
    assert!(told.last().unwrap().contains("server.port"), "{told:?}");
    let shown = harness.run(&["status"]).stdout;
    assert!(shown.contains("(line 17): server.port: takes effect after a restart"), "{shown}");
    service.signal(Signal::TERM);
    assert_eq!(service.end().0, Some(0));
}

/// Issues that are not worked on, each with its one reason.
const REASONS: [(&str, &str, &str); 6] = [
    (
        "MT-2",
        "not_active",
        "is in `Todoo`, which is neither active nor terminal; did you mean `Todo`?",
    ),
    ("mt-3", "terminal", "is over: Done"),
    ("MT-8", "not_active", "is in `Somewhere`, which is neither active nor terminal"),
    ("MT-4", "missing_label", "lacks the label \"go\""),
    (
        "MT-5",
        "not_dispatchable",
        "the tracker's rules keep it back: dispatchable is false on the board",
    ),
    ("MT-6", "blocked_by", "blocked by MT-99, which does not exist"),
];

fn assert_reasons(harness: &Harness, options: &[&str]) {
    for (issue, code, wanted) in REASONS {
        let shown = harness.run(&[&["explain", issue], options].concat());
        assert_eq!(shown.code, Some(0), "{shown:#?}");
        assert!(shown.stdout.starts_with(&issue.to_uppercase()), "{shown:#?}");
        assert!(shown.stdout.ends_with(&format!("{wanted}\n")), "no {wanted:?} in {shown:#?}");
        let json = harness.run(&[&["explain", "--json", issue], options].concat()).stdout;
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["code"], code, "{json:#}");
    }
    let unknown = harness.run(&[&["explain", "MT-77"], options].concat());
    assert_eq!((unknown.code, unknown.stdout.as_str()), (Some(1), ""));
    assert!(unknown.stderr.contains("MT-77 does not exist in the scope of the tracker"));
    assert!(!unknown.stderr.contains("/api/"), "{unknown:#?}");
}

#[test]
fn rule_5_5_an_issue_that_is_not_a_candidate_has_one_reason_too() {
    let harness = harness();
    assert_reasons(&harness, &["--offline"]);
    let all = harness.run(&["explain", "--offline", "--json"]).stdout;
    let all: Value = serde_json::from_str(&all).unwrap();
    assert_eq!(all["starts"][0]["issue_identifier"], "MT-1", "{all:#}");
}

#[test]
fn rule_5_5_so_it_has_when_a_service_runs() {
    let harness = harness();
    let service = served(&harness);
    assert_reasons(&harness, &[]);
    let blocked = harness.run(&["explain", "MT-7"]).stdout;
    assert_eq!(blocked, "MT-7 (candidate): blocked by MT-1, which is in `Todo`\n");
    let all = harness.run(&["explain", "--json"]).stdout;
    let all: Value = serde_json::from_str(&all).unwrap();
    assert_eq!(all["unstarted"][0]["issue_identifier"], "MT-4", "{all:#}");
    service.signal(Signal::TERM);
    assert_eq!(service.end().0, Some(0));
}

/// An inline board is the service's: in the file, an issue stays what it was.
#[test]
fn rule_5_5_of_an_issue_that_is_over_an_inline_board_knows_less_than_the_service() {
    let harness = harness();
    let board = BOARD.replace("[go, hang]", "[go]");
    harness.write("WORKFLOW.md", &format!("{board}{SCRIPTED}"));
    let mut service = harness.start(&["run"]);
    service.log_until("released: it is over");
    let explained = harness.run(&["explain", "mt-1"]);
    assert_eq!(explained.stdout, "MT-1 is over: Done\n", "{explained:#?}");
    service.signal(Signal::TERM);
    assert_eq!(service.end().0, Some(0));
}

#[test]
fn rule_13_1_no_json_steers_a_terminal() {
    let harness = harness();
    // What an agent could put in the place of the service.
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port().to_string();
    let answer = std::thread::spawn(move || {
        let (mut client, _) = other.accept().unwrap();
        let mut head = BufReader::new(client.try_clone().unwrap()).lines();
        while head.next().is_some_and(|line| !line.unwrap().is_empty()) {}
        let body = "{\"a\": \"\u{202e}\"}";
        let head = format!("content-type: application/json\r\ncontent-length: {}", body.len());
        write!(client, "HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}").unwrap();
    });
    for arguments in
        [&["status", "--json", "--url", &port][..], &["issue", "add", "Nine\u{202e}", "--json"]]
    {
        let shown = harness.run(arguments).stdout;
        assert!(serde_json::from_str::<Value>(&shown).is_ok(), "{arguments:?}: {shown}");
        assert!(shown.contains("\\u202e") && !shown.contains('\u{202e}'), "{arguments:?}: {shown}");
    }
    answer.join().unwrap();
}
