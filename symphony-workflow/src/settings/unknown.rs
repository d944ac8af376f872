//! Keys that nothing reads: ignored and listed with what was probably meant, or refused where they
//! are a slip of a known key (contract 2.3).

use super::elsewhere::{self, Counterpart};
use super::keys::{self, KeyTable};
use super::read::Reader;
use super::shape;
use crate::front_matter::{Duplicate, Entry, Map, Node, dotted};
use crate::repeats;
use symphony_core::problem::{Problem, ProblemKind};
use symphony_core::settings::SettingShape;
use symphony_core::tracker::TrackerProfile;

/// The section that the tracker's adapter reads.
const PROVIDER: &str = "tracker.provider";
/// How many unknown keys are listed one by one, and how many slips.
const MAX_LISTED: usize = 100;
/// The longest key that is compared with known ones.
const MAX_COMPARED_CHARS: usize = 64;
/// How alike two keys must be, from 0 to 1, for one to be suggested in the place of the other.
const MIN_SIMILARITY: f64 = 0.7;
/// The same for each word of two keys.
const MIN_WORD_SIMILARITY: f64 = 0.6;
/// How the keys of times end.
const MILLIS: &str = "_ms";
/// How others' keys of times end.
const OTHER_UNITS: [&str; 10] =
    ["s", "sec", "secs", "seconds", "m", "min", "mins", "minutes", "h", "hours"];
/// What there is instead of workers.
const NO_WORKERS: &str =
    "agents run on this machine: `agent.max_concurrent_agents` says how many at once";
/// How many letters a slip may be off the key that was meant.
const MAX_SLIP_EDITS: usize = 2;
/// How many letters a key must have for another one to be a slip of it: two letters off a shorter
/// one there are too many other words.
const MIN_SLIP_LETTERS: usize = 6;

/// Refuses each slip of a known key, and warns of every other unknown key.
pub(super) fn report(r: &mut Reader<'_>, profile: Option<&TrackerProfile>) {
    let known = KnownKeys::new(r, profile);
    let mut found = Unknown { known: &known, slips: Vec::new(), warnings: Vec::new(), more: 0 };
    found.section(r.root(), "");
    if !known.provider.is_empty()
        && let Some(map) = r.map(PROVIDER)
    {
        found.section(map, PROVIDER);
    }
    let (listed, more) = ([found.slips, found.warnings].concat(), found.more);
    repeats::folded(listed).into_iter().for_each(|problem| r.note(problem));
    if more > 0 {
        let message = format!("{more} more keys are unknown and ignored");
        r.note(Problem::new(ProblemKind::UnknownKey, message));
    }
}

/// Reports keys that are set twice: a problem, or within a section that nothing reads a warning.
pub(super) fn report_duplicates(r: &mut Reader<'_>, duplicates: &[Duplicate]) {
    let known = KnownKeys::new(r, None);
    for Duplicate { path, at, message } in duplicates {
        let kind = match known.is_within_unread(path) {
            true => ProblemKind::UnknownKey,
            false => ProblemKind::WorkflowParseError,
        };
        let problem = Problem::new(kind, message.as_str());
        r.note(problem.with_path(dotted(path)).with_position(Some(*at)));
    }
}

/// The keys that are read: those of the table, and those that the tracker's adapter names.
struct KnownKeys<'a> {
    table: KeyTable<'a>,
    provider: &'a [&'static str],
}

impl<'a> KnownKeys<'a> {
    fn new(r: &Reader<'a>, profile: Option<&'a TrackerProfile>) -> Self {
        let provider = profile.map_or(&[][..], |profile| &profile.provider_keys);
        Self { table: r.table().clone(), provider }
    }

    /// Whether a key of a section is read. An adapter's key may stand directly under `tracker`
    /// (contract 2.5).
    fn is_read(&self, section: &str, entry: &Entry) -> bool {
        let is_own = matches!(section, PROVIDER | "tracker");
        match self.table.find(&joined(section, &entry.key)) {
            Some(key) if key.shape == SettingShape::NotYet => {
                is_empty(&entry.value) || shape::names_hosts(&entry.value)
            }
            Some(_) => true,
            None => is_own && self.provider.contains(&entry.key.as_str()),
        }
    }

