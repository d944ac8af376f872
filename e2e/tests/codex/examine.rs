//! What `symphony check` learns from Codex, without a model.

use std::sync::Arc;

use serde_json::json;
use symphony_codex::CodexAgent;
use symphony_core::agent::AgentBackend as _;
use symphony_core::finding::{Finding, Severity};
use symphony_core::{Settings, StateSet};
use symphony_e2e::codex;
use symphony_host::LocalHost;

async fn examine(change: impl FnOnce(&mut Settings)) -> Vec<Finding> {
    let home = tempfile::Builder::new().prefix("codex-").tempdir().unwrap();
    let (active, over) = (StateSet::new(["Todo"]), StateSet::new(["Done"]));
    let mut settings = Settings::new("memory", active, over, home.path().to_owned());
    settings.agent.common.command =
        Some(format!("CODEX_HOME='{}' '{}' app-server", home.path().display(), codex().display()));
    change(&mut settings);
    let agent = CodexAgent::new(Arc::new(LocalHost::without_helper()));
    let mut findings = agent.examine(&Arc::new(settings), &Arc::from([])).await;
    assert_eq!(findings.remove(0).subject, "shell");
    assert!(!home.path().join("sessions").exists(), "no conversation was begun");
    findings
}

#[tokio::test]
async fn rule_10_3_an_installed_codex_that_knows_the_policies_is_fine() {
    // Two at once do not end each other's.
    let (one, other) = tokio::join!(examine(|_| {}), examine(|_| {}));
    for findings in [one, other] {
        assert_eq!(findings.last(), Some(&Finding::fine("codex", "version 0.166.0")));
    }
}

#[tokio::test]
async fn rule_10_3_a_policy_that_codex_does_not_know_is_named_with_those_it_knows() {
    let findings = examine(|settings| {
        settings.agent.section.set("approval_policy", json!("sometimes"));
        settings.agent.section.set("thread_sandbox", json!("workspaceWrite"));
        settings.agent.section.set("turn_sandbox_policy", json!({"type": "nonsense"}));
    })
    .await;
    let wrong: Vec<_> =
        findings.iter().filter(|finding| finding.severity == Severity::Wrong).collect();
    let expected = [
        ("codex.approval_policy", "`sometimes`", "`never`"),
        ("codex.thread_sandbox", "`workspaceWrite`", "`workspace-write`"),
        ("codex.turn_sandbox_policy", "`nonsense`", "`readOnly`"),
    ];
    assert_eq!(wrong.len(), 3, "{findings:?}");
    for (finding, (setting, given, known)) in wrong.iter().zip(expected) {
        assert!(finding.text.starts_with(setting), "{finding:?}");
        assert!(finding.text.contains(given) && finding.text.contains(known), "{finding:?}");
    }
}

#[tokio::test]
async fn rule_10_10_a_command_that_is_not_there_or_no_codex_is_wrong() {
    for (command, said) in [("no-such-codex app-server", "was not found"), ("true", "ended with")] {
        let findings =
            examine(|settings| settings.agent.common.command = Some(command.to_owned())).await;
        let finding = findings.last().unwrap();
        assert_eq!((finding.severity, finding.subject.as_str()), (Severity::Wrong, "codex"));
        assert!(finding.text.contains(said), "{finding:?}");
    }
}
