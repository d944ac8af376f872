//! A service with a server, and a client that says exactly what it is told to say.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use symphony_core::agent::{AgentErrorKind, RateLimits};
use symphony_core::store::{MemoryStore, Store};
use symphony_core::tracker::Tracker;
use symphony_core::{Blocker, Identifier, Issue, Settings, StateSet};
use symphony_http::{Config, Server};
use symphony_memory::{AgentScript, MemoryTracker, ScriptStep, ScriptedAgent};
use symphony_runtime::{FixedAgent, FixedTracker, Handle, Service};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;

/// A title that would like to be more than text.
pub(crate) const HOSTILE: &str = "<script>alert(1)</script> \u{1b}[2J\u{202e}'\" & more";

/// What an earlier life of the service has kept of a run of MT-3.
const TRANSCRIPT: &str = "{\"at\":\"2026-01-01T08:00:00Z\",\"dir\":\"in\",\"line\":{\"text\":\"<script>alert(3)</script>\"}}\n{\"note\":\"2 lines were lost here\"}\n";

/// How long a test waits for anything.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Harness {
    pub(crate) board: MemoryTracker,
    pub(crate) handle: Handle,
    pub(crate) port: u16,
    tasks: Vec<JoinHandle<()>>,
    _root: tempfile::TempDir,
}

impl Drop for Harness {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// An issue whose label says what its agent does.
pub(crate) fn issue(id: &str, title: &str, label: &str) -> Issue {
    let mut issue = Issue::new(id, &format!("MT-{id}"), title, "Todo").unwrap();
    issue.labels = symphony_core::Label::list([label]);
    issue
}

impl Harness {
    /// A service with one agent that hangs, one that failed, one that asks, and one issue too many.
    pub(crate) async fn busy() -> Self {
        let harness = Self::with(Config::default(), 3).await;
        let mut hangs = issue("1", "Sand the door", "hang");
        hangs.url = Some("https://tracker.example/MT-1".to_owned());
        harness.board.add(hangs);
        harness.board.add(issue("2", "Order paint", "fail"));
        let url = Some("https://tracker.example/MT-2".to_owned());
        harness.board.update("2", |issue| issue.url = url);
        harness.board.add(issue("3", HOSTILE, "ask"));
        harness.board.update("3", |issue| issue.url = Some("javascript:alert(1)".to_owned()));
        let mut blocked = issue("4", "Paint the door", "hang");
        blocked.blocked_by = vec![blocker("1")];
        harness.board.add(blocked);
        let _ = harness.handle.poll_now();
        harness
            .until(|snapshot| {
                snapshot.running.iter().any(|row| row.last_event.is_some())
                    && snapshot.waiting.len() == 1
                    && snapshot.blocked.len() == 1
                    && snapshot.candidates.first.iter().any(|row| row.id.as_str() == "4")
            })
            .await;
        harness
    }

    /// A service without issues, and its server.
    pub(crate) async fn with(config: Config, agents: u32) -> Self {
        Self::over(config, agents, |board| Arc::new(board)).await
    }

    /// The same, with the tracker that this makes of the board.
    pub(crate) async fn over(
        config: Config,
        agents: u32,
        tracker: impl FnOnce(MemoryTracker) -> Arc<dyn Tracker>,
    ) -> Self {
        Self::keeping(config, agents, tracker, Arc::new(MemoryStore::new())).await
    }

    /// The same, with this store.
    pub(crate) async fn keeping(
        config: Config,
        agents: u32,
        tracker: impl FnOnce(MemoryTracker) -> Arc<dyn Tracker>,
        store: Arc<dyn Store>,
    ) -> Self {
        let root = tempfile::tempdir().unwrap();
        let board = MemoryTracker::new();
        let hang = AgentScript::new().event("notification", "at work").spend(1_200, 800).hang();
        let fail = AgentScript::new().fail(AgentErrorKind::TurnFailed, "as the label says");
        let no_windows = ScriptStep::RateLimits(RateLimits::default());
        let agent = ScriptedAgent::new(AgentScript::new().set_state("Done"))
            .for_label("hang", hang)
            .for_label("fail", fail)
            .for_label("windowless", AgentScript::new().then(no_windows).hang())
            .for_label("limit", AgentScript::new().fail(AgentErrorKind::UsageLimit, "used up"))
            .for_label("ask", AgentScript::new().ask("Which <b>colour</b>?"));
        let (todo, done) = (StateSet::new(["Todo"]), StateSet::new(["Done"]));
        let mut settings = Settings::new("board", todo, done, root.path().join("work"));
        settings.agent.kind = "scripted".to_owned();
        settings.agent.max_concurrent_agents = agents;
        settings.agent.max_retry_backoff = Duration::from_secs(3_600);
        let kept = root.path().join("runs/MT-3");
        std::fs::create_dir_all(&kept).unwrap();
        std::fs::write(kept.join("0.7.jsonl"), TRANSCRIPT).unwrap();
        let service = Service::builder()
            .transcripts(root.path().join("runs"))
            .settings(settings, "Please do this: {{ issue.title }}")
            .tracker(FixedTracker::new("board", tracker(board.clone())))
            .agent(FixedAgent::new("scripted", Arc::new(agent)))
            .store(store)
            .build()
            .await
            .unwrap();
        let handle = service.handle();
        let server = Server::bind(&config).await.unwrap();
        let port = server.address().port();
        let serving = tokio::spawn(server.serve(handle.clone()));
        let running = tokio::spawn(async move {
            service.run().await;
        });
        Self { board, handle, port, tasks: vec![running, serving], _root: root }
    }

