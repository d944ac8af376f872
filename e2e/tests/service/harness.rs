//! A board, a model, a Codex of its own, and a running service.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use symphony_codex::CodexFactory;
use symphony_core::Issue;
use symphony_core::orchestrator::{Notice, NoticeKind};
use symphony_core::snapshot::Snapshot;
use symphony_e2e::{Model, codex};
use symphony_host::LocalHost;
use symphony_linear::LinearFactory;
use symphony_linear_fake::{Fake, FakeServer, KEY};
use symphony_memory::{MemoryFactory, MemoryTracker};
use symphony_runtime::{Handle, NoticeItem, Service, ServiceEnd};
use tempfile::TempDir;
use tokio::task::JoinHandle;

/// Longer than anything here takes.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The state of the one issue that most tests have.
pub(crate) const ISSUE: &str = "1";

pub(crate) struct Harness {
    folder: TempDir,
    pub(crate) board: MemoryTracker,
    linear: Option<(Fake, FakeServer)>,
    pub(crate) model: Model,
    pub(crate) max_turns: u32,
    /// What runs in the place of Codex.
    pub(crate) command: Option<&'static str>,
}

impl Harness {
    /// One issue to do, and a model that will be asked about it.
    pub(crate) fn new(model: Model) -> Self {
        let folder = tempfile::Builder::new().prefix("e2e-").tempdir().unwrap();
        model.furnish(&folder.path().join("home"));
        let board = MemoryTracker::new();
        board.add(Issue::new(ISSUE, "MT-1", "Mend the door", "Todo").unwrap());
        Self { folder, board, linear: None, model, max_turns: 5, command: None }
    }

    /// The same with Linear for a tracker, and these issues there.
    pub(crate) async fn on_linear(
        model: Model,
        issues: impl IntoIterator<Item = symphony_linear_fake::FakeIssue>,
    ) -> Self {
        let fake = Fake::new();
        fake.put(issues);
        let server = FakeServer::start(fake.clone()).await.unwrap();
        Self { linear: Some((fake, server)), ..Self::new(model) }
    }

    pub(crate) fn linear(&self) -> &Fake {
        &self.linear.as_ref().unwrap().0
    }

    fn tracker(&self) -> String {
        match &self.linear {
            None => "kind: memory".to_owned(),
            Some((_, server)) => format!(
                "kind: linear\n  provider: {{project_slug: abc123, endpoint: '{}'}}",
                server.endpoint()
            ),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.path().join("work/MT-1")
    }

    /// The settings are the usual ones, with these lines under `codex`, the last section.
    pub(crate) fn write(&self, more: &str) -> PathBuf {
        let home = self.path().join("home");
        let real = format!("CODEX_HOME='{}' '{}' app-server", home.display(), codex().display());
        let command = self.command.unwrap_or(&real);
        let file = self.path().join("WORKFLOW.md");
        let text = format!(
            "---\ntracker:\n  {}\nworkspace:\n  root: work\npolling:\n  interval_ms: 30000\n\
             agent:\n  max_turns: {}\n  max_retry_backoff_ms: 500\n  stop_grace_ms: 3000\n\
             codex:\n  read_timeout_ms: 30000\n  \
             command: {command}\n{more}---\n\
             Work on {{{{ issue.identifier }}}}: {{{{ issue.title }}}}.\n",
            self.tracker(),
            self.max_turns,
        );
        fs::write(&file, text).unwrap();
        file
    }

    pub(crate) async fn start(&self) -> Live {
        self.start_with("").await
    }

    pub(crate) async fn start_with(&self, more: &str) -> Live {
        let host = Arc::new(LocalHost::with_helper(env!("CARGO_BIN_EXE_helper")));
        let service = Service::builder()
            .workflow(self.write(more))
            .tracker(MemoryFactory::serving(self.board.clone()))
            .tracker(LinearFactory::new())
            .env(BTreeMap::from([("LINEAR_API_KEY".to_owned(), KEY.to_owned())]))
            .agent(CodexFactory::on(host.clone()))
            .host(host)
            .build()
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        let handle = service.handle();
        let notices = Arc::new(Mutex::new(Vec::new()));
        let (heard, mut told) = (Arc::clone(&notices), handle.subscribe().unwrap());
        tokio::spawn(async move {
            while let Some(item) = told.next().await {
                let NoticeItem::Notice(notice) = item else { panic!("the test reads too slowly") };
                heard.lock().unwrap().push(notice);
            }
        });
        let task = tokio::spawn(service.run());
        Live { handle, notices, task }
    }
}

/// A running service.
pub(crate) struct Live {
    pub(crate) handle: Handle,
    notices: Arc<Mutex<Vec<Arc<Notice>>>>,
    task: JoinHandle<ServiceEnd>,
}

impl Live {
    /// Waits for a snapshot with something in it, and gives that.
    pub(crate) async fn until<T>(
        &self,
        what: &str,
        mut find: impl FnMut(&Snapshot) -> Option<T>,
    ) -> T {
        let mut snapshots = self.handle.snapshots();
        let mut found = None;
        let wait = snapshots.wait_for(|snapshot| {
            found = find(snapshot);
            found.is_some()
        });
        let waited = tokio::time::timeout(TEST_TIMEOUT, wait).await;
        let is_seen = matches!(waited, Ok(Ok(_)));
        drop(waited);
        assert!(is_seen, "in vain: {what}; last seen: {:#?}", self.handle.last_snapshot());
        found.unwrap()
    }

    /// What has happened, as people are told.
    pub(crate) fn happened<T>(&self, find: impl Fn(&NoticeKind) -> Option<T>) -> Vec<T> {
        self.notices.lock().unwrap().iter().filter_map(|notice| find(&notice.what)).collect()
    }

    /// Waits until the issue is over and its workspace is cleaned.
    pub(crate) async fn until_done(&self) {
        self.until_cleaned(1).await;
    }

    /// Waits until so many workspaces are cleaned.
    pub(crate) async fn until_cleaned(&self, count: usize) {
        let cleaned = || self.happened(|what| matches!(what, NoticeKind::Cleaned).then_some(()));
        let wait = eventually_so(|| cleaned().len() >= count);
        let waited = tokio::time::timeout(TEST_TIMEOUT, wait).await;
        assert!(waited.is_ok(), "not done; last seen: {:#?}", self.handle.last_snapshot());
    }

    /// Which issues were started, in this order.
    pub(crate) fn starts(&self) -> Vec<String> {
        let notices = self.notices.lock().unwrap();
        let starts = notices.iter().filter(|told| matches!(told.what, NoticeKind::Started { .. }));
        starts.map(|told| told.issue.as_ref().unwrap().identifier.to_string()).collect()
    }

    pub(crate) async fn shut_down(self) -> Snapshot {
        self.handle.shut_down().unwrap();
        assert_eq!(within("the end of the service", self.task).await.unwrap(), ServiceEnd::Drained);
        Snapshot::clone(&self.handle.last_snapshot())
    }
}

/// Waits for it, but not for ever.
pub(crate) async fn within<T>(what: &str, wait: impl Future<Output = T>) -> T {
    match tokio::time::timeout(TEST_TIMEOUT, wait).await {
        Ok(done) => done,
        Err(_) => panic!("in vain: {what}"),
    }
}

/// Waits for a condition that nothing tells of.
pub(crate) async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    within(what, eventually_so(&mut is_so)).await;
}

async fn eventually_so(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap().as_secs().try_into().unwrap()
}
