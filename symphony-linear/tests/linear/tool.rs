//! The tool `linear_graphql` (contract 10.7, 11.4).

use std::sync::Arc;

use serde_json::{Value, json};
use symphony_core::tracker::{AgentTools, ToolCall, ToolResult};
use symphony_linear::LINEAR_GRAPHQL;
use symphony_linear_fake::{Fake, FakeFault, FakeIssue, FakeLimits};

use crate::harness::{tracker, tracker_with};

pub(crate) async fn call(tools: &dyn AgentTools, name: &str, arguments: Value) -> ToolResult {
    let issue = symphony_core::Issue::new("id-1", "MT-1", "Issue 1", "Todo").unwrap();
    tools.call(ToolCall { name: name.to_owned(), arguments, issue: Arc::new(issue) }).await
}

async fn ask(tools: &dyn AgentTools, query: &str) -> ToolResult {
    call(tools, LINEAR_GRAPHQL, json!({ "query": query })).await
}

fn code(result: &ToolResult) -> String {
    assert!(!result.success, "{}", result.text);
    let text: Value = serde_json::from_str(&result.text).unwrap();
    text["error"]["code"].as_str().unwrap().to_owned()
}

fn message(result: &ToolResult) -> String {
    let text: Value = serde_json::from_str(&result.text).unwrap();
    text["error"]["message"].as_str().unwrap().to_owned()
}

const MOVE: &str = "mutation($id: String!, $state: String!) {
  issueUpdate(id: $id, input: { stateId: $state }) { success issue { state { name } } }
}";

fn world() -> Fake {
    let fake = Fake::new();
    fake.put([FakeIssue::new(1)]);
    fake
}

#[tokio::test]
async fn rule_11_4_a_query_brings_its_data() {
    let fake = world();
    let tools = tracker(&fake).tools().unwrap();
    let query = "query($id: String!) { issue(id: $id) { title team { states { nodes { id } } } } }";
    let arguments = json!({ "query": query, "variables": { "id": "MT-1" } });
    let result = call(&*tools, LINEAR_GRAPHQL, arguments).await;
    assert!(result.success);
    let data: Value = serde_json::from_str(&result.text).unwrap();
    assert_eq!(data["data"]["issue"]["title"], "Issue 1");
    assert!(ask(&*tools, "{ viewer { name } }").await.success);
    assert!(call(&*tools, LINEAR_GRAPHQL, json!("{ viewer { name } }")).await.success);
}

#[tokio::test]
async fn rule_11_4_a_mutation_changes_linear() {
    let fake = world();
    let tools = tracker(&fake).tools().unwrap();
    let variables = json!({ "id": "id-1", "state": "state-MT-done" });
    let arguments = json!({ "query": MOVE, "variables": variables });
    let result = call(&*tools, LINEAR_GRAPHQL, arguments).await;
    assert!(result.success, "{}", result.text);
    assert_eq!(fake.world().issue("id-1").unwrap().state, "Done");
}

#[tokio::test]
async fn rule_11_4_a_call_is_one_operation() {
    let fake = world();
    let tools = tracker(&fake).tools().unwrap();
    let two = "query A { viewer { name } } query B { viewer { name } }";
    let result = ask(&*tools, two).await;
    assert_eq!(code(&result), "not_one_operation");
    assert!(message(&result).contains("this one has 2"));
    let none = "fragment F on User { name }";
    assert_eq!(code(&ask(&*tools, none).await), "not_one_operation");
    assert_eq!(code(&ask(&*tools, "subscription { x }").await), "invalid_query");
    assert_eq!(fake.requests(), 0, "nothing of this is sent");
}

