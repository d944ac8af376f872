//! Sessions below a helper, and what only a process of its own can show: that nothing leaks, and that
//! the tracker's secret stays hidden. A test harness has a `main` of its own, and `init` must come
//! first.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "these are tests")]

#[macro_use]
#[path = "../process/cases.rs"]
mod cases;
mod secrets;
#[path = "../process/trial.rs"]
mod trial;

use std::sync::Arc;

use symphony_host::{Host, LocalHost};
use tokio::runtime::Runtime;

use trial::{is_alive, server, trial};

type Test = (&'static str, fn());

fn main() {
    symphony_host::init();
    if secrets::is_service() {
        return secrets::serve();
    }
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let asks = |flag: &str| arguments.iter().any(|argument| argument == flag);
    for (name, test) in tests() {
        // A runner that runs tests one by one asks first which there are.
        if asks("--list") {
            if !asks("--ignored") {
                println!("{name}: test");
            }
        } else if !asks("--exact") || asks(name) {
            test();
            println!("test {name} ... ok");
        }
    }
}

/// The cases that are run with a helper and without: here with one.
macro_rules! with_helper {
    ($($case:ident),*) => {
        vec![$((stringify!($case), || {
            let host: Arc<dyn Host> = Arc::new(LocalHost::new());
            assert!(host.guarantees().service_killed, "there is a helper");
            Runtime::new().unwrap().block_on(cases::$case(&host));
        })),*]
    };
}

fn tests() -> Vec<Test> {
    let mut tests: Vec<Test> = each_case!(with_helper);
    tests.extend([
        ("rule_10_9_no_end_leaks_a_process_a_task_or_a_descriptor", no_end_leaks as fn()),
        ("rule_10_9_the_whole_tree_is_gone_with_the_session", whole_tree),
        (
            "rule_10_2_the_trackers_secret_is_hidden",
            secrets::rule_10_2_the_trackers_secret_is_hidden,
        ),
        (
            "rule_14_4_a_service_that_is_not_hardened_is_read",
            secrets::a_service_that_is_not_hardened_is_read,
        ),
    ]);
    tests
}

/// Open descriptors, and children, of this process.
fn held() -> (usize, usize) {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let children = tasks.flatten().map(|task| {
        let children = std::fs::read_to_string(task.path().join("children"));
        children.unwrap_or_default().split_whitespace().count()
    });
    (descriptors, children.sum())
}

/// Ends of every kind, many times, and then as much is held as before.
fn no_end_leaks() {
    let runtime = Runtime::new().unwrap();
    let ends = [
        "complete",
        "complete; exit 0",
        "exit 3",
        "exec >&-; sleep 60",
        "head -c 100000 /dev/zero >&2; exit 1",
        "sleep 60 & exit 3",
        "kill -9 $$",
    ];
    let hosts: [Arc<dyn Host>; 2] =
        [Arc::new(LocalHost::new()), Arc::new(LocalHost::without_helper())];
    for host in hosts {
        let all = async |rounds: usize| {
            for _ in 0..rounds {
                for end in ends {
                    let _ = server(end).on(&host).run().await;
                }
                let _ = trial("no-such-codex").on(&host).run().await;
                let _ = trial("exit 0").on(&host).run().await;
            }
        };
        runtime.block_on(all(1)); // what is made once and kept
        let tasks = || runtime.metrics().num_alive_tasks();
        let before = (held(), tasks());
        runtime.block_on(all(4));
        // A task that was told to end needs a moment.
        let settled = async {
            while (held(), tasks()) > before {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        let limit = std::time::Duration::from_secs(10);
        let settled = runtime.block_on(async { tokio::time::timeout(limit, settled).await });
        assert!(settled.is_ok(), "before {before:?}, after {:?}", (held(), tasks()));
    }
}

/// Processes that hide from a group and from an environment.
fn whole_tree() {
    let turn = "
        (setsid sleep 600 & echo $! >> ../hidden)
        (env -i setsid sleep 600 & echo $! >> ../hidden)
        (trap '' TERM; setsid sleep 600 & echo $! >> ../hidden)
        complete";
    Runtime::new().unwrap().block_on(async {
        let host: Arc<dyn Host> = Arc::new(LocalHost::new());
        let trial = server(turn).on(&host);
        trial.run().await.unwrap();
        let hidden = std::fs::read_to_string(trial.folder.path().join("hidden")).unwrap();
        let pids: Vec<u32> = hidden.lines().map(|pid| pid.parse().unwrap()).collect();
        assert_eq!(pids.len(), 3);
        assert!(!pids.iter().any(|pid| is_alive(*pid)), "{hidden}");
    });
}
