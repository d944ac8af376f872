//! One attempt from top to bottom, and many.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use symphony_core::{Settings, StateSet};
use symphony_memory::{AgentScript, Did, MemoryFactory, ScriptedFactory};
use symphony_runtime::{Service, ServiceEnd, ServiceStopped};

use crate::harness::{Harness, Live, TestHost, names, within};

#[tokio::test(start_paused = true)]
async fn rule_10_1_an_issue_is_worked_on_turn_by_turn_until_it_is_done() {
    let script =
        AgentScript::new().write("notes", "half").next_turn().write("done", "").set_state("Done");
    let harness = Harness::new(script);
    harness.issue("1", "MT-1");
    let live = harness.start().await;
    within("the board", harness.board.wait_until(|board| board.is_in("1", "Done"))).await;
    live.until("cleaned", |s| s.running.is_empty() && s.totals.done == 1).await;
    let turns: Vec<(u32, String)> = harness
        .agent
        .journal()
        .for_issue("MT-1")
        .into_iter()
        .filter_map(|did| match did {
            Did::Turn { number, prompt } => Some((number, prompt)),
            _ => None,
        })
        .collect();
    assert_eq!(turns.len(), 2);
    assert_eq!(turns[0], (1, "Do A title.".to_owned()));
    assert!(turns[1].1.starts_with("This is turn 2 of at most 20"), "{}", turns[1].1);
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
    let left = names(&harness.root());
    assert_eq!(left, ["~symphony"], "the workspace of a finished issue is removed");
    assert_eq!(harness.agent.live_agents(), 0);
}

#[tokio::test(start_paused = true)]
async fn rule_13_2_an_embedder_needs_ten_lines_and_its_handle_says_when_the_service_is_gone() {
    let harness = Harness::new(AgentScript::new().set_state("Done"));
    harness.issue("1", "MT-1");
    let (active, terminal) = (StateSet::new(["Todo"]), StateSet::new(["Done"]));
    let mut settings = Settings::new("memory", active, terminal, harness.root());
    settings.agent.kind = "scripted".to_owned();

    let service = Service::builder()
        .settings(settings, "Do {{ issue.title }}.")
        .tracker(MemoryFactory::serving(harness.board.clone()))
        .agent(ScriptedFactory::new(harness.agent.clone()))
        .host(TestHost::new())
        .build()
        .await
        .unwrap();
    let handle = service.handle();
    let running = tokio::spawn(service.run());
    within("the board", harness.board.wait_until(|board| board.is_in("1", "Done"))).await;
    handle.shut_down().unwrap();
    assert_eq!(running.await.unwrap(), ServiceEnd::Drained);

    // A handle outlives its service, and says so.
    assert_eq!(handle.snapshot().unwrap_err(), ServiceStopped);
    assert_eq!(handle.poll_now(), Err(ServiceStopped));
    assert_eq!(handle.explain().await.unwrap_err(), ServiceStopped);
    assert!(handle.subscribe().is_err());
    assert!(handle.last_snapshot().shutting_down);
}