    /// Whether a path leads through a key that is neither read nor a section. Below `tracker` an
    /// adapter may read anything (contract 2.5).
    fn is_within_unread(&self, path: &[String]) -> bool {
        let mut section = String::new();
        for part in path.split_last().map_or(&[][..], |(_, above)| above) {
            let here = joined(&section, part);
            if self.table.find(&here).is_some() || section == "tracker" {
                return false;
            }
            if !self.table.is_section(&here) {
                return true;
            }
            section = here;
        }
        false
    }

    /// The keys and sections that a section may hold.
    fn siblings(&self, section: &str) -> impl Iterator<Item = &'static str> {
        let own = matches!(section, PROVIDER | "tracker").then_some(self.provider);
        let listed = self.table.members(section).map(keys::leaf);
        listed.chain(own.unwrap_or_default().iter().copied())
    }

    /// The known key of this section that a key is a slip of.
    fn slip_of(&self, section: &str, key: &str) -> Option<&'static str> {
        let spelt = snake_case(key);
        let length = spelt.chars().count();
        if length > MAX_COMPARED_CHARS || elsewhere::counterpart(&joined(section, &spelt)).is_some()
        {
            return None;
        }
        let is_long = |leaf: &&str| {
            letters(leaf) >= MIN_SLIP_LETTERS
                && leaf.chars().count().abs_diff(length) <= MAX_SLIP_EDITS
        };
        self.siblings(section)
            .filter(is_long)
            .filter(|leaf| !elsewhere::has_another_word(&spelt, leaf))
            .map(|leaf| (strsim::damerau_levenshtein(&spelt, leaf), leaf))
            .filter(|(edits, _)| (1..=MAX_SLIP_EDITS).contains(edits))
            .min_by_key(|(edits, _)| *edits)
            .map(|(_, leaf)| leaf)
            // The same key in other letters is no slip.
            .filter(|_| self.siblings(section).all(|leaf| leaf != spelt))
    }

    /// What to do about an unknown key: the same key in other letters, what is called so elsewhere,
    /// the same key of another section, or one much like it.
    fn help(&self, section: &str, key: &str) -> Option<String> {
        let spelt = snake_case(key);
        let path = joined(section, &spelt);
        if self.table.find(&path).is_some_and(|known| known.shape == SettingShape::NotYet) {
            return Some(NO_WORKERS.to_owned());
        }
        if let Some(leaf) = self.siblings(section).find(|leaf| *leaf == spelt) {
            return Some(elsewhere::did_you_mean(&joined(section, leaf)));
        }
        if let Some(counterpart) = elsewhere::counterpart(&path).filter(|it| self.has(*it)) {
            return Some(counterpart.help());
        }
        if let Some(path) = self.in_another_section(&spelt) {
            return Some(elsewhere::did_you_mean(path));
        }
        let in_millis = self.siblings(section).find(|leaf| is_in_millis(&spelt, leaf));
        let near = in_millis.or_else(|| most_similar(&spelt, self.siblings(section)))?;
        Some(meant_by(&spelt, &joined(section, near)))
    }

    /// Whether the tracker's adapter has a key of its own that is suggested.
    fn has(&self, counterpart: Counterpart) -> bool {
        match counterpart {
            Counterpart::Key(path) if keys::parent(path) == PROVIDER => {
                self.provider.contains(&keys::leaf(path))
            }
            Counterpart::Key(_) | Counterpart::Absent(_) => true,
        }
    }

    /// The key of this name in another section. Short names, such as `kind`, say too little.
    fn in_another_section(&self, spelt: &str) -> Option<&'static str> {
        if letters(spelt) < MIN_SLIP_LETTERS {
            return None;
        }
        let has_leaf = |path: &&str| keys::leaf(path) == spelt;
        let paths: Vec<&str> = self.table.keys().map(|row| row.path).filter(has_leaf).collect();
        // What every agent has is also in the agents' own sections.
        let of_all = paths.iter().find(|path| keys::parent(path) == "agent");
        of_all.or(paths.first().filter(|_| paths.len() == 1)).copied()
    }
}

