//! A whole service on Linear: how many requests it makes (contract 4.5, 12.5), counted by the fake.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use symphony_core::agent::AgentErrorKind;
use symphony_core::snapshot::Snapshot;
use symphony_host::{
    EarlierLife, Guarantees, Host, HostCommand, LocalHost, Mark, RunningCommand, SpawnError,
    Survivor, SweepError,
};
use symphony_linear::LINEAR_GRAPHQL;
use symphony_linear_fake::{Fake, FakeFault, FakeIssue, MadeRequest};
use symphony_memory::{AgentScript, Gate, ScriptedAgent, ScriptedFactory};
use symphony_runtime::{Handle, Service, ServiceEnd};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::harness::{factory, settings};

/// This machine, without a look at processes that are not a test's.
#[derive(Debug)]
pub(crate) struct Here;

#[async_trait]
impl Host for Here {
    fn guarantees(&self) -> Guarantees {
        LocalHost::without_helper().guarantees()
    }

    fn start(&self, command: &HostCommand, mark: &Mark) -> Result<RunningCommand, SpawnError> {
        LocalHost::without_helper().start(command, mark)
    }

    async fn end_leftovers(&self, _: &EarlierLife) -> Result<Vec<Survivor>, SweepError> {
        Ok(Vec::new())
    }
}

/// A running service on the fake.
pub(crate) struct Live {
    pub(crate) handle: Handle,
    task: JoinHandle<ServiceEnd>,
    _root: TempDir,
}

impl Live {
    pub(crate) async fn start(fake: &Fake, agents: u32, script: AgentScript) -> Self {
        Self::start_with(fake, agents, ScriptedAgent::new(script).without_entries()).await
    }

    pub(crate) async fn start_with(fake: &Fake, agents: u32, agent: ScriptedAgent) -> Self {
        Self::start_by(fake, agents, agent, &json!({})).await
    }

    /// The same, with these keys in `tracker.provider`.
    pub(crate) async fn start_by(
        fake: &Fake,
        agents: u32,
        agent: ScriptedAgent,
        provider: &Value,
    ) -> Self {
        let root = tempfile::Builder::new().prefix("linear-").tempdir().unwrap();
        let mut settings = settings(provider);
        settings.workspace.root = root.path().join("work");
        settings.agent.kind = "scripted".to_owned();
        settings.agent.max_concurrent_agents = agents;
        settings.agent.common.stall_timeout = None;
        let service = Service::builder()
            .settings(settings, "Do {{ issue.title }}.")
            .tracker(factory(fake))
            .agent(ScriptedFactory::new(agent))
            .host(Arc::new(Here))
            .build()
            .await
            .unwrap();
        let handle = service.handle();
        Self { handle, task: tokio::spawn(service.run()), _root: root }
    }

    /// Waits until a published snapshot is as the condition wants it.
    pub(crate) async fn until(&self, what: &str, mut is_so: impl FnMut(&Snapshot) -> bool) {
        let mut snapshots = self.handle.snapshots();
        let wait = snapshots.wait_for(|snapshot| is_so(snapshot));
        let ended = tokio::time::timeout(Duration::from_secs(600), wait).await;
        assert!(matches!(ended, Ok(Ok(_))), "{what}: {:#?}", self.handle.last_snapshot());
    }

    pub(crate) async fn shut_down(self) {
        self.handle.shut_down().unwrap();
        assert_eq!(self.task.await.unwrap(), ServiceEnd::Drained);
    }
}

pub(crate) async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

fn asks(made: &MadeRequest) -> (bool, usize) {
    let ids = made.variables["claimed"]["id"]["in"].as_array().map_or(0, Vec::len);
    (made.variables["askCandidates"] == Value::Bool(true), ids)
}

/// What was asked since the last look: whether for candidates, and for how many ids.
pub(crate) fn since(fake: &Fake) -> Vec<(bool, usize)> {
    let made = fake.made().iter().map(asks).collect();
    fake.forget();
    made
}

