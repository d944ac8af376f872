//! Contract 10.7: the tracker's tools.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use symphony_core::agent::{AgentErrorKind, AgentUpdate, TurnEnd};
use symphony_core::tracker::{AgentTools, ToolCall, ToolResult, ToolSpec};

use crate::server::{World, run};

/// A tool that does as its arguments say.
#[derive(Debug)]
struct Obedient;

#[async_trait]
impl AgentTools for Obedient {
    fn specs(&self) -> Vec<ToolSpec> {
        vec![ToolSpec::new("obey", "Does it.", json!({"type": "object"}))]
    }

    async fn call(&self, call: ToolCall) -> ToolResult {
        let number = |key: &str| call.arguments[key].as_u64().unwrap_or(0);
        assert!(call.arguments.get("panic").is_none(), "as told");
        tokio::time::sleep(Duration::from_secs(number("seconds"))).await;
        let long = "x".repeat(usize::try_from(number("length")).unwrap());
        let text = format!("{} {} {long}", call.name, call.issue.identifier);
        if call.arguments.is_object() {
            ToolResult::success(text).with_change(call.arguments.get("change").is_some())
        } else {
            ToolResult::failure(text)
        }
    }
}

fn world() -> World {
    let mut world = World::new();
    world.request.tools = Some(Arc::new(Obedient));
    world
}

fn call(id: u32, tool: &str, arguments: &Value) -> Value {
    let params = json!({
        "threadId": "T", "turnId": "U", "callId": "c", "namespace": null,
        "tool": tool, "arguments": arguments,
    });
    json!({"id": id, "method": "item/tool/call", "params": params})
}

#[tokio::test(start_paused = true)]
async fn rule_10_7_the_agent_is_told_of_the_tools() {
    let (session, start, ..) = world()
        .open(async |server| {
            let hello = server.expect("initialize").await;
            server.answer(&hello, json!({})).await;
            server.expect("initialized").await;
            let start = server.expect("thread/start").await;
            server.answer(&start, json!({"thread": {"id": "T"}})).await;
            let name = server.expect("thread/name/set").await;
            server.answer(&name, json!({})).await;
            start
        })
        .await;
    let _ = session.unwrap();
    let tool = json!({
        "type": "function", "name": "obey", "description": "Does it.",
        "inputSchema": {"type": "object"},
    });
    assert_eq!(start["params"]["dynamicTools"], json!([tool]));
}

#[tokio::test(start_paused = true)]
async fn rule_10_7_every_call_has_a_result_and_the_session_goes_on() {
    let cases = [
        (call(1, "obey", &json!({})), true, "obey MT-1 "),
        (call(1, "obey", &json!(null)), false, "obey MT-1 "),
        (call(1, "nothing", &json!({})), false, "there is no tool nothing; there are: obey"),
        (call(1, "obey", &json!({"panic": 1})), false, "the tool failed inside Symphony"),
        (call(1, "obey", &json!({"seconds": 121})), false, "the tool took longer than 120 s"),
        (json!({"id": 1, "method": "item/tool/call"}), false, "the tool call could not be read"),
    ];
    for (call, success, text) in cases {
        let (mut session, mut server, told) = world().opened().await;
        let (end, answer) = run(&mut session, async {
            server.begin().await;
            server.send(call.clone()).await;
            let answer = server.next().await.unwrap();
            server.complete().await;
            answer
        })
        .await;
        assert_eq!(end.unwrap(), TurnEnd::Completed);
        let result = &answer["result"];
        assert_eq!((&answer["id"], &result["success"]), (&json!(1), &json!(success)), "{call}");
        assert_eq!(result["contentItems"][0]["type"], "inputText");
        let said = result["contentItems"][0]["text"].as_str().unwrap();
        assert!(said.starts_with(text), "{said}");
        let count = |wanted| told.all().iter().filter(|update| **update == wanted).count();
        // Of a tool that was cut off it is not known how far it came.
        let cut_off = text.starts_with("the tool ");
        let ended = AgentUpdate::ToolEnded { changed_issue: cut_off };
        assert_eq!(count(AgentUpdate::ToolBegan), count(ended));
    }
}

#[tokio::test(start_paused = true)]
async fn rule_10_7_without_tools_a_call_fails_and_the_session_goes_on() {
    let (_session, mut server, told) = World::new().opened().await;
    server.send(call(1, "obey", &json!({}))).await;
    let answer = server.next().await.unwrap();
    assert_eq!(answer["result"]["success"], false);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(told.has_event("unsupported_tool_call: there is no tool obey; there are: none"));
}

