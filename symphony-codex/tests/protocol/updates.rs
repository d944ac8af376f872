//! Contract 10.8 and 10.10: what the scheduler hears.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use symphony_core::agent::{AgentSession as _, AgentUpdate, Tokens, TurnEnd};

use crate::server::{World, run};

fn usage(thread: &str, total: u64) -> Value {
    let counts = json!({
        "totalTokens": total, "inputTokens": 5, "cachedInputTokens": 4, "cacheWriteInputTokens": 9,
        "outputTokens": 3, "reasoningOutputTokens": 2,
    });
    let last = json!({"totalTokens": 1});
    json!({"threadId": thread, "turnId": "U", "tokenUsage": {"total": counts, "last": last}})
}

#[tokio::test(start_paused = true)]
async fn rule_10_8_tokens_are_the_totals_of_each_conversation_and_come_before_the_end() {
    let (mut session, mut server, told) = World::new().opened().await;
    let (end, ()) = run(&mut session, async {
        server.begin().await;
        for total in 1..=50 {
            server.tell("thread/tokenUsage/updated", usage("T", total)).await;
        }
        server.tell("thread/tokenUsage/updated", usage("HELPER", 7)).await;
        server.tell("thread/tokenUsage/updated", json!({"tokenUsage": -1})).await;
        server.complete().await;
    })
    .await;
    assert_eq!(end.unwrap(), TurnEnd::Completed);
    let mut last = BTreeMap::new();
    for update in told.all() {
        if let AgentUpdate::Usage { thread, total } = update {
            last.insert(thread.to_string(), total.tokens.unwrap());
        }
    }
    let tokens =
        |total| Tokens { input: 5, cached_input: 4, output: 3, reasoning_output: 2, total };
    let expected = [("HELPER".to_owned(), tokens(7)), ("T".to_owned(), tokens(50))];
    assert_eq!(last, expected.into());
}

#[tokio::test(start_paused = true)]
async fn rule_10_8_what_was_counted_before_the_close_is_told() {
    let (mut session, mut server, told) = World::new().opened().await;
    let (end, ()) = run(&mut session, async {
        server.begin().await;
        server.complete().await;
    })
    .await;
    assert_eq!(end.unwrap(), TurnEnd::Completed);
    server.tell("thread/tokenUsage/updated", usage("HELPER", 7)).await;
    server.ask("currentTime/read", json!({})).await; // answered: what came before it was read
    Box::new(session).close().await.unwrap();
    let is_usage = |update: &AgentUpdate| matches!(update, AgentUpdate::Usage { .. });
    assert!(told.all().iter().any(is_usage), "{:?}", told.all());
}

/// What is counted in the end, by conversation, when so many helpers were told of, twice each.
async fn counted(helpers: u64) -> (BTreeMap<String, u64>, Vec<String>) {
    let (mut session, mut server, told) = World::new().opened().await;
    let (end, ()) = run(&mut session, async {
        server.begin().await;
        for total in [1, 3] {
            for helper in 0..helpers {
                let usage = usage(&format!("HELPER-{helper}"), total);
                server.tell("thread/tokenUsage/updated", usage).await;
            }
        }
        server.tell("thread/tokenUsage/updated", usage("T", 7)).await;
        server.complete().await;
    })
    .await;
    assert_eq!(end.unwrap(), TurnEnd::Completed);
    let mut last = BTreeMap::new();
    for update in told.all() {
        if let AgentUpdate::Usage { thread, total } = update {
            last.insert(thread.to_string(), total.tokens.unwrap().total);
        }
    }
    (last, told.events())
}

