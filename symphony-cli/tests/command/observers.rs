//! Observers may fail in any way: the work goes on, and the end is clean (contract 13.1).

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::program::{Harness, Unheard, wait_for};

/// How many issues there are to finish.
const ISSUES: usize = 5;

/// A harness with issues that are finished at once; before each run there is this hook. That an issue
/// is done is told by the removal of its workspace.
fn harness(before_run: &str) -> Harness {
    let harness = Harness::new();
    let issue = |number| format!("      - {{identifier: MT-{number}, title: T, state: Todo}}\n");
    let file = format!(
        "---\ntracker:\n  kind: memory\n  provider:\n    issues:\n{}workspace:\n  root: ./work\n\
         hooks:\n  before_run: \"{before_run}\"\n  before_remove: echo done >> ../../done\n\
         agent:\n  kind: scripted\nlogging:\n  level: trace\n  max_bytes: 2000\n---\nDo it.\n",
        (0..ISSUES).map(issue).collect::<String>(),
    );
    harness.write("WORKFLOW.md", &file);
    harness
}

/// Waits until every issue is done, and for a clean end.
fn all_is_done(mut harness: Harness, service: Unheard) {
    wait_for("every issue", || {
        let done = std::fs::read_to_string(harness.path("done")).unwrap_or_default();
        done.lines().count() >= ISSUES
    });
    assert_eq!(service.stop(), Some(0));
    harness.wait_until_nothing_is_left();
}

#[test]
fn rule_13_1_a_full_disk_for_logs_stops_no_work() {
    let harness = harness("true");
    std::fs::create_dir_all(harness.path("logs")).unwrap();
    symlink("/dev/full", harness.path("logs/symphony.log")).unwrap();
    // Its way is blocked too.
    harness.write("logs/runs", "");
    let full = File::options().write(true).open("/dev/full").unwrap();
    let service = harness.start_into(full, &["--logs-root", "logs"]);
    all_is_done(harness, service);
}

#[test]
fn rule_13_1_a_folder_for_logs_that_goes_stops_no_work() {
    let harness = harness("rm -rf ../../logs; touch ../../logs");
    let service = harness.start_into(Stdio::null(), &["--logs-root", "logs"]);
    all_is_done(harness, service);
}

#[test]
fn rule_13_1_a_folder_for_runs_that_goes_stops_no_work_and_is_made_again() {
    let harness = harness("rm -rf ../../logs/runs");
    let service = harness.start_into(Stdio::null(), &["--logs-root", "logs"]);
    wait_for("a run that is kept", || harness.path("logs/runs").exists());
    all_is_done(harness, service);
}

#[test]
fn rule_13_1_no_standard_error_stops_no_work() {
    let harness = harness("true");
    let service = harness.start_mute(&[]);
    all_is_done(harness, service);
}

#[test]
fn rule_13_1_a_pipe_without_a_reader_stops_no_work() {
    let harness = harness("true");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let service = harness.start_into(writer, &[]);
    all_is_done(harness, service);
}

#[test]
fn rule_13_1_an_unread_pipe_stops_no_work() {
    let harness = harness("true");
    let (reader, mut writer) = std::io::pipe().unwrap();
    // Full before anything is logged.
    let flags = rustix::fs::fcntl_getfl(&writer).unwrap();
    rustix::fs::fcntl_setfl(&writer, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
    while writer.write(&[b'x'; 4096]).is_ok() {}
    rustix::fs::fcntl_setfl(&writer, flags).unwrap();
    let service = harness.start_into(writer, &[]);
    all_is_done(harness, service);
    drop(reader);
}

#[test]
fn rule_13_1_a_terminal_that_is_gone_stops_no_work() {
    let harness = harness("while [ ! -e ../../go ]; do sleep 0.05; done");
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    let screen = File::options().read(true).write(true).open(name).unwrap();
    let service = harness.start_into(screen, &[]);
    let mut terminal = File::from(terminal);
    let mut shown = String::new();
    while !shown.contains("run started") {
        let mut piece = [0; 1000];
        let read = terminal.read(&mut piece).unwrap();
        shown.push_str(&String::from_utf8_lossy(&piece[..read]));
    }
    assert!(shown.contains("\u{1b}["), "a terminal has colours");
    drop(terminal);
    harness.write("go", "");
    all_is_done(harness, service);
}

#[test]
fn rule_13_3_clients_that_stand_still_stop_no_work() {
    let harness = harness("while [ ! -e ../../go ]; do sleep 0.05; done");
    let log = File::create(harness.path("log")).unwrap();
    let service = harness.start_into(log, &["--port", "0"]);
    let mut address = String::new();
    wait_for("the port", || {
        let log = harness.read("log");
        let told = log.lines().filter_map(|line| line.split_once(" address="));
        address = told.map(|(_, address)| address.to_owned()).next().unwrap_or_default();
        !address.is_empty()
    });
    let call = |request: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    };
    let host = format!("Host: {address}\r\n");
    let kinds = [
        String::new(),
        "GET /api/v1/st".to_owned(),
        format!("GET /api/v1/state HTTP/1.1\r\n{host}\r\n").repeat(50),
        format!("GET /api/v1/events HTTP/1.1\r\n{host}\r\n"),
        format!("POST /api/v1/refresh HTTP/1.1\r\n{host}Content-Length: 100\r\n\r\nx"),
    ];
    let stuck: Vec<TcpStream> = (0..10).flat_map(|_| &kinds).map(|request| call(request)).collect();
    harness.write("go", "");
    all_is_done(harness, service);
    drop(stuck);
}

#[test]
fn rule_13_3_a_port_that_is_taken_is_told_at_the_start_and_nothing_is_begun() {
    let harness = harness("true");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let shown = harness.run(&["--port", &port]);
    assert_eq!(shown.code, Some(1), "{shown:#?}");
    assert!(shown.stderr.contains(&port) && shown.stderr.contains("in use"), "{shown:#?}");
    assert!(!harness.path("work/MT-0").exists() && !shown.stderr.contains("run started"));
}
