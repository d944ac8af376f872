//! `symphony doctor`: whether this machine is ready, and a file to pass on.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::looking::{harness, served};
use crate::program::Harness;

fn file(settings: &str) -> String {
    format!(
        "---\ntracker: {{kind: memory}}\nagent: {{kind: scripted}}\nworkspace: {{root: ./work}}\n\
         {settings}---\nWork.\n"
    )
}

/// What is said of a subject.
fn finding(harness: &Harness, subject: &str) -> (String, String) {
    let shown = harness.run(&["doctor", "--json"]);
    let json: Value = serde_json::from_str(&shown.stdout).unwrap();
    let findings = json["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["subject"] == subject);
    let found = found.unwrap_or_else(|| panic!("nothing of {subject} in {json:#}"));
    let text = |key: &str| found[key].as_str().unwrap().to_owned();
    (text("severity"), text("message"))
}

#[test]
fn rule_14_9_doctor_says_what_check_says_and_how_the_machine_is() {
    let harness = harness("");
    harness.write("WORKFLOW.md", &file(""));
    let shown = harness.run(&["doctor"]);
    assert_eq!(shown.code, Some(0), "{shown:#?}");
    for wanted in [
        "WORKFLOW.md can be used\n",
        "\n  version    0.",
        "\n  git        2.",
        "/work will be made\n",
        " are free",
        "\n  lock       is free: no service runs in this root\n",
        "\n  server     no port is set: commands use the socket\n",
        "\n  clock      not checked: ",
        "\n  issues     0 on the board",
    ] {
        assert!(shown.stdout.contains(wanted), "no {wanted:?} in {}", shown.stdout);
    }
    assert!(!harness.path("work").exists(), "it makes nothing");
    harness.write("WORKFLOW.md", &file("polling: {interval_ms: lots}\n"));
    let bad = harness.run(&["doctor"]);
    assert_eq!(bad.code, Some(1), "{bad:#?}");
    for wanted in ["polling.interval_ms: must be", "cannot be used\n", "\n  lock       is free"] {
        assert!(bad.stdout.contains(wanted), "no {wanted:?} in {}", bad.stdout);
    }
    std::fs::write(harness.path("work"), "a file").unwrap();
    assert_eq!(finding(&harness, "root").0, "error");
}

#[test]
fn rule_14_9_doctor_tells_a_running_service_from_another_program() {
    let harness = harness("");
    let (service, url) = served(&harness);
    let port = url.rsplit(':').next().unwrap();
    let with_port = |port: &str| {
        let file = harness.read("WORKFLOW.md");
        let file = file.lines().filter(|line| !line.starts_with("server:"));
        let file = file.collect::<Vec<_>>().join("\n");
        let server = format!("server: {{port: {port}}}\nworkspace:");
        harness.replace("WORKFLOW.md", &file.replace("workspace:", &server));
    };
    let server = finding(&harness, "server").1;
    assert_eq!(server, format!("no port is set; the service answers at {url}"));
    with_port(port);
    let (lock, socket) = (finding(&harness, "lock"), finding(&harness, "socket"));
    assert_eq!(lock.1, format!("held by process {}, a running service", service.id()));
    assert!(socket.1.ends_with("/work/~symphony/socket answers"), "{socket:?}");
    let server = finding(&harness, "server");
    assert_eq!(server.0, "fine", "{server:?}");
    assert!(server.1.ends_with("is answered by the service of this root"), "{server:?}");
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    with_port(&other.local_addr().unwrap().port().to_string());
    let server = finding(&harness, "server");
    assert_eq!(server.0, "error", "{server:?}");
    assert!(server.1.contains("is taken by another program; choose another"), "{server:?}");
    drop(other);
    assert!(finding(&harness, "server").1.ends_with(" is free"));
    service.stop();
    assert_eq!(finding(&harness, "lock").1, "is free: no service runs in this root");
}

#[test]
fn rule_14_9_a_support_file_has_no_secret_in_it() {
    const SECRETS: [&str; 12] = [
        "lin_api_of_the_tracker_0123456789",
        "written-in-the-file-0123456789",
        "token-of-the-server-0123456789",
        "of-an-environment-0123456789",
        "in-a-hook-0123456789",
        "in-a-command-0123456789",
        "in-a-logged-header-0123456789",
        "in-a-logged-assignment-0123456789",
        "in-a-logged-address-0123456789",
        "ghp_0123456789abcdefghij",
        "in-the-prompt-0123456789",
        "in-json-0123456789",
    ];
    let [
        tracker,
        inline,
        server,
        variable,
        hook,
        command,
        header,
        assigned,
        address,
        key,
        prompt,
        json,
    ] = SECRETS;
    let mut harness = harness("");
    harness.set("TRACKER_KEY", tracker);
    harness.set("SERVER_WORD", server);
    harness.set("SOME_API_KEY", variable);
    harness.write(
        "WORKFLOW.md",
        &format!(
            "---\ntracker:\n  kind: linear\n  provider:\n    api_key: $TRACKER_KEY\n    \
             webhook_secret: {inline}\n    project_slug: website-1fa66498be91\n    \
             endpoint: http://x:{address}@127.0.0.1:9/graphql\nserver: {{token: $SERVER_WORD}}\n\
             hooks:\n  before_run: echo {hook}\ncodex:\n  command: OTHER={command} codex app-server\n  \
             password: {json}\nunknown_key: {json}\nworkspace: {{root: ./work}}\n---\n{prompt}\n"
        ),
    );
    std::fs::create_dir(harness.path("logs")).unwrap();
    let cut = "x".repeat(200 * 1024);
    harness.write(
        "logs/symphony.log",
        &format!(
            "{header} {cut}\nINFO a line that stays run=1.2 state=Todo\n\
             WARN failed {tracker} {server} {variable}\nINFO authorization: Bearer {header}\n\
             INFO DATABASE_PASSWORD={assigned} x\nINFO git push https://me:{address}@example.com\n\
             INFO said {key}\nINFO {{\"clientSecret\":\"{json}\"}}\nINFO \u{1b}[31mred\n"
        ),
    );
    let words = ["doctor", "--offline", "--bundle", "support.txt", "--logs-root", "logs"];
    let shown = harness.run(&words);
    assert!(
        shown.stdout.contains("Wrote support.txt; read it before you pass it on"),
        "{shown:#?}"
    );
    let bundle = harness.read("support.txt");
    for secret in SECRETS {
        assert!(!bundle.contains(secret), "{secret} in {bundle}");
    }
    assert!(!bundle.contains('\u{1b}'));
    for wanted in [
        "symphony 0.1.0",
        "INFO a line that stays run=1.2 state=Todo",
        "before_run: (a script of 1 lines)",
        "project_slug: website-1fa66498be91",
        "max_turns: 20",
        "unknown_key: unknown_key",
        "lock: is free",
    ] {
        assert!(bundle.contains(wanted), "no {wanted:?} in {bundle}");
    }
    let mode = std::fs::metadata(harness.path("support.txt")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = harness.run(&words);
    assert_eq!(again.code, Some(1));
    assert!(again.stderr.contains("support.txt is there already; name another file"), "{again:#?}");
}

#[test]
fn rule_14_9_the_clock_is_compared_with_that_of_linear() {
    let mut harness = harness("");
    harness.set("LINEAR_API_KEY", "lin_api_0123456789");
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/graphql", server.local_addr().unwrap());
    let answers = std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        let mut heads = Vec::new();
        for _ in 0..2 {
            let (mut stream, _) = server.accept().unwrap();
            let mut head = vec![0; 4096];
            let length = stream.read(&mut head).unwrap();
            heads.push(String::from_utf8_lossy(&head[..length]).into_owned());
            let date = "Tue, 15 Nov 1994 08:12:31 GMT";
            let answer = format!(
                "HTTP/1.1 400 Bad Request\r\nDate: {date}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
            stream.write_all(answer.as_bytes()).unwrap();
            if heads.len() == 1 && head.starts_with(b"HEAD") {
                break;
            }
        }
        heads
    });
    harness.write(
        "WORKFLOW.md",
        &format!(
            "---\ntracker:\n  kind: linear\n  provider:\n    project_slug: website-1fa66498be91\n    \
             endpoint: {url}\nagent: {{kind: scripted}}\nworkspace: {{root: ./work}}\n---\nHi\n"
        ),
    );
    let (severity, text) = finding(&harness, "clock");
    assert_eq!(severity, "error", "{text}");
    assert!(text.contains(" s ahead of the tracker's; set it by NTP"), "{text}");
    let heads = answers.join().unwrap();
    assert!(heads[0].starts_with("HEAD /graphql"), "{heads:?}");
    assert!(!heads[0].contains("lin_api"), "no key is sent: {heads:?}");
    let offline = harness.run(&["doctor", "--offline"]).stdout;
    assert!(offline.contains("\n  clock      not checked: --offline\n"), "{offline}");
}
