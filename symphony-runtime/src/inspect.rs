//! A look at a workflow file without running anything.

use std::path::Path;
use std::sync::Arc;

use symphony_core::Settings;
use symphony_core::agent::AgentBackend;
use symphony_core::budget::BudgetView;
use symphony_core::env::Env;
use symphony_core::finding::Finding;
use symphony_core::problem::Problem;
use symphony_core::tracker::{CandidateQuery, Poll, Purpose, Tracker};
use symphony_workflow::Workflow;

use crate::loader::{self, ProcessEnv};
use crate::registry::Registry;

/// What a workflow file comes to. Nothing was started, locked or read over a network.
#[derive(Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// The file's text, where it could be read.
    pub text: String,
    /// What makes it unusable, then what is doubtful, each in the order of the file.
    pub problems: Vec<Problem>,
    /// What it says, also where what it names cannot be built: a secret may be missing here.
    pub settings: Option<Arc<Settings>>,
    /// What was made of it, if it can be used.
    pub usable: Option<Usable>,
}

/// A workflow file that can be used, with the adapters it names.
#[derive(Debug)]
#[non_exhaustive]
pub struct Usable {
    /// The file, parsed.
    pub workflow: Workflow,
    /// Its tracker.
    pub tracker: Arc<dyn Tracker>,
    /// Its agent.
    pub agent: Arc<dyn AgentBackend>,
    /// Environment variables that the agent must not see.
    pub hidden_env: Arc<[String]>,
}

impl Usable {
    /// The settings of the file.
    #[must_use]
    pub fn settings(&self) -> &Arc<Settings> {
        &self.workflow.settings
    }

    /// The tracker of the file, with its settings.
    #[must_use]
    pub fn open_tracker(&self) -> OpenTracker {
        OpenTracker { settings: Arc::clone(self.settings()), tracker: Arc::clone(&self.tracker) }
    }

    /// Asks the tracker and the agent whether they would work. The tracker is read and the agent's
    /// command is run: only for a file that is trusted.
    pub async fn examine(&self) -> Vec<Finding> {
        let settings = self.settings();
        let tracker = self.tracker.examine(settings);
        let agent = self.agent.examine(settings, &self.hidden_env);
        let (mut findings, of_agent) = tokio::join!(tracker, agent);
        findings.extend(of_agent);
        findings
    }

    /// What the tracker lets us ask, by asking it once for candidates. `None` where there is no
    /// limit, or it could not be asked.
    pub async fn budget(&self) -> Option<BudgetView> {
        let states = self.settings().tracker.active_states.clone();
        let candidates = Some(CandidateQuery { states, enough: 1 });
        let poll = Poll { purpose: Purpose::Candidates, candidates, ids: Vec::new() };
        self.tracker.poll(&poll).await.budget
    }
}

/// Reads a workflow file and builds what it names, with this process's environment.
#[must_use]
pub fn inspect(path: &Path, registry: &Registry) -> Inspection {
    inspect_with(path, registry, &ProcessEnv)
}

/// Reads what can be read of a workflow file, whatever is wrong with it; `None` where there is no
/// such file.
#[must_use]
pub fn read_leniently(path: &Path, registry: &Registry) -> Option<Settings> {
    let text = loader::read(path).ok()?;
    Some(loader::with_context(path, registry, &ProcessEnv, |cx| {
        symphony_workflow::read_leniently(&text, cx)
    }))
}

/// A tracker that was built from a workflow file, and what that file says of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OpenTracker {
    /// The settings of the file; where it has errors, defaults stand in the place of what is wrong.
    pub settings: Arc<Settings>,
    /// Its tracker.
    pub tracker: Arc<dyn Tracker>,
}

/// Builds the tracker that a workflow file names, whatever is wrong with its other sections; `None`
/// where something is wrong with the tracker's.
#[must_use]
pub fn open_tracker(path: &Path, registry: &Registry) -> Option<OpenTracker> {
    let inspection = inspect(path, registry);
    if let Some(usable) = &inspection.usable {
        return Some(usable.open_tracker());
    }
    let is_of_tracker = |problem: &Problem| {
        let path = problem.path.as_deref().unwrap_or_default();
        path.split('.').next() == Some("tracker") && !problem.kind.is_warning()
    };
    if inspection.problems.iter().any(is_of_tracker) {
        return None;
    }
    let settings = Arc::new(read_leniently(path, registry)?);
    let (_, built) = loader::tracker(&settings, Some(path), registry, &ProcessEnv).ok()?;
    Some(OpenTracker { settings, tracker: built.tracker })
}

fn inspect_with(path: &Path, registry: &Registry, env: &dyn Env) -> Inspection {
    let text = match loader::read(path) {
        Ok(text) => text,
        Err(problem) => {
            let (text, problems) = (String::new(), vec![problem]);
            return Inspection { text, problems, settings: None, usable: None };
        }
    };
    let workflow = match loader::parse(&text, path, registry, env) {
        Ok(workflow) => workflow,
        Err(problems) => return Inspection { text, problems, settings: None, usable: None },
    };
    let warnings = workflow.warnings.clone();
    let settings = Some(Arc::clone(&workflow.settings));
    match loader::build(&workflow, Some(path), registry, env) {
        Ok((built, agent)) => {
            let (tracker, hidden_env) = (built.tracker, built.secret_names.into());
            let usable = Some(Usable { workflow, tracker, agent, hidden_env });
            Inspection { text, problems: warnings, settings, usable }
        }
        Err(mut problems) => {
            problems.extend(warnings);
            Inspection { text, problems, settings, usable: None }
        }
    }
}
