//! From a workflow to everything that is built from it.

use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::fs::OFlags;
use symphony_core::agent::AgentBackend;
use symphony_core::env::Env;
use symphony_core::orchestrator::{Configuration, Generation, Workspaces};
use symphony_core::problem::{Problem, ProblemKind};
use symphony_core::redact::Redactor;
use symphony_core::settings::env_reference;
use symphony_core::tracker::{BuiltTracker, Tracker, TrackerContext, TrackerFactory};
use symphony_core::{Scope, Settings};
use symphony_workflow::prompt::Prompt;
use symphony_workflow::{KeyPlaces, Workflow, WorkflowContext};

use crate::clock::wall_now;
use crate::disk::{Disk, DiskError, Root};
use crate::quiet;
use crate::redacted::Redacted;
use crate::registry::Registry;
use crate::scope_guard::{HeldScope, ScopeGuard};
use crate::state_folder::{former_root, service_folder};

/// A workflow file that is longer was not written by a person.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// One version of the workflow, with the adapters built for it.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) configuration: Configuration,
    pub(crate) prompt: Arc<Prompt>,
    pub(crate) tracker: Arc<dyn Tracker>,
    pub(crate) backend: Arc<dyn AgentBackend>,
    /// Environment variables that hold secrets.
    pub(crate) hidden_env: Arc<[String]>,
    /// What they hold, to be taken out of what is kept.
    pub(crate) secrets: Arc<Redactor>,
    /// The workspace root, with its lock.
    pub(crate) root: Arc<Root>,
    /// What is on disk under it, if it is another one than before.
    pub(crate) workspaces: Option<Workspaces>,
    /// The scope's lock, if the service takes any.
    pub(crate) scope_lock: Option<HeldScope>,
}

impl Loaded {
    pub(crate) fn settings(&self) -> &Arc<Settings> {
        &self.configuration.settings
    }
}

/// Where the workflow comes from.
#[derive(Clone, Debug)]
pub(crate) enum WorkflowSource {
    /// A file, watched.
    File(PathBuf),
    /// Made in code.
    Code { settings: Box<Settings>, prompt: String },
}

/// Why a workflow cannot be used.
#[derive(Debug)]
pub(crate) enum LoadError {
    Problems(Vec<Problem>),
    Root(DiskError),
    /// Another service works on the same issues.
    Scope(String),
}

impl LoadError {
    /// As problems of the file.
    pub(crate) fn into_problems(self) -> Vec<Problem> {
        match self {
            Self::Problems(problems) => problems,
            Self::Root(error) => vec![setting("workspace.root", error.to_string())],
            Self::Scope(message) => vec![setting("tracker", message)],
        }
    }
}

/// Loads workflows.
pub(crate) struct Loader {
    pub(crate) source: WorkflowSource,
    pub(crate) registry: Registry,
    pub(crate) env: Arc<dyn Env + Send + Sync>,
    pub(crate) disk: Arc<Disk>,
    pub(crate) scope_guard: Option<Arc<dyn ScopeGuard>>,
    /// The settings of the first version: some are read at the start only.
    pub(crate) started_with: OnceLock<Arc<Settings>>,
}

impl Loader {
    /// The whole path of the workflow file, if there is one.
    pub(crate) fn workflow(&self) -> Option<Arc<str>> {
        let WorkflowSource::File(path) = &self.source else { return None };
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        Some(whole.display().to_string().into())
    }

    /// What the source says now; for one made in code, nothing that could change.
    pub(crate) fn text(&self) -> Result<String, Problem> {
        match &self.source {
            WorkflowSource::File(path) => read(path),
            WorkflowSource::Code { .. } => Ok(String::new()),
        }
    }

