//! Building and running a service.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use symphony_core::agent::AgentFactory;
use symphony_core::env::Env;
use symphony_core::hooks::WorkspaceHooks;
use symphony_core::orchestrator::{Event, Generation, Restored};
use symphony_core::problem::Problem;
use symphony_core::tracker::TrackerFactory;
use symphony_core::{Failure, Orchestrator};
use tokio::sync::{Notify, broadcast, mpsc, watch};

use crate::clock::{Clock, wall_now};
use crate::disk::{Disk, DiskError, Root};
use crate::driver::{Driver, Inbox, Message};
use crate::handle::Handle;
use crate::loader::{Loaded, Loader};
use crate::parts::{JobTask, Parts};
use crate::registry::Registry;
use crate::state::{Saver, State};

/// How many notices a slow subscriber may lag behind.
const NOTICES: usize = 1024;

/// Why a service could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The workflow file cannot be used.
    #[error("the workflow file cannot be used:\n{}", lines(.0))]
    Workflow(Vec<Problem>),
    /// The workspace root cannot be used.
    #[error(transparent)]
    Workspaces(#[from] DiskError),
}

fn lines(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(|problem| format!("  {problem}")).collect();
    lines.join("\n")
}

/// Collects what a service is made of.
#[must_use]
pub struct ServiceBuilder {
    workflow: PathBuf,
    registry: Registry,
    hooks: Option<Arc<dyn WorkspaceHooks>>,
    env: Arc<dyn Env + Send + Sync>,
    jobs: BTreeMap<Arc<str>, JobTask>,
    intervals: BTreeMap<Arc<str>, Duration>,
}

/// The environment of this process.
#[derive(Clone, Copy, Debug)]
struct ProcessEnv;

impl Env for ProcessEnv {
    fn var(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

impl ServiceBuilder {
    /// The workflow file; `WORKFLOW.md` in the current folder unless said otherwise.
    pub fn workflow(mut self, path: impl Into<PathBuf>) -> Self {
        self.workflow = path.into();
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

    /// Uses these kinds of tracker and agent.
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }

    /// Runs hooks this way instead of by the shell.
    pub fn hooks(mut self, hooks: impl WorkspaceHooks + 'static) -> Self {
        self.hooks = Some(Arc::new(hooks));
        self
    }

    /// Uses this environment instead of the process's own.
    pub fn env(mut self, env: impl Env + Send + Sync + 'static) -> Self {
        self.env = Arc::new(env);
        self
    }

    /// Adds a job that runs again and again, on an interval of its own.
    pub fn job<F>(
        mut self,
        name: &str,
        interval: Duration,
        job: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let name: Arc<str> = name.into();
        self.jobs.insert(Arc::clone(&name), Box::new(move || Box::pin(job())));
        self.intervals.insert(name, interval);
        self
    }

    /// Loads the workflow, takes the lock of the workspace root, and is ready to run.
    ///
    /// # Errors
    /// Every problem of the file at once, or what is wrong with the workspace root.
    pub fn build(self) -> Result<Service, StartError> {
        let hooks = self.hooks.unwrap_or_else(|| Arc::new(NoHooks));
        let loader = Loader { path: self.workflow, registry: self.registry, env: self.env };
        let text = loader.text().map_err(|problem| StartError::Workflow(vec![problem]))?;
        let loaded = loader.load(&text, Generation(0)).map_err(StartError::Workflow)?;
        let root = Arc::new(Root::open(&loaded.configuration.settings.workspace.root)?);
        let disk = Arc::new(Disk::new(Arc::clone(&root), loaded.configuration.scope.clone()));
        let (inbox, queue) = Inbox::new();
        let (notices, _) = broadcast::channel(NOTICES);
        Ok(Service {
            loader,
            text,
            loaded,
            root,
            disk,
            hooks,
            inbox,
            queue,
            notices,
            jobs: self.jobs,
            intervals: self.intervals,
        })
    }
}
