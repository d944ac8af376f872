//! How a run ends: an agent that moves its own issue, one that asks (contract 8.2, 10.6).

use std::time::Duration;

use symphony_memory::{AgentScript, Did, ScriptedAgent};
use symphony_runtime::ServiceEnd;

use crate::harness::Harness;

#[tokio::test(start_paused = true)]
async fn rule_8_2_what_an_agent_does_after_it_moved_its_issue_is_not_lost() {
    // It works on for longer than two polls take.
    let script = AgentScript::new()
        .set_state("Done")
        .wait(Duration::from_secs(45))
        .write("pushed", "it all");
    let harness = Harness::new(script);
    harness.issue("1", "MT-1");
    let live = harness.start().await;
    live.until("the grace", |s| s.running.iter().any(|row| row.finish_by.is_some())).await;
    live.until("done", |s| s.totals.done == 1 && s.cleaning.is_empty()).await;
    let has_pushed = |did: &Did| matches!(did, Did::Write(path) if path.ends_with("pushed"));
    assert_eq!(harness.agent.journal().count(has_pushed), 1);
    assert!(!harness.workspace("MT-1").exists());
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_8_2_an_agent_that_does_not_end_its_turn_is_stopped_after_the_grace() {
    let harness = Harness::new(AgentScript::new().set_state("Done").hang());
    harness.issue("1", "MT-1");
    harness.write("  finish_grace_ms: 5000");
    let live = harness.start().await;
    live.until("done", |s| s.totals.done == 1 && s.cleaning.is_empty()).await;
    assert!(!harness.workspace("MT-1").exists());
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_10_6_a_retried_question_is_told_that_it_was_not_answered() {
    let asks = AgentScript::new().ask("Which door?");
    let works = AgentScript::new().set_state("Done");
    let harness = Harness::new(AgentScript::new()).with_agent(ScriptedAgent::new([asks, works]));
    harness.issue("1", "MT-1");
    let live = harness.start().await;
    live.until("blocked", |s| s.blocked.len() == 1).await;
    live.handle.retry("1".into()).await.unwrap();
    live.until("done", |s| s.totals.done == 1).await;
    let told = |did: Did| match did {
        Did::Begin { resume, .. } => Some(format!("resumed {}", resume.is_some())),
        Did::Turn { prompt, .. } => Some(prompt),
        _ => None,
    };
    let told: Vec<String> =
        harness.agent.journal().for_issue("MT-1").into_iter().filter_map(told).collect();
    let [first, prompt, second, again] = &told[..] else { panic!("{told:?}") };
    assert_eq!([first.as_str(), second], ["resumed false", "resumed true"]);
    assert_eq!(prompt, "Do A title.");
    assert!(again.starts_with("No answer was given to your question: decide yourself"), "{again}");
    assert!(again.ends_with("Do A title."), "{again}");
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_4_7_what_an_operator_decided_survives_restart_and_kill() {
    let harness = Harness::new(AgentScript::new().hang());
    harness.issue("1", "MT-1");
    let live = harness.start().await;
    live.until("running", |s| s.running.len() == 1).await;
    live.handle.stop("1".into()).await.unwrap();
    live.until("blocked", |s| s.blocked.len() == 1).await;
    live.handle.pause().await.unwrap();
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);

    let live = harness.start().await;
    live.until("as it was", |s| s.paused && s.blocked.len() == 1).await;
    live.handle.resume().await.unwrap();
    harness.issue("2", "MT-2");
    live.handle.poll_now().unwrap();
    live.until("another one runs", |s| s.running.len() == 1).await;
    // It was acknowledged, and so it is kept.
    live.kill().await;

    let live = harness.start().await;
    live.until("as it was", |s| !s.paused && s.blocked.len() == 1).await;
    live.handle.retry("1".into()).await.unwrap();
    live.until("both run", |s| s.running.len() == 2).await;
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}
