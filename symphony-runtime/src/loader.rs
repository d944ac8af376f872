//! From a workflow file to everything that is built from it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use symphony_core::agent::AgentBackend;
use symphony_core::env::Env;
use symphony_core::orchestrator::{Configuration, Generation, Workspaces};
use symphony_core::problem::{Problem, ProblemKind};
use symphony_core::tracker::{Tracker, TrackerContext};
use symphony_core::workflow::{Workflow, WorkflowContext};

use crate::registry::Registry;

/// One version of the workflow, with the adapters built for it.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) workflow: Arc<Workflow>,
    pub(crate) tracker: Arc<dyn Tracker>,
    pub(crate) backend: Arc<dyn AgentBackend>,
    /// Environment variables that hold secrets.
    pub(crate) hidden_env: Arc<[String]>,
    pub(crate) configuration: Configuration,
    /// What is on disk, if the workspace root is another one than before.
    pub(crate) workspaces: Option<Workspaces>,
}

/// Loads workflow files.
pub(crate) struct Loader {
    pub(crate) path: PathBuf,
    pub(crate) registry: Registry,
    pub(crate) env: Arc<dyn Env + Send + Sync>,
}

impl Loader {
    /// The text of the file.
    pub(crate) fn text(&self) -> Result<String, Problem> {
        std::fs::read(&self.path).map_err(|error| missing(&self.path, &error)).and_then(|bytes| {
            String::from_utf8(bytes).map_err(|_| {
                Problem::new(ProblemKind::WorkflowParseError, "the file is not UTF-8 text")
                    .help("save it as UTF-8")
            })
        })
    }

    /// Parses the text and builds what it names. Every problem is told at once.
    pub(crate) fn load(&self, text: &str, generation: Generation) -> Result<Loaded, Vec<Problem>> {
        let workflow = Arc::new(parse(text, &self.path, &self.registry, self.env.as_ref())?);
        self.build(workflow, generation)
    }

    /// Builds the adapters that a workflow names.
    pub(crate) fn build(
        &self,
        workflow: Arc<Workflow>,
        generation: Generation,
    ) -> Result<Loaded, Vec<Problem>> {
        let settings = Arc::clone(&workflow.settings);
        let mut problems = Vec::new();
        let context =
            TrackerContext::new(&settings.tracker, &settings.polling.budget, self.env.as_ref());
        let factory = self.registry.tracker(&settings.tracker.kind);
        let built = match factory.map(|factory| factory.build(&context)) {
            Some(Ok(built)) => Some(built),
            Some(Err(error)) => {
                let failure = error.to_failure(crate::clock::wall_now());
                problems.push(
                    Problem::new(ProblemKind::InvalidSetting, failure.message)
                        .path("tracker.provider"),
                );
                None
            }
            None => {
                let message = format!("no adapter for {:?} is registered", settings.tracker.kind);
                problems.push(
                    Problem::new(ProblemKind::UnsupportedTrackerKind, message).path("tracker.kind"),
                );
                None
            }
        };
        let agent = self.registry.agent(&settings.agent.kind);
        let backend = match agent.map(|factory| factory.build(&settings, self.env.as_ref())) {
            Some(Ok(backend)) => Some(backend),
            Some(Err(error)) => {
                let failure = error.to_failure(crate::clock::wall_now());
                problems.push(Problem::new(ProblemKind::InvalidSetting, failure.message).path("agent"));
                None
            }
            None => {
                let message = format!("no agent of kind {:?} is registered", settings.agent.kind);
                problems.push(Problem::new(ProblemKind::InvalidSetting, message).path("agent.kind"));
                None
            }
        };
        let (Some(built), Some(backend), Some(factory)) = (built, backend, factory) else {
            return Err(problems);
        };
        Ok(Loaded {
            configuration: Configuration {
                settings,
                generation,
                scope: built.scope,
                min_read_gap: factory.profile().min_read_gap,
            },
            workflow,
            tracker: built.tracker,
            backend,
            hidden_env: built.secret_names.into(),
            workspaces: None,
        })
    }
}

/// Parses a workflow file with what is registered.
pub(crate) fn parse(
    text: &str,
    path: &Path,
    registry: &Registry,
    env: &dyn Env,
) -> Result<Workflow, Vec<Problem>> {
    let folder = std::path::absolute(path)
        .ok()
        .and_then(|path| path.parent().map(Path::to_owned))
        .unwrap_or_else(|| PathBuf::from("/"));
    let mut context = WorkflowContext::new(env, folder, std::env::temp_dir());
    if let Some(home) = env.var("HOME") {
        context = context.home(home);
    }
    for factory in registry.trackers() {
        context = context.factory(factory.as_ref());
    }
    for factory in registry.agents() {
        context = context.agent(factory.kind());
    }
    Workflow::parse(text, &context)
}

fn missing(path: &Path, error: &std::io::Error) -> Problem {
    let message = format!("cannot read {}: {error}", path.display());
    Problem::new(ProblemKind::MissingWorkflowFile, message)
        .help("give the path of a workflow file, or make one with `symphony init`")
}
