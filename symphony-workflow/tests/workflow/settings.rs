//! Contract section 3: every row of the table has its default, a right value and a wrong one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value, json};
use symphony_core::settings::{
    ActivitySettings, AgentSection, Approvals, LogFilter, LogFormat, PromptEngine, Provider,
    QuietHours, Settings, StateSet,
};
use symphony_core::{Label, StateName};
use symphony_workflow::json_schema;

use crate::files::{Files, texts};

/// One key: a right value with what it changes, and a wrong value with what is said about it.
struct Row {
    path: &'static str,
    right: &'static str,
    sets: fn(&mut Settings),
    wrong: &'static str,
    said: &'static str,
}

const fn row(
    path: &'static str,
    right: &'static str,
    sets: fn(&mut Settings),
    wrong: &'static str,
    said: &'static str,
) -> Row {
    Row { path, right, sets, wrong, said }
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn quiet(from: u16, to: u16, timezone: Option<String>) -> Option<QuietHours> {
    Some(QuietHours { from, to, timezone })
}

fn provider(json: Value) -> Provider {
    match json {
        Value::Object(raw) => Provider::new(raw),
        _ => Provider::new(Map::new()),
    }
}

fn activity(settings: &mut Settings) -> &mut ActivitySettings {
    settings.polling.activity.get_or_insert_with(ActivitySettings::default)
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    row("tracker.provider", "{a: $B, c: [1]}", |s| s.tracker.provider = provider(json!({"a": "$B", "c": [1]})),
        "[]", "must be a map, got a list"),
    row("tracker.api_key", "$KEY", |s| s.tracker.provider = provider(json!({"api_key": "$KEY"})), "", ""),
    row("tracker.project_slug", "x", |s| s.tracker.provider = provider(json!({"project_slug": "x"})), "", ""),
    row("tracker.endpoint", "x", |s| s.tracker.provider = provider(json!({"endpoint": "x"})), "", ""),
    row("tracker.assignee", "[me, 7]", |s| s.tracker.provider = provider(json!({"assignee": ["me", 7]})), "", ""),
    row("tracker.required_labels", "[Codex, 2]", |s| s.tracker.required_labels = vec![Label::new("codex"), Label::new("2")],
        "codex", "must be a list of texts, got \"codex\""),
    row("tracker.active_states", "[Ready]", |s| s.tracker.active_states = StateSet::new(["Ready"]),
        "[[Ready]]", "must be a list of texts, got a list with a list in it"),
    row("tracker.terminal_states", "[]", |s| s.tracker.terminal_states = StateSet::default(),
        "{Done: 1}", "must be a list of texts, got a map"),
    row("tracker.timeout_ms", "1", |s| s.tracker.timeout = ms(1), "0", "must be a positive integer, got 0"),

    row("polling.interval_ms", "5000", |s| s.polling.interval = ms(5000), "0", "must be a positive integer, got 0"),
    row("polling.jobs.candidates_ms", "7", |s| s.polling.jobs.candidates = Some(ms(7)), "-7", "must be a positive integer, got -7"),
    row("polling.jobs.refresh_ms", "7", |s| s.polling.jobs.refresh = Some(ms(7)), "soon", "must be a positive integer, got \"soon\""),
    row("polling.jobs.sweep_ms", "7", |s| s.polling.jobs.sweep = ms(7), "1.5", "must be a positive integer, got 1.5"),
    row("polling.activity.idle_after_ms", "7", |s| activity(s).idle_after = ms(7), "0", "must be a positive integer, got 0"),
    row("polling.activity.idle_ms", "7", |s| activity(s).idle = ms(7), "0", "must be a positive integer, got 0"),
    row("polling.activity.dormant_after_ms", "7", |s| activity(s).dormant_after = ms(7), "0", "must be a positive integer, got 0"),
    row("polling.activity.dormant_ms", "7", |s| activity(s).dormant = ms(7), "true", "must be a positive integer, got true"),
    row("polling.budget.per_hour", "7", |s| s.polling.budget.per_hour = Some(7), "0", "must be a positive integer, got 0"),
    row("polling.budget.per_day", "7", |s| s.polling.budget.per_day = Some(7), "4294967296", "must be at most 4294967295, got 4294967296"),
    row("polling.budget.reserve", "1", |s| s.polling.budget.reserve = 1.0, "1.1", "must be a number from 0 to 1, got 1.1"),
    row("polling.activity_file", "~/touch", |s| s.polling.activity_file = Some(PathBuf::from("/home/ada/touch")),
        "3", "must be text, got 3"),

    row("workspace.root", "/srv", |s| s.workspace.root = PathBuf::from("/srv"), "2026", "must be text, got 2026"),

    row("storage.path", "~/symphony.db", |s| s.storage.path = Some(PathBuf::from("/home/ada/symphony.db")),
        "7", "must be text, got 7"),

    row("hooks.after_create", "a", |s| s.hooks.after_create = Some("a".into()), "[a]", "must be text, got a list"),
    row("hooks.before_run", "a", |s| s.hooks.before_run = Some("a".into()), "true", "must be text, got true"),
    row("hooks.after_run", "a", |s| s.hooks.after_run = Some("a".into()), "1", "must be text, got 1"),
    row("hooks.before_remove", "a", |s| s.hooks.before_remove = Some("a".into()), "\"a\\0b\"", "must be text, got \"a\\0b\""),
    row("hooks.timeout_ms", "7", |s| s.hooks.timeout = ms(7), "-1", "must be a positive integer, got -1"),
    row("hooks.env", "[A]", |s| s.hooks.env = vec!["A".into()], "[~]", "must be a list of texts, got a list with null in it"),

    row("agent.kind", "other", |s| { s.agent.kind = "other".into(); s.agent.common.command = None; },
        "claude", "this version has the agents codex and other, not \"claude\""),
    row("agent.max_concurrent_agents", "7", |s| s.agent.max_concurrent_agents = 7, "0", "must be a positive integer, got 0"),
    row("agent.max_concurrent_agents_by_state", "{Todo: 1}",
        |s| s.agent.max_concurrent_agents_by_state = BTreeMap::from([(StateName::new("todo"), 1)]),
        "3", "must be a map, got 3"),
    row("agent.max_turns", "7", |s| s.agent.max_turns = 7, "0", "must be a positive integer, got 0"),
    row("agent.max_retry_backoff_ms", "7", |s| s.agent.max_retry_backoff = ms(7),
        "99999999999999999999", "must be at most 3153600000000, got \"99999999999999999999\""),
    row("agent.finish_grace_ms", "0", |s| s.agent.finish_grace = ms(0), "-1", "must be an integer of 0 or more, got -1"),
    row("agent.stop_grace_ms", "0", |s| s.agent.stop_grace = ms(0), "-1", "must be an integer of 0 or more, got -1"),

    row("agent.effort", "high", |s| s.agent.common.effort = Some("high".into()), "' '", "must not be blank"),
    row("agent.approvals", "accept", |s| s.agent.common.approvals = Approvals::Accept,
        "maybe", "must be one of accept, decline, block, got \"maybe\""),
    row("agent.turn_timeout_ms", "8", |s| s.agent.common.turn_timeout = ms(8), "0", "must be a positive integer, got 0"),
    row("agent.read_timeout_ms", "8", |s| s.agent.common.read_timeout = ms(8), "0", "must be a positive integer, got 0"),
    row("agent.stall_timeout_ms", "-1", |s| s.agent.common.stall_timeout = None, "off", "must be an integer, got \"off\""),

    row("codex.model", "m-1", |s| s.agent.common.model = Some("m-1".into()), "[]", "must be text, got a list"),
    row("codex.effort", "low", |s| s.agent.common.effort = Some("low".into()), "7", "must be text, got 7"),
    row("codex.command", "FOO=1 codex app-server", |s| s.agent.common.command = Some("FOO=1 codex app-server".into()),
        "' '", "must not be blank"),
    row("codex.approval_policy", "{reject: {rules: true}}", |s| s.agent.section.set("approval_policy", json!({"reject": {"rules": true}})),
        "7", "must be text or a map, got 7"),
    row("codex.thread_sandbox", "read-only", |s| s.agent.section.set("thread_sandbox", "read-only"),
        "''", "must not be blank"),
    row("codex.turn_sandbox_policy", "{type: dangerFullAccess}",
        |s| s.agent.section.set("turn_sandbox_policy", json!({"type": "dangerFullAccess"})),
        "[]", "must be text or a map, got a list"),
    row("codex.approvals", "block", |s| s.agent.common.approvals = Approvals::Block,
        "maybe", "must be one of accept, decline, block, got \"maybe\""),
    row("codex.questions", "off", |s| s.agent.section.set("questions", "off"),
        "ask", "must be off (questions of an agent cannot be answered yet), got \"ask\""),
    row("codex.turn_timeout_ms", "7", |s| s.agent.common.turn_timeout = ms(7), "0", "must be a positive integer, got 0"),
    row("codex.read_timeout_ms", "7", |s| s.agent.common.read_timeout = ms(7), "0", "must be a positive integer, got 0"),
    row("codex.stall_timeout_ms", "0", |s| s.agent.common.stall_timeout = None, "off", "must be an integer, got \"off\""),

    row("prompt.engine", "tera", |s| s.prompt.engine = Some(PromptEngine::Tera), "jinja", "must be one of tera, liquid, got \"jinja\""),

    row("server.port", "0", |s| s.server.port = Some(0), "65536", "must be an integer from 0 to 65535, got 65536"),
    row("server.host", "0.0.0.0", |s| s.server.host = "0.0.0.0".into(), "''", "must not be blank"),
    row("server.token", "$TOKEN", |s| s.server.token = Some("$TOKEN".into()), "123", "must be text, got a number"),
    row("server.allowed_hosts", "[a.example]", |s| s.server.allowed_hosts = vec!["a.example".into()],
        "a.example", "must be a list of texts, got \"a.example\""),

    row("observability.dashboard_enabled", "false", |s| s.observability.dashboard_enabled = false,
        "sometimes", "must be true or false, got \"sometimes\""),
    row("observability.refresh_ms", "7", |s| s.observability.refresh = ms(7), "0", "must be a positive integer, got 0"),
    row("observability.render_interval_ms", "16", |s| s.observability.render_interval = ms(16), "0", "must be a positive integer, got 0"),

    row("logging.format", "json", |s| s.logging.format = LogFormat::Json, "xml", "must be one of text, json, got \"xml\""),
    row("logging.level", "WARN", |s| s.logging.level = LogFilter::parse("warn").unwrap_or_default(),
        "loud", "must be a level (off, error, warn, info, debug, trace) or a list such as info,symphony_linear=debug, got \"loud\""),
    row("logging.max_bytes", "7", |s| s.logging.max_bytes = 7, "0", "must be a positive integer, got 0"),
    row("logging.max_files", "0", |s| s.logging.max_files = 0, "-1", "must be an integer of 0 or more, got -1"),
];

/// Keys that do not stand alone; each has a test of its own below.
const APART: &[&str] = &[
    "tracker.kind",
    "agent.command",
    "agent.model",
    "polling.quiet_hours.from",
    "polling.quiet_hours.to",
    "polling.quiet_hours.timezone",
    "worker",
];

fn files() -> Files {
    Files::new().agent("other")
}

/// A file that sets one key, which stands on the last line but one.
fn file(path: &str, value: &str) -> String {
    let mut text = "---\ntracker:\n  kind: memory\n".to_owned();
    for (depth, part) in path.split('.').enumerate() {
        if !(depth == 0 && part == "tracker") {
            text += &format!("{}{part}:\n", "  ".repeat(depth));
        }
    }
    format!("{} {value}\n---\n", text.trim_end())
}

fn defaults() -> Settings {
    let settings = files().parse("---\ntracker: {kind: memory}\n---\n").settings;
    (*settings).clone()
}

#[test]
fn rule_3_every_default_is_that_of_the_table() {
    let mut expected = Settings::new(
        "memory",
        StateSet::new(["Todo", "In Progress"]),
        StateSet::new(["Closed", "Cancelled", "Canceled", "Duplicate", "Done"]),
        PathBuf::from("/state/workspaces"),
    );
    expected.agent.common.command = Some("codex app-server".to_owned()); // Codex's own default
    assert_eq!(defaults(), expected);
    let shown = serde_json::to_value(&expected).unwrap();
    let secs = |secs: u64| json!({"secs": secs, "nanos": 0});
    assert_eq!(
        shown,
        json!({
            "tracker": {
                "kind": "memory", "provider": {}, "required_labels": [],
                "active_states": ["Todo", "In Progress"],
                "terminal_states": ["Closed", "Cancelled", "Canceled", "Duplicate", "Done"],
                "timeout": secs(30),
            },
            "polling": {
                "interval": secs(30),
                "jobs": {"candidates": null, "refresh": null, "sweep": secs(3600)},
                "activity": null, "quiet_hours": null,
                "budget": {"per_hour": null, "per_day": null, "reserve": 0.2},
                "activity_file": null,
            },
            "workspace": {"root": "/state/workspaces"},
            "storage": {"path": null},
            "hooks": {
                "after_create": null, "before_run": null, "after_run": null, "before_remove": null,
                "timeout": secs(60), "env": [],
            },
            "agent": {
                "kind": "codex", "max_concurrent_agents": 10, "max_concurrent_agents_by_state": {},
                "max_turns": 20, "max_retry_backoff": secs(300), "stop_grace": secs(5), "finish_grace": secs(60),
                "common": {
                    "command": "codex app-server", "model": null, "effort": null, "approvals": "decline",
                    "turn_timeout": secs(3600), "read_timeout": secs(5), "stall_timeout": secs(300),
                },
                "section": {},
            },
            "prompt": {"engine": null},
            "server": {"port": null, "host": "127.0.0.1", "allowed_hosts": []},
            "observability": {
                "dashboard_enabled": true, "refresh": secs(1),
                "render_interval": {"secs": 0, "nanos": 100_000_000},
            },
            "logging": {"format": "text", "level": "info", "max_bytes": 10_485_760, "max_files": 5},
            "hosts": [],
        })
    );
}

#[test]
fn rule_3_a_right_value_changes_its_setting_and_nothing_else() {
    for row in ROWS {
        let text = file(row.path, row.right);
        let workflow = files().parse(&text);
        let mut expected = defaults();
        (row.sets)(&mut expected);
        assert_ne!(expected, defaults(), "{}", row.path);
        assert_eq!(*workflow.settings, expected, "{text}");
        assert_eq!(workflow.warnings, [], "{text}");
    }
}

#[test]
fn rule_3_questions_are_off_however_yaml_spells_it_and_nothing_else() {
    for off in ["off", "Off", "'off'", "false", "~"] {
        let workflow = files().parse(&file("codex.questions", off));
        assert_eq!(workflow.settings.agent.common, defaults().agent.common, "{off}");
        assert_eq!(workflow.warnings, [], "{off}");
    }
    for on in ["ask", "true", "on", "block", "1", "[off]"] {
        let refused = files().refused(&file("codex.questions", on));
        let [refused] = &refused[..] else { panic!("{refused:?}") };
        assert!(refused.contains("questions of an agent cannot be answered yet"), "{refused}");
    }
}

#[test]
fn rule_3_a_wrong_value_is_refused_by_path_and_line() {
    for row in ROWS.iter().filter(|row| !row.said.is_empty()) {
        let text = file(row.path, row.wrong);
        let line = text.lines().count() - 1;
        let said = format!("line {line}: {}: {}", row.path, row.said);
        assert_eq!(files().refused(&text), [said], "{text}");
    }
}

#[test]
fn rule_3_a_section_must_be_a_map() {
    let sections =
        ROWS.iter().filter_map(|row| row.path.rsplit_once('.')).map(|(section, _)| section);
    for section in sections.filter(|section| *section != "tracker").collect::<BTreeSet<_>>() {
        let text = file(section, "[]");
        let line = text.lines().count() - 1;
        let said = format!("line {line}: {section}: must be a map, got a list");
        assert_eq!(files().refused(&text), [said], "{text}");
    }
}

#[test]
fn rule_3_the_rows_here_are_the_keys_of_the_schema() {
    let mut keys = BTreeMap::new();
    collect(&json_schema([&symphony_codex::PROFILE]), "", &mut keys);
    let tested = ROWS.iter().map(|row| row.path).chain(APART.iter().copied());
    let tested: BTreeSet<&str> = tested.collect();
    assert_eq!(keys.keys().map(String::as_str).collect::<BTreeSet<_>>(), tested);
}

#[test]
fn rule_3_the_defaults_of_the_schema_are_those_of_the_settings() {
    let mut keys = BTreeMap::new();
    collect(&json_schema([&symphony_codex::PROFILE]), "", &mut keys);
    // The section being there is what turns activity on.
    let with_default = |(path, schema): &(String, Value)| {
        schema.get("default").is_some() && !path.starts_with("polling.activity.")
    };
    let mut checked = 0;
    for (path, schema) in keys.into_iter().filter(with_default) {
        let workflow = files().parse(&file(&path, &schema["default"].to_string()));
        let mut settings = (*workflow.settings).clone();
        settings.agent.section = AgentSection::default(); // it has what the file says
        assert_eq!(settings, defaults(), "{path}");
        checked += 1;
    }
    assert_eq!(checked, 32);
}

#[test]
fn rule_3_activity_is_on_when_its_section_is_there() {
    let settings = files().parse(&file("polling.activity", "{}")).settings;
    assert_eq!(settings.polling.activity, Some(ActivitySettings::default()));
    let mut keys = BTreeMap::new();
    collect(&json_schema([&symphony_codex::PROFILE]), "", &mut keys);
    let schema =
        |key: &str| ms(keys[&format!("polling.activity.{key}")]["default"].as_u64().unwrap());
    let mut expected = ActivitySettings::default();
    expected.idle_after = schema("idle_after_ms");
    expected.idle = schema("idle_ms");
    expected.dormant_after = schema("dormant_after_ms");
    expected.dormant = schema("dormant_ms");
    assert_eq!(ActivitySettings::default(), expected);
}

#[test]
fn rule_3_tracker_kind_is_required_and_not_blank() {
    assert_eq!(
        files().refused("---\ntracker:\n  timeout_ms: 5\n---\n"),
        ["line 2: tracker.kind: is required: this version has the trackers linear and memory"]
    );
    assert_eq!(
        files().refused("---\ntracker: {kind: ''}\n---\n"),
        ["line 2: tracker.kind: must not be blank"]
    );
    assert_eq!(
        files().refused("---\ntracker: {kind: 7}\n---\n"),
        ["line 2: tracker.kind: must be text, got 7"]
    );
    let settings = files().parse("---\ntracker: {kind: ' memory '}\n---\n").settings;
    assert_eq!(*settings, defaults());
}

#[test]
fn rule_3_the_default_agent_must_be_registered_too() {
    let mut files = Files::bare().agent("mine");
    files.register_memory();
    assert_eq!(
        files.refused("---\ntracker: {kind: memory}\n---\n"),
        ["agent.kind: is required, as this version has the agent mine, not codex"]
    );
    assert_eq!(
        files.parse("---\ntracker: {kind: memory}\nagent: {kind: mine}\n---\n").settings.agent.kind,
        "mine"
    );
}

#[test]
fn rule_3_quiet_hours_need_two_different_times() {
    let quiet_hours = |value: &str| files().read(&file("polling.quiet_hours", value));
    let read = |value: &str| quiet_hours(value).unwrap().settings.polling.quiet_hours.clone();
    let refused = |value: &str| texts(&quiet_hours(value).unwrap_err());
    assert_eq!(read("{from: 22:30, to: 7:05}"), quiet(1350, 425, None));
    let berlin = Some("Europe/Berlin".to_owned());
    assert_eq!(
        read("{from: '00:00', to: '23:59', timezone: ' Europe/Berlin'}"),
        quiet(0, 1439, berlin)
    );
    assert_eq!(
        refused("{}"),
        [
            "line 5: polling.quiet_hours.from: is required when there are quiet hours",
            "line 5: polling.quiet_hours.to: is required when there are quiet hours",
        ]
    );
    assert_eq!(
        refused("{from: 24:00, to: 7}"),
        [
            "line 5: polling.quiet_hours.from: must be a time of day such as \"22:30\", got \"24:00\"",
            "line 5: polling.quiet_hours.to: must be a time of day such as \"22:30\", got 7",
        ]
    );
    assert_eq!(
        refused("{from: 7:00, to: 07:00, timezone: ''}"),
        [
            "line 5: polling.quiet_hours.to: must differ from polling.quiet_hours.from",
            "line 5: polling.quiet_hours.timezone: must not be blank",
        ]
    );
}

#[test]
fn rule_3_a_bad_limit_of_a_state_is_ignored_with_a_warning() {
    let text = "---\ntracker: {kind: memory}\nagent:\n  max_concurrent_agents_by_state:\n    Todo: 2\n    ' todo': 3\n    Done: 0\n    Review: lots\n    '': 1\n    5: '4'\n---\n";
    let workflow = files().parse(text);
    assert_eq!(
        workflow.settings.agent.max_concurrent_agents_by_state,
        BTreeMap::from([(StateName::new("todo"), 2), (StateName::new("5"), 4)])
    );
    assert_eq!(
        texts(&workflow.warnings),
        [
            "line 6: agent.max_concurrent_agents_by_state.\" todo\": is the same state once more",
            "line 7: agent.max_concurrent_agents_by_state.Done: must be a positive integer, got 0",
            "line 8: agent.max_concurrent_agents_by_state.Review: must be a positive integer, got \"lots\"",
            "line 9: agent.max_concurrent_agents_by_state.\"\": must have the name of a state",
        ]
    );
}

#[test]
fn rule_3_a_stall_timeout_of_zero_or_less_is_off() {
    for (value, expected) in [("-5", None), ("0", None), ("'0'", None), ("1", Some(ms(1)))] {
        let settings = files().parse(&file("codex.stall_timeout_ms", value)).settings;
        assert_eq!(settings.agent.common.stall_timeout, expected);
    }
}

#[test]
fn rule_3_an_activity_file_whose_variable_is_unset_is_ignored() {
    let workflow = files().parse(&file("polling.activity_file", "$NOWHERE"));
    assert_eq!(*workflow.settings, defaults());
    assert_eq!(
        texts(&workflow.warnings),
        ["line 5: polling.activity_file: the environment variable NOWHERE is not set"]
    );
}

#[test]
fn rule_3_a_worker_that_names_hosts_is_refused_with_the_reason() {
    let said = "line 4: worker: cannot be set until agents can run on other hosts; they run on this machine";
    for value in ["{ssh_hosts: [a]}", "{ssh_hosts: []}", "[a]", "{pool: {host: a}}"] {
        assert_eq!(files().refused(&file("worker", value)), [said]);
    }
    for value in [
        "{max_concurrent_agents_per_host: 2}",
        "{runtime: pi}",
        "{agent: codex-app-server, budget: 5}",
        "5",
    ] {
        let warnings = files().parse(&file("worker", value)).warnings;
        assert_eq!(texts(&warnings), ["line 4: worker: is unknown and ignored"], "{value}");
    }
    for value in ["", "{}", "{ssh_hosts: ~}"] {
        assert_eq!(*files().parse(&file("worker", value)).settings, defaults());
    }
}

#[test]
fn rule_3_a_value_that_is_nearly_right_comes_with_advice() {
    let advice = |path, value| files().read(&file(path, value)).unwrap_err().remove(0).help;
    assert_eq!(advice("hooks.before_run", "true").as_deref(), Some("put it in quotes"));
    assert_eq!(
        advice("tracker.active_states", "Todo, Done").as_deref(),
        Some("write a list, such as [a, b]")
    );
    assert_eq!(advice("agent.max_turns", "0"), None);
    for (path, value, said) in [
        ("polling.interval_ms", "30s", "30 s is 30000"),
        ("hooks.after_create", "[git clone, npm ci]", "write one text"),
        ("agent", "max_turns:3", "put a space after the colon"),
        ("agent", "codex", "`kind:` says which one it is"),
    ] {
        let help = advice(path, value).unwrap_or_default();
        assert!(help.contains(said), "{path}: {value}: {help}");
    }
}

#[test]
fn rule_1_2_a_state_that_is_active_and_terminal_is_told_of() {
    let text = "---\ntracker:\n  kind: memory\n  active_states: [Todo, done]\n---\n";
    let workflow = files().parse(text);
    assert_eq!(
        texts(&workflow.warnings),
        ["line 4: tracker.active_states: \"done\" is terminal too, and counts as that"]
    );
}

/// Every key of a schema with its own part of it.
fn collect(schema: &Value, path: &str, keys: &mut BTreeMap<String, Value>) {
    match schema["properties"].as_object() {
        None => {
            keys.insert(path.to_owned(), schema.clone());
        }
        Some(properties) => {
            assert_eq!(schema["additionalProperties"], json!(true), "{path}");
            for (name, schema) in properties {
                let dot = if path.is_empty() { "" } else { "." };
                collect(schema, &format!("{path}{dot}{name}"), keys);
            }
        }
    }
}

#[test]
fn rule_3_an_agents_own_section_wins_over_what_every_agent_has() {
    let settings = files()
        .parse(
            "---\ntracker: {kind: memory}\nagent:\n  kind: codex\n  command: a codex app-server\n  model: a\n  \
             effort: low\n  turn_timeout_ms: 1\n  read_timeout_ms: 2\n  stall_timeout_ms: 3\n  approvals: accept\n\
             codex:\n  command: b codex app-server\n  turn_timeout_ms: 10\n  stall_timeout_ms: 0\n  approvals: block\n---\n",
        )
        .settings;
    let common = &settings.agent.common;
    assert_eq!(common.command.as_deref(), Some("b codex app-server"));
    assert_eq!((common.model.as_deref(), common.effort.as_deref()), (Some("a"), Some("low")));
    assert_eq!(
        (common.turn_timeout, common.read_timeout, common.stall_timeout),
        (ms(10), ms(2), None)
    );
    assert_eq!(common.approvals, Approvals::Block);
}

#[test]
fn rule_3_a_command_and_a_model_count_only_where_the_kind_is_set() {
    let text = |kind: &str| {
        format!(
            "---\ntracker: {{kind: memory}}\nagent:\n  {kind}command: my codex app-server\n  model: m-1\n---\n"
        )
    };
    let set = files().parse(&text("kind: codex\n  "));
    let common = &set.settings.agent.common;
    assert_eq!(common.command.as_deref(), Some("my codex app-server"));
    assert_eq!(common.model.as_deref(), Some("m-1"));
    assert!(set.warnings.is_empty(), "{:?}", set.warnings);
    let unset = files().parse(&text(""));
    assert_eq!(unset.settings.agent.common, defaults().agent.common);
    assert_eq!(
        texts(&unset.warnings),
        [
            "line 4: agent.command: counts only where agent.kind is set, and is ignored",
            "line 5: agent.model: counts only where agent.kind is set, and is ignored",
        ]
    );
}

#[test]
fn rule_3_codex_without_its_app_server_is_refused_with_what_to_write() {
    let message = "starts Codex without `app-server`, the part of it that Symphony talks to";
    for command in [
        "codex",
        "/opt/bin/codex --yolo",
        "FOO=1 codex exec",
        "'codex'",
        "codex exec --profile app-server-x",
    ] {
        let text = file("codex.command", &format!("\"{command}\""));
        assert_eq!(
            files().refused(&text),
            [format!("line 5: codex.command: {message}")],
            "{command}"
        );
    }
    let common = "---\ntracker: {kind: memory}\nagent:\n  kind: codex\n  command: codex\n---\n";
    assert_eq!(files().refused(common), [format!("line 5: agent.command: {message}")]);
    for command in [
        "codex app-server",
        "codex -c a=b app-server --x",
        "./run-codex.sh",
        "./codex",
        "$CODEX",
        "codex $ARGS",
        "CODEX_HOME=/srv/codex ./serve.sh",
        "sudo -u codex /opt/server",
    ] {
        files().parse(&file("codex.command", &format!("\"{command}\"")));
    }
}

#[test]
fn rule_3_the_section_of_an_agent_that_is_not_in_force_is_checked_and_not_taken() {
    let text = "---\ntracker: {kind: memory}\nagent: {kind: other}\ncodex:\n  approvals: accept\n  thread_sandbox: read-only\n---\n";
    let settings = files().parse(text).settings;
    assert_eq!(settings.agent.section, AgentSection::default());
    assert_eq!(settings.agent.common.approvals, Approvals::Decline);
    let wrong = text.replace("read-only", "7");
    assert_eq!(
        files().refused(&wrong),
        ["line 6: codex.thread_sandbox: must be text or a map, got 7"]
    );
}
