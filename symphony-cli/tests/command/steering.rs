//! Commands to a running service: over its unix socket, without a port and without a token.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt};
use std::os::unix::net::UnixStream;

use rustix::process::Signal;
use serde_json::Value;

use crate::looking::{harness, served};
use crate::program::{Harness, Service, Shown, wait_for};

const SOCKET: &str = "work/~symphony/socket";

/// A service that listens nowhere but on its socket, with one run that never ends.
fn unserved(harness: &Harness) -> Service {
    let mut service = harness.start(&["run"]);
    service.log_until("run started");
    wait_for("the run", || harness.run(&["status"]).stdout.contains("1 of 10 agents"));
    service
}

/// The same file, in which one issue starts alone: its hooks write files.
fn one_at_a_time(harness: &Harness) -> String {
    let file = harness.read("WORKFLOW.md");
    file.replace("kind: scripted\n", "kind: scripted\n  max_concurrent_agents: 1\n")
}

/// A service after another one: what runs is another matter.
fn next(harness: &Harness) -> Service {
    let service = harness.start(&["run"]);
    wait_for("the service", || harness.run(&["refresh"]).code == Some(0));
    service
}

fn fails_with(shown: &Shown, wanted: &str) {
    assert_eq!((shown.code, shown.stdout.as_str()), (Some(1), ""), "{shown:#?}");
    assert!(shown.stderr.contains(wanted), "no {wanted:?} in {shown:#?}");
    assert_eq!(shown.stderr.lines().count(), 1, "one line: {shown:#?}");
}

#[test]
fn rule_14_7_a_service_without_a_port_is_steered_by_its_socket() {
    let harness = harness("");
    let mut service = unserved(&harness);
    let file = std::fs::metadata(harness.path(SOCKET)).unwrap();
    assert!(file.file_type().is_socket());
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
    let says = |words: &[&str], wanted: &str| {
        let shown = harness.run(words);
        assert_eq!(shown.code, Some(0), "{words:?}: {shown:#?}");
        assert_eq!(shown.stdout.trim_end(), wanted, "{words:?}");
    };
    let paused = "paused: nothing starts until it is resumed";
    says(&["pause"], &format!("{paused}; the 1 live run goes on"));
    service.log_until("starts are paused");
    wait_for("the pause", || {
        let shown = harness.run(&["status"]).stdout;
        shown.contains("! paused: nothing starts until it is resumed (`symphony resume`)")
    });
    says(&["pause"], "paused already: nothing starts until it is resumed");
    says(&["resume"], "resumed: issues are started again");
    service.log_until("starts are resumed");
    says(&["clear-holds"], "no agent is held");
    says(&["refresh"], "the tracker is polled now");
    let stopped = "MT-1: stopping; its run ends within 5 s; it stays blocked until it is retried";
    says(&["stop", "mt-1"], stopped);
    service.log_until("stopped by an operator");
    wait_for("the end of the run", || {
        let again = harness.run(&["stop", "MT-1"]).stdout;
        again == "MT-1: blocked already; it stays blocked until it is retried\n"
    });
    says(&["retry", "MT-1"], "MT-1: tried again now");
    service.log_until("run started");
    let explained = || harness.run(&["explain", "MT-1"]).stdout;
    wait_for("the next run", || explained() == "MT-1 (running): an agent works on it\n");
    service.stop();
    assert!(!harness.path(SOCKET).exists(), "it is gone with the service");
}

#[test]
fn rule_14_7_a_command_that_finds_nothing_to_do_is_an_error_with_a_next_step() {
    let harness = harness("");
    for words in [&["pause"][..], &["stop", "MT-1"], &["status"], &["logs", "MT-1"]] {
        fails_with(&harness.run(words), "no service runs in ");
        fails_with(&harness.run(words), "start it with `symphony WORKFLOW.md`");
    }
    let service = unserved(&harness);
    fails_with(&harness.run(&["stop", "MT-77"]), "`symphony explain MT-77` says why");
    fails_with(&harness.run(&["retry", "MT-77"]), "the service knows no issue MT-77");
    fails_with(&harness.run(&["retry", "MT-1"]), "MT-1: this issue neither waits nor is blocked");
    fails_with(&harness.run(&["stop", "MT-2"]), "there is nothing to stop");
    fails_with(&harness.run(&["stop", ".."]), "is not an issue's identifier");
    fails_with(&harness.run(&["stop", "a\u{1b}[2J/../x"]), "knows no issue a\\u{1b}[2J/../x");
    assert_eq!(harness.run(&["stop"]).code, Some(2));
    service.stop();
}

