//! A harness for a service: a board, scripted agents, real folders, and a way to wait.

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use symphony_core::Issue;
use symphony_core::orchestrator::{Notice, NoticeKind};
use symphony_core::snapshot::Snapshot;
use symphony_core::store::MemoryStore;
use symphony_host::{
    EarlierLife, Guarantees, Host, HostCommand, LocalHost, Mark, RunningCommand, SpawnError,
    Survivor, SweepError,
};
use symphony_memory::{AgentScript, MemoryFactory, MemoryTracker, ScriptedAgent, ScriptedFactory};
use symphony_runtime::{Handle, NoticeItem, NoticeStream, Service, ServiceBuilder, ServiceEnd};
use tempfile::TempDir;
use tokio::task::JoinHandle;

/// How long anything may take before a test gives up, on the test's clock.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(600);

/// This machine, without a look at processes that are not a test's.
#[derive(Debug, Default)]
pub(crate) struct TestHost {
    local: Option<LocalHost>,
    pub(crate) swept: Mutex<Vec<EarlierLife>>,
}

impl TestHost {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { local: Some(LocalHost::without_helper()), swept: Mutex::default() })
    }
}

#[async_trait]
impl Host for TestHost {
    fn guarantees(&self) -> Guarantees {
        LocalHost::without_helper().guarantees()
    }

    fn start(&self, command: &HostCommand, mark: &Mark) -> Result<RunningCommand, SpawnError> {
        match &self.local {
            Some(local) => local.start(command, mark),
            None => Err(SpawnError::Closed),
        }
    }

    async fn end_leftovers(&self, earlier: &EarlierLife) -> Result<Vec<Survivor>, SweepError> {
        self.swept.lock().unwrap().push(earlier.clone());
        Ok(Vec::new())
    }
}

/// Everything around one service.
pub(crate) struct Harness {
    pub(crate) dir: TempDir,
    pub(crate) board: MemoryTracker,
    pub(crate) agent: ScriptedAgent,
    /// What one life leaves to the next.
    pub(crate) store: Arc<MemoryStore>,
}

impl Harness {
    pub(crate) fn new(script: AgentScript) -> Self {
        let dir = tempfile::Builder::new().prefix("runtime-").tempdir().unwrap();
        let (board, agent) = (MemoryTracker::new(), ScriptedAgent::new(script));
        Self { dir, board, agent, store: Arc::default() }
    }

    pub(crate) fn with_agent(mut self, agent: ScriptedAgent) -> Self {
        self.agent = agent;
        self
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.dir.path().join("WORKFLOW.md")
    }

    pub(crate) fn workspace(&self, identifier: &str) -> PathBuf {
        fs::canonicalize(self.root()).unwrap().join(identifier)
    }

    /// Puts an issue on the board.
    pub(crate) fn issue(&self, id: &str, identifier: &str) {
        self.board.add(Issue::new(id, identifier, "A title", "Todo").unwrap());
    }

    /// Writes a workflow file: the usual settings, and these lines of YAML besides.
    pub(crate) fn write(&self, more: &str) {
        fs::write(self.file(), workflow(more)).unwrap();
    }

    pub(crate) fn builder(&self) -> ServiceBuilder {
        Service::builder()
            .workflow(self.file())
            .tracker(MemoryFactory::serving(self.board.clone()))
            .agent(ScriptedFactory::new(self.agent.clone()))
            .host(TestHost::new())
            .store(self.store.clone())
    }

    pub(crate) async fn start(&self) -> Live {
        if !self.file().exists() {
            self.write("");
        }
        Live::start(self.builder()).await
    }
}

pub(crate) fn workflow(more: &str) -> String {
    format!(
        "---\ntracker:\n  kind: memory\nworkspace:\n  root: work\nagent:\n  kind: scripted\n  \
         max_concurrent_agents: 50\n{more}\n---\nDo {{{{ issue.title }}}}.\n"
    )
}

/// A running service.
pub(crate) struct Live {
    pub(crate) handle: Handle,
    task: JoinHandle<ServiceEnd>,
    pub(crate) notices: Arc<Mutex<Vec<Notice>>>,
    _listener: tokio_util::task::AbortOnDropHandle<()>,
}

impl Live {
    pub(crate) async fn start(builder: ServiceBuilder) -> Self {
        let service = builder.build().await.unwrap();
        let handle = service.handle();
        let notices = Arc::new(Mutex::new(Vec::new()));
        let listener = tokio::spawn(listen(handle.subscribe().unwrap(), Arc::clone(&notices)));
        let task = tokio::spawn(service.run());
        let _listener = tokio_util::task::AbortOnDropHandle::new(listener);
        Self { handle, task, notices, _listener }
    }

    /// Waits until a published snapshot is as the condition wants it.
    pub(crate) async fn until(&self, what: &str, mut is_so: impl FnMut(&Snapshot) -> bool) {
        let mut snapshots = self.handle.snapshots();
        let wait = snapshots.wait_for(|snapshot| is_so(snapshot));
        let ended = tokio::time::timeout(TEST_TIMEOUT, wait).await;
        let last = self.handle.last_snapshot();
        assert!(matches!(ended, Ok(Ok(_))), "{what}: {last:#?}");
    }

    pub(crate) fn happened(&self, is_it: impl Fn(&NoticeKind) -> bool) -> usize {
        self.notices.lock().unwrap().iter().filter(|notice| is_it(&notice.what)).count()
    }

    pub(crate) async fn shut_down(self) -> ServiceEnd {
        self.handle.shut_down().unwrap();
        self.ended().await
    }

    pub(crate) async fn ended(self) -> ServiceEnd {
        within("the end of the service", self.task).await.unwrap()
    }

    /// As a kill would: nothing more is done.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

async fn listen(mut from: NoticeStream, to: Arc<Mutex<Vec<Notice>>>) {
    while let Some(item) = from.next().await {
        let NoticeItem::Notice(notice) = item else { panic!("the test reads too slowly") };
        to.lock().unwrap().push(notice.as_ref().clone());
    }
}

pub(crate) async fn within<T>(what: &str, wait: impl Future<Output = T>) -> T {
    match tokio::time::timeout(TEST_TIMEOUT, wait).await {
        Ok(done) => done,
        Err(_) => panic!("in vain: {what}"),
    }
}

/// Waits for a condition that nothing tells of.
pub(crate) async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let (begun, mut pause) = (std::time::Instant::now(), Duration::from_millis(1));
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "in vain: {what}");
        // On the test's clock, and really: where one stands still, the other goes on.
        tokio::time::sleep(pause).await;
        tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_millis(1))).await.unwrap();
        pause = (pause * 2).min(Duration::from_millis(200));
    }
}

pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}
