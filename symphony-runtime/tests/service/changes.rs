//! Settings and prompt that are made in code, and changed while the service runs (contract 2.11).

use std::fs;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use symphony_core::orchestrator::NoticeKind;
use symphony_core::problem::ProblemKind;
use symphony_core::{Settings, StateSet};
use symphony_memory::{AgentScript, Did, Gate, MemoryFactory, ScriptedFactory};
use symphony_runtime::{ChangeError, Handle, Service, ServiceBuilder, ServiceEnd, StartError};

use crate::harness::{Harness, Live, TestHost, eventually, names, within};

fn settings(harness: &Harness) -> Settings {
    let (active, over) = (StateSet::new(["Todo"]), StateSet::new(["Done"]));
    let mut settings = Settings::new("memory", active, over, harness.root());
    settings.agent.kind = "scripted".to_owned();
    settings
}

fn builder(harness: &Harness, settings: Settings) -> ServiceBuilder {
    Service::builder()
        .settings(settings, "Do {{ issue.title }}.")
        .tracker(MemoryFactory::serving(harness.board.clone()))
        .agent(ScriptedFactory::new(harness.agent.clone()))
        .host(TestHost::new())
}

fn first_prompts(harness: &Harness, identifier: &str) -> Vec<String> {
    let did = harness.agent.journal().for_issue(identifier).into_iter();
    did.filter_map(|did| match did {
        Did::Turn { prompt, number: 1 } => Some(prompt),
        _ => None,
    })
    .collect()
}

