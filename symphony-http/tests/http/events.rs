//! The event stream.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Value, json};
use symphony_http::Config;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpSocket, TcpStream};

use crate::harness::{Harness, issue};

/// How long a test waits for anything.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// One event as it was sent.
#[derive(Clone, Debug)]
struct Event {
    id: String,
    name: String,
    data: Value,
}

struct Listener {
    lines: tokio::io::Lines<BufReader<TcpStream>>,
    seen: VecDeque<Event>,
}

impl Listener {
    async fn join(harness: &Harness, path: &str, last: Option<&str>) -> Self {
        let mut stream = harness.connect().await;
        let last = last.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{last}\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        Self { lines: BufReader::new(stream).lines(), seen: VecDeque::new() }
    }

    /// The next event; `None` when there are no more. Sizes of chunks are not ours.
    async fn next(&mut self) -> Option<Event> {
        let (mut id, mut name) = (String::new(), String::new());
        let read = async {
            while let Some(line) = self.lines.next_line().await.ok()? {
                if let Some(text) = line.strip_prefix("id: ") {
                    id = text.to_owned();
                } else if let Some(text) = line.strip_prefix("event: ") {
                    name = text.to_owned();
                } else if let Some(text) = line.strip_prefix("data: ") {
                    let data = serde_json::from_str(text).unwrap();
                    return Some(Event { id: id.clone(), name: name.clone(), data });
                }
            }
            None
        };
        tokio::time::timeout(TEST_TIMEOUT, read).await.unwrap()
    }

    /// The next event like this. Others may go on for ever: what does not come in time is missed.
    async fn until(&mut self, is_it: impl Fn(&Event) -> bool) -> Event {
        let wait = async {
            loop {
                let event = self.next().await?;
                self.seen.push_back(event.clone());
                if is_it(&event) {
                    return Some(event);
                }
            }
        };
        let come = tokio::time::timeout(TEST_TIMEOUT, wait).await.ok().flatten();
        come.unwrap_or_else(|| panic!("it did not come: {:#?}", self.seen))
    }
}

fn is_row(event: &Event, list: &str, id: &str) -> bool {
    event.name == "row" && event.data["list"] == list && event.data["issue_id"] == id
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_the_stream_tells_the_state_and_then_what_changes() {
    let harness = Harness::busy().await;
    let mut listener = Listener::join(&harness, "/api/v1/events", None).await;
    let first = listener.next().await.unwrap();
    assert_eq!(
        (first.name.as_str(), &first.data["running"][0]["issue_id"]),
        ("state", &"1".into())
    );
    harness.handle.stop("1".into()).await.unwrap();
    let told =
        listener.until(|event| event.name == "notice" && event.data["event"] == "blocked").await;
    assert_eq!(told.data["issue_identifier"], "MT-1");
    let mut rest = Listener::join(&harness, "/api/v1/events", Some(&first.id)).await;
    // A listener that comes back hears what it has missed, and what all hear.
    for listener in [&mut listener, &mut rest] {
        let gone = |event: &Event| is_row(event, "running", "1") && event.data["row"].is_null();
        if !listener.seen.iter().any(gone) {
            listener.until(gone).await;
        }
        let blocked = |event: &Event| is_row(event, "blocked", "1");
        let known = listener.seen.iter().find(|event| blocked(event)).cloned();
        let row = match known {
            Some(event) => event,
            None => listener.until(blocked).await,
        };
        assert_eq!(row.data["row"]["reason"], "operator");
    }
    assert!(rest.seen.iter().all(|event| event.name != "state"), "{:#?}", rest.seen);
    // A new listener gets the present state.
    let now = Listener::join(&harness, "/api/v1/events", None).await.next().await.unwrap();
    assert_eq!(
        (now.data["running"].clone(), &now.data["counts"]["blocked"]),
        (json!([]), &json!(2))
    );
    let numbers: Vec<u64> = rest
        .seen
        .iter()
        .map(|event| event.id.rsplit_once('-').unwrap().1.parse().unwrap())
        .collect();
    assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{numbers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_an_id_that_is_not_known_any_more_begins_anew() {
    let harness = Harness::busy().await;
    for odd in ["0-0", "nonsense", "ffff-1", "-", "1-99999999999999999999", "\u{fc}"] {
        let mut listener = Listener::join(&harness, "/api/v1/events", Some(odd)).await;
        assert_eq!(listener.next().await.unwrap().name, "state", "{odd}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_rows_appear_and_vanish_in_the_pages_stream() {
    let harness = Harness::with(Config::default(), 2).await;
    let mut listener = Listener::join(&harness, "/live", None).await;
    harness.board.add(issue("7", crate::harness::HOSTILE, "hang"));
    harness.handle.poll_now().unwrap();
    let is_running = |event: &Event| event.data["name"] == "running";
    let html = |event: &Event| event.data["html"].as_str().unwrap().to_owned();
    let shown = listener.until(|event| is_running(event) && html(event).contains("run-MT-7")).await;
    assert!(!html(&shown).contains("<script"), "{}", html(&shown));
    harness.board.set_state("7", "Done");
    harness.handle.poll_now().unwrap();
    listener.until(|event| is_running(event) && html(event).contains("none-running")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_a_client_that_does_not_read_is_disconnected_and_blocks_no_other() {
    let harness = Harness::with(Config::default(), 200).await;
    for number in 0..200 {
        harness.board.add(issue(&format!("n{number}"), &"long ".repeat(40), "hang"));
    }
    harness.handle.poll_now().unwrap();
    harness.until(|now| now.running.len() == 200).await;
    let mut deaf = deaf(&harness).await;
    let mut listener = Listener::join(&harness, "/api/v1/events", None).await;
    listener.next().await.unwrap();
    // Every issue changes again and again, which is more than a socket holds.
    let mut heard = 0;
    for round in 0..40 {
        for number in 0..200 {
            let title = format!("round {round} {}", "word ".repeat(40));
            harness.board.update(&format!("n{number}"), |issue| issue.title = title);
        }
        harness.handle.poll_now().unwrap();
        let word = format!("round {round} ");
        let is_new = |event: &Event| {
            is_row(event, "running", "n99")
                && event.data["row"]["title"].as_str().is_some_and(|title| title.contains(&word))
        };
        listener.until(is_new).await;
        listener.seen.clear();
        heard += 1;
    }
    assert_eq!(heard, 40, "who reads hears all of it");
    let end = tokio::time::timeout(TEST_TIMEOUT, deaf.read_to_end(&mut Vec::new())).await;
    assert!(end.is_ok(), "it was not let go");
}

/// A listener that asks and does not read, with little room for what is sent to it.
async fn deaf(harness: &Harness) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut stream = socket.connect(([127, 0, 0, 1], harness.port).into()).await.unwrap();
    stream.write_all(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    stream
}
