//! `symphony check`: it says what `run` would say, and its output serves people, scripts and CI.

use serde_json::Value;

use crate::program::Harness;

fn file(settings: &str) -> String {
    format!(
        "---\ntracker: {{kind: memory}}\nagent: {{kind: scripted}}\nworkspace: {{root: ./work}}\n\
         {settings}---\nWork.\n"
    )
}

#[test]
fn rule_14_6_check_refuses_what_run_refuses() {
    let mut harness = Harness::new();
    for (settings, wanted) in [
        ("server: {port: 0, host: 0.0.0.0}\n", "so it needs a token"),
        ("server: {port: 0, token: $NO_SUCH_TOKEN}\n", "the variable NO_SUCH_TOKEN is not set"),
        ("server: {port: 0, token: short}\n", "at least 16 characters"),
        ("server: {port: 0, host: example.com}\n", "is not an IP address"),
        ("polling: {quiet_hours: {from: '1:00', to: '2:00', timezone: Nowhere}}\n", "Nowhere"),
    ] {
        harness.write("WORKFLOW.md", &file(settings));
        let (checked, ran) = (harness.run(&["check", "--offline"]), harness.run(&["run"]));
        assert_eq!((checked.code, ran.code), (Some(1), Some(1)), "{checked:#?} {ran:#?}");
        assert!(checked.stdout.contains(wanted), "no {wanted:?} in {checked:#?}");
        assert!(ran.stderr.contains(wanted), "no {wanted:?} in {ran:#?}");
        assert!(checked.stdout.contains("--> WORKFLOW.md:5:"), "no line in {checked:#?}");
        assert!(!harness.path("work").exists(), "nothing was begun");
    }
    // What is wrong only with a port is a warning until there is one.
    harness.write("WORKFLOW.md", &file("server: {host: 0.0.0.0}\n"));
    let (checked, ran) =
        (harness.run(&["check", "--offline"]), harness.run(&["run", "--port", "0"]));
    assert_eq!((checked.code, ran.code), (Some(0), Some(1)), "{checked:#?} {ran:#?}");
    let wanted =
        "warning[ignored_setting]: server.host: is not used without a port; with one: 0.0.0.0";
    assert!(checked.stdout.contains(wanted), "{checked:#?}");
    harness.set("LINEAR_API_KEY", "lin_api_0123456789");
    assert_eq!(harness.run(&["init", "--force", "--tracker", "linear"]).code, Some(0));
    let (checked, ran) = (harness.run(&["check", "--offline"]), harness.run(&["run"]));
    assert_eq!((checked.code, ran.code), (Some(1), Some(1)), "{checked:#?} {ran:#?}");
    for said in [checked.stdout, ran.stderr] {
        assert!(said.contains("is the placeholder that `symphony init` wrote"), "{said}");
    }
}

#[test]
fn rule_14_6_show_prints_a_front_matter_first_that_can_be_pasted_back() {
    let harness = Harness::new();
    harness
        .write("WORKFLOW.md", &file("polling: {interval_ms: 1500}\nhooks: {after_run: 'a: b'}\n"));
    let first = harness.run(&["check", "--offline", "--show"]).stdout;
    let shown = first.strip_prefix("---\n").unwrap();
    let (yaml, rest) = shown.split_once("\n---\n").unwrap();
    for wanted in ["interval_ms: 1500", "max_turns: 20", "after_run: 'a: b'", "terminal_states:"] {
        assert!(yaml.contains(wanted), "no {wanted:?} in {yaml}");
    }
    assert!(rest.contains("WORKFLOW.md can be used\n"), "what was found comes after: {rest}");
    harness.write("WORKFLOW.md", &format!("---\n{yaml}\n---\nWork.\n"));
    assert_eq!(harness.run(&["check", "--offline", "--show"]).stdout, first);
}

#[test]
fn rule_14_6_warnings_fail_a_strict_check_alone() {
    let harness = Harness::new();
    harness.write("WORKFLOW.md", &file("colour: blue\n"));
    let (lax, strict) = (["check", "--offline"], ["check", "--offline", "--strict"]);
    assert_eq!(harness.run(&lax).code, Some(0));
    let shown = harness.run(&strict);
    assert_eq!(shown.code, Some(1), "{shown:#?}");
    assert!(shown.stdout.contains("warning[unknown_key]: colour"), "{shown:#?}");
    harness.write("WORKFLOW.md", &file(""));
    assert_eq!(harness.run(&strict).code, Some(0));
    let quiet = harness.run(&["check", "--offline", "--quiet"]);
    assert_eq!((quiet.code, quiet.stdout.as_str()), (Some(0), ""), "{quiet:#?}");
}

#[test]
fn rule_14_6_the_schema_for_editors_knows_every_section_and_the_templates_name_it() {
    let harness = Harness::new();
    let shown = harness.run(&["schema"]);
    assert_eq!(shown.code, Some(0), "{shown:#?}");
    let schema: Value = serde_json::from_str(&shown.stdout).unwrap();
    let properties = &schema["properties"];
    assert_eq!(properties["agent"]["properties"]["max_turns"]["default"], 20);
    for section in ["tracker", "hooks", "codex", "server", "workspace"] {
        assert!(properties[section]["description"].is_string(), "no {section} in {schema:#}");
    }
    let line = "# yaml-language-server: $schema=./symphony.schema.json\n";
    for tracker in ["memory", "linear"] {
        assert_eq!(harness.run(&["init", "--force", "--tracker", tracker]).code, Some(0));
        assert!(harness.read("WORKFLOW.md").contains(line), "{tracker}");
    }
    harness.write("WORKFLOW.md", &file("").replacen("---\n", &format!("---\n{line}"), 1));
    assert_eq!(harness.run(&["check", "--offline", "--strict"]).code, Some(0));
}

#[test]
fn rule_14_6_check_prints_json() {
    let harness = Harness::new();
    harness.write("WORKFLOW.md", &file("colour: blue\npolling: {interval_ms: 0}\n"));
    let json = |words: &[&str]| -> Value {
        let shown = harness.run(&[&["check", "--json"], words].concat());
        serde_json::from_str(&shown.stdout).unwrap()
    };
    let bad = json(&["--offline"]);
    assert_eq!(bad["usable"], false);
    let (error, warning) = (&bad["problems"][0], &bad["problems"][1]);
    assert_eq!((&error["severity"], &error["problem"]["line"]), (&"error".into(), &6.into()));
    assert_eq!(error["problem"]["path"], "polling.interval_ms");
    assert_eq!(
        (&warning["severity"], &warning["problem"]["code"]),
        (&"warning".into(), &"unknown_key".into())
    );
    harness.write("WORKFLOW.md", &file("polling: {interval_ms: 7}\n"));
    let good = json(&["--show", "--offline"]);
    assert_eq!((&good["usable"], &good["problems"]), (&true.into(), &Value::Array(Vec::new())));
    assert_eq!(good["settings"]["polling"]["interval_ms"], 7);
    let agent = "codex: {command: no-such-codex app-server}\n";
    harness.write("WORKFLOW.md", &file(agent).replace("kind: scripted", "kind: codex"));
    let asked = json(&[]);
    let findings = asked["findings"].as_array().unwrap();
    let is_wrong = |finding: &&Value| finding["severity"] == "error";
    assert_eq!(findings.iter().find(is_wrong).unwrap()["subject"], "codex", "{asked:#}");
}
