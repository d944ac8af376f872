//! The tool `update_issue`.

use std::sync::Arc;

use serde_json::{Value, json};
use symphony_core::tracker::{ToolCall, ToolResult, Tracker, TrackerErrorKind};
use symphony_core::{Issue, Label};
use symphony_memory::{Comment, MemoryFault, MemoryTracker, Requests};

use super::{at, board, issue};

#[tokio::test]
async fn rule_11_5_an_agent_moves_labels_and_comments_its_own_issue() {
    let board = board();
    board.add(issue(1, "Todo"));
    let arguments =
        json!({ "state": " done ", "labels": ["Shipped", "shipped", ""], "comment": "It closes." });
    let result = call(&board, issue(1, "Todo"), arguments).await;
    let shown = json!({ "issue": {
        "id": "1",
        "identifier": "MT-1",
        "title": "Issue 1",
        "state": "Done",
        "labels": ["shipped"],
        "updated_at": at(1).to_string(),
    }});
    assert_eq!((result.success, read(&result)), (true, shown));
    let mut expected = issue(1, "Done");
    expected.labels = Label::list(["shipped"]);
    expected.updated_at = Some(at(1));
    assert_eq!(board.issues(), [expected]);
    assert_eq!(board.issue("1").unwrap().state.as_str(), "Done", "as the board spells it");
    let said = Comment { at: at(0), text: "It closes.".to_owned() };
    assert_eq!(board.comments("1"), [said]);
    assert_eq!(board.requests(), 1);
}

#[tokio::test]
async fn rule_11_5_a_comment_alone_is_a_change() {
    let board = board();
    board.add(issue(1, "Todo"));
    assert!(call(&board, issue(1, "Todo"), json!({ "comment": "half way" })).await.success);
    assert_eq!(board.issue("1").unwrap().updated_at, Some(at(1)));
}

#[tokio::test]
async fn rule_11_5_an_agent_moves_no_other_issue() {
    let board = board();
    board.add(issue(1, "Todo"));
    board.add(issue(2, "Todo"));
    let before = board.issues();
    for arguments in [
        json!({ "state": "Done", "id": "2" }),
        json!({ "state": "Done", "issue": "MT-2" }),
        json!({ "state": "Done", "identifier": "MT-2" }),
    ] {
        let result = call(&board, issue(1, "Todo"), arguments).await;
        assert_eq!((result.success, code(&result)), (false, "invalid_arguments".to_owned()));
    }
    assert_eq!(board.issues(), before);
}

#[tokio::test]
async fn rule_11_5_an_unknown_state_is_refused_with_the_known_ones() {
    let board = board();
    board.add(issue(1, "Todo"));
    board.add(issue(2, "Human Review"));
    let result = call(&board, issue(1, "Todo"), json!({ "state": "Doen" })).await;
    let known = [
        "Todo",
        "In Progress",
        "Closed",
        "Cancelled",
        "Canceled",
        "Duplicate",
        "Done",
        "Human Review",
    ];
    let message = format!("there is no state \"Doen\". Known: {}.", known.join(", "));
    let shown = json!({ "error": {
        "code": "unknown_state", "message": message, "known_states": known,
    }});
    assert_eq!((result.success, read(&result)), (false, shown));
    assert!(call(&board, issue(1, "Todo"), json!({ "state": "human review" })).await.success);
}

#[tokio::test]
async fn rule_10_7_bad_arguments_are_a_failure_result() {
    let board = board();
    board.add(issue(1, "Todo"));
    let before = board.issues();
    let long = |length: usize| "x".repeat(length);
    for arguments in [
        json!(null),
        json!("Done"),
        json!(["Done", ["a"], "text"]),
        json!({}),
        json!({ "state": null }),
        json!({ "state": 5 }),
        json!({ "state": ["Done"] }),
        json!({ "labels": "bug" }),
        json!({ "labels": [1] }),
        json!({ "labels": vec!["a"; 101] }),
        json!({ "labels": [long(201)] }),
        json!({ "comment": " \n" }),
        json!({ "comment": long(64 * 1024 + 1) }),
    ] {
        let result = call(&board, issue(1, "Todo"), arguments.clone()).await;
        let outcome = (result.success, code(&result));
        assert_eq!(outcome, (false, "invalid_arguments".to_owned()), "{arguments}");
    }
    assert_eq!(board.issues(), before);
    assert_eq!(board.requests(), 0);
}

#[tokio::test]
async fn rule_10_7_an_unknown_tool_is_a_failure_result() {
    let board = board();
    board.add(issue(1, "Todo"));
    let call = ToolCall {
        name: "delete_issue".to_owned(),
        arguments: json!({}),
        issue: Arc::new(issue(1, "Todo")),
    };
    let result = board.tools().unwrap().call(call).await;
    let message = "there is no tool \"delete_issue\"";
    let shown = json!({ "error": {
        "code": "unknown_tool", "message": message, "known_tools": ["update_issue"],
    }});
    assert_eq!((result.success, read(&result)), (false, shown));
}

#[tokio::test]
async fn rule_10_7_an_issue_that_is_gone_or_unreadable_is_a_failure_result() {
    let board = board();
    let result = call(&board, issue(1, "Todo"), json!({ "state": "Done" })).await;
    assert_eq!((result.success, code(&result)), (false, "issue_not_found".to_owned()));
    board.add(issue(1, "Todo"));
    board.spoil("1", "torn");
    let result = call(&board, issue(1, "Todo"), json!({ "state": "Done" })).await;
    assert_eq!((result.success, code(&result)), (false, "issue_unreadable".to_owned()));
}

#[tokio::test]
async fn rule_10_7_a_tracker_that_refuses_is_a_failure_result() {
    let board = board();
    board.add(issue(1, "Todo"));
    board.faults().next_of(Requests::Tools, MemoryFault::fail(TrackerErrorKind::RateLimited));
    let result = call(&board, issue(1, "Todo"), json!({ "state": "Done" })).await;
    assert_eq!((result.success, code(&result)), (false, "tracker_rate_limited".to_owned()));
    assert_eq!(board.issue("1").unwrap().state, "todo".into());
}

#[test]
fn rule_11_5_the_tool_tells_the_agent_what_it_takes() {
    let board = board();
    board.add(issue(1, "Human Review"));
    let specs = board.tools().unwrap().specs();
    assert_eq!(specs.iter().map(|spec| spec.name.as_str()).collect::<Vec<_>>(), ["update_issue"]);
    let schema = &specs[0].input_schema;
    assert_eq!(schema["type"], "object");
    assert_eq!(schema["additionalProperties"], false);
    let properties: Vec<_> = schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(properties, ["comment", "labels", "state"]);
    assert!(
        schema["properties"]["state"]["description"].as_str().unwrap().contains("Human Review")
    );
}

pub(crate) async fn call(board: &MemoryTracker, issue: Issue, arguments: Value) -> ToolResult {
    let call = ToolCall { name: "update_issue".to_owned(), arguments, issue: Arc::new(issue) };
    board.tools().unwrap().call(call).await
}

pub(crate) fn read(result: &ToolResult) -> Value {
    serde_json::from_str(&result.text).unwrap()
}

pub(crate) fn code(result: &ToolResult) -> String {
    read(result)["error"]["code"].as_str().unwrap_or_default().to_owned()
}
