//! Whatever a file holds, reading it ends in a workflow or in problems with a place in the file.
//!
//! `SYMPHONY_FUZZ_SECONDS` says how long (10), `SYMPHONY_FUZZ_SEED` replays one batch.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    clippy::panic,
    reason = "a fuzz test has a clock, reads the corpus and its own variables, and prints counts"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseResult, TestError, TestRng, TestRunner};
use symphony_core::problem::Problem;
use symphony_core::settings::StateSet;
use symphony_core::tracker::TrackerProfile;
use symphony_workflow::{Workflow, WorkflowContext, json_schema};

const CASES: u32 = 64;

#[test]
fn rule_2_2_any_file_is_a_workflow_or_has_problems_within_it() {
    let seconds = variable("SYMPHONY_FUZZ_SECONDS").unwrap_or(10);
    let replay = variable("SYMPHONY_FUZZ_SEED");
    let first = replay.unwrap_or_else(clock_seed);
    let end = Instant::now() + Duration::from_secs(seconds);
    let file = file();
    let mut batches = 0;
    while batches == 0 || (replay.is_none() && Instant::now() < end) {
        batch(&file, first.wrapping_add(batches));
        batches += 1;
    }
    println!("{} files read, seeds from {first}", batches * u64::from(CASES));
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn clock_seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    now.as_secs() << 20
}

fn batch(file: &impl Strategy<Value = String>, seed: u64) {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    if let Err(failure) = TestRunner::new_with_rng(config, rng).run(file, |text| check(&text)) {
        let (why, text) = match failure {
            TestError::Fail(why, text) => (why.to_string(), text),
            TestError::Abort(why) => (why.to_string(), String::new()),
        };
        panic!("SYMPHONY_FUZZ_SEED={seed} replays this: {why}\n{text:?}");
    }
}

fn check(text: &str) -> TestCaseResult {
    let env = BTreeMap::from([("SET".to_owned(), "/srv".to_owned())]);
    let mut profile = TrackerProfile::new(StateSet::new(["Todo"]), StateSet::default());
    profile.provider_keys = vec!["api_key", "project_slug"];
    let cx = WorkflowContext::new(&env, "/code")
        .state_folder("/state")
        .home("/home/ada")
        .tracker("memory", &profile)
        .tracker("linear", &profile)
        .agent("codex", &symphony_codex::PROFILE);
    let problems = match Workflow::parse(text, &cx) {
        Ok(workflow) => {
            prop_assert!(workflow.warnings.iter().all(|problem| problem.kind.is_warning()));
            prop_assert!(workflow.settings.workspace.root.is_absolute());
            prop_assert!(text.contains(&workflow.body));
            workflow.warnings
        }
        Err(problems) => {
            prop_assert!(problems.iter().any(|problem| !problem.kind.is_warning()));
            problems
        }
    };
    problems.iter().try_for_each(|problem| within(problem, text))
}

fn within(problem: &Problem, text: &str) -> TestCaseResult {
    // The template languages quote lines of the prompt.
    let quotes = problem.kind.as_str().starts_with("template");
    prop_assert!(quotes || !problem.to_string().chars().any(char::is_control));
    let Some(at) = problem.at else { return Ok(()) };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let line = text.split('\n').nth((at.line as usize).wrapping_sub(1));
    let width = line.map(|line| line.chars().count());
    let inside = at.column >= 1 && width.is_some_and(|width| at.column as usize <= width + 1);
    prop_assert!(inside, "{problem:?} is outside the file");
    prop_assert!(!problem.to_string().chars().any(|c| c.is_control() && c != '\n'));
    Ok(())
}

/// Noise, YAML made of its parts, settings with odd values, and real files with accidents.
fn file() -> impl Strategy<Value = String> {
    let noise = prop_oneof![
        any::<String>(),
        prop::collection::vec(any::<u8>(), 0..200)
            .prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
    ];
    let fenced = |yaml: BoxedStrategy<String>| {
        (yaml, any::<bool>(), "[ -~\n{}%]{0,40}").prop_map(|(yaml, crlf, body)| {
            let text = format!("---\n{yaml}\n---\n{body}");
            if crlf { text.replace('\n', "\r\n") } else { text }
        })
    };
    prop_oneof![
        1 => noise.clone(),
        1 => fenced(noise.boxed()),
        3 => fenced(soup().boxed()),
        3 => fenced(odd_settings().boxed()),
        4 => accidents(),
    ]
}

