//! Contract section 16 with the real program: what a killed service comes back with, and `symphony
//! state`.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use rustix::process::Signal;
use serde_json::Value;

use crate::looking::{get_text, served};
use crate::program::{Harness, Service, files, wait_for};

/// One that works for ever, one that fails, one that asks.
const FILE: &str = "---\ntracker:\n  kind: memory\n  provider:\n    issues:\n      \
    - {identifier: MT-1, title: One, state: Todo, labels: [hang]}\n      \
    - {identifier: MT-2, title: Two, state: Todo, labels: [fail]}\n      \
    - {identifier: MT-3, title: Three, state: Todo, labels: [ask]}\n\
    workspace:\n  root: ./work\nagent:\n  kind: scripted\n---\nDo {{ issue.title }}.\n";

fn harness() -> Harness {
    let mut harness = Harness::new();
    harness.set("SYMPHONY_URL", "");
    harness.set("SYMPHONY_TOKEN", "");
    harness.write("WORKFLOW.md", FILE);
    harness
}

fn state(url: &str) -> Value {
    serde_json::from_str(&get_text(url, "/api/v1/state")).unwrap()
}

/// Gives a command, and waits for the answer.
fn post(url: &str, path: &str) -> String {
    let host = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let head = format!("POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
    write!(stream, "{head}Content-Length: 0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap().to_owned()
}

/// The row of an issue in a list of the state.
fn row<'a>(list: &'a Value, identifier: &str) -> Option<&'a Value> {
    list.as_array()?.iter().find(|row| row["issue_identifier"] == identifier)
}

/// A service that is served, whether or not it starts anything.
fn served_with(harness: &Harness, more: &[&str]) -> (Service, String) {
    let mut service = harness.start(&[&["run", "--port", "0"], more].concat());
    let seen = service.log_until("dashboard and API are served");
    let (_, address) = seen.last().unwrap().split_once("address=").unwrap();
    (service, format!("http://{}", address.split_whitespace().next().unwrap()))
}

fn has_settled(state: &Value) -> bool {
    row(&state["retrying"], "MT-2").is_some()
        && row(&state["blocked"], "MT-3").is_some()
        && row(&state["running"], "MT-1").is_some_and(|row| row["turn_count"] == 1)
}

#[test]
fn rule_16_4_a_killed_service_comes_back_as_it_was() {
    let harness = harness();
    let (service, url) = served(&harness);
    wait_for("work, a failure and a question", || has_settled(&state(&url)));
    assert!(post(&url, "/api/v1/pause").contains("202"), "told means acknowledged");
    let before = state(&url);
    service.signal(Signal::KILL);
    service.end();

    let (service, url) = served_with(&harness, &["--logs-root", "logs"]);
    let after = state(&url);
    assert_eq!(after["paused"], true);
    let [was, is] = [&before, &after].map(|state| row(&state["blocked"], "MT-3").unwrap().clone());
    assert_eq!(was["question"], is["question"]);
    assert!(is["question"].to_string().contains("Which door?"), "{is}");
    let [was, is] = [&before, &after].map(|state| row(&state["retrying"], "MT-2").unwrap().clone());
    assert_eq!((&was["attempt"], &was["error"]), (&is["attempt"], &is["error"]));
    let cut_off = row(&after["retrying"], "MT-1").unwrap();
    assert!(cut_off["error"].to_string().contains("interrupted"), "{cut_off}");
    let totals = |state: &Value, name: &str| state["codex_totals"][name].as_u64().unwrap();
    assert_eq!(totals(&after, "runs_interrupted"), 1);
    assert_eq!(totals(&after, "runs_started"), totals(&before, "runs_started"));

    assert!(post(&url, "/api/v1/resume").contains("202"));
    wait_for("the work goes on", || row(&state(&url)["running"], "MT-1").is_some());
    let said = || {
        let runs = harness.path("logs/runs");
        let folders = if runs.exists() { files(&runs) } else { Vec::new() }.into_iter();
        let of = folders.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] });
        of.filter(|path| path.to_string_lossy().contains("MT-1"))
            .map(|path| fs::read_to_string(path).unwrap())
            .collect::<String>()
    };
    wait_for("what the agent is told", || said().contains("Symphony was restarted"));
    assert!(said().contains("you may have been given it already"), "{}", said());
    service.stop();
}

