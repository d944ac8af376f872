//! Building and running a service.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use symphony_core::agent::AgentFactory;
use symphony_core::env::Env;
use symphony_core::hooks::WorkspaceHooks;
use symphony_core::orchestrator::{Event, Generation, Notice, Restored, Step};
use symphony_core::problem::Problem;
use symphony_core::run::RunId;
use symphony_core::snapshot::Snapshot;
use symphony_core::tracker::TrackerFactory;
use symphony_core::{Failure, Orchestrator, Settings};
use symphony_host::{Host, LocalHost, SweepError};
use tokio::sync::{Notify, broadcast, mpsc, watch};
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

use crate::changes::{Change, ChangeReply, ChangeSender};
use crate::clock::{Clock, wall_now};
use crate::deliveries::{Deliveries, WebhookReceiver};
use crate::disk::{AnnouncedAddress, Disk, DiskError, ServiceSocket};
use crate::driver::{Driver, DriverMessage, Inbox, JobTask, Publishers, Tools};
use crate::handle::Handle;
use crate::home::{HomeRoot, LeftoverError};
use crate::loader::{
    CodeWorkflow, LoadError, Loaded, Loader, ProcessEnv, WorkflowSource, WorkflowVersion,
};
use crate::prompt_function::{PromptContext, PromptFunction};
use crate::recent::RecentIssues;
use crate::registry::Registry;
use crate::run_hooks::Hooks;
use crate::state::{SavedState, Saver};
use crate::transcript::Transcripts;
use crate::watch::Watch;
use crate::{activity, news, quiet};

/// How many notices a slow subscriber may lag behind.
const NOTICE_CAPACITY: usize = 1024;

/// Why a service could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The workflow cannot be used.
    #[error("the workflow cannot be used:\n{}", problem_lines(.0))]
    Workflow(Vec<Problem>),
    /// The workspace root cannot be used.
    #[error(transparent)]
    Workspaces(#[from] DiskError),
    /// An earlier life of the service left processes that cannot be ended.
    #[error("an earlier life of the service left processes that cannot be ended; end them by hand")]
    Leftovers(#[source] SweepError),
    /// A step of the start panicked, such as an adapter that was being built.
    #[error("a step of the start panicked: {0}")]
    Panic(String),
}

impl From<LeftoverError> for StartError {
    fn from(error: LeftoverError) -> Self {
        match error {
            LeftoverError::Disk(error) => Self::Workspaces(error),
            LeftoverError::Sweep(error) => Self::Leftovers(error),
        }
    }
}

pub(crate) fn problem_lines(problems: &[Problem]) -> String {
    let line = |problem: &Problem| match &problem.help {
        Some(help) => format!("  {problem}; {help}"),
        None => format!("  {problem}"),
    };
    problems.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// How a service ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServiceEnd {
    /// Every run is gone, and its `after_run` has run.
    Drained,
    /// These runs were not gone within the bound of contract 14.2, and were killed.
    Killed(Vec<RunId>),
}

/// Collects what a service is made of.
#[must_use]
pub struct ServiceBuilder {
    source: WorkflowSource,
    registry: Registry,
    hooks: Option<Arc<dyn WorkspaceHooks>>,
    host: Option<Arc<dyn Host>>,
    env: Arc<dyn Env + Send + Sync>,
    jobs: BTreeMap<Arc<str>, (Duration, JobTask)>,
    transcripts: Option<PathBuf>,
    prompt: Option<PromptFunction>,
}

impl fmt::Debug for ServiceBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceBuilder")
            .field("source", &self.source)
            .field("registry", &self.registry)
            .finish_non_exhaustive()
    }
}

impl ServiceBuilder {
    /// Reads this workflow file, and watches it; `WORKFLOW.md` in the current folder unless said
    /// otherwise.
    pub fn workflow(mut self, path: impl Into<PathBuf>) -> Self {
        self.source = WorkflowSource::File(path.into());
        self
    }

    /// Uses settings and a prompt template made in code instead of a file. They are held to what a
    /// file is held to, and [`Handle::set_settings`] and [`Handle::set_prompt`] change them.
    pub fn settings(mut self, settings: Settings, template: impl Into<String>) -> Self {
        let template = template.into();
        self.source = WorkflowSource::Code(Arc::new(CodeWorkflow { settings, template }));
        self
    }

