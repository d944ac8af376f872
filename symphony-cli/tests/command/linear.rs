//! `symphony check` and `init` for Linear, with a fake one on loopback.

use std::process::Command;

use rustix::process::Signal;
use symphony_linear_fake::{Fake, FakeIssue, FakeServer, KEY};
use tokio::runtime::Runtime;

use crate::program::{Harness, files};

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// A workflow file for this endpoint and project.
fn file(endpoint: &str, slug: &str) -> String {
    format!(
        "---\ntracker:\n  kind: linear\n  provider:\n    endpoint: {endpoint}\n    api_key: {KEY}\n    \
         project_slug: {slug}\n  required_labels: [agent, agnet]\n  active_states: [todo, In Progess]\n\
         agent:\n  kind: scripted\n---\nGo.\n"
    )
}

#[test]
fn rule_14_1_check_tells_whose_key_it_is_and_what_is_there() {
    let (runtime, harness, fake) = (runtime(), Harness::new(), Fake::new());
    fake.put((1..=3).map(|n| FakeIssue { labels: vec!["agent".to_owned()], ..FakeIssue::new(n) }));
    let server = runtime.block_on(FakeServer::start(fake.clone())).unwrap();
    harness.write("WORKFLOW.md", &file(&server.endpoint(), "symphony-abc123"));
    let checked = harness.run(&["check"]);
    assert_eq!(checked.code, Some(0), "{checked:#?}");
    for wanted in [
        "  key of     robot <robot@example.com>, in The Company",
        "  project    Symphony",
        "  states     Triage, Backlog, Todo, In Progress, Human Review, Done, Canceled",
        "  states     warning: no workflow state is called \"In Progess\"",
        "  label      agent",
        "  label      warning: no label is called \"agnet\"",
        "  issues     0 could start now, of 3 in active states; 3 without a required label",
        "  left       249",
    ] {
        assert!(checked.stdout.contains(wanted), "no {wanted:?} in\n{}", checked.stdout);
    }
    assert!(!checked.stdout.contains(KEY));
    assert_eq!(fake.requests(), 2);

    harness.write("WORKFLOW.md", &file(&server.endpoint(), "nowhere"));
    let checked = harness.run(&["check"]);
    assert_eq!(checked.code, Some(1), "{checked:#?}");
    let wanted = "Linear has no project \"nowhere\" that this key can see";
    assert!(checked.stdout.contains(wanted), "{}", checked.stdout);
}

#[test]
fn rule_14_1_check_without_a_network_says_so_and_still_checks_the_rest() {
    let harness = Harness::new();
    // No server listens there.
    harness.write("WORKFLOW.md", &file("http://127.0.0.1:9/graphql", "abc123"));
    let checked = harness.run(&["check"]);
    assert_eq!(checked.code, Some(0), "{checked:#?}");
    assert!(
        checked.stdout.contains("  linear     warning: Linear cannot be reached"),
        "{checked:#?}"
    );
    assert!(checked.stdout.contains("  agent      scripted"), "{checked:#?}");
    let offline = harness.run(&["check", "--offline"]);
    assert!(!offline.stdout.contains("Linear"), "{offline:#?}");
}

/// An agent that looks wherever it can.
const CURIOUS: &str = "{ env; set; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; } \
    > ../../seen 2>&1; echo dying >&2; exit 3";

#[test]
fn rule_10_2_the_trackers_key_reaches_neither_the_agent_nor_a_log() {
    let (runtime, fake) = (runtime(), Fake::new());
    fake.put([FakeIssue::new(1)]);
    let server = runtime.block_on(FakeServer::start(fake.clone())).unwrap();
    let harness = Harness::new();
    let profile = harness.read("home/.profile");
    harness.write("home/.profile", &format!("{profile}export LINEAR_API_KEY={KEY}\n"));
    let mut harness = harness.without_root();
    harness.set("LINEAR_API_KEY", KEY);
    let file = format!(
        "---\ntracker:\n  kind: linear\n  provider: {{endpoint: '{}', project_slug: abc123}}\n\
         workspace: {{root: ./work}}\ncodex:\n  command: |\n    {CURIOUS}\n---\nGo.\n",
        server.endpoint()
    );
    harness.write("WORKFLOW.md", &file);
    let mut service = harness.start(&["run", "--log", "trace", "--logs-root", "logs"]);
    let mut log = service.log_until("dying");
    service.signal(Signal::TERM);
    let (code, rest) = service.end();
    assert_eq!(code, Some(0));
    log.push(rest);
    log.push(harness.read("logs/symphony.log"));
    let runs = files(&harness.path("logs/runs")).into_iter().flat_map(|issue| files(&issue));
    let runs: Vec<String> = runs.map(|run| std::fs::read_to_string(run).unwrap()).collect();
    assert!(runs.concat().contains("dying"), "what the agent says is kept: {runs:?}");
    log.extend(runs);
    assert!(log.len() > 2 && fake.requests() > 0);
    assert!(!log.iter().any(|text| text.contains(KEY)), "in a log");
    let seen = String::from_utf8_lossy(&std::fs::read(harness.path("seen")).unwrap()).into_owned();
    assert!(seen.contains("SYMPHONY") || seen.contains("HOME="), "it looked: {seen}");
    assert!(!seen.contains(KEY), "seen by the agent");
    harness.wait_until_nothing_is_left();
}

