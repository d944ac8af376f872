//! The `symphony` command as a person meets it: what it prints, and how it exits (contract 14).
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails loudly")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process, set_child_subreaper};

fn symphony(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_symphony"));
    command.args(arguments).current_dir(folder).env_remove("SYMPHONY_LOG").stdin(Stdio::null());
    command
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    symphony(folder, arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("symphony-cli-test-").tempdir().unwrap()
}

/// A workflow with one issue that never ends, and a hook that says that it was there.
fn endless(folder: &Path) -> PathBuf {
    let file = folder.join("WORKFLOW.md");
    let text = "---\ntracker:\n  kind: memory\n  provider:\n    issues:\n      \
        - {identifier: MT-1, title: Wait, state: Todo}\nworkspace:\n  root: ./work\nhooks:\n  \
        before_run: sleep 1000\n  after_run: echo ran >> ../../after_run.txt\n  \
        timeout_ms: 3600000\nagent:\n  kind: scripted\n---\nWait.\n";
    std::fs::write(&file, text).unwrap();
    file
}

/// A service under test; it does not outlive the test.
struct Service(Child);

impl Service {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let child = symphony(folder, arguments).stderr(Stdio::piped()).spawn().unwrap();
        Self(child)
    }

    /// Reads the log up to a line that contains this.
    fn log_until(&mut self, wanted: &str) -> Vec<String> {
        let lines = BufReader::new(self.0.stderr.as_mut().unwrap()).lines();
        let mut seen = Vec::new();
        for line in lines {
            let line = line.unwrap();
            let found = line.contains(wanted);
            seen.push(line);
            if found {
                return seen;
            }
        }
        panic!("no {wanted:?} in {seen:#?}");
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut rest).unwrap();
        (self.0.wait().unwrap().code(), rest)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Orphans below this process become its children.
fn adopt_orphans() {
    set_child_subreaper(Some(rustix::process::getpid())).unwrap();
}

/// How many children this process has.
fn children() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let of_task = |task: std::fs::DirEntry| {
        std::fs::read_to_string(task.path().join("children")).unwrap_or_default()
    };
    tasks.map(|task| of_task(task.unwrap()).split_whitespace().count()).sum()
}

#[test]
fn rule_14_1_the_demo_does_all_its_work_and_leaves_nothing_behind() {
    adopt_orphans();
    let temp = folder();
    let output = symphony(temp.path(), &["demo"]).env("TMPDIR", temp.path()).output().unwrap();
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{shown}\n{}", text(&output.stderr));
    for number in 1..=8 {
        let done = shown
            .lines()
            .any(|line| line.starts_with(&format!("DEMO-{number} ")) && line.contains(" Done "));
        assert!(done, "DEMO-{number} is not done in\n{shown}");
    }
    for wanted in ["blocked by DEMO-1", "every slot is taken", "the line went dead", "turn 2 of"] {
        assert!(shown.contains(wanted), "no {wanted:?} in\n{shown}");
    }
    assert!(!shown.contains('\u{1b}'), "colours only on a terminal");
    assert_eq!(children(), 0, "a process is left");
    assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0, "a file is left");
}

#[test]
fn rule_14_1_the_demo_can_be_kept_and_its_file_is_a_good_one() {
    let temp = folder();
    let output = symphony(temp.path(), &["demo", "--keep"]).env("TMPDIR", temp.path()).output();
    assert!(output.unwrap().status.success());
    let kept = std::fs::read_dir(temp.path()).unwrap().next().unwrap().unwrap().path();
    let report = std::fs::read_to_string(kept.join("finished/DEMO-4.md")).unwrap();
    assert!(report.contains("Nobody answers."), "{report}");
    assert!(report.contains("Attempt 1 begins."), "{report}");
    let checked = run(&kept, &["check"]);
    assert!(checked.status.success(), "{}", text(&checked.stdout));
}

