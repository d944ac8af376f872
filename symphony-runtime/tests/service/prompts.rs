//! Prompts that an embedder's function makes (contract 15.3).

use std::io;

use symphony_core::FailureKind;
use symphony_core::orchestrator::{NoticeKind, RunEnd};
use symphony_memory::{AgentScript, Did};
use symphony_runtime::{PromptContext, ServiceEnd};

use crate::harness::{Harness, Live, eventually, within};

fn prompts(harness: &Harness) -> Vec<String> {
    let did = harness.agent.journal().for_issue("MT-1").into_iter();
    did.filter_map(|did| match did {
        Did::Turn { prompt, .. } => Some(prompt),
        _ => None,
    })
    .collect()
}

// On the real clock: a hook is a process.
#[tokio::test]
async fn rule_15_3_a_function_makes_the_prompt_of_the_issue_and_the_template() {
    let harness = Harness::new(AgentScript::new().set_state("Done"));
    harness.write("hooks:\n  before_run: echo doors > map");
    harness.issue("1", "MT-1");
    let live = Live::start(harness.builder().prompt_with(|context: PromptContext| async move {
        let map = context.workspace.join("map");
        let read = tokio::task::spawn_blocking(|| std::fs::read_to_string(map));
        let map = read.await.map_err(io::Error::other)??;
        let PromptContext { issue, attempt, max_turns, rendered, .. } = context;
        let name = &issue.identifier;
        Ok::<_, io::Error>(format!("{rendered} {name} {attempt:?} of {max_turns}: {map}"))
    }))
    .await;
    within("done", harness.board.wait_until(|board| board.is_in("1", "Done"))).await;
    assert_eq!(prompts(&harness), ["Do A title. MT-1 None of 20: doors\n"]);
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

/// Runs a service with this function until a run has failed, and gives the failure's text. The agent
/// is not started.
async fn failure<F>(function: impl Fn(PromptContext) -> F + Send + Sync + 'static) -> String
where
    F: Future<Output = Result<String, String>> + Send + 'static,
{
    let harness = Harness::new(AgentScript::new().set_state("Done"));
    harness.write("hooks:\n  timeout_ms: 5000\nserver:\n  token: a-token-of-the-server");
    harness.issue("1", "MT-1");
    let live = Live::start(harness.builder().prompt_with(function)).await;
    let mut text = String::new();
    eventually("a failed run", || {
        let notices = live.notices.lock().unwrap();
        let ended = notices.iter().find_map(|notice| match &notice.what {
            NoticeKind::Ended { end: RunEnd::Failed(failure), .. } => Some(failure.clone()),
            _ => None,
        });
        ended.is_some_and(|failure| {
            assert_eq!(failure.kind, FailureKind::Prompt);
            text = failure.message;
            true
        })
    })
    .await;
    assert_eq!(harness.agent.journal().opened(), 0, "no agent was started");
    live.until("another attempt", |s| s.waiting.len() == 1).await;
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
    text
}

#[tokio::test(start_paused = true)]
async fn rule_15_3_an_error_of_the_function_fails_the_attempt_with_its_text() {
    let text = failure(|_| async { Err("the database is gone".to_owned()) }).await;
    assert_eq!(text, "the prompt function failed: the database is gone");
    // The secrets that the service knows are not in it.
    let text = failure(|_| async { Err("denied: a-token-of-the-server".to_owned()) }).await;
    assert_eq!(text, "the prompt function failed: denied: [redacted]");
}

#[tokio::test(start_paused = true)]
async fn rule_15_3_a_panic_of_the_function_fails_the_attempt_alone() {
    let text = failure(|_| async { panic!("no row") }).await;
    assert_eq!(text, "the prompt function failed: a task panicked: no row");
    // Also before there is anything to wait for.
    let at_once = |context: PromptContext| {
        assert_eq!(context.rendered, "", "it panics");
        async { Ok(String::new()) }
    };
    assert!(failure(at_once).await.contains("it panics"));
}

#[tokio::test(start_paused = true)]
async fn rule_15_3_the_function_has_the_time_of_a_hook() {
    let text = failure(|_| std::future::pending()).await;
    assert_eq!(text, "the prompt function failed: it took longer than 5000 ms (hooks.timeout_ms)");
}

#[tokio::test(start_paused = true)]
async fn rule_15_3_the_text_of_the_function_is_neither_blank_nor_without_bounds() {
    let text = failure(|_| async { Ok(" \n".to_owned()) }).await;
    assert_eq!(text, "the prompt function failed: it returned a blank text");
    let text = failure(|_| async { Ok("x".repeat((4 << 20) + 1)) }).await;
    assert_eq!(text, "the prompt function failed: its text has 4194305 bytes, of at most 4194304");
}

#[tokio::test(start_paused = true)]
async fn rule_15_3_a_run_that_is_stopped_does_not_wait_for_the_function() {
    let harness = Harness::new(AgentScript::new());
    harness.write("");
    harness.issue("1", "MT-1");
    let endless = |_| std::future::pending::<Result<String, String>>();
    let live = Live::start(harness.builder().prompt_with(endless)).await;
    live.until("running", |s| s.running.len() == 1).await;
    live.handle.stop("MT-1").await.unwrap();
    live.until("blocked", |s| s.blocked.len() == 1).await;
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}