#[tokio::test]
async fn rule_11_4_what_is_wrong_is_told_so_that_a_model_can_mend_it() {
    let fake = world();
    let tools = tracker(&fake).tools().unwrap();
    for (arguments, code_of, words) in [
        (json!({}), "invalid_arguments", "`query` must be"),
        (json!({ "query": "  " }), "invalid_arguments", "`query` must be"),
        (json!({ "query": "{ a }", "variables": [1] }), "invalid_arguments", "`variables` must be"),
        (json!({ "query": "{ a }", "operationName": "x" }), "invalid_arguments", "operationName"),
        (json!(7), "invalid_arguments", "give an object"),
        (json!({ "query": "{ viewer { " }), "invalid_query", "this is not a GraphQL document"),
        (json!({ "query": "x".repeat(100_000) }), "invalid_arguments", "at most 65536 bytes"),
        (
            json!({ "query": "{ a }", "variables": { "x": "y".repeat(2_000_000) } }),
            "invalid_arguments",
            "at most 1048576 bytes",
        ),
    ] {
        let result = call(&*tools, LINEAR_GRAPHQL, arguments).await;
        assert_eq!(code(&result), code_of);
        assert!(message(&result).contains(words), "{}", result.text);
    }
    assert_eq!(code(&call(&*tools, "other", json!({})).await), "unknown_tool");
    assert_eq!(fake.requests(), 0);
    // What Linear itself says is passed on.
    let result = ask(&*tools, "{ viewer { shoeSize } }").await;
    assert_eq!(code(&result), "tracker_status");
    assert!(result.text.contains("shoeSize"), "{}", result.text);
    let lost = call(
        &*tools,
        LINEAR_GRAPHQL,
        json!({ "query": MOVE, "variables": { "id": "nobody", "state": "state-MT-done" } }),
    )
    .await;
    assert!(!lost.success && lost.text.contains("Entity not found"), "{}", lost.text);
}

#[tokio::test]
async fn rule_11_4_read_only_lets_no_mutation_slip_through() {
    let fake = world();
    let tools = tracker_with(&fake, &json!({ "tool": "read_only" })).tools().unwrap();
    assert!(ask(&*tools, "{ viewer { name } }").await.success);
    assert!(ask(&*tools, "# mutation { x }\nquery mutation { viewer { name } }").await.success);
    assert!(tools.specs()[0].description.contains("Mutations are refused"));
    let hidden = r#"{ commentCreate(input: { issueId: "id-1", body: "x" }) { success } }"#;
    let requests = fake.requests();
    for query in [
        format!("mutation {hidden}"),
        format!("mutation M {hidden}"),
        format!("  \u{feff}mutation {hidden}"),
        format!("# query\nmutation {hidden}"),
        format!("# query\rmutation {hidden}"),
        format!("\"\"\"query\"\"\" mutation {hidden}"),
        format!("query Q {{ viewer {{ name }} }} mutation {hidden}"),
        format!("query Q {{ viewer {{ name }} }} #\rmutation {hidden}"),
        format!("query Q {{ viewer {{ name }} }} #\u{2028}\rmutation M {hidden}"),
        format!("fragment F on User {{ name }} mutation {hidden}"),
        format!(",,,mutation{hidden}"),
    ] {
        let result = ask(&*tools, &query).await;
        assert!(!result.success, "{query:?} was let through: {}", result.text);
    }
    assert!(fake.world().issue("id-1").unwrap().comments.is_empty());
    assert_eq!(fake.requests(), requests, "none of them was sent");
}

#[tokio::test]
async fn rule_11_4_what_was_checked_is_what_is_sent() {
    let fake = world();
    let tools = tracker(&fake).tools().unwrap();
    // A bare carriage return ends a line for GraphQL, in both parsers.
    assert!(ask(&*tools, "# note\r\n{ viewer { name } } # \r").await.success);
    assert!(fake.made().iter().all(|made| !made.query.contains('\r')));
}

#[test]
fn rule_11_4_the_tool_can_be_switched_off() {
    let fake = world();
    assert!(tracker_with(&fake, &json!({ "tool": "off" })).tools().is_none());
    assert!(tracker_with(&fake, &json!({ "tool": false })).tools().is_none());
}

#[tokio::test]
async fn rule_11_4_a_result_that_is_too_large_is_an_error_that_says_whether_it_was_done() {
    let fake = world();
    fake.change(|world| world.issues[0].description = Some("x".repeat(300_000)));
    let tools = tracker(&fake).tools().unwrap();
    let result = ask(&*tools, "{ issue(id: \"id-1\") { description } }").await;
    assert_eq!(code(&result), "result_too_large");
    assert!(message(&result).starts_with("the result has 300"), "{}", message(&result));
    assert!(result.text.len() < 1000);
    let query =
        "mutation { issueUpdate(id: \"id-1\", input: { title: \"T\" }) { issue { description } } }";
    let result = ask(&*tools, query).await;
    assert!(message(&result).starts_with("the change was made, but the result has"));
    assert_eq!(fake.world().issue("id-1").unwrap().title, "T");
    // Beyond eight megabytes it is not even read.
    fake.change(|world| world.issues[0].description = Some("x".repeat(9 << 20)));
    let result = ask(&*tools, query).await;
    assert_eq!(code(&result), "tracker_response");
    assert!(message(&result).ends_with("look before you repeat it"), "{}", message(&result));
}

