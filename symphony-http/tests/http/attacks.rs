//! What must be refused, and is.

use std::time::Duration;

use secrecy::SecretString;
use symphony_http::{BindError, Config, Server};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::harness::{Harness, connect};

/// Every route, with its method.
fn routes() -> Vec<(String, String)> {
    let document = symphony_http::document();
    let paths = document["paths"].as_object().unwrap();
    let api = paths.iter().map(|(path, operations)| {
        let method = operations.as_object().unwrap().keys().next().unwrap().to_uppercase();
        (method, path.replace("{identifier}", "MT-1").replace("{tracker}", "linear"))
    });
    let pages = [
        "/",
        "/issues/MT-1",
        "/live",
        "/assets/app.js",
        "/assets/style.css",
        "/assets/icon.svg",
        "/nowhere",
    ];
    api.chain(pages.map(|path| ("GET".to_owned(), path.to_owned()))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_a_host_that_is_not_this_server_is_refused_on_every_route() {
    let harness = Harness::busy().await;
    let port = harness.port;
    for (method, path) in routes() {
        for host in [
            format!("Host: evil.example:{port}"),
            "Host: evil.example".to_owned(),
            format!("Host: 127.0.0.1.evil.example:{port}"),
            format!("Host: localhost.evil.example:{port}"),
            format!("Host: evil.example@127.0.0.1:{port}"),
            "Host: 10.0.0.1".to_owned(),
            "Host: ".to_owned(),
            "X-Forwarded-Host: 127.0.0.1".to_owned(),
            format!("Host: 127.0.0.1:{port}\r\nHost: evil.example"),
        ] {
            let request =
                format!("{method} {path} HTTP/1.1\r\n{host}\r\nConnection: close\r\n\r\n");
            let reply = harness.say(&request).await;
            // A broken request may be refused before it gets here.
            assert!([400, 403].contains(&reply.status), "{request}{reply:?}");
        }
        let absolute = format!(
            "{method} http://evil.example{path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n"
        );
        assert_eq!(harness.say(&absolute).await.code(), "forbidden", "{absolute}");
    }
    assert!(!harness.handle.last_snapshot().paused, "nothing was done");
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_a_page_of_another_site_is_refused_on_every_route() {
    let harness = Harness::busy().await;
    let port = harness.port;
    for (method, path) in routes() {
        for line in [
            "Origin: https://evil.example",
            "Origin: null",
            "Origin: http://localhost.evil.example",
            "Origin: http://127.0.0.1:1",
            "Origin: file://",
            "Origin: ",
            "Sec-Fetch-Site: cross-site",
            "Sec-Fetch-Site: same-site",
        ] {
            let reply = harness.ask(&method, &path, &format!("{line}\r\n"), "").await;
            assert_eq!((reply.status, reply.code().as_str()), (403, "forbidden"), "{path} {line}");
            assert_eq!(reply.header("access-control-allow-origin"), None);
        }
    }
    let own = format!("Origin: http://127.0.0.1:{port}\r\nSec-Fetch-Site: same-origin\r\n");
    assert_eq!(harness.ask("POST", "/api/v1/refresh", &own, "").await.status, 202);
    // Following a link from elsewhere is reading, and the browser shows no more than its user asked.
    let link = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n";
    assert_eq!(harness.ask("GET", "/", link, "").await.status, 200);
    assert_eq!(harness.ask("POST", "/api/v1/pause", link, "").await.status, 403);
    assert!(!harness.handle.last_snapshot().paused, "nothing was done");
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_a_form_cannot_send_a_command() {
    let harness = Harness::busy().await;
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonp",
    ] {
        for body in ["", "{}"] {
            let line = format!("Content-Type: {kind}\r\n");
            let reply = harness.ask("POST", "/api/v1/pause", &line, body).await;
            assert_eq!(
                (reply.status, reply.code().as_str()),
                (415, "unsupported_media_type"),
                "{kind}"
            );
        }
    }
    let json = "Content-Type: application/json; charset=utf-8\r\n";
    for body in ["no json", "[]", "1"] {
        assert_eq!(harness.ask("POST", "/api/v1/pause", json, body).await.code(), "bad_body");
    }
    assert!(!harness.handle.last_snapshot().paused, "nothing was done");
    assert_eq!(harness.ask("POST", "/api/v1/pause", json, "{\"why\": 1}").await.status, 202);
}

fn with_token(token: &str) -> Config {
    Config { token: Some(SecretString::from(token)), ..Config::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_without_the_token_nothing_is_told() {
    let token = "0123456789abcdef0123";
    let harness = Harness::with(with_token(token), 1).await;
    let basic = "Authorization: Basic OjAxMjM0NTY3ODlhYmNkZWYwMTIz\r\n";
    // From another address each: a peer with many wrong tokens is not listened to.
    for (end, (method, path)) in (2..).zip(routes()) {
        let is_open = ["/healthz", "/readyz"].contains(&&*path) || path.starts_with("/webhooks");
        for wrong in [
            String::new(),
            "Authorization: Bearer \r\n".to_owned(),
            "Authorization: Bearer 0123456789abcdef0124\r\n".to_owned(),
            format!("Authorization: Bearer {token}0\r\n"),
            format!("Authorization: Digest {token}\r\n"),
            format!("Authorization: {token}\r\n"),
            format!("Cookie: token={token}\r\n"),
        ] {
            let reply = harness.ask_from(end, &method, &path, &wrong, "").await;
            if is_open {
                assert_ne!(reply.status, 401, "{path}");
            } else {
                assert_eq!(
                    (reply.status, reply.code().as_str()),
                    (401, "unauthorized"),
                    "{path} {wrong}"
                );
                assert!(reply.header("www-authenticate").unwrap().starts_with("Basic"));
                assert!(!reply.body.contains(token));
            }
        }
    }
    let right = format!("Authorization: Bearer {token}\r\n");
    assert_eq!(harness.ask("GET", "/api/v1/state", &right, "").await.status, 200);
    assert_eq!(harness.ask("GET", "/", basic, "").await.status, 200);
    let asked = format!("/api/v1/state?token={token}");
    assert_eq!(harness.get(&asked).await.status, 401, "not in an address, which is written down");
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_an_address_for_everybody_answers_to_itself_and_to_names_it_knows() {
    let mut config = with_token("0123456789abcdef");
    config.host = "0.0.0.0".to_owned();
    config.allowed_hosts = vec!["Symphony.Example".to_owned()];
    let harness = Harness::with(config, 1).await;
    for (host, status) in [
        ("10.1.2.3:4000", 401),
        ("symphony.example", 401),
        ("SYMPHONY.example:443", 401),
        ("localhost", 401),
        ("evil.example", 403),
        ("symphony.example.evil.example", 403),
    ] {
        let request =
            format!("GET /api/v1/state HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        assert_eq!(harness.say(&request).await.status, status, "{host}");
    }
    let refused = Server::bind(&Config { host: "0.0.0.0".to_owned(), ..Config::default() }).await;
    assert!(matches!(refused, Err(BindError::Config(_))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_a_taken_port_is_a_clear_error() {
    let harness = Harness::with(Config::default(), 1).await;
    let taken =
        Server::bind(&Config { port: harness.port, ..Config::default() }).await.unwrap_err();
    let text = taken.to_string();
    assert!(text.contains(&format!("port {} is in use already", harness.port)), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_what_is_too_large_is_refused() {
    let harness = Harness::with(Config::default(), 1).await;
    let json = "Content-Type: application/json\r\n";
    let large = format!("{{\"a\": \"{}\"}}", "x".repeat(20_000));
    let reply = harness.ask("POST", "/api/v1/pause", json, &large).await;
    assert_eq!((reply.status, reply.code().as_str()), (413, "body_too_large"));
    // One that does not say how long it is.
    let chunk = format!("{:x}\r\n{large}\r\n", large.len());
    let chunked = format!(
        "POST /api/v1/pause HTTP/1.1\r\nHost: localhost\r\n{json}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n{chunk}0\r\n\r\n"
    );
    assert_eq!(harness.say(&chunked).await.status, 413);
    let delivery = "x".repeat((1 << 20) + 1);
    assert_eq!(harness.ask("POST", "/webhooks/linear", "", &delivery).await.status, 413);
    let long = format!("/api/v1/{}", "x".repeat(40_000));
    assert_eq!(harness.get(&long).await.code(), "address_too_long");
    let longer = format!("/api/v1/{}", "x".repeat(400_000));
    assert!([414, 431].contains(&harness.get(&longer).await.status));
    let lines = "X: y\r\n".repeat(200);
    assert_eq!(harness.ask("GET", "/api/v1/state", &lines, "").await.status, 431);
    assert!(!harness.handle.last_snapshot().paused, "nothing was done");
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_a_path_is_a_name_and_never_a_place() {
    let harness = Harness::busy().await;
    for path in [
        "/api/v1/..%2f..%2fetc%2fpasswd",
        "/api/v1/%2e%2e",
        "/api/v1/%00",
        "/api/v1/MT-1%00",
        "/api/v1/MT-1%0d%0aX:%20y",
        "/api/v1/%3Cscript%3E",
        "/api/v1/MT-1%20",
        "/api/v1/mt-1",
        "/assets/..%2fapp.js",
        "/issues/..%2f..%2fsecret",
        "/api/v1/../../etc/passwd",
        "//etc/passwd",
    ] {
        let reply = harness.get(path).await;
        assert_eq!(reply.status, 404, "{path} {reply:?}");
        assert_eq!(reply.header("x"), None, "{path}");
        // In JSON it is text, and no browser is to guess otherwise.
        let is_json = reply.header("content-type") == Some("application/json");
        assert!(is_json || !reply.body.contains("<script>"), "{path}");
        assert!(reply.body.chars().all(|c| c == '\n' || symphony_core::is_plain(c)), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_a_request_that_never_ends_is_given_up() {
    let harness = Harness::with(Config::default(), 1).await;
    for slow in [
        "",
        "GET /api/v1/state HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
        "POST /api/v1/pause HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{",
    ] {
        let mut stream = harness.connect().await;
        stream.write_all(slow.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let read =
            tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut answer)).await;
        assert!(read.is_ok(), "it was waited for: {slow}");
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.contains(" 408 "), "{answer}");
    }
    assert_eq!(harness.get("/healthz").await.status, 200);
    assert!(!harness.handle.last_snapshot().paused, "nothing was done");
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_every_answer_tells_a_browser_to_be_careful() {
    let harness = Harness::busy().await;
    for (method, path) in routes() {
        if ["/api/v1/events", "/live"].contains(&&*path) {
            continue; // have no end
        }
        let reply = harness.ask(&method, &path, "", "").await;
        let policy = reply.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'"), "{path}");
        for word in ["unsafe", "http:", "https:", "data:", "*"] {
            assert!(!policy.contains(word), "{path}: {policy}");
        }
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-store"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(reply.header(name), Some(value), "{path}");
        }
    }
}

/// Sends this and no more, and comes back a moment after the connection is closed.
async fn hold(mut stream: TcpStream, port: u16, words: &'static str) {
    loop {
        let _ = stream.write_all(words.as_bytes()).await;
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        if let Ok(again) = connect(port, 1).await {
            stream = again;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rule_13_3_half_open_connections_do_not_starve_requests() {
    let right = "Authorization: Bearer 0123456789abcdef\r\n";
    for words in [
        "",
        "GET / HTTP/1.1\r\nX",
        "POST /webhooks/linear HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{",
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ] {
        let harness = Harness::with(with_token("0123456789abcdef"), 1).await;
        let mut held = JoinSet::new();
        for _ in 0..600 {
            // One after the other: of many at once the kernel would drop some without a word.
            held.spawn(hold(harness.connect().await, harness.port, words));
        }
        let (mut probes, mut evicted) = (0, 0);
        while probes < 20 || evicted < 100 {
            // As long as a supervisor waits. A server without room answers after twice that, when
            // the first half-open connection times out.
            let probe = tokio::time::timeout(Duration::from_secs(5), harness.get("/healthz")).await;
            assert_eq!(probe.map(|reply| reply.status), Ok(200), "probe {probes} {words:?}");
            assert!(probes < 2_000, "the table of connections is never full");
            let metrics = harness.ask("GET", "/metrics", right, "").await.body;
            let mut lines = metrics.lines();
            let count = lines
                .find_map(|line| line.strip_prefix("symphony_http_evicted_connections_total "));
            evicted = count.unwrap().parse().unwrap();
            probes += 1;
            // Each probe costs a port for a minute: no more of them than are needed.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(harness.ask("GET", "/api/v1/state", right, "").await.status, 200);
        assert_eq!(harness.post("/webhooks/linear").await.status, 404, "deliveries are looked at");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_one_peer_cannot_take_all_event_streams() {
    let harness = Harness::with(Config::default(), 1).await;
    // One connection for four descriptors, at most 512; three quarters of them may be streams.
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let connections = usize::try_from(files.unwrap_or(u64::MAX) / 4).unwrap().clamp(8, 512);
    let streams = (connections - connections / 4).min(256);
    let of_one_address = streams - streams / 4;
    for path in ["/api/v1/events", "/live"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let (mut listeners, mut refused) = (Vec::new(), 0);
        for _ in 0..200 {
            let mut stream = harness.connect().await;
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut status = [0; 12];
            stream.read_exact(&mut status).await.unwrap();
            refused += usize::from(status.ends_with(b"503"));
            listeners.push(stream);
        }
        assert_eq!(refused, 200 - of_one_address, "{path}: of {streams}, some are for others");
        let mut stream = harness.connect_from(2).await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).await.unwrap();
        assert!(status.ends_with(b"200"), "{path}: another address gets in");
        drop((listeners, stream));
        // Places are given back when their loss is noticed.
        let free = async { while harness.get("/healthz").await.status != 200 {} };
        tokio::time::timeout(Duration::from_secs(60), free).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_13_3_wrong_tokens_are_rate_limited_and_counted() {
    let token = "0123456789abcdef";
    let harness = Harness::with(with_token(token), 1).await;
    let right = format!("Authorization: Bearer {token}\r\n");
    // A connection that has shown it, and goes on.
    let mut known = harness.connect().await;
    let request = format!("HEAD /api/v1/state HTTP/1.1\r\nHost: localhost\r\n{right}\r\n");
    assert!(head(&mut known, &request).await.starts_with("HTTP/1.1 200"));
    let (mut wrong, mut refused) = (0, 0);
    for number in 0..200 {
        let guess = format!("Authorization: Bearer {number:016}\r\n");
        let reply = harness.ask("GET", "/api/v1/state", &guess, "").await;
        match reply.status {
            401 => wrong += 1,
            429 => {
                assert_eq!(reply.code(), "too_many_guesses");
                let wait: u64 = reply.header("retry-after").unwrap().parse().unwrap();
                assert!((1..=2).contains(&wait), "{wait}");
                refused += 1;
            }
            other => panic!("{other}"),
        }
    }
    assert!(wrong >= 30 && refused >= 100, "{wrong} looked at, {refused} not");
    assert_eq!(harness.get("/api/v1/state").await.status, 401, "who shows none is asked for one");
    assert_eq!(harness.get("/healthz").await.status, 200);
    // On loopback an agent must not be able to lock its operator out.
    assert_eq!(harness.ask("GET", "/api/v1/state", &right, "").await.status, 200);
    assert_eq!(harness.ask_from(2, "GET", "/api/v1/state", &right, "").await.status, 200);
    let metrics = harness.ask_from(2, "GET", "/metrics", &right, "").await.body;
    assert!(metrics.contains(&format!("symphony_http_wrong_tokens_total {wrong}\n")), "{metrics}");
    assert!(metrics.contains("symphony_http_throttled_total "), "{metrics}");
    let again = head(&mut known, &request).await;
    assert!(again.starts_with("HTTP/1.1 200"), "who is known goes on: {again}");
}

/// The head of an answer without a body.
async fn head(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}