#[test]
fn rule_14_1_init_writes_a_file_for_linear_that_lacks_only_a_key() {
    let harness = Harness::new();
    assert_eq!(harness.run(&["init", "--tracker", "linear"]).code, Some(0));
    let checked = harness.run(&["check", "--offline"]);
    assert_eq!(checked.code, Some(1), "{checked:#?}");
    let wanted = "tracker.provider.api_key: the environment variable LINEAR_API_KEY is not set";
    assert!(checked.stdout.contains(wanted), "{checked:#?}");
    assert_eq!(checked.stdout.matches("error[").count(), 1, "{checked:#?}");
}

#[test]
fn rule_2_2_what_is_wrong_with_a_key_of_the_adapter_has_its_place() {
    let harness = Harness::new();
    let file = "---\ntracker:\n  kind: linear\n  provider:\n    project_slug: abc123\n    \
                api_key: $NOT_SET_ANYWHERE\n---\nGo.\n";
    harness.write("WORKFLOW.md", file);
    let checked = harness.run(&["check", "--offline"]);
    assert_eq!(checked.code, Some(1), "{checked:#?}");
    assert!(checked.stdout.contains("WORKFLOW.md:6:5"), "{checked:#?}");
}

#[test]
fn rule_11_3_a_system_without_certificates_is_told_what_is_missing() {
    let harness = Harness::new();
    harness.write("WORKFLOW.md", &file("https://127.0.0.1:9/graphql", "abc123"));
    let checked = Command::new(env!("CARGO_BIN_EXE_symphony"))
        .args(["check", "--offline"])
        .current_dir(harness.path(""))
        .envs([("SSL_CERT_FILE", "/nowhere.pem"), ("SSL_CERT_DIR", "/nowhere")])
        .output()
        .unwrap();
    let shown = String::from_utf8(checked.stdout).unwrap();
    assert_eq!(checked.status.code(), Some(1), "{shown}");
    assert!(shown.contains("install ca-certificates or name a bundle in SSL_CERT_FILE"), "{shown}");
}

#[test]
fn rule_11_3_the_proxy_variables_are_obeyed_but_not_within_this_machine() {
    let (runtime, harness, fake, proxy) = (runtime(), Harness::new(), Fake::new(), Fake::new());
    let server = runtime.block_on(FakeServer::start(fake.clone())).unwrap();
    let between = runtime.block_on(FakeServer::start(proxy.clone())).unwrap();
    let check = || {
        let checked = Command::new(env!("CARGO_BIN_EXE_symphony"))
            .arg("check")
            .current_dir(harness.path(""))
            .envs(["HTTPS_PROXY", "HTTP_PROXY"].map(|name| (name, between.endpoint())))
            .env_remove("NO_PROXY")
            .env_remove("no_proxy")
            .output()
            .unwrap();
        String::from_utf8(checked.stdout).unwrap()
    };
    harness.write("WORKFLOW.md", &file(&server.endpoint(), "abc123"));
    let shown = check();
    assert!(shown.contains("robot@example.com"), "{shown}");
    assert_eq!((fake.requests(), proxy.connections()), (2, 0), "the key is seen by no proxy");
    harness.write("WORKFLOW.md", &file("https://linear.invalid/graphql", "abc123"));
    let shown = check();
    assert!(shown.contains("warning: Linear cannot be reached"), "{shown}");
    assert!(proxy.connections() >= 1, "the proxy was asked");
    assert!(proxy.made().iter().all(|made| made.query.is_empty()), "for a tunnel, and no more");
}
