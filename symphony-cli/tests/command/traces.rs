//! Runs as OpenTelemetry traces: what a collector gets, and that none is waited for.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use rustix::process::Signal;

use crate::program::{Harness, wait_for};

/// Two issues: one is finished at once, of the other every run fails.
const WORKFLOW: &str = "---\ntracker:\n  kind: memory\n  provider:\n    issues:\n      \
    - {identifier: MT-1, title: One, state: Todo}\n      \
    - {identifier: MT-2, title: Two, state: Todo, labels: [fail]}\nworkspace:\n  root: ./work\n\
    hooks:\n  after_run: echo $SYMPHONY_ISSUE_IDENTIFIER >> ../../ended\n\
    agent:\n  kind: scripted\n---\nDo it.\n";

/// A collector that takes everything: its address, and the bodies of what it is sent.
fn collector() -> (String, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, bodies) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let mut stream = BufReader::new(stream);
                while let Some(body) = request(&mut stream) {
                    let _ = sender.send(body);
                    stream
                        .get_mut()
                        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                        .unwrap();
                }
            });
        }
    });
    (address, bodies)
}

/// The body of one request for `/v1/traces`; `None` at the end.
fn request(stream: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut line = String::new();
    stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
    assert!(line.starts_with("POST /v1/traces "), "{line}");
    let mut length = 0;
    while !line.trim().is_empty() {
        line.clear();
        stream.read_line(&mut line).unwrap();
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    Some(body)
}

/// One field of a protobuf message.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    fn bytes(&self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Number(_) => panic!("a number"),
        }
    }

    fn text(&self) -> String {
        String::from_utf8(self.bytes().to_vec()).unwrap()
    }
}

fn number(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let (byte, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return value;
        }
    }
}

/// The fields of a protobuf message, with their numbers.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = number(&mut bytes);
        let mut take = |length: usize| {
            let (taken, rest) = bytes.split_at(length);
            bytes = rest;
            taken
        };
        let field = match tag & 7 {
            0 => Field::Number(number(&mut bytes)),
            1 => Field::Bytes(take(8)),
            5 => Field::Bytes(take(4)),
            2 => {
                let length = number(&mut bytes);
                let (taken, rest) = bytes.split_at(usize::try_from(length).unwrap());
                bytes = rest;
                Field::Bytes(taken)
            }
            other => panic!("a wire type {other}"),
        };
        fields.push((tag >> 3, field));
    }
    fields
}

/// Every field of this number.
fn all<'a>(bytes: &'a [u8], wanted: u64) -> impl Iterator<Item = Field<'a>> {
    fields(bytes).into_iter().filter(move |(number, _)| *number == wanted).map(|(_, field)| field)
}

#[derive(Debug, Clone)]
struct Span {
    trace: Vec<u8>,
    id: Vec<u8>,
    parent: Vec<u8>,
    name: String,
    began: u64,
    ended: u64,
    attributes: BTreeMap<String, String>,
    has_failed: bool,
}

/// The spans of `ExportTraceServiceRequest`.
fn spans(body: &[u8]) -> Vec<Span> {
    let scopes: Vec<&[u8]> =
        all(body, 1).flat_map(|of| all(of.bytes(), 2)).map(|s| s.bytes()).collect();
    let spans = scopes.into_iter().flat_map(|scope| all(scope, 2));
    spans.map(|span| read(span.bytes())).collect()
}

fn read(span: &[u8]) -> Span {
    let one =
        |number| all(span, number).next().map(|field| field.bytes().to_vec()).unwrap_or_default();
    let time = |number| u64::from_le_bytes(one(number).try_into().unwrap());
    let attribute = |pair: Field<'_>| {
        let name = all(pair.bytes(), 1).next().unwrap().text();
        let value = all(pair.bytes(), 2).next().unwrap();
        let value = match fields(value.bytes()).pop().unwrap().1 {
            Field::Number(number) => number.to_string(),
            text @ Field::Bytes(_) => text.text(),
        };
        (name, value)
    };
    let status = one(15);
    Span {
        trace: one(1),
        id: one(2),
        parent: one(4),
        name: String::from_utf8(one(5)).unwrap(),
        began: time(7),
        ended: time(8),
        attributes: all(span, 9).map(attribute).collect(),
        has_failed: matches!(all(&status, 3).next(), Some(Field::Number(2))),
    }
}

