//! What looking costs the one that is looked at: prints, asserts nothing.
//!
//! `cargo bench -p symphony-http`, about two minutes. A service with a thousand live runs and ten
//! thousand waiting issues takes a hundred thousand updates of agents a second, which is far more
//! than sessions let through; its thread is measured without listeners and with a hundred, ten of
//! which never read. Called as a test everything is small and runs once, to see that it works.

#![expect(clippy::unwrap_used, reason = "a measurement that cannot be made fails")]
#![expect(clippy::cast_precision_loss, reason = "figures for people")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rustix::time::{ClockId, clock_gettime};
use symphony_core::agent::{
    AgentBackend, AgentError, AgentErrorKind, AgentEvent, AgentSession, AgentUpdate,
    SessionRequest, Tokens, Turn, TurnEnd, Updates,
};
use symphony_core::snapshot::Snapshot;
use symphony_core::time::Wall;
use symphony_core::{Issue, Label, Settings, StateSet};
use symphony_http::{Config, Server};
use symphony_memory::MemoryTracker;
use symphony_runtime::{FixedAgent, FixedTracker, Handle, Service};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// How much there is of everything.
#[derive(Clone, Copy)]
struct Size {
    running: usize,
    waiting: usize,
    updates_per_second: usize,
    listeners: usize,
    deaf: usize,
    window: Duration,
    rounds: u32,
    reads: usize,
}

const FULL: Size = Size {
    running: 1_000,
    waiting: 10_000,
    updates_per_second: 100_000,
    listeners: 100,
    deaf: 10,
    window: Duration::from_secs(5),
    rounds: 5,
    reads: 1_000,
};

const SMALL: Size = Size {
    running: 5,
    waiting: 5,
    updates_per_second: 1_000,
    listeners: 3,
    deaf: 1,
    window: Duration::from_millis(300),
    rounds: 1,
    reads: 5,
};

fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let size = if is_bench { FULL } else { SMALL };
    // Two threads, as the command has.
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        reads_of_a_quiet_service(size).await;
        steps_with_listeners(size).await;
    });
}

/// A service with a thread of its own, and its server.
struct Scene {
    handle: Handle,
    port: u16,
    service: tokio::runtime::Handle,
    sessions: Arc<Mutex<Vec<Updates>>>,
    _root: tempfile::TempDir,
}