#[tokio::test(start_paused = true)]
async fn rule_11_4_a_change_whose_answer_is_lost_may_have_been_made() {
    let fake = world();
    let tools = tracker(&fake).tools().unwrap();
    fake.fail_next(1, FakeFault::Hang);
    let result =
        ask(&*tools, "mutation { issueUpdate(id: \"id-1\", input: {}) { success } }").await;
    assert_eq!(code(&result), "tracker_request");
    assert!(message(&result).contains("may have been made"), "{}", message(&result));
    fake.fail_next(1, FakeFault::Hang);
    let result = ask(&*tools, "{ viewer { name } }").await;
    assert!(!message(&result).contains("may have been made"));
}

#[tokio::test]
async fn rule_11_4_a_change_without_an_answer_may_have_been_made() {
    let fake = world();
    let tools = tracker(&fake).tools().unwrap();
    let change = "mutation { issueUpdate(id: \"id-1\", input: {}) { success } }";
    // A gateway that gave up, a page of a proxy, half an answer, data with a complaint.
    let faults =
        [FakeFault::html(504), FakeFault::html(200), FakeFault::Truncate, FakeFault::Partial];
    for fault in faults {
        fake.fail_next(1, fault.clone());
        let result = ask(&*tools, change).await;
        assert!(message(&result).contains("may have been made"), "{fault:?}: {}", result.text);
        fake.fail_next(1, fault);
        let result = ask(&*tools, "{ viewer { name } }").await;
        assert!(!message(&result).contains("may have been made"), "{}", result.text);
    }
    // What Linear itself refused was not done.
    fake.fail_next(1, FakeFault::error(400, "INPUT_ERROR", "no such state"));
    assert!(!message(&ask(&*tools, change).await).contains("may have been made"));
    fake.fail_next(1, FakeFault::error(200, "INPUT_ERROR", "no such state"));
    assert!(!message(&ask(&*tools, change).await).contains("may have been made"));
}

#[tokio::test]
async fn rule_11_4_nesting_does_not_exhaust_the_stack() {
    let fake = world();
    let tools = tracker_with(&fake, &json!({ "tool": "read_only" })).tools().unwrap();
    for query in [
        "{a".repeat(30_000),
        format!("{}{}", "{a".repeat(10_000), "}".repeat(10_000)),
        format!("{{a(x: {}{})}}", "[".repeat(20_000), "]".repeat(20_000)),
        format!("query($x: {}Int{}) {{a}}", "[".repeat(20_000), "]".repeat(20_000)),
    ] {
        // Whatever is made of it, the service is still there.
        let _ = ask(&*tools, &query).await;
    }
    assert!(ask(&*tools, "{ viewer { name } }").await.success);
}

#[tokio::test(start_paused = true)]
async fn rule_12_6_calls_are_counted_and_wait_for_the_budget() {
    let fake = world();
    fake.set_limits(FakeLimits { requests: 60, ..FakeLimits::default() });
    let tracker = tracker(&fake);
    let tools = tracker.tools().unwrap();
    let began = tokio::time::Instant::now();
    let mut refused = 0;
    for _ in 0..12 {
        let result = ask(&*tools, "{ viewer { name } }").await;
        if !result.success {
            assert_eq!(code(&result), "tracker_rate_limited");
            let text: Value = serde_json::from_str(&result.text).unwrap();
            let wait = text["error"]["retry_after_seconds"].as_u64().unwrap();
            assert!((20..200).contains(&wait), "{wait}");
            refused += 1;
            tokio::time::sleep(std::time::Duration::from_secs(wait)).await;
        }
    }
    assert!(refused > 0 && began.elapsed().as_secs() > 60);
    assert!(fake.made().iter().all(|made| made.status == 200), "Linear never had to refuse");
    let calls = fake.requests();
    let polled = tracker.poll(&crate::polls::refresh(&["id-1"])).await;
    assert_eq!(polled.budget.unwrap().today["tool"], calls);
}
