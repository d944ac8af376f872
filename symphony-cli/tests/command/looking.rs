//! `symphony status`, `explain` and `top`: looking at a service from outside.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use rustix::process::Signal;
use serde_json::Value;

use crate::program::{Harness, Service, wait_for};

/// One that runs for ever, with a title that wants more; one that waits for it; one that fails.
const BOARD: &str = "---\ntracker:\n  kind: memory\n  provider:\n    issues:\n      \
    - {identifier: MT-1, title: \"Wait \\e[2J here\", state: Todo, labels: [hang]}\n      \
    - {identifier: MT-2, title: Two, state: Todo, blocked_by: [MT-1]}\n      \
    - {identifier: MT-3, title: Three, state: Todo, labels: [fail]}\n\
    workspace:\n  root: ./work\n";

const SCRIPTED: &str = "agent:\n  kind: scripted\n---\nWait.\n";

/// A harness on which nothing from outside says which service is meant.
pub(crate) fn harness(settings: &str) -> Harness {
    let mut harness = Harness::new();
    harness.set("SYMPHONY_URL", "");
    harness.set("SYMPHONY_TOKEN", "");
    harness.write("WORKFLOW.md", &format!("{BOARD}{settings}{SCRIPTED}"));
    harness
}

/// A service that is served, and where.
pub(crate) fn served(harness: &Harness) -> (Service, String) {
    served_with(harness, &[])
}

/// The same with more arguments.
pub(crate) fn served_with(harness: &Harness, arguments: &[&str]) -> (Service, String) {
    let mut service = harness.start(&[&["run", "--port", "0"], arguments].concat());
    let seen = service.log_until("dashboard and API are served");
    let line = seen.last().unwrap();
    let (_, address) = line.split_once("address=").unwrap();
    let url = format!("http://{}", address.split_whitespace().next().unwrap());
    service.log_until("run started");
    (service, url)
}

/// What the API answers, by hand.
fn get(url: &str, path: &str) -> Value {
    serde_json::from_str(&get_text(url, path)).unwrap()
}

