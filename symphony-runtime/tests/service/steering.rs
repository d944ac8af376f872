//! Commands through the handle, and what they answer (contract 4.7).

use std::time::Duration;

use symphony_core::{Identifier, IssueId};
use symphony_memory::{AgentScript, ScriptedAgent};
use symphony_runtime::{CommandError, ServiceEnd, ServiceStopped};

use crate::harness::{Harness, Live, within};

fn unknown(name: &str) -> Result<(), CommandError> {
    Err(CommandError::UnknownIssue(name.to_owned()))
}

#[tokio::test(start_paused = true)]
async fn rule_4_7_a_command_for_an_unknown_issue_says_so() {
    let harness = Harness::new(AgentScript::new().hang());
    harness.issue("1", "MT-1");
    let live = harness.start().await;
    live.until("running", |s| s.running.len() == 1).await;
    assert_eq!(live.handle.stop("MT-9").await, unknown("MT-9"));
    assert_eq!(live.handle.retry("MT-9").await, unknown("MT-9"));
    assert_eq!(live.handle.stop(IssueId::from("9")).await, unknown("9"));
    assert_eq!(live.handle.retry(IssueId::from("9")).await, unknown("9"));
    let error = live.handle.stop("MT\u{1b}[2J").await.unwrap_err();
    let wanted = "no issue MT\\u{1b}[2J is known: it is neither a candidate nor claimed";
    assert_eq!(error.to_string(), wanted);
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_4_7_a_command_that_does_not_fit_says_why() {
    let blocked = AgentScript::new().ask("Which door?");
    let agent = ScriptedAgent::new(AgentScript::new().hang()).for_issue("MT-2", blocked);
    let harness = Harness::new(AgentScript::new()).with_agent(agent);
    harness.write("");
    let text = std::fs::read_to_string(harness.file()).unwrap().replace("agents: 50", "agents: 2");
    std::fs::write(harness.file(), text).unwrap();
    harness.issue("1", "MT-1");
    harness.issue("2", "MT-2");
    let live = harness.start().await;
    live.until("at work and blocked", |s| s.running.len() == 1 && s.blocked.len() == 1).await;
    let ignored = |why: &str| Err(CommandError::Ignored { why: why.to_owned() });
    let neither = "the issue neither waits nor is blocked";
    assert_eq!(live.handle.retry("MT-1").await, ignored(neither));
    // By whatever names it.
    assert_eq!(live.handle.retry(Identifier::from("MT-1")).await, ignored(neither));
    assert_eq!(live.handle.retry(&IssueId::from("1")).await, ignored(neither));

    // A candidate is known, and nothing of it runs.
    live.handle.pause().await.unwrap();
    harness.issue("3", "MT-3");
    live.handle.poll_now().unwrap();
    live.until("a candidate", |s| s.candidates.total == 3).await;
    assert_eq!(live.handle.stop("MT-3").await, ignored("the issue is not claimed"));
    assert_eq!(live.handle.stop(IssueId::from("3")).await, ignored("the issue is not claimed"));
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_4_7_a_command_before_the_start_is_what_the_service_begins_with() {
    let harness = Harness::new(AgentScript::new().hang());
    harness.write("");
    harness.issue("1", "MT-1");
    let service = harness.builder().build().await.unwrap();
    let handle = service.handle();
    within("no wait", handle.pause()).await.unwrap();
    assert_eq!(within("no wait", handle.stop("MT-1")).await, unknown("MT-1"));
    let running = tokio::spawn(service.run());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(harness.agent.journal().opened(), 0);
    assert!(handle.snapshot().unwrap().paused);
    handle.resume().await.unwrap();
    within("an agent", harness.agent.wait_until(|journal| journal.opened() == 1)).await;
    handle.shut_down().unwrap();
    assert_eq!(running.await.unwrap(), ServiceEnd::Drained);
    let stopped = Err(CommandError::Stopped(ServiceStopped));
    assert_eq!(handle.pause().await, stopped);
    assert_eq!(handle.stop(IssueId::from("1")).await, stopped);
}

#[tokio::test(start_paused = true)]
async fn rule_4_7_an_issue_of_a_finished_run_is_known_for_a_while() {
    let harness = Harness::new(AgentScript::new().set_state("Done"));
    harness.issue("1", "MT-1");
    let live: Live = harness.start().await;
    live.until("over", |s| s.totals.done == 1 && s.cleaning.is_empty()).await;
    let answer = live.handle.retry("MT-1").await;
    assert!(matches!(answer, Err(CommandError::Ignored { .. })), "{answer:?}");
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}
