//! Contract section 2 (parsing): what a file is, and how its problems are told.

mod docs;
mod files;
mod settings;
mod slips;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use files::{Files, problems, texts};
use symphony_core::orchestrator::{Configuration, Generation, Restored};
use symphony_core::problem::{Position, Problem, ProblemKind};
use symphony_core::settings::{PromptEngine, StateSet};
use symphony_core::time::Now;
use symphony_core::tracker::TrackerProfile;
use symphony_core::{Label, Orchestrator, Scope, StateName};
use symphony_workflow::{Workflow, WorkflowContext};

const MEMORY: &str = "---\ntracker:\n  kind: memory\n";

#[test]
fn rule_2_1_front_matter_ends_at_the_next_fence_and_the_rest_is_the_prompt() {
    let workflow =
        Files::new().parse("---\ntracker: {kind: memory}\n---\n\n  Do it.\n---\nWell.\n\n");
    assert_eq!(workflow.settings.tracker.kind, "memory");
    assert_eq!(workflow.body, "Do it.\n---\nWell.");
    assert_eq!(workflow.body_line, 5);
}

#[test]
fn rule_2_1_unclosed_front_matter_is_all_yaml_and_the_prompt_is_empty() {
    let workflow = Files::new().parse("---\ntracker:\n  kind: memory\nagent:\n  max_turns: 3");
    assert_eq!(workflow.settings.agent.max_turns, 3);
    assert_eq!((&*workflow.body, workflow.body_line), ("", 5));
    let told = "line 1: the front matter is never closed by a line `---`, so there is no prompt";
    assert_eq!(texts(&workflow.warnings), [told]);
}

#[test]
fn rule_2_1_settings_that_do_not_begin_the_file_are_told_to() {
    let help = |text: &str| problems(Files::new().read(text)).remove(0).help.unwrap();
    let settings = "tracker: {kind: memory}\n---\nDo it.\n";
    for (before, line) in [("\n---\n", 2), ("--- \n", 1), ("# Work\n\n---\n", 3)] {
        let told =
            format!("line {line} has the first `---`: it must be the first line of the file");
        assert!(help(&format!("{before}{settings}")).starts_with(&told), "{before:?}");
    }
    let told = "settings stand at the top, between two lines `---`";
    assert_eq!(help("tracker: {kind: memory}\n"), told);
    assert_eq!(help("---\n---\nDo it.\n"), "write `kind: linear` or `kind: memory`");
}

#[test]
fn rule_2_2_a_tab_in_the_indentation_is_named() {
    let found = problems(Files::new().read("---\ntracker:\n\tkind: memory\n---\n")).remove(0);
    assert_eq!(found.at.map(|at| at.line), Some(3));
    assert_eq!(found.help.as_deref(), Some("indent with spaces: YAML takes no tabs there"));
}

#[test]
fn rule_2_1_a_file_without_front_matter_has_empty_settings() {
    for text in ["Do it.", "", " ---\nkind: x\n---\n", "--- \n", "# Title\n---\na: 1\n---\n"] {
        assert_eq!(
            Files::new().refused(text),
            ["tracker.kind: is required: this version has the trackers linear and memory"],
            "{text:?}"
        );
    }
}

#[test]
fn rule_2_1_empty_front_matter_has_empty_settings() {
    for text in ["---\n---\nDo it.", "---\n# nothing\n---\n", "---\n~\n---\n"] {
        assert_eq!(
            Files::new().refused(text),
            ["tracker.kind: is required: this version has the trackers linear and memory"],
            "{text:?}"
        );
    }
}

#[test]
fn rule_2_1_line_ends_of_windows_and_a_byte_order_mark_are_accepted() {
    let text = "\u{feff}---\r\ntracker:\r\n  kind: memory\r\nhooks:\r\n  before_run: |\r\n    a\r\n    b\r\n---\r\nDo\r\nit.\r\n";
    let workflow = Files::new().parse(text);
    assert_eq!(workflow.settings.hooks.before_run.as_deref(), Some("a\nb\n"));
    assert_eq!(workflow.body, "Do\r\nit.");
    assert_eq!(workflow.body_line, 9);
    let refused =
        Files::new().refused(&text.replace("kind: memory", "kind: memory\r\n  timeout_ms: 0"));
    assert_eq!(refused, ["line 4: tracker.timeout_ms: must be a positive integer, got 0"]);
}

