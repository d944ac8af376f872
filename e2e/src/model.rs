//! A model that follows a script, behind HTTP on loopback.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What the model does when it is asked.
#[derive(Clone, Debug)]
pub enum ModelAction {
    /// Answers, which ends the turn.
    Say(&'static str),
    /// Calls a tool that Codex offered.
    Call(&'static str, Value),
    /// Refuses with this status and this error.
    Refuse(u16, Value),
    /// Refuses because the account's share is used up until then, in seconds since 1970.
    UsedUp(i64),
    /// Never answers.
    Hang,
}

impl ModelAction {
    /// Runs a command in the shell that Codex offers.
    #[must_use]
    pub fn run(command: &str) -> Self {
        // Long enough that Codex waits for its end and does not ask the model in between.
        Self::Call("exec_command", json!({"cmd": command, "yield_time_ms": 30_000}))
    }
}

/// A model, and what it was asked.
#[derive(Debug)]
pub struct Model {
    port: u16,
    asked: watch::Receiver<Vec<Value>>,
    answered: Arc<Mutex<u64>>,
    _serving: JoinSet<()>,
}

type Decide = Box<dyn FnMut(&Value) -> ModelAction + Send>;

struct Mind {
    decide: Mutex<Decide>,
    asked: watch::Sender<Vec<Value>>,
    answered: Arc<Mutex<u64>>,
}

impl Model {
    /// Does one action after the other, whatever session asks; afterwards it refuses.
    ///
    /// # Panics
    /// There is no loopback.
    pub async fn following(script: impl IntoIterator<Item = ModelAction>) -> Self {
        let mut script: VecDeque<_> = script.into_iter().collect();
        let over = || ModelAction::Refuse(500, json!({"error": {"message": "the script is over"}}));
        Self::deciding(move |_| script.pop_front().unwrap_or_else(over)).await
    }

    /// Decides by what it is asked: the body of the request.
    ///
    /// # Panics
    /// There is no loopback.
    pub async fn deciding(decide: impl FnMut(&Value) -> ModelAction + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (heard, asked) = watch::channel(Vec::new());
        let answered = Arc::default();
        let decide: Decide = Box::new(decide);
        let mind = Mind { decide: decide.into(), asked: heard, answered: Arc::clone(&answered) };
        let mind = Arc::new(mind);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                open.spawn(serve(stream, Arc::clone(&mind)));
            }
        });
        Self { port, asked, answered, _serving: serving }
    }

    /// Makes a folder with the settings of a Codex that asks this model alone.
    ///
    /// # Panics
    /// The folder cannot be written.
    pub fn furnish(&self, home: &Path) {
        let config = format!(
            r#"model = "scripted"
model_provider = "script"
[model_providers.script]
name = "script"
base_url = "http://127.0.0.1:{}/v1"
wire_api = "responses"
requires_openai_auth = false
request_max_retries = 0
stream_max_retries = 0
[features]
default_mode_request_user_input = true
"#,
            self.port
        );
        fs::create_dir_all(home).unwrap();
        fs::write(home.join("config.toml"), config).unwrap();
    }

    /// The bodies of the requests so far.
    #[must_use]
    pub fn asked(&self) -> Vec<Value> {
        self.asked.borrow().clone()
    }

    /// What it was told with one of the requests, but for Codex's own instructions: prompts, its
    /// own answers, the results of its calls.
    #[must_use]
    pub fn heard(&self, request: usize) -> String {
        let is_ours =
            |item: &&Value| !matches!(item["role"].as_str(), Some("developer" | "system"));
        let asked = self.asked.borrow();
        let input = asked.get(request).and_then(|body| body["input"].as_array());
        let items = input.into_iter().flatten().filter(is_ours).map(Value::to_string);
        items.collect::<Vec<_>>().join("\n")
    }

    /// What its calls came to, as it was told with one of the requests: not what it called.
    #[must_use]
    pub fn results(&self, request: usize) -> String {
        let asked = self.asked.borrow();
        let input = asked.get(request).and_then(|body| body["input"].as_array());
        let is_result = |item: &&Value| item["type"] == "function_call_output";
        let results = input.into_iter().flatten().filter(is_result).map(Value::to_string);
        results.collect::<Vec<_>>().join("\n")
    }

    /// Waits until it was asked so many times.
    pub async fn until_asked(&self, times: usize) {
        let _ = self.asked.clone().wait_for(|asked| asked.len() >= times).await;
    }

    /// How many tokens its answers cost so far, by its own account.
    #[must_use]
    pub fn cost(&self) -> u64 {
        (1..=*lock(&self.answered)).map(|answer| input(answer) + OUTPUT).sum()
    }
}

const OUTPUT: u64 = 7;

/// No two answers cost the same.
fn input(answer: u64) -> u64 {
    100 + answer
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One request, one answer.
async fn serve(stream: TcpStream, mind: Arc<Mind>) {
    let mut stream = BufReader::new(stream);
    let Some((head, body)) = read(&mut stream).await else { return };
    if !head.starts_with("POST /v1/responses") {
        return respond(&mut stream, 404, "application/json", "{}").await;
    }
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let does = (lock(&mind.decide))(&body);
    mind.asked.send_modify(|asked| asked.push(body));
    let item = match does {
        ModelAction::Say(text) => json!({
            "type": "message", "role": "assistant", "id": "m",
            "content": [{"type": "output_text", "text": text}],
        }),
        ModelAction::Call(tool, arguments) => json!({
            "type": "function_call", "id": "f", "call_id": "c", "name": tool,
            "arguments": arguments.to_string(),
        }),
        ModelAction::Refuse(status, error) => {
            return respond(&mut stream, status, "application/json", &error.to_string()).await;
        }
        ModelAction::UsedUp(until) => {
            // Codex reads the limits from the headers, and passes those on.
            let kind = format!(
                "application/json\r\nx-codex-primary-used-percent: 100\r\n\
                 x-codex-primary-window-minutes: 300\r\nx-codex-primary-reset-at: {until}"
            );
            let error = json!({"type": "usage_limit_reached", "resets_at": until});
            let error = json!({ "error": error }).to_string();
            return respond(&mut stream, 429, &kind, &error).await;
        }
        ModelAction::Hang => return std::future::pending().await,
    };
    let answer = {
        let mut answered = lock(&mind.answered);
        *answered += 1;
        *answered
    };
    let usage = json!({
        "input_tokens": input(answer), "input_tokens_details": {"cached_tokens": 40},
        "output_tokens": OUTPUT, "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": input(answer) + OUTPUT,
    });
    let events = [
        ("response.created", json!({"response": {"id": "r"}})),
        ("response.output_item.done", json!({"output_index": 0, "item": item})),
        ("response.completed", json!({"response": {"id": "r", "usage": usage}})),
    ];
    let mut text = String::new();
    for (kind, mut event) in events {
        event["type"] = json!(kind);
        text.push_str(&format!("event: {kind}\ndata: {event}\n\n"));
    }
    respond(&mut stream, 200, "text/event-stream", &text).await;
}

/// The head and the body of a request.
async fn read(stream: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.trim().is_empty() {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some((head, body))
}

async fn respond(stream: &mut BufReader<TcpStream>, status: u16, kind: &str, body: &str) {
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all((head + body).as_bytes()).await;
    let _ = stream.shutdown().await;
}
