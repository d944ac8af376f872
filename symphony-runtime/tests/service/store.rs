//! A store that fails or hangs, and what a life leaves to the next (contract section 16).

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use symphony_core::orchestrator::{BlockReason, NoticeKind};
use symphony_core::snapshot::{Reason, Verdict};
use symphony_core::store::{
    Batch, Life, MemoryStore, Rows, RunQuery, RunRow, SpendQuery, SpendRow, Store, StoreError,
    StoreErrorKind,
};
use symphony_core::time::Wall;
use symphony_core::{FailureKind, Scope};
use symphony_memory::{AgentScript, Did, Gate, ScriptedAgent};
use symphony_runtime::{CommandError, ServiceEnd};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::harness::{Harness, Live, eventually, within, workflow};

/// What a store does with a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Keep,
    Hang,
    Refuse,
}

/// A store in memory that behaves as a test wants it to.
#[derive(Debug)]
struct ScriptedStore {
    inner: Arc<MemoryStore>,
    manner: watch::Sender<Manner>,
    open: AtomicUsize,
    tries: AtomicUsize,
}

impl ScriptedStore {
    fn new(inner: Arc<MemoryStore>) -> Arc<Self> {
        let (manner, _) = watch::channel(Manner::Keep);
        Arc::new(Self { inner, manner, open: AtomicUsize::new(0), tries: AtomicUsize::new(0) })
    }

    fn set(&self, manner: Manner) {
        self.manner.send_replace(manner);
    }

    async fn kept(&self) -> Rows {
        self.inner.rows(&Scope::from("memory")).await.unwrap()
    }
}

#[async_trait]
impl Store for ScriptedStore {
    async fn begin(&self, scope: &Scope, now: Wall) -> Result<Life, StoreError> {
        self.inner.begin(scope, now).await
    }

    async fn rows(&self, scope: &Scope) -> Result<Rows, StoreError> {
        self.inner.rows(scope).await
    }

    async fn commit(&self, batch: &Batch) -> Result<(), StoreError> {
        assert_eq!(self.open.fetch_add(1, Ordering::SeqCst), 0, "two commits are open");
        self.tries.fetch_add(1, Ordering::SeqCst);
        let manner = *self.manner.subscribe().wait_for(|now| *now != Manner::Hang).await.unwrap();
        self.open.fetch_sub(1, Ordering::SeqCst);
        match manner {
            Manner::Refuse => Err(StoreError::new(StoreErrorKind::Full, "the disk is full")),
            _ => self.inner.commit(batch).await,
        }
    }

    async fn runs(&self, query: &RunQuery) -> Result<Vec<RunRow>, StoreError> {
        self.inner.runs(query).await
    }

    async fn spend(&self, query: &SpendQuery) -> Result<Vec<SpendRow>, StoreError> {
        self.inner.spend(query).await
    }
}

/// A service with a store that can be told how to behave.
async fn with_store(harness: &Harness) -> (Live, Arc<ScriptedStore>) {
    let store = ScriptedStore::new(harness.store.clone());
    if !harness.file().exists() {
        harness.write("");
    }
    (Live::start(harness.builder().store(store.clone())).await, store)
}

fn prompts(harness: &Harness, identifier: &str) -> Vec<String> {
    let told = |did| match did {
        Did::Turn { prompt, .. } => Some(prompt),
        _ => None,
    };
    harness.agent.journal().for_issue(identifier).into_iter().filter_map(told).collect()
}