#[test]
fn rule_2_2_invalid_yaml_is_a_parse_error_with_line_and_column() {
    let found =
        problems(Files::new().read("---\ntracker:\n  kind: memory\n  - oops\n---\nDo it.\n"));
    let expected = Problem::new(
        ProblemKind::WorkflowParseError,
        "while parsing a block mapping, did not find expected key",
    );
    assert_eq!(found, [expected.with_position(Some(Position { line: 4, column: 5 }))]);
    assert_eq!(found[0].kind.as_str(), "workflow_parse_error");
}

#[test]
fn rule_2_2_front_matter_that_is_not_a_map_is_refused() {
    for (yaml, kind) in
        [("- a\n- b", "a list"), ("hello", "text"), ("42", "a number"), ("true", "a flag")]
    {
        let found = problems(Files::new().read(&format!("---\n{yaml}\n---\nDo it.")));
        let message = format!("the front matter must be a map, got {kind}");
        assert_eq!(found, [Problem::new(ProblemKind::WorkflowFrontMatterNotAMap, message)]);
    }
}

#[test]
fn rule_2_2_duplicate_keys_are_refused_with_their_lines() {
    let text = "---\ntracker:\n  kind: memory\nagent:\n  max_turns: 3\n  max_turns: 4\nunknown:\n  - a: 1\n    a: 2\nagent:\n  max_turns: 0\n---\n";
    assert_eq!(
        Files::new().refused(text),
        [
            "line 6: agent.max_turns: the key is set twice, on lines 5 and 6",
            "line 10: agent: the key is set twice, on lines 4 and 10",
            "line 7: unknown: is unknown and ignored",
            "line 9: unknown.a: the key is set twice, on lines 8 and 9",
        ]
    );
}

#[test]
fn rule_2_2_a_duplicate_key_where_nothing_is_read_is_a_warning() {
    let workflow = Files::new().parse(
        "---\ntracker: {kind: memory}\nreview:\n  gate: 1\n  gate: 2\nagent: {colour: {a: 1, a: 2}}\n---\n",
    );
    let kinds: Vec<_> = workflow.warnings.iter().map(|w| (w.kind, w.path.as_deref())).collect();
    assert_eq!(
        kinds,
        [
            (ProblemKind::UnknownKey, Some("review")),
            (ProblemKind::UnknownKey, Some("review.gate")),
            (ProblemKind::UnknownKey, Some("agent.colour")),
            (ProblemKind::UnknownKey, Some("agent.colour.a")),
        ]
    );
    for read in [
        "tracker:\n  kind: memory\n  provider: {a: 1, a: 2}",
        "tracker:\n  kind: memory\n  github: {a: 1, a: 2}",
    ] {
        let found = problems(Files::new().read(&format!("---\n{read}\n---\n")));
        assert_eq!(found[0].kind, ProblemKind::WorkflowParseError, "{read}");
    }
}

#[test]
fn rule_2_2_an_unsupported_tracker_kind_lists_those_that_there_are() {
    let found = problems(Files::new().read("---\ntracker:\n  kind: jira\n---\n"));
    let expected = Problem::new(
        ProblemKind::UnsupportedTrackerKind,
        "this version has the trackers linear and memory, not \"jira\"",
    );
    let expected = expected
        .with_path("tracker.kind")
        .with_position(Some(Position { line: 3, column: 3 }))
        .with_help("write `kind: linear` or `kind: memory`");
    assert_eq!(found, [expected]);
    let none = Files::bare().refused("---\ntracker: {kind: jira}\nagent: {kind: codex}\n---\n");
    assert_eq!(
        none,
        [
            "line 2: tracker.kind: this version has no tracker, not \"jira\"",
            "line 3: agent.kind: this version has no agent, not \"codex\"",
        ]
    );
}

#[test]
fn rule_2_2_all_problems_of_a_file_are_reported_together_in_its_order() {
    let text = "---\npolling: 5\nagent:\n  max_turns: 0\n  max_concurrent_agents: many\n  colour: red\ntracker:\n  kind: jira\nhooks:\n  env: PATH\nagents: {}\n---\n";
    assert_eq!(
        Files::new().refused(text),
        [
            "line 2: polling: must be a map, got 5",
            "line 4: agent.max_turns: must be a positive integer, got 0",
            "line 5: agent.max_concurrent_agents: must be a positive integer, got \"many\"",
            "line 8: tracker.kind: this version has the trackers linear and memory, not \"jira\"",
            "line 10: hooks.env: must be a list of texts, got \"PATH\"",
            "line 6: agent.colour: is unknown and ignored",
            "line 11: agents: is unknown and ignored",
        ]
    );
}