#[test]
fn rule_14_7_commands_print_the_receipt_and_reach_a_port_by_its_url() {
    let harness = harness("");
    let (service, url) = served(&harness);
    for words in [&["pause", "--json"][..], &["pause", "--json", "--url", &url]] {
        let shown = harness.run(words);
        assert_eq!(shown.code, Some(0), "{shown:#?}");
        let receipt: Value = serde_json::from_str(&shown.stdout).unwrap();
        assert_eq!(receipt["operations"][0], "pause", "{receipt:#}");
        assert!(receipt["message"].as_str().unwrap().starts_with("paused"), "{receipt:#}");
    }
    let resumed = harness.run(&["resume", "--url", url.strip_prefix("http://").unwrap()]);
    assert_eq!(resumed.code, Some(0), "{resumed:#?}");
    let status = harness.run(&["status"]).stdout;
    assert!(status.starts_with(&format!("Symphony at {url}: ")), "known by its port: {status}");
    let absent = harness.run(&["pause", "--url", "127.0.0.1:9"]);
    fails_with(&absent, "http://127.0.0.1:9 does not answer");
    service.stop();
}

#[test]
fn rule_14_7_a_socket_that_a_killed_service_left_is_not_asked_and_is_replaced() {
    let harness = harness("");
    let service = unserved(&harness);
    service.signal(Signal::KILL);
    service.end();
    assert!(harness.path(SOCKET).exists());
    fails_with(&harness.run(&["pause"]), "no service runs in ");
    let service = next(&harness);
    // What is not the service's own is left alone at its end.
    std::fs::remove_file(harness.path(SOCKET)).unwrap();
    harness.write(SOCKET, "another");
    service.stop();
    assert_eq!(harness.read(SOCKET), "another");
    let service = next(&harness);
    assert!(std::fs::metadata(harness.path(SOCKET)).unwrap().file_type().is_socket());
    service.stop();
    assert!(!harness.path(SOCKET).exists());
}

#[test]
fn rule_14_7_a_path_too_long_for_a_socket_is_reached_all_the_same() {
    // Also where the process is closed to its own user (14.4).
    let harness = harness("").without_root();
    let root = format!("./{}", "long-name/".repeat(20));
    let file = harness.read("WORKFLOW.md").replace("root: ./work", &format!("root: {root}"));
    harness.write("WORKFLOW.md", &file);
    let service = unserved(&harness);
    let socket = harness.path(&format!("{root}~symphony/socket"));
    assert!(socket.as_os_str().len() > 200, "this shows nothing");
    let shown = harness.run(&["pause"]);
    assert_eq!(shown.code, Some(0), "{shown:#?}");
    service.stop();
    assert!(!socket.exists());
}

#[test]
fn rule_14_7_a_service_without_a_socket_is_not_said_to_be_none() {
    let harness = harness("");
    // As an agent could, which may write there.
    std::fs::create_dir_all(harness.path("work")).unwrap();
    let closed = std::fs::Permissions::from_mode(0o700);
    for folder in ["work", "work/~symphony"] {
        let _ = std::fs::create_dir(harness.path(folder));
        std::fs::set_permissions(harness.path(folder), closed.clone()).unwrap();
    }
    std::fs::create_dir(harness.path("work/~symphony/socket")).unwrap();
    let mut service = harness.start(&["run"]);
    service.log_until("there is no socket");
    let shown = harness.run(&["pause"]);
    let wanted = format!("(process {}) has no socket, its log says why", service.id());
    assert!(shown.code == Some(1) && shown.stderr.contains(&wanted), "{shown:#?}");
    service.stop();
}

#[test]
fn rule_14_7_the_socket_needs_no_token_and_refuses_agents_and_hooks() {
    let mut harness = harness("");
    let program = env!("CARGO_BIN_EXE_symphony");
    let base = harness.path("");
    // Also one that has left its session, and one whose parent has ended.
    let script = format!(
        "cd '{}'; '{program}' pause > hook.txt 2>&1; setsid -w '{program}' pause >> hook.txt 2>&1; \
         (setsid sh -c \"sleep 0.1; '{program}' pause >> hook.txt 2>&1; touch asked\" &); \
         while ! test -e asked; do sleep 0.02; done",
        base.display()
    );
    let settings =
        format!("server: {{token: $TOKEN_HERE}}\nhooks:\n  after_create: |\n    {script}\n");
    harness.set("TOKEN_HERE", "a-token-of-decent-length");
    let file = one_at_a_time(&harness).replace("workspace:\n", &format!("{settings}workspace:\n"));
    harness.write("WORKFLOW.md", &file);
    let mut service = harness.start(&["run"]);
    service.log_until("hook ended");
    let said = harness.read("hook.txt");
    let refused = "error: the socket is for operators, and this request comes from a process that \
                   the service has started";
    assert!(said.lines().count() >= 3, "{said}");
    assert!(said.lines().all(|line| line.starts_with(refused)), "{said}");
    harness.set("TOKEN_HERE", "");
    let shown = harness.run(&["pause"]);
    assert_eq!(shown.code, Some(0), "an operator without the token: {shown:#?}");
    assert!(shown.stdout.starts_with("paused: "), "no hook has paused it: {shown:#?}");
    service.stop();
}

