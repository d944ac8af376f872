//! Building and running a service.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use symphony_core::agent::AgentFactory;
use symphony_core::env::Env;
use symphony_core::hooks::WorkspaceHooks;
use symphony_core::orchestrator::{Event, Generation, Notice, Restored, Step};
use symphony_core::problem::Problem;
use symphony_core::run::RunId;
use symphony_core::snapshot::Snapshot;
use symphony_core::store::{MemoryStore, Store, StoreError};
use symphony_core::tracker::TrackerFactory;
use symphony_core::{Failure, Orchestrator, Settings};
use symphony_host::{Host, LocalHost, SweepError};
use tokio::sync::{Notify, broadcast, mpsc, watch};
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

use crate::clock::Clock;
use crate::deliveries::{Deliveries, WebhookReceiver};
use crate::disk::{AnnouncedAddress, Disk, DiskError};
use crate::driver::{Driver, DriverMessage, Inbox, JobTask, Publishers, Tools};
use crate::handle::Handle;
use crate::home::{HomeRoot, LeftoverError};
use crate::loader::{LoadError, Loaded, Loader, ProcessEnv, WorkflowSource};
use crate::recent::RecentIssues;
use crate::registry::Registry;
use crate::run_hooks::Hooks;
use crate::scope_guard::ScopeGuard;
use crate::state_file;
use crate::transcript::Transcripts;
use crate::watch::Watch;
use crate::writer::Writer;
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
    /// Another service works on the same issues.
    #[error("{0}")]
    Scope(String),
    /// The workspace root cannot be used.
    #[error(transparent)]
    Workspaces(#[from] DiskError),
    /// An earlier life of the service left processes that cannot be ended.
    #[error("an earlier life of the service left processes that cannot be ended; end them by hand")]
    Leftovers(#[source] SweepError),
    /// What the last life of the service left cannot be read, or nothing can be kept for the next.
    #[error("the service's storage cannot be used: {0}")]
    Storage(#[from] StoreError),
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

fn problem_lines(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(|problem| format!("  {problem}")).collect();
    lines.join("\n")
}

/// How a service ended.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    store: Arc<dyn Store>,
    scope_guard: Option<Arc<dyn ScopeGuard>>,
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

    /// Uses settings and a prompt made in code instead of a file.
    pub fn settings(mut self, settings: Settings, prompt: impl Into<String>) -> Self {
        self.source = WorkflowSource::Code { settings: Box::new(settings), prompt: prompt.into() };
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

    /// Keeps here what must survive a restart (contract section 16), instead of in memory, which
    /// survives none.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = store;
        self
    }

    /// Takes a lock on what the tracker shows, before settings are in force (contract 16.6). Without
    /// a guard none is taken.
    pub fn scope_guard(mut self, guard: impl ScopeGuard + 'static) -> Self {
        self.scope_guard = Some(Arc::new(guard));
        self
    }

    /// Loads the workflow, takes the lock of the workspace root, ends what an earlier life has
    /// left, and is ready to run.
    ///
    /// # Errors
    /// Every problem of the workflow at once, or what is wrong with the workspace root or the store.
    pub async fn build(self) -> Result<Service, StartError> {
        let host = self.host.unwrap_or_else(|| Arc::new(LocalHost::new()));
        let disk = Arc::new(Disk::default());
        let loader = Loader {
            source: self.source,
            registry: self.registry,
            env: self.env,
            disk: Arc::clone(&disk),
            scope_guard: self.scope_guard,
            started_with: OnceLock::new(),
        };
        let (loader, workflow_text, mut loaded) = load(Arc::new(loader)).await?;
        let root = Arc::clone(&loaded.root);
        disk.add_root(&root);
        news::log_warnings(&loaded.configuration.warnings);
        log_guarantees(host.as_ref());
        let home = HomeRoot::begin(host.as_ref(), &root).await?;
        let hooks = match self.hooks {
            Some(hooks) => Hooks::Custom(hooks),
            None => Hooks::Shell { host: Arc::clone(&host), service: Arc::clone(home.service()) },
        };
        let mut clock = Clock::start();
        let now = clock.now();
        let scope = &loaded.configuration.scope;
        let life = state_file::begin(self.store.as_ref(), &root, scope, now.wall).await?;
        if let Some(polls) = &life.rows.polls {
            loaded.tracker.resume(&polls.spent);
        }
        let boot = life.boot;
        let workspaces = loaded.workspaces.take().unwrap_or_default();
        let restored = Restored { boot, rows: life.rows, workspaces };
        let (orchestrator, first_step) =
            Orchestrator::new(loaded.configuration.clone(), restored, now);
        let (inbox, queue) = Inbox::new();
        let (snapshots, _) = watch::channel(Arc::new(orchestrator.snapshot(now)));
        let (notices, _) = broadcast::channel(NOTICE_CAPACITY);
        let (settings, _) = watch::channel(Arc::clone(loaded.settings()));
        let (receiver, deliveries) = watch::channel(WebhookReceiver::from_loaded(&loaded));
        let recent = Arc::default();
        Ok(Service {
            clock,
            orchestrator,
            first_step,
            loader,
            workflow_text,
            loaded,
            disk,
            host,
            home,
            hooks,
            store: self.store,
            boot,
            inbox,
            queue,
            snapshots,
            notices,
            settings,
            receiver,
            deliveries: Arc::new(Deliveries::new(deliveries)),
            recent,
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
    workflow_text: String,
    loaded: Loaded,
    disk: Arc<Disk>,
    host: Arc<dyn Host>,
    home: HomeRoot,
    hooks: Hooks,
    store: Arc<dyn Store>,
    boot: u64,
    inbox: Inbox,
    queue: mpsc::UnboundedReceiver<DriverMessage>,
    snapshots: watch::Sender<Arc<Snapshot>>,
    notices: broadcast::Sender<Arc<Notice>>,
    settings: watch::Sender<Arc<Settings>>,
    receiver: watch::Sender<WebhookReceiver>,
    deliveries: Arc<Deliveries>,
    recent: Arc<RecentIssues>,
    transcripts: Transcripts,
    jobs: BTreeMap<Arc<str>, (Duration, JobTask)>,
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
            store: Arc::new(MemoryStore::new()),
            scope_guard: None,
        }
    }

    /// Returns a handle on the service.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle::new(
            self.inbox.clone(),
            self.snapshots.subscribe(),
            self.notices.downgrade(),
            self.settings.subscribe(),
            Arc::clone(&self.recent),
            self.transcripts.clone(),
            Arc::clone(&self.deliveries),
        )
    }

    /// Returns the settings it starts with.
    #[must_use]
    pub fn settings(&self) -> &Arc<Settings> {
        self.loaded.settings()
    }

    /// Writes the service's URL to a file that [`service_address`](crate::service_address) reads,
    /// until the returned value is dropped.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn announce(&self, url: &str) -> Result<AnnouncedAddress, DiskError> {
        AnnouncedAddress::write(&self.loaded.root, url)
    }

    /// Runs until [`Handle::shut_down`], and then until everything is drained.
    ///
    /// Dropping this future ends every run at once: no `after_run`, no grace.
    pub async fn run(self) -> ServiceEnd {
        let settings = self.settings.subscribe();
        let recheck = Arc::new(Notify::new());
        let workflow = self.loader.workflow();
        let watch = Watch {
            loader: self.loader,
            host: self.host,
            home: self.home.clone(),
            recheck: Arc::clone(&recheck),
            inbox: self.inbox.clone(),
            in_force: self.loaded.clone(),
            text: self.workflow_text,
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
        info!(root = %self.loaded.root.path().display(), boot = self.boot, "service starts");
        let tools = Tools {
            clock: self.clock,
            disk: self.disk,
            home: self.home,
            hooks: self.hooks,
            jobs,
            recheck,
            recent: self.recent,
            transcripts: self.transcripts,
            writer: Writer::start(self.store, self.inbox.clone()),
            workflow,
        };
        let publishers = Publishers {
            snapshots: self.snapshots,
            notices: self.notices,
            settings: self.settings,
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

async fn load(loader: Arc<Loader>) -> Result<(Arc<Loader>, String, Loaded), StartError> {
    let task = move || {
        let text = loader.text().map_err(|problem| StartError::Workflow(vec![problem]))?;
        match loader.load(&text, Generation(0), None) {
            Ok(loaded) => Ok((loader, text, loaded)),
            Err(LoadError::Problems(problems)) => Err(StartError::Workflow(problems)),
            Err(LoadError::Root(error)) => Err(StartError::Workspaces(error)),
            Err(LoadError::Scope(message)) => Err(StartError::Scope(message)),
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
