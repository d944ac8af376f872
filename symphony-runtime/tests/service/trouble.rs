//! Trackers that hang, adapters that panic: the service goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use async_trait::async_trait;
use symphony_core::Settings;
use symphony_core::agent::{
    AgentBackend, AgentError, AgentFactory, AgentSession, SessionRequest, Turn, TurnEnd,
};
use symphony_core::env::Env;
use symphony_core::hooks::{Hook, HookContext, HookError, WorkspaceHooks};
use symphony_core::orchestrator::NoticeKind;
use symphony_core::tracker::{
    AgentTools, BuiltTracker, Poll, Polled, Tracker, TrackerContext, TrackerError, TrackerFactory,
    TrackerProfile,
};
use symphony_memory::{AgentScript, Gate, MemoryFactory, MemoryFault, Requests, ScriptedAgent};
use symphony_runtime::{ServiceBuilder, ServiceEnd};

use crate::harness::{Harness, Live, eventually, within};

#[tokio::test(start_paused = true)]
async fn rule_4_3_a_tracker_that_hangs_for_ever_delays_nothing_else() {
    let gate = Gate::new();
    let agent = ScriptedAgent::new(AgentScript::new().hang())
        .for_issue("MT-1", AgentScript::new().wait_for(&gate).exit("gone"))
        .for_issue("MT-2", AgentScript::new().stall());
    let harness = Harness::new(AgentScript::new()).with_agent(agent);
    harness.write("  stall_timeout_ms: 60000");
    ["1", "2", "3"].iter().for_each(|n| harness.issue(n, &format!("MT-{n}")));
    let live = harness.start().await;
    within("three agents", harness.agent.wait_until(|journal| journal.opened() == 3)).await;
    harness.board.faults().always(Requests::Reads, MemoryFault::Hang);
    live.handle.poll_now().unwrap();
    within("a hanging read", harness.board.faults().until_hanging(1)).await;

    // An exit, and a stall, while nothing is answered.
    gate.open();
    live.until("the exit", |s| s.waiting.iter().any(|row| row.issue.id.as_str() == "1")).await;
    live.until("the stall", |s| s.waiting.iter().any(|row| row.issue.id.as_str() == "2")).await;
    // A retry comes due, asks, and is not answered: it keeps its claim.
    live.until("the retry", |s| s.checking.iter().any(|row| row.issue.id.as_str() == "1")).await;
    // The read is given up, and the retry waits again with the same attempt.
    live.until("given up", |s| {
        let waits = s.waiting.iter().find(|row| row.issue.id.as_str() == "1");
        waits.is_some_and(|row| {
            let failure = row.failure.as_ref().map(ToString::to_string).unwrap_or_default();
            row.attempt == 1 && failure.contains("did not answer within 30000 ms")
        })
    })
    .await;
    // An edit is applied.
    harness.write("  stall_timeout_ms: 60000\npolling:\n  interval_ms: 7000");
    eventually("the edit", || live.happened(|what| *what == NoticeKind::Reloaded) == 1).await;
    // Answers can be had, and the end comes.
    assert_eq!(live.handle.snapshot().unwrap().running.len(), 1);
    live.handle.explain().await.unwrap();
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
    assert_eq!(harness.agent.live_agents(), 0);
}

/// What panics next.
#[derive(Debug, Default)]
struct Mood {
    poll: AtomicBool,
    ids: AtomicBool,
    tools: AtomicBool,
}

/// A tracker with moods.
#[derive(Debug)]
struct Moody(Arc<dyn Tracker>, Arc<Mood>);

#[async_trait]
impl Tracker for Moody {
    async fn poll(&self, poll: &Poll) -> Polled {
        let is_check = poll.candidates.is_none();
        assert!(!is_check || !self.1.ids.swap(false, Ordering::Relaxed), "ids are broken");
        assert!(is_check || !self.1.poll.swap(false, Ordering::Relaxed), "poll is broken");
        self.0.poll(poll).await
    }

