//! Settings in force as front matter: with the keys and units of a file, so that it can be pasted
//! back into one (contract 14.6).

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value as Json;
use serde_yaml::{Mapping, Value};
use symphony_core::redact::is_secret_name;
use symphony_core::settings::{
    AgentSettings, HookSettings, LoggingSettings, ObservabilitySettings, PollingSettings,
    ServerSettings, Settings, TrackerSettings, WorkspaceSettings, env_reference,
};
use symphony_core::{StateSet, tracker::TrackerProfile};
use symphony_runtime::Registry;

/// What stands in the place of a secret.
const MASK: &str = "***";

/// Every setting, under the keys of a workflow file.
pub(super) fn front_matter(settings: &Settings, registry: &Registry) -> Mapping {
    let tracker_profile = registry.tracker(&settings.tracker.kind).map(|factory| factory.profile());
    let agent_profile = registry.agent(&settings.agent.kind).map(|factory| factory.profile());
    let mut all = SectionWriter::default();
    all.section("tracker", tracker(&settings.tracker, tracker_profile));
    all.section("polling", polling(&settings.polling));
    all.section("workspace", workspace(&settings.workspace));
    all.section("storage", SectionWriter::default().with("path", &settings.storage.path));
    all.section("hooks", hooks(&settings.hooks));
    all.section("agent", agent(&settings.agent));
    if let Some(profile) = agent_profile.filter(|profile| !profile.section.is_empty()) {
        all.set(profile.section, &settings.agent.section);
    }
    all.section("prompt", SectionWriter::default().with("engine", settings.prompt.engine));
    all.section("server", server(&settings.server));
    all.section("observability", observability(&settings.observability));
    all.section("logging", logging(&settings.logging));
    all.0
}

/// A map in the order in which its keys are set. A value that is null, or an empty map, has no key.
#[derive(Default)]
struct SectionWriter(Mapping);

impl SectionWriter {
    fn set(&mut self, key: &str, value: impl Serialize) {
        let value = serde_yaml::to_value(value).unwrap_or(Value::Null);
        let is_empty = match &value {
            Value::Null => true,
            Value::Mapping(map) => map.is_empty(),
            _ => false,
        };
        if !is_empty {
            self.0.insert(Value::String(key.to_owned()), value);
        }
    }

    fn with(mut self, key: &str, value: impl Serialize) -> Self {
        self.set(key, value);
        self
    }