    /// Lets this function make the prompt of each run, for what a template cannot know: what a
    /// database says of the issue, or a map of the repository in its workspace.
    ///
    /// The function is given what the template says, to add to it or to leave it out. An error, a
    /// panic, a blank text, one of more than 4 MiB, and more time than `hooks.timeout_ms` fail the
    /// attempt, with the reason (contract 15.3). A function that blocks its thread belongs into
    /// `tokio::task::spawn_blocking`.
    ///
    /// ```
    /// # use symphony_runtime::Service;
    /// async fn notes(identifier: &str) -> Result<String, std::io::Error> {
    ///     Ok(format!("{identifier} was tried in spring.")) // as from a database
    /// }
    /// let builder = Service::builder().workflow("WORKFLOW.md").prompt_with(|context| async move {
    ///     let notes = notes(context.issue.identifier.as_str()).await?;
    ///     Ok::<_, std::io::Error>(format!("{}\n\nWhat we know: {notes}", context.rendered))
    /// });
    /// ```
    pub fn prompt_with<F, E>(
        mut self,
        function: impl Fn(PromptContext) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<String, E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.prompt = Some(PromptFunction::new(function));
        self
    }

    /// Adds a kind of tracker.
    pub fn tracker(mut self, factory: impl TrackerFactory + 'static) -> Self {
        self.registry.add_tracker(Arc::new(factory));
        self
    }

    /// Adds a kind of agent.
    pub fn agent(mut self, factory: impl AgentFactory + 'static) -> Self {
        self.registry.add_agent(Arc::new(factory));
        self
    }

    /// Uses these kinds of tracker and agent, and no others.
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }

    /// Runs hooks this way instead of by the shell.
    pub fn hooks(mut self, hooks: impl WorkspaceHooks + 'static) -> Self {
        self.hooks = Some(Arc::new(hooks));
        self
    }

    /// Runs commands here instead of on [`LocalHost::new`].
    pub fn host(mut self, host: Arc<dyn Host>) -> Self {
        self.host = Some(host);
        self
    }

    /// Uses this environment instead of the process's own to resolve settings.
    pub fn env(mut self, env: impl Env + Send + Sync + 'static) -> Self {
        self.env = Arc::new(env);
        self
    }

    /// Adds a job that runs again and again, on an interval of its own (contract 12.1). A job of the
    /// same name is replaced.
    pub fn job<F>(
        mut self,
        name: &str,
        interval: Duration,
        job: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let task: JobTask = Arc::new(move || Box::pin(job()));
        self.jobs.insert(name.into(), (interval, task));
        self
    }

    /// Keeps what is said with each agent in a file for each run, in this folder: without secrets,
    /// and only the last of it (see `docs/operate/logs.md`).
    pub fn transcripts(mut self, folder: impl Into<PathBuf>) -> Self {
        self.transcripts = Some(folder.into());
        self
    }

    /// Loads the workflow, takes the lock of the workspace root, ends what an earlier life has
    /// left, and is ready to run.
    ///
    /// # Errors
    /// Every problem of the workflow at once, or what is wrong with the workspace root.
    pub async fn build(self) -> Result<Service, StartError> {
        let host = self.host.unwrap_or_else(|| Arc::new(LocalHost::new()));
        let disk = Arc::new(Disk::default());
        let loader = Loader {
            source: self.source,
            registry: self.registry,
            env: self.env,
            disk: Arc::clone(&disk),
            started_with: OnceLock::new(),
        };
        let (loader, version, mut loaded) = load(Arc::new(loader)).await?;
        let root = Arc::clone(&loaded.root);
        disk.add_root(&root);
        news::log_warnings(&loaded.configuration.warnings);
        log_guarantees(host.as_ref());
        let home = HomeRoot::begin(host.as_ref(), &root).await?;
        let hooks = match self.hooks {
            Some(hooks) => Hooks::Custom(hooks),
            None => Hooks::Shell { host: Arc::clone(&host), service: Arc::clone(home.service()) },
        };
        let state = blocking(move || SavedState::begin(&root, wall_now())).await??;
        loaded.tracker.resume(&state.spent());
        let mut clock = Clock::start();
        let now = clock.now();
        let restored = Restored {
            boot: state.boot(),
            job_ages: state.job_ages(&loaded.configuration.scope, now.wall),
            spent: state.spent(),
            workspaces: loaded.workspaces.take().unwrap_or_default(),
            decisions: state.decisions(&loaded.configuration.scope),
        };
        let (orchestrator, first_step) =
            Orchestrator::new(loaded.configuration.clone(), restored, now);
        let (inbox, queue) = Inbox::new();
        let (snapshots, _) = watch::channel(Arc::new(orchestrator.snapshot(now)));
        let (notices, _) = broadcast::channel(NOTICE_CAPACITY);
        let (settings, _) = watch::channel(Arc::clone(loaded.settings()));
        let (warnings, _) = watch::channel(Arc::clone(&loaded.configuration.warnings));
        let (changes, changed) = ChangeSender::new();
        let (receiver, deliveries) = watch::channel(WebhookReceiver::from_loaded(&loaded));
        let recent = Arc::default();
        Ok(Service {
            clock,
            orchestrator,
            first_step,
            loader,
            version,
            loaded,
            disk,
            host,
            home,
            hooks,
            state,
            inbox,
            queue,
            snapshots,
            notices,
            settings,
            warnings,
            changes,
            changed,
            has_begun: Arc::default(),
            receiver,
            deliveries: Arc::new(Deliveries::new(deliveries)),
            recent,
            prompt: self.prompt,
            transcripts: self.transcripts.map(Transcripts::start).unwrap_or_default(),
            jobs: self.jobs,
        })
    }
}

