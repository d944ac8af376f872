//! From front matter to [`Settings`]: one function for each section (contract section 3).

use std::fmt;
use std::path::PathBuf;

use serde_json::{Map as Object, Value};

use super::agents;
use super::keys::{self, KeyTable};
use super::paths::{Astray, Base};
use super::read::Reader;
use super::shape::shown;
use super::unknown;
use crate::WorkflowContext;
use crate::front_matter::{Duplicate, Map};
use symphony_core::issue::{Label, StateName};
use symphony_core::problem::{Problem, ProblemKind};
use symphony_core::settings::{
    ActivitySettings, HookSettings, LoggingSettings, ObservabilitySettings, PollingSettings,
    Provider, QuietHours, ServerSettings, Settings, StateSet, TrackerSettings, env_reference,
};
use symphony_core::tracker::TrackerProfile;

/// Where workspaces are when the file does not say, below the service's own folder.
const DEFAULT_ROOT: &str = "workspaces";

/// Where older files have the adapter's keys, whatever the adapter.
const OLDER_PLACES: [&str; 4] =
    ["tracker.api_key", "tracker.project_slug", "tracker.endpoint", "tracker.assignee"];

/// The settings of a file, with a default in the place of whatever is wrong, and every problem.
pub(crate) fn read(
    root: &Map,
    duplicates: &[Duplicate],
    cx: &WorkflowContext<'_>,
) -> (Settings, Vec<Problem>) {
    let mut reader = Reader::new(root, KeyTable::new(cx.agents.values().copied()));
    unknown::report_duplicates(&mut reader, duplicates);
    let settings = settings(&mut reader, cx);
    (settings, reader.into_problems())
}

fn settings(r: &mut Reader<'_>, cx: &WorkflowContext<'_>) -> Settings {
    let base = Base { env: cx.env, home: cx.home.as_deref(), folder: &cx.folder };
    let (tracker, profile) = tracker(r, cx);
    unknown::report(r, profile);
    let _: Option<Value> = r.read("worker");
    let root = workspace(r, base, cx);
    let mut settings = Settings::new("", StateSet::default(), StateSet::default(), root);
    settings.tracker = tracker;
    settings.polling = polling(r, base);
    settings.storage.path = storage_path(r, base);
    settings.hooks = hooks(r);
    settings.agent = agents::agent(r, cx);
    settings.prompt.engine = r.read("prompt.engine");
    settings.server = server(r);
    settings.observability = observability(r);
    settings.logging = logging(r);
    settings
}

fn tracker<'c>(
    r: &mut Reader<'_>,
    cx: &WorkflowContext<'c>,
) -> (TrackerSettings, Option<&'c TrackerProfile>) {
    let kind: Option<String> = r.read("tracker.kind");
    let kind = kind.map(|kind| kind.trim().to_owned());
    let profile = kind.as_deref().and_then(|kind| cx.trackers.get(kind).copied());
    if profile.is_none() {
        unsupported_kind(r, kind.as_deref(), cx);
    }
    let mut states = |path, default: fn(&TrackerProfile) -> &StateSet| {
        let names: Option<Vec<String>> = r.read(path);
        match names {
            Some(names) => StateSet::new(names.iter().map(String::as_str)),
            None => profile.map(default).cloned().unwrap_or_default(),
        }
    };
    let mut settings = TrackerSettings::default();
    settings.kind = kind.unwrap_or_default();
    settings.active_states = states("tracker.active_states", |profile| &profile.active_states);
    settings.terminal_states =
        states("tracker.terminal_states", |profile| &profile.terminal_states);
    report_overlap(r, &settings);
    settings.provider = provider(r, profile);
    settings.required_labels = required_labels(r);
    settings.timeout = r.millis_or("tracker.timeout_ms", settings.timeout);
    (settings, profile)
}

/// Warns of states that are both active and terminal: no issue in one of them is worked on.
fn report_overlap(r: &mut Reader<'_>, settings: &TrackerSettings) {
    let is_both = |state: &&StateName| settings.terminal_states.contains(state);
    let both: Vec<&str> =
        settings.active_states.names().iter().filter(is_both).map(StateName::as_str).collect();
    let path = "tracker.active_states";
    if !both.is_empty() {
        let message = format!("{:?} is terminal too, and counts as that", both.join(", "));
        r.ignore(path, r.place(path), message);
    }
}

/// The kind is absent or not registered. One that is blank or no text has been refused before.
fn unsupported_kind(r: &mut Reader<'_>, kind: Option<&str>, cx: &WorkflowContext<'_>) {
    let path = "tracker.kind";
    let available = Available::new(cx.trackers.keys(), "tracker");
    let message = match (r.entry(path), kind) {
        (None, _) => format!("is required: {available}"),
        (Some(_), None) => return,
        (Some(entry), Some(_)) => format!("{available}, not {}", shown(&entry.value)),
    };
    let problem = Problem::new(ProblemKind::UnsupportedTrackerKind, message);
    let mut problem = problem.with_path(path).with_position(r.place(path));
    problem.help = available.help();
    r.note(problem);
}

