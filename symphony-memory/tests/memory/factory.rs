//! From the `tracker` section of a workflow file to a board.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use symphony_core::finding::Severity;
use symphony_core::settings::Provider;
use symphony_core::tracker::{
    BuiltTracker, TrackerContext, TrackerError, TrackerErrorKind, TrackerExt, TrackerFactory,
    TrackerProfile,
};
use symphony_core::{Scope, Settings, StateSet};
use symphony_memory::{MemoryFactory, MemoryTracker};
use tempfile::TempDir;

use super::tool::{call, code};
use super::{board, ids, issue};

fn build_in(
    factory: &MemoryFactory,
    provider: &Value,
    env: &[(&str, &str)],
    folder: Option<&Path>,
) -> Result<BuiltTracker, TrackerError> {
    let profile = factory.profile();
    let (active, terminal) = (profile.active_states.clone(), profile.terminal_states.clone());
    let mut settings = Settings::new("memory", active, terminal, "/work".into());
    settings.tracker.provider = Provider::new(provider.as_object().unwrap().clone());
    let env: BTreeMap<String, String> =
        env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let mut cx = TrackerContext::new(&settings.tracker, &settings.polling.budget, &env);
    if let Some(folder) = folder {
        cx = cx.in_folder(folder);
    }
    factory.build(&cx)
}

fn build(factory: &MemoryFactory, provider: &Value) -> Result<BuiltTracker, TrackerError> {
    build_in(factory, provider, &[], None)
}

fn one(title: &str) -> Value {
    json!({ "issues": [{ "identifier": "MT-1", "title": title, "state": "Todo" }] })
}

async fn titles(built: &BuiltTracker) -> Vec<(String, String)> {
    let todo = StateSet::new(["Todo", "Done"]);
    let issues = built.tracker.fetch_issues_by_states(&todo).await.unwrap();
    issues.into_iter().map(|issue| (issue.title, issue.state.to_string())).collect()
}

fn pair(title: &str, state: &str) -> (String, String) {
    (title.to_owned(), state.to_owned())
}

#[test]
fn rule_11_6_the_profile_is_known_before_any_board() {
    let factory = MemoryFactory::new();
    assert_eq!(factory.kind(), "memory");
    let mut expected = TrackerProfile::new(
        StateSet::new(["Todo", "In Progress"]),
        StateSet::new(["Closed", "Cancelled", "Canceled", "Duplicate", "Done"]),
    );
    expected.min_read_gap = Duration::ZERO;
    expected.provider_keys = vec!["board", "issues", "states", "write_back"];
    expected.secret_keys = vec![];
    assert_eq!(factory.profile(), &expected);
}

#[tokio::test]
async fn rule_11_5_a_board_is_seeded_from_inline_issues() {
    let built = build(&MemoryFactory::new(), &one("Door")).unwrap();
    assert_eq!(titles(&built).await, [pair("Door", "Todo")]);
    assert_eq!((built.scope, built.secret_names), (Scope::from("memory"), vec![]));
}

#[tokio::test]
async fn rule_11_5_a_reload_does_not_undo_what_agents_did() {
    let factory = MemoryFactory::new();
    let first = build(&factory, &one("Door")).unwrap();
    let issue = first.tracker.fetch_issues_by_ids(&ids(&["MT-1"])).await.unwrap().found.remove(0);
    let tool = first.tracker.tools().unwrap();
    let call = symphony_core::tracker::ToolCall {
        name: "update_issue".to_owned(),
        arguments: json!({ "state": "Done" }),
        issue: std::sync::Arc::new(issue),
    };
    assert!(tool.call(call).await.success);
    let second = build(&factory, &one("Door")).unwrap();
    assert_eq!(titles(&second).await, [pair("Door", "Done")]);
    let third = build(&factory, &one("Gate")).unwrap();
    assert_eq!(titles(&third).await, [pair("Gate", "Todo")], "an edited issue is as written");
    let fourth = build(&factory, &json!({})).unwrap();
    assert_eq!(titles(&fourth).await, []);
}

