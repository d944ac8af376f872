//! Many issues through one service: all are done, and the service is afterwards what it was before.
//!
//! `SYMPHONY_ISSUES=10000` takes more of them. Beside it, in the same run, the least that the same
//! work costs: a folder, the same command below the same helper, and the folder removed again.

use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use symphony_host::{Host, HostCommand, LocalHost, Mark, ProcessScope, RunLimit, Shell};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::program::{Harness, files, wait_for};

const AT_ONCE: usize = 50;
const SAMPLES: usize = 40;
const TEST_TIMEOUT: Duration = Duration::from_secs(3600);

#[test]
fn rule_4_6_many_issues_leave_the_service_as_it_was() {
    let issues = std::env::var("SYMPHONY_ISSUES").map_or(500, |text| text.parse().unwrap());
    let harness = Harness::new();
    harness.write("board.yaml", "issues: []\n");
    harness.write("WORKFLOW.md", &workflow());
    let mut service = harness.start_for(TEST_TIMEOUT, &[]);
    service.log_until("service starts");
    service.signal(Signal::HUP);
    service.log_until("asked to poll now");
    let descriptors = descriptors(service.id());
    let idle = resident(service.id());

    harness.replace("board.yaml", &board(issues));
    service.signal(Signal::HUP);
    service.log_until("run started");
    let began = Instant::now();
    let mut curve = Vec::new();
    for done in 1..=issues {
        service.log_until("workspace removed");
        if done * SAMPLES / issues > curve.len() {
            curve.push(resident(service.id()));
        }
    }
    let ours = rate(issues, began.elapsed());
    let bare = rate(issues, bare(&harness, issues));
    println!("resident, KiB: {idle} idle, then {curve:?}");
    println!(
        "{issues} issues, {AT_ONCE} at a time: {ours:.0}/s; bare {bare:.0}/s; ratio {:.2}, goal 0.8",
        ours / bare
    );

    wait_for("the end of every helper", || children(service.id()).is_empty());
    let at_end = || self::descriptors(service.id());
    println!("descriptors: {descriptors:?} at the start, {:?} at the end", at_end());
    wait_for("the descriptors to be closed", || at_end() <= descriptors);
    let mean = |part: &[u64]| part.iter().sum::<u64>() / part.len() as u64;
    let quarter = curve.len() / 4;
    let (second, last) = (mean(&curve[quarter..2 * quarter]), mean(&curve[3 * quarter..]));
    assert!(2 * last <= 3 * second, "memory grows: {second} KiB, later {last} KiB");

    service.signal(Signal::TERM);
    assert_eq!(service.end().0, Some(0));
    let left = files(&harness.path("work"));
    let left: Vec<_> = left.iter().filter(|path| path.to_string_lossy().contains("MT-")).collect();
    assert!(left.is_empty(), "{left:?}");
}

fn workflow() -> String {
    format!(
        "---\nworkspace:\n  root: ./work\nhooks:\n  before_run: \"true\"\n\
         agent:\n  kind: scripted\n  max_concurrent_agents: {AT_ONCE}\n\
         tracker:\n  kind: memory\n  provider:\n    board: board.yaml\n    write_back: false\n\
         ---\nDo it.\n"
    )
}

/// A file of its own: in the workflow file there is no room for so many.
fn board(issues: usize) -> String {
    let mut file = String::from("issues:\n");
    for number in 0..issues {
        let issue = format!("{{identifier: MT-{number}, title: Do it, state: Todo}}");
        writeln!(file, "  - {issue}").unwrap();
    }
    file
}

/// The same commands without a service.
fn bare(harness: &Harness, issues: usize) -> Duration {
    let (root, home) = (harness.path("bare"), harness.path("home"));
    fs::create_dir(&root).unwrap();
    let host: Arc<dyn Host> = Arc::new(LocalHost::with_helper(env!("CARGO_BIN_EXE_symphony")));
    let next = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    Runtime::new().unwrap().block_on(async {
        let mut workers = JoinSet::new();
        for _ in 0..AT_ONCE {
            let (root, home, host, next) =
                (root.clone(), home.clone(), Arc::clone(&host), Arc::clone(&next));
            workers.spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= issues {
                        return;
                    }
                    let folder = root.join(number.to_string());
                    fs::create_dir(&folder).unwrap();
                    let scope = ProcessScope::new(
                        Arc::clone(&host),
                        Mark::new("bare", &number.to_string()),
                    );
                    let command = HostCommand::script(Shell::Sh, "true", folder.clone());
                    let command = command.set("HOME", &home);
                    let finished = scope.run(&command, RunLimit::new(TEST_TIMEOUT)).await.unwrap();
                    assert!(finished.exit.is_success());
                    scope.close(Duration::ZERO).await.unwrap();
                    fs::remove_dir(folder).unwrap();
                }
            });
        }
        while let Some(worker) = workers.join_next().await {
            worker.unwrap();
        }
    });
    began.elapsed()
}

fn rate(issues: usize, took: Duration) -> f64 {
    f64::from(u32::try_from(issues).unwrap()) / took.as_secs_f64()
}

/// Resident memory in KiB.
fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// How many descriptors are open. The service is closed to its own user: only root can tell.
fn descriptors(pid: u32) -> Option<usize> {
    fs::read_dir(format!("/proc/{pid}/fd")).ok().map(Iterator::count)
}

/// Its children, also those that have ended and are not collected.
fn children(pid: u32) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("children"));
    let lists = threads.filter_map(|thread| of(thread.ok()?).ok());
    lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}
