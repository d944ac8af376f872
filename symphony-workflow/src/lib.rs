//! Symphony's policy file: a WORKFLOW.md as typed settings and a prompt, or everything that is wrong
//! with it (contract sections 2, 3 and 15). Pure: variables and folders come in as arguments.

mod front_matter;
mod lenient;
pub mod prompt;
mod repeats;
mod settings;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use symphony_core::Settings;
use symphony_core::env::Env;
use symphony_core::problem::{Position, Problem, ProblemKind};
use symphony_core::settings::AgentProfile;
use symphony_core::tracker::{TrackerFactory, TrackerProfile};

use crate::prompt::Prompt;

pub use front_matter::KeyPlaces;
pub use lenient::read_leniently;
pub use settings::json_schema;

/// A workflow file that can be used.
///
/// ```
/// use std::collections::BTreeMap;
/// use symphony_core::settings::AgentProfile;
/// use symphony_core::tracker::TrackerProfile;
/// use symphony_workflow::{Workflow, WorkflowContext};
///
/// let env = BTreeMap::new();
/// let profile = TrackerProfile::default();
/// let cx = WorkflowContext::new(&env, "/code/project")
///     .state_folder("/state")
///     .tracker("memory", &profile)
///     .agent("codex", &AgentProfile::NONE);
///
/// let text = "---\ntracker:\n  kind: memory\nagent:\n  max_turns: 3\n---\nFix {{ issue.title }}.\n";
/// let workflow = Workflow::parse(text, &cx).unwrap();
/// assert_eq!(workflow.settings.agent.max_turns, 3);
///
/// let problems = Workflow::parse(&text.replace('3', "0"), &cx).unwrap_err();
/// assert_eq!(
///     problems[0].to_string(),
///     "line 5: agent.max_turns: must be a positive integer, got 0"
/// );
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Workflow {
    /// What the front matter decides.
    pub settings: Arc<Settings>,
    /// What an agent is told.
    pub prompt: Prompt,
    /// The prompt's text, trimmed.
    pub body: String,
    /// The line of the file at which the prompt's text begins.
    pub body_line: u32,
    /// What is doubtful in settings and prompt, in the order of the file.
    pub warnings: Vec<Problem>,
    /// Where the keys of the front matter stand.
    pub places: KeyPlaces,
}

impl Workflow {
    /// Reads a whole file.
    ///
    /// # Errors
    /// Every problem of the file, first those that make it unusable, then the warnings, each in
    /// the order of the file.
    pub fn parse(text: &str, cx: &WorkflowContext<'_>) -> Result<Self, Vec<Problem>> {
        let parts = front_matter::split(text);
        let mut places = KeyPlaces::default();
        let (settings, mut problems) = match parts.yaml.map(front_matter::parse).transpose() {
            Ok(front_matter) => {
                let (map, duplicates) = front_matter.unwrap_or_default();
                places = KeyPlaces::new(&map);
                let (settings, found) = settings::read(&map, &duplicates, cx);
                (Some(settings), found)
            }
            Err(unreadable) => (None, vec![unreadable]),
        };
        report_fences(text, &parts, &mut problems);
        let engine = settings.as_ref().and_then(|settings| settings.prompt.engine);
        let prompt = Prompt::compile(parts.body, parts.body_line, engine)
            .inspect(|prompt| problems.extend_from_slice(prompt.warnings()))
            .map_err(|found| problems.extend(found));

        problems.sort_by_key(|problem| (problem.kind.is_warning(), problem.at));
        let usable = problems.iter().all(|problem| problem.kind.is_warning());
        match (settings, prompt) {
            (Some(settings), Ok(prompt)) if usable => Ok(Self {
                settings: Arc::new(settings),
                prompt,
                body: parts.body.to_owned(),
                body_line: parts.body_line,
                warnings: problems,
                places,
            }),
            _ => Err(problems),
        }
    }
}

/// Says of settings that are missing and of a prompt that is, where a line `---` is.
fn report_fences(text: &str, parts: &front_matter::Parts<'_>, problems: &mut Vec<Problem>) {
    let is_missing = |problem: &&mut Problem| problem.kind == ProblemKind::UnsupportedTrackerKind;
    if parts.yaml.is_none()
        && let Some(problem) = problems.iter_mut().find(is_missing)
    {
        problem.help = Some(front_matter::opening_help(text));
    }
    if !parts.is_closed {
        let message = "the front matter is never closed by a line `---`, so there is no prompt";
        let at = Position { line: 1, column: 1 };
        let problem = Problem::new(ProblemKind::TemplateWarning, message);
        problems.push(problem.with_position(Some(at)));
    }
}

/// What a file is read with: everything that is not in the file.
#[derive(Clone)]
#[non_exhaustive]
pub struct WorkflowContext<'a> {
    /// The service's environment.
    pub env: &'a dyn Env,
    /// What `~` stands for.
    pub home: Option<PathBuf>,
    /// The service's own folder, below which its workspaces are where the file names no root.
    pub state_folder: Option<PathBuf>,
    /// A root with workspaces that older versions made where the file named none: it stays in use.
    pub former_root: Option<PathBuf>,
    /// The folder of the file, absolute: relative paths lead from here.
    pub folder: PathBuf,
    /// The registered kinds of tracker.
    pub trackers: BTreeMap<&'a str, &'a TrackerProfile>,
    /// The registered kinds of agent.
    pub agents: BTreeMap<&'a str, &'a AgentProfile>,
}

impl<'a> WorkflowContext<'a> {
    /// A context without a home folder and a folder of the service's own, in which nothing is
    /// registered.
    #[must_use]
    pub fn new(env: &'a dyn Env, folder: impl Into<PathBuf>) -> Self {
        Self {
            env,
            home: None,
            state_folder: None,
            former_root: None,
            folder: folder.into(),
            trackers: BTreeMap::new(),
            agents: BTreeMap::new(),
        }
    }

    /// With a home folder.
    #[must_use]
    pub fn home(mut self, home: impl Into<PathBuf>) -> Self {
        self.home = Some(home.into());
        self
    }

    /// With a folder of the service's own.
    #[must_use]
    pub fn state_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.state_folder = Some(folder.into());
        self
    }

    /// With a kind of tracker.
    #[must_use]
    pub fn tracker(mut self, kind: &'a str, profile: &'a TrackerProfile) -> Self {
        self.trackers.insert(kind, profile);
        self
    }

    /// With the kind of tracker that a factory builds.
    #[must_use]
    pub fn factory(self, factory: &'a dyn TrackerFactory) -> Self {
        self.tracker(factory.kind(), factory.profile())
    }

    /// With a kind of agent.
    #[must_use]
    pub fn agent(mut self, kind: &'a str, profile: &'a AgentProfile) -> Self {
        self.agents.insert(kind, profile);
        self
    }
}

impl fmt::Debug for WorkflowContext<'_> {
    /// Without the environment.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkflowContext")
            .field("home", &self.home)
            .field("state_folder", &self.state_folder)
            .field("former_root", &self.former_root)
            .field("folder", &self.folder)
            .field("trackers", &self.trackers.keys())
            .field("agents", &self.agents.keys())
            .finish_non_exhaustive()
    }
}