struct Unknown<'a> {
    known: &'a KnownKeys<'a>,
    slips: Vec<Problem>,
    warnings: Vec<Problem>,
    more: usize,
}

impl Unknown<'_> {
    fn section(&mut self, map: &Map, section: &str) {
        for entry in map.entries() {
            let path = joined(section, &entry.key);
            if self.known.table.is_section(&path) {
                if let Node::Map(map) = &entry.value {
                    self.section(map, &path);
                }
            } else if !self.known.is_read(section, entry) {
                self.add(section, entry);
            }
        }
    }

    fn add(&mut self, section: &str, entry: &Entry) {
        // Where a space after the colon was forgotten, the key holds its value too.
        let (key, has_more) = match entry.key.split_once([':', '=']) {
            Some((key, _)) => (key, true),
            None => (entry.key.as_str(), false),
        };
        let problem = |kind, message: String| {
            let path = joined(section, &dotted(&[key]));
            Problem::new(kind, message).with_path(path).with_position(Some(entry.at))
        };
        if let Some(meant) = self.known.slip_of(section, key) {
            if self.slips.len() < MAX_LISTED {
                let message = "is not a key, and one or two letters off one".to_owned();
                let help = meant_by(&snake_case(key), &joined(section, meant));
                self.slips.push(problem(ProblemKind::MisspeltKey, message).with_help(help));
            }
        } else if self.warnings.len() < MAX_LISTED {
            let mut warning = problem(ProblemKind::UnknownKey, "is unknown and ignored".to_owned());
            warning.help = match has_more {
                true => Some("put a space after the colon".to_owned()),
                false if key.chars().count() > MAX_COMPARED_CHARS => None,
                false => self.known.help(section, key),
            };
            self.warnings.push(warning);
        } else {
            self.more += 1;
        }
    }
}

/// Whether a section says nothing.
fn is_empty(node: &Node) -> bool {
    match node {
        Node::Map(map) => map.entries().iter().all(|entry| entry.value.is_null()),
        node => node.is_null(),
    }
}

fn letters(key: &str) -> usize {
    key.chars().filter(|char| char.is_alphabetic()).count()
}

fn joined(section: &str, key: &str) -> String {
    if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") }
}

/// What to write instead of a key. A time in other units is not to be copied as it is.
fn meant_by(spelt: &str, path: &str) -> String {
    match path.ends_with(MILLIS) && !spelt.ends_with(MILLIS) {
        true => format!("did you mean `{path}`, in milliseconds?"),
        false => elsewhere::did_you_mean(path),
    }
}

/// Whether a key says in another unit what ours says in milliseconds, such as `interval_seconds`.
fn is_in_millis(spelt: &str, leaf: &str) -> bool {
    let unit = spelt.rsplit_once('_').filter(|(_, unit)| OTHER_UNITS.contains(unit));
    let quantity = unit.map_or(spelt, |(quantity, _)| quantity);
    leaf.strip_suffix(MILLIS) == Some(quantity)
}

/// Whether two keys differ in words that are alike, or one of them in words that it lacks: what
/// most of `hook_timeout_ms` and `turn_timeout_ms` have in common says nothing.
fn has_similar_words(spelt: &str, leaf: &str) -> bool {
    let (spelt, leaf): (Vec<&str>, Vec<&str>) =
        (spelt.split('_').collect(), leaf.split('_').collect());
    if spelt.len() != leaf.len() {
        let (short, long) = if spelt.len() < leaf.len() { (spelt, leaf) } else { (leaf, spelt) };
        return short.iter().all(|word| long.contains(word));
    }
    let is_similar = |(a, b): (&&str, &&str)| {
        strsim::normalized_damerau_levenshtein(a, b) >= MIN_WORD_SIMILARITY
    };
    spelt.iter().zip(&leaf).all(is_similar)
}