#[tokio::test(start_paused = true)]
async fn rule_10_8_every_helper_is_counted_once() {
    let (counted, events) = counted(1000).await;
    assert_eq!((counted.len(), counted.values().sum::<u64>()), (1001, 3 * 1000 + 7));
    assert!(!events.iter().any(|event| event.contains("not counted")), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn rule_10_8_helpers_that_are_not_counted_are_told_and_ours_is() {
    let (counted, events) = counted(5000).await;
    assert_eq!((counted.len(), counted["T"]), (4097, 7));
    let notes = events.iter().filter(|event| event.contains("the others are not counted"));
    assert_eq!(notes.count(), 1, "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn rule_10_4_the_counts_of_many_helpers_are_folded() {
    let (_session, mut server, told) = World::new().opened().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = told.all().len();
    for helper in 0..1000 {
        server.tell("thread/tokenUsage/updated", usage(&format!("HELPER-{helper}"), 1)).await;
    }
    server.ask("currentTime/read", json!({})).await;
    let updates = told.all().len() - before;
    assert!(updates <= 64, "{updates} at once");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(told.all().len() - before, 1000, "and the rest a little later");
}

#[tokio::test(start_paused = true)]
async fn rule_10_8_limits_are_told_as_windows() {
    let (_session, mut server, told) = World::new().opened().await;
    let limits = json!({
        "limitId": "codex", "planType": "pro", "credits": null, "rateLimitReachedType": null,
        "primary": {"usedPercent": 99, "windowDurationMins": 300, "resetsAt": 1_800_000_000},
        "secondary": null,
    });
    server.tell("account/rateLimits/updated", json!({"rateLimits": limits})).await;
    server.tell("account/rateLimits/updated", json!({"rateLimits": 7})).await;
    // Only what has changed is sent: the rest stays known.
    server.tell("account/rateLimits/updated", json!({"rateLimits": {}})).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let limits: Vec<_> = told
        .all()
        .into_iter()
        .filter_map(|update| match update {
            AgentUpdate::RateLimits(limits) => Some(limits),
            _ => None,
        })
        .collect();
    let [limits] = &limits[..] else { panic!("{limits:?}") };
    assert_eq!((limits.limit_id.as_deref(), limits.plan.as_deref()), (Some("codex"), Some("pro")));
    let [window] = &limits.windows[..] else { panic!("{limits:?}") };
    assert_eq!((window.name.as_str(), window.window_minutes), ("primary", Some(300)));
    assert_eq!(window.resets_at.unwrap().as_unix_millis(), 1_800_000_000_000);
}

#[tokio::test(start_paused = true)]
async fn rule_10_10_what_the_agent_does_is_told_in_a_line() {
    let (_session, mut server, told) = World::new().opened().await;
    let items = [
        ("item/started", json!({"type": "commandExecution", "command": "make"})),
        ("item/completed", json!({"type": "commandExecution", "command": "make", "exitCode": 0})),
        ("item/completed", json!({"type": "agentMessage", "text": "Done.\n\u{1b}[2JBye."})),
        ("item/completed", json!({"type": "fileChange", "changes": [1, 2]})),
        ("item/completed", json!({"type": "mcpToolCall", "tool": "look"})),
        ("item/completed", json!({"type": "reasoning"})),
    ];
    for (method, item) in items {
        server.tell(method, json!({"threadId": "T", "item": item})).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    server.tell("brand/new", json!({})).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let expected = [
        "session_started: conversation T",
        "notification: runs `make`",
        "notification: ran `make`: exit 0",
        "notification: Done. [2JBye.",
        "notification: changed 2 file(s)",
        "notification: called look",
        "other_message: brand/new",
    ];
    assert_eq!(told.events(), expected);
}

#[tokio::test(start_paused = true)]
async fn rule_10_4_a_flood_is_folded_and_the_end_is_not_lost() {
    let (mut session, mut server, told) = World::new().opened().await;
    let before = told.all().len();
    let (end, ()) = run(&mut session, async {
        server.begin().await;
        let delta = json!({"threadId": "T", "turnId": "U", "itemId": "i", "delta": "x"});
        let delta = json!({"method": "item/agentMessage/delta", "params": delta});
        let line = format!("{delta}\n").repeat(100);
        for _ in 0..1000 {
            server.raw(line.as_bytes()).await;
        }
        for number in 0..1000 {
            server.tell(&format!("brand/new{number}"), json!({})).await;
        }
        server.complete().await;
    })
    .await;
    assert_eq!(end.unwrap(), TurnEnd::Completed);
    let updates = told.all().len() - before;
    assert!(updates < 50, "{updates} updates");
    assert!(told.has_event("turn_completed"));
}

#[tokio::test(start_paused = true)]
async fn rule_10_4_a_flood_that_goes_on_is_a_heartbeat() {
    let (_session, mut server, told) = World::new().opened().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = told.all().len();
    for _ in 0..1000 {
        server.tell("item/agentMessage/delta", json!({"delta": "x"})).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let updates = told.all().split_off(before);
    assert!(updates.iter().all(|update| *update == AgentUpdate::Alive));
    assert!((18..=22).contains(&updates.len()), "{} in ten seconds", updates.len());
}