#[test]
fn rule_14_7_a_hook_asks_the_port_and_needs_the_token_where_one_is_set() {
    let mut harness = harness("");
    harness.set("TOKEN_HERE", "a-token-of-decent-length");
    let program = env!("CARGO_BIN_EXE_symphony");
    let script = format!("cd ../..; '{program}' refresh > hook.txt 2>&1");
    let file = one_at_a_time(&harness);
    for (server, wanted) in [("", "the tracker is "), ("server: {token: $TOKEN_HERE}\n", "error: ")]
    {
        let settings = format!("{server}hooks:\n  before_run: {script}\nworkspace:\n");
        harness.write("WORKFLOW.md", &file.replace("workspace:\n", &settings));
        let mut service = harness.start(&["run", "--port", "0"]);
        service.log_until("hook ended");
        let said = harness.read("hook.txt");
        assert!(said.starts_with(wanted), "{server}: {said}");
        service.stop();
    }
}

#[test]
fn rule_14_7_root_steers_the_service_of_a_user_and_no_other_user_does_as_root() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can be two users");
        return;
    }
    let user = harness("").without_root();
    let service = unserved(&user);
    let path = user.path("WORKFLOW.md");
    let path = path.to_str().unwrap();
    let run_as = |id: u32, words: &[&str]| {
        let mut command = std::process::Command::new("setpriv");
        let id = id.to_string();
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]);
        command.arg(env!("CARGO_BIN_EXE_symphony")).args(words).env_remove("SYMPHONY_URL");
        command.current_dir("/").output().unwrap()
    };
    let root = run_as(0, &["pause", path]);
    let said = String::from_utf8_lossy(&root.stdout);
    assert!(said.starts_with("paused: "), "{root:?}");
    let other = run_as(65_533, &["pause", path]);
    let said = String::from_utf8_lossy(&other.stderr);
    assert!(said.contains("error: "), "{other:?}");
    // Nor where the file would let it in: the kernel names the user of the other end.
    std::fs::hard_link(user.path(SOCKET), user.path("open")).unwrap();
    for name in ["", "open"] {
        std::fs::set_permissions(user.path(name), PermissionsExt::from_mode(0o777)).unwrap();
    }
    let script = "use IO::Socket::UNIX; $SIG{PIPE} = 'IGNORE'; my $s = IO::Socket::UNIX->new(Peer => $ARGV[0]) or die; \
                  $s->print(qq(GET /api/v1/state HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n)); $s->flush; \
                  $s->read(my $answer, 10); print 'connected, and heard ', length($answer);";
    let mut perl = std::process::Command::new("setpriv");
    perl.args(["--reuid", "65533", "--regid", "65533", "--clear-groups", "perl", "-e", script]);
    let socket = user.path("open");
    let other = perl.arg(&socket).current_dir("/").output().unwrap();
    let said = String::from_utf8_lossy(&other.stdout);
    assert_eq!(said, "connected, and heard 0", "{other:?}");
    let mut own = UnixStream::connect(socket).unwrap();
    own.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    own.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    service.stop();
}

#[test]
fn rule_14_7_a_foreign_host_is_refused_on_the_socket_too() {
    let harness = harness("");
    let service = unserved(&harness);
    for (host, wanted) in [("localhost", "HTTP/1.1 200"), ("evil.example", "HTTP/1.1 403")] {
        let mut stream = UnixStream::connect(harness.path(SOCKET)).unwrap();
        let request =
            format!("GET /api/v1/state HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with(wanted), "{answer}");
    }
    service.stop();
}

#[test]
fn rule_14_1_a_watched_status_is_printed_again_over_a_restart() {
    let harness = harness("");
    let service = unserved(&harness);
    let mut watch = harness.start_watch(&["status", "--watch=1"]);
    watch.until("1 of 10 agents");
    watch.until("1 of 10 agents");
    service.stop();
    watch.until("no service runs in ");
    let service = next(&harness);
    watch.until("of 10 agents");
    service.stop();
}
