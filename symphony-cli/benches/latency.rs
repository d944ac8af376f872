//! How soon the service acts and what it takes, beside its limit in the same run: prints, asserts
//! nothing.
//!
//! `cargo bench -p symphony-cli`; `ROUNDS=500` for more. Called as a test it makes one round, to see
//! that it works.

#![expect(clippy::unwrap_used, reason = "a measurement that cannot be made fails")]

use std::env;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{self, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode};
use symphony_core::Issue;
use symphony_core::orchestrator::NoticeKind;
use symphony_host::{Host, HostCommand, LocalHost, Mark, ProcessScope, Shell};
use symphony_memory::{AgentScript, MemoryFactory, MemoryTracker, ScriptedAgent, ScriptedFactory};
use symphony_runtime::{Handle, NoticeItem, NoticeStream, Service, ServiceEnd};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;

fn main() {
    symphony_host::init();
    let is_bench = env::args().any(|argument| argument == "--bench");
    let rounds = env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    let rounds = rounds.unwrap_or(if is_bench { 200 } else { 1 });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // As a task: then no thread has to be woken that would not be in the service.
    runtime.block_on(runtime.spawn(starts(rounds))).unwrap();
    ready(rounds.div_ceil(5));
    memory(if is_bench { 500 } else { 5 });
}

/// From an issue that can be seen to a hook that runs: it writes into a pipe.
async fn starts(rounds: usize) {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let mut moments = moments(&pipe);
    let script = format!("echo > '{}'", pipe.display());
    let grouped: Arc<dyn Host> = Arc::new(LocalHost::new());
    let ungrouped: Arc<dyn Host> = Arc::new(LocalHost::new().without_control_groups());
    let mut services = [
        Served::start(folder.path(), "grouped", &grouped, &script).await,
        Served::start(folder.path(), "ungrouped", &ungrouped, &script).await,
    ];

    let mut times: [Vec<Duration>; 6] = Default::default();
    let [bare, lone, helped, durable, ours_lone, ours] = &mut times;
    for round in 0..rounds {
        let start = Instant::now();
        let mut shell = tokio::process::Command::new("sh");
        let shell = shell.args(["-lc", &script]).current_dir(folder.path()).stdin(Stdio::null());
        let mut child = shell.spawn().unwrap();
        bare.push(moments.recv().await.unwrap() - start);
        child.wait().await.unwrap();

        for (host, times) in [(&ungrouped, &mut *lone), (&grouped, &mut *helped)] {
            let scope = ProcessScope::new(Arc::clone(host), Mark::new("bench", &round.to_string()));
            let start = Instant::now();
            let command = HostCommand::script(Shell::Sh, &script, folder.path());
            let mut command = scope.start(&command).await.unwrap();
            times.push(moments.recv().await.unwrap() - start);
            command.exited().await;
            scope.close(Duration::ZERO).await.unwrap();
        }

        let start = Instant::now();
        let mut file = File::create(folder.path().join("durable")).unwrap();
        file.write_all(&[b'x'; 300]).and_then(|()| file.sync_data()).unwrap();
        durable.push(start.elapsed());

        let [grouped, ungrouped] = &mut services;
        ours_lone.push(ungrouped.round(round, &mut moments).await);
        ours.push(grouped.round(round, &mut moments).await);
    }
    for service in services {
        service.end().await;
    }

    println!("## From a visible issue to a hook that runs\n");
    println!("| what | p50 | p99 |\n| --- | --- | --- |");
    let [bare, lone, helped, durable, ours_lone, ours] = times.map(percentiles);
    for (what, (middle, worst)) in [
        ("a bare spawn of the same shell", bare),
        ("the same below a helper", lone),
        ("the same below a helper in a control group", helped),
        ("a small file made durable, as the record of a workspace is", durable),
        ("the service without control groups, from `poll_now`", ours_lone),
        ("the service, from `poll_now`", ours),
    ] {
        println!("| {what} | {} ms | {} ms |", millis(middle), millis(worst));
    }
    for (what, ours) in [("without control groups, ", ours_lone), ("", ours)] {
        let more = [ours.0.saturating_sub(bare.0), ours.1.saturating_sub(bare.1)].map(millis);
        println!(
            "| {what}more than a bare spawn (goal 2, 5 ms) | {} ms | {} ms |",
            more[0], more[1]
        );
    }
    println!("\n{rounds} rounds, one after the other.\n");
}

/// A service with a board of its own, whose `before_run` is a script.
struct Served {
    board: MemoryTracker,
    handle: Handle,
    notices: NoticeStream,
    running: JoinHandle<ServiceEnd>,
}