impl Scene {
    async fn new(size: Size) -> Self {
        // Folders that no disk is waited for.
        let shared = std::path::Path::new("/dev/shm");
        let place = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
        let root = tempfile::tempdir_in(place).unwrap();
        let (active, done) = (StateSet::new(["Todo"]), StateSet::new(["Done"]));
        let mut settings = Settings::new("board", active, done, root.path().join("work"));
        settings.agent.kind = "fed".to_owned();
        settings.agent.max_concurrent_agents = u32::try_from(size.running).unwrap();
        settings.agent.max_retry_backoff = Duration::from_secs(3_600);
        settings.polling.interval = Duration::from_secs(3_600);
        let board = MemoryTracker::new();
        let sessions = Arc::default();
        let builder = Service::builder()
            .settings(settings, "Please do this: {{ issue.title }}")
            .tracker(FixedTracker::new("board", Arc::new(board.clone())))
            .agent(FixedAgent::new("fed", Arc::new(Fed { sessions: Arc::clone(&sessions) })));
        let (tell, told) = oneshot::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.unwrap();
            let service = runtime.block_on(builder.build()).unwrap();
            let _ = tell.send((service.handle(), runtime.handle().clone()));
            runtime.block_on(service.run());
        });
        let (handle, service) = told.await.unwrap();
        let server = Server::bind(&Config::default()).await.unwrap();
        let port = server.address().port();
        tokio::spawn(server.serve(handle.clone()));
        let scene = Self { handle, port, service, sessions, _root: root };
        scene.fill(&board, "fail", size.waiting, None);
        scene.until(|now| now.waiting.len() + now.running.len() >= size.waiting).await;
        scene.fill(&board, "hang", size.running, Some(1));
        let has_begun = |now: &Snapshot| {
            let hang = now.running.iter().filter(|row| row.issue.priority == Some(1));
            hang.count() == size.running && now.waiting.len() == size.waiting
        };
        scene.until(has_begun).await;
        while scene.sessions.lock().unwrap().len() < size.running {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        scene
    }

    fn fill(&self, board: &MemoryTracker, label: &str, count: usize, priority: Option<i64>) {
        for number in 0..count {
            let name = format!("{label}-{number}");
            let title = format!("An issue with a title as long as titles are, number {number}");
            let mut issue = Issue::new(&name, &name, &title, "Todo").unwrap();
            issue.labels = Label::list([label]);
            issue.priority = priority;
            board.add(issue);
        }
        self.handle.poll_now().unwrap();
    }

    async fn until(&self, is_so: impl Fn(&Snapshot) -> bool) {
        let mut snapshots = self.handle.snapshots();
        let _ = snapshots.wait_for(|now| is_so(now)).await;
    }

    /// The processor time of the service's thread.
    async fn processor_time(&self) -> Duration {
        let asked = self.service.spawn(async { clock_gettime(ClockId::ThreadCPUTime) });
        asked.await.unwrap().try_into().unwrap()
    }

    /// How long each of so many reads of the state took, in order, and how long the answer is.
    async fn read(&self, count: usize) -> (Vec<Duration>, usize) {
        let mut stream = BufReader::new(connect(self.port).await);
        let (mut times, mut length, mut body) = (Vec::new(), 0, Vec::new());
        for _ in 0..count {
            let began = Instant::now();
            let request = b"GET /api/v1/state HTTP/1.1\r\nHost: localhost\r\n\r\n";
            stream.write_all(request).await.unwrap();
            let mut line = String::new();
            while line != "\r\n" {
                line.clear();
                stream.read_line(&mut line).await.unwrap();
                if let Some(number) = line.strip_prefix("content-length: ") {
                    length = number.trim().parse().unwrap();
                }
            }
            body.resize(length, 0);
            stream.read_exact(&mut body).await.unwrap();
            times.push(began.elapsed());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        times.sort();
        (times, length)
    }
}

async fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Agents that live until they are stopped, and are made to speak from outside.
#[derive(Debug)]
struct Fed {
    sessions: Arc<Mutex<Vec<Updates>>>,
}

#[async_trait]
impl AgentBackend for Fed {
    async fn open(&self, request: SessionRequest) -> Result<Box<dyn AgentSession>, AgentError> {
        if request.issue.labels.iter().any(|label| label.as_str() == "fail") {
            return Err(AgentError::new(AgentErrorKind::TurnFailed, "as the label says"));
        }
        self.sessions.lock().unwrap().push(request.updates);
        Ok(Box::new(Quiet))
    }
}

struct Quiet;

#[async_trait]
impl AgentSession for Quiet {
    async fn run_turn(&mut self, _: Turn) -> Result<TurnEnd, AgentError> {
        std::future::pending().await
    }

    async fn close(self: Box<Self>) -> Result<(), AgentError> {
        Ok(())
    }
}

