//! Keys that nothing reads: kept, ignored, and listed with what was probably meant (contract 2.3).

use super::keys::{self, KeyTable};
use super::read::Reader;
use crate::front_matter::{Entry, Map, Node, dotted};
use symphony_core::problem::{Problem, ProblemKind};
use symphony_core::tracker::TrackerProfile;

/// How many unknown keys are listed one by one.
const MAX_LISTED: usize = 100;
/// The longest key that is compared with known ones.
const MAX_COMPARED_BYTES: usize = 64;
/// How alike two keys must be, from 0 to 1, for one to be taken as a slip of the other.
const MIN_SIMILARITY: f64 = 0.7;

/// Warns about each unknown key.
pub(super) fn warn(r: &mut Reader<'_>, profile: Option<&TrackerProfile>) {
    let provider_keys = profile.map_or(&[][..], |profile| &profile.provider_keys);
    let table = r.table().clone();
    let mut found = Unknown { table: &table, provider_keys, warnings: Vec::new(), more: 0 };
    found.section(r.root(), "");
    if !provider_keys.is_empty()
        && let Some(map) = r.map("tracker.provider")
    {
        found.provider(map);
    }
    let more = found.more;
    found.warnings.into_iter().for_each(|warning| r.note(warning));
    if more > 0 {
        let message = format!("{more} more keys are unknown and ignored");
        r.note(Problem::new(ProblemKind::UnknownKey, message));
    }
}

struct Unknown<'a> {
    table: &'a KeyTable<'a>,
    provider_keys: &'a [&'static str],
    warnings: Vec<Problem>,
    more: usize,
}

impl Unknown<'_> {
    fn section(&mut self, map: &Map, section: &str) {
        for entry in map.entries() {
            let path = joined(section, &entry.key);
            if self.table.is_section(&path) {
                if let Node::Map(map) = &entry.value {
                    self.section(map, &path);
                }
            } else if self.table.find(&path).is_none() && !self.is_older_place(section, &entry.key)
            {
                let table = self.table;
                self.add(section, entry, |key| likely_path(table, section, key));
            }
        }
    }

    fn provider(&mut self, map: &Map) {
        for entry in map.entries() {
            if !self.provider_keys.contains(&entry.key.as_str()) {
                let known = self.provider_keys;
                self.add("tracker.provider", entry, |key| {
                    let meant = most_similar(key, known.iter().copied())?;
                    Some(format!("tracker.provider.{meant}"))
                });
            }
        }
    }

    /// An adapter's key directly under `tracker` (contract 2.5).
    fn is_older_place(&self, section: &str, key: &str) -> bool {
        section == "tracker" && self.provider_keys.contains(&key)
    }

    fn add(&mut self, section: &str, entry: &Entry, meant: impl FnOnce(&str) -> Option<String>) {
        if self.warnings.len() >= MAX_LISTED {
            self.more += 1;
            return;
        }
        // Where a space after the colon was forgotten, the key holds its value too.
        let (key, has_more) = match entry.key.split_once([':', '=']) {
            Some((key, _)) => (key, true),
            None => (entry.key.as_str(), false),
        };
        let mut warning = Problem::new(ProblemKind::UnknownKey, "is unknown and ignored")
            .with_path(joined(section, &dotted(&[key])))
            .with_position(Some(entry.at));
        let comparable = key.chars().count() <= MAX_COMPARED_BYTES;
        if has_more {
            warning = warning.with_help("put a space after the colon");
        } else if let Some(meant) = comparable.then(|| meant(key)).flatten() {
            warning = warning.with_help(format!("did you mean `{meant}`?"));
        }
        self.warnings.push(warning);
    }
}

fn joined(section: &str, key: &str) -> String {
    if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") }
}

/// The path that was probably meant: the same key in other letters, the same key of another
/// section, or one much like it.
fn likely_path(table: &KeyTable<'_>, section: &str, key: &str) -> Option<String> {
    let siblings = || table.members(section).map(keys::leaf);
    let here = |leaf: &str| joined(section, leaf);
    let same = snake_case(key);
    if let Some(leaf) = siblings().find(|leaf| *leaf == same) {
        return Some(here(leaf));
    }
    let elsewhere: Vec<&str> =
        table.keys().map(|row| row.path).filter(|path| keys::leaf(path) == same).collect();
    // What every agent has is also in the agents' own sections.
    let of_all = elsewhere.iter().find(|path| keys::parent(path) == "agent");
    if let Some(path) = of_all.or(elsewhere.first().filter(|_| elsewhere.len() == 1)) {
        return Some((*path).to_owned());
    }
    most_similar(key, siblings()).map(here)
}

fn most_similar(key: &str, known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let key = snake_case(key);
    known
        .map(|leaf| (strsim::normalized_damerau_levenshtein(&key, leaf), leaf))
        .filter(|(likeness, _)| *likeness >= MIN_SIMILARITY)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, leaf)| leaf)
}

/// `maxTurns` and `max-turns` as `max_turns`.
fn snake_case(key: &str) -> String {
    let mut out = String::new();
    for char in key.trim().chars() {
        if char.is_uppercase() && !out.is_empty() && !out.ends_with('_') {
            out.push('_');
        }
        match char {
            '-' | ' ' => out.push('_'),
            char => out.extend(char.to_lowercase()),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_meant_is_found_by_spelling_by_section_and_by_likeness() {
        let table = KeyTable::default();
        let meant = |section, key| likely_path(&table, section, key).unwrap_or_default();
        assert_eq!(meant("agent", "maxTurns"), "agent.max_turns");
        assert_eq!(meant("agent", "Max-Turns"), "agent.max_turns");
        assert_eq!(meant("agent", "max_turn"), "agent.max_turns");
        assert_eq!(meant("workspace", "stall_timeout_ms"), "agent.stall_timeout_ms");
        assert_eq!(meant("workspace", "timeout_ms"), "");
        assert_eq!(meant("", "pooling"), "polling");
        assert_eq!(meant("polling", "budgets"), "polling.budget");
        assert_eq!(meant("agent", "colour"), "");
    }
}
