//! A tracker, or a gateway before it, that repeats the key it was sent: the key is shown nowhere
//! (contract 11.7).

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use rustix::process::Signal;
use symphony_linear_fake::{Fake, FakeIssue, FakeServer, KEY};

use crate::linear::runtime;
use crate::program::{Harness, Service, files, wait_for};

/// An HTTP server that answers every request with this status and the key it was shown, also where
/// an error that is cut short would hold a part of it.
fn parrot(status: u16) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let endpoint = format!("http://{}/graphql", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || repeat(stream.unwrap(), status));
        }
    });
    endpoint
}

fn repeat(stream: TcpStream, status: u16) {
    let mut reader = BufReader::new(stream);
    let (mut key, mut length, mut line) = (String::new(), 0, String::new());
    while reader.read_line(&mut line).unwrap_or_default() > 2 {
        let (name, value) = line.trim().split_once(": ").unwrap_or_default();
        match name.to_ascii_lowercase().as_str() {
            "authorization" => value.clone_into(&mut key),
            "content-length" => length = value.parse().unwrap(),
            _ => {}
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap_or_default();
    let escaped: String = key.bytes().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "\\u{byte:04x}");
        text
    });
    let body = format!(
        r#"{{"errors":[{{"message":"denied for {key} and {escaped} {} {key}"}}]}}"#,
        "x".repeat(430)
    );
    let head = format!("HTTP/1.1 {status} Odd\r\nConnection: close\r\nX-Echo: {key}");
    let length = body.len();
    let answer = format!("{head}\r\nContent-Length: {length}\r\n\r\n{body}");
    let _ = reader.get_mut().write_all(answer.as_bytes());
}

/// What a running service answers.
fn get(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn port(service: &mut Service, log: &mut Vec<String>) -> u16 {
    log.extend(service.log_until("dashboard and API are served"));
    let line = log.last().unwrap();
    let digits = line.rsplit_once(':').unwrap().1;
    digits.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

fn workflow(endpoint: &str, codex: &str) -> String {
    format!(
        "---\ntracker:\n  kind: linear\n  provider: {{endpoint: '{endpoint}', project_slug: abc123}}\n\
         workspace: {{root: ./work}}\npolling: {{interval_ms: 1000}}\ncodex:\n  command: {codex}\n---\n\
         {{{{ issue.title }}}} {{{{ issue.description }}}}\n"
    )
}

/// Whether any part of the key is in this: enough of it to be of use.
fn shows_key(text: &str, key: &str) -> bool {
    text.contains(&key[..key.len() * 3 / 4])
}

#[test]
fn rule_11_7_an_answer_that_repeats_the_key_shows_it_nowhere() {
    let key = "lin_api_SECRETsecret0123456789abcdefghijklm";
    for status in [200, 400, 401, 429, 500] {
        let mut harness = Harness::new();
        harness.set("LINEAR_API_KEY", key);
        harness.write("WORKFLOW.md", &workflow(&parrot(status), "'true'"));
        let checked = harness.run(&["check"]);
        assert!(checked.stdout.contains("denied for [redacted]"), "{status} {checked:#?}");
        let explained = harness.run(&["explain"]);
        assert!(explained.stderr.contains("denied for"), "{status} {explained:#?}");
        let mut service = harness.start(&["run", "--log", "trace", "--port", "0"]);
        let mut log = Vec::new();
        let port = port(&mut service, &mut log);
        log.extend(service.log_until("denied for"));
        let mut shown = String::new();
        wait_for("the error in the state", || {
            shown = get(port, "/api/v1/state");
            shown.contains("denied for")
        });
        for path in ["/", "/metrics", "/api/v1/explain"] {
            shown.push_str(&get(port, path));
        }
        service.signal(Signal::TERM);
        log.push(service.end().1);
        let printed = [checked.stdout, checked.stderr, explained.stdout, explained.stderr];
        log.extend(printed);
        log.push(shown);
        let shown: Vec<&String> = log.iter().filter(|text| shows_key(text, key)).collect();
        assert!(shown.is_empty(), "{status}: {shown:#?}");
    }
}

/// An app-server that asks for its issue by the tool, and writes down all it is told.
const ASKING: &str = r#"
turn() {
    echo '{"id":"call","method":"item/tool/call","params":{"threadId":"th","turnId":"tu","callId":"c","tool":"linear_graphql","arguments":{"query":"{ issues { nodes { title description } } }"}}}'
}
while read -r line; do
    echo "$line" >> ../../told
    id=$(echo "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    case "$line" in
        *'"method":"initialize"'*) echo "{\"id\":$id,\"result\":{\"userAgent\":\"fake/0.166.0\"}}" ;;
        *'"method":"thread/start"'*) echo "{\"id\":$id,\"result\":{\"thread\":{\"id\":\"th\"}}}" ;;
        *'"method":"thread/name/set"'*) echo "{\"id\":$id,\"result\":{}}" ;;
        *'"method":"turn/start"'*) echo "{\"id\":$id,\"result\":{\"turn\":{\"id\":\"tu\"}}}"; turn ;;
        *'"id":"call"'*) touch ../../answered ;;
    esac
done
"#;

#[test]
fn rule_11_7_an_issue_that_holds_the_key_shows_it_to_no_agent() {
    let (runtime, fake) = (runtime(), Fake::new());
    let title = format!("Rotate {KEY} \"{KEY}\"");
    let escaped: String = KEY.bytes().map(|byte| format!("\\u{byte:04x}")).collect();
    let description = Some(format!("Spelled {escaped}, of {KEY}"));
    let labels = vec![format!("of {KEY}")];
    fake.put([FakeIssue { title, description, labels, ..FakeIssue::new(1) }]);
    let server = runtime.block_on(FakeServer::start(fake)).unwrap();
    let mut harness = Harness::new();
    harness.set("LINEAR_API_KEY", KEY);
    harness.write("server.sh", ASKING);
    harness.write("WORKFLOW.md", &workflow(&server.endpoint(), "bash ../../server.sh"));
    let prompt = harness.run(&["prompt", "MT-1"]);
    let mut service = harness.start(&["--log", "trace", "--port", "0", "--logs-root", "logs"]);
    let mut shown = vec![prompt.stdout, prompt.stderr];
    let port = port(&mut service, &mut shown);
    wait_for("an answer of the tool", || {
        shown.push(service.heard());
        harness.path("answered").exists()
    });
    for path in ["/", "/api/v1/state", "/api/v1/MT-1", "/issues/MT-1"] {
        shown.push(get(port, path));
    }
    service.signal(Signal::TERM);
    shown.push(service.end().1);
    shown.push(harness.read("logs/symphony.log"));
    let runs = files(&harness.path("logs/runs")).into_iter().flat_map(|issue| files(&issue));
    shown.extend(runs.map(|run| std::fs::read_to_string(run).unwrap()));
    let told = harness.read("told");
    for wanted in ["Rotate [redacted]", r#""id":"call""#] {
        assert!(told.contains(wanted), "no {wanted} in {told}");
    }
    shown.push(told);
    let leaks: Vec<&String> =
        shown.iter().filter(|text| text.contains(KEY) || text.contains(&escaped)).collect();
    assert!(leaks.is_empty(), "{leaks:#?}");
}