#[test]
fn rule_14_1_what_init_writes_is_accepted_by_check_and_runs() {
    let temp = folder();
    assert!(run(temp.path(), &["init"]).status.success());
    let checked = run(temp.path(), &["check", "--show"]);
    let shown = text(&checked.stdout);
    assert!(checked.status.success(), "{shown}");
    assert!(shown.contains("WORKFLOW.md can be used\n"), "{shown}");
    assert!(shown.contains("max_concurrent_agents: 2"), "{shown}");
    let prompt = text(&run(temp.path(), &["prompt", "mt-2"]).stdout);
    assert!(prompt.starts_with("You are working on MT-2: Paint the window"), "{prompt}");
    let again = run(temp.path(), &["init"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("--force"), "it says what to do");
    assert!(run(temp.path(), &["init", "--force"]).status.success());
}

#[test]
fn rule_2_2_check_shows_every_problem_with_its_place() {
    let temp = folder();
    let file = "---\ntracker:\n  kind: memory\nagent:\n  kind: scripted\n  max_turns: 0\n  \
        max_turn: 3\n---\nHi {{ issue.titel }}\n";
    std::fs::write(temp.path().join("WORKFLOW.md"), file).unwrap();
    let checked = run(temp.path(), &["check"]);
    let shown = text(&checked.stdout);
    assert_eq!(checked.status.code(), Some(1));
    for wanted in [
        "error[invalid_setting]: agent.max_turns: must be a positive integer, got 0",
        "WORKFLOW.md:6:3",
        "error[template_parse_error]: `issue` has no field `titel`",
        "WORKFLOW.md:9:7",
        "did you mean `issue.title`?",
        "warning[unknown_key]: agent.max_turn",
        "did you mean `agent.max_turns`?",
        "cannot be used: 2 errors",
    ] {
        assert!(shown.contains(wanted), "no {wanted:?} in\n{shown}");
    }
}

#[test]
fn rule_4_1_a_bad_file_is_a_startup_failure() {
    let temp = folder();
    let missing = run(temp.path(), &[]);
    assert_eq!(missing.status.code(), Some(1));
    let shown = text(&missing.stderr);
    assert!(shown.contains("missing_workflow_file") && shown.contains("symphony init"), "{shown}");
    std::fs::write(temp.path().join("bad.md"), "---\ntracker:\n  kind: jira\n---\n").unwrap();
    let bad = run(temp.path(), &["run", "bad.md"]);
    assert_eq!(bad.status.code(), Some(1));
    assert!(text(&bad.stderr).contains("unsupported_tracker_kind"), "{}", text(&bad.stderr));
    assert!(!temp.path().join("work").exists(), "nothing was begun");
}

#[test]
fn rule_14_2_a_signal_stops_everything_runs_after_run_and_exits_with_0() {
    adopt_orphans();
    let temp = folder();
    endless(temp.path());
    let mut service = Service::start(temp.path(), &["--log-format", "json"]);
    let seen = service.log_until("run started");
    assert!(seen.iter().all(|line| line.starts_with('{')), "one object per line: {seen:#?}");
    assert!(seen.last().unwrap().contains("\"issue_identifier\":\"MT-1\""), "{seen:#?}");
    service.signal(Signal::TERM);
    let (code, rest) = service.end();
    assert_eq!(code, Some(0), "{rest}");
    assert!(rest.contains("service ended"), "{rest}");
    let ran = std::fs::read_to_string(temp.path().join("after_run.txt")).unwrap();
    assert_eq!(ran, "ran\n");
    assert_eq!(children(), 0, "a process is left");
}

#[test]
fn rule_14_3_a_second_service_on_the_same_root_is_refused_and_told_by_whom() {
    let temp = folder();
    endless(temp.path());
    let mut first = Service::start(temp.path(), &[]);
    first.log_until("run started");
    let second = run(temp.path(), &[]);
    assert_eq!(second.status.code(), Some(1));
    let told = text(&second.stderr);
    assert!(told.contains(&first.0.id().to_string()), "it names the process: {told}");
    first.signal(Signal::INT);
    assert_eq!(first.end().0, Some(0));
}

#[test]
fn rule_4_7_a_hangup_polls_now() {
    let temp = folder();
    endless(temp.path());
    let mut service = Service::start(temp.path(), &[]);
    service.log_until("run started");
    service.signal(Signal::HUP);
    service.log_until("asked to poll now");
    service.signal(Signal::TERM);
    assert_eq!(service.end().0, Some(0));
}

#[test]
fn rule_13_1_the_log_also_goes_to_a_file() {
    let temp = folder();
    endless(temp.path());
    let mut service = Service::start(temp.path(), &["--logs-root", "logs"]);
    service.log_until("run started");
    service.signal(Signal::TERM);
    service.end();
    let log = std::fs::read_to_string(temp.path().join("logs/symphony.log")).unwrap();
    assert!(log.contains("run started") && log.contains("service ended"), "{log}");
    assert!(!log.contains('\u{1b}'), "no colours in a file");
}

#[test]
fn rule_14_1_the_flag_of_other_implementations_is_accepted() {
    let temp = folder();
    let flag = "--i-understand-that-this-will-be-running-without-the-usual-guardrails";
    let output = run(temp.path(), &["no-such-file.md", flag]);
    assert_eq!(output.status.code(), Some(1), "not a usage error: {}", text(&output.stderr));
    let help = text(&run(temp.path(), &["--help"]).stdout);
    assert!(help.contains("symphony demo") && !help.contains("guardrails"), "{help}");
}
