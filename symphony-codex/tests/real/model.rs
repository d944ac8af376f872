//! A model that follows a script, behind HTTP on loopback.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// What the model does when it is asked.
#[derive(Clone, Debug)]
pub(crate) enum Does {
    Say(&'static str),
    Call { tool: &'static str, arguments: Value },
    Refuse(u16),
    Hang,
}

/// A model, and what it was asked.
pub(crate) struct Model {
    pub(crate) port: u16,
    asked: Arc<Mutex<Vec<Value>>>,
    _serving: JoinSet<()>,
}

impl Model {
    pub(crate) async fn new(script: impl IntoIterator<Item = Does>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let script: Arc<Mutex<VecDeque<_>>> = Arc::new(Mutex::new(script.into_iter().collect()));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let mut serving = JoinSet::new();
        let heard = Arc::clone(&asked);
        serving.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                open.spawn(serve(stream, Arc::clone(&script), Arc::clone(&heard)));
            }
        });
        Self { port, asked, _serving: serving }
    }

    /// The bodies of the requests so far.
    pub(crate) fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap().clone()
    }
}

/// One request, one answer.
async fn serve(
    stream: TcpStream,
    script: Arc<Mutex<VecDeque<Does>>>,
    asked: Arc<Mutex<Vec<Value>>>,
) {
    let mut stream = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
            return;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    if !head.starts_with("POST /v1/responses") {
        return respond(&mut stream, 404, "application/json", "{}").await;
    }
    asked.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
    let does = script.lock().unwrap().pop_front();
    let item = match does {
        Some(Does::Say(text)) => json!({
            "type": "message", "role": "assistant", "id": "m",
            "content": [{"type": "output_text", "text": text}],
        }),
        Some(Does::Call { tool, arguments }) => json!({
            "type": "function_call", "id": "f", "call_id": "c", "name": tool,
            "arguments": arguments.to_string(),
        }),
        Some(Does::Refuse(status)) => {
            let error = json!({"error": {"message": "the script says no"}}).to_string();
            return respond(&mut stream, status, "application/json", &error).await;
        }
        Some(Does::Hang) => return std::future::pending().await,
        None => return respond(&mut stream, 500, "text/plain", "the script is over").await,
    };
    let usage = json!({
        "input_tokens": 10, "input_tokens_details": {"cached_tokens": 4},
        "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": 15,
    });
    let events = [
        json!({"type": "response.created", "response": {"id": "r"}}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        json!({"type": "response.completed", "response": {"id": "r", "usage": usage}}),
    ];
    let events: String = events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
        .collect();
    respond(&mut stream, 200, "text/event-stream", &events).await;
}

async fn respond(stream: &mut BufReader<TcpStream>, status: u16, kind: &str, body: &str) {
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all((head + body).as_bytes()).await;
    let _ = stream.shutdown().await;
}
