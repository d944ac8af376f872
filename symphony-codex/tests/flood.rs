//! Contract 10.4: a flood does not fill the memory, however slowly its news are taken. Alone in its
//! process, whose memory is measured.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "these are tests")]

#[path = "protocol/server.rs"]
#[expect(dead_code, reason = "only a part of it is needed here")]
mod server;

use serde_json::json;
use symphony_core::agent::TurnEnd;

use server::{World, run};

/// The resident memory of this process, in KiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn rule_10_4_a_flood_that_is_not_consumed_grows_memory_by_less_than_32_mebibytes() {
    // Updates are kept in a list, as in a queue that is never drained.
    let (mut session, mut server, told) = World::new().opened().await;
    let item = json!({"type": "agentMessage", "text": "x".repeat(300)});
    let usage = json!({"threadId": "T", "tokenUsage": {"total": {"totalTokens": 1}}});
    let lines = [
        json!({"method": "item/agentMessage/delta", "params": {"delta": "x"}}).to_string(),
        json!({"method": "item/completed", "params": {"item": item}}).to_string(),
        json!({"method": "thread/tokenUsage/updated", "params": usage}).to_string(),
        json!({"method": "brand/new", "params": {}}).to_string(),
        json!({"id": 99, "result": {}}).to_string(),
        "nonsense".to_owned(),
    ];
    let lines = format!("{}\n", lines.join("\n")).repeat(100);
    let before = resident();
    let (end, most) = run(&mut session, async {
        server.begin().await;
        let mut most = 0;
        for _ in 0..200 {
            server.raw(lines.as_bytes()).await;
            most = most.max(resident());
        }
        server.complete().await;
        most
    })
    .await;
    assert_eq!(end.unwrap(), TurnEnd::Completed);
    let grown = most.saturating_sub(before);
    assert!(grown < 32 * 1024, "{grown} KiB for {} updates", told.all().len());
}