#[tokio::test]
async fn rule_11_5_a_factory_serves_the_board_it_is_given() {
    let board = board();
    board.add(issue(9, "Todo"));
    let factory = MemoryFactory::serving(board.clone());
    let built = build(&factory, &one("Door")).unwrap();
    assert_eq!(titles(&built).await, [pair("Issue 9", "Todo"), pair("Door", "Todo")]);
    board.set_state("9", "Done");
    assert_eq!(titles(&built).await, [pair("Issue 9", "Done"), pair("Door", "Todo")]);
}

#[tokio::test]
async fn rule_2_4_a_board_path_is_resolved_like_every_path() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("board.yaml");
    fs::write(&path, "- {identifier: MT-1, title: Door, state: Todo}").unwrap();
    let absolute = path.display().to_string();
    let home = folder.path().display().to_string();
    let env = [("BOARD", absolute.as_str()), ("HOME", home.as_str()), ("EMPTY", "")];
    for board in ["board.yaml", " ./board.yaml ", "~/board.yaml", "$BOARD", "${BOARD}", &absolute] {
        let factory = MemoryFactory::new();
        let provider = json!({ "board": board });
        let built = build_in(&factory, &provider, &env, Some(folder.path())).unwrap();
        assert_eq!(titles(&built).await, [pair("Door", "Todo")], "{board}");
        assert!(built.scope.as_str().starts_with("memory:/"), "{:?}", built.scope);
    }
    for (board, part) in [
        (json!("$EMPTY"), "the environment variable EMPTY is not set"),
        (json!("${UNSET}"), "the environment variable UNSET is not set"),
        (json!(5), "must be a path, got 5"),
        (json!(" "), "must be a path, got an empty text"),
        (json!("missing.yaml"), "cannot read the board"),
    ] {
        let provider = json!({ "board": board });
        let error = build_in(&MemoryFactory::new(), &provider, &env, Some(folder.path()));
        let error = error.unwrap_err();
        assert_eq!(error.kind, TrackerErrorKind::InvalidConfig);
        assert!(error.message.starts_with("tracker.provider.board: "), "{}", error.message);
        assert!(error.message.contains(part), "{}", error.message);
    }
}

#[tokio::test]
async fn rule_11_5_a_reload_keeps_the_board_of_a_file() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("board.yaml");
    fs::write(&path, "- {identifier: MT-1, title: Door, state: Todo}").unwrap();
    let factory = MemoryFactory::new();
    let provider = |write_back| json!({ "board": path, "write_back": write_back });
    let first = build(&factory, &provider(false)).unwrap();
    let issue = first.tracker.fetch_issues_by_ids(&ids(&["MT-1"])).await.unwrap().found.remove(0);
    let call = symphony_core::tracker::ToolCall {
        name: "update_issue".to_owned(),
        arguments: json!({ "state": "Done" }),
        issue: std::sync::Arc::new(issue),
    };
    assert!(first.tracker.tools().unwrap().call(call).await.success);
    assert!(fs::read_to_string(&path).unwrap().contains("Todo"), "write_back is off");
    let second = build(&factory, &provider(true)).unwrap();
    assert_eq!(titles(&second).await, [pair("Door", "Done")]);
    assert_eq!(first.scope, second.scope);
}

#[test]
fn rule_11_2_settings_that_cannot_work_name_their_key() {
    let text = |text: &str| Value::from(text);
    for (provider, message) in [
        (json!({ "issues": 5 }), "tracker.provider.issues must be a list, got 5"),
        (
            json!({ "issues": [{ "identifier": "MT-1" }, text("x")] }),
            "tracker.provider.issues[0] (\"MT-1\"): has no title, state\n\
             tracker.provider.issues[1]: must be a map, got \"x\"",
        ),
        (
            json!({ "board": "b.yaml", "issues": [] }),
            "tracker.provider.issues: belongs into the board file",
        ),
        (
            json!({ "board": "b.yaml", "write_back": "no" }),
            "tracker.provider.write_back: must be true or false, got \"no\"",
        ),
        (
            json!({ "states": "Todo" }),
            "tracker.provider.states must be a list of names or of {name, kind}, got \"Todo\"",
        ),
    ] {
        let error = build(&MemoryFactory::new(), &provider).unwrap_err();
        let found = (error.kind, error.message.as_str());
        assert_eq!(found, (TrackerErrorKind::InvalidConfig, message));
    }
}

