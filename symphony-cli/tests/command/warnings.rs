//! What is doubtful in the workflow file in force is on every status (contract 2.3).

use rustix::process::Signal;

use crate::looking::{get_text, harness, served};

#[test]
fn rule_2_3_warnings_are_in_status_state_and_metrics() {
    let harness = harness("server:\n  colour: blue\n");
    let (service, url) = served(&harness);
    let shown = harness.run(&["status", "--url", &url]).stdout;
    let wanted = "\n? warning, workflow file (line 12): server.colour: is unknown and ignored\n";
    assert!(shown.contains(wanted), "{shown}");
    assert_eq!(shown.matches("server.colour").count(), 1, "it is told once: {shown}");
    let state: serde_json::Value = serde_json::from_str(&get_text(&url, "/api/v1/state")).unwrap();
    assert_eq!(state["problems"], serde_json::json!([]));
    assert_eq!(state["warnings"][0]["code"], "unknown_key");
    assert_eq!(state["warnings"][0]["path"], "server.colour");
    let metrics = get_text(&url, "/metrics");
    assert!(metrics.contains("\nsymphony_workflow_warnings 1\n"), "{metrics}");
    service.signal(Signal::TERM);
    assert_eq!(service.end().0, Some(0));
}
