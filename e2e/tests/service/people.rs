//! What needs a person: approvals and questions.

use serde_json::json;
use symphony_core::orchestrator::{BlockReason, NoticeKind};
use symphony_e2e::{Model, ModelAction};

use crate::harness::{Harness, ISSUE};
use crate::work::move_to;

/// Codex asks before it runs this.
const ASKING: &str = "  approval_policy: untrusted\n";

async fn with_approvals(approvals: &str) -> (Harness, String) {
    let script = [
        ModelAction::run("touch made && echo made it"),
        move_to("Done"),
        ModelAction::Say("Done."),
    ];
    let harness = Harness::new(Model::following(script).await);
    let live = harness.start_with(&format!("{ASKING}  approvals: {approvals}\n")).await;
    live.until_done().await;
    live.shut_down().await;
    let results = harness.model.results(1);
    (harness, results)
}

#[tokio::test]
async fn rule_10_6_an_approval_that_is_accepted_lets_the_command_run() {
    let (_stage, results) = with_approvals("accept").await;
    assert!(results.contains("made it"), "{results}");
}

#[tokio::test]
async fn rule_10_6_an_approval_that_is_declined_is_told_to_the_model() {
    let (_stage, results) = with_approvals("decline").await;
    assert!(results.contains("rejected"), "{results}");
}

#[tokio::test]
async fn rule_10_6_an_approval_that_needs_a_person_blocks_until_the_issue_moves() {
    let script = [ModelAction::run("touch made"), move_to("Done"), ModelAction::Say("Done.")];
    let harness = Harness::new(Model::following(script).await);
    let live = harness.start_with(&format!("{ASKING}  approvals: block\n")).await;
    let why =
        live.until("a question", |seen| seen.blocked.first().map(|row| row.why.clone())).await;
    let BlockReason::Question(question) = why else { panic!("{why:?}") };
    assert!(question.to_string().contains("touch made"), "{question}");
    let seen = live.handle.snapshot().unwrap();
    assert!(seen.running.is_empty() && seen.slots.used == 0, "no slot is held");
    assert!(!harness.workspace().join("made").exists());
    // A person moves the issue: it is worked on again, and the command is not asked for any more.
    harness.board.set_state(ISSUE, "In Progress");
    live.handle.poll_now().unwrap();
    live.until_done().await;
    live.shut_down().await;
}

#[tokio::test]
async fn rule_10_6_a_question_blocks_the_issue_and_is_kept() {
    let question = json!({"questions": [{
        "id": "colour", "header": "Colour", "question": "Which colour shall the door be?",
        "options": [
            {"label": "Red", "description": "As it was."},
            {"label": "Green", "description": "As the fence."},
        ],
    }]});
    let script = [ModelAction::Call("request_user_input", question), ModelAction::Hang];
    let harness = Harness::new(Model::following(script).await);
    let live = harness.start().await;
    let why =
        live.until("a question", |seen| seen.blocked.first().map(|row| row.why.clone())).await;
    let BlockReason::Question(question) = why else { panic!("{why:?}") };
    assert!(question.to_string().contains("Which colour shall the door be?"), "{question}");
    let seen = live.handle.snapshot().unwrap();
    assert!(seen.running.is_empty() && seen.slots.used == 0, "no slot is held");
    let starts = live.happened(|what| matches!(what, NoticeKind::Started { .. }).then_some(()));
    assert_eq!(starts.len(), 1, "it is not tried again");
    live.shut_down().await;
}