#[tokio::test(start_paused = true)]
async fn rule_4_7_operators_pause_resume_stop_retry_and_ask() {
    let harness = Harness::new(AgentScript::new().hang());
    let live = harness.start().await;
    live.handle.pause().await.unwrap();
    live.until("paused", |s| s.paused).await;
    harness.issue("1", "MT-1");
    live.handle.poll_now().unwrap();
    live.until("seen", |s| s.candidates.total == 1).await;
    let explanation = live.handle.explain().await.unwrap();
    assert_eq!(explanation.unstarted[0].reason.as_str(), "paused");
    live.handle.resume().await.unwrap();
    within("a turn", harness.agent.wait_until(|journal| journal.opened() == 1)).await;
    live.until("running", |s| s.running.len() == 1).await;
    let id = live.handle.find(&"MT-1".into()).unwrap();
    let run = live.handle.snapshot().unwrap().running[0].run;
    assert_eq!(live.handle.events(run)[0].name, "session_started");
    live.handle.stop(id.clone()).await.unwrap();
    live.until("blocked", |s| s.blocked.len() == 1).await;
    assert_eq!(harness.agent.live_agents(), 0);
    live.handle.retry(id).await.unwrap();
    within("another session", harness.agent.wait_until(|journal| journal.opened() == 2)).await;
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_4_3_explaining_does_not_take_the_schedulers_time() {
    let harness = Harness::new(AgentScript::new().hang());
    harness.issue("1", "MT-1");
    let live = harness.start().await;
    live.until("running", |s| s.running.len() == 1).await;
    let begun = tokio::time::Instant::now();
    let mut asked = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let handle = live.handle.clone();
        asked.spawn(async move {
            for _ in 0..20 {
                handle.explain().await.unwrap();
            }
            handle.explain().await.unwrap()
        });
    }
    let mut told: Vec<_> = asked.join_all().await.iter().map(Arc::as_ptr).collect();
    told.sort_unstable();
    told.dedup();
    assert!(told.len() <= 2, "{} answers for all of them", told.len());
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(1_900), "ten times a second at most: {took:?}");
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_9_3_the_next_attempt_finds_every_file() {
    let harness = Harness::new(AgentScript::new().append("log", "x").exit("boom"));
    harness.issue("1", "MT-1");
    let live = harness.start().await;
    within("three sessions", harness.agent.wait_until(|journal| journal.opened() == 3)).await;
    live.until("waiting", |s| s.waiting.len() == 1).await;
    assert_eq!(fs::read_to_string(harness.workspace("MT-1").join("log")).unwrap(), "xxx");
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
    assert_eq!(harness.agent.journal().most_live_in_one_workspace(), 1);
}

#[tokio::test(start_paused = true)]
async fn rule_14_2_a_shutdown_closes_every_session_and_drains() {
    let harness = Harness::new(AgentScript::new().hang());
    (0..40).for_each(|n| harness.issue(&format!("{n}"), &format!("MT-{n}")));
    let live = harness.start().await;
    within("forty sessions", harness.agent.wait_until(|journal| journal.live_agents() == 40)).await;
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
    let journal = harness.agent.journal();
    assert_eq!((journal.live_agents(), journal.closed()), (0, 40));
}

#[tokio::test(start_paused = true)]
async fn rule_14_2_a_session_that_does_not_close_is_killed_when_its_time_is_over() {
    let harness =
        Harness::new(AgentScript::new().hang().on_close(symphony_memory::ScriptStep::Stall));
    harness.issue("1", "MT-1");
    let live = harness.start().await;
    within("a session", harness.agent.wait_until(|journal| journal.opened() == 1)).await;
    assert!(matches!(live.shut_down().await, ServiceEnd::Killed(runs) if runs.len() == 1));
    crate::harness::eventually("the agent is gone", || harness.agent.live_agents() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn dropping_a_service_ends_its_agents() {
    let harness = Harness::new(AgentScript::new().hang());
    harness.issue("1", "MT-1");
    let live = harness.start().await;
    within("a session", harness.agent.wait_until(|journal| journal.opened() == 1)).await;
    live.kill().await;
    crate::harness::eventually("the agent is gone", || harness.agent.live_agents() == 0).await;
    // The lock is free again.
    let live = Live::start(harness.builder()).await;
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_12_1_an_embedder_adds_a_job_of_its_own() {
    let harness = Harness::new(AgentScript::new());
    harness.write("");
    let (sender, mut count) = tokio::sync::watch::channel(0);
    let builder = harness.builder().job("tidy", Duration::from_secs(60), move || {
        sender.send_modify(|count| *count += 1);
        async { panic!("tidy is broken") }
    });
    let live = Live::start(builder).await;
    within("three runs", count.wait_for(|count| *count == 3)).await.unwrap();
    live.until("told", |s| s.polling.jobs.iter().any(|row| row.failure.is_some())).await;
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}
