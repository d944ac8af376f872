//! A model that fails, and one whose share is used up.

use std::sync::{Arc, Mutex};

use serde_json::json;
use symphony_core::orchestrator::NoticeKind;
use symphony_e2e::{Model, ModelAction};

use crate::harness::{Harness, now};
use crate::work::move_to;

#[tokio::test]
async fn rule_7_1_a_failed_turn_is_a_retry_with_the_models_message() {
    let error = json!({"error": {"message": "the oracle is silent"}});
    let script = [
        ModelAction::Refuse(400, error),
        ModelAction::run("echo again"),
        move_to("Done"),
        ModelAction::Say("Done."),
    ];
    let harness = Harness::new(Model::following(script).await);
    let live = harness.start().await;
    live.until_done().await;
    let failures = live.happened(|what| match what {
        NoticeKind::Waiting { attempt, failure: Some(failure), .. } => {
            Some((*attempt, failure.message.clone()))
        }
        _ => None,
    });
    let [(1, message)] = &failures[..] else { panic!("{failures:?}") };
    assert!(message.contains("the oracle is silent"), "{message}");
    let last = live.shut_down().await;
    assert_eq!((last.totals.failed, last.totals.done), (1, 1));
    assert_eq!(last.totals.tokens.total, harness.model.cost());
}

/// Longer than a hold without a known end, in seconds.
const HELD: i64 = 8;

#[tokio::test]
async fn rule_7_6_a_used_up_share_holds_all_starts_and_recovers() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let times = Arc::clone(&asked);
    let model = Model::deciding(move |_| {
        let mut times = times.lock().unwrap();
        times.push(now());
        match times[..] {
            [first] => ModelAction::UsedUp(first + HELD),
            [_, _] => move_to("Done"),
            _ => ModelAction::Say("Done."),
        }
    });
    let harness = Harness::new(model.await);
    let live = harness.start().await;
    live.until_done().await;
    let holds = live.happened(|what| match what {
        NoticeKind::HoldBegan { agent, failure, .. } => Some((agent.clone(), failure.clone())),
        _ => None,
    });
    let [(agent, failure)] = &holds[..] else { panic!("{holds:?}") };
    assert_eq!(agent, "codex");
    assert!(failure.message.contains("limit"), "{failure:?}");
    let ended = live.happened(|what| matches!(what, NoticeKind::HoldEnded { .. }).then_some(()));
    assert_eq!(ended.len(), 1);
    let asked = asked.lock().unwrap().clone();
    assert!(asked[1] >= asked[0] + HELD, "held until Codex said: {asked:?}");
    // It burns no attempt: the next run is a first one too.
    let attempts = live.happened(|what| match what {
        NoticeKind::Started { attempt, .. } => Some(*attempt),
        _ => None,
    });
    assert_eq!(attempts, [None, None]);
    live.shut_down().await;
}