#[test]
fn rule_13_1_a_run_is_a_trace_and_its_phases_and_turns_are_spans() {
    let (address, bodies) = collector();
    let mut harness = Harness::new();
    harness.set("OTEL_EXPORTER_OTLP_ENDPOINT", &address);
    harness.write("WORKFLOW.md", WORKFLOW);
    let service = harness.start(&["--log", "off"]);
    wait_for("both runs", || {
        let ended = std::fs::read_to_string(harness.path("ended")).unwrap_or_default();
        ended.contains("MT-1") && ended.contains("MT-2")
    });
    service.signal(Signal::TERM);
    assert_eq!(service.end().0, Some(0));
    let spans: Vec<Span> = bodies.try_iter().flat_map(|body| spans(&body)).collect();
    for (issue, outcome) in [("MT-1", "succeeded"), ("MT-2", "failed")] {
        let is_run = |span: &&Span| {
            span.name == "run"
                && span.attributes.get("issue_identifier").is_some_and(|name| name == issue)
        };
        let run = spans.iter().find(is_run).unwrap_or_else(|| panic!("no {issue} in {spans:#?}"));
        assert_eq!(run.attributes["outcome"], outcome, "{run:#?}");
        assert_eq!(run.has_failed, outcome == "failed", "{run:#?}");
        assert!(run.parent.is_empty() && run.trace.len() == 16, "{run:#?}");
        assert!(run.attributes.contains_key("run") && run.attributes.contains_key("issue_id"));
        let roots = spans.iter().filter(|span| span.trace == run.trace && span.parent.is_empty());
        assert_eq!(roots.count(), 1, "a trace is one run");
        let within = |parent: &Span| -> Vec<Span> {
            let mut within: Vec<Span> =
                spans.iter().filter(|span| span.parent == parent.id).cloned().collect();
            within.sort_by_key(|span| span.began);
            assert!(within.iter().all(|span| span.trace == parent.trace));
            assert!(within.iter().all(|s| s.began >= parent.began && s.ended <= parent.ended));
            within
        };
        let phases = within(run);
        let names: Vec<&str> = phases.iter().map(|span| span.name.as_str()).collect();
        let expected = [
            "preparing_workspace",
            "building_prompt",
            "launching_agent",
            "streaming_turn",
            "finishing",
        ];
        assert_eq!(names, expected, "{issue}");
        let turns = within(&phases[3]);
        assert_eq!(turns.len(), 1, "{turns:#?}");
        let turn = &turns[0];
        assert_eq!((turn.name.as_str(), turn.attributes["turn"].as_str()), ("turn", "1"));
        let ended = if outcome == "failed" { "failed" } else { "completed" };
        assert_eq!(turn.attributes["outcome"], ended);
        assert!(turn.attributes["session_id"].ends_with("-1"), "{turn:#?}");
    }
}

#[test]
fn rule_13_1_an_endpoint_that_is_none_is_told_at_the_start() {
    let mut harness = Harness::new();
    harness.write("WORKFLOW.md", WORKFLOW);
    harness.set("OTEL_EXPORTER_OTLP_ENDPOINT", "no address");
    let shown = harness.run(&[]);
    assert_eq!(shown.code, Some(1), "{shown:#?}");
    assert!(
        shown.stderr.contains("OTEL_EXPORTER_OTLP_ENDPOINT: no traces can be sent"),
        "{shown:#?}"
    );
    assert!(!harness.path("work").exists(), "nothing was begun");
}

#[test]
fn rule_13_1_a_collector_that_is_away_or_hangs_does_not_block_the_service() {
    let away = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    // It lets itself be called, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    for address in [away, silent.local_addr().unwrap()] {
        let mut harness = Harness::new();
        harness.set("OTEL_EXPORTER_OTLP_ENDPOINT", &format!("http://{address}"));
        harness.set("OTEL_BSP_SCHEDULE_DELAY", "1");
        harness.write("WORKFLOW.md", WORKFLOW);
        let service = harness.start(&[]);
        wait_for("a run", || harness.path("ended").exists());
        service.signal(Signal::TERM);
        let (code, log) = service.end();
        assert_eq!(code, Some(0), "{log}");
        assert!(log.contains("service ended"), "{log}");
        if address == away {
            assert!(log.contains("the collector takes no traces"), "{log}");
        }
    }
}