#[test]
fn rule_2_2_problems_of_settings_and_prompt_are_reported_together() {
    let found =
        problems(Files::new().read("---\ntracker: {kind: jira}\n---\n\nFix {{ issue.title\n"));
    let kinds: Vec<ProblemKind> = found.iter().map(|problem| problem.kind).collect();
    let expected = [ProblemKind::UnsupportedTrackerKind, ProblemKind::TemplateParseError];
    assert_eq!(kinds, expected, "{found:?}");
    let broken = problems(Files::new().read("---\na: [\n---\nFix {{ issue.title\n"));
    let kinds: Vec<ProblemKind> = broken.iter().map(|problem| problem.kind).collect();
    let expected = [ProblemKind::WorkflowParseError, ProblemKind::TemplateParseError];
    assert_eq!(kinds, expected, "{broken:?}");
}

#[test]
fn rule_2_2_a_settings_error_names_its_path_line_and_column() {
    let found = problems(Files::new().read("---\ntracker: {kind: memory,  timeout_ms: -1}\n---\n"));
    let expected = Problem::new(ProblemKind::InvalidSetting, "must be a positive integer, got -1");
    let expected = expected
        .with_path("tracker.timeout_ms")
        .with_position(Some(Position { line: 2, column: 26 }));
    assert_eq!(found, [expected]);
}