impl Served {
    async fn start(folder: &Path, name: &str, host: &Arc<dyn Host>, script: &str) -> Self {
        let path = folder.join(format!("{name}.md"));
        let file = format!(
            "---\ntracker:\n  kind: memory\nworkspace:\n  root: ./{name}\npolling:\n  \
             interval_ms: 3600000\nhooks:\n  before_run: |\n    {script}\nagent:\n  kind: scripted\n\
             ---\nGo.\n"
        );
        fs::write(&path, file).unwrap();
        let board = MemoryTracker::new();
        let agent = ScriptedAgent::new(AgentScript::new().set_state("Done"));
        let service = Service::builder()
            .workflow(path)
            .host(Arc::clone(host))
            .tracker(MemoryFactory::serving(board.clone()))
            .agent(ScriptedFactory::new(agent))
            .build()
            .await
            .unwrap();
        let handle = service.handle();
        let notices = handle.subscribe().unwrap();
        Self { board, handle, notices, running: tokio::spawn(service.run()) }
    }

    /// One issue from the board to its hook, and on until its workspace is gone.
    async fn round(&mut self, number: usize, moments: &mut UnboundedReceiver<Instant>) -> Duration {
        let id = number.to_string();
        self.board.add(Issue::new(id.as_str(), &format!("MT-{id}"), "Go", "Todo").unwrap());
        let start = Instant::now();
        self.handle.poll_now().unwrap();
        let taken = moments.recv().await.unwrap() - start;
        let is_cleaned = |item: &NoticeItem| matches!(item, NoticeItem::Notice(notice) if notice.what == NoticeKind::Cleaned);
        while !is_cleaned(&self.notices.next().await.unwrap()) {}
        taken
    }

    async fn end(self) {
        self.handle.shut_down().unwrap();
        self.running.await.unwrap();
    }
}

/// A pipe with a name, and when each line came out of it.
fn moments(pipe: &Path) -> UnboundedReceiver<Instant> {
    rustix::fs::mknodat(CWD, pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let (sender, receiver) = unbounded_channel();
    // Also open for writing, so that it never comes to its end.
    let mut pipe = File::options().read(true).write(true).open(pipe).unwrap();
    std::thread::spawn(move || {
        while pipe.read_exact(&mut [0]).is_ok() && sender.send(Instant::now()).is_ok() {}
    });
    receiver
}

/// From the start of the program to the first poll.
fn ready(rounds: usize) {
    let mut times = Vec::new();
    for _ in 0..rounds {
        let folder = tempfile::tempdir().unwrap();
        let start = Instant::now();
        let service = Program::start(folder.path(), 0, 10);
        times.push(start.elapsed());
        drop(service);
    }
    let (middle, worst) = percentiles(times);
    println!("## The program\n\n| what | measured | goal |\n| --- | --- | --- |");
    println!("| from start to ready, p50 | {} ms | 50 ms |", millis(middle));
    println!("| from start to ready, the worst of {rounds} | {} ms | |", millis(worst));
}

/// What the program has in memory, idle and with agents that hang.
fn memory(agents: u64) {
    let folder = tempfile::tempdir().unwrap();
    let idle = Program::start(folder.path(), 0, 10).settled_resident(0);
    println!("| resident, idle | {:.1} MiB | 12 MiB |", idle as f64 / 1024.0);
    let with = |running| {
        let folder = tempfile::tempdir().unwrap();
        Program::start(folder.path(), agents, running).settled_resident(running)
    };
    let (one, all) = (with(1), with(agents));
    let each = all.saturating_sub(one) as f64 / (agents - 1) as f64;
    println!("| resident, per running agent, {agents} of them | {each:.1} KiB | 32 KiB |");
}

/// `symphony run` with issues whose agents never end.
struct Program {
    child: process::Child,
    log: BufReader<process::ChildStderr>,
}

impl Program {
    /// Returns when it is ready.
    fn start(folder: &Path, issues: u64, at_once: u64) -> Self {
        let mut file = format!(
            "---\nworkspace:\n  root: ./work\nagent:\n  kind: scripted\n  \
             max_concurrent_agents: {at_once}\ntracker:\n  kind: memory\n  provider:\n    issues:\n"
        );
        for number in 0..issues {
            let issue =
                format!("{{identifier: MT-{number}, title: Go, state: Todo, labels: [hang]}}");
            writeln!(file, "      - {issue}").unwrap();
        }
        fs::write(folder.join("WORKFLOW.md"), file + "---\nGo.\n").unwrap();
        let mut command = process::Command::new(env!("CARGO_BIN_EXE_symphony"));
        command.current_dir(folder).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let mut program = Self { child, log };
        program.log_until("service starts");
        program
    }

    fn log_until(&mut self, wanted: &str) {
        let mut line = String::new();
        while !line.contains(wanted) {
            line.clear();
            assert_ne!(self.log.read_line(&mut line).unwrap(), 0, "no {wanted:?} in the log");
        }
    }

    /// Resident memory in KiB, a moment after so many runs have started.
    fn settled_resident(mut self, running: u64) -> u64 {
        for _ in 0..running {
            self.log_until("run started");
        }
        std::thread::sleep(Duration::from_secs(2));
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn percentiles(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
    (at(50), at(99))
}

fn millis(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1000.0)
}