    /// Parses the text, builds what it names and takes the locks of its scope and its root. Every
    /// problem is told at once.
    ///
    /// A tracker whose settings are those of the version `before` is kept, with its open reads and
    /// what it has learned of its limits.
    pub(crate) fn load(
        &self,
        text: &str,
        generation: Generation,
        before: Option<&Loaded>,
    ) -> Result<Loaded, LoadError> {
        let mut parsed = self.parse(text).map_err(LoadError::Problems)?;
        let started_with = self.started_with.get_or_init(|| Arc::clone(&parsed.settings));
        let restarts = restart_warnings(started_with, &parsed.settings);
        parsed.warnings.extend(located(restarts, &parsed.places));
        let settings = parsed.settings;
        let mut problems = Vec::new();
        problems.extend(unknown_zone(&settings));
        let tracker = match before.filter(|before| reads_the_same(before.settings(), &settings)) {
            Some(before) => Some(TrackerParts::from_loaded(before)),
            None => self.tracker(&settings, generation).map_err(|error| problems.push(error)).ok(),
        };
        let backend = backend(&settings, &self.registry, self.env.as_ref())
            .map_err(|error| problems.push(error))
            .ok();
        let (Some(reads), Some(backend), true) = (tracker, backend, problems.is_empty()) else {
            return Err(LoadError::Problems(located(problems, &parsed.places)));
        };
        let scope_lock = self.scope_lock(&reads.scope, &settings, before)?;
        let root = self.root(&settings.workspace.root).map_err(LoadError::Root)?;
        let server_token = settings.server.token.as_deref();
        let server_token = server_token.and_then(env_reference).map(str::to_owned);
        let is_other = before.is_none_or(|before| !Arc::ptr_eq(&before.root, &root));
        let workspaces = is_other.then(|| root.list()).transpose().map_err(LoadError::Root)?;
        let hidden_env = with_server_token(&reads.hidden_env, server_token);
        let secrets = Arc::new(self.secrets(&settings, &hidden_env));
        Ok(Loaded {
            configuration: Configuration {
                settings,
                generation: reads.generation,
                scope: reads.scope,
                min_read_gap: reads.min_read_gap,
                warnings: parsed.warnings.into(),
            },
            prompt: Arc::new(parsed.prompt),
            tracker: reads.tracker,
            backend,
            hidden_env,
            secrets,
            root,
            workspaces,
            scope_lock,
        })
    }

    fn parse(&self, text: &str) -> Result<Parsed, Vec<Problem>> {
        match &self.source {
            WorkflowSource::Code { settings, prompt } => {
                let prompt = Prompt::compile(prompt, 1, settings.prompt.engine)?;
                let settings = Arc::new(settings.as_ref().clone());
                let warnings = prompt.warnings().to_vec();
                Ok(Parsed { settings, prompt, warnings, places: KeyPlaces::default() })
            }
            WorkflowSource::File(path) => {
                let workflow = parse(text, path, &self.registry, self.env.as_ref())?;
                let Workflow { settings, prompt, warnings, places, .. } = workflow;
                Ok(Parsed { settings, prompt, warnings, places })
            }
        }
    }

    fn tracker(
        &self,
        settings: &Settings,
        generation: Generation,
    ) -> Result<TrackerParts, Problem> {
        let path = match &self.source {
            WorkflowSource::File(path) => Some(path.as_path()),
            WorkflowSource::Code { .. } => None,
        };
        let (factory, built) = tracker(settings, path, &self.registry, self.env.as_ref())?;
        Ok(TrackerParts {
            tracker: built.tracker,
            generation,
            scope: built.scope,
            min_read_gap: factory.profile().min_read_gap,
            hidden_env: built.secret_names.into(),
        })
    }

    /// Everything secret that a run could come by.
    fn secrets(&self, settings: &Settings, names: &[String]) -> Redactor {
        let kind = self.registry.tracker(&settings.tracker.kind);
        let keys = kind.map_or(&[][..], |factory| &factory.profile().secret_keys);
        let provider = &settings.tracker.provider;
        let token = settings.server.token.clone().filter(|text| env_reference(text).is_none());
        Redactor::of_tracker(provider, keys, names, self.env.as_ref()).with_values(token)
    }

    /// The lock of the scope: that of the version before, as long as it means the same issues.
    fn scope_lock(
        &self,
        scope: &Scope,
        settings: &Settings,
        before: Option<&Loaded>,
    ) -> Result<Option<HeldScope>, LoadError> {
        let Some(guard) = &self.scope_guard else { return Ok(None) };
        let is_held = |before: &&Loaded| {
            before.configuration.scope == *scope
                && before.settings().tracker.active_states == settings.tracker.active_states
        };
        match before.filter(is_held) {
            Some(before) => Ok(before.scope_lock.clone()),
            None => guard.take(scope, settings).map(Some).map_err(LoadError::Scope),
        }
    }

