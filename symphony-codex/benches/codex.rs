//! What a session costs, beside its limit in the same run: prints, asserts nothing.
//!
//! `cargo bench -p symphony-codex`, under a minute. Called as a test everything is small and runs
//! once, to see that it works. The lines are what Codex 0.166 sends, mostly deltas.

#![expect(clippy::unwrap_used, reason = "a measurement that cannot be made fails")]

use std::io::{BufRead as _, BufReader, PipeReader, PipeWriter, Write as _, stdin, stdout};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use symphony_codex::{CodexAgent, CodexSession};
use symphony_core::agent::{
    AgentBackend as _, AgentSession as _, AgentUpdate, SessionRequest, Turn, Updates,
};
use symphony_core::run::RunId;
use symphony_core::{Issue, Settings, StateSet};
use symphony_host::LocalHost;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

/// One turn as Codex sent it: its ids are those of the server here.
const RECORDED: &str = include_str!("../tests/recorded.jsonl");
const THREAD: &str = "0199a213-81c0-7800-8aa1-bbab2a035a53";
const TURN: &str = "0199a213-81c4-7a31-b25d-af4af371489a";

fn main() {
    symphony_host::init();
    if std::env::args().any(|argument| argument == "--server") {
        return serve_a_turn();
    }
    symphony_host::harden().unwrap(); // many pipes
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        throughput(if is_bench { 2_000_000 } else { 10_000 }).await;
        flood(if is_bench { 1_000_000 } else { 10_000 }).await;
        memory(if is_bench { 500 } else { 5 }).await;
        first_turn(if is_bench { 100 } else { 1 }).await;
    });
}

