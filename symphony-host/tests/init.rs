//! A program that is its own helper: `init` first thing in `main`. Its own file, because a test
//! harness has a `main` of its own.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

use std::sync::Arc;
use std::time::Duration;

use symphony_host::{Exit, Host, HostCommand, LocalHost, Mark, ProcessScope, RunLimit, Shell};

fn main() {
    assert!(!LocalHost::new().guarantees().service_killed, "not before init");
    symphony_host::init();
    // A runner that runs tests one by one asks first which there are.
    let asks = |flag: &str| std::env::args().any(|argument| argument == flag);
    if asks("--list") {
        if !asks("--ignored") {
            println!("init: test");
        }
        return;
    }
    tokio::runtime::Runtime::new().unwrap().block_on(run());
    println!("test init ... ok");
}

async fn run() {
    let host = LocalHost::new();
    assert!(host.guarantees().is_full(), "{}", host.guarantees());
    let scope = ProcessScope::new(Arc::new(host), Mark::new("trial-init", "1"));
    let hook = HostCommand::script(Shell::Sh, "echo $SYMPHONY_MARK; (setsid sleep 1000 &)", "/");
    let finished = scope.run(&hook, RunLimit::new(Duration::from_secs(60))).await.unwrap();
    assert_eq!(finished.exit, Exit::Code(0));
    assert_eq!(finished.output.to_string(), "trial-init/1/1\n");
    let mut running = scope.start(&HostCommand::new(["sleep", "1000"], "/")).await.unwrap();
    let processes = running.processes();
    let name = std::fs::read_to_string(format!("/proc/{}/comm", processes[0].pid())).unwrap();
    assert_eq!(name, "symphony-helper\n");
    let stopped = running.stop(Duration::from_secs(60)).await;
    assert_eq!(stopped, Ok(Exit::Signal(15)));
    scope.close(Duration::from_millis(100)).await.unwrap();
    assert!(!processes.iter().any(|process| process.is_alive()));
}