    fn section(&mut self, key: &str, section: Self) {
        self.set(key, section.0);
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn states(states: &StateSet) -> Vec<&str> {
    states.names().iter().map(|name| name.as_str()).collect()
}

fn tracker(settings: &TrackerSettings, profile: Option<&TrackerProfile>) -> SectionWriter {
    let labels: Vec<&str> = settings.required_labels.iter().map(|label| label.as_str()).collect();
    let mut provider = SectionWriter::default();
    for (key, value) in settings.provider.raw() {
        provider.set(key, masked(key, value, profile));
    }
    let mut keys = SectionWriter::default().with("kind", &settings.kind);
    keys.section("provider", provider);
    keys.with("required_labels", labels)
        .with("active_states", states(&settings.active_states))
        .with("terminal_states", states(&settings.terminal_states))
        .with("timeout_ms", millis(settings.timeout))
}

/// Masks a value of the adapter's own, unless the adapter says that its key holds no secret: a key
/// that it does not know may hold anything.
fn masked(key: &str, value: &Json, profile: Option<&TrackerProfile>) -> Json {
    let is_known = profile.is_some_and(|profile| {
        profile.provider_keys.contains(&key) && !profile.secret_keys.contains(&key)
    });
    if is_known { masked_by_name(key, value) } else { masked_text(value) }
}

/// Masks what is called like a secret, at any depth.
fn masked_by_name(key: &str, value: &Json) -> Json {
    match value {
        _ if is_secret_name(key) => masked_text(value),
        Json::Array(items) => items.iter().map(|item| masked_by_name("", item)).collect(),
        Json::Object(members) => {
            members.iter().map(|(key, value)| (key.clone(), masked_by_name(key, value))).collect()
        }
        other => other.clone(),
    }
}

/// Masks a value, unless it only names a variable.
fn masked_text(value: &Json) -> Json {
    let is_reference = value.as_str().is_some_and(|text| env_reference(text).is_some());
    if is_reference { value.clone() } else { MASK.into() }
}

fn polling(settings: &PollingSettings) -> SectionWriter {
    let jobs = &settings.jobs;
    let mut keys = SectionWriter::default().with("interval_ms", millis(settings.interval));
    keys.section(
        "jobs",
        SectionWriter::default()
            .with("candidates_ms", jobs.candidates.map(millis))
            .with("refresh_ms", jobs.refresh.map(millis))
            .with("sweep_ms", millis(jobs.sweep)),
    );
    if let Some(activity) = &settings.activity {
        keys.section(
            "activity",
            SectionWriter::default()
                .with("idle_after_ms", millis(activity.idle_after))
                .with("idle_ms", millis(activity.idle))
                .with("dormant_after_ms", millis(activity.dormant_after))
                .with("dormant_ms", millis(activity.dormant)),
        );
    }
    if let Some(hours) = &settings.quiet_hours {
        let time = |minutes: u16| format!("{:02}:{:02}", minutes / 60, minutes % 60);
        keys.section(
            "quiet_hours",
            SectionWriter::default()
                .with("from", time(hours.from))
                .with("to", time(hours.to))
                .with("timezone", &hours.timezone),
        );
    }
    keys.section(
        "budget",
        SectionWriter::default()
            .with("per_hour", settings.budget.per_hour)
            .with("per_day", settings.budget.per_day)
            .with("reserve", settings.budget.reserve),
    );
    keys.with("activity_file", settings.activity_file.as_deref().map(Path::to_string_lossy))
}

fn workspace(settings: &WorkspaceSettings) -> SectionWriter {
    SectionWriter::default().with("root", settings.root.to_string_lossy())
}

fn hooks(settings: &HookSettings) -> SectionWriter {
    SectionWriter::default()
        .with("after_create", &settings.after_create)
        .with("before_run", &settings.before_run)
        .with("after_run", &settings.after_run)
        .with("before_remove", &settings.before_remove)
        .with("timeout_ms", millis(settings.timeout))
        .with("env", &settings.env)
}

fn agent(settings: &AgentSettings) -> SectionWriter {
    let common = &settings.common;
    let by_state = &settings.max_concurrent_agents_by_state;
    let by_state: Mapping = by_state
        .iter()
        .map(|(state, limit)| (Value::from(state.as_str()), Value::from(*limit)))
        .collect();
    SectionWriter::default()
        .with("kind", &settings.kind)
        .with("max_concurrent_agents", settings.max_concurrent_agents)
        .with("max_concurrent_agents_by_state", by_state)
        .with("max_turns", settings.max_turns)
        .with("max_retry_backoff_ms", millis(settings.max_retry_backoff))
        .with("stop_grace_ms", millis(settings.stop_grace))
        .with("finish_grace_ms", millis(settings.finish_grace))
        .with("command", &common.command)
        .with("model", &common.model)
        .with("effort", &common.effort)
        .with("approvals", common.approvals)
        .with("turn_timeout_ms", millis(common.turn_timeout))
        .with("read_timeout_ms", millis(common.read_timeout))
        .with("stall_timeout_ms", common.stall_timeout.map_or(0, millis))
}

fn server(settings: &ServerSettings) -> SectionWriter {
    let token = settings.token.as_deref();
    let token = token.map(|text| if env_reference(text).is_some() { text } else { MASK });
    SectionWriter::default()
        .with("port", settings.port)
        .with("host", &settings.host)
        .with("token", token)
        .with("allowed_hosts", &settings.allowed_hosts)
}

fn observability(settings: &ObservabilitySettings) -> SectionWriter {
    SectionWriter::default()
        .with("dashboard_enabled", settings.dashboard_enabled)
        .with("refresh_ms", millis(settings.refresh))
        .with("render_interval_ms", millis(settings.render_interval))
}

fn logging(settings: &LoggingSettings) -> SectionWriter {
    SectionWriter::default()
        .with("format", settings.format)
        .with("level", settings.level.as_str())
        .with("max_bytes", settings.max_bytes)
        .with("max_files", settings.max_files)
}

#[cfg(test)]
mod tests {
    use symphony_runtime::inspect;

    use super::*;
    use crate::adapters;

    fn settings(folder: &Path, front_matter: &str) -> Settings {
        let file = folder.join("WORKFLOW.md");
        std::fs::write(&file, format!("---\n{front_matter}---\nWork.\n")).unwrap();
        let inspection = inspect(&file, &adapters::registry());
        assert_eq!(inspection.problems, [], "{front_matter}");
        inspection.settings.unwrap().as_ref().clone()
    }

    fn shown(settings: &Settings) -> String {
        serde_yaml::to_string(&front_matter(settings, &adapters::registry())).unwrap()
    }

    #[test]
    fn rule_14_6_what_is_shown_can_be_pasted_back() {
        let folder = tempfile::tempdir().unwrap();
        for file in [
            "tracker: {kind: memory}\n",
            "tracker:\n  kind: memory\n  provider:\n    issues:\n      - {identifier: MT-1, title: One, \
             state: Todo}\n  required_labels: [a, 'yes']\n  active_states: [Todo, '1']\n\
             polling:\n  interval_ms: 1500\n  jobs: {candidates_ms: 7}\n  activity: {idle_ms: 9}\n  \
             quiet_hours: {from: '22:05', to: '06:00', timezone: Europe/Berlin}\n  \
             budget: {per_day: 5, reserve: 0.5}\n  activity_file: here\n\
             hooks: {after_create: \"a\\nb: c\\n\", env: [X]}\n\
             agent:\n  kind: codex\n  max_concurrent_agents_by_state: {in progress: 2}\n  \
             effort: high\n  stall_timeout_ms: 0\n  approvals: block\n\
             codex: {thread_sandbox: read-only, command: my codex app-server}\n\
             prompt: {engine: liquid}\nserver: {port: 0, token: $TOKEN, allowed_hosts: [a.b]}\n\
             storage: {path: here/state.db}\nlogging: {format: json, level: 'info,a=debug'}\n",
        ] {
            let before = settings(folder.path(), file);
            let text = shown(&before);
            assert_eq!(settings(folder.path(), &text), before, "{text}");
        }
    }

    #[test]
    fn rule_14_6_secrets_are_masked_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let file = "tracker: {kind: linear, provider: {api_key: lin_secret, project_slug: door-1}}\n\
                    server: {port: 1, token: a-long-secret-token}\n";
        let text = shown(&settings(folder.path(), file));
        for wanted in
            ["api_key: '***'", "project_slug: door-1", "token: '***'", "interval_ms: 30000"]
        {
            assert!(text.contains(wanted), "no {wanted:?} in {text}");
        }
        assert!(!text.contains("secret") && !text.contains("null"), "{text}");
        let file = file.replace("lin_secret", "$LINEAR_API_KEY_OF_TEST");
        let path = folder.path().join("W.md");
        std::fs::write(&path, format!("---\n{file}---\n")).unwrap();
        let text = shown(inspect(&path, &adapters::registry()).settings.as_deref().unwrap());
        assert!(text.contains("api_key: $LINEAR_API_KEY_OF_TEST"), "{text}");
    }
    /// A file that sets every key, with values that are shown as they stand.
    const EVERY_KEY: &str = "\
tracker:
  kind: memory
  provider: {issues: []}
  required_labels: [a]
  active_states: [Todo]
  terminal_states: [Done]
  timeout_ms: 7
polling:
  interval_ms: 7
  jobs: {candidates_ms: 7, refresh_ms: 7, sweep_ms: 7}
  activity: {idle_after_ms: 7, idle_ms: 7, dormant_after_ms: 7, dormant_ms: 7}
  quiet_hours: {from: '22:05', to: '06:00', timezone: Europe/Berlin}
  budget: {per_hour: 7, per_day: 7, reserve: 0.5}
  activity_file: /tmp/activity
workspace: {root: /tmp/workspaces}
hooks:
  after_create: a
  before_run: b
  after_run: c
  before_remove: d
  timeout_ms: 7
  env: [X]
agent:
  kind: codex
  max_concurrent_agents: 7
  max_concurrent_agents_by_state: {todo: 2}
  max_turns: 7
  max_retry_backoff_ms: 7
  stop_grace_ms: 7
  finish_grace_ms: 7
  command: codex app-server
  model: m
  effort: high
  approvals: block
  turn_timeout_ms: 7
  read_timeout_ms: 7
  stall_timeout_ms: 7
codex:
  approval_policy: never
  thread_sandbox: read-only
  turn_sandbox_policy: {type: readOnly}
  questions: 'off'
prompt: {engine: liquid}
server: {port: 7, host: 127.0.0.1, token: $TOKEN, allowed_hosts: [a.b]}
observability: {dashboard_enabled: false, refresh_ms: 7, render_interval_ms: 7}
logging: {format: json, level: debug, max_bytes: 7, max_files: 7}
";

    /// Collects the paths of the keys that a schema names, older ones aside.
    fn schema_keys(schema: &Json, path: &str, keys: &mut Vec<String>) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}/{name}");
            match property.get("properties") {
                Some(_) => schema_keys(property, &path, keys),
                None if property.get("deprecated").is_some() => {}
                None => keys.push(path),
            }
        }
    }

    #[test]
    fn rule_14_6_every_key_of_the_schema_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let text = shown(&settings(folder.path(), EVERY_KEY));
        let shown: Json = serde_yaml::from_str(&text).unwrap();
        let registry = adapters::registry();
        let agent = registry.agent("codex").unwrap().profile();
        let mut keys = Vec::new();
        schema_keys(&symphony_workflow::json_schema([agent]), "", &mut keys);
        let is_shown = |key: &String| {
            // What every agent has is shown once, in `agent`. No file may set `worker`.
            let common = key.replace("/codex/", "/agent/");
            key == "/worker" || [key, &common].iter().any(|key| shown.pointer(key).is_some())
        };
        let missing: Vec<_> = keys.iter().filter(|key| !is_shown(key)).collect();
        assert_eq!(missing, [""; 0], "{text}");
    }

    #[test]
    fn rule_14_6_secrets_within_a_value_are_masked() {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = settings(folder.path(), "tracker: {kind: memory}\n");
        let issues = serde_json::json!([{"title": "One", "nested": {"api_key": "lin_secret"}}]);
        let provider = serde_json::Map::from_iter([("issues".to_owned(), issues)]);
        settings.tracker.provider = symphony_core::settings::Provider::new(provider);
        let text = shown(&settings);
        assert!(text.contains("api_key: '***'") && text.contains("title: One"), "{text}");
    }

    #[test]
    fn rule_14_6_what_is_not_utf8_is_shown_too() {
        use std::os::unix::ffi::OsStrExt as _;
        let folder = tempfile::tempdir().unwrap();
        let mut settings = settings(folder.path(), "tracker: {kind: memory}\n");
        let root = std::ffi::OsStr::from_bytes(b"/work/\xffroot");
        settings.workspace.root = root.into();
        assert!(shown(&settings).contains("root: /work/\u{fffd}root"));
    }

    #[test]
    fn an_agent_without_a_section_has_no_key() {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = settings(folder.path(), "tracker: {kind: memory}\n");
        settings.agent.kind = "unknown".to_owned();
        settings.agent.section.set("key", "value");
        assert!(!shown(&settings).contains("value"));
    }
}