#[test]
fn rule_2_3_unknown_keys_are_ignored_and_listed_with_what_was_meant() {
    let workflow = Files::new().parse(
        "---\ntracker: {kind: memory, titel: x}\nagent:\n  maxTurns: 3\n  max_trees: 3\n  stall_timeout: 5\n  colour: red\nAgent: {}\n\"a\\eb\": 1\n? [x]\n: 1\n---\n",
    );
    let unknown = |path: &str, line, column, meant: &str| {
        let problem = Problem::new(ProblemKind::UnknownKey, "is unknown and ignored")
            .with_path(path)
            .with_position(Some(Position { line, column }));
        match meant {
            "" => problem,
            meant if meant.ends_with("_ms") => {
                problem.with_help(format!("did you mean `{meant}`, in milliseconds?"))
            }
            meant => problem.with_help(format!("did you mean `{meant}`?")),
        }
    };
    assert_eq!(
        workflow.warnings,
        [
            unknown("tracker.titel", 2, 25, ""),
            unknown("agent.maxTurns", 4, 3, "agent.max_turns"),
            unknown("agent.max_trees", 5, 3, ""),
            unknown("agent.stall_timeout", 6, 3, "agent.stall_timeout_ms"),
            unknown("agent.colour", 7, 3, ""),
            unknown("Agent", 8, 1, "agent"),
            unknown(r#""a\u{1b}b""#, 9, 1, ""),
            unknown(r#""[\"x\"]""#, 10, 3, ""),
        ]
    );
    assert_eq!(workflow.settings.agent.max_turns, 20);
}

#[test]
fn rule_2_3_unknown_keys_of_the_provider_are_listed_where_the_adapter_names_its_own() {
    let workflow = Files::new().parse(
        "---\ntracker:\n  kind: linear\n  team_key: ENG\n  provider:\n    project: x\n    api_key: $KEY\n---\n",
    );
    let warnings: Vec<_> =
        workflow.warnings.iter().map(|w| (w.to_string(), w.help.as_deref())).collect();
    assert_eq!(
        warnings,
        [(
            "line 6: tracker.provider.project: is unknown and ignored".to_owned(),
            Some("did you mean `tracker.provider.project_slug`?")
        )]
    );
    let raw = workflow.settings.tracker.provider.raw();
    assert_eq!(
        serde_json::json!(raw),
        serde_json::json!({"project": "x", "api_key": "$KEY", "team_key": "ENG"})
    );
}

#[test]
fn rule_2_3_a_flood_of_unknown_keys_is_cut() {
    let keys: String = (0..250).map(|n| format!("k{n}: 1\n")).collect();
    let workflow = Files::new().parse(&format!("{MEMORY}{keys}---\n"));
    assert_eq!(workflow.warnings.len(), 101);
    let last = workflow.warnings.iter().find(|warning| warning.path.is_none()).unwrap();
    assert_eq!(last.to_string(), "150 more keys are unknown and ignored");
}

#[test]
fn rule_2_3_null_means_absent() {
    let files = Files::new();
    let nothing = files.parse(&format!("{MEMORY}---\n"));
    let nulls = files.parse(&format!(
        "{MEMORY}  provider: {{api_key: ~}}\n  active_states:\n  api_key: null\nhooks:\npolling: {{interval_ms: null, activity: ~, quiet_hours: }}\nagent: {{kind: ~, max_concurrent_agents_by_state: {{todo: ~}}}}\nworker:\nserver: {{port: }}\n---\n"
    ));
    assert_eq!((&*nulls.settings, &*nulls.warnings), (&*nothing.settings, &[][..]));
}

#[test]
fn rule_2_3_integers_may_be_numeric_strings() {
    let workflow = Files::new().parse(&format!(
        "{MEMORY}agent: {{max_turns: \"7\", max_concurrent_agents: ' 3 ', max_concurrent_agents_by_state: {{todo: '2'}}}}\nserver: {{port: \"8080\"}}\npolling: {{budget: {{reserve: \"0.5\"}}}}\nobservability: {{dashboard_enabled: \"False\"}}\n---\n"
    ));
    let settings = &workflow.settings;
    assert_eq!((settings.agent.max_turns, settings.agent.max_concurrent_agents), (7, 3));
    assert_eq!(settings.agent.max_concurrent_agents_by_state[&StateName::new("Todo")], 2);
    assert_eq!(settings.server.port, Some(8080));
    assert!((settings.polling.budget.reserve - 0.5).abs() < f64::EPSILON);
    assert!(!settings.observability.dashboard_enabled);
}

#[test]
fn rule_2_4_a_root_is_resolved_from_the_environment_the_home_and_the_files_folder() {
    let files = Files::new().env("ROOT", "/srv/work").env("TILDE", "~/w").env("UP", "../w");
    for (root, expected) in [
        ("$ROOT", "/srv/work"),
        ("${ROOT}", "/srv/work"),
        ("$TILDE", "/home/ada/w"),
        ("$UP", "/code/w"),
        ("'~'", "/home/ada"),
        ("~/a/../b", "/home/ada/b"),
        ("./work", "/code/project/work"),
        ("/a/./b/..", "/a"),
        ("''", "/state/workspaces"),
        ("'C:\\work'", "/code/project/C:\\work"),
    ] {
        let workflow = files.parse(&format!("{MEMORY}workspace:\n  root: {root}\n---\n"));
        assert_eq!(workflow.settings.workspace.root.to_str(), Some(expected), "{root}");
        assert_eq!(workflow.warnings, [], "{root}");
    }
}

#[test]
fn rule_2_4_an_unset_variable_in_the_root_is_an_error() {
    let files = Files::new().env("EMPTY", "");
    for (root, name) in [("$NOWHERE", "NOWHERE"), ("${NOWHERE}", "NOWHERE"), ("$EMPTY", "EMPTY")] {
        assert_eq!(
            files.refused(&format!("{MEMORY}workspace:\n  root: {root}\n---\n")),
            [format!("line 5: workspace.root: the environment variable {name} is not set")]
        );
    }
}

#[test]
fn rule_2_4_only_a_whole_value_is_looked_up() {
    let workflow = Files::new().parse(&format!("{MEMORY}workspace: {{root: work/$NAME}}\n---\n"));
    assert_eq!(workflow.settings.workspace.root.to_str(), Some("/code/project/work/$NAME"));
    assert_eq!(
        texts(&workflow.warnings),
        [
            "line 4: workspace.root: `$` is part of the name: only a whole value $NAME or ${NAME} is looked up"
        ]
    );
}

#[test]
fn rule_2_4_a_path_behind_a_variable_is_an_error_that_says_what_to_write() {
    let files = Files::new().env("HOME", "/home/ada").env("TMPDIR", "/tmp");
    for (root, help) in [
        ("$HOME/work", "write `~/work`"),
        ("${HOME}/a/b", "write `~/a/b`"),
        (
            "${TMPDIR}/work",
            "write the folder out, or set a variable such as TMPDIR to the whole path",
        ),
        (
            "${TMPDIR:-/tmp}/work",
            "write the folder out, or set a variable such as TMPDIR to the whole path",
        ),
    ] {
        let found = problems(files.read(&format!("{MEMORY}workspace:\n  root: {root}\n---\n")));
        assert_eq!(
            found[0].to_string(),
            "line 5: workspace.root: only a whole value $NAME or ${NAME} is looked up, and here more follows it"
        );
        assert_eq!(found[0].help.as_deref(), Some(help), "{root}");
    }
}

#[test]
fn rule_2_4_commands_are_never_rewritten() {
    let workflow = Files::new().env("HOME", "/home/ada").parse(&format!(
        "{MEMORY}codex: {{command: $HOME}}\nhooks: {{before_run: \"~/setup $HOME\"}}\nserver: {{token: $TOKEN}}\n---\n"
    ));
    let settings = &workflow.settings;
    assert_eq!(settings.agent.common.command.as_deref(), Some("$HOME"));
    assert_eq!(settings.hooks.before_run.as_deref(), Some("~/setup $HOME"));
    assert_eq!(settings.server.token.as_deref(), Some("$TOKEN"));
}

#[test]
fn rule_2_5_flat_tracker_keys_are_read_as_the_providers_and_the_nested_form_wins() {
    let workflow = Files::new().parse(
        "---\ntracker:\n  kind: linear\n  api_key: $OLD\n  project_slug: old\n  endpoint: http://old\n  assignee: me\n  team_key: T\n  provider:\n    project_slug: new\n    endpoint: ~\n---\n",
    );
    assert_eq!(
        serde_json::json!(workflow.settings.tracker.provider.raw()),
        serde_json::json!({
            "api_key": "$OLD", "project_slug": "new", "endpoint": "http://old", "assignee": "me", "team_key": "T",
        })
    );
    assert_eq!(workflow.warnings, []);
}

#[test]
fn rule_2_8_settings_are_parsed_once_and_shared() {
    let workflow = Files::new().parse(&format!("{MEMORY}---\n"));
    let configuration = Configuration {
        settings: Arc::clone(&workflow.settings),
        generation: Generation::default(),
        scope: Scope::from("board"),
        min_read_gap: Duration::ZERO,
        warnings: Arc::default(),
    };
    let (orchestrator, _) = Orchestrator::new(configuration, Restored::default(), Now::default());
    assert_eq!(Arc::strong_count(&workflow.settings), 2, "one copy, held by the file and by it");
    drop(orchestrator);
    assert_eq!(Arc::strong_count(&workflow.settings), 1);
}

#[test]
fn rule_2_9_no_secret_is_in_the_settings_text_or_in_a_problem() {
    let files = Files::new().env("TOKEN", "s3same");
    let workflow = files.parse(&format!(
        "{MEMORY}  api_key: s3same\n  provider: {{token: $TOKEN, deep: {{x: s3same}}}}\nserver: {{token: s3same}}\n---\n"
    ));
    assert_eq!(
        serde_json::json!(workflow.settings.tracker.provider.raw()),
        serde_json::json!({"api_key": "s3same", "token": "$TOKEN", "deep": {"x": "s3same"}})
    );
    let shown = format!("{workflow:?} {}", serde_json::to_string(&*workflow.settings).unwrap());
    assert!(!shown.contains("s3same"), "{shown}");
    for text in
        ["server: {token: [s3same]}", "server: {token: 12345}", "tracker: {api_key: !!int s3same}"]
    {
        let found = problems(files.read(&format!("---\n{text}\n---\n")));
        let shown = format!("{found:?}");
        assert!(!shown.contains("s3same") && !shown.contains("12345"), "{shown}");
    }
}

#[test]
fn rule_1_2_states_and_labels_compare_after_trim_and_lowercase() {
    let workflow = Files::new().parse(&format!(
        "{MEMORY}  active_states: [' In Progress ', in progress, '', Todo]\n  required_labels: [' Bug', bug, '']\nagent: {{max_concurrent_agents_by_state: {{' IN Progress': 2}}}}\n---\n"
    ));
    let settings = &workflow.settings;
    assert_eq!(settings.tracker.active_states, StateSet::new(["in progress", "todo"]));
    assert_eq!(settings.tracker.active_states.names()[0].as_str(), " In Progress ");
    assert_eq!(settings.tracker.required_labels, [Label::new("bug"), Label::new("")]);
    assert_eq!(settings.agent.max_concurrent_agents_by_state[&StateName::new("in progress")], 2);
}

#[test]
fn rule_15_1_the_file_can_pin_the_template_language() {
    let workflow = Files::new().parse(&format!("{MEMORY}prompt: {{engine: Liquid}}\n---\n"));
    assert_eq!(workflow.settings.prompt.engine, Some(PromptEngine::Liquid));
}

#[test]
fn rule_2_10_a_file_that_names_another_agent_does_not_run_codex() {
    for (yaml, told) in [
        ("runner: {kind: claude-code}", "line 4: runner.kind: names the agent claude-code"),
        ("runner: opencode", "line 4: runner: names the agent opencode"),
        (
            "runner: {type: cli, command: /bin/cursor-agent -f}",
            "runner.command: names the agent cursor-agent",
        ),
        ("agent: {provider: claude_code}", "line 4: agent.provider: names the agent claude_code"),
        ("agent: {provider: ollama}", "line 4: agent.provider: names another agent"),
        ("agent: {backend: $BACKEND}", "line 4: agent.backend: names another agent"),
        (
            "agent: {command: A=1 claude -p --verbose}",
            "line 4: agent.command: names the agent claude",
        ),
        ("agent: {command: pi --mode rpc}", "line 4: agent.command: names the agent pi"),
        ("agent: claude", "line 4: agent: names the agent claude"),
        ("runtime: {provider: claude}", "line 4: runtime.provider: names the agent claude"),
        ("executor: claude-code", "line 4: executor: names the agent claude-code"),
        ("provider: gemini", "line 4: provider: names the agent gemini"),
        ("llm: {provider: anthropic}", "line 4: llm.provider: names the agent anthropic"),
        ("claude: {model: opus}", "line 4: claude: names the agent claude"),
        ("Claude-Code: {model: opus}", "line 4: Claude-Code: names the agent Claude-Code"),
        ("opencode:\n  command: opencode serve", "line 4: opencode: names the agent opencode"),
        (
            "agents: {planner: {backend: claude}}",
            "line 4: agents.planner.backend: names the agent claude",
        ),
    ] {
        let refused = Files::new().refused(&format!("{MEMORY}{yaml}\n"));
        let refused = refused.iter().find(|line| line.contains("names ")).unwrap();
        assert!(refused.contains(told), "{yaml}: {refused}");
        assert!(refused.contains("add `agent.kind: codex` if that is meant"), "{refused}");
    }
}

#[test]
fn rule_2_10_a_file_that_decides_for_codex_may_name_others_too() {
    for yaml in [
        "runner: {kind: claude}\nagent: {kind: codex}",
        "claude: {model: opus}\ncodex: {command: codex app-server}",
        "claude: {model: opus}\ncodex:",
        "runner: {kind: codex, command: claude}",
        "agent: {provider: codex}",
        "agent: {backend: '${BACKEND:-codex}', command: codex exec -}",
        "agent: {provider: openai}",
        "agent: {command: ./agent.sh}",
        "runner: {timeout_ms: 5}",
        "runtime: {provider: docker}",
        "runtime: {provider: codex_cli, command: codex exec}\npi: {model: x}",
        "provider: linear",
        "agents: {default: codex, profiles: {codex: {kind: codex}, claude: {kind: claude}}}",
        "claude: ~",
        "ampere: {a: 1}",
    ] {
        let workflow = Files::new().parse(&format!("{MEMORY}{yaml}\n"));
        assert_eq!(workflow.settings.agent.kind, "codex", "{yaml}");
    }
}

/// A forgotten space after a colon is an easy slip; the message about it goes to the log and to
/// every status surface, and must not bring the key along.
#[test]
fn rule_13_1_a_secret_in_the_wrong_place_is_not_repeated_by_the_problem() {
    let env = BTreeMap::new();
    let mut profile = TrackerProfile::default();
    profile.provider_keys = vec!["api_key"];
    profile.secret_keys = vec!["api_key"];
    let cx = WorkflowContext::new(&env, "/code")
        .state_folder("/state")
        .tracker("linear", &profile)
        .agent("codex", &symphony_codex::PROFILE);
    let leaks: Vec<String> = [
        "tracker:\n  kind: linear\n  provider:\n    api_key:lin_api_0123456789",
        "tracker:\n  kind: linear\n  provider: {api_key:lin_api_0123456789}",
        "tracker:\n  kind: linear\n  provider: lin_api_0123456789",
        "tracker: {kind: linear}\nserver:\n  token:lin_api_0123456789",
    ]
    .into_iter()
    .flat_map(|slip| match Workflow::parse(&format!("---\n{slip}\n---\nFix it.\n"), &cx) {
        Ok(workflow) => workflow.warnings,
        Err(problems) => problems,
    })
    .map(|problem| problem.to_string())
    .filter(|told| told.contains("0123456789"))
    .collect();
    assert_eq!(leaks, Vec::<String>::new());
}