    fn tools(&self) -> Option<Arc<dyn AgentTools>> {
        assert!(!self.1.tools.swap(false, Ordering::Relaxed), "tools are broken");
        self.0.tools()
    }
}

#[derive(Debug)]
struct MoodyFactory(MemoryFactory, Arc<Mood>);

impl TrackerFactory for MoodyFactory {
    fn kind(&self) -> &str {
        self.0.kind()
    }

    fn profile(&self) -> &TrackerProfile {
        self.0.profile()
    }

    fn build(&self, cx: &TrackerContext<'_>) -> Result<BuiltTracker, TrackerError> {
        assert_ne!(cx.tracker.timeout.as_millis(), 666, "the factory is broken");
        let mut built = self.0.build(cx)?;
        built.tracker = Arc::new(Moody(built.tracker, Arc::clone(&self.1)));
        Ok(built)
    }
}

fn moody(harness: &Harness, mood: &Arc<Mood>) -> ServiceBuilder {
    harness.write("");
    let factory = MoodyFactory(MemoryFactory::serving(harness.board.clone()), Arc::clone(mood));
    harness.builder().tracker(factory)
}

#[tokio::test(start_paused = true)]
async fn a_tracker_that_panics_is_a_failed_read() {
    let mood = Arc::new(Mood::default());
    let harness = Harness::new(AgentScript::new().set_state("Done"));
    harness.issue("1", "MT-1");
    mood.poll.store(true, Ordering::Relaxed);
    mood.ids.store(true, Ordering::Relaxed);
    mood.tools.store(true, Ordering::Relaxed);
    let hooks = Jumpy::default();
    hooks.calm.store(true, Ordering::Relaxed);
    let live = Live::start(moody(&harness, &mood).hooks(hooks.clone())).await;
    within("done all the same", harness.board.wait_until(|board| board.is_in("1", "Done"))).await;
    eventually("told", || {
        live.happened(|what| {
            matches!(what, NoticeKind::ReadFailed { failure, .. }
            if failure.to_string() == "internal_error: a task panicked: poll is broken")
        }) == 1
    })
    .await;
    let broken = |what: &NoticeKind| {
        matches!(what, NoticeKind::Ended { end, .. }
        if format!("{end:?}").contains("tools are broken"))
    };
    eventually("a failed run", || live.happened(broken) == 1).await;
    eventually("after_run for both", || hooks.after_runs.load(Ordering::Relaxed) == 2).await;
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_2_6_a_factory_that_panics_on_a_reload_is_a_problem_of_the_file() {
    let mood = Arc::new(Mood::default());
    let harness = Harness::new(AgentScript::new().hang());
    harness.issue("1", "MT-1");
    let live = Live::start(moody(&harness, &mood)).await;
    within("an agent", harness.agent.wait_until(|journal| journal.opened() == 1)).await;
    let text = std::fs::read_to_string(harness.file()).unwrap();
    let broken = text.replace("  kind: memory", "  kind: memory\n  timeout_ms: 666");
    std::fs::write(harness.file(), broken).unwrap();
    live.until("the problem", |s| !s.problems.is_empty()).await;
    std::fs::write(harness.file(), text).unwrap();
    live.until("no problem", |s| s.problems.is_empty()).await;
    assert_eq!(live.handle.snapshot().unwrap().running.len(), 1);
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

/// An agent that panics: in the first session when it opens, in the second in its turn, in the
/// third when it is closed.
#[derive(Debug, Default, Clone)]
struct Nervous(Arc<AtomicU32>, Arc<AtomicU32>);

struct NervousSession {
    session: u32,
    closed: Arc<AtomicU32>,
}

#[async_trait]
impl AgentBackend for Nervous {
    async fn open(&self, _: SessionRequest) -> Result<Box<dyn AgentSession>, AgentError> {
        let session = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        assert_ne!(session, 1, "open is broken");
        Ok(Box::new(NervousSession { session, closed: Arc::clone(&self.1) }))
    }
}

#[async_trait]
impl AgentSession for NervousSession {
    async fn run_turn(&mut self, _: Turn) -> Result<TurnEnd, AgentError> {
        tokio::task::yield_now().await;
        assert_ne!(self.session, 2, "turns are broken");
        if self.session > 3 {
            std::future::pending::<()>().await;
        }
        Ok(TurnEnd::Completed)
    }

    async fn close(self: Box<Self>) -> Result<(), AgentError> {
        self.closed.fetch_add(1, Ordering::Relaxed);
        assert_ne!(self.session, 3, "close is broken");
        Ok(())
    }
}

impl AgentFactory for Nervous {
    fn kind(&self) -> &str {
        "scripted"
    }

    fn build(&self, _: &Settings, _: &dyn Env) -> Result<Arc<dyn AgentBackend>, AgentError> {
        Ok(Arc::new(self.clone()))
    }
}

/// Hooks that panic until they are told not to, and count how often `after_run` was called.
#[derive(Debug, Default, Clone)]
struct Jumpy {
    calm: Arc<AtomicBool>,
    after_runs: Arc<AtomicU32>,
}

#[async_trait]
impl WorkspaceHooks for Jumpy {
    async fn run(&self, hook: Hook, _: &HookContext) -> Result<(), HookError> {
        if hook == Hook::AfterRun {
            self.after_runs.fetch_add(1, Ordering::Relaxed);
        }
        assert!(self.calm.load(Ordering::Relaxed), "{} is broken", hook.as_str());
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_panics_is_a_failed_run_and_is_closed() {
    let harness = Harness::new(AgentScript::new());
    harness.write("");
    harness.issue("1", "MT-1");
    let (agent, hooks) = (Nervous::default(), Jumpy::default());
    hooks.calm.store(true, Ordering::Relaxed);
    let builder = harness.builder().agent(agent.clone()).hooks(hooks.clone());
    let live = Live::start(builder).await;
    for expected in ["open is broken", "turns are broken"] {
        let failed = |what: &NoticeKind| {
            matches!(what, NoticeKind::Ended { end, .. }
            if format!("{end:?}").contains(expected))
        };
        eventually(expected, || live.happened(failed) == 1).await;
    }
    // The third session ends well, but for its closing: an issue that is done ends it.
    within("three sessions", async {
        while agent.0.load(Ordering::Relaxed) < 3 {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
    })
    .await;
    live.until("the fourth", |s| s.running.len() == 1 && s.totals.started >= 4).await;
    assert!(agent.1.load(Ordering::Relaxed) >= 2, "a session whose turn panicked is closed");
    assert!(hooks.after_runs.load(Ordering::Relaxed) >= 3, "after_run runs after a panic too");
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_panics_is_a_failed_hook() {
    let harness = Harness::new(AgentScript::new().hang());
    harness.write("");
    harness.issue("1", "MT-1");
    let hooks = Jumpy::default();
    let live = Live::start(harness.builder().hooks(hooks.clone())).await;
    live.until("a failure", |s| s.waiting.len() == 1).await;
    let failure = live.handle.snapshot().unwrap().waiting[0].failure.clone().unwrap();
    assert_eq!(
        failure.to_string(),
        "hook_failed: after_create ended with a task panicked: after_create is broken"
    );
    hooks.calm.store(true, Ordering::Relaxed);
    within("an agent", harness.agent.wait_until(|journal| journal.opened() == 1)).await;
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

/// Hooks that never end.
#[derive(Debug)]
struct Endless;

#[async_trait]
impl WorkspaceHooks for Endless {
    async fn run(&self, _: Hook, _: &HookContext) -> Result<(), HookError> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn hooks_of_an_embedder_are_bounded_in_time_too() {
    let harness = Harness::new(AgentScript::new());
    harness.write("");
    harness.issue("1", "MT-1");
    let live = Live::start(harness.builder().hooks(Endless)).await;
    live.until("a failure", |s| s.waiting.len() == 1).await;
    let failure = live.handle.snapshot().unwrap().waiting[0].failure.clone().unwrap();
    assert_eq!(
        failure.to_string(),
        "hook_failed: after_create did not end within 60000 ms; nothing was heard from it, not even on stderr: it or its login profile may hang"
    );
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}