/// Makes agents speak, in turn, until it is dropped.
struct Feeder {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Feeder {
    fn start(sessions: Vec<Updates>, per_second: usize) -> Self {
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&sent));
        let thread = std::thread::spawn(move || {
            let began = Instant::now();
            let mut number = 0_u64;
            while !stopped.load(Ordering::Relaxed) {
                let due = began.elapsed().as_secs_f64() * per_second as f64;
                while (number as f64) < due {
                    let at = usize::try_from(number).unwrap() % sessions.len();
                    sessions[at].send(update(number));
                    number += 1;
                }
                counted.store(number, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        Self { stop, sent, thread: Some(thread) }
    }

    fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

impl Drop for Feeder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

/// Of a hundred updates, most say only that an agent lives. A prime, so that every session gets
/// some of each kind.
fn update(number: u64) -> AgentUpdate {
    match number % 101 {
        0..=4 => AgentUpdate::Event(Arc::new(AgentEvent {
            name: "notification".to_owned(),
            summary: format!("reading file {number} of a long list of files"),
            at: Wall::default(),
        })),
        5..=7 => {
            let (input, output, total) = (number, number, 2 * number);
            let total = Tokens { input, output, total, ..Tokens::default() };
            AgentUpdate::Usage { thread: "t".into(), total: total.into() }
        }
        _ => AgentUpdate::Alive,
    }
}

const LISTEN: &[u8] = b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n";

async fn listen(port: u16, heard: Arc<AtomicU64>) {
    let mut stream = connect(port).await;
    stream.write_all(LISTEN).await.unwrap();
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(count) = stream.read(&mut bytes).await
        && count > 0
    {
        heard.fetch_add(count as u64, Ordering::Relaxed);
    }
}

/// Asks, and reads nothing.
async fn be_deaf(port: u16) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut stream = socket.connect(([127, 0, 0, 1], port).into()).await.unwrap();
    stream.write_all(LISTEN).await.unwrap();
    stream
}

async fn reads_of_a_quiet_service(size: Size) {
    let scene = Scene::new(Size { waiting: 0, ..size }).await;
    let (times, length) = scene.read(size.reads).await;
    let what = format!("{} running, no load (reference: 15.9 and 54 ms)", size.running);
    tell_reads(&what, &times, length);
}

async fn steps_with_listeners(size: Size) {
    let scene = Scene::new(size).await;
    let (times, length) = scene.read(size.reads).await;
    let what = format!("{} running, {} waiting, no load", size.running, size.waiting);
    tell_reads(&what, &times, length);
    let sessions = scene.sessions.lock().unwrap().clone();
    let feeder = Feeder::start(sessions, size.updates_per_second);
    tokio::time::sleep(size.window / 2).await;
    let step = async || {
        let (before, sent) = (scene.processor_time().await, feeder.sent());
        tokio::time::sleep(size.window).await;
        let (after, steps) = (scene.processor_time().await, feeder.sent() - sent);
        ((after - before).as_secs_f64() * 1e9 / steps as f64, steps)
    };
    let (mut alone, mut watched, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..size.rounds {
        let (nanos, steps) = step().await;
        println!("  {round}: alone   {nanos:5.0} ns a step, {steps} updates, {} MiB", resident());
        alone.push(nanos);
        let heard = Arc::new(AtomicU64::new(0));
        let (mut listeners, mut deaf) = (JoinSet::new(), Vec::new());
        let hearing = size.listeners - size.deaf;
        for _ in 0..hearing {
            listeners.spawn(listen(scene.port, Arc::clone(&heard)));
        }
        for _ in 0..size.deaf {
            deaf.push(be_deaf(scene.port).await);
        }
        tokio::time::sleep(size.window / 2).await;
        let before = heard.load(Ordering::Relaxed);
        let (nanos, steps) = step().await;
        let bytes = (heard.load(Ordering::Relaxed) - before) as f64;
        let rate = bytes / 1024.0 / hearing as f64 / size.window.as_secs_f64();
        let mib = resident();
        println!(
            "  {round}: watched {nanos:5.0} ns a step, {steps} updates, {mib} MiB, {rate:.0} KiB/s to each"
        );
        watched.push(nanos);
        memory.push(mib);
        if round + 1 == size.rounds {
            let (times, length) = scene.read(size.reads).await;
            tell_reads("the same under load, with listeners", &times, length);
        }
    }
    let (alone, watched) = (median(alone), median(watched));
    let (listeners, ratio) = (size.listeners, watched / alone);
    println!(
        "a step of the service's thread: {alone:.0} ns alone, {watched:.0} ns with {listeners} listeners, {ratio:.2}"
    );
    println!("resident with listeners, in MiB, round by round: {memory:?}");
}

fn tell_reads(what: &str, times: &[Duration], length: usize) {
    let at = |percent: usize| times[times.len() * percent / 100].as_secs_f64() * 1e3;
    let (p50, p99, kib) = (at(50), at(99), length / 1024);
    println!("GET /api/v1/state, {what}: p50 {p50:.2} ms, p99 {p99:.2} ms, {kib} KiB");
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The memory of this process that is in use, in MiB.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0_u64) * 4 / 1024
}