fn most_similar(spelt: &str, known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    known
        .filter(|leaf| has_similar_words(spelt, leaf))
        .filter(|leaf| !elsewhere::has_another_word(spelt, leaf))
        .map(|leaf| (strsim::normalized_damerau_levenshtein(spelt, leaf), leaf))
        .filter(|(likeness, _)| *likeness >= MIN_SIMILARITY)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, leaf)| leaf)
}

/// `maxTurns`, `max-turns` and `MAX_TURNS` as `max_turns`.
fn snake_case(key: &str) -> String {
    let mut out = String::new();
    let mut is_word = false;
    let mut chars = key.trim().chars().peekable();
    while let Some(char) = chars.next() {
        let begins = is_word || chars.peek().is_some_and(|next| next.is_lowercase());
        if char.is_uppercase() && begins && !out.is_empty() && !out.ends_with('_') {
            out.push('_');
        }
        is_word = char.is_lowercase() || char.is_numeric();
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

    fn known() -> KnownKeys<'static> {
        KnownKeys { table: KeyTable::default(), provider: &[] }
    }

    #[test]
    fn what_was_meant_is_found_by_spelling_by_section_and_by_likeness() {
        let known = known();
        let meant = |section, key| known.help(section, key).unwrap_or_default();
        assert_eq!(meant("agent", "maxTurns"), "did you mean `agent.max_turns`?");
        assert_eq!(meant("agent", "Max-Turns"), "did you mean `agent.max_turns`?");
        assert_eq!(meant("agent", "MAX_TURNS"), "did you mean `agent.max_turns`?");
        let millis = |path| format!("did you mean `{path}`, in milliseconds?");
        for (section, key, path) in [
            ("agent", "stall_timeout", "agent.stall_timeout_ms"),
            ("agent", "stallTimeoutSeconds", "agent.stall_timeout_ms"),
            ("polling", "interval", "polling.interval_ms"),
            ("polling", "interval_minutes", "polling.interval_ms"),
        ] {
            assert_eq!(meant(section, key), millis(path));
        }
        for key in ["max_tries", "install_timeout_ms", "min_turns", "hook_timeout"] {
            assert_eq!(meant("agent", key), "", "{key}");
        }
        assert_eq!(
            meant("workspace", "stall_timeout_ms"),
            "did you mean `agent.stall_timeout_ms`?"
        );
        assert_eq!(meant("workspace", "timeout_ms"), "");
        assert_eq!(meant("workspace", "kind"), "");
        assert_eq!(meant("agent", "env"), "");
        assert_eq!(meant("", "hoks"), "did you mean `hooks`?");
        assert_eq!(meant("agent", "colour"), "");
    }

    #[test]
    fn a_slip_is_one_or_two_letters_off_a_key_of_six() {
        let known = known();
        let slip = |section, key| known.slip_of(section, key).unwrap_or_default();
        assert_eq!(slip("agent", "max_turn"), "max_turns");
        assert_eq!(slip("agent", "mxa_turs"), "max_turns");
        assert_eq!(slip("agent", "maxConcurentAgents"), "max_concurrent_agents");
        assert_eq!(slip("", "pooling"), "polling");
        assert_eq!(slip("polling", "budgets"), "budget");
        for (section, key) in [
            ("agent", "maxTurns"),
            ("agent", "MAX_TURNS"),
            ("agent", "max_trees"),
            ("agent", "min_turns"),
            ("agent", "min_retry_backoff_ms"),
            ("agent", "run_timeout_ms"),
            ("agent", "start_timeout_ms"),
            ("agent", "comment"),
            ("hooks", "before_turn"),
            ("", "docker"),
            ("", "workers"),
            ("agent", "stall_timeout"),
            ("agent", "knd"),
            ("hooks", "max_turn"),
            ("", "agents"),
            ("", "prompts"),
            ("tracker", "inactive_states"),
        ] {
            assert_eq!(slip(section, key), "", "{section}.{key}");
        }
    }
}