    /// A root that is held already, or a new one with its lock.
    fn root(&self, path: &Path) -> Result<Arc<Root>, DiskError> {
        let path = Root::resolve(path)?;
        match self.disk.root_at(&path) {
            Some(root) => Ok(root),
            None => Root::open(path).map(Arc::new),
        }
    }
}

/// A workflow, before anything is built from it.
struct Parsed {
    settings: Arc<Settings>,
    prompt: Prompt,
    warnings: Vec<Problem>,
    places: KeyPlaces,
}

/// A tracker and what is known of it.
struct TrackerParts {
    tracker: Arc<dyn Tracker>,
    generation: Generation,
    scope: Scope,
    min_read_gap: Duration,
    hidden_env: Arc<[String]>,
}

impl TrackerParts {
    fn from_loaded(loaded: &Loaded) -> Self {
        let configuration = &loaded.configuration;
        Self {
            tracker: Arc::clone(&loaded.tracker),
            generation: configuration.generation,
            scope: configuration.scope.clone(),
            min_read_gap: configuration.min_read_gap,
            hidden_env: Arc::clone(&loaded.hidden_env),
        }
    }
}

/// The server's token allows to stop other agents' runs: no agent has it.
fn with_server_token(hidden: &Arc<[String]>, token: Option<String>) -> Arc<[String]> {
    match token.filter(|name| !hidden.contains(name)) {
        Some(name) => hidden.iter().cloned().chain([name]).collect(),
        None => Arc::clone(hidden),
    }
}

/// What was changed since the start and is read then only.
fn restart_warnings(old: &Settings, new: &Settings) -> Vec<Problem> {
    let (server, observability) = (&old.server, &old.observability);
    let keys = [
        ("server.port", server.port != new.server.port),
        ("server.host", server.host != new.server.host),
        ("server.token", server.token != new.server.token),
        ("server.allowed_hosts", server.allowed_hosts != new.server.allowed_hosts),
        ("observability", *observability != new.observability),
        ("storage.path", old.storage != new.storage),
    ];
    let changed = keys.into_iter().filter(|(_, is_changed)| *is_changed);
    let warning = |path| {
        Problem::new(ProblemKind::NeedsRestart, "takes effect after a restart").with_path(path)
    };
    changed.map(|(path, _)| warning(path)).collect()
}

fn reads_the_same(old: &Settings, new: &Settings) -> bool {
    old.tracker == new.tracker && old.polling.budget == new.polling.budget
}

/// The core has no zone database, so a name is looked up here.
fn unknown_zone(settings: &Settings) -> Option<Problem> {
    let hours = settings.polling.quiet_hours.as_ref()?;
    let error = quiet::zone(hours).err()?;
    Some(setting("polling.quiet_hours.timezone", error.to_string()))
}

fn setting(path: &str, message: String) -> Problem {
    Problem::new(ProblemKind::InvalidSetting, message).with_path(path)
}

/// What a factory refuses. It may name one of its keys first: then that is the place.
fn refused_provider(message: String) -> Problem {
    match message.split_once(": ") {
        Some((path, rest)) if path.starts_with("tracker.provider.") && !path.contains(' ') => {
            setting(path, rest.to_owned())
        }
        _ => setting("tracker.provider", message),
    }
}

fn unknown<'a>(what: &str, kind: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    format!("no {what} of kind {kind:?} is registered, only: {}", known.join(", "))
}

fn folder_of(path: &Path) -> PathBuf {
    std::path::absolute(path)
        .ok()
        .and_then(|path| path.parent().map(Path::to_owned))
        .unwrap_or_else(|| PathBuf::from("/"))
}

/// The environment of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessEnv;