#[tokio::test]
async fn rule_11_5_the_tool_knows_the_states_of_the_settings() {
    let tracker: MemoryTracker = board();
    tracker.add(issue(1, "Todo"));
    let factory = MemoryFactory::serving(tracker.clone());
    let result = call(&tracker, issue(1, "Todo"), json!({ "state": "Merging" })).await;
    assert_eq!(code(&result), "unknown_state");
    let active = StateSet::new(["Todo", "Merging"]);
    let settings = Settings::new("memory", active, StateSet::new(["Done"]), "/work".into());
    let env = BTreeMap::new();
    let cx = TrackerContext::new(&settings.tracker, &settings.polling.budget, &env);
    factory.build(&cx).unwrap();
    assert!(call(&tracker, issue(1, "Todo"), json!({ "state": "merging" })).await.success);
    let result = call(&tracker, issue(1, "Todo"), json!({ "state": "Duplicate" })).await;
    assert_eq!(code(&result), "unknown_state", "the default states are not in force");
}

#[tokio::test]
async fn rule_11_5_a_look_at_a_board_tells_what_is_probably_not_meant() {
    let factory = MemoryFactory::new();
    let folder = TempDir::new().unwrap();
    let written = json!({
        "states": ["Reviewed"],
        "issues": [
            { "identifier": "MT-1", "title": "One", "state": "Todoo", "priorty": 2 },
            { "identifier": "MT-2", "title": "Two", "state": "Todo", "blocked_by": ["MT-1", "MT-44"] },
            { "identifier": "MT-3", "title": "Three", "state": "Reviewed" },
            { "identifier": "MT-4", "state": "Todo" },
            { "identifier": "MT-5", "title": "Five", "state": "Somewhere" },
        ],
    });
    fs::write(folder.path().join("board.yaml"), written.to_string()).unwrap();
    let provider = json!({ "board": "board.yaml" });
    let built = build_in(&factory, &provider, &[], Some(folder.path())).unwrap();
    let profile = factory.profile();
    let (active, terminal) = (profile.active_states.clone(), profile.terminal_states.clone());
    let settings = Settings::new("memory", active, terminal, "/work".into());
    let found = built.tracker.examine(&settings).await;
    let told: Vec<_> =
        found.iter().map(|it| format!("{:?} {}: {}", it.severity, it.subject, it.text)).collect();
    assert_eq!(
        told,
        [
            "Fine issues: 4 on the board, 1 active",
            "Doubtful MT-4: cannot be read: has no title",
            "Doubtful MT-1: is in `Todoo`, which is neither active nor terminal; did you mean `Todo`?",
            "Doubtful MT-1: has the key \"priorty\", which nothing reads",
            "Doubtful MT-2: is blocked by MT-44, which is not on the board",
        ]
    );
}

#[tokio::test]
async fn rule_11_5_a_board_that_cannot_be_read_is_an_error_of_the_look() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("board.yaml");
    fs::write(&file, "issues: []").unwrap();
    let provider = json!({ "board": "board.yaml" });
    let built = build_in(&MemoryFactory::new(), &provider, &[], Some(folder.path())).unwrap();
    fs::write(&file, "issues: [").unwrap();
    let settings =
        Settings::new("memory", StateSet::default(), StateSet::default(), "/work".into());
    let found = built.tracker.examine(&settings).await;
    assert_eq!((found.len(), found[0].severity), (1, Severity::Wrong), "{found:?}");
    assert!(found[0].text.contains("board.yaml:"), "{found:?}");
}