#[tokio::test(start_paused = true)]
async fn rule_10_7_a_slow_tool_does_not_stop_the_reading_and_is_not_silence() {
    let world = {
        let mut world = world().with(|it| it.agent.common.turn_timeout = Duration::from_secs(70));
        world.request.tools = Some(Arc::new(Obedient));
        world
    };
    let (mut session, mut server, told) = world.opened().await;
    let (end, order) = run(&mut session, async {
        server.begin().await;
        server.send(call(1, "obey", &json!({"seconds": 60}))).await;
        server.send(call(2, "obey", &json!({"seconds": 1}))).await;
        server.send(json!({"id": 3, "method": "currentTime/read"})).await;
        let mut order = Vec::new();
        for _ in 0..3 {
            order.push(server.next().await.unwrap()["id"].as_u64().unwrap());
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        server.complete().await;
        order
    })
    .await;
    assert_eq!(end.unwrap(), TurnEnd::Completed);
    assert_eq!(order, [3, 2, 1]);
    let tools: Vec<_> = told
        .all()
        .into_iter()
        .filter(|update| matches!(update, AgentUpdate::ToolBegan | AgentUpdate::ToolEnded { .. }))
        .collect();
    assert_eq!(tools, [AgentUpdate::ToolBegan, AgentUpdate::ToolEnded { changed_issue: false }]);
}

#[tokio::test(start_paused = true)]
async fn rule_10_7_a_result_has_a_longest_length() {
    let (_session, mut server, _) = world().opened().await;
    server.send(call(1, "obey", &json!({"length": 3 << 20}))).await;
    let answer = server.next().await.unwrap();
    let text = answer["result"]["contentItems"][0]["text"].as_str().unwrap();
    assert!(text.len() < (1 << 20) + 100 && text.ends_with("[cut: the result was too long]"));
}

#[tokio::test(start_paused = true)]
async fn rule_10_7_arguments_have_a_longest_length_and_a_deepest_depth() {
    let (_session, mut server, _) = world().opened().await;
    server.send(call(1, "obey", &json!({"text": "x".repeat(1 << 20)}))).await;
    let answer = server.next().await.unwrap();
    let text = &answer["result"]["contentItems"][0]["text"];
    assert_eq!(text, "the arguments of obey have more than 1048576 bytes");
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let line = call(2, "obey", &json!("DEEP")).to_string().replace("\"DEEP\"", &deep);
    server.raw(format!("{line}\n").as_bytes()).await;
    let answer = server.next().await.unwrap();
    assert_eq!((&answer["id"], &answer["result"]["success"]), (&json!(2), &json!(false)));
}

#[tokio::test(start_paused = true)]
async fn rule_10_7_calls_at_once_are_bounded() {
    let (_session, mut server, _) = world().opened().await;
    for id in 0..20 {
        server.send(call(id, "obey", &json!({"seconds": 5}))).await;
    }
    let mut refused = Vec::new();
    for _ in 0..20 {
        let answer = server.next().await.unwrap();
        if answer["result"]["success"] == false {
            refused.push(answer["id"].as_u64().unwrap());
        }
    }
    assert_eq!(refused, [16, 17, 18, 19]);
}

#[tokio::test(start_paused = true)]
async fn rule_8_1_silence_times_out_only_while_no_tool_runs() {
    let world = world().with(|it| it.agent.common.turn_timeout = Duration::from_secs(10));
    let (mut session, mut server, _) = world.opened().await;
    let begun = tokio::time::Instant::now();
    let (end, answer) = run(&mut session, async {
        server.begin().await;
        server.send(call(1, "obey", &json!({"seconds": 100}))).await;
        server.next().await.unwrap()
    })
    .await;
    assert_eq!(answer["result"]["success"], true);
    assert_eq!(end.unwrap_err().kind, AgentErrorKind::TurnTimeout);
    let took = begun.elapsed().as_secs();
    assert!((109..=111).contains(&took), "in virtual time, after {took} s");
}

#[tokio::test(start_paused = true)]
async fn rule_8_2_a_call_that_changed_the_tracker_is_told_before_it_is_answered() {
    let (mut session, mut server, told) = world().opened().await;
    let tools = || {
        let all = told.all().into_iter();
        let is_tool = |update: &AgentUpdate| {
            matches!(update, AgentUpdate::ToolBegan | AgentUpdate::ToolEnded { .. })
        };
        all.filter(is_tool).collect::<Vec<_>>()
    };
    let changed = [AgentUpdate::ToolBegan, AgentUpdate::ToolEnded { changed_issue: true }];
    for turn in 1..=2 {
        let (end, ()) = run(&mut session, async {
            server.begin().await;
            server.send(call(1, "obey", &json!({}))).await;
            server.next().await.unwrap();
            let before = tools().len();
            server.send(call(2, "obey", &json!({"change": true}))).await;
            server.next().await.unwrap();
            assert_eq!(tools()[before..], changed, "turn {turn}");
            server.send(call(3, "obey", &json!({"change": true}))).await;
            server.next().await.unwrap();
            server.complete().await;
        })
        .await;
        assert_eq!(end.unwrap(), TurnEnd::Completed);
        assert_eq!(tools().len(), 4 * turn, "a second change waits for its time: {:?}", tools());
    }
}

#[tokio::test(start_paused = true)]
async fn rule_8_2_a_change_is_told_while_another_call_still_runs() {
    let (mut session, mut server, told) = world().opened().await;
    let (end, ()) = run(&mut session, async {
        server.begin().await;
        server.send(call(1, "obey", &json!({"seconds": 60}))).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.send(call(2, "obey", &json!({"change": true}))).await;
        assert_eq!(server.next().await.unwrap()["id"], 2);
        assert!(told.all().contains(&AgentUpdate::ToolEnded { changed_issue: true }));
        assert_eq!(server.next().await.unwrap()["id"], 1);
        server.complete().await;
    })
    .await;
    assert_eq!(end.unwrap(), TurnEnd::Completed);
    let owed = told.all().into_iter().fold(0, |owed, update| match update {
        AgentUpdate::ToolBegan => owed + 1,
        AgentUpdate::ToolEnded { .. } => owed - 1,
        _ => owed,
    });
    assert_eq!(owed, 0, "{:?}", told.all());
}

#[tokio::test(start_paused = true)]
async fn rule_10_4_a_flood_of_calls_is_folded_and_each_is_answered() {
    let (_session, mut server, told) = world().opened().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = told.all().len();
    for id in 0..1000 {
        server.send(call(id, "obey", &json!({}))).await;
        assert_eq!(server.next().await.unwrap()["id"], id);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let updates = told.all().split_off(before);
    assert!(updates.len() < 20, "{} updates", updates.len());
    let count = |wanted| updates.iter().filter(|update| **update == wanted).count();
    assert_eq!(
        count(AgentUpdate::ToolBegan),
        count(AgentUpdate::ToolEnded { changed_issue: false })
    );
}
