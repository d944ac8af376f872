//! `agent.*`, and the sections of the registered agents.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use symphony_core::issue::StateName;
use symphony_core::problem::{Problem, ProblemKind};
use symphony_core::settings::{AgentCommon, AgentProfile, AgentSettings};

use super::keys;
use super::other_agent;
use super::read::Reader;
use super::sections::Available;
use super::shape::{self, shown};
use crate::WorkflowContext;
use crate::front_matter::{Map, dotted};

pub(super) fn agent(r: &mut Reader<'_>, cx: &WorkflowContext<'_>) -> AgentSettings {
    let mut settings = AgentSettings::default();
    settings.kind = agent_kind(r, settings.kind, cx);
    let profile = cx.agents.get(settings.kind.as_str()).copied().unwrap_or(&AgentProfile::NONE);
    let own = sections(r, cx, profile.section);
    settings.common = common(r, &own, (profile.defaults)());
    for (key, value) in own.into_iter().filter(|(key, _)| !COMMON.contains(&key.as_str())) {
        settings.section.set(key, value);
    }
    settings.max_concurrent_agents =
        r.or("agent.max_concurrent_agents", settings.max_concurrent_agents);
    settings.max_concurrent_agents_by_state = limits(r, "agent.max_concurrent_agents_by_state");
    settings.max_turns = r.or("agent.max_turns", settings.max_turns);
    settings.max_retry_backoff =
        r.millis_or("agent.max_retry_backoff_ms", settings.max_retry_backoff);
    settings.stop_grace = r.millis_or("agent.stop_grace_ms", settings.stop_grace);
    settings.finish_grace = r.millis_or("agent.finish_grace_ms", settings.finish_grace);
    check(r, profile, &settings);
    settings
}

/// The keys that every agent has: see [`AgentCommon`].
const COMMON: [&str; 7] = [
    "command",
    "model",
    "effort",
    "approvals",
    "turn_timeout_ms",
    "read_timeout_ms",
    "stall_timeout_ms",
];

/// Reads the section of every registered agent, so that a mistake in one is told whichever is in
/// force, and returns the one that is.
fn sections(
    r: &mut Reader<'_>,
    cx: &WorkflowContext<'_>,
    in_force: &str,
) -> BTreeMap<String, Value> {
    let mut section = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for profile in cx.agents.values().filter(|profile| seen.insert(profile.section)) {
        for key in profile.keys {
            if let Some(value) = r.read::<Value>(key.path)
                && profile.section == in_force
            {
                section.insert(keys::leaf(key.path).to_owned(), value);
            }
        }
    }
    section
}

/// What every agent has: its own section wins over `agent.*`, and that over the agent's default.
fn common(
    r: &mut Reader<'_>,
    own: &BTreeMap<String, Value>,
    mut settings: AgentCommon,
) -> AgentCommon {
    let millis = |time: Option<u64>| time.map(Duration::from_millis);
    let stall: Option<i64> = either(r, own, "agent.stall_timeout_ms");
    settings.command = with_kind(r, own, "agent.command").or(settings.command);
    settings.model = with_kind(r, own, "agent.model").or(settings.model);
    settings.effort = either(r, own, "agent.effort").or(settings.effort);
    settings.approvals = either(r, own, "agent.approvals").unwrap_or(settings.approvals);
    settings.turn_timeout =
        millis(either(r, own, "agent.turn_timeout_ms")).unwrap_or(settings.turn_timeout);
    settings.read_timeout =
        millis(either(r, own, "agent.read_timeout_ms")).unwrap_or(settings.read_timeout);
    if let Some(stall) = stall {
        settings.stall_timeout = millis(u64::try_from(stall).ok().filter(|stall| *stall > 0));
    }
    settings
}

/// The value of a key in the agent's own section, else at its path below `agent`.
fn either<T: DeserializeOwned>(
    r: &mut Reader<'_>,
    own: &BTreeMap<String, Value>,
    path: &'static str,
) -> Option<T> {
    let here: Option<Value> = r.read(path);
    let value = own.get(keys::leaf(path)).cloned().or(here)?;
    serde_json::from_value(value).ok()
}

/// The same for a key that other programs use too: without `agent.kind` it may be about another
/// agent than the default one (contract 2.10), so it is not taken.
fn with_kind(
    r: &mut Reader<'_>,
    own: &BTreeMap<String, Value>,
    path: &'static str,
) -> Option<String> {
    if r.entry("agent.kind").is_some() || r.entry(path).is_none() {
        return either(r, own, path);
    }
    r.ignore(path, r.place(path), "counts only where agent.kind is set, and is ignored");
    own.get(keys::leaf(path)).and_then(Value::as_str).map(str::to_owned)
}

/// Lets the agent's factory judge what shapes cannot tell.
fn check(r: &mut Reader<'_>, profile: &AgentProfile, settings: &AgentSettings) {
    for found in (profile.check)(settings) {
        let own = format!("{}.{}", profile.section, found.key);
        let path = if r.entry(&own).is_some() { own } else { format!("agent.{}", found.key) };
        let mut problem = Problem::new(ProblemKind::InvalidSetting, found.message);
        problem.help = found.help;
        let at = r.place(&path);
        r.note(problem.with_path(path).with_position(at));
    }
}

fn agent_kind(r: &mut Reader<'_>, default: String, cx: &WorkflowContext<'_>) -> String {
    let path = "agent.kind";
    let set: Option<String> = r.read(path);
    let available = Available::new(cx.agents.keys(), "agent");
    let message = match (r.entry(path), &set) {
        (Some(entry), Some(kind)) if !cx.agents.contains_key(kind.trim()) => {
            format!("{available}, not {}", shown(&entry.value))
        }
        (None, _) if !cx.agents.contains_key(&*default) => {
            format!("is required, as {available}, not {default}")
        }
        (None, _) => {
            other_agent::refuse(r, &default);
            return default;
        }
        _ => return set.map_or(default, |kind| kind.trim().to_owned()),
    };
    let problem = Problem::new(ProblemKind::InvalidSetting, message).with_path(path);
    let mut problem = problem.with_position(r.place(path));
    problem.help = available.help();
    r.note(problem);
    default
}

/// Limits by state; a bad entry is ignored with a warning.
fn limits(r: &mut Reader<'_>, path: &'static str) -> BTreeMap<StateName, u32> {
    let mut limits = BTreeMap::new();
    let _: Option<Value> = r.read(path);
    for entry in r.map(path).map_or(&[][..], Map::entries) {
        if entry.value.is_null() {
            continue;
        }
        let state = StateName::from(entry.key.as_str());
        let limit =
            shape::integer(&entry.value).and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0);
        let message = match limit {
            None => format!("must be a positive integer, got {}", shown(&entry.value)),
            Some(_) if state.is_blank() => "must have the name of a state".to_owned(),
            Some(_) if limits.contains_key(&state) => "is the same state once more".to_owned(),
            Some(limit) => {
                limits.insert(state, limit);
                continue;
            }
        };
        let path = format!("{path}.{}", dotted(&[&entry.key]));
        r.ignore(&path, Some(entry.at), message);
    }
    limits
}
