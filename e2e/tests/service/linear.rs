//! The real Codex on Linear: the fake one, over HTTP.

use serde_json::{Value, json};
use symphony_core::orchestrator::NoticeKind;
use symphony_e2e::{Model, ModelAction};
use symphony_linear_fake::FakeIssue;

use crate::harness::Harness;

/// As `docs/guide/trackers/linear.md` tells agents.
const MOVE: &str = "mutation Move($id: String!, $state: String!) {
  issueUpdate(id: $id, input: { stateId: $state }) { success issue { state { name } } }
}";

/// A model that finishes whichever issue it is told about.
fn finisher(body: &Value) -> ModelAction {
    let input = body["input"].as_array().cloned().unwrap_or_default();
    if input.iter().any(|item| item["type"] == "function_call_output") {
        return ModelAction::Say("It is done.");
    }
    let id = if body["input"].to_string().contains("Work on MT-2") { "id-2" } else { "id-1" };
    let variables = json!({"id": id, "state": "state-MT-done"});
    ModelAction::Call("linear_graphql", json!({"query": MOVE, "variables": variables}))
}

#[tokio::test]
async fn rule_11_4_an_agent_moves_its_issue_to_done_and_the_workspace_is_cleaned() {
    let harness = Harness::on_linear(Model::deciding(finisher).await, [FakeIssue::new(1)]).await;
    let live = harness.start().await;
    live.until_done().await;
    let last = live.shut_down().await;
    assert_eq!(harness.linear().world().issue("MT-1").unwrap().state, "Done");
    assert!(!harness.workspace().exists());
    assert_eq!((last.totals.started, last.totals.done), (1, 1));
    assert_eq!(last.totals.tokens.total, harness.model.cost());
    let heard = harness.model.heard(1);
    assert!(heard.contains(r#"\"success\":true"#), "what the tool answered: {heard}");
    let budget = last.polling.budget.expect("Linear has limits");
    assert!(budget.requests_left < budget.requests_limit, "{budget:?}");
    assert_eq!(budget.today.values().sum::<u64>(), harness.linear().requests(), "{budget:?}");
}

#[tokio::test]
async fn rule_5_2_a_blocked_issue_starts_when_its_blocker_is_done() {
    let blocked =
        FakeIssue { blocked_by: vec!["id-1".to_owned()], priority: 1, ..FakeIssue::new(2) };
    let issues = [FakeIssue::new(1), blocked];
    let harness = Harness::on_linear(Model::deciding(finisher).await, issues).await;
    let live = harness.start().await;
    live.until_cleaned(1).await;
    live.handle.poll_now().unwrap();
    live.until_cleaned(2).await;
    assert_eq!(live.starts(), ["MT-1", "MT-2"], "though the second is more urgent");
    live.shut_down().await;
}

#[tokio::test]
async fn rule_8_2_an_issue_that_is_cancelled_in_linear_stops_its_agent() {
    let harness =
        Harness::on_linear(Model::following([ModelAction::Hang]).await, [FakeIssue::new(1)]).await;
    let live = harness.start().await;
    harness.model.until_asked(1).await;
    assert!(harness.linear().move_to("MT-1", "Canceled"));
    live.handle.poll_now().unwrap();
    live.until_done().await;
    assert!(!harness.workspace().exists(), "cancelled is over");
    assert_eq!(live.shut_down().await.totals.cancelled, 1);
}

#[tokio::test]
async fn rule_8_2_an_issue_that_is_moved_to_another_project_stops_its_agent_and_keeps_its_files() {
    let script = [ModelAction::run("echo half done > report"), ModelAction::Hang];
    let harness = Harness::on_linear(Model::following(script).await, [FakeIssue::new(1)]).await;
    let live = harness.start().await;
    harness.model.until_asked(2).await;
    let is_moved = harness
        .linear()
        .change(|world| world.edit("MT-1", |issue| issue.project = Some("def456".to_owned())));
    assert!(is_moved);
    live.handle.poll_now().unwrap();
    live.until("a stop", |seen| (seen.totals.cancelled == 1).then_some(())).await;
    let cleaned = live.happened(|what| matches!(what, NoticeKind::Cleaned).then_some(()));
    assert!(cleaned.is_empty());
    live.shut_down().await;
    let report = std::fs::read_to_string(harness.workspace().join("report")).unwrap();
    assert_eq!(report, "half done\n");
}
