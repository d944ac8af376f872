//! Workflow files for tests, and a world to read them in.
#![expect(clippy::panic, reason = "a test fails by panicking, its helpers too")]

use std::collections::BTreeMap;

use symphony_core::problem::Problem;
use symphony_core::settings::{AgentProfile, StateSet};
use symphony_core::tracker::TrackerProfile;
use symphony_workflow::{Workflow, WorkflowContext};

/// Reads files in `/code/project`, with home `/home/ada` and temporary files in `/tmp`.
pub(crate) struct Files {
    env: BTreeMap<String, String>,
    trackers: Vec<(&'static str, TrackerProfile)>,
    agents: Vec<&'static str>,
}

impl Files {
    /// A world with the trackers `linear` and `memory` and the agent `codex`.
    pub(crate) fn new() -> Self {
        let mut files = Self::bare().agent("codex");
        files.register_memory();
        files.register("linear", &["api_key", "project_slug", "endpoint", "assignee", "team_key"]);
        files
    }

    /// A world in which nothing is registered.
    pub(crate) const fn bare() -> Self {
        Self { env: BTreeMap::new(), trackers: Vec::new(), agents: Vec::new() }
    }

    pub(crate) fn register_memory(&mut self) {
        self.register("memory", &[]);
    }

    fn register(&mut self, kind: &'static str, provider_keys: &[&'static str]) {
        let terminal = ["Closed", "Cancelled", "Canceled", "Duplicate", "Done"];
        let active = StateSet::new(["Todo", "In Progress"]);
        let mut profile = TrackerProfile::new(active, StateSet::new(terminal));
        profile.provider_keys = provider_keys.to_vec();
        self.trackers.push((kind, profile));
    }

    /// With a kind of agent.
    pub(crate) fn agent(mut self, kind: &'static str) -> Self {
        self.agents.push(kind);
        self
    }

    /// With a variable.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn read(&self, text: &str) -> Result<Workflow, Vec<Problem>> {
        let mut cx = WorkflowContext::new(&self.env, "/code/project")
            .state_folder("/state")
            .home("/home/ada");
        for (kind, profile) in &self.trackers {
            cx = cx.tracker(kind, profile);
        }
        for kind in &self.agents {
            let profile =
                if *kind == "codex" { &symphony_codex::PROFILE } else { &AgentProfile::NONE };
            cx = cx.agent(kind, profile);
        }
        Workflow::parse(text, &cx)
    }

    /// A file that must be usable.
    #[track_caller]
    pub(crate) fn parse(&self, text: &str) -> Workflow {
        self.read(text).unwrap_or_else(|found| panic!("{}\n{text}", texts(&found).join("\n")))
    }

    /// The problems of a file that must not be usable, as people read them.
    #[track_caller]
    pub(crate) fn refused(&self, text: &str) -> Vec<String> {
        texts(&problems(self.read(text)))
    }
}

#[track_caller]
pub(crate) fn problems(read: Result<Workflow, Vec<Problem>>) -> Vec<Problem> {
    match read {
        Ok(workflow) => panic!("accepted: {:?}", workflow.settings),
        Err(found) => found,
    }
}

pub(crate) fn texts(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}
