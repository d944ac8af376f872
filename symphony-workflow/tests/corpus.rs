//! Real workflow files: wherever the reference accepts the settings, so do we.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    clippy::unwrap_used,
    clippy::panic,
    reason = "the corpus is read from disk, its counts are printed, and it is as expected"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use symphony_core::env::Env;
use symphony_core::problem::{Problem, ProblemKind};
use symphony_core::settings::AgentProfile;
use symphony_core::tracker::TrackerProfile;
use symphony_workflow::{Workflow, WorkflowContext};

/// Agents that the files name. Which are registered is up to the embedder, as with trackers.
const AGENTS: [&str; 7] =
    ["codex", "claude", "claude-code", "claude_code", "dry-run", "mock", "opencode"];

/// One file, and what the reference makes of it.
struct Sample {
    name: String,
    text: String,
    accepted_by_reference: bool,
}

fn corpus() -> Option<Vec<Sample>> {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let folder = above.map(|folder| folder.join("shared/data/workflows")).find(|it| it.is_dir())?;
    let expect = fs::read_to_string(folder.join("EXPECT.tsv")).ok()?;
    Some(expect.lines().skip(1).map(|line| sample(&folder, line)).collect())
}

fn sample(folder: &Path, line: &str) -> Sample {
    let fields: Vec<&str> = line.split('\t').collect();
    let [name, _family, _dialect, accepted, _rendered] = fields[..] else {
        panic!("{line:?} has not five fields")
    };
    Sample {
        name: name.to_owned(),
        text: fs::read_to_string(folder.join(name)).unwrap(),
        accepted_by_reference: accepted == "true",
    }
}

/// An environment in which every variable is set.
struct Everything;

impl Env for Everything {
    fn var(&self, name: &str) -> Option<String> {
        Some(format!("/srv/{name}"))
    }
}

/// What is wrong with the settings, apart from which trackers are registered.
fn settings_problems(text: &str, agents: &[&str]) -> Vec<Problem> {
    let profile = TrackerProfile::default();
    let mut cx =
        WorkflowContext::new(&Everything, "/code").state_folder("/state").home("/home/ada");
    cx = cx.tracker("linear", &profile);
    for agent in agents {
        let profile =
            if *agent == "codex" { &symphony_codex::PROFILE } else { &AgentProfile::NONE };
        cx = cx.agent(agent, profile);
    }
    let elsewhere = [
        ProblemKind::UnsupportedTrackerKind,
        ProblemKind::TemplateParseError,
        ProblemKind::TemplateRenderError,
    ];
    let mut problems = Workflow::parse(text, &cx).err().unwrap_or_default();
    problems.retain(|problem| !problem.kind.is_warning() && !elsewhere.contains(&problem.kind));
    problems
}

/// The refusals that the contract asks for, though the reference accepts the file.
fn allowed(problem: &Problem) -> Option<&'static str> {
    if problem.message.starts_with("the key is set") {
        Some("duplicate key")
    } else if problem.path.as_deref() == Some("worker") {
        Some("worker")
    } else if problem.kind == ProblemKind::AnotherAgent {
        Some("another agent")
    } else if problem.message.starts_with("starts Codex without `app-server`") {
        Some("a Codex that speaks no protocol")
    } else if problem.message.contains("and here more follows it") {
        Some("a path behind a variable")
    } else {
        None
    }
}

#[test]
fn rule_3_settings_that_the_reference_accepts_are_accepted() {
    let Some(samples) = corpus() else {
        println!("NOT RUN: ../shared/data/workflows is not there");
        return;
    };
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut surprises = Vec::new();
    for sample in &samples {
        let problems = settings_problems(&sample.text, &AGENTS);
        let verdict = match (sample.accepted_by_reference, problems.is_empty()) {
            (true, true) => "accepted by both",
            (false, true) => "accepted by us alone",
            (false, false) => "refused by both",
            (true, false) => "accepted by the reference alone",
        };
        *counts.entry(verdict).or_default() += 1;
        for problem in &problems {
            println!("{}: {problem}", sample.name);
            match allowed(problem) {
                Some(reason) if sample.accepted_by_reference => {
                    println!("    refused on purpose: {reason}");
                }
                None if sample.accepted_by_reference => surprises.push(&sample.name),
                _ => {}
            }
        }
    }
    let other_agents = samples
        .iter()
        .filter(|sample| sample.accepted_by_reference)
        .flat_map(|sample| settings_problems(&sample.text, &["codex"]))
        .filter(|problem| problem.path.as_deref() == Some("agent.kind"))
        .count();
    println!("{} files: {counts:?}", samples.len());
    println!("{other_agents} of them need an agent other than codex to be registered");
    assert_eq!(surprises, Vec::<&String>::new());
    let expected = BTreeMap::from([
        ("accepted by both", 116),
        // 28 of them name another agent, and neither agent.kind nor codex (2.10); 3 start `codex exec`.
        ("accepted by the reference alone", 34),
        ("accepted by us alone", 5),
        ("refused by both", 7),
    ]);
    assert_eq!(counts, expected);
}

#[test]
fn rule_2_5_older_files_keep_their_tracker_keys() {
    let Some(samples) = corpus() else {
        println!("NOT RUN: ../shared/data/workflows is not there");
        return;
    };
    let profile = TrackerProfile::default();
    let cx = WorkflowContext::new(&Everything, PathBuf::from("/code"))
        .state_folder("/state")
        .home("/home/ada")
        .tracker("linear", &profile)
        .agent("codex", &symphony_codex::PROFILE);
    let slugs = samples
        .iter()
        .filter_map(|sample| Workflow::parse(&sample.text, &cx).ok())
        .filter(|workflow| workflow.settings.tracker.provider.raw().contains_key("project_slug"))
        .count();
    println!("{slugs} files of kind linear have a project_slug for the adapter");
    assert!(slugs >= 40, "{slugs}");
}

#[test]
fn rule_2_3_no_key_of_the_corpus_is_taken_for_a_slip() {
    let Some(samples) = corpus() else {
        println!("NOT RUN: ../shared/data/workflows is not there");
        return;
    };
    let is_slip = |problem: &Problem| problem.kind == ProblemKind::MisspeltKey;
    let taken: Vec<String> = samples
        .iter()
        .flat_map(|sample| settings_problems(&sample.text, &AGENTS))
        .filter(is_slip)
        .map(|problem| problem.to_string())
        .collect();
    assert_eq!(taken, Vec::<String>::new());
}
