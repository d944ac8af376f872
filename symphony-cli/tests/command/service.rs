//! `symphony run`: signals, the lock, the log.

use rustix::process::Signal;

use crate::program::{Harness, Service, files, wait_for};

/// A hook that says that it was there.
const NOTE: &str = "echo ran >> ../../after_run.txt";

#[test]
fn rule_14_2_a_signal_stops_everything_runs_after_run_and_exits_with_0() {
    let mut harness = Harness::new();
    harness.endless(NOTE);
    let mut service = harness.start(&["--log-format", "json"]);
    let seen = service.log_until("run started");
    assert!(seen.iter().all(|line| line.starts_with('{')), "one object per line: {seen:#?}");
    assert!(seen.last().unwrap().contains("\"issue_identifier\":\"MT-1\""), "{seen:#?}");
    harness.wait_for_file("began");
    service.signal(Signal::TERM);
    let (code, rest) = service.end();
    assert_eq!(code, Some(0), "{rest}");
    assert!(rest.contains("service ended"), "{rest}");
    assert_eq!(harness.read("after_run.txt"), "ran\n");
    harness.wait_until_nothing_is_left();
}

#[test]
fn rule_14_2_a_signal_during_the_start_is_heard() {
    let harness = Harness::new();
    harness.endless(NOTE);
    // The lock of a service that was killed just now: the next one waits for it a while.
    let mut gone = std::process::Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    std::fs::create_dir_all(harness.path("work/~symphony")).unwrap();
    harness.write("work/~symphony/lock", &format!("{{\"pid\": {}}}", gone.id()));
    let lock = std::fs::File::open(harness.path("work/~symphony/lock")).unwrap();
    // Taken by a process that is gone: the kernel would name a living one, which is not waited for.
    let mut locker = std::process::Command::new("flock");
    assert!(locker.arg("0").stdin(lock.try_clone().unwrap()).status().unwrap().success());
    let service = harness.start(&[]);
    wait_for("an ear for signals", || hears(&service, Signal::TERM));
    service.signal(Signal::TERM);
    let (code, log) = service.end();
    assert_eq!(code, Some(0), "{log}");
}

/// Whether it would not simply be ended by a signal.
fn hears(service: &Service, signal: Signal) -> bool {
    let status = format!("/proc/{}/status", service.id());
    let status = std::fs::read_to_string(status).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
    let caught = u64::from_str_radix(caught.trim(), 16).unwrap();
    caught & 1 << (signal.as_raw() - 1) != 0
}

#[test]
fn rule_14_2_a_second_signal_ends_at_once_and_leaves_nothing() {
    let mut harness = Harness::new();
    harness.endless("trap '' TERM; touch ../../stopping; sleep 1000; touch ../../stopped");
    let service = harness.start(&[]);
    harness.wait_for_file("began");
    service.signal(Signal::TERM);
    // Now it waits for a hook that does not listen and has an hour.
    harness.wait_for_file("stopping");
    service.signal(Signal::TERM);
    let (code, rest) = service.end();
    assert_eq!(code, Some(0), "{rest}");
    assert!(rest.contains("ending at once"), "{rest}");
    harness.wait_until_nothing_is_left();
    assert!(!harness.path("stopped").exists(), "the hook came to its end");
}

#[test]
fn rule_14_2_a_signal_with_fifty_running_runs_fifty_after_run() {
    const RUNNING: usize = 50;
    let mut harness = Harness::new();
    let issue = |number| {
        format!("      - {{identifier: MT-{number}, title: Wait, state: Todo, labels: [hang]}}\n")
    };
    let file = format!(
        "---\ntracker:\n  kind: memory\n  provider:\n    issues:\n{}workspace:\n  root: ./work\n\
         hooks:\n  before_run: sleep 100 &\n  after_run: {NOTE}\n\
         agent:\n  kind: scripted\n  max_concurrent_agents: {RUNNING}\n---\nWait.\n",
        (0..RUNNING).map(issue).collect::<String>(),
    );
    harness.write("WORKFLOW.md", &file);
    let mut service = harness.start(&[]);
    for _ in 0..RUNNING {
        service.log_until("hook ended");
    }
    service.signal(Signal::TERM);
    let (code, rest) = service.end();
    assert_eq!(code, Some(0), "{rest}");
    assert!(harness.is_nothing_left(), "somebody outlived the service");
    assert_eq!(harness.read("after_run.txt"), "ran\n".repeat(RUNNING));
}