/// The adapters of one sort that there are, in words for people.
pub(super) struct Available<'a> {
    kinds: Vec<&'a str>,
    noun: &'static str,
}

impl<'a> Available<'a> {
    pub(super) fn new(kinds: impl Iterator<Item = &'a &'a str>, noun: &'static str) -> Self {
        Self { kinds: kinds.copied().collect(), noun }
    }

    /// Returns what to write instead of a kind that there is not.
    pub(super) fn help(&self) -> Option<String> {
        let written: Vec<String> =
            self.kinds.iter().map(|kind| format!("`kind: {kind}`")).collect();
        (!written.is_empty()).then(|| format!("write {}", written.join(" or ")))
    }
}

impl fmt::Display for Available<'_> {
    /// `this version has the trackers linear and memory`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = self.noun;
        match self.kinds.as_slice() {
            [] => write!(f, "this version has no {noun}"),
            [only] => write!(f, "this version has the {noun} {only}"),
            [first @ .., last] => {
                write!(f, "this version has the {noun}s {} and {last}", first.join(", "))
            }
        }
    }
}

/// The adapter's own keys: nested, or at the places that older files have them (contract 2.5).
fn provider(r: &mut Reader<'_>, profile: Option<&TrackerProfile>) -> Provider {
    let mut raw: Object<String, Value> = r.or("tracker.provider", Object::new());
    raw.retain(|_, value| !value.is_null());
    for path in OLDER_PLACES {
        if let Some(value) = r.read::<Value>(path) {
            raw.entry(keys::leaf(path)).or_insert(value);
        }
    }
    for name in profile.map_or(&[][..], |profile| &profile.provider_keys) {
        let path = format!("tracker.{name}");
        if let (None, Some(entry)) = (r.table().find(&path), r.entry(&path)) {
            raw.entry(*name).or_insert_with(|| entry.value.to_json());
        }
    }
    Provider::new(raw)
}

