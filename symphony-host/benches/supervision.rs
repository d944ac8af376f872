//! What supervision costs, beside its limit in the same run: prints, asserts nothing.
//!
//! `cargo bench -p symphony-host`, under 20 seconds; `ROUNDS=500` for more. Called as a test it
//! makes one round, to see that it works.

#![expect(clippy::unwrap_used, reason = "a measurement that cannot be made fails")]

use std::env;
use std::fs;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use symphony_host::{Host, HostCommand, LocalHost, Mark, ProcessScope, RunningCommand, Shell};
use tokio::io::AsyncReadExt;

/// A tree of nine: group, TERM-ignoring, job control, session, daemons, one of them without
/// environment, stopped. Each writes a line when it is there, and ends by itself after a minute.
const TREE: &str = "
    one='echo; exec sleep 60'
    sh -c \"$one\" &
    sh -c \"trap '' TERM; $one\" &
    bash -mc \"sh -c '$one' & wait\" &
    setsid sh -c \"$one\" &
    (setsid sh -c \"$one\" &)
    (env -i setsid sh -c \"$one\" &)
    setsid sh -c \"echo; kill -STOP \\$\\$\" &
    exec sleep 60";
const READY: usize = 7;

fn main() {
    symphony_host::init();
    let rounds = env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    let is_bench = env::args().any(|argument| argument == "--bench");
    let rounds = rounds.unwrap_or(if is_bench { 50 } else { 1 });
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let scope = |host| ProcessScope::new(Arc::new(host), Mark::new("bench", "1"));
        let plain = scope(LocalHost::new().without_control_groups());
        starts(&plain, rounds).await;
        ends(&plain, rounds).await;
        if LocalHost::new().guarantees().control_groups {
            println!("with control groups:");
            starts(&scope(LocalHost::new()), rounds).await;
            lost(&scope(LocalHost::new()), rounds).await;
        }
        println!("without:");
        lost(&plain, rounds).await;
        memory(&plain).await;
        for shell in [Shell::Sh, Shell::Bash] {
            println!("login of {}: {:?}", shell.as_str(), plain.login_time(shell).await.unwrap());
        }
    });
}

async fn starts(scope: &ProcessScope, rounds: usize) {
    let (mut bare, mut helped) = (Vec::new(), Vec::new());
    let command = HostCommand::new(["true"], "/");
    for _ in 0..2 * rounds {
        let start = Instant::now();
        let mut child = tokio::process::Command::new("true").stdin(Stdio::null()).spawn().unwrap();
        bare.push(start.elapsed());
        child.wait().await.unwrap();
        let start = Instant::now();
        let mut running = scope.start(&command).await.unwrap();
        helped.push(start.elapsed());
        running.exited().await;
    }
    print("bare spawn", bare);
    print("start below a helper", helped);
}

async fn ends(scope: &ProcessScope, rounds: usize) {
    let (mut killed, mut dropped) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let mut running = tree(scope).await;
        let start = Instant::now();
        running.stop(Duration::ZERO).await.unwrap();
        killed.push(start.elapsed());

        let running = tree(scope).await;
        let helper = running.processes()[0];
        let start = Instant::now();
        drop(running);
        while helper.is_alive() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        dropped.push(start.elapsed());
    }
    print("stop to a tree of nine gone", killed);
    print("drop to a tree of nine gone", dropped);
}

/// The case that needs the hunt: the helper is killed.
async fn lost(scope: &ProcessScope, rounds: usize) {
    let mut hunted = Vec::new();
    for _ in 0..rounds {
        let mut running = tree(scope).await;
        let helper = i32::try_from(running.processes()[0].pid()).unwrap();
        let helper = Pid::from_raw(helper).unwrap();
        let start = Instant::now();
        kill_process(helper, Signal::KILL).unwrap();
        running.exited().await;
        hunted.push(start.elapsed());
    }
    print("helper killed to a tree of nine gone", hunted);
}

async fn tree(scope: &ProcessScope) -> RunningCommand {
    let mut running = scope.start(&HostCommand::script(Shell::Sh, TREE, "/")).await.unwrap();
    let stdout = running.stdout.as_mut().unwrap();
    for _ in 0..READY {
        stdout.read_u8().await.unwrap();
    }
    running
}

async fn memory(scope: &ProcessScope) {
    let running = scope.start(&HostCommand::new(["sleep", "60"], "/")).await.unwrap();
    let helper = running.processes()[0].pid();
    match fs::read_to_string(format!("/proc/{helper}/smaps_rollup")) {
        Ok(map) => {
            let part = |name: &str| map.lines().find(|line| line.starts_with(name)).unwrap_or("?");
            println!("memory of a helper: {}; {}", part("Rss:"), part("Private_Dirty:"));
        }
        Err(error) => println!("memory of a helper: {error} (it is closed to its own user)"),
    }
}

fn print(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
    println!("{what}: p50 {:?}, p99 {:?}, of {}", at(50), at(99), times.len());
}