impl Env for ProcessEnv {
    fn var(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

/// Builds the tracker that the settings name.
pub(crate) fn tracker<'a>(
    settings: &Settings,
    path: Option<&Path>,
    registry: &'a Registry,
    env: &dyn Env,
) -> Result<(&'a Arc<dyn TrackerFactory>, BuiltTracker), Problem> {
    let kind = &settings.tracker.kind;
    let Some(factory) = registry.tracker(kind) else {
        let known = registry.trackers().map(|factory| factory.kind());
        let message = unknown("tracker", kind, known);
        let problem = Problem::new(ProblemKind::UnsupportedTrackerKind, message);
        return Err(problem.with_path("tracker.kind"));
    };
    let folder = path.map(folder_of);
    let mut context = TrackerContext::new(&settings.tracker, &settings.polling.budget, env);
    context.folder = folder.as_deref();
    let (provider, keys) = (&settings.tracker.provider, &factory.profile().secret_keys);
    let mut built = factory.build(&context).map_err(|error| {
        let message = error.to_failure(wall_now()).message;
        let redactor = Redactor::of_tracker(provider, keys, &[], env);
        refused_provider(redactor.clean(&message).into_owned())
    })?;
    // Whatever is built, and for whatever: its words pass the redactor first.
    let redactor = Redactor::of_tracker(provider, keys, &built.secret_names, env);
    let tracker = Redacted::new(built.tracker, redactor);
    built.tracker = Arc::new(tracker);
    Ok((factory, built))
}

fn backend(
    settings: &Settings,
    registry: &Registry,
    env: &dyn Env,
) -> Result<Arc<dyn AgentBackend>, Problem> {
    let kind = &settings.agent.kind;
    let Some(factory) = registry.agent(kind) else {
        let known = registry.agents().map(|factory| factory.kind());
        return Err(setting("agent.kind", unknown("agent", kind, known)));
    };
    let built = factory.build(settings, env);
    built.map_err(|error| setting("agent", error.to_failure(wall_now()).message))
}

/// Gives problems of settings their places in the file.
fn located(problems: Vec<Problem>, places: &KeyPlaces) -> Vec<Problem> {
    problems.into_iter().map(|problem| places.locate(problem)).collect()
}

/// Builds the adapters that a file names, or says all that is wrong with them.
pub(crate) fn build(
    workflow: &Workflow,
    path: Option<&Path>,
    registry: &Registry,
    env: &dyn Env,
) -> Result<(BuiltTracker, Arc<dyn AgentBackend>), Vec<Problem>> {
    let settings = &workflow.settings;
    let mut problems: Vec<Problem> = unknown_zone(settings).into_iter().collect();
    let tracker = tracker(settings, path, registry, env).map_err(|error| problems.push(error));
    let agent = backend(settings, registry, env).map_err(|error| problems.push(error));
    match (tracker, agent) {
        (Ok((_, built)), Ok(agent)) if problems.is_empty() => Ok((built, agent)),
        _ => Err(located(problems, &workflow.places)),
    }
}

/// Parses a workflow file with what is registered.
pub(crate) fn parse(
    text: &str,
    path: &Path,
    registry: &Registry,
    env: &dyn Env,
) -> Result<Workflow, Vec<Problem>> {
    with_context(path, registry, env, |context| Workflow::parse(text, context))
}

/// Hands out what a workflow file is read with.
pub(crate) fn with_context<T>(
    path: &Path,
    registry: &Registry,
    env: &dyn Env,
    read: impl FnOnce(&WorkflowContext<'_>) -> T,
) -> T {
    let mut context = WorkflowContext::new(env, folder_of(path));
    context.state_folder = service_folder(path, env);
    context.former_root = former_root();
    if let Some(home) = env.var("HOME") {
        context = context.home(home);
    }
    for factory in registry.trackers() {
        context = context.factory(factory.as_ref());
    }
    for factory in registry.agents() {
        context = context.agent(factory.kind(), factory.profile());
    }
    read(&context)
}

/// Reads the file. Whatever stands in its place, this does not hang.
pub(crate) fn read(path: &Path) -> Result<String, Problem> {
    let missing = |why: String| {
        let message = format!("cannot read {}: {why}", path.display());
        Problem::new(ProblemKind::MissingWorkflowFile, message)
            .with_help("give the path of a workflow file, or make one with `symphony init`")
    };
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = file.map_err(|error| missing(error.to_string()))?;
    let metadata = file.metadata().map_err(|error| missing(error.to_string()))?;
    if !metadata.is_file() {
        return Err(missing("it is not a file".to_owned()));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| missing(error.to_string()))?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MAX_FILE_BYTES {
        let message = format!("the file is longer than {MAX_FILE_BYTES} bytes");
        return Err(Problem::new(ProblemKind::WorkflowParseError, message));
    }
    String::from_utf8(bytes).map_err(|_| {
        Problem::new(ProblemKind::WorkflowParseError, "the file is not UTF-8 text")
            .with_help("save it as UTF-8")
    })
}