#[test]
fn rule_14_3_a_second_service_on_the_same_root_is_refused_and_told_by_whom() {
    let harness = Harness::new();
    harness.endless(NOTE);
    let mut first = harness.start(&[]);
    first.log_until("run started");
    let second = harness.run(&[]);
    assert_eq!(second.code, Some(1));
    assert!(second.stderr.contains(&first.id().to_string()), "it names the process: {second:#?}");
    first.signal(Signal::INT);
    assert_eq!(first.end().0, Some(0));
}

#[test]
fn rule_4_7_a_hangup_polls_now() {
    let harness = Harness::new();
    harness.endless(NOTE);
    let mut service = harness.start(&[]);
    service.log_until("run started");
    service.signal(Signal::HUP);
    service.log_until("asked to poll now");
    service.signal(Signal::TERM);
    assert_eq!(service.end().0, Some(0));
}

#[test]
fn rule_13_1_the_log_also_goes_to_a_file() {
    let harness = Harness::new();
    harness.endless(NOTE);
    let mut service = harness.start(&["--logs-root", "logs"]);
    service.log_until("run started");
    service.signal(Signal::TERM);
    assert_eq!(service.end().0, Some(0));
    let log = harness.read("logs/symphony.log");
    assert!(log.contains("run started") && log.contains("service ended"), "{log}");
    assert!(!log.contains('\u{1b}'), "no colours in a file");
    assert_eq!(files(&harness.path("logs")).len(), 1);
}

#[test]
fn rule_5_5_a_service_that_can_start_nothing_says_so_and_why() {
    let harness = Harness::new();
    let file = "---\ntracker:\n  kind: memory\n  required_labels: [agent]\n  provider:\n    issues:\n      \
        - {identifier: MT-1, title: One, state: Todo}\n      \
        - {identifier: MT-2, title: Two, state: Todo}\nworkspace:\n  root: ./work\n\
        agent:\n  kind: scripted\n---\nHi.\n";
    harness.write("WORKFLOW.md", file);
    let mut service = harness.start(&[]);
    let told = service.log_until("nothing is started").pop().unwrap();
    assert!(told.contains("issues=2") && told.contains("MT-1: lacks the label"), "{told}");
    service.signal(Signal::TERM);
    let (code, rest) = service.end();
    assert_eq!(code, Some(0), "{rest}");
    assert!(!rest.contains("nothing is started"), "once is enough: {rest}");
}

#[test]
fn rule_13_1_an_unread_log_stops_no_service() {
    const ISSUES: usize = 30;
    let mut harness = Harness::new();
    let issue = |number| format!("      - {{identifier: MT-{number}, title: Fail, state: Todo}}\n");
    // Each says more than a pipe holds for all of them together.
    let file = format!(
        "---\ntracker:\n  kind: memory\n  provider:\n    issues:\n{}workspace:\n  root: ./work\n\
         hooks:\n  before_run: head -c 4000 /dev/zero | tr '\\0' x; exit 1\n  after_run: {NOTE}\n\
         agent:\n  kind: scripted\n  max_concurrent_agents: {ISSUES}\n---\nFail.\n",
        (0..ISSUES).map(issue).collect::<String>(),
    );
    harness.write("WORKFLOW.md", &file);
    let service = harness.start(&["--log", "debug"]);
    harness.wait_for_file("after_run.txt");
    wait_for("every run's end", || harness.read("after_run.txt").lines().count() >= ISSUES);
    service.signal(Signal::TERM);
    assert_eq!(service.end_unread(), Some(0));
    harness.wait_until_nothing_is_left();
}

#[test]
fn rule_9_2_what_cannot_be_removed_keeps_nothing_else_on_disk_as_root() {
    const FILES: usize = 100;
    let harness = Harness::new().without_root();
    if harness.is_run_by_the_tester() {
        println!("skipped: only root can make a file another user's");
        return;
    }
    let folder = harness.path("work/MT-1");
    std::fs::create_dir_all(folder.join("not-ours/file")).unwrap();
    for number in 0..FILES {
        std::fs::create_dir(folder.join(number.to_string())).unwrap();
        std::fs::write(folder.join(format!("{number}/file")), "").unwrap();
    }
    harness.give_away("work");
    harness.keep("work/MT-1/not-ours");
    let file = "---\ntracker:\n  kind: memory\n  provider:\n    issues:\n      \
        - {identifier: MT-1, title: Over, state: Done}\nworkspace:\n  root: ./work\n\
        agent:\n  kind: scripted\n---\nHi.\n";
    harness.write("WORKFLOW.md", file);
    let mut service = harness.start(&[]);
    let told = service.log_until("could not be removed").pop().unwrap();
    assert!(
        told.contains("/not-ours: ") && told.contains("belongs to user 0, not to us"),
        "{told}"
    );
    service.signal(Signal::TERM);
    assert_eq!(service.end().0, Some(0));
    let trash = files(&harness.path("work/~symphony/trash"));
    assert_eq!(trash.len(), 1, "{trash:?}");
    assert_eq!(files(&trash[0]), [trash[0].join("not-ours")]);
}

