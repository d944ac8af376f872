//! Contract 6.2, 9.3 and 14.3 across deaths: a service that is killed at any moment, again and again,
//! and started again on the same root.
//!
//! `SYMPHONY_KILLS=200` kills more often; `SYMPHONY_KILLS_SEED=<n>` repeats the moments of a run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;

use crate::program::{Harness, files, wait_for};

/// A child that lives as long as the run holds a lock on a file of its issue: a second one reports it.
/// What `after_create` has written is told to the outside, and must be found again.
const FILE: &str = r#"---
tracker:
  kind: memory
  provider:
    board: board.yaml
workspace:
  root: ./work
polling:
  interval_ms: 50
  jobs: {sweep_ms: 50}
hooks:
  after_create: echo "$$ $(date +%N)" > kept.txt
  before_run: |
    issue=$SYMPHONY_ISSUE_IDENTIFIER
    exec 8>> ../../locks/$issue
    flock -n 8 || echo "two runs of $issue" >> ../../faults
    if [ -e ../../begun/$issue ]; then
      cmp kept.txt ../../begun/$issue || echo "another workspace of $issue" >> ../../faults
    else
      cp kept.txt ../../half-$issue && mv ../../half-$issue ../../begun/$issue
    fi
    sleep 300 &
    (setsid sleep 300 &)
  after_run: "true"
agent:
  kind: scripted
  stop_grace_ms: 50
  max_concurrent_agents: 12
---
Work.
"#;

/// How long a service lives at most before it is killed.
const LONGEST_LIFE: u64 = 800;

#[test]
fn rule_14_3_killed_at_any_moment_it_goes_on_without_two_runs_or_a_lost_workspace() {
    let (kills, seed) = (variable("SYMPHONY_KILLS").unwrap_or(10), seed());
    println!("{kills} kills; repeat with SYMPHONY_KILLS_SEED={seed}");
    let mut moments = Moments(seed);
    let mut harness = Harness::new();
    for folder in ["locks", "begun"] {
        std::fs::create_dir(harness.path(folder)).unwrap();
    }
    harness.write("WORKFLOW.md", FILE);
    harness.write("board.yaml", "issues:\n");
    for number in 0..4 {
        add(&harness, &format!("HANG-{number}"), "hang");
        add(&harness, &format!("FAIL-{number}"), "fail");
    }
    let mut person = None;
    for kill in 0..kills {
        for number in 0..3 {
            add(&harness, &format!("MT-{kill}-{number}"), "plain");
        }
        let service = harness.start(&["--log", "error"]);
        std::thread::sleep(Duration::from_millis(moments.next(LONGEST_LIFE)));
        service.signal(Signal::KILL);
        let (code, rest) = service.end();
        assert_eq!(code, None, "kill {kill} of seed {seed}: {rest}");
        assert_sound(&harness, &format!("kill {kill} of seed {seed}"));
        if person.is_none() && harness.path("work/HANG-0").exists() {
            person = Some(Person::looks_into(&harness, "work/HANG-0"));
        }
    }
    // One that is left alone does what is left to do.
    let mut service = harness.start(&["--log", "error,symphony_runtime::service=info"]);
    service.log_until("service starts");
    wait_for("the end of all work", || states(&harness).values().all(|state| state != "Todo"));
    wait_for("the removal of what is done", || {
        let left = files(&harness.path("work"));
        !left.iter().any(|path| path.to_string_lossy().contains("/MT-"))
    });
    harness.wait_for_file("begun/HANG-0");
    let mut person = person.unwrap_or_else(|| Person::looks_into(&harness, "work/HANG-0"));
    service.signal(Signal::TERM);
    assert_eq!(service.end().0, Some(0));
    assert!(harness.is_nothing_left(), "somebody outlived the service");
    assert_sound(&harness, &format!("the end of seed {seed}"));
    assert!(person.is_there(), "a person's shell was ended; seed {seed}");
}

/// No issue has had two runs at a time, and every workspace that an agent has seen and whose issue
/// is not finished is still the same.
fn assert_sound(harness: &Harness, when: &str) {
    let faults = std::fs::read_to_string(harness.path("faults")).unwrap_or_default();
    assert_eq!(faults, "", "{when}");
    let states = states(harness);
    for begun in files(&harness.path("begun")) {
        let issue = begun.file_name().unwrap().to_str().unwrap();
        if states[issue] != "Done" {
            let kept = std::fs::read_to_string(harness.path(&format!("work/{issue}/kept.txt")));
            let wanted = harness.read(&format!("begun/{issue}"));
            assert_eq!(kept.ok(), Some(wanted), "the workspace of {issue}, {when}");
        }
    }
}

/// Puts an issue at the end of the board. What is not meant to be finished is in progress.
fn add(harness: &Harness, identifier: &str, label: &str) {
    let mut board = harness.read("board.yaml");
    let state = if label == "plain" { "Todo" } else { "In Progress" };
    writeln!(board, "- {{identifier: {identifier}, title: Go, state: {state}, labels: [{label}]}}")
        .unwrap();
    harness.replace("board.yaml", &board);
}

/// The state of each issue on the board.
fn states(harness: &Harness) -> BTreeMap<String, String> {
    let board: serde_yaml::Value = serde_yaml::from_str(&harness.read("board.yaml")).unwrap();
    let issues = board["issues"].as_sequence().unwrap().iter();
    let text = |value: &serde_yaml::Value| value.as_str().unwrap().to_owned();
    issues.map(|issue| (text(&issue["identifier"]), text(&issue["state"]))).collect()
}

/// A process of a person in a workspace, which is not Symphony's.
struct Person(Child);

impl Person {
    fn looks_into(harness: &Harness, folder: &str) -> Self {
        let mut shell = Command::new("sh");
        // It ends with the test, whose end of the pipe is closed then.
        shell.args(["-c", "read line"]).current_dir(harness.path(folder)).stdin(Stdio::piped());
        Self(shell.spawn().unwrap())
    }

    fn is_there(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Random moments: a splitmix generator.
pub(crate) struct Moments(pub(crate) u64);

impl Moments {
    pub(crate) const fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below
    }
}

pub(crate) fn seed() -> u64 {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    variable("SYMPHONY_KILLS_SEED").unwrap_or_else(now)
}

pub(crate) fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap())
}
