//! Contract 2.3: keys that nothing reads, and slips of those that are read.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    clippy::panic,
    clippy::unwrap_used,
    reason = "prints its seed and takes another one, and fails in helpers"
)]

use std::hash::{BuildHasher as _, RandomState};

use serde_json::Value;
use symphony_core::problem::{Problem, ProblemKind};
use symphony_workflow::json_schema;

use crate::files::{Files, problems, texts};

/// How many slips are made of known keys, besides one of each sort for every key.
const SLIPS: usize = 200;

/// Keys that other implementations have, one letter off one of ours.
const FOREIGN: [&str; 4] = ["prompts", "trackers", "workers", "tracker.project_slugs"];

/// A file for the memory tracker with one more key, at its path.
fn with_key(path: &str) -> String {
    let (section, key) = path.rsplit_once('.').unwrap_or(("", path));
    let mut yaml = String::new();
    let mut indent = String::new();
    for part in section.split('.').filter(|part| !part.is_empty()) {
        yaml.push_str(&format!("{indent}{part}:\n"));
        indent.push_str("  ");
        if part == "tracker" {
            yaml.push_str("  kind: memory\n");
        }
    }
    if !section.starts_with("tracker") {
        yaml.insert_str(0, "tracker: {kind: memory}\n");
    }
    format!("---\n{yaml}{indent}{key}: 3\n---\nDo it.\n")
}

/// The slip for which a file must be refused.
#[track_caller]
fn slip(path: &str) -> Problem {
    let found = problems(Files::new().read(&with_key(path)));
    let mut slips = found.into_iter().filter(|problem| problem.kind == ProblemKind::MisspeltKey);
    slips.next().unwrap_or_else(|| panic!("{path} is not refused"))
}

/// What is said of a key that must be only a warning.
#[track_caller]
fn help(path: &str) -> Option<String> {
    let warning = Files::new().parse(&with_key(path)).warnings.remove(0);
    assert_eq!(warning.kind, ProblemKind::UnknownKey, "{path}: {warning}");
    assert_eq!(warning.path.as_deref(), Some(path));
    warning.help
}

#[test]
fn rule_2_3_a_slip_of_a_known_key_is_a_problem_of_the_file() {
    for (path, meant) in [
        ("agent.max_concurent_agents", "agent.max_concurrent_agents"),
        ("hooks.after_creat", "hooks.after_create"),
        ("codex.aproval_policy", "codex.approval_policy"),
        ("tracker.required_lables", "tracker.required_labels"),
        ("agent.maxConcurentAgents", "agent.max_concurrent_agents"),
        ("polling.budget.perhour", "polling.budget.per_hour"),
        ("pooling", "polling"),
    ] {
        let found = slip(path);
        assert_eq!(found.path.as_deref(), Some(path));
        assert_eq!(found.message, "is not a key, and one or two letters off one");
        assert_eq!(found.help, Some(format!("did you mean `{meant}`?")));
        assert!(found.at.is_some());
    }
}

#[test]
fn rule_2_3_slips_of_an_adapters_keys_are_problems_at_both_places() {
    for (yaml, at) in [
        ("---\ntracker:\n  kind: linear\n  projct_slug: x\n---\n", "tracker.projct_slug"),
        (
            "---\ntracker:\n  kind: linear\n  provider: {asignee: x}\n---\n",
            "tracker.provider.asignee",
        ),
    ] {
        let found = problems(Files::new().read(yaml)).remove(0);
        assert_eq!((found.kind, found.path.as_deref()), (ProblemKind::MisspeltKey, Some(at)));
    }
}

#[test]
fn rule_2_3_a_slip_is_found_behind_any_number_of_unknown_keys() {
    let keys: String = (0..250).map(|n| format!("k{n}: 1\n")).collect();
    let text = format!("---\ntracker: {{kind: memory}}\n{keys}agent: {{max_turn: 3}}\n---\n");
    assert_eq!(problems(Files::new().read(&text))[0].kind, ProblemKind::MisspeltKey);
}

#[test]
fn rule_2_3_another_spelling_of_a_key_is_a_warning_that_names_it() {
    for path in ["agent.maxConcurrentAgents", "agent.max-concurrent-agents"] {
        let meant = "did you mean `agent.max_concurrent_agents`?".to_owned();
        assert_eq!(help(path), Some(meant), "{path}");
    }
    assert_eq!(help("Agent"), Some("did you mean `agent`?".to_owned()));
    // Another section has it too.
    let meant = "did you mean `codex.stall_timeout_ms`?".to_owned();
    assert_eq!(help("codex.stallTimeoutMs"), Some(meant));
}

