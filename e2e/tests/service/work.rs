//! Issues that get done, in one turn or many, in one process or several.

use std::path::{Path, PathBuf};

use serde_json::json;
use symphony_core::orchestrator::NoticeKind;
use symphony_core::snapshot::Snapshot;
use symphony_e2e::{Model, ModelAction};

use crate::harness::{Harness, ISSUE, eventually};

/// The tracker's tool, called by the model.
pub(crate) fn move_to(state: &str) -> ModelAction {
    ModelAction::Call("update_issue", json!({"state": state}))
}

/// A folder that Codex keeps its commands from. It lets each of them write below `/tmp` and `$TMPDIR`,
/// where the workspace is, and this clone may be.
fn elsewhere() -> tempfile::TempDir {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let open: [PathBuf; 2] = [real(Path::new("/tmp")), real(&std::env::temp_dir())];
    let places = [env!("CARGO_TARGET_TMPDIR"), "/var/tmp", "/dev/shm"].map(Path::new);
    let is_closed = |place: &&Path| !open.iter().any(|open| real(place).starts_with(open));
    let folder = |place: &Path| tempfile::Builder::new().prefix("e2e-").tempdir_in(place).ok();
    places.into_iter().filter(is_closed).find_map(folder).unwrap()
}

#[tokio::test]
async fn rule_10_1_an_issue_goes_from_todo_to_done() {
    let folder = elsewhere();
    let outside = folder.path().join("outside");
    let script = [
        ModelAction::run("pwd > where && cat where"),
        ModelAction::run(&format!("touch '{}' || echo refused", outside.display())),
        move_to("Done"),
        ModelAction::Say("It is done."),
    ];
    let harness = Harness::new(Model::following(script).await);
    let live = harness.start().await;
    live.until_done().await;
    let last = live.shut_down().await;
    assert_eq!(harness.board.issue(ISSUE).unwrap().state.as_str(), "Done");
    assert!(!harness.workspace().exists(), "the workspace is cleaned");
    assert_eq!((last.totals.started, last.totals.done), (1, 1));
    assert_eq!(last.totals.tokens.total, harness.model.cost(), "as the model reported");
    assert_eq!(harness.model.asked().len(), 4);
    let heard = harness.model.heard(3);
    assert!(heard.contains("Work on MT-1: Mend the door."), "the prompt: {heard}");
    let results = harness.model.results(3);
    assert!(results.contains("work/MT-1"), "the command ran in the workspace: {results}");
    assert!(results.contains("refused"), "the sandbox keeps the rest of the disk: {results}");
    assert!(!outside.exists());
}

#[tokio::test]
async fn rule_8_2_a_push_after_the_move_is_not_lost() {
    let outside = tempfile::tempdir().unwrap();
    let pushed = outside.path().join("pushed");
    // Codex lets commands write below /tmp: where temporary files are, a push can be played.
    let push = format!(
        "touch here; until [ -e '{0}.go' ]; do sleep 0.1; done; touch '{0}'",
        pushed.display()
    );
    let script = [move_to("Done"), ModelAction::run(&push), ModelAction::Say("It is done.")];
    let harness = Harness::new(Model::following(script).await);
    let live = harness.start_with("  thread_sandbox: danger-full-access\n  turn_sandbox_policy: {type: dangerFullAccess}\n").await;
    eventually("the push", || harness.workspace().join("here").exists()).await;
    live.handle.poll_now().unwrap();
    let grace = |seen: &Snapshot| seen.running.iter().find_map(|row| row.finish_by);
    live.until("the grace", grace).await;
    std::fs::write(pushed.with_extension("go"), "").unwrap();
    live.until_done().await;
    assert!(pushed.exists());
    let last = live.shut_down().await;
    assert_eq!((last.totals.started, last.totals.done), (1, 1));
}

#[tokio::test]
async fn rule_10_1_several_turns_are_one_conversation() {
    let script = [
        ModelAction::Say("I have begun."),
        ModelAction::Say("I go on."),
        move_to("Done"),
        ModelAction::Say("It is done."),
    ];
    let harness = Harness::new(Model::following(script).await);
    let live = harness.start().await;
    live.until_done().await;
    let turns = live.happened(|what| match what {
        NoticeKind::Continued { turn, max_turns } => Some((*turn, *max_turns)),
        _ => None,
    });
    assert_eq!(turns, [(2, 5), (3, 5)]);
    let last = live.shut_down().await;
    assert_eq!((last.totals.started, last.totals.done), (1, 1));
    assert_eq!(last.totals.tokens.total, harness.model.cost());
    let heard = harness.model.heard(3);
    for said in
        ["Work on MT-1", "I have begun.", "I go on.", "turn 2 of at most 5", "turn 3 of at most 5"]
    {
        assert!(heard.contains(said), "{said}: {heard}");
    }
}

#[tokio::test]
async fn rule_10_3_a_run_after_a_normal_end_resumes_the_conversation_in_a_new_process() {
    let script = [
        ModelAction::run("echo first > made"),
        ModelAction::Say("The first run."),
        ModelAction::run("cat made"),
        ModelAction::Say("The second run."),
        move_to("Done"),
        ModelAction::Say("It is done."),
    ];
    let mut harness = Harness::new(Model::following(script).await);
    harness.max_turns = 1;
    let live = harness.start().await;
    live.until_done().await;
    let last = live.shut_down().await;
    let totals = &last.totals;
    assert_eq!((totals.started, totals.out_of_turns, totals.done), (3, 2, 1));
    assert_eq!(last.totals.tokens.total, harness.model.cost(), "no token is counted twice");
    let heard = harness.model.heard(5);
    assert!(heard.contains("The first run.") && heard.contains("The second run."), "{heard}");
}