#[tokio::test(start_paused = true)]
async fn rule_4_5_an_idle_poll_is_one_request() {
    let fake = Fake::new();
    let live = Live::start(&fake, 10, AgentScript::new()).await;
    seconds(95).await;
    // At the start and after 30, 60 and 90 seconds.
    assert_eq!(since(&fake), [(true, 0); 4]);
    live.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn rule_4_5_a_poll_that_starts_ten_issues_is_two_requests_and_a_full_one_asks_for_no_more() {
    let fake = Fake::new();
    let live = Live::start(&fake, 10, AgentScript::new().hang()).await;
    seconds(15).await;
    assert_eq!(since(&fake), [(true, 0)]);
    fake.put((1..=20).map(FakeIssue::new));
    live.until("ten run", |s| s.running.len() == 10).await;
    seconds(5).await;
    // The poll, and one look at the best fifteen before ten of them start.
    assert_eq!(since(&fake), [(true, 0), (false, 15)]);
    seconds(30).await;
    assert_eq!(since(&fake), [(false, 10)], "no slot is free: candidates are not asked for");
    live.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn rule_4_5_ten_retries_that_are_due_together_are_one_request() {
    let fake = Fake::new();
    fake.put((1..=10).map(FakeIssue::new));
    let script = AgentScript::new().fail(AgentErrorKind::TurnFailed, "no");
    let live = Live::start(&fake, 10, script).await;
    live.until("ten wait", |s| s.waiting.len() == 10).await;
    assert_eq!(since(&fake), [(true, 0), (false, 10)]);
    seconds(12).await;
    // The backoff of a first failure is ten seconds.
    assert_eq!(since(&fake), [(false, 10)]);
    live.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn rule_4_5_ten_turns_that_end_together_are_one_request() {
    let fake = Fake::new();
    fake.put((1..=10).map(FakeIssue::new));
    let gate = Gate::new();
    let live = Live::start(&fake, 10, AgentScript::new().wait_for(&gate).next_turn().hang()).await;
    live.until("ten run", |s| s.running.len() == 10).await;
    seconds(1).await;
    since(&fake);
    gate.open();
    live.until("second turns", |s| s.running.iter().all(|row| row.turns == 2)).await;
    assert_eq!(since(&fake), [(false, 10)]);
    live.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn rule_12_7_the_budget_and_the_agents_calls_reach_the_status() {
    let fake = Fake::new();
    fake.put([FakeIssue::new(1)]);
    let arguments = json!({ "query": "{ viewer { name } }" });
    let script =
        AgentScript::new().call(LINEAR_GRAPHQL, arguments.clone()).call(LINEAR_GRAPHQL, arguments);
    let live = Live::start(&fake, 10, script.hang()).await;
    live.until("the calls are counted", |s| s.polling.requests_today.get("tool") == Some(&2)).await;
    let polling = live.handle.last_snapshot().polling.clone();
    let budget = polling.budget.unwrap();
    assert_eq!(budget.requests_limit, Some(2500));
    let counted: u64 = polling.requests_today.values().sum();
    assert_eq!(counted, fake.requests(), "{:?}", polling.requests_today);
    live.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn rule_11_4_an_agent_finishes_its_issue_with_the_tool_and_its_workspace_is_removed() {
    let fake = Fake::new();
    fake.put([
        FakeIssue::new(1),
        FakeIssue { blocked_by: vec!["id-1".to_owned()], ..FakeIssue::new(2) },
    ]);
    let query = "mutation($id: String!, $state: String!) {
        issueUpdate(id: $id, input: { stateId: $state }) { success }
    }";
    // The scripted agent cannot look up its own id: the first one finishes both.
    let done =
        |id: &str| json!({ "query": query, "variables": { "id": id, "state": "state-MT-done" } });
    let script = AgentScript::new().call(LINEAR_GRAPHQL, done("id-1"));
    let live = Live::start(&fake, 10, script).await;
    live.until("the first is over", |s| s.totals.done >= 1).await;
    assert_eq!(fake.world().issue("id-1").unwrap().state, "Done");
    // Its blocker is done: the second one starts.
    live.until("the second runs", |s| s.totals.out_of_turns >= 1).await;
    fake.move_to("id-2", "Canceled");
    live.until("nothing is left", |s| {
        s.running.is_empty() && s.waiting.is_empty() && s.cleaning.is_empty()
    })
    .await;
    live.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn rule_8_2_an_issue_that_is_moved_to_another_project_stops_its_agent() {
    let fake = Fake::new();
    fake.put([FakeIssue::new(1), FakeIssue::new(2)]);
    let live = Live::start(&fake, 10, AgentScript::new().hang()).await;
    live.until("both run", |s| s.running.len() == 2).await;
    fake.change(|world| world.edit("id-1", |issue| issue.project = Some("def456".to_owned())));
    live.until("one is stopped", |s| s.running.len() == 1).await;
    assert_eq!(live.handle.last_snapshot().totals.cancelled, 1);
    live.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn rule_8_3_an_outage_of_an_hour_stops_no_run_and_reads_go_on_after_it() {
    let fake = Fake::new();
    fake.put([FakeIssue::new(1)]);
    let live = Live::start(&fake, 10, AgentScript::new().hang()).await;
    live.until("it runs", |s| s.running.len() == 1).await;
    for fault in [FakeFault::Close, FakeFault::html(502), FakeFault::Truncate, FakeFault::Partial] {
        fake.fail(Some(fault));
        seconds(900).await;
    }
    assert_eq!(live.handle.last_snapshot().running.len(), 1);
    fake.fail(None);
    fake.move_to("id-1", "Done");
    live.until("it is over", |s| s.running.is_empty()).await;
    live.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn rule_15_2_hostile_text_goes_through_a_whole_run_and_harms_nothing() {
    let fake = Fake::new();
    let hostile = |n: usize, text: &str| FakeIssue {
        identifier: format!("MT-{n}"),
        title: text.to_owned(),
        description: Some(text.repeat(50_000)),
        labels: vec![text.to_owned()],
        ..FakeIssue::new(n)
    };
    fake.put([
        hostile(1, "{{ issue.id }}{% raw %}"),
        hostile(2, "\u{1b}[2J\u{202e}<b>"),
        hostile(3, "nul\u{0}byte"),
    ]);
    // Even a name that would be a path stays a name.
    fake.change(|world| world.issues[1].identifier = "../../evil\u{0}".to_owned());
    let live = Live::start(&fake, 10, AgentScript::new().write("here", "x").hang()).await;
    live.until("all run", |s| s.running.len() == 3).await;
    let snapshot = live.handle.last_snapshot();
    assert!(snapshot.running.iter().all(|row| !row.key.as_str().contains('/')));
    live.shut_down().await;
}