/// Everything but starts, turns and removals goes on while the store hangs for this long.
async fn hangs_for(span: Duration, stall_timeout: Duration) {
    let gate = Gate::new();
    let agent = ScriptedAgent::new(AgentScript::new().hang())
        .for_issue("MT-2", AgentScript::new().stall())
        .for_issue("MT-3", AgentScript::new().wait_for(&gate).next_turn().hang());
    let harness = Harness::new(AgentScript::new()).with_agent(agent);
    let settings = format!("  stall_timeout_ms: {}", stall_timeout.as_millis());
    harness.write(&settings);
    ["1", "2", "3"].iter().for_each(|n| harness.issue(n, &format!("MT-{n}")));
    let (live, store) = with_store(&harness).await;
    within("three agents", harness.agent.wait_until(|journal| journal.opened() == 3)).await;
    live.until("all at work", |s| s.running.iter().all(|row| row.turns == 1)).await;
    store.set(Manner::Hang);
    let healed = Instant::now() + span;

    gate.open(); // the turn of MT-3 ends, and the next one is ordered
    harness.board.set_state("1", "Done");
    harness.issue("4", "MT-4");
    live.handle.poll_now().unwrap();
    live.until("the stall", |s| s.waiting.iter().any(|row| row.issue.id.as_str() == "2")).await;
    live.until("the stop", |s| s.cleaning.iter().any(|row| row.issue.id.as_str() == "1")).await;
    live.until("it shows", |s| s.storage.is_some()).await;
    let snapshot = live.handle.snapshot().unwrap();
    assert!(matches!(snapshot.verdict, Verdict::Storage(_)), "{:?}", snapshot.verdict);
    assert_eq!(live.handle.pause().await, Err(CommandError::Storage));
    live.until("in force all the same", |s| s.paused).await;
    assert_eq!(live.handle.resume().await, Err(CommandError::Storage));
    live.handle.explain().await.unwrap();
    harness.write(&format!("{settings}\npolling:\n  interval_ms: 7000"));
    eventually("the edit", || live.happened(|what| *what == NoticeKind::Reloaded) == 1).await;
    let before = harness.board.requests();
    live.handle.poll_now().unwrap();
    eventually("a read", || harness.board.requests() > before).await;
    tokio::time::sleep_until(healed).await;

    assert_eq!(harness.agent.journal().opened(), 3, "nothing was started");
    assert_eq!(prompts(&harness, "MT-3").len(), 1, "no turn was given");
    assert!(harness.workspace("MT-1").exists(), "nothing was removed");
    store.set(Manner::Keep);
    live.until("over", |s| s.storage.is_none()).await;
    eventually("it is removed", || !harness.workspace("MT-1").exists()).await;
    let started = |journal: &symphony_memory::Journal| !journal.for_issue("MT-4").is_empty();
    within("a start", harness.agent.wait_until(started)).await;
    eventually("the turn", || prompts(&harness, "MT-3").len() == 2).await;
    assert_ne!(prompts(&harness, "MT-3")[1], "Do A title.");
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_16_3_a_store_that_hangs_for_five_seconds_delays_only_what_depends_on_it() {
    hangs_for(Duration::from_secs(5), Duration::from_secs(2)).await;
}

#[tokio::test(start_paused = true)]
async fn rule_16_3_a_store_that_hangs_for_ten_minutes_delays_only_what_depends_on_it() {
    hangs_for(Duration::from_secs(600), Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn rule_16_3_a_service_whose_store_hangs_ends() {
    let harness = Harness::new(AgentScript::new().hang());
    harness.issue("1", "MT-1");
    let (live, store) = with_store(&harness).await;
    live.until("a run", |s| s.running.iter().any(|row| row.turns == 1)).await;
    store.set(Manner::Hang);
    harness.issue("2", "MT-2");
    live.handle.poll_now().unwrap();
    live.until("another", |s| s.running.len() == 2).await;
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
    assert_eq!((harness.agent.live_agents(), harness.agent.journal().opened()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn rule_16_1_a_stop_overtakes_a_start_that_waits_for_the_store() {
    let harness = Harness::new(AgentScript::new().hang());
    harness.issue("1", "MT-1");
    let store = ScriptedStore::new(harness.store.clone());
    store.set(Manner::Hang);
    harness.write("");
    let live = Live::start(harness.builder().store(store.clone())).await;
    live.until("decided", |s| s.running.len() == 1).await;
    assert_eq!(live.handle.stop("1".into()).await, Err(CommandError::Storage));
    live.until("blocked", |s| s.blocked.len() == 1).await;
    store.set(Manner::Keep);
    live.until("over", |s| s.storage.is_none()).await;
    // Longer than a poll takes.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(harness.agent.journal().opened(), 0);
    let kept = store.kept().await;
    assert_eq!((kept.claims.len(), kept.open_runs.len(), kept.totals.cancelled), (1, 0, 1));
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_16_1_what_was_acknowledged_is_kept() {
    let harness = Harness::new(AgentScript::new().hang());
    harness.issue("1", "MT-1");
    let (live, store) = with_store(&harness).await;
    live.until("a run", |s| s.running.len() == 1).await;
    live.handle.pause().await.unwrap();
    assert!(store.kept().await.operator.paused);
    live.handle.stop("1".into()).await.unwrap();
    assert_eq!(store.kept().await.claims[0].stage, symphony_core::store::ClaimStage::Blocked);
    live.handle.resume().await.unwrap();
    assert!(!store.kept().await.operator.paused);
    live.kill().await;
    let handle = {
        let (live, _) = with_store(&harness).await;
        let handle = live.handle.clone();
        assert_eq!(live.shut_down().await, ServiceEnd::Drained);
        handle
    };
    assert!(matches!(handle.pause().await, Err(CommandError::Stopped(_))));
}

#[tokio::test(start_paused = true)]
async fn rule_16_3_a_trouble_of_the_store_is_told_once_and_heals() {
    let harness = Harness::new(AgentScript::new().hang());
    let (live, store) = with_store(&harness).await;
    live.until("a poll", |s| s.candidates.read_at.is_some()).await;
    store.set(Manner::Refuse);
    harness.issue("1", "MT-1");
    live.handle.poll_now().unwrap();
    live.until("it shows", |s| s.storage.is_some()).await;
    harness.issue("2", "MT-2");
    live.handle.poll_now().unwrap();
    let is_held = |s: &symphony_core::snapshot::Snapshot| {
        s.candidates.first.iter().any(|row| row.reason == Reason::Storage)
    };
    live.until("it is held", is_held).await;
    let before = store.tries.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(store.tries.load(Ordering::SeqCst) > before, "it is tried again");
    let told = |is_over: bool| {
        live.happened(
            |what| matches!(what, NoticeKind::Storage { failure } if failure.is_none() == is_over),
        )
    };
    assert_eq!((told(false), told(true), harness.agent.journal().opened()), (1, 0, 0));
    store.set(Manner::Keep);
    within("both start", harness.agent.wait_until(|journal| journal.opened() == 2)).await;
    live.until("over", |s| s.storage.is_none()).await;
    assert_eq!((told(false), told(true)), (1, 1));
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
    assert_eq!(store.kept().await.claims.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn rule_16_4_a_killed_service_comes_back_as_it_was() {
    let agent = ScriptedAgent::new(AgentScript::new().hang())
        .for_issue("MT-2", AgentScript::new().ask("Which door?"))
        .for_issue("MT-3", AgentScript::new().exit("gone"));
    let harness = Harness::new(AgentScript::new()).with_agent(agent);
    harness.write("  max_retry_backoff_ms: 3600000");
    ["1", "2", "3"].iter().for_each(|n| harness.issue(n, &format!("MT-{n}")));
    let (live, _) = with_store(&harness).await;
    let has_failed = |s: &symphony_core::snapshot::Snapshot| {
        s.waiting.iter().any(|row| row.attempt >= 3) && s.blocked.len() == 1
    };
    live.until("tried thrice", has_failed).await;
    live.handle.pause().await.unwrap();
    let before = live.handle.snapshot().unwrap();
    live.kill().await;
    let (live, _) = with_store(&harness).await;
    let after = live.handle.snapshot().unwrap();
    assert!(after.paused);
    assert_eq!(after.blocked[0].why, before.blocked[0].why);
    assert!(matches!(after.blocked[0].why, BlockReason::Question(_)));
    let of = |s: &symphony_core::snapshot::Snapshot, id: &str| {
        s.waiting.iter().find(|row| row.issue.id.as_str() == id).cloned().unwrap()
    };
    assert_eq!(of(&after, "3").attempt, of(&before, "3").attempt);
    assert_eq!(of(&after, "3").failure, of(&before, "3").failure);
    let interrupted = of(&after, "1").failure.unwrap();
    assert_eq!(interrupted.kind, FailureKind::Interrupted);
    assert_eq!(after.totals.interrupted, 1);
    assert_eq!(after.totals.started, before.totals.started);
    live.handle.resume().await.unwrap();
    within("it goes on", harness.agent.wait_until(|journal| journal.for_issue("MT-1").len() > 3))
        .await;
    eventually("a turn", || prompts(&harness, "MT-1").len() == 2).await;
    let told = prompts(&harness, "MT-1");
    assert_eq!(told[0], "Do A title.");
    assert!(told[1].starts_with("Symphony was restarted") && !told[1].contains("Do A"), "{told:?}");
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_16_3_an_agent_that_cannot_say_what_became_of_its_turn_is_told_to_look_first() {
    let harness = Harness::new(AgentScript::new().hang());
    harness.issue("1", "MT-1");
    let (live, _) = with_store(&harness).await;
    within("a turn", harness.agent.wait_until(|journal| journal.live_agents() == 1)).await;
    eventually("a turn", || prompts(&harness, "MT-1").len() == 1).await;
    live.kill().await;
    // As after a restart of the whole process: the script remembers no conversation.
    let harness = harness.with_agent(ScriptedAgent::new(AgentScript::new().hang()));
    let (live, _) = with_store(&harness).await;
    eventually("a turn", || prompts(&harness, "MT-1").len() == 1).await;
    let told = &prompts(&harness, "MT-1")[0];
    assert!(told.starts_with("Symphony was restarted"), "{told}");
    assert!(told.contains("you may have been given it already") && told.ends_with("Do A title."));
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_16_4_the_claims_of_a_scope_wait_for_its_return() {
    let harness = Harness::new(AgentScript::new().ask("Which door?"));
    harness.issue("1", "MT-1");
    let (live, _) = with_store(&harness).await;
    live.until("blocked", |s| s.blocked.len() == 1).await;
    fs::write(harness.dir.path().join("board.yml"), "issues: []\n").unwrap();
    let elsewhere =
        workflow("").replace("kind: memory", "kind: memory\n  provider:\n    board: board.yml");
    fs::write(harness.file(), elsewhere).unwrap();
    live.until("another scope", |s| s.blocked.is_empty()).await;
    harness.write("");
    live.until("back", |s| s.blocked.len() == 1).await;
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
    assert_eq!(harness.agent.journal().opened(), 1);
}
