//! Settings that were made in code, checked as those of a file are, with the same words (contract
//! 2.11).

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use symphony_core::problem::{Problem, ProblemKind};
use symphony_core::settings::{
    AgentProfile, AgentSettings, LoggingSettings, PollingSettings, QuietHours, ServerSettings,
    SettingShape, Settings, TrackerSettings,
};

use super::keys::{self, KeyTable};
use super::sections;
use super::shape::CheckShape as _;
use crate::front_matter::Node;

/// A key and what the settings have for it; null where that is nothing.
type KeyValue = (&'static str, Value);

/// Checks settings that were made in code: finds what a file would be refused for, and what is
/// doubtful. `agent` is the profile of the kind of agent that they name.
///
/// ```
/// use symphony_core::settings::AgentProfile;
/// use symphony_core::{Settings, StateSet};
/// use symphony_workflow::check_settings;
///
/// let (active, over) = (StateSet::new(["Todo"]), StateSet::new(["Done"]));
/// let mut settings = Settings::new("memory", active, over, "/work".into());
/// settings.agent.max_turns = 0;
/// let problems = check_settings(&settings, &AgentProfile::NONE);
/// assert_eq!(problems[0].to_string(), "agent.max_turns: must be a positive integer, got 0");
/// ```
#[must_use]
pub fn check_settings(settings: &Settings, agent: &AgentProfile) -> Vec<Problem> {
    let table = KeyTable::new([agent]);
    let shapes = values(settings).into_iter().filter_map(|(path, value)| {
        let shape = match path {
            // Off is `None` here, so that no number stands for it.
            "agent.stall_timeout_ms" => SettingShape::MILLIS,
            _ => table.find(path)?.shape,
        };
        refusal(path, shape, value)
    });
    let mut problems: Vec<Problem> = shapes.collect();
    problems.extend(limits(&settings.agent));
    problems.extend(settings.polling.quiet_hours.as_ref().and_then(empty_hours));
    problems.extend(sections::overlap(&settings.tracker));
    problems.extend(section(&settings.agent, agent));
    problems
}

/// Checks one value.
fn refusal(path: &str, shape: SettingShape, value: Value) -> Option<Problem> {
    let node = Node::from(value);
    let message = shape.check(&node).err()?;
    let mut problem = Problem::new(ProblemKind::InvalidSetting, message).with_path(path);
    problem.help = shape.help(&node).map(str::to_owned);
    Some(problem)
}

fn millis(time: Duration) -> Value {
    json!(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

fn values(settings: &Settings) -> Vec<KeyValue> {
    let hooks = &settings.hooks;
    let observability = &settings.observability;
    let mut values = vec![
        ("workspace.root", json!(settings.workspace.root.to_string_lossy())),
        ("hooks.after_create", json!(hooks.after_create)),
        ("hooks.before_run", json!(hooks.before_run)),
        ("hooks.after_run", json!(hooks.after_run)),
        ("hooks.before_remove", json!(hooks.before_remove)),
        ("hooks.timeout_ms", millis(hooks.timeout)),
        ("hooks.env", json!(hooks.env)),
        ("prompt.engine", json!(settings.prompt.engine)),
        ("observability.dashboard_enabled", json!(observability.dashboard_enabled)),
        ("observability.refresh_ms", millis(observability.refresh)),
        ("observability.render_interval_ms", millis(observability.render_interval)),
    ];
    values.extend(tracker(&settings.tracker));
    values.extend(polling(&settings.polling));
    values.extend(agent(&settings.agent));
    values.extend(server(&settings.server));
    values.extend(logging(&settings.logging));
    values
}

fn tracker(tracker: &TrackerSettings) -> [KeyValue; 6] {
    [
        ("tracker.kind", json!(tracker.kind)),
        ("tracker.provider", Value::Object(tracker.provider.raw().clone())),
        ("tracker.required_labels", json!(tracker.required_labels)),
        ("tracker.active_states", json!(tracker.active_states)),
        ("tracker.terminal_states", json!(tracker.terminal_states)),
        ("tracker.timeout_ms", millis(tracker.timeout)),
    ]
}

fn polling(polling: &PollingSettings) -> Vec<KeyValue> {
    let (jobs, budget) = (&polling.jobs, &polling.budget);
    let mut values = vec![
        ("polling.interval_ms", millis(polling.interval)),
        ("polling.jobs.candidates_ms", jobs.candidates.map_or(Value::Null, millis)),
        ("polling.jobs.refresh_ms", jobs.refresh.map_or(Value::Null, millis)),
        ("polling.jobs.sweep_ms", millis(jobs.sweep)),
        ("polling.budget.per_hour", json!(budget.per_hour)),
        ("polling.budget.per_day", json!(budget.per_day)),
        ("polling.budget.reserve", number(budget.reserve)),
        (
            "polling.activity_file",
            json!(polling.activity_file.as_ref().map(|file| file.to_string_lossy())),
        ),
    ];
    if let Some(activity) = &polling.activity {
        values.extend([
            ("polling.activity.idle_after_ms", millis(activity.idle_after)),
            ("polling.activity.idle_ms", millis(activity.idle)),
            ("polling.activity.dormant_after_ms", millis(activity.dormant_after)),
            ("polling.activity.dormant_ms", millis(activity.dormant)),
        ]);
    }
    if let Some(hours) = &polling.quiet_hours {
        values.extend([
            ("polling.quiet_hours.from", time_of_day(hours.from)),
            ("polling.quiet_hours.to", time_of_day(hours.to)),
            ("polling.quiet_hours.timezone", json!(hours.timezone)),
        ]);
    }
    values
}

fn agent(agent: &AgentSettings) -> [KeyValue; 13] {
    let common = &agent.common;
    [
        ("agent.kind", json!(agent.kind)),
        ("agent.max_concurrent_agents", json!(agent.max_concurrent_agents)),
        ("agent.max_turns", json!(agent.max_turns)),
        ("agent.max_retry_backoff_ms", millis(agent.max_retry_backoff)),
        ("agent.stop_grace_ms", millis(agent.stop_grace)),
        ("agent.finish_grace_ms", millis(agent.finish_grace)),
        ("agent.command", json!(common.command)),
        ("agent.model", json!(common.model)),
        ("agent.effort", json!(common.effort)),
        ("agent.approvals", json!(common.approvals)),
        ("agent.turn_timeout_ms", millis(common.turn_timeout)),
        ("agent.read_timeout_ms", millis(common.read_timeout)),
        ("agent.stall_timeout_ms", common.stall_timeout.map_or(Value::Null, millis)),
    ]
}

fn server(server: &ServerSettings) -> [KeyValue; 4] {
    [
        ("server.port", json!(server.port)),
        ("server.host", json!(server.host)),
        ("server.token", json!(server.token)),
        ("server.allowed_hosts", json!(server.allowed_hosts)),
    ]
}

fn logging(logging: &LoggingSettings) -> [KeyValue; 4] {
    [
        ("logging.format", json!(logging.format)),
        ("logging.level", json!(logging.level.as_str())),
        ("logging.max_bytes", json!(logging.max_bytes)),
        ("logging.max_files", json!(logging.max_files)),
    ]
}

/// A number that JSON may not have, such as one that is none.
fn number(number: f64) -> Value {
    if number.is_finite() { json!(number) } else { json!(number.to_string()) }
}

fn time_of_day(minutes: u16) -> Value {
    json!(format!("{:02}:{:02}", minutes / 60, minutes % 60))
}

/// Limits by state. A file's bad entry is ignored with a warning; code can be told.
fn limits(agent: &AgentSettings) -> Vec<Problem> {
    let check = |(state, limit): (&_, &u32)| {
        let mut path = String::from("agent.max_concurrent_agents_by_state.");
        let _ = write!(path, "{state}");
        refusal(&path, SettingShape::COUNT, json!(limit))
    };
    agent.max_concurrent_agents_by_state.iter().filter_map(check).collect()
}

fn empty_hours(hours: &QuietHours) -> Option<Problem> {
    let problem = Problem::new(ProblemKind::InvalidSetting, sections::EMPTY_HOURS);
    (hours.from == hours.to).then(|| problem.with_path("polling.quiet_hours.to"))
}

/// The agent's own section: the shapes of its keys, and what its factory finds.
fn section(settings: &AgentSettings, profile: &AgentProfile) -> Vec<Problem> {
    let shapes = profile.keys.iter().filter_map(|key| {
        let value = settings.section.get(keys::leaf(key.path))?.clone();
        refusal(key.path, key.shape, value)
    });
    let found = (profile.check)(settings).into_iter().map(|found| {
        let section = settings.section.get(found.key).map_or("agent", |_| profile.section);
        let mut problem = Problem::new(ProblemKind::InvalidSetting, found.message);
        problem.help = found.help;
        problem.with_path(format!("{section}.{}", found.key))
    });
    shapes.chain(found).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use symphony_core::StateSet;
    use symphony_core::settings::ActivitySettings;

    use super::*;
    use crate::settings::keys::KEYS;

    fn settings() -> Settings {
        let (active, over) = (StateSet::new(["Todo"]), StateSet::new(["Done"]));
        Settings::new("memory", active, over, "/work".into())
    }

    fn found(change: impl FnOnce(&mut Settings)) -> Vec<String> {
        let mut settings = settings();
        change(&mut settings);
        let problems = check_settings(&settings, &AgentProfile::NONE);
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rule_2_11_every_key_of_a_file_is_checked_in_code_too() {
        let mut settings = settings();
        settings.polling.activity = Some(ActivitySettings::default());
        settings.polling.quiet_hours = Some(QuietHours { from: 0, to: 60, timezone: None });
        assert_eq!(check_settings(&settings, &AgentProfile::NONE), []);
        let checked: BTreeSet<&str> = values(&settings).iter().map(|(path, _)| *path).collect();
        let is_elsewhere = |shape| {
            matches!(shape, SettingShape::Older | SettingShape::NotYet | SettingShape::Limits)
        };
        let of_files: BTreeSet<&str> =
            KEYS.iter().filter(|key| !is_elsewhere(key.shape)).map(|key| key.path).collect();
        assert_eq!(checked, of_files);
    }

    #[test]
    fn rule_2_11_settings_made_in_code_are_refused_in_the_words_of_a_file() {
        type Change = fn(&mut Settings);
        let cases: [(Change, &str); 14] = [
            (
                |s| s.agent.max_concurrent_agents = 0,
                "agent.max_concurrent_agents: must be a positive integer, got 0",
            ),
            (
                |s| s.polling.interval = Duration::ZERO,
                "polling.interval_ms: must be a positive integer, got 0",
            ),
            (
                |s| s.polling.interval = Duration::MAX,
                "polling.interval_ms: must be at most 3153600000000, got 18446744073709551615",
            ),
            (
                |s| s.polling.budget.reserve = 1.5,
                "polling.budget.reserve: must be a number from 0 to 1, got 1.5",
            ),
            (
                |s| s.polling.budget.reserve = f64::NAN,
                "polling.budget.reserve: must be a number from 0 to 1, got \"NaN\"",
            ),
            (
                |s| s.polling.quiet_hours = Some(QuietHours { from: 1500, to: 0, timezone: None }),
                "polling.quiet_hours.from: must be a time of day such as \"22:30\", got \"25:00\"",
            ),
            (
                |s| s.polling.quiet_hours = Some(QuietHours { from: 60, to: 60, timezone: None }),
                "polling.quiet_hours.to: must differ from polling.quiet_hours.from",
            ),
            (|s| s.tracker.kind = " ".to_owned(), "tracker.kind: must not be blank"),
            (
                |s| s.hooks.before_run = Some("a\0b".to_owned()),
                "hooks.before_run: must be text, got \"a\\0b\"",
            ),
            (
                |s| s.agent.common.stall_timeout = Some(Duration::ZERO),
                "agent.stall_timeout_ms: must be a positive integer, got 0",
            ),
            (
                |s| {
                    s.agent.max_concurrent_agents_by_state.insert("Todo".into(), 0);
                },
                "agent.max_concurrent_agents_by_state.Todo: must be a positive integer, got 0",
            ),
            (|s| s.server.token = Some(" ".to_owned()), "server.token: must be text, got text"),
            (|s| s.logging.max_bytes = 0, "logging.max_bytes: must be a positive integer, got 0"),
            (
                |s| s.tracker.active_states = StateSet::new(["Todo", "Done"]),
                "tracker.active_states: \"Done\" is terminal too, and counts as that",
            ),
        ];
        for (change, wanted) in cases {
            assert_eq!(found(change), [wanted]);
        }
        assert_eq!(found(|s| s.agent.finish_grace = Duration::ZERO), [""; 0], "zero is none");
    }

    #[test]
    fn rule_2_11_an_agents_own_section_is_checked_by_its_profile() {
        use symphony_core::settings::{AgentCommon, AgentSettingProblem, SettingKey};
        const KEYS: &[SettingKey] =
            &[SettingKey::optional("door.height", SettingShape::COUNT, "How high.")];
        let profile = AgentProfile {
            section: "door",
            about: "",
            keys: KEYS,
            defaults: AgentCommon::default,
            check: |_| {
                let message = "opens nothing".to_owned();
                vec![AgentSettingProblem { key: "command", message, help: None }]
            },
        };
        let mut settings = settings();
        settings.agent.section.set("height", 0);
        let found: Vec<String> =
            check_settings(&settings, &profile).iter().map(ToString::to_string).collect();
        let height = "door.height: must be a positive integer, got 0";
        assert_eq!(found, [height, "agent.command: opens nothing"]);
    }
}