/// What YAML is made of, in any order.
fn soup() -> impl Strategy<Value = String> {
    let parts = select(vec![
        "tracker",
        "kind",
        "memory",
        "agent",
        "max_turns",
        "polling",
        "worker",
        "<<",
        "a",
        "b",
        ": ",
        ":",
        "\n",
        "\n  ",
        "\n    ",
        "\n- ",
        "- ",
        "? ",
        "[",
        "]",
        "{",
        "}",
        ", ",
        "&x ",
        "*x",
        "*x ",
        "!t ",
        "!!int ",
        "!!str ",
        "!!binary ",
        "\"",
        "'",
        "|\n",
        ">-\n",
        "#",
        "%",
        "@",
        "`",
        "~",
        "null",
        "true",
        "0",
        "-1",
        "1e9",
        ".nan",
        "0x7f",
        "$SET",
        "${UNSET}",
        "...",
        "---",
        "\t",
        "\r",
        "\u{85}",
        "\u{2028}",
        "\u{feff}",
        "\u{0}",
        "\\",
        "é",
        "🎻",
        " ",
    ]);
    prop::collection::vec(parts, 0..60).prop_map(|parts| parts.concat())
}

/// Known keys with values of every kind.
fn odd_settings() -> impl Strategy<Value = String> {
    let value = prop_oneof![
        select(vec![
            "~",
            "true",
            "0",
            "-1",
            "7",
            "1.5",
            ".inf",
            "99999999999999999999",
            "''",
            "' '"
        ])
        .prop_map(str::to_owned),
        select(vec![
            "$SET",
            "$UNSET",
            "~/x",
            "../x",
            "22:30",
            "[]",
            "{}",
            "[[[]]]",
            "{a: {b: [1]}}"
        ])
        .prop_map(str::to_owned),
        any::<String>().prop_map(|text| serde_json::Value::from(text).to_string()),
        any::<i64>().prop_map(|n| n.to_string()),
        any::<f64>().prop_map(|n| n.to_string()),
    ];
    let entry = (select(paths()), value);
    prop::collection::vec(entry, 0..12).prop_map(|entries| {
        let mut root = Branch::default();
        for (path, value) in &entries {
            root.set(path, value);
        }
        root.flow()
    })
}

/// A map of maps on its way to flow style.
#[derive(Default)]
struct Branch<'a> {
    value: Option<&'a str>,
    below: BTreeMap<&'a str, Branch<'a>>,
}

impl<'a> Branch<'a> {
    fn set(&mut self, path: &'a str, value: &'a str) {
        let mut branch = self;
        for part in path.split('.') {
            branch = branch.below.entry(part).or_default();
        }
        branch.value = Some(value);
    }

    fn flow(&self) -> String {
        match self.value {
            Some(value) => value.to_owned(),
            None => {
                let entries =
                    self.below.iter().map(|(key, below)| format!("{key}: {}", below.flow()));
                format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

fn paths() -> Vec<String> {
    fn collect(schema: &serde_json::Value, path: &str, paths: &mut Vec<String>) {
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}{name}");
            collect(schema, &format!("{path}."), paths);
            paths.push(path);
        }
    }
    let mut paths = Vec::new();
    collect(&json_schema([&symphony_codex::PROFILE]), "", &mut paths);
    paths
}

/// Real files to which something happened.
fn accidents() -> impl Strategy<Value = String> {
    let accident = (any::<Index>(), any::<Index>(), 0..6_u8, soup());
    let accidents = prop::collection::vec(accident, 1..6);
    (select(samples()), accidents).prop_map(|(text, accidents)| {
        let mut chars: Vec<char> = text.chars().collect();
        for (a, b, what, soup) in accidents {
            let mut places = [a.index(chars.len() + 1), b.index(chars.len() + 1)];
            places.sort_unstable();
            let [from, to] = places;
            let near = to.min(from + 40);
            match what {
                0 => drop(chars.drain(from..near)),
                1 => chars.truncate(to.max(10)),
                2 => drop(chars.splice(from..from, soup.chars())),
                3 => chars[from..near].reverse(),
                4 => {
                    let again: Vec<char> = chars[from..near].to_vec();
                    drop(chars.splice(to..to, again));
                }
                _ => chars[from..near].iter_mut().filter(|c| **c == ' ').for_each(|c| *c = '\t'),
            }
        }
        chars.into_iter().collect()
    })
}

/// The corpus, where it is there, and a file of our own.
fn samples() -> Vec<String> {
    let own = "---\ntracker: &t\n  kind: linear\n  api_key: $SET\n  active_states: [Todo, \"In Progress\"]\n\
               polling:\n  interval_ms: 30000\n  quiet_hours: {from: 22:00, to: 06:30}\nworkspace:\n  root: ~/work\n\
               hooks:\n  before_run: |\n    git fetch\n    git rebase\nagent:\n  max_turns: 20\nother:\n  <<: *t\n\
               ---\n\nFix {{ issue.title }}.\n{% if issue.description %}{{ issue.description }}{% endif %}\n";
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let folder = above.map(|folder| folder.join("shared/data/workflows")).find(|it| it.is_dir());
    let files = folder.into_iter().filter_map(|folder| fs::read_dir(folder).ok());
    let files = files.flatten().flatten();
    let corpus = files.filter_map(|file| fs::read_to_string(file.path()).ok());
    corpus.chain([own.to_owned()]).collect()
}
