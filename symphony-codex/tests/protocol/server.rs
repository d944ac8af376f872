//! A server that does what the test says, line by line.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use symphony_codex::CodexSession;
use symphony_core::agent::{
    AgentError, AgentSession as _, AgentUpdate, SessionRequest, Turn, TurnEnd, Updates,
};
use symphony_core::run::RunId;
use symphony_core::{Issue, Settings, StateSet};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines};

/// What the session has told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told(Arc<Mutex<Vec<AgentUpdate>>>);

impl Told {
    pub(crate) fn all(&self) -> Vec<AgentUpdate> {
        self.0.lock().unwrap().clone()
    }

    /// Events as `name: summary`.
    pub(crate) fn events(&self) -> Vec<String> {
        let event = |update| match update {
            AgentUpdate::Event(event) => Some(format!("{}: {}", event.name, event.summary)),
            _ => None,
        };
        self.all().into_iter().filter_map(event).collect()
    }

    pub(crate) fn has_event(&self, start: &str) -> bool {
        self.events().iter().any(|event| event.starts_with(start))
    }
}

/// The other end of the pipes.
pub(crate) struct Server {
    pub(crate) input: Lines<BufReader<DuplexStream>>,
    pub(crate) output: DuplexStream,
}

/// Everything before a session is opened.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) told: Told,
    pub(crate) request: SessionRequest,
    output: DuplexStream,
    input: DuplexStream,
}

impl World {
    pub(crate) fn new() -> Self {
        let (active, over) = (StateSet::new(["Todo"]), StateSet::new(["Done"]));
        let settings = Settings::new("memory", active, over, "/work".into());
        let issue = Issue::new("1", "MT-1", "Fix the\ndoor", "Todo").unwrap();
        let told = Told::default();
        let sink = told.clone();
        let updates = Updates::new(move |update| sink.0.lock().unwrap().push(update));
        let run = RunId { boot: 1, number: 1 };
        let folder = "/work/MT-1".into();
        let request = SessionRequest::new(run, issue.into(), folder, settings.into(), updates);
        let (output, theirs) = tokio::io::duplex(64 * 1024);
        let (input, read) = tokio::io::duplex(64 * 1024);
        let server = Server { input: BufReader::new(read).lines(), output: theirs };
        Self { server, told, request, output, input }
    }

    /// With other settings of `codex.*`.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings::clone(&self.request.settings);
        change(&mut settings);
        self.request.settings = settings.into();
        self
    }

    /// Opens a session while the server does something.
    pub(crate) async fn open<T>(
        self,
        serve: impl AsyncFnOnce(&mut Server) -> T,
    ) -> (Result<CodexSession, AgentError>, T, Server, Told) {
        let Self { mut server, told, request, output, input } = self;
        let connect = CodexSession::connect(output, input, request);
        let (session, served) = tokio::join!(connect, serve(&mut server));
        (session, served, server, told)
    }

    /// Opens a session with a server that is polite.
    pub(crate) async fn opened(self) -> (CodexSession, Server, Told) {
        let (session, (), server, told) = self.open(async |server| server.greet().await).await;
        (session.unwrap(), server, told)
    }
}

impl Server {
    pub(crate) async fn raw(&mut self, bytes: &[u8]) {
        // A session that is closed does not read.
        let _ = self.output.write_all(bytes).await;
    }

    pub(crate) async fn send(&mut self, message: Value) {
        self.raw(format!("{message}\n").as_bytes()).await;
    }

    pub(crate) async fn tell(&mut self, method: &str, params: Value) {
        self.send(json!({"method": method, "params": params, "emittedAtMs": 5})).await;
    }

    /// The next message; `None` at the end of input.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let line = tokio::time::timeout(Duration::from_secs(100_000), self.input.next_line());
        let line = line.await.expect("a message").unwrap()?;
        Some(serde_json::from_str(&line).unwrap())
    }

    /// The next message, which has this method.
    pub(crate) async fn expect(&mut self, method: &str) -> Value {
        let message = self.next().await.expect("a message, not the end");
        assert_eq!(message["method"], method, "{message}");
        message
    }

    pub(crate) async fn answer(&mut self, request: &Value, result: Value) {
        self.send(json!({"id": request["id"], "result": result})).await;
    }

    pub(crate) async fn refuse(&mut self, request: &Value, code: i64, message: &str) {
        let error = json!({"code": code, "message": message});
        self.send(json!({"id": request["id"], "error": error})).await;
    }

    /// A request of the server, and its answer.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.send(json!({"id": "s-1", "method": method, "params": params})).await;
        let answer = self.next().await.unwrap();
        assert_eq!(answer["id"], "s-1", "{answer}");
        answer
    }

    /// The handshake.
    pub(crate) async fn greet(&mut self) {
        let hello = self.expect("initialize").await;
        self.answer(&hello, json!({"userAgent": "codex"})).await;
        self.expect("initialized").await;
        let start = self.next().await.unwrap();
        self.answer(&start, json!({"thread": {"id": "T", "more": 1}})).await;
        let name = self.expect("thread/name/set").await;
        self.answer(&name, json!({})).await;
    }

    /// Accepts a turn as `U`.
    pub(crate) async fn begin(&mut self) -> Value {
        let start = self.expect("turn/start").await;
        self.answer(&start, turn("inProgress")).await;
        start
    }

    /// Ends the turn `U`.
    pub(crate) async fn complete(&mut self) {
        self.tell("turn/completed", over("completed")).await;
    }
}

fn turn(status: &str) -> Value {
    json!({"turn": {"id": "U", "items": [], "status": status}})
}

/// What `turn/completed` carries.
pub(crate) fn over(status: &str) -> Value {
    let mut over = turn(status);
    over["threadId"] = json!("T");
    over
}

/// Runs a turn while the server does something.
pub(crate) async fn run<T>(
    session: &mut CodexSession,
    serve: impl Future<Output = T>,
) -> (Result<TurnEnd, AgentError>, T) {
    tokio::join!(session.run_turn(prompt()), serve)
}

pub(crate) fn prompt() -> Turn {
    Turn::new(RunId { boot: 1, number: 1 }, 1, "Please")
}