/// A service that is ready to run, and already holds its workspace root.
pub struct Service {
    clock: Clock,
    orchestrator: Orchestrator,
    first_step: Step,
    loader: Arc<Loader>,
    version: WorkflowVersion,
    loaded: Loaded,
    disk: Arc<Disk>,
    host: Arc<dyn Host>,
    home: HomeRoot,
    hooks: Hooks,
    state: SavedState,
    inbox: Inbox,
    queue: mpsc::UnboundedReceiver<DriverMessage>,
    snapshots: watch::Sender<Arc<Snapshot>>,
    notices: broadcast::Sender<Arc<Notice>>,
    settings: watch::Sender<Arc<Settings>>,
    warnings: watch::Sender<Arc<[Problem]>>,
    changes: ChangeSender,
    changed: mpsc::Receiver<(Change, ChangeReply)>,
    /// Whether it runs: nothing answers before.
    has_begun: Arc<AtomicBool>,
    receiver: watch::Sender<WebhookReceiver>,
    deliveries: Arc<Deliveries>,
    recent: Arc<RecentIssues>,
    transcripts: Transcripts,
    jobs: BTreeMap<Arc<str>, (Duration, JobTask)>,
    prompt: Option<PromptFunction>,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("root", &self.loaded.root.path()).finish_non_exhaustive()
    }
}

impl Service {
    /// Begins to put a service together.
    pub fn builder() -> ServiceBuilder {
        ServiceBuilder {
            source: WorkflowSource::File(PathBuf::from("WORKFLOW.md")),
            registry: Registry::default(),
            hooks: None,
            host: None,
            env: Arc::new(ProcessEnv),
            jobs: BTreeMap::new(),
            transcripts: None,
            prompt: None,
        }
    }

