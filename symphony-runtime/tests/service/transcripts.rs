//! Contract 13.1: what is said in a run is kept, and an issue tells where.

use symphony_memory::AgentScript;
use symphony_runtime::ServiceEnd;

use crate::harness::{Harness, Live, eventually, within};

#[tokio::test(start_paused = true)]
async fn rule_13_3_an_issue_tells_where_what_was_said_in_its_runs_is_kept() {
    let harness = Harness::new(AgentScript::new().say("hello").set_state("Done"));
    harness.issue("1", "MT/1");
    harness.write("");
    let folder = harness.dir.path().join("runs");
    let live = Live::start(harness.builder().transcripts(&folder)).await;
    within("its end", harness.board.wait_until(|board| board.is_in("1", "Done"))).await;
    let logs = || live.handle.issue(&"MT/1".into()).unwrap().logs.codex_session_logs;
    eventually("its file", || !logs().is_empty()).await;
    let logs = logs();
    assert_eq!((logs.len(), logs[0].label.as_str(), &logs[0].url), (1, "latest", &None));
    let path = std::path::PathBuf::from(&logs[0].path);
    assert!(path.starts_with(&folder) && path.ends_with("1.1.jsonl"), "{path:?}");
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
    let kept = || std::fs::read_to_string(&path).unwrap();
    eventually("its lines", || kept().contains(r#""summary":"hello""#)).await;
    let first = kept().lines().next().unwrap_or_default().to_owned();
    assert!(first.contains(r#""dir":"out","line":{"#), "{first}");
    assert!(first.contains(r#""prompt":"Do A title.""#), "{first}");
}

#[tokio::test(start_paused = true)]
async fn rule_13_3_without_a_folder_nothing_is_kept() {
    let harness = Harness::new(AgentScript::new().set_state("Done"));
    harness.issue("1", "MT-1");
    let live = harness.start().await;
    within("its end", harness.board.wait_until(|board| board.is_in("1", "Done"))).await;
    assert_eq!(live.handle.issue(&"MT-1".into()).unwrap().logs.codex_session_logs, []);
    assert_eq!(live.shut_down().await, ServiceEnd::Drained);
}
