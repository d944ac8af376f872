//! The published profile: what it shows is what happens.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;
use symphony_core::settings::Provider;
use symphony_core::tracker::{BuiltTracker, TrackerContext, TrackerExt, TrackerFactory};
use symphony_core::{Settings, StateKind, StateSet};
use symphony_memory::MemoryFactory;
use tempfile::TempDir;

const PROFILE: &str = include_str!("../../../docs/guide/trackers/memory.md");

/// The fenced blocks of the profile with this name.
fn blocks(name: &str) -> Vec<&'static str> {
    let fence = format!("```yaml {name}\n");
    let after = PROFILE.split(fence.as_str()).skip(1);
    after.map(|rest| rest.split("```").next().unwrap_or_default()).collect()
}

fn build(workflow: &str, folder: &TempDir) -> BuiltTracker {
    let factory = MemoryFactory::new();
    let front: Value = serde_yaml::from_str(workflow).unwrap();
    assert_eq!(front["tracker"]["kind"], factory.kind());
    let profile = factory.profile();
    let (active, terminal) = (profile.active_states.clone(), profile.terminal_states.clone());
    let mut settings = Settings::new("memory", active, terminal, "/work".into());
    let provider = front["tracker"]["provider"].as_object().unwrap().clone();
    settings.tracker.provider = Provider::new(provider);
    let env = BTreeMap::new();
    let cx = TrackerContext::new(&settings.tracker, &settings.polling.budget, &env);
    factory.build(&cx.in_folder(folder.path())).unwrap()
}

#[tokio::test]
async fn rule_11_6_the_examples_of_the_profile_work() {
    let folder = TempDir::new().unwrap();
    let [inline, on_file] = blocks("workflow").try_into().unwrap();
    let [board] = blocks("board.yaml").try_into().unwrap();
    fs::write(folder.path().join("board.yaml"), board).unwrap();
    let active = StateSet::new(["Todo", "In Progress"]);
    let issues = build(inline, &folder).tracker.fetch_issues_by_states(&active).await.unwrap();
    assert_eq!(super::identifiers(&issues), ["MT-1", "MT-2"]);
    let issues = build(on_file, &folder).tracker.fetch_issues_by_states(&active).await.unwrap();
    assert_eq!(super::identifiers(&issues), ["MT-1", "MT-2", "MT-3"]);
    assert_eq!(issues[0].state_kind, Some(StateKind::Unstarted));
    assert_eq!(issues[1].blocked_by[0].state, Some("Todo".into()));
    assert!(!issues[2].dispatchable);
}

#[test]
fn rule_11_6_the_profile_names_every_key_default_and_tool() {
    let factory = MemoryFactory::new();
    let profile = factory.profile();
    for key in &profile.provider_keys {
        assert!(PROFILE.contains(&format!("| `{key}` |")), "{key}");
    }
    for state in profile.active_states.names().iter().chain(profile.terminal_states.names()) {
        assert!(PROFILE.contains(&format!("`{state}`")), "{state}");
    }
    for heading in ["Keys", "Secrets", "Scope", "Reads and paging", "Mapping", "Tools", "Errors"] {
        assert!(PROFILE.contains(&format!("\n## {heading}\n")), "{heading}");
    }
    assert!(PROFILE.contains(&format!("`{}`", symphony_memory::UPDATE_ISSUE)));
}