    /// Returns a handle on the service.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle {
            inbox: self.inbox.clone(),
            has_begun: Arc::clone(&self.has_begun),
            snapshots: self.snapshots.subscribe(),
            notices: self.notices.downgrade(),
            settings: self.settings.subscribe(),
            warnings: self.warnings.subscribe(),
            changes: self.changes.clone(),
            recent: Arc::clone(&self.recent),
            transcripts: self.transcripts.clone(),
            deliveries: Arc::clone(&self.deliveries),
        }
    }

    /// Returns the settings it starts with.
    #[must_use]
    pub fn settings(&self) -> &Arc<Settings> {
        self.loaded.settings()
    }

    /// Returns what is doubtful in the workflow: unknown keys, values that are ignored, and the like.
    /// The log has them too; [`Handle::warnings`] shows those of the version in force.
    #[must_use]
    pub fn warnings(&self) -> &[Problem] {
        &self.loaded.configuration.warnings
    }

    /// Writes the service's URL to a file that [`service_address`](crate::service_address) reads,
    /// until the returned value is dropped.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn announce(&self, url: &str) -> Result<AnnouncedAddress, DiskError> {
        AnnouncedAddress::write(&self.loaded.root, url)
    }

    /// Listens on a unix socket beside the lock, which [`FoundSocket`](crate::FoundSocket) finds,
    /// until the returned value is dropped. What an ended service left there is replaced.
    ///
    /// # Errors
    /// When the file system has no sockets, or the folder cannot be written.
    pub fn listen_locally(&self) -> Result<ServiceSocket, DiskError> {
        ServiceSocket::bind(&self.loaded.root)
    }

    /// Runs until [`Handle::shut_down`], and then until everything is drained.
    ///
    /// Dropping this future ends every run at once: no `after_run`, no grace.
    pub fn run(self) -> impl Future<Output = ServiceEnd> + Send + 'static {
        // Not at the first poll: a caller that has spawned this may give a command at once.
        self.has_begun.store(true, Ordering::Release);
        self.drive()
    }

    /// Runs until this future is ready, such as one that waits for Ctrl-C, and then until everything
    /// is drained; or until [`Handle::shut_down`].
    pub fn run_until(
        self,
        shutdown: impl Future<Output = ()> + Send,
    ) -> impl Future<Output = ServiceEnd> + Send {
        let handle = self.handle();
        let running = self.run();
        async move {
            tokio::pin!(running);
            tokio::select! {
                biased;
                end = &mut running => return end,
                () = shutdown => {}
            }
            // Where it has ended meanwhile, there is nothing to shut down.
            let _ = handle.shut_down();
            running.await
        }
    }

    async fn drive(self) -> ServiceEnd {
        let settings = self.settings.subscribe();
        let recheck = Arc::new(Notify::new());
        let workflow = self.loader.workflow();
        let watch = Watch {
            loader: self.loader,
            host: self.host,
            home: self.home.clone(),
            recheck: Arc::clone(&recheck),
            inbox: self.inbox.clone(),
            changes: self.changed,
            in_force: self.loaded.clone(),
            version: self.version,
        };
        let _background_tasks = [
            AbortOnDropHandle::new(tokio::spawn(watch.run())),
            AbortOnDropHandle::new(tokio::spawn(quiet::watch(
                settings.clone(),
                self.inbox.clone(),
            ))),
            AbortOnDropHandle::new(tokio::spawn(activity::watch(settings, self.inbox.clone()))),
        ];
        let mut jobs = BTreeMap::new();
        for (name, (interval, job)) in self.jobs {
            self.inbox.send(Event::JobAdded { name: Arc::clone(&name), interval });
            jobs.insert(name, job);
        }
        info!(root = %self.loaded.root.path().display(), boot = self.state.boot(), "service starts");
        let tools = Tools {
            clock: self.clock,
            disk: self.disk,
            home: self.home,
            hooks: self.hooks,
            jobs,
            recheck,
            recent: self.recent,
            transcripts: self.transcripts,
            saver: Saver::start(self.state, Arc::clone(&self.loaded.root)),
            workflow,
            prompt: self.prompt,
        };
        let publishers = Publishers {
            snapshots: self.snapshots,
            notices: self.notices,
            settings: self.settings,
            warnings: self.warnings,
            receiver: self.receiver,
        };
        let driver =
            Driver::new(self.orchestrator, self.inbox, self.queue, self.loaded, tools, publishers);
        let killed = driver.run(self.first_step).await;
        if killed.is_empty() {
            info!("service ended");
            ServiceEnd::Drained
        } else {
            warn!(runs = killed.len(), "service ended; runs that did not end in time were killed");
            ServiceEnd::Killed(killed)
        }
    }
}

/// Warns of each promise that this host cannot keep, for want of a helper process.
fn log_guarantees(host: &dyn Host) {
    for promise in host.guarantees().missing() {
        warn!(promise, "not guaranteed on this host");
    }
}

async fn load(loader: Arc<Loader>) -> Result<(Arc<Loader>, WorkflowVersion, Loaded), StartError> {
    let task = move || {
        let version = loader.version().map_err(|problem| StartError::Workflow(vec![problem]))?;
        match loader.load(&version, Generation(0), None) {
            Ok(loaded) => Ok((loader, version, loaded)),
            Err(LoadError::Problems(problems)) => Err(StartError::Workflow(problems)),
            Err(LoadError::Root(error)) => Err(StartError::Workspaces(error)),
        }
    };
    blocking(task).await?
}

/// Runs file work and adapters' code where it may block, or panic.
async fn blocking<T: Send + 'static>(
    task: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StartError> {
    let joined = tokio::task::spawn_blocking(task).await;
    joined.map_err(|error| StartError::Panic(error.to_string()))
}