/// An agent that says something ten times a second.
const TALKER: &str = r#"
talk() {
    touch ../../talking.$$
    while :; do
        echo '{"method":"item/agentMessage/delta","params":{"threadId":"t","delta":"x"}}'
        sleep 0.1
    done
}
while read -r line; do
    id=$(printf %s "$line" | sed -n 's/.*"id": *\([0-9]*\).*/\1/p')
    result='{}'
    case $line in
        *'"thread/start"'*) result='{"thread":{"id":"t"}}' ;;
        *'"turn/start"'*) result='{"turn":{"id":"1","status":"inProgress"}}'; talk & ;;
    esac
    [ -z "$id" ] || echo "{\"id\":$id,\"result\":$result}"
done
"#;

#[test]
fn rule_8_1_agents_that_spoke_while_the_service_was_stopped_have_not_stalled() {
    const AGENTS: usize = 8;
    let mut harness = Harness::new();
    let issue = |number| format!("      - {{identifier: MT-{number}, title: T, state: Todo}}\n");
    let file = format!(
        "---\ntracker:\n  kind: memory\n  provider:\n    issues:\n{}workspace:\n  root: ./work\n\
         codex:\n  command: sh ../../talker\n  stall_timeout_ms: 8000\n---\nTalk.\n",
        (0..AGENTS).map(issue).collect::<String>(),
    );
    harness.write("WORKFLOW.md", &file);
    harness.write("talker", TALKER);
    let mut service = harness.start(&[]);
    let talking = |path: &std::path::PathBuf| path.to_string_lossy().contains("talking.");
    wait_for("agents", || {
        files(&harness.path("")).iter().filter(|path| talking(path)).count() == AGENTS
    });
    service.signal(Signal::STOP);
    // Longer than an agent may be silent; nothing else is to be waited for.
    std::thread::sleep(std::time::Duration::from_secs(11));
    service.signal(Signal::CONT);
    service.signal(Signal::HUP);
    let mut log = service.log_until("asked to poll now");
    service.signal(Signal::TERM);
    let (code, rest) = service.end();
    assert_eq!(code, Some(0), "{rest}");
    log.push(rest);
    assert!(!log.concat().contains("Stalled"), "{log:#?}");
    harness.wait_until_nothing_is_left();
}

#[test]
fn rule_14_4_a_hook_reads_neither_the_environment_nor_the_memory_of_the_service() {
    let harness = Harness::new().without_root();
    // The helper stands between the hook and the service.
    harness.endless(
        "exec > ../../seen.txt 2>&1; service=$(cut -d' ' -f4 /proc/$PPID/stat); echo $service; \
         for file in environ mem; do head -c 1 /proc/$service/$file; done",
    );
    let service = harness.start(&[]);
    let id = service.id();
    harness.wait_for_file("began");
    service.signal(Signal::TERM);
    assert_eq!(service.end().0, Some(0));
    let seen = harness.read("seen.txt");
    assert!(seen.starts_with(&format!("{id}\n")), "the hook looked elsewhere: {seen}");
    assert_eq!(seen.matches("Permission denied").count(), 2, "{seen}");
}

#[test]
fn rule_7_6_a_machine_without_files_holds_starts_and_fails_no_issue_alone() {
    let mut harness = Harness::new();
    let issues: String = (1..=40)
        .map(|n| format!("      - {{identifier: MT-{n}, title: Wait, state: Todo}}\n"))
        .collect();
    harness.write(
        "WORKFLOW.md",
        &format!(
            "---\ntracker:\n  kind: memory\n  provider:\n    issues:\n{issues}workspace:\n  root: ./work\n\
             hooks:\n  timeout_ms: 3600000\n  before_run: touch ../../began; exec sleep 1000\n\
             agent:\n  kind: scripted\n  max_concurrent_agents: 40\n---\nWait.\n"
        ),
    );
    let mut service = harness.start_under("ulimit -n 64", &[]);
    let log = service.log_until("starts are held").concat();
    assert!(log.contains("machine_exhausted: "), "{log}");
    assert!(log.contains("Too many open files"), "{log}");
    // What could be started goes on.
    harness.wait_for_file("began");
    let rest = service.stop();
    assert!(!(log + &rest).contains("attempt=1"), "{rest}");
    harness.wait_until_nothing_is_left();
}
