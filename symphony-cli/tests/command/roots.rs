//! Whose a root is, and what agents do to it (contract 9.2, 14.3).

use std::fs;
use std::process::{Child, Command};

use rustix::process::Signal;

use crate::program::{Harness, files};

/// An agent that stays: a hook that lives as long as its run.
const HOOK: &str = "before_run: echo $$ > ../../began.$SYMPHONY_ISSUE_IDENTIFIER; exec sleep 1000";

fn workflow(issues: &str, hooks: &str) -> String {
    format!(
        "---\ntracker:\n  kind: memory\n  provider:\n    issues:\n{issues}workspace:\n  root: ./work\n\
         polling:\n  interval_ms: 200\nhooks:\n  timeout_ms: 3600000\n  {hooks}\n\
         agent:\n  kind: scripted\n---\nWait.\n"
    )
}

fn issue(identifier: &str) -> String {
    format!("      - {{identifier: {identifier}, title: Wait, state: Todo}}\n")
}

#[test]
fn rule_14_3_a_second_service_is_refused_also_without_the_lock_file() {
    let mut harness = Harness::new();
    harness.write("WORKFLOW.md", &workflow(&issue("MT-1"), HOOK));
    let mut first = harness.start(&[]);
    harness.wait_for_file("began.MT-1");
    // Stopped, it cannot make the file anew in time.
    first.signal(Signal::STOP);
    fs::remove_file(harness.path("work/~symphony/lock")).unwrap();
    let second = harness.run(&[]);
    first.signal(Signal::CONT);
    assert_eq!(second.code, Some(1), "{second:#?}");
    let refused =
        format!("another Symphony uses the workspace root {}", harness.path("work").display());
    assert!(second.stderr.contains(&refused), "{second:#?}");
    assert!(second.stderr.contains(&format!("process {}", first.id())), "{second:#?}");
    // The first one notices by itself.
    first.log_until("the lock file was removed or replaced; it was made anew");
    let lock = harness.read("work/~symphony/lock");
    assert!(lock.contains(&first.id().to_string()), "{lock}");
    first.stop();
    harness.wait_until_nothing_is_left();
}

#[test]
fn rule_14_3_a_service_at_an_equal_path_does_not_end_the_agents_of_another() {
    let mut harness = Harness::new();
    harness.write("WORKFLOW.md", &workflow(&issue("MT-1"), HOOK));
    let mut first = harness.start(&[]);
    harness.wait_for_file("began.MT-1");
    // As in another container that sees our processes: the same path, another root.
    fs::rename(harness.path("work"), harness.path("elsewhere")).unwrap();
    harness.write("OTHER.md", &workflow(&issue("MT-2"), HOOK));
    let mut second = harness.start(&["run", "OTHER.md"]);
    let log = second.log_until("run started").concat();
    assert!(!log.contains("ended what an earlier life had left"), "{log}");
    second.stop();
    let log = first.heard();
    assert!(!log.contains("run failed") && !log.contains("hook ended"), "{log}");
    fs::remove_dir_all(harness.path("work")).unwrap();
    first.stop();
    harness.wait_until_nothing_is_left();
}

/// A process of a person, which no service may end.
struct Person(Child);

impl Person {
    fn new() -> Self {
        Self(Command::new("sleep").arg("1000").spawn().unwrap())
    }

    /// As a run record names a process.
    fn record(&self) -> String {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        let start = stat.rsplit_once(") ").unwrap().1.split(' ').nth(19).unwrap().to_owned();
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        format!("{}:{start}:{}\n", self.0.id(), boot.trim().replace('-', ""))
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn rule_14_3_a_forged_run_record_ends_no_process() {
    let harness = Harness::new();
    harness.write("WORKFLOW.md", &workflow("", HOOK));
    let mut person = Person::new();
    fs::create_dir_all(harness.path("work/~symphony/runs")).unwrap();
    harness.write("work/~symphony/runs/9.9", &person.record());
    let mut service = harness.start(&[]);
    let log = service.log_until("service starts").concat();
    assert!(!log.contains("ended what an earlier life had left"), "{log}");
    assert_eq!(person.0.try_wait().unwrap(), None, "{log}");
    assert!(files(&harness.path("work/~symphony/runs")).is_empty());
    service.stop();
}

#[test]
fn rule_9_2_an_agent_that_closes_its_folder_and_the_root_stops_no_work() {
    let mut harness = Harness::new().without_root();
    // Each closes everything that it can reach; the next ones come after it.
    let hooks =
        "after_run: chmod 000 ../~symphony/* ../~symphony .. .\n  before_remove: touch ../../seen";
    let issues: String = (1..=4).map(|number| issue(&format!("MT-{number}"))).collect();
    let file = workflow(&issues, hooks)
        .replace("kind: scripted", "kind: scripted\n  max_concurrent_agents: 1");
    harness.write("WORKFLOW.md", &file);
    let mut service = harness.start(&[]);
    for _ in 1..=4 {
        service.log_until("workspace removed");
    }
    service.stop();
    assert!(harness.path("seen").exists(), "the hook ran in a folder that was closed");
    harness.give_away("work");
    let left: Vec<_> = files(&harness.path("work"));
    assert_eq!(left, [harness.path("work/~symphony")]);
    assert!(files(&harness.path("work/~symphony/trash")).is_empty());
    harness.wait_until_nothing_is_left();
}
