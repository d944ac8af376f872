//! Every key of the front matter: one table for reading, for unknown keys and for the schema.

use std::time::Duration;

use serde_json::{Value, json};
use symphony_core::settings::SettingShape as Shape;
use symphony_core::settings::{
    ActivitySettings, AgentProfile, AgentSettings, BudgetSettings, HookSettings, JobIntervals,
    LoggingSettings, ObservabilitySettings, PollingSettings, ServerSettings, SettingKey,
    TrackerSettings,
};

const MILLIS: Shape = Shape::MILLIS;
const MILLIS_OR_NONE: Shape = Shape::MILLIS_OR_NONE;
const COUNT: Shape = Shape::COUNT;
const MAX_U32: i64 = u32::MAX as i64;

const fn key(
    path: &'static str,
    shape: Shape,
    default: fn() -> Value,
    about: &'static str,
) -> SettingKey {
    SettingKey::new(path, shape, default, about)
}

const fn optional(path: &'static str, shape: Shape, about: &'static str) -> SettingKey {
    SettingKey::optional(path, shape, about)
}

fn millis(time: Duration) -> Value {
    json!(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// The keys, by section.
#[rustfmt::skip]
pub(super) const KEYS: &[SettingKey] = &[
    optional("tracker.kind", Shape::Text,
        "Which registered adapter reads the tracker. Required."),
    key("tracker.provider", Shape::Map, || json!(TrackerSettings::default().provider),
        "The adapter's own settings. A whole value `$NAME` is read from the environment by the adapter."),
    optional("tracker.api_key", Shape::Older, "The older place of `tracker.provider.api_key`."),
    optional("tracker.project_slug", Shape::Older, "The older place of `tracker.provider.project_slug`."),
    optional("tracker.endpoint", Shape::Older, "The older place of `tracker.provider.endpoint`."),
    optional("tracker.assignee", Shape::Older, "The older place of `tracker.provider.assignee`."),
    key("tracker.required_labels", Shape::Texts, || json!(TrackerSettings::default().required_labels),
        "Labels that an issue must all have. A blank one matches nothing."),
    optional("tracker.active_states", Shape::Texts,
        "States in which an issue is worked on. The adapter's own when absent."),
    optional("tracker.terminal_states", Shape::Texts,
        "States in which an issue is over and its workspace is removed. The adapter's own when absent."),
    key("tracker.timeout_ms", MILLIS, || millis(TrackerSettings::default().timeout),
        "How long one read of the tracker may take."),

    key("polling.interval_ms", MILLIS, || millis(PollingSettings::default().interval),
        "How often the tracker is read."),
    optional("polling.jobs.candidates_ms", MILLIS,
        "How often new work is looked for. `polling.interval_ms` when absent."),
    optional("polling.jobs.refresh_ms", MILLIS,
        "How often issues that are being worked on are read again. `polling.interval_ms` when absent."),
    key("polling.jobs.sweep_ms", MILLIS, || millis(JobIntervals::default().sweep),
        "How often workspaces of finished issues are looked for."),
    key("polling.activity.idle_after_ms", MILLIS, || millis(ActivitySettings::default().idle_after),
        "Without activity for this long, polling is idle."),
    key("polling.activity.idle_ms", MILLIS, || millis(ActivitySettings::default().idle),
        "The interval while idle."),
    key("polling.activity.dormant_after_ms", MILLIS, || millis(ActivitySettings::default().dormant_after),
        "Without activity for this long, polling is dormant."),
    key("polling.activity.dormant_ms", MILLIS, || millis(ActivitySettings::default().dormant),
        "The interval while dormant."),
    optional("polling.quiet_hours.from", Shape::Time, "When quiet hours begin, such as `22:30`."),
    optional("polling.quiet_hours.to", Shape::Time,
        "When quiet hours end; a time before `from` is on the next day."),
    optional("polling.quiet_hours.timezone", Shape::Text,
        "The IANA time zone of both times. The machine's own when absent."),
    optional("polling.budget.per_hour", COUNT,
        "Requests to the tracker in an hour. Learned from the tracker when absent."),
    optional("polling.budget.per_day", COUNT, "Requests to the tracker in a day. No limit when absent."),
    key("polling.budget.reserve", Shape::Number { min: 0.0, max: 1.0 },
        || json!(BudgetSettings::default().reserve),
        "The share of the budget that is kept for issues being worked on and for agents' tools."),
    optional("polling.activity_file", Shape::Path, "A file whose touch counts as activity."),

    optional("workspace.root", Shape::Path,
        "The folder that holds every workspace. `workspaces` in the service's own folder, which is in the user's state folder, when absent."),

    optional("storage.path", Shape::Path,
        "The file that keeps what must survive a restart. `symphony.db` in the service's own folder, which is in the user's state folder, when absent."),

    optional("hooks.after_create", Shape::OptionalText, "A shell script that runs once in a new workspace."),
    optional("hooks.before_run", Shape::OptionalText, "A shell script that runs before each attempt."),
    optional("hooks.after_run", Shape::OptionalText, "A shell script that runs after each attempt."),
    optional("hooks.before_remove", Shape::OptionalText,
        "A shell script that runs before a workspace is removed."),
    key("hooks.timeout_ms", MILLIS, || millis(HookSettings::default().timeout),
        "How long one hook may take."),
    key("hooks.env", Shape::Texts, || json!(HookSettings::default().env),
        "Names of removed environment variables that hooks may see all the same."),

    key("agent.kind", Shape::Text, || json!(AgentSettings::default().kind),
        "Which registered backend runs the agent."),
    key("agent.max_concurrent_agents", COUNT, || json!(AgentSettings::default().max_concurrent_agents),
        "How many agents may live at once."),
    key("agent.max_concurrent_agents_by_state", Shape::Limits,
        || json!(AgentSettings::default().max_concurrent_agents_by_state),
        "How many agents may live at once for issues in a state."),
    key("agent.max_turns", COUNT, || json!(AgentSettings::default().max_turns),
        "How many turns one run may have."),
    key("agent.max_retry_backoff_ms", MILLIS, || millis(AgentSettings::default().max_retry_backoff),
        "The longest wait between two attempts."),
    key("agent.stop_grace_ms", MILLIS_OR_NONE, || millis(AgentSettings::default().stop_grace),
        "How long an agent has between SIGTERM and SIGKILL."),
    key("agent.finish_grace_ms", MILLIS_OR_NONE, || millis(AgentSettings::default().finish_grace),
        "How long an agent that moved its own issue out of the active states has to end its turn."),

    optional("agent.command", Shape::Text,
        "What starts the agent. Run by `bash -lc`, which expands variables. Counts only where `agent.kind` is set."),
    optional("agent.model", Shape::Text,
        "The model to use. Counts only where `agent.kind` is set."),
    optional("agent.effort", Shape::Text, "How hard the model thinks, in the agent's own words."),
    optional("agent.approvals", Shape::APPROVALS, "What is answered when the agent asks for approval."),
    optional("agent.turn_timeout_ms", MILLIS, "How long a turn may be silent."),
    optional("agent.read_timeout_ms", MILLIS, "How long a response may take."),
    optional("agent.stall_timeout_ms", Shape::MILLIS_OR_OFF,
        "How long a run may be without a sign of life. Off when zero or less."),

    optional("prompt.engine", Shape::Choice(&["tera", "liquid"]),
        "The template language of the prompt. Chosen on load when absent."),

    optional("server.port", Shape::Integer { min: 0, max: u16::MAX as i64 },
        "The port of the HTTP server; 0 takes any free one. No server when absent."),
    key("server.host", Shape::Text, || json!(ServerSettings::default().host),
        "The address of the HTTP server."),
    optional("server.token", Shape::Secret,
        "The access token, or `$NAME` of the variable that holds it. Needed on any address but loopback."),
    key("server.allowed_hosts", Shape::Texts, || json!(ServerSettings::default().allowed_hosts),
        "Host names that are answered besides the address itself."),

    key("observability.dashboard_enabled", Shape::Flag, || json!(ObservabilitySettings::default().dashboard_enabled),
        "Whether a terminal shows the dashboard."),
    key("observability.refresh_ms", MILLIS, || millis(ObservabilitySettings::default().refresh),
        "How often the dashboard reads what is going on."),
    key("observability.render_interval_ms", MILLIS, || millis(ObservabilitySettings::default().render_interval),
        "How often the dashboard may draw."),

    key("logging.format", Shape::Choice(&["text", "json"]), || json!(LoggingSettings::default().format),
        "How log lines are written."),
    key("logging.level", Shape::Filter, || json!(LoggingSettings::default().level),
        "What is written: a level (off, error, warn, info, debug, trace), or levels of parts of the program, such as `info,symphony_linear=debug`."),
    key("logging.max_bytes", Shape::Integer { min: 1, max: i64::MAX },
        || json!(LoggingSettings::default().max_bytes),
        "The size at which a log file is rotated, and the most that is kept of what was said in one run."),
    key("logging.max_files", Shape::Integer { min: 0, max: MAX_U32 }, || json!(LoggingSettings::default().max_files),
        "How many rotated files are kept."),

    optional("worker", Shape::NotYet, "Remote hosts. Cannot be set yet."),
];

/// The maps that hold the keys.
pub(super) const SECTIONS: &[(&str, &str)] = &[
    ("tracker", "Which issues there are."),
    ("polling", "How often the tracker is asked."),
    ("polling.jobs", "Intervals of single jobs."),
    ("polling.activity", "Slower polling when nothing happens. Off when absent."),
    ("polling.quiet_hours", "Hours in which new work is hardly looked for. Off when absent."),
    ("polling.budget", "Limits of requests to the tracker."),
    ("workspace", "Where agents work."),
    ("storage", "What survives a restart."),
    ("hooks", "Scripts around a workspace and its attempts."),
    ("agent", "How many agents work, and for how long."),
    ("prompt", "How the prompt is rendered."),
    ("server", "The HTTP server."),
    ("observability", "The terminal dashboard."),
    ("logging", "The log."),
];

/// Every key that can be read: those of the table above, and those of the registered agents.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyTable<'a> {
    agents: Vec<&'a AgentProfile>,
}

impl<'a> KeyTable<'a> {
    /// The table with the sections of these agents.
    pub(super) fn new(agents: impl IntoIterator<Item = &'a AgentProfile>) -> Self {
        Self { agents: agents.into_iter().filter(|agent| !agent.section.is_empty()).collect() }
    }

    /// All keys.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'static SettingKey> {
        KEYS.iter().chain(self.agents.iter().flat_map(|agent| agent.keys))
    }

    /// All sections, with what they are about.
    pub(super) fn sections(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let agents = self.agents.iter().map(|agent| (agent.section, agent.about));
        SECTIONS.iter().copied().chain(agents)
    }

    /// The row of a path.
    pub(super) fn find(&self, path: &str) -> Option<&'static SettingKey> {
        self.keys().find(|key| key.path == path)
    }

    /// Whether a path is a map of keys.
    pub(super) fn is_section(&self, path: &str) -> bool {
        self.sections().any(|(section, _)| section == path)
    }

    /// The full paths of what a section holds; the empty path is the whole front matter.
    pub(super) fn members(&self, section: &str) -> impl Iterator<Item = &'static str> {
        let paths = self.keys().map(|key| key.path);
        let sections = self.sections().map(|(section, _)| section);
        paths.chain(sections).filter(move |path| parent(path) == section)
    }
}

/// The section that holds a path.
pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(section, _)| section)
}

/// The last part of a path.
pub(super) fn leaf(path: &str) -> &str {
    path.rsplit_once('.').map_or(path, |(_, leaf)| leaf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_stands_once_in_a_known_section() {
        for (index, key) in KEYS.iter().enumerate() {
            let section = parent(key.path);
            assert!(section.is_empty() || KeyTable::default().is_section(section), "{}", key.path);
            assert!(KEYS[..index].iter().all(|other| other.path != key.path), "{}", key.path);
        }
    }
}
