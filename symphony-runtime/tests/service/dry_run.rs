//! What would start and why not the rest, without a service.

use std::sync::Arc;

use symphony_core::Issue;
use symphony_core::snapshot::{Reason, Verdict};
use symphony_core::tracker::TrackerErrorKind;
use symphony_memory::{
    AgentScript, MemoryFactory, MemoryFault, MemoryTracker, Requests, ScriptedAgent,
    ScriptedFactory,
};
use symphony_runtime::{Registry, Usable, inspect};

const WORKFLOW: &str = "---\ntracker:\n  kind: memory\nagent:\n  kind: scripted\n  \
    max_concurrent_agents: 3\n  max_concurrent_agents_by_state: {In Progress: 1}\n\
    workspace:\n  root: ./work\n---\nHi.\n";

fn usable(folder: &tempfile::TempDir, board: &MemoryTracker) -> Usable {
    let path = folder.path().join("WORKFLOW.md");
    std::fs::write(&path, WORKFLOW).unwrap();
    let mut registry = Registry::default();
    registry.add_tracker(Arc::new(MemoryFactory::serving(board.clone())));
    registry.add_agent(Arc::new(ScriptedFactory::new(ScriptedAgent::new(AgentScript::new()))));
    inspect(&path, &registry).usable.unwrap()
}

fn add(board: &MemoryTracker, id: &str, state: &str, change: impl FnOnce(&mut Issue)) {
    let mut issue = Issue::new(id, id, "A title", state).unwrap();
    change(&mut issue);
    board.add(issue);
}

#[tokio::test]
async fn rule_5_5_a_dry_run_reads_once_and_gives_every_issue_its_start_or_its_one_reason() {
    let folder = tempfile::tempdir().unwrap();
    let board = MemoryTracker::new();
    let usable = usable(&folder, &board);
    let with = |priority| move |issue: &mut Issue| issue.priority = Some(priority);
    add(&board, "MT-1", "Todo", with(4));
    add(&board, "MT-2", "In Progress", with(1));
    add(&board, "MT-3", "In Progress", with(2));
    add(&board, "MT-4", "Todo", |issue| {
        issue.priority = Some(1);
        issue.blocked_by =
            vec![symphony_core::Blocker { identifier: Some("MT-1".into()), ..Default::default() }];
    });
    add(&board, "MT-5", "Todo", with(3));
    add(&board, "MT-6", "Done", with(1));
    for number in 10..40 {
        add(&board, &format!("MT-{number}"), "Todo", |_| {});
    }
    let before = board.requests();
    let dry_run = usable.dry_run().await.unwrap();
    assert_eq!(board.requests() - before, 1, "one read");
    let starts: Vec<&str> = dry_run.starts.iter().map(|issue| issue.id.as_str()).collect();
    assert_eq!(starts, ["MT-2", "MT-5", "MT-1"], "in the order of 5.3");
    let reasons: Vec<(&str, &str)> = dry_run
        .explanation
        .unstarted
        .iter()
        .map(|row| (row.id.as_str(), row.reason.as_str()))
        .collect();
    assert_eq!(reasons[..2], [("MT-4", "blocked_by"), ("MT-3", "no_slot")]);
    assert_eq!(reasons.len(), 32, "all the others, once: {reasons:?}");
    let is_full = |row: &symphony_core::snapshot::Unstarted| row.reason == Reason::NoSlot;
    assert!(dry_run.explanation.unstarted.iter().skip(1).all(is_full));
    assert!(!folder.path().join("work").exists(), "nothing was made");
}

#[tokio::test]
async fn rule_5_5_a_dry_run_says_that_there_is_nothing_and_that_it_could_not_look() {
    let folder = tempfile::tempdir().unwrap();
    let board = MemoryTracker::new();
    let usable = usable(&folder, &board);
    let dry_run = usable.dry_run().await.unwrap();
    assert_eq!(dry_run.explanation.verdict, Verdict::NoCandidates);
    assert!(dry_run.starts.is_empty());
    board.faults().always(Requests::Reads, MemoryFault::fail(TrackerErrorKind::Request));
    let verdict = usable.dry_run().await.unwrap_err();
    assert!(matches!(verdict, Verdict::PollFailed(_)), "{verdict:?}");
}