/// A hundred lines of a busy turn.
fn lines() -> String {
    let all = |method: &str| {
        let method = format!(r#"{{"method":"{method}""#);
        let lines: Vec<_> = RECORDED.lines().filter(|line| line.starts_with(&method)).collect();
        lines
    };
    let mix = [
        ("item/agentMessage/delta", 80),
        ("item/commandExecution/outputDelta", 12),
        ("thread/tokenUsage/updated", 2),
        ("item/started", 2),
        ("item/completed", 2),
        ("account/rateLimits/updated", 1),
        ("thread/status/changed", 1),
    ];
    let mut lines = String::new();
    for (method, count) in mix {
        for line in all(method).iter().cycle().take(count) {
            lines.push_str(line);
            lines.push('\n');
        }
    }
    assert_eq!(lines.lines().count(), 100);
    lines
}

/// The other end of a session: answers, and floods in a turn.
struct Server {
    input: BufReader<PipeReader>,
    output: PipeWriter,
}

impl Server {
    /// Answers until a turn is started.
    fn greet(&mut self) {
        for line in (&mut self.input).lines() {
            let asked: Value = serde_json::from_str(&line.unwrap()).unwrap();
            let Some(id) = asked["id"].as_u64() else { continue };
            let answer = format!(
                r#"{{"id":{id},"result":{{"thread":{{"id":"{THREAD}"}},"turn":{{"id":"{TURN}"}}}}}}"#
            );
            writeln!(self.output, "{answer}").unwrap();
            if asked["method"] == "turn/start" {
                return;
            }
        }
    }

    fn flood(&mut self, lines: &str, times: usize) {
        for _ in 0..times {
            self.output.write_all(lines.as_bytes()).unwrap();
        }
    }

    fn complete(&mut self) {
        let end = RECORDED.lines().last().unwrap();
        assert!(end.starts_with(r#"{"method":"turn/completed""#));
        writeln!(self.output, "{end}").unwrap();
    }
}

fn request(command: &str, updates: Updates) -> SessionRequest {
    let (active, over) = (StateSet::new(["Todo"]), StateSet::new(["Done"]));
    let mut settings = Settings::new("memory", active, over, "/tmp".into());
    settings.agent.common.command = Some(command.to_owned());
    let issue = Issue::new("1", "MT-1", "Fix the door", "Todo").unwrap();
    let run = RunId { boot: 1, number: 1 };
    SessionRequest::new(run, issue.into(), "/tmp".into(), settings.into(), updates)
}

/// A session over real pipes, and what serves it.
async fn connected(updates: Updates, serve: impl FnOnce(Server) + Send + 'static) -> CodexSession {
    let (input, ours) = std::io::pipe().unwrap();
    let (output, theirs) = std::io::pipe().unwrap();
    std::thread::spawn(move || serve(Server { input: BufReader::new(input), output: theirs }));
    let output = pipe::Receiver::from_owned_fd(output.into()).unwrap();
    let input = pipe::Sender::from_owned_fd(ours.into()).unwrap();
    CodexSession::connect(output, input, request("", updates)).await.unwrap()
}

fn silent() -> Updates {
    Updates::new(|_| {})
}

fn turn() -> Turn {
    Turn::new(RunId { boot: 1, number: 1 }, 1, "Please")
}

/// Rounds in which all take turns, so that a slow moment hits all of them.
const ROUNDS: usize = 7;

async fn throughput(total: usize) {
    println!("## Lines from pipes into sessions\n");
    println!("| agents | ours | processor, all in | found, not read | goal | met | reference |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    let lines = Arc::new(lines());
    let sizes = [(1, "83k/s"), (10, "58k/s"), (100, "12k/s")];
    let mut figures = sizes.map(|_| [const { Vec::new() }; 3]);
    for _ in 0..ROUNDS {
        for ((agents, _), [ours, spent, bare]) in sizes.iter().zip(&mut figures) {
            let times = total / 100 / agents;
            let count = (times * agents * 100) as f64;
            let before = processor();
            ours.push(count / folded(*agents, times, &lines).await.as_secs_f64());
            spent.push((processor() - before) as f64 / count);
            bare.push(count / found(*agents, times, &lines).await.as_secs_f64());
        }
    }
    let [_, [ten, ..], [hundred, ..]] = &figures;
    let ratios = hundred.iter().zip(ten).map(|(hundred, ten)| hundred / ten).collect();
    for ((agents, reference), [ours, spent, bare]) in sizes.into_iter().zip(figures) {
        let [ours, spent, bare] = [ours, spent, bare].map(median);
        println!(
            "| {agents} | {:.0}k/s | {spent:.0} ns | {:.0}k/s | 500k/s | {} | {reference} |",
            ours / 1e3,
            bare / 1e3,
            if ours >= 500e3 { "yes" } else { "NO" },
        );
    }
    let ratio = median(ratios);
    let met = if ratio >= 0.8 { "yes" } else { "NO" };
    println!("| 100 to 10 | {ratio:.2} | | | 0.8 | {met} | 0.21 |");
    let length = lines.len() / 100;
    println!("\n{total} lines of {length} bytes on average; medians of {ROUNDS} rounds.\n");
}

/// The processor time of this process, writers and all, in nanoseconds.
fn processor() -> i64 {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    spent.tv_sec * 1_000_000_000 + spent.tv_nsec
}

/// How long the sessions take to read everything and to hear the end of their turns.
async fn folded(agents: usize, times: usize, lines: &Arc<String>) -> Duration {
    let start = Arc::new(Barrier::new(agents + 1));
    let mut turns = tokio::task::JoinSet::new();
    for _ in 0..agents {
        let (start, lines) = (Arc::clone(&start), Arc::clone(lines));
        let mut session = connected(silent(), move |mut server| {
            server.greet();
            start.wait();
            server.flood(&lines, times);
            server.complete();
            server.greet(); // until it is closed
        })
        .await;
        turns.spawn(async move {
            session.run_turn(turn()).await.unwrap();
            session
        });
    }
    tokio::task::spawn_blocking(move || start.wait()).await.unwrap();
    let begun = Instant::now();
    let sessions = turns.join_all().await;
    let took = begun.elapsed();
    for session in sessions {
        Box::new(session).close().await.unwrap();
    }
    took
}

/// The limit: the same bytes out of the same pipes, and where their lines end.
async fn found(agents: usize, times: usize, lines: &Arc<String>) -> Duration {
    let start = Arc::new(Barrier::new(agents + 1));
    let mut readers = tokio::task::JoinSet::new();
    for _ in 0..agents {
        let (output, mut theirs) = std::io::pipe().unwrap();
        let (start, lines) = (Arc::clone(&start), Arc::clone(lines));
        std::thread::spawn(move || {
            start.wait();
            (0..times).for_each(|_| theirs.write_all(lines.as_bytes()).unwrap());
        });
        let mut output = pipe::Receiver::from_owned_fd(output.into()).unwrap();
        readers.spawn(async move {
            let mut buffer = vec![0; 64 * 1024];
            let mut found = 0;
            while let Ok(read @ 1..) = output.read(&mut buffer).await {
                found += memchr::memchr_iter(b'\n', &buffer[..read]).count();
            }
            found
        });
    }
    tokio::task::spawn_blocking(move || start.wait()).await.unwrap();
    let begun = Instant::now();
    readers.join_all().await;
    begun.elapsed()
}

/// A consumer that takes one update a second, and a flood.
async fn flood(count: usize) {
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let updates = Updates::new(move |update| drop(sender.send(update)));
    let consumer = tokio::spawn(async move {
        let mut taken = 0;
        while receiver.recv().await.is_some() {
            taken += 1;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        taken
    });
    let lines = lines();
    let (begin, begun) = std::sync::mpsc::channel();
    let mut session = connected(updates, move |mut server| {
        server.greet();
        begun.recv().unwrap();
        server.flood(&lines, count / 100);
        server.complete();
        server.greet();
    })
    .await;
    let before = resident();
    let most = Arc::new(AtomicUsize::new(before));
    let watched = Arc::clone(&most);
    let watcher = tokio::spawn(async move {
        loop {
            watched.fetch_max(resident(), Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    begin.send(()).unwrap();
    session.run_turn(turn()).await.unwrap();
    watcher.abort();
    Box::new(session).close().await.unwrap();
    consumer.abort();
    let grown = most.load(Ordering::Relaxed) - before;
    let met = if grown <= 32 * 1024 { "yes" } else { "NO" };
    println!("## Memory\n\n| what | ours | goal | met |\n| --- | --- | --- | --- |");
    println!(
        "| growth in a flood of {count} lines, one update taken a second | {grown} KiB | 32 MiB | {met} |"
    );
}

/// What a session over pipes holds, with the threads that serve it taken off.
async fn memory(count: usize) {
    let updates = silent();
    // The server's thread ends, so that only ours is left; its pipes stay.
    let (keep, kept) = std::sync::mpsc::channel();
    let keep = Arc::new(Mutex::new(keep));
    let mut sessions = Vec::new();
    let mut before = 0;
    for place in 0..count + 10 {
        if place == 10 {
            before = resident(); // what is needed once is there
        }
        let keep = Arc::clone(&keep);
        let served = connected(updates.clone(), move |mut server| {
            // The three requests of the handshake.
            let mut line = String::new();
            for _ in 0..4 {
                line.clear();
                server.input.read_line(&mut line).unwrap();
                let asked: Value = serde_json::from_str(&line).unwrap();
                if let Some(id) = asked["id"].as_u64() {
                    let answer =
                        format!(r#"{{"id":{id},"result":{{"thread":{{"id":"{THREAD}"}}}}}}"#);
                    writeln!(server.output, "{answer}").unwrap();
                }
            }
            let _ = keep.lock().unwrap().send((server.input.into_inner(), server.output));
        });
        sessions.push(served.await);
    }
    let each = (resident() - before) as f64 / count as f64;
    drop(kept);
    println!("| one idle session, resident, of {count} | {each:.1} KiB | | |\n");
}

/// The resident memory of this process, in KiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// From `open` to the moment at which the server reads `turn/start`, against a bare start of the
/// same command.
async fn first_turn(rounds: usize) {
    let program = std::env::current_exe().unwrap();
    let command = format!("exec '{}' --server", program.display());
    let agent = CodexAgent::new(Arc::new(LocalHost::new()));
    let (mut bare, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let begun = now();
        let mut shell = std::process::Command::new("bash");
        let shell = shell.args(["-lc", &command]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        let mut ready = String::new();
        writeln!(child.stdin.as_mut().unwrap(), r#"{{"id":1,"method":"turn/start"}}"#).unwrap();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut ready).unwrap();
        bare.push(moment(&ready) - begun);
        drop(child.stdin.take());
        child.wait().unwrap();

        let told = Arc::new(Mutex::new(String::new()));
        let sink = Arc::clone(&told);
        let updates = Updates::new(move |update| {
            if let AgentUpdate::Session { session_id, .. } = update {
                *sink.lock().unwrap() = session_id.to_string();
            }
        });
        let begun = now();
        let mut session = agent.open(request(&command, updates)).await.unwrap();
        session.run_turn(turn()).await.unwrap();
        ours.push(moment(&told.lock().unwrap()) - begun);
        session.close().await.unwrap();
    }
    println!("## From `open` to the first turn\n\n| what | p50 | p99 |\n| --- | --- | --- |");
    let [bare, ours] = [bare, ours].map(|mut nanos| {
        nanos.sort_unstable();
        [50, 99]
            .map(|percent| nanos[(nanos.len() * percent / 100).min(nanos.len() - 1)] as f64 / 1e6)
    });
    println!("| the server's own start by `bash -lc` | {:.1} ms | {:.1} ms |", bare[0], bare[1]);
    println!(
        "| `open` to the server reading `turn/start` | {:.1} ms | {:.1} ms |",
        ours[0], ours[1]
    );
    let more = ours[0] - bare[0];
    let met = if more < 10.0 { "yes" } else { "NO" };
    println!(
        "| more than the server's own (goal 10 ms: {met}) | {more:.1} ms | {:.1} ms |",
        ours[1] - bare[1]
    );
    println!("\n{rounds} rounds, one after the other.\n");
}

/// A server that answers at once and calls its turns by the time at which it read `turn/start`.
fn serve_a_turn() {
    for line in stdin().lines() {
        let Ok(line) = line else { return };
        let at = now();
        let asked: Value = serde_json::from_str(&line).unwrap_or_default();
        let Some(id) = asked["id"].as_u64() else { continue };
        let mut out = stdout().lock();
        let _ = writeln!(
            out,
            r#"{{"id":{id},"result":{{"thread":{{"id":"T"}},"turn":{{"id":"at{at}"}}}}}}"#
        );
        if asked["method"] == "turn/start" {
            let _ = writeln!(
                out,
                r#"{{"method":"turn/completed","params":{{"threadId":"T","turn":{{"id":"at{at}","status":"completed"}}}}}}"#
            );
        }
        let _ = out.flush();
    }
}

/// The time that a server wrote into an id.
fn moment(text: &str) -> i64 {
    let digits = text.rsplit("at").next().unwrap();
    digits.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

/// A clock that all processes share.
fn now() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
