//! The command with a tracker of another's: `examples/own_tracker.rs`, as its author runs it.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

const WORKFLOW: &str = "---
tracker:
  kind: door
workspace:
  root: ./work
agent:
  kind: scripted
---
Please do this: {{ issue.title }}.
";

/// The example. A user without a toolchain takes the one that was built with the tests.
fn built() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let features = if cfg!(feature = "otel") { &["--features", "otel"][..] } else { &[] };
    let output = Command::new(env!("CARGO"))
        .args(["build", "--offline", "--quiet", "-p", "symphony-cli", "--example", "own_tracker"])
        .args(features)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("CARGO_TARGET_DIR", target)
        .output();
    let example = target.join("debug/examples/own_tracker");
    match output {
        Ok(output) => assert!(output.status.success(), "{}", text(&output)),
        Err(error) => assert!(example.exists(), "cargo does not run: {error}"),
    }
    example
}

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(built());
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    for name in ["SYMPHONY_LOG", "SYMPHONY_URL", "SYMPHONY_TOKEN"] {
        command.env_remove(name);
    }
    command
}

fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat()
}

/// A service that does not outlive its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn rule_14_1_the_command_takes_a_tracker_of_ones_own() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("WORKFLOW.md"), WORKFLOW).unwrap();
    let checked = command(folder.path(), &["check"]).output().unwrap();
    assert!(checked.status.success(), "{}", text(&checked));

    let explained = command(folder.path(), &["explain", "--offline"]).output().unwrap();
    assert!(text(&explained).contains("D-1"), "{}", text(&explained));

    let unknown = WORKFLOW.replace("kind: door", "kind: nonsense");
    std::fs::write(folder.path().join("OTHER.md"), unknown).unwrap();
    let refused = command(folder.path(), &["check", "OTHER.md"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused).contains("the trackers door, linear and memory"), "{}", text(&refused));

    let mut service = command(folder.path(), &["run"]);
    let service = service.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut service = Running(service);
    let mut log = BufReader::new(service.0.stderr.take().unwrap()).lines();
    let started = log.find(|line| matches!(line, Ok(line) if line.contains("run started")));
    let Some(Ok(started)) = started else { panic!("no run was started") };
    assert!(started.contains("D-1"), "{started}");
    kill_process(Pid::from_child(&service.0), Signal::TERM).unwrap();
    log.for_each(drop);
    assert!(service.0.wait().unwrap().success());
}