#[test]
fn rule_2_3_a_key_of_other_implementations_says_what_it_is_called_here() {
    for (path, meant) in [
        ("agent.backend", "agent.kind"),
        ("agent.provider", "agent.kind"),
        ("runner", "agent.kind"),
        ("workspace.rootDir", "workspace.root"),
        ("agent.max_concurrent", "agent.max_concurrent_agents"),
        ("tracker.labels", "tracker.required_labels"),
        ("tracker.active_statuses", "tracker.active_states"),
    ] {
        assert_eq!(help(path), Some(format!("did you mean `{meant}`?")), "{path}");
    }
    // What an adapter is said to have it has.
    let tracker = |kind| {
        let text = format!("---\ntracker:\n  kind: {kind}\n  token: x\n---\n");
        Files::new().parse(&text).warnings.remove(0).help
    };
    let meant = "did you mean `tracker.provider.api_key`?".to_owned();
    assert_eq!((tracker("linear"), tracker("memory")), (Some(meant), None));
    for (path, meant) in
        [("polling.interval_s", "polling.interval_ms"), ("hooks.timeout_s", "hooks.timeout_ms")]
    {
        // In other units the value would be wrong below our key too.
        assert_eq!(slip(path).help, Some(format!("did you mean `{meant}`, in milliseconds?")));
    }
    for (path, said) in [
        ("hooks.before_turn", "not around each of its turns"),
        ("hooks.after_turn", "not around each of its turns"),
        ("agent.run_timeout_ms", "`agent.max_turns`"),
        ("agent.max_tokens", "not limited"),
        ("agent.max_attempts", "tried again"),
        ("docker", "on this machine"),
        ("worker", "`agent.max_concurrent_agents` says how many"),
        ("states", "`tracker.active_states` and `tracker.terminal_states`"),
        ("provider", "`agent.kind` the agent"),
        ("logging.file", "--logs-root"),
        ("tracker.archive_states", "issues are not archived"),
        ("workspace.hooks", "`hooks` is a section of its own"),
        ("tracker.inactive_states", "neither active nor terminal"),
        ("tracker.archive_state", "issues are not archived"),
        ("agents", "one agent works on all issues"),
        ("trackers", "a file has one tracker"),
        ("prompts", "the text below the front matter"),
    ] {
        assert!(help(path).is_some_and(|help| help.contains(said)), "{path}: {:?}", help(path));
    }
}

#[test]
fn rule_2_3_a_word_of_its_own_is_not_a_slip() {
    for path in [
        "agent.min_turns",
        "agent.min_retry_backoff_ms",
        "codex.start_timeout_ms",
        "agent.install_timeout_ms",
        "agent.comment",
        "hooks.before_move",
        "promote",
        "tooling",
    ] {
        assert_eq!(help(path), None, "{path}");
    }
}

#[test]
fn rule_2_3_an_unknown_key_that_is_set_twice_is_reported_once_with_its_lines() {
    let text = "---\ntracker: {kind: memory}\ncolour: 1\nagent:\n  max_turns: 1\ncolour: 2\n---\n";
    assert_eq!(
        texts(&problems(Files::new().read(text))),
        [
            "line 6: colour: the key is set twice, on lines 3 and 6",
            "line 3: colour: is unknown and ignored (also on line 6)",
        ]
    );
}

#[test]
fn rule_2_3_every_single_letter_slip_of_a_known_key_is_refused() {
    let replayed = std::env::var("SYMPHONY_FUZZ_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = replayed.unwrap_or_else(|| RandomState::new().hash_one(0));
    println!("SYMPHONY_FUZZ_SEED={seed}");
    let mut keys = Vec::new();
    collect(&json_schema([&symphony_codex::PROFILE]), "", &mut keys);
    let mut rng = Rng(seed | 1);
    let each = keys.iter().flat_map(|path| SlipSort::ALL.map(|sort| (path, sort)));
    let mut wanted: Vec<(&String, SlipSort)> = each.collect();
    for _ in 0..SLIPS {
        wanted.push((&keys[rng.below(keys.len())], SlipSort::ALL[rng.below(SlipSort::ALL.len())]));
    }
    for (path, sort) in wanted {
        let slipped = rng.slip(path, sort);
        let found = slip(&slipped);
        let (plain, in_millis) = ("`?", "`, in milliseconds?");
        let meant = [plain, in_millis].map(|end| Some(format!("did you mean `{path}{end}")));
        assert!(meant.contains(&found.help), "SYMPHONY_FUZZ_SEED={seed}: {slipped}: {found:?}");
    }
}

/// The paths of keys and sections whose own name has at least six letters.
fn collect(schema: &Value, path: &str, keys: &mut Vec<String>) {
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        collect(schema, &path, keys);
        if name.chars().filter(|char| char.is_alphabetic()).count() >= 6 {
            keys.push(path);
        }
    }
}

/// A xorshift generator.
struct Rng(u64);

impl Rng {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(end).unwrap()).unwrap()
    }

    fn letter(&mut self) -> char {
        char::from(b'a' + u8::try_from(self.below(26)).unwrap())
    }

    /// The path with one letter of its last part deleted, inserted, swapped with the next, or
    /// replaced.
    fn slip(&mut self, path: &str, sort: SlipSort) -> String {
        let (section, key) = path.rsplit_once('.').unwrap_or(("", path));
        loop {
            let mut chars: Vec<char> = key.chars().collect();
            let at = self.below(chars.len());
            match sort {
                SlipSort::Delete => {
                    chars.remove(at);
                }
                SlipSort::Insert => {
                    let at = self.below(chars.len() + 1);
                    chars.insert(at, self.letter());
                }
                SlipSort::Transpose => chars.swap(at, (at + 1).min(key.len() - 1)),
                SlipSort::Substitute => chars[at] = self.letter(),
            }
            let slipped: String = chars.into_iter().collect();
            let dot = if section.is_empty() { "" } else { "." };
            let path = format!("{section}{dot}{slipped}");
            if slipped != key && !FOREIGN.contains(&path.as_str()) {
                return path;
            }
        }
    }
}

/// What a hand does wrong with one letter.
#[derive(Clone, Copy)]
enum SlipSort {
    Delete,
    Insert,
    Transpose,
    Substitute,
}

impl SlipSort {
    const ALL: [Self; 4] = [Self::Delete, Self::Insert, Self::Transpose, Self::Substitute];
}
