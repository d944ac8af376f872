//! Issues whose identifiers are attacks (contract 9.1, 9.2).

use std::collections::BTreeSet;
use std::fs;

use symphony_core::Issue;
use symphony_memory::AgentScript;
use symphony_runtime::ServiceEnd;

use crate::harness::{Harness, names, within};

#[tokio::test(start_paused = true)]
async fn rule_9_2_no_identifier_leads_out_of_the_root() {
    let harness = Harness::new(AgentScript::new().write("mine", "x").hang());
    let outside = harness.dir.path().join("precious");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "gold").unwrap();
    let long = "x".repeat(4096);
    let hostile = [
        "../../etc",
        "../precious",
        "/etc/passwd",
        outside.to_str().unwrap(),
        ".",
        "..",
        "...",
        "a\0b",
        "a/b",
        "a\\b",
        "~symphony",
        "~symphony/records",
        "\u{202e}MT-1",
        "MТ-1", // a Cyrillic letter
        "ＭＴ－１",
        "MT-1\n",
        "-rf",
        "$(reboot)",
        "CON",
        "mt-7",
        "MT-7",
        &long,
    ];
    for (id, identifier) in hostile.iter().enumerate() {
        harness.board.add(Issue::new(&id.to_string(), identifier, "A title", "Todo").unwrap());
    }
    let live = harness.start().await;
    // All but ".", "..", and one of the two that differ in case only.
    let expected = hostile.len() - 3;
    live.until("all that can start", |s| s.running.len() == expected).await;
    within(
        "all agents",
        harness.agent.wait_until(|journal| {
            journal.count(|did| matches!(did, symphony_memory::Did::Write(_))) == expected
        }),
    )
    .await;
    let reasons = live.handle.snapshot().unwrap().candidates.reasons.clone();
    assert_eq!(reasons.get("invalid_identifier"), Some(&2), "{reasons:?}");
    assert_eq!(reasons.get("workspace_held"), Some(&1), "{reasons:?}");
    assert_eq!(harness.agent.journal().most_live_in_one_workspace(), 1);

    // Each has a folder of its own, directly under the root, and nothing else was made.
    let folders: BTreeSet<String> =
        live.handle.snapshot().unwrap().running.iter().map(|row| row.key.to_string()).collect();
    let mut found: BTreeSet<String> = names(&harness.root()).into_iter().collect();
    assert!(found.remove("~symphony"));
    assert_eq!(found, folders);
    assert!(found.iter().all(|name| harness.root().join(name).join("mine").is_file()));
    assert_eq!(names(&outside), ["file"]);
    assert_eq!(names(harness.dir.path()), ["WORKFLOW.md", "precious", "work"]);
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_6_2_two_issues_with_one_identifier_never_share_a_folder() {
    let harness = Harness::new(AgentScript::new().hang());
    harness.issue("1", "MT-1");
    harness.issue("2", "MT-1");
    let live = harness.start().await;
    live.until("one runs, one waits", |s| {
        s.running.len() == 1 && s.candidates.reasons.get("workspace_held") == Some(&1)
    })
    .await;
    assert_eq!(harness.agent.journal().most_live_in_one_workspace(), 1);
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_15_2_issue_text_is_data_in_the_prompt() {
    let harness = Harness::new(AgentScript::new().hang());
    let title = "{{ issue.id }} {% raw %} {{ 1 + 1 }}";
    harness.board.add(Issue::new("1", "MT-1", title, "Todo").unwrap());
    let live = harness.start().await;
    within("an agent", harness.agent.wait_until(|journal| journal.opened() == 1)).await;
    let turn = harness.agent.journal().for_issue("MT-1").into_iter().find_map(|did| match did {
        symphony_memory::Did::Turn { prompt, .. } => Some(prompt),
        _ => None,
    });
    assert_eq!(turn, Some(format!("Do {title}.")));
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}

#[tokio::test(start_paused = true)]
async fn rule_9_2_a_symlink_in_a_workspaces_place_fails_the_attempt() {
    let harness = Harness::new(AgentScript::new().write("mine", "x"));
    let outside = harness.dir.path().join("precious");
    fs::create_dir(&outside).unwrap();
    fs::create_dir(harness.root()).unwrap();
    std::os::unix::fs::symlink(&outside, harness.root().join("MT-1")).unwrap();
    harness.issue("1", "MT-1");
    let live = harness.start().await;
    live.until("the failure", |s| s.waiting.len() == 1).await;
    let failure = live.handle.snapshot().unwrap().waiting[0].failure.clone().unwrap().to_string();
    assert!(failure.contains("is a symlink"), "{failure}");
    assert_eq!(names(&outside), [""; 0]);
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}