pub(crate) fn get_text(url: &str, path: &str) -> String {
    let host = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

fn wait_for_run(harness: &Harness, url: &str) {
    wait_for("a turn, and a failure", || {
        let shown = harness.run(&["status", "--url", url]).stdout;
        shown.contains("the stand-in was here") && shown.contains("as the label says")
    });
}

#[test]
fn rule_14_1_status_prints_a_table_and_with_json_what_the_api_answers() {
    let harness = harness("");
    let (service, url) = served(&harness);
    wait_for_run(&harness, &url);
    let shown = harness.run(&["status", "--url", &url]);
    assert_eq!(shown.code, Some(0), "{shown:#?}");
    for wanted in [
        "1 of 10 agents, 1 waiting, 0 blocked, 3 candidates",
        "MT-1   Todo   turn   1/20",
        "Wait \\u{1b}[2J here",
        "turn_failed: as the label says",
        "\nNot started\nISSUE  STATE  TITLE  WHY NOT\nMT-2   Todo   Two    blocked by MT-1\n",
        "memory, ",
        "WORKFLOW.md\n1 runs, 1 waits, 1 blocked by others\n",
    ] {
        assert!(shown.stdout.contains(wanted), "no {wanted:?} in {}", shown.stdout);
    }
    let waits = "waits for its next attempt";
    assert!(!shown.stdout.contains(waits), "another list has it: {}", shown.stdout);
    assert!(!shown.stdout.contains('\u{1b}'), "colours only on a terminal");
    let timeless = |mut state: Value| {
        state["generated_at"] = Value::Null;
        state["codex_totals"]["seconds_running"] = Value::Null;
        state
    };
    wait_for("the same state twice", || {
        let json = harness.run(&["status", "--json", "--url", &url]).stdout;
        let ours = timeless(serde_json::from_str(&json).unwrap());
        ours == timeless(get(&url, "/api/v1/state"))
    });
    service.signal(Signal::TERM);
    assert_eq!(service.end().0, Some(0));
}

#[test]
fn rule_14_1_an_absent_service_is_an_error_that_says_what_to_do() {
    let harness = harness("");
    for command in [&["status"][..], &["status", "--json"]] {
        let shown = harness.run(command);
        assert_eq!(shown.code, Some(1), "{shown:#?}");
        assert!(shown.stderr.contains("no service runs in"), "{shown:#?}");
        assert!(shown.stderr.contains("--url"), "{shown:#?}");
        let url = ["--url", "http://127.0.0.1:9"];
        let shown = harness.run(&[command, &url].concat());
        assert_eq!((shown.code, shown.stdout.as_str()), (Some(1), ""), "{shown:#?}");
        assert!(shown.stderr.contains("http://127.0.0.1:9 does not answer"), "{shown:#?}");
        assert!(shown.stderr.contains("start the service"), "{shown:#?}");
    }
    let missing = harness.run(&["status", "no-such-file.md"]);
    assert_eq!(missing.code, Some(1));
    assert!(missing.stderr.contains("name the service with --url"), "{missing:#?}");
    let explained = harness.run(&["explain", "--url", "http://127.0.0.1:9"]);
    assert_eq!(explained.code, Some(1), "a service that was named is not replaced: {explained:#?}");
    let top = harness.run(&["top", "--url", "http://127.0.0.1:9"]);
    assert_eq!(top.code, Some(1));
    assert!(top.stderr.contains("`symphony status` prints lines"), "{top:#?}");
}

#[test]
fn rule_5_5_explain_asks_the_running_service() {
    let harness = harness("");
    let (service, url) = served(&harness);
    wait_for_run(&harness, &url);
    let explain = |issue: &[&str]| harness.run(&[&["explain", "--url", &url], issue].concat());
    let all = explain(&[]);
    assert_eq!(all.code, Some(0), "{all:#?}");
    assert!(all.stdout.starts_with("1 runs, 1 waits, 1 blocked by others\n"), "{all:#?}");
    assert!(all.stdout.contains("MT-2   blocked by MT-1"), "{all:#?}");
    assert!(all.stdout.contains("MT-3   waits for its next attempt"), "{all:#?}");
    let lines = |issue: &str| explain(&[issue]).stdout;
    assert_eq!(lines("MT-1"), "MT-1 (running): an agent works on it\n");
    let failed = "MT-3 (retrying): waits for its next attempt: turn_failed: as the label says\n";
    assert_eq!(lines("MT-3"), failed);
    assert_eq!(lines("mt-2"), "MT-2 (candidate): blocked by MT-1, which is in `Todo`\n");
    let unknown = explain(&["MT-77"]);
    assert_eq!((unknown.code, unknown.stdout.as_str()), (Some(1), ""));
    assert!(unknown.stderr.contains("MT-77 does not exist"), "{unknown:#?}");
    service.signal(Signal::TERM);
    assert_eq!(service.end().0, Some(0));
}

#[test]
fn rule_5_5_explain_without_a_service_is_a_dry_run_that_leaves_nothing() {
    let harness = harness("polling:\n  activity_file: at-work\n");
    for command in [&["explain"][..], &["explain", "--offline"]] {
        let shown = harness.run(command);
        assert_eq!(shown.code, Some(0), "{shown:#?}");
        let wanted = "\nWould start\nISSUE  STATE  TITLE\nMT-1   Todo   Wait \\u{1b}[2J here\n\
                      MT-3   Todo   Three\n\nNot started\nISSUE  WHY NOT\nMT-2   blocked by MT-1\n";
        assert!(shown.stdout.ends_with(wanted), "{}", shown.stdout);
        assert_eq!(shown.stderr.is_empty(), command.len() == 2, "it says that none was asked");
    }
    let one = |issue| harness.run(&["explain", "--offline", issue]);
    assert_eq!(one("mt-1").stdout, "MT-1: would start now\n");
    assert_eq!(one("MT-2").stdout, "MT-2: blocked by MT-1, which is in `Todo`\n");
    let unknown = one("MT-9");
    assert_eq!(unknown.code, Some(1));
    assert!(unknown.stderr.contains("MT-9 does not exist"), "{unknown:#?}");
    assert!(!harness.path("work").exists(), "no workspace, no lock");
    harness.write("WORKFLOW.md", "---\ntracker:\n  kind: jira\n---\n");
    let bad = harness.run(&["explain", "--offline"]);
    assert_eq!(bad.code, Some(1));
    assert!(bad.stderr.contains("unsupported_tracker_kind"), "{bad:#?}");
}

#[test]
fn rule_13_3_a_token_is_sent_only_to_the_service_it_was_set_for() {
    const TOKEN: &str = "a-token-of-decent-length";
    let mut with = harness("server: {token: $TOKEN_HERE}\n");
    with.set("TOKEN_HERE", TOKEN);
    let (service, url) = served(&with);
    let port = url.rsplit(':').next().unwrap();
    // The file's token is for the address in the file, not for one that is typed.
    let typed = with.run(&["status", "--url", &url]);
    assert_eq!(typed.code, Some(1));
    assert!(typed.stderr.contains("set SYMPHONY_TOKEN to it"), "{typed:#?}");
    let named = format!("{BOARD}server: {{token: $TOKEN_HERE, port: {port}}}\n{SCRIPTED}");
    with.write("named.md", &named);
    let of_file = with.run(&["status", "named.md"]);
    assert_eq!(of_file.code, Some(0), "{of_file:#?}");
    with.set("SYMPHONY_TOKEN", TOKEN);
    let given = with.run(&["status", "--url", &url]);
    assert_eq!(given.code, Some(0), "{given:#?}");
    wait_for("the explanation", || {
        let explained = with.run(&["explain", "MT-1", "--workflow", "named.md"]);
        explained.stdout == "MT-1 (running): an agent works on it\n"
    });
    with.set("SYMPHONY_TOKEN", "another-token-of-length");
    let wrong = with.run(&["status", "--url", &url]);
    assert_eq!(wrong.code, Some(1));
    for shown in [&typed, &of_file, &given, &wrong] {
        assert!(!format!("{shown:?}").contains("of-decent-length"), "{shown:#?}");
    }
    service.signal(Signal::TERM);
    assert_eq!(service.end().0, Some(0));
}

#[test]
fn rule_13_3_a_server_that_is_not_symphony_is_reported_and_its_answer_ignored() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answers = [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 409 Conflict\r\nContent-Length: 47\r\n\r\n{\"error\":{\"code\":\"x\",\"message\":\"a\\u001b[2Jb\"}}\n",
    ];
    let server = std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 2048];
            let _ = stream.read(&mut request).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let harness = harness("");
    for wanted in
        ["answers something else than a state", "is it the right address?", "a\\u{1b}[2Jb"]
    {
        let shown = harness.run(&["status", "--url", &url]);
        assert_eq!(shown.code, Some(1), "{shown:#?}");
        assert!(shown.stderr.contains(wanted), "no {wanted:?} in {shown:#?}");
    }
    server.join().unwrap();
}