    pub(crate) async fn until(&self, is_so: impl Fn(&symphony_core::snapshot::Snapshot) -> bool) {
        let mut snapshots = self.handle.snapshots();
        let waited = tokio::time::timeout(TEST_TIMEOUT, snapshots.wait_for(|now| is_so(now))).await;
        let last = self.handle.last_snapshot();
        assert!(waited.is_ok(), "it did not come about: {last:#?}");
    }

    /// What a well-behaved client says, with these lines besides.
    pub(crate) async fn ask(&self, method: &str, path: &str, more: &str, body: &str) -> Reply {
        self.ask_from(1, method, path, more, body).await
    }

    /// The same from another address: one of this machine that ends so.
    pub(crate) async fn ask_from(
        &self,
        end: u8,
        method: &str,
        path: &str,
        more: &str,
        body: &str,
    ) -> Reply {
        let (port, length) = (self.port, body.len());
        let length =
            if body.is_empty() { String::new() } else { format!("Content-Length: {length}\r\n") };
        let head = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n");
        let request = format!("{head}{more}{length}Connection: close\r\n\r\n{body}");
        self.say_on(self.connect_from(end).await, &request).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, "", "").await
    }

    pub(crate) async fn post(&self, path: &str) -> Reply {
        self.ask("POST", path, "", "").await
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        self.connect_from(1).await
    }

    pub(crate) async fn connect_from(&self, end: u8) -> TcpStream {
        connect(self.port, end).await.unwrap()
    }

    /// These bytes, and what comes back.
    pub(crate) async fn say(&self, request: &str) -> Reply {
        self.say_on(self.connect().await, request).await
    }

    async fn say_on(&self, mut stream: TcpStream, request: &str) -> Reply {
        // A refused request may not be read to its end.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut bytes = Vec::new();
        let read = tokio::time::timeout(TEST_TIMEOUT, stream.read_to_end(&mut bytes)).await;
        assert!(read.is_ok(), "no end of the answer to {request}");
        Reply::parse(&bytes)
    }
}

/// A connection from an address of this machine that ends so.
pub(crate) async fn connect(port: u16, end: u8) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(([127, 0, 0, end], 0).into())?;
    socket.connect(([127, 0, 0, 1], port).into()).await
}

pub(crate) fn blocker(id: &str) -> Blocker {
    let identifier = Identifier::from(format!("MT-{id}").as_str());
    let (id, state) = (Some(id.into()), Some("Todo".into()));
    Blocker { id, identifier: Some(identifier), state, ..Blocker::default() }
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Reply {
    fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or_default();
        let mut reply = Self { status, head: head.to_owned(), body: body.to_owned() };
        if reply.header("transfer-encoding") == Some("chunked") {
            reply.body = dechunk(body);
        }
        reply
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The code of an error, in its envelope.
    pub(crate) fn code(&self) -> String {
        let body = self.json();
        let error = body["error"].as_object().unwrap_or_else(|| panic!("no envelope: {self:?}"));
        assert_eq!(error.len(), 2, "{self:?}");
        assert!(!error["message"].as_str().unwrap().is_empty());
        error["code"].as_str().unwrap().to_owned()
    }
}

fn dechunk(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let Ok(size) = usize::from_str_radix(size.trim(), 16) else { break };
        let Some(chunk) = after.get(..size).filter(|_| size > 0) else { break };
        body.push_str(chunk);
        rest = after.get(size + 2..).unwrap_or("");
    }
    body
}