#[tokio::test(start_paused = true)]
async fn rule_2_11_settings_changed_from_code_are_in_force_when_the_call_returns() {
    let harness = Harness::new(AgentScript::new().hang());
    let mut now = settings(&harness);
    now.agent.max_concurrent_agents = 1;
    (1..=3).for_each(|n| harness.issue(&n.to_string(), &format!("MT-{n}")));
    let live = Live::start(builder(&harness, now.clone())).await;
    within("an agent", harness.agent.wait_until(|journal| journal.opened() == 1)).await;
    let mut changes = live.handle.settings_changes();

    now.agent.max_concurrent_agents = 3;
    let warnings = live.handle.set_settings(now).await.unwrap();
    assert_eq!(warnings.as_ref(), []);
    assert_eq!(live.handle.settings().agent.max_concurrent_agents, 3);
    assert!(changes.has_changed().unwrap(), "watchers of the settings are told");
    assert_eq!(changes.borrow_and_update().agent.max_concurrent_agents, 3);
    within("three agents", harness.agent.wait_until(|journal| journal.live_agents() == 3)).await;
    live.until("the new limit", |s| s.slots.limit == 3).await;
    assert_eq!(harness.agent.journal().opened(), 3, "the run under way goes on");
    assert_eq!(live.happened(|what| *what == NoticeKind::Reloaded), 1);

    // Looks at what is in force find nothing new.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(live.happened(|what| *what == NoticeKind::Reloaded), 1);
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_2_11_a_refused_change_is_told_to_its_caller_and_starts_go_on() {
    let harness = Harness::new(AgentScript::new().hang());
    let live = Live::start(builder(&harness, settings(&harness))).await;
    let mut broken = settings(&harness);
    broken.agent.max_turns = 0;
    broken.polling.interval = Duration::ZERO;
    let error = live.handle.set_settings(broken).await.unwrap_err();
    let wanted = "the change was refused:\n  \
                  polling.interval_ms: must be a positive integer, got 0\n  \
                  agent.max_turns: must be a positive integer, got 0";
    assert_eq!(error.to_string(), wanted);

    let mut other = settings(&harness);
    other.tracker.kind = "nonsense".to_owned();
    let error = live.handle.set_settings(other).await.unwrap_err();
    let ChangeError::Refused(problems) = error else { panic!("{error:?}") };
    assert_eq!(problems[0].kind, ProblemKind::UnsupportedTrackerKind);

    let error = live.handle.set_prompt("Do {{ isue.title }}.").await.unwrap_err();
    assert!(error.to_string().contains("isue"), "{error}");

    // What was in force stays so, and nothing waits for a repair, also after further looks.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(live.handle.settings().agent.max_turns, 20);
    assert_eq!(live.handle.snapshot().unwrap().problems, []);
    assert_eq!(live.happened(|what| *what == NoticeKind::Reloaded), 0);
    harness.issue("1", "MT-1");
    live.handle.poll_now().unwrap();
    within("an agent", harness.agent.wait_until(|journal| journal.opened() == 1)).await;
    assert_eq!(first_prompts(&harness, "MT-1"), ["Do A title."]);
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_2_11_a_prompt_changed_from_code_is_for_the_runs_that_follow() {
    let gate = Gate::new();
    let harness = Harness::new(AgentScript::new().wait_for(&gate).set_state("Done"));
    harness.issue("1", "MT-1");
    let live = Live::start(builder(&harness, settings(&harness))).await;
    within("an agent", harness.agent.wait_until(|journal| journal.opened() == 1)).await;
    live.handle.set_prompt("Undo {{ issue.title }}.").await.unwrap();
    // The settings are as they were, and a change of them leaves the prompt.
    let mut now = settings(&harness);
    now.agent.max_turns = 7;
    live.handle.set_settings(now).await.unwrap();
    harness.issue("2", "MT-2");
    live.handle.poll_now().unwrap();
    within("another", harness.agent.wait_until(|journal| journal.opened() == 2)).await;
    gate.open();
    within("both", harness.board.wait_until(|b| b.is_in("1", "Done") && b.is_in("2", "Done")))
        .await;
    assert_eq!(first_prompts(&harness, "MT-1"), ["Do A title."]);
    assert_eq!(first_prompts(&harness, "MT-2"), ["Undo A title."]);
    assert_eq!(live.handle.settings().agent.max_turns, 7);
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_2_11_what_needs_a_restart_is_told_with_the_change_and_as_a_warning() {
    let harness = Harness::new(AgentScript::new());
    let service = builder(&harness, settings(&harness)).build().await.unwrap();
    assert_eq!(service.warnings(), []);
    drop(service);
    let live = Live::start(builder(&harness, settings(&harness))).await;
    let mut now = settings(&harness);
    now.server.port = Some(4000);
    let warnings = live.handle.set_settings(now).await.unwrap();
    assert_eq!(warnings[0].kind, ProblemKind::NeedsRestart);
    assert_eq!(warnings[0].to_string(), "server.port: takes effect after a restart");
    assert_eq!(live.handle.warnings(), warnings);
    live.until("shown", |s| s.warnings.len() == 1).await;
    live.handle.set_settings(settings(&harness)).await.unwrap();
    assert_eq!(live.handle.warnings().as_ref(), []);
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_2_11_another_root_is_taken_or_refused_as_that_of_a_file() {
    let (harness, other) =
        (Harness::new(AgentScript::new().hang()), Harness::new(AgentScript::new()));
    let there = other.start().await;
    let live = Live::start(builder(&harness, settings(&harness))).await;
    let mut now = settings(&harness);
    now.workspace.root = other.root();
    let error = live.handle.set_settings(now.clone()).await.unwrap_err();
    assert!(error.to_string().contains("workspace.root"), "{error}");
    assert_eq!(there.shut_down().await, ServiceEnd::Drained);
    live.handle.set_settings(now).await.unwrap();
    harness.issue("1", "MT-1");
    live.handle.poll_now().unwrap();
    within("an agent", harness.agent.wait_until(|journal| journal.opened() == 1)).await;
    assert_eq!(names(&other.root()), ["MT-1", "~symphony"]);
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_2_11_a_root_that_is_not_ours_any_more_refuses_changes_until_it_is() {
    let harness = Harness::new(AgentScript::new().hang());
    let live = Live::start(builder(&harness, settings(&harness))).await;
    let aside = harness.dir.path().join("aside");
    fs::rename(harness.root(), &aside).unwrap();
    let mut now = settings(&harness);
    now.agent.max_turns = 7;
    let error = live.handle.set_settings(now.clone()).await.unwrap_err();
    assert!(error.to_string().contains("workspace.root"), "{error}");
    live.until("the problem", |s| !s.problems.is_empty()).await;
    fs::remove_dir_all(harness.root()).ok();
    fs::rename(&aside, harness.root()).unwrap();
    live.handle.set_settings(now).await.unwrap();
    live.until("no problem", |s| s.problems.is_empty()).await;
    assert_eq!(live.handle.settings().agent.max_turns, 7);
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_2_11_changes_at_once_are_made_one_after_the_other() {
    let harness = Harness::new(AgentScript::new());
    let live = Live::start(builder(&harness, settings(&harness))).await;
    let mut asked = tokio::task::JoinSet::new();
    for turns in 1..=50 {
        let (handle, mut now) = (live.handle.clone(), settings(&harness));
        now.agent.max_turns = turns;
        asked.spawn(async move { handle.set_settings(now).await });
    }
    while let Some(done) = asked.join_next().await {
        done.unwrap().unwrap();
    }
    eventually("each is told", || live.happened(|what| *what == NoticeKind::Reloaded) == 50).await;
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_2_11_settings_of_a_file_and_of_no_running_service_are_not_changed_from_code() {
    let harness = Harness::new(AgentScript::new());
    harness.write("");
    let service = harness.builder().build().await.unwrap();
    let handle = service.handle();
    let now = settings(&harness);
    assert_eq!(handle.set_settings(now.clone()).await, Err(ChangeError::NotRunning));
    drop(service);
    let live = harness.start().await;
    let error = live.handle.set_settings(now.clone()).await.unwrap_err();
    let file = harness.file().display().to_string();
    let wanted = format!("settings and prompt are those of a workflow file: edit {file}");
    assert_eq!(error.to_string(), wanted);
    assert!(matches!(live.handle.set_prompt("").await, Err(ChangeError::WorkflowFile(_))));
    let handle = live.handle.clone();
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
    assert!(matches!(handle.set_settings(now).await, Err(ChangeError::Stopped(_))));
}

#[tokio::test]
async fn rule_2_11_a_service_does_not_start_with_settings_that_a_file_could_not_have() {
    let harness = Harness::new(AgentScript::new());
    let mut now = settings(&harness);
    now.agent.max_concurrent_agents = 0;
    let error = builder(&harness, now).build().await.unwrap_err();
    let StartError::Workflow(problems) = error else { panic!("{error:?}") };
    let wanted = "agent.max_concurrent_agents: must be a positive integer, got 0";
    assert_eq!(problems[0].to_string(), wanted);
    assert!(!harness.root().exists(), "nothing was made");
}

#[tokio::test(start_paused = true)]
async fn rule_13_2_the_warnings_of_a_file_are_data() {
    let harness = Harness::new(AgentScript::new());
    harness.write("  colour: blue");
    let service = harness.builder().build().await.unwrap();
    assert_eq!(service.warnings()[0].path.as_deref(), Some("agent.colour"));
    drop(service);
    let live = harness.start().await;
    assert_eq!(live.handle.warnings()[0].path.as_deref(), Some("agent.colour"));
    let mut changes = live.handle.settings_changes();
    harness.write("");
    within("the edit", changes.changed()).await.unwrap();
    assert_eq!(live.handle.warnings().as_ref(), [], "when the settings change, so have they");
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rule_2_11_whatever_is_asked_while_the_service_ends_is_answered() {
    for round in 0..20 {
        let harness = Harness::new(AgentScript::new().hang());
        harness.issue("1", "MT-1");
        let live = Live::start(builder(&harness, settings(&harness))).await;
        let mut asked = tokio::task::JoinSet::new();
        for number in 0..60 {
            let (handle, now) = (live.handle.clone(), settings(&harness));
            asked.spawn(async move {
                match number % 6 {
                    0 => drop(handle.set_settings(now).await),
                    1 => drop(handle.set_prompt(format!("Do {number}.")).await),
                    2 => drop(handle.pause().await),
                    3 => drop(handle.stop("MT-1").await),
                    4 => drop(handle.explain().await),
                    _ => drop(handle.retry("MT-2").await),
                }
            });
            if number == round * 3 {
                live.handle.shut_down().unwrap();
            }
        }
        within("every answer", asked.join_all()).await;
        assert_eq!(live.ended().await, ServiceEnd::Drained);
    }
}

#[tokio::test(start_paused = true)]
async fn rule_2_11_a_prompt_function_and_a_job_may_change_settings() {
    let harness = Harness::new(AgentScript::new().hang());
    harness.issue("1", "MT-1");
    let slot = Arc::new(OnceLock::<Handle>::new());
    let (own, of_job) = (Arc::clone(&slot), Arc::clone(&slot));
    let (now, other) = (settings(&harness), settings(&harness));
    let service = builder(&harness, settings(&harness))
        .prompt_with(move |context| {
            let (own, mut now) = (Arc::clone(&own), now.clone());
            async move {
                now.agent.max_turns = 7;
                let handle = own.get().unwrap();
                handle.set_settings(now).await?;
                handle.pause().await.unwrap();
                Ok::<_, ChangeError>(context.rendered)
            }
        })
        .job("own", Duration::from_secs(5), move || {
            let (own, now) = (Arc::clone(&of_job), other.clone());
            async move {
                own.get().unwrap().set_settings(now).await.unwrap();
                Ok(())
            }
        })
        .build()
        .await
        .unwrap();
    let handle = service.handle();
    slot.set(handle.clone()).unwrap();
    let running = tokio::spawn(service.run());
    within("an agent", harness.agent.wait_until(|journal| journal.opened() == 1)).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(handle.last_snapshot().paused);
    handle.shut_down().unwrap();
    within("the end", running).await.unwrap();
}