fn required_labels(r: &mut Reader<'_>) -> Vec<Label> {
    let texts: Vec<String> = r.or("tracker.required_labels", Vec::new());
    let mut labels = Vec::new();
    for label in texts.iter().map(|text| Label::new(text)) {
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    labels
}

fn polling(r: &mut Reader<'_>, base: Base<'_>) -> PollingSettings {
    let mut settings = PollingSettings::default();
    settings.interval = r.millis_or("polling.interval_ms", settings.interval);
    settings.jobs.candidates = r.millis("polling.jobs.candidates_ms");
    settings.jobs.refresh = r.millis("polling.jobs.refresh_ms");
    settings.jobs.sweep = r.millis_or("polling.jobs.sweep_ms", settings.jobs.sweep);
    settings.activity = activity(r);
    settings.quiet_hours = quiet_hours(r);
    settings.budget.per_hour = r.read("polling.budget.per_hour");
    settings.budget.per_day = r.read("polling.budget.per_day");
    settings.budget.reserve = r.or("polling.budget.reserve", settings.budget.reserve);
    settings.activity_file = activity_file(r, base);
    settings
}

fn activity(r: &mut Reader<'_>) -> Option<ActivitySettings> {
    let mut settings = ActivitySettings::default();
    settings.idle_after = r.millis_or("polling.activity.idle_after_ms", settings.idle_after);
    settings.idle = r.millis_or("polling.activity.idle_ms", settings.idle);
    settings.dormant_after =
        r.millis_or("polling.activity.dormant_after_ms", settings.dormant_after);
    settings.dormant = r.millis_or("polling.activity.dormant_ms", settings.dormant);
    r.map("polling.activity").map(|_| settings)
}

fn quiet_hours(r: &mut Reader<'_>) -> Option<QuietHours> {
    let from: Option<u16> = r.read("polling.quiet_hours.from");
    let to: Option<u16> = r.read("polling.quiet_hours.to");
    let timezone: Option<String> = r.read("polling.quiet_hours.timezone");
    r.map("polling.quiet_hours")?;
    for path in ["polling.quiet_hours.from", "polling.quiet_hours.to"] {
        if r.entry(path).is_none() {
            r.refuse(path, r.place(path), "is required when there are quiet hours");
        }
    }
    let (from, to) = (from?, to?);
    if from == to {
        let path = "polling.quiet_hours.to";
        r.refuse(path, r.place(path), "must differ from polling.quiet_hours.from");
    }
    Some(QuietHours { from, to, timezone: timezone.map(|zone| zone.trim().to_owned()) })
}

fn activity_file(r: &mut Reader<'_>, base: Base<'_>) -> Option<PathBuf> {
    let path = "polling.activity_file";
    let text: String = r.read(path)?;
    match base.path(&text) {
        Ok(file) => Some(file),
        Err(unset @ Astray::Unset(_)) => {
            r.ignore(path, r.place(path), unset.message());
            None
        }
        Err(astray) => {
            refuse_path(r, path, &astray);
            None
        }
    }
}

fn workspace(r: &mut Reader<'_>, base: Base<'_>, cx: &WorkflowContext<'_>) -> PathBuf {
    let path = "workspace.root";
    let Some(text) = r.read::<String>(path) else {
        return default_root(r, path, cx);
    };
    let default = cx.state_folder.as_ref().unwrap_or(&cx.folder).join(DEFAULT_ROOT);
    let resolved = base.path(&text);
    if resolved.is_ok() && text.contains('$') && env_reference(&text).is_none() {
        let message = "`$` is part of the name: only a whole value $NAME or ${NAME} is looked up";
        r.ignore(path, r.place(path), message);
    }
    resolved.unwrap_or_else(|astray| {
        refuse_path(r, path, &astray);
        default
    })
}

/// Where workspaces are when the file does not say: where older versions had them, as long as there
/// are any.
fn default_root(r: &mut Reader<'_>, path: &'static str, cx: &WorkflowContext<'_>) -> PathBuf {
    match (&cx.former_root, &cx.state_folder) {
        (Some(former), _) => {
            let former = former.clone();
            let message = format!(
                "is absent, and workspaces are among the temporary files, where older versions \
                 had them: name {}, or move that folder and name the new place",
                former.display()
            );
            r.ignore(path, None, message);
            former
        }
        (None, Some(folder)) => folder.join(DEFAULT_ROOT),
        (None, None) => {
            let message = "is needed where none of STATE_DIRECTORY, XDG_STATE_HOME and HOME is set";
            r.refuse(path, None, message);
            cx.folder.join(DEFAULT_ROOT)
        }
    }
}

fn storage_path(r: &mut Reader<'_>, base: Base<'_>) -> Option<PathBuf> {
    let path = "storage.path";
    let text: String = r.read(path)?;
    base.path(&text).map_err(|astray| refuse_path(r, path, &astray)).ok()
}

fn refuse_path(r: &mut Reader<'_>, path: &str, astray: &Astray) {
    let problem = Problem::new(ProblemKind::InvalidSetting, astray.message());
    let mut problem = problem.with_path(path).with_position(r.place(path));
    problem.help = astray.help();
    r.note(problem);
}

fn hooks(r: &mut Reader<'_>) -> HookSettings {
    let mut settings = HookSettings::default();
    settings.after_create = r.read("hooks.after_create");
    settings.before_run = r.read("hooks.before_run");
    settings.after_run = r.read("hooks.after_run");
    settings.before_remove = r.read("hooks.before_remove");
    settings.timeout = r.millis_or("hooks.timeout_ms", settings.timeout);
    settings.env = r.or("hooks.env", settings.env);
    settings
}

fn server(r: &mut Reader<'_>) -> ServerSettings {
    let mut settings = ServerSettings::default();
    settings.port = r.read("server.port");
    settings.host = r.or("server.host", settings.host).trim().to_owned();
    settings.token = r.read("server.token");
    settings.allowed_hosts = r.or("server.allowed_hosts", settings.allowed_hosts);
    settings
}

fn observability(r: &mut Reader<'_>) -> ObservabilitySettings {
    let mut settings = ObservabilitySettings::default();
    settings.dashboard_enabled =
        r.or("observability.dashboard_enabled", settings.dashboard_enabled);
    settings.refresh = r.millis_or("observability.refresh_ms", settings.refresh);
    settings.render_interval =
        r.millis_or("observability.render_interval_ms", settings.render_interval);
    settings
}

fn logging(r: &mut Reader<'_>) -> LoggingSettings {
    let mut settings = LoggingSettings::default();
    settings.format = r.or("logging.format", settings.format);
    settings.level = r.or("logging.level", settings.level);
    settings.max_bytes = r.or("logging.max_bytes", settings.max_bytes);
    settings.max_files = r.or("logging.max_files", settings.max_files);
    settings
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::settings::keys::KEYS;

    #[test]
    fn every_key_of_the_table_is_read() {
        let env = BTreeMap::new();
        let cx = WorkflowContext::new(&env, "/code").state_folder("/state");
        let map = Map::default();
        let mut reader = Reader::new(&map, KeyTable::default());
        settings(&mut reader, &cx);
        let known: BTreeSet<&str> = KEYS.iter().map(|key| key.path).collect();
        assert_eq!(*reader.read_keys(), known);
    }
}