#[test]
fn rule_16_2_what_is_kept_can_be_seen_and_copied_while_the_service_runs() {
    let harness = harness();
    let shown = harness.run(&["state", "show"]);
    assert_eq!(shown.code, Some(1));
    assert!(shown.stderr.contains("the service has not run yet"), "{}", shown.stderr);
    let (service, url) = served(&harness);
    wait_for("work, a failure and a question", || has_settled(&state(&url)));
    let shown = harness.run(&["state", "show"]);
    assert_eq!(shown.code, Some(0), "{}", shown.stderr);
    for wanted in [".local/state/symphony/", "MT-1", "running", "MT-2", "Which door?"] {
        assert!(shown.stdout.contains(wanted), "no {wanted:?} in {}", shown.stdout);
    }
    let copied = harness.run(&["state", "backup", "copy.db"]);
    assert_eq!(copied.code, Some(0), "{}", copied.stderr);
    let again = harness.run(&["state", "backup", "copy.db"]);
    assert_eq!(again.code, Some(1), "a file is not overwritten");
    service.stop();

    // The copy is a store like any other.
    let named = FILE.replace("agent:\n", "storage:\n  path: copy.db\nagent:\n");
    harness.write("WORKFLOW.md", &named);
    let (service, url) = served_with(&harness, &[]);
    assert!(row(&state(&url)["blocked"], "MT-3").is_some());
    service.stop();
}

#[test]
fn rule_16_2_two_services_do_not_share_a_store() {
    let harness = harness();
    let (service, _) = served(&harness);
    let path = files(&harness.path("home/.local/state/symphony")).remove(0).join("symphony.db");
    let named = format!("storage:\n  path: {}\nagent:\n", path.display());
    harness.write("OTHER.md", &FILE.replace("./work", "./other").replace("agent:\n", &named));
    let shown = harness.run(&["run", "OTHER.md"]);
    assert_eq!(shown.code, Some(1));
    assert!(shown.stderr.contains("cannot be kept in"), "{}", shown.stderr);
    service.stop();
}

#[test]
fn rule_16_6_a_file_without_places_has_them_in_the_state_folder() {
    let harness = harness();
    harness.write("WORKFLOW.md", &FILE.replace("workspace:\n  root: ./work\n", ""));
    let (service, url) = served(&harness);
    wait_for("work, a failure and a question", || has_settled(&state(&url)));
    let folder = files(&harness.path("home/.local/state/symphony")).remove(0);
    assert!(folder.join("symphony.db").exists() && folder.join("workspaces/MT-1").exists());
    let shown = harness.run(&["status"]);
    assert_eq!(shown.code, Some(0), "it is found there: {}", shown.stderr);
    service.stop();
}

#[test]
fn rule_16_6_workspaces_stay_where_older_versions_had_them() {
    let harness = harness();
    harness.write("WORKFLOW.md", &FILE.replace("workspace:\n  root: ./work\n", ""));
    let former = harness.path("tmp/symphony_workspaces");
    fs::create_dir_all(former.join("~symphony/records")).unwrap();
    let shown = harness.run(&["check", "--offline"]);
    assert!(!shown.stdout.contains("older versions"), "nothing is there: {}", shown.stdout);
    fs::write(former.join("~symphony/records/MT-9.json"), "{}").unwrap();
    let shown = harness.run(&["check", "--offline"]);
    let said = format!("{}{}", shown.stdout, shown.stderr);
    assert_eq!(shown.code, Some(0), "{said}");
    assert!(said.contains("workspace.root") && said.contains("older versions"), "{said}");
    let (service, url) = served(&harness);
    wait_for("work, a failure and a question", || has_settled(&state(&url)));
    assert!(former.join("MT-1").exists());
    service.stop();
}

/// The same board for several services.
fn shared(harness: &Harness, name: &str, more: &str) {
    let text = format!(
        "---\ntracker:\n  kind: memory\n  provider:\n    board: board.yaml\n{more}workspace:\n  \
         root: ./{name}\nagent:\n  kind: scripted\n---\nWork.\n"
    );
    harness.replace(&format!("{name}.md"), &text);
}

#[test]
fn rule_16_6_a_second_service_of_a_scope_is_refused_unless_something_keeps_them_apart() {
    let harness = harness();
    let board = "issues:\n- {identifier: MT-1, title: One, state: Todo, labels: [hang]}\n";
    harness.write("board.yaml", board);
    shared(&harness, "first", "");
    shared(&harness, "second", "");
    let mut first = harness.start(&["run", "first.md"]);
    first.log_until("service starts");
    let refused = harness.run(&["run", "second.md"]);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    let process = format!("process {}", first.id());
    for wanted in [&*process, "first.md", "/first", "--allow-second"] {
        assert!(refused.stderr.contains(wanted), "no {wanted:?} in {}", refused.stderr);
    }
    let mut second = harness.start(&["run", "second.md", "--allow-second"]);
    second.log_until("service starts");
    second.stop();

    // One that works on other states starts, and may not be given these while the first lives.
    shared(&harness, "second", "  active_states: [Review]\n");
    let mut second = harness.start(&["run", "second.md"]);
    second.log_until("service starts");
    shared(&harness, "second", "  active_states: [Review, Todo]\n");
    second.log_until("works on the same issues");
    first.signal(Signal::KILL);
    first.end();
    second.log_until("run started");
    second.stop();
}
