//! The facade, as a program that embeds it sees it.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

use std::path::Path;
use std::time::Duration;

use symphony::core::serde_json::json;
use symphony::core::tracker::ToolSpec;
use symphony::{ServiceEnd, StartError, run_workflow};

const WORKFLOW: &str = "---
tracker:
  kind: memory
  provider:
    board: board.yaml
workspace:
  root: ./work
agent:
  kind: scripted
---
Please do this: {{ issue.title }}.
";

const BOARD: &str = "- {identifier: MT-1, title: Fix the door, state: Todo}
- {identifier: MT-2, title: Paint it, state: Todo, blocked_by: [MT-1]}
";

/// Waits until both issues of a board are done.
async fn until_done(board: &Path) {
    let done = async {
        while std::fs::read_to_string(board).unwrap().matches("state: Done").count() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(600), done).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn rule_2_6_one_call_runs_a_workflow_file_until_the_program_has_had_enough() {
    let folder = tempfile::tempdir().unwrap();
    let (workflow, board) = (folder.path().join("WORKFLOW.md"), folder.path().join("board.yaml"));
    std::fs::write(&workflow, WORKFLOW).unwrap();
    std::fs::write(&board, BOARD).unwrap();
    let end = run_workflow(&workflow, until_done(&board)).await.unwrap();
    assert_eq!(end, ServiceEnd::Drained);
}

#[tokio::test]
async fn rule_2_2_one_call_tells_every_problem_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let workflow = folder.path().join("WORKFLOW.md");
    let text = WORKFLOW.replace("kind: scripted", "kind: nonsense\n  max_turns: 0");
    std::fs::write(&workflow, text).unwrap();
    let error = run_workflow(&workflow, std::future::pending()).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("line 9: agent.kind") && text.contains("line 10: agent.max_turns"),
        "{text}"
    );
    assert!(matches!(error, StartError::Workflow(problems) if problems.len() == 2));
}

#[test]
fn the_registry_has_what_the_features_bring() {
    let registry = symphony::registry();
    let trackers: Vec<&str> = registry.trackers().map(|factory| factory.kind()).collect();
    let agents: Vec<&str> = registry.agents().map(|factory| factory.kind()).collect();
    let linear = if cfg!(feature = "linear") { &["linear", "memory"][..] } else { &["memory"] };
    assert_eq!((&trackers[..], &agents[..]), (linear, &["codex", "scripted"][..]));
}

/// That this compiles is the test: what signatures of the facade name has a name in it.
#[test]
fn the_types_of_signatures_have_a_name_in_the_facade() {
    use symphony::{
        AnnouncedAddress, ChangeError, CommandError, DiskError, DryRun, Inspection, IssueRef,
        LockHolder, NotReceived, NoticeItem, NoticeStream, OpenTracker, PromptContext, Received,
        ShellHooks, TranscriptTail, Usable, WatchReceiver,
    };
    fn named<T>() -> &'static str {
        std::any::type_name::<T>()
    }
    let names = [
        named::<AnnouncedAddress>(),
        named::<ChangeError>(),
        named::<CommandError>(),
        named::<DiskError>(),
        named::<DryRun>(),
        named::<Inspection>(),
        named::<IssueRef>(),
        named::<LockHolder>(),
        named::<NotReceived>(),
        named::<NoticeItem>(),
        named::<NoticeStream>(),
        named::<OpenTracker>(),
        named::<PromptContext>(),
        named::<Received>(),
        named::<ShellHooks>(),
        named::<TranscriptTail>(),
        named::<Usable>(),
        named::<WatchReceiver<()>>(),
    ];
    assert!(names.iter().all(|name| !name.is_empty()));
    let _ = (symphony::inspect, symphony::open_tracker, symphony::read_leniently);
    // With no other crate than the facade.
    let spec = ToolSpec::new("look", "Looks.", json!({ "type": "object" }));
    assert_eq!(spec.input_schema["type"], "object");
}
