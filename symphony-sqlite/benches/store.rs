//! What a commit costs beside a bare `fdatasync` of the same bytes, and a restart beside a bare select
//! and parse of the same rows: prints, asserts nothing.
//!
//! `cargo bench -p symphony-sqlite`; called as a test it makes one round, to see that it works.

#![expect(clippy::unwrap_used, reason = "a measurement that cannot be made fails")]

use std::fs::File;
use std::io::{Seek, SeekFrom, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use symphony_core::store::{
    Batch, ClaimRow, Durability, MemoryStore, RunQuery, RunRow, SpendGroup, SpendQuery, Store,
    Write,
};
use symphony_core::{Issue, Scope, Settings, StateSet, WorkspaceKey};
use symphony_memory::{AgentScript, MemoryTracker, ScriptedAgent};
use symphony_runtime::{FixedAgent, FixedTracker, Service};
use symphony_sqlite::SqliteStore;
use tokio::runtime::Runtime;

/// SQLite begins its log anew at about this length; so does the bare file.
const MAX_LOG_BYTES: u64 = 4 << 20;

fn scope() -> Scope {
    Scope::from("linear:team")
}

fn claim(number: usize, attempt: u32) -> ClaimRow {
    let id = format!("id-{number}");
    let mut issue = Issue::new(&id, &id, "Mend the gate, which squeaks", "In Progress").unwrap();
    issue.url = Some(format!("https://example.com/issues/{id}"));
    let key = WorkspaceKey::derive(&id).unwrap();
    let row = serde_json::json!({
        "scope": scope(), "issue": issue, "key": key, "attempt": attempt, "agent": "codex",
        "thread": "0199a213-81c0-7800-8aa1-bbab2a035a53", "due": {"at": 0, "span_ms": 10_000},
    });
    serde_json::from_value(row).unwrap()
}

fn batch(durability: Durability, rows: impl IntoIterator<Item = ClaimRow>) -> Batch {
    let writes = rows.into_iter().map(|row| Write::Claim(Box::new(row))).collect();
    Batch { durability, writes }
}

fn timed<R>(work: impl FnOnce() -> R) -> (Duration, R) {
    let start = Instant::now();
    let result = work();
    (start.elapsed(), result)
}

/// Times of two contenders, which took turns.
#[derive(Default)]
struct Pair {
    ours: Vec<Duration>,
    limit: Vec<Duration>,
}

impl Pair {
    fn push(&mut self, ours: Duration, limit: Duration) {
        self.ours.push(ours);
        self.limit.push(limit);
    }

    fn row(mut self, what: &str, limit: &str, goal: f64) -> String {
        let percentiles = |times: &mut Vec<Duration>| {
            times.sort();
            [50, 99].map(|percent| times[(times.len() - 1) * percent / 100])
        };
        let ([p50, p99], [bare_p50, bare_p99]) =
            (percentiles(&mut self.ours), percentiles(&mut self.limit));
        let ratio = p50.as_secs_f64() / bare_p50.as_secs_f64().max(1e-9);
        let met = if ratio <= goal { "yes" } else { "NO" };
        format!(
            "| {what} | {p50:.2?} ({p99:.2?}) | {bare_p50:.2?} ({bare_p99:.2?}) {limit} \
             | {ratio:.2} | {goal:.2} | {met} |"
        )
    }
}

/// One row, again and again, in a store of a thousand.
fn commits(runtime: &Runtime, folder: &Path, durability: Durability, rounds: u32) -> Pair {
    let store = SqliteStore::open(folder.join("commits.db")).unwrap();
    let filled = batch(Durability::Machine, (0..1000).map(|number| claim(number, 0)));
    runtime.block_on(store.commit(&filled)).unwrap();
    let mut bare = File::create(folder.join("bare")).unwrap();
    let mut pair = Pair::default();
    for round in 0..rounds {
        let row = claim(round as usize % 1000, round + 1);
        let bytes = serde_json::to_vec(&row).unwrap();
        let batch = batch(durability, [row]);
        let (ours, committed) = timed(|| runtime.block_on(store.commit(&batch)));
        committed.unwrap();
        if bare.stream_position().unwrap() > MAX_LOG_BYTES {
            bare.seek(SeekFrom::Start(0)).unwrap();
        }
        let (limit, ()) = timed(|| {
            bare.write_all(&bytes).unwrap();
            bare.sync_data().unwrap();
        });
        pair.push(ours, limit);
    }
    pair
}

/// `begin` with many claims, beside a loop that reads and parses them.
fn restarts(runtime: &Runtime, folder: &Path, claims: usize, rounds: u32) -> Pair {
    let path = folder.join("restarts.db");
    let store = SqliteStore::open(&path).unwrap();
    let filled = batch(Durability::Machine, (0..claims).map(|number| claim(number, 1)));
    runtime.block_on(store.commit(&filled)).unwrap();
    let bare = Connection::open(&path).unwrap();
    let mut pair = Pair::default();
    for _ in 0..rounds {
        let begin = || runtime.block_on(store.begin(&scope(), Default::default())).unwrap();
        let (ours, life) = timed(begin);
        assert_eq!(life.rows.claims.len(), claims);
        drop(life);
        let (limit, rows) = timed(|| {
            let mut select = bare.prepare("SELECT body FROM claim WHERE scope = ?1").unwrap();
            let mut found = select.query([scope().as_str()]).unwrap();
            let mut rows: Vec<ClaimRow> = Vec::new();
            while let Some(row) = found.next().unwrap() {
                rows.push(serde_json::from_str(row.get_ref(0).unwrap().as_str().unwrap()).unwrap());
            }
            rows
        });
        assert_eq!(rows.len(), claims);
        pair.push(ours, limit);
    }
    pair
}

/// A service with an agent that does nothing, beside the same one with a store in memory: how long
/// it takes to do many issues.
fn services(runtime: &Runtime, folder: &Path, issues: usize, rounds: usize) -> Pair {
    let mut pair = Pair::default();
    for round in 0..rounds {
        let file = SqliteStore::open(folder.join(format!("service-{round}.db"))).unwrap();
        let root = folder.join(format!("root-{round}"));
        let ours = || service(runtime, &root.join("ours"), Arc::new(file), issues);
        let limit = || service(runtime, &root.join("limit"), Arc::new(MemoryStore::new()), issues);
        std::fs::create_dir(&root).unwrap();
        pair.push(ours(), limit());
    }
    pair
}

fn service(runtime: &Runtime, root: &Path, store: Arc<dyn Store>, issues: usize) -> Duration {
    let ids: Vec<_> = (1..=issues).map(|number| number.to_string()).collect();
    let board = MemoryTracker::new();
    for id in &ids {
        board.add(Issue::new(id, &format!("MT-{id}"), "Mend the gate", "Todo").unwrap());
    }
    let (todo, done) = (StateSet::new(["Todo"]), StateSet::new(["Done"]));
    let mut settings = Settings::new("board", todo, done, root.to_owned());
    settings.agent.kind = "scripted".to_owned();
    settings.agent.max_concurrent_agents = 100;
    let agent = ScriptedAgent::new(AgentScript::new().set_state("Done")).without_entries();
    runtime.block_on(async {
        let service = Service::builder()
            .settings(settings, "Do {{ issue.identifier }}.")
            .tracker(FixedTracker::new("board", Arc::new(board.clone())))
            .agent(FixedAgent::new("scripted", Arc::new(agent)))
            .store(store)
            .build()
            .await
            .unwrap();
        let (handle, began) = (service.handle(), Instant::now());
        let running = tokio::spawn(service.run());
        board.wait_until(|board| ids.iter().all(|id| board.is_in(id, "Done"))).await;
        let took = began.elapsed();
        handle.shut_down().unwrap();
        running.await.unwrap();
        took
    })
}

fn run(number: usize) -> RunRow {
    let row = serde_json::json!({
        "run": {"boot": 1, "number": number}, "scope": scope(), "issue": format!("id-{}", number % 500),
        "identifier": format!("MT-{}", number % 500), "title": "Mend the gate, which squeaks",
        "state": "In Progress", "agent": "codex", "began": number * 300_000,
        "ended": number * 300_000 + 250_000, "outcome": "succeeded", "turns": 4, "model": "gpt-5",
        "effort": "high", "thread": "0199a213-81c0-7800-8aa1-bbab2a035a53",
        "tokens": {"input": 200_000, "cached_input": 150_000, "output": 9_000,
                   "reasoning_output": 4_000, "total": 209_000},
    });
    serde_json::from_value(row).unwrap()
}

/// Queries over a long history: the figures alone.
fn history(runtime: &Runtime, folder: &Path, count: usize) -> String {
    let store = SqliteStore::open(folder.join("history.db")).unwrap();
    for part in (0..count).collect::<Vec<_>>().chunks(10_000) {
        let writes = part.iter().map(|number| Write::Run(Box::new(run(*number)))).collect();
        let batch = Batch { durability: Durability::Process, writes };
        runtime.block_on(store.commit(&batch)).unwrap();
    }
    let spend = |since| SpendQuery { scope: None, since, by: SpendGroup::Day };
    let month = symphony_core::time::Wall::from_unix_millis((count as i64 - 8_640) * 300_000);
    let mut page = RunQuery::default();
    (page.issue, page.limit) = (Some("id-7".into()), Some(50));
    let (of_issue, _) = timed(|| runtime.block_on(store.runs(&page)).unwrap());
    let (of_month, _) = timed(|| runtime.block_on(store.spend(&spend(Some(month)))).unwrap());
    let (of_all, _) = timed(|| runtime.block_on(store.spend(&spend(None))).unwrap());
    format!(
        "\nOf {count} runs: 50 of one issue in {of_issue:.2?}, the spend of 8,640 in {of_month:.2?}, \
         of all in {of_all:.2?}."
    )
}

fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let (commit_rounds, claims, rounds, runs) =
        if is_bench { (2_000, 10_000, 40, 100_000) } else { (2, 20, 1, 20) };
    let (issues, services_rounds) = if is_bench { (1_000, 5) } else { (3, 1) };
    // Beside the build, which is on a disk; what is temporary may be in memory.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (runtime, folder, bare) = (&runtime, folder.path(), "bare `fdatasync` of the same bytes");
    let lines = [
        commits(runtime, folder, Durability::Machine, commit_rounds).row(
            "a commit of one row, `Machine`",
            bare,
            2.0,
        ),
        commits(runtime, folder, Durability::Process, commit_rounds).row(
            "a commit of one row, `Process`",
            bare,
            2.0,
        ),
        restarts(runtime, folder, claims, rounds).row(
            "`begin` with 10,000 claims",
            "bare select and parse",
            1.5,
        ),
        services(runtime, folder, issues, services_rounds).row(
            "1,000 issues, 100 agents that do nothing",
            "the same without a file",
            1.0 / 0.95,
        ),
        history(runtime, folder, runs),
    ];
    if !is_bench {
        return println!("store: runs");
    }
    println!("### A commit, and a restart\n");
    println!("| what, p50 (p99) | ours | limit | ratio | goal | met |\n|---|---|---|---|---|---|");
    println!("{}", lines.join("\n"));
}
