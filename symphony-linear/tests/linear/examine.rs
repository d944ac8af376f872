//! What `symphony check` tells of Linear.

use serde_json::json;
use symphony_core::finding::{Finding, Severity};
use symphony_core::{Label, Settings, StateSet};
use symphony_linear_fake::{Fake, FakeFault, FakeIssue};

use crate::harness::{factory, settings, try_build};

async fn examine(fake: &Fake, settings: &Settings) -> Vec<Finding> {
    let tracker = try_build(&factory(fake), settings, &[]).unwrap().tracker;
    tracker.examine(settings).await
}

fn lines(findings: &[Finding]) -> Vec<String> {
    let line = |one: &Finding| format!("{:?} {}: {}", one.severity, one.subject, one.text);
    findings.iter().map(line).collect()
}

#[tokio::test]
async fn rule_11_6_an_examination_tells_whose_key_it_is_and_what_waits() {
    let fake = Fake::new();
    let labelled = |n| FakeIssue { labels: vec!["AGENT".to_owned()], ..FakeIssue::new(n) };
    fake.put([
        labelled(1),
        FakeIssue { blocked_by: vec!["id-1".to_owned()], ..labelled(2) },
        FakeIssue::new(3),
        FakeIssue { state: "Done".to_owned(), ..labelled(4) },
    ]);
    let mut settings = settings(&json!({ "team_key": "MT" }));
    settings.tracker.required_labels = vec![Label::new("Agent")];
    let lines = lines(&examine(&fake, &settings).await);
    assert_eq!(fake.requests(), 2);
    assert_eq!(
        lines[..6],
        [
            "Fine key of: robot <robot@example.com>, in The Company",
            "Fine label: agent",
            "Fine project: Symphony",
            "Fine team: Music",
            "Fine states: Triage, Backlog, Todo, In Progress, Human Review, Done, Canceled",
            "Fine issues: 1 could start now, of 3 in active states; 1 blocked; 1 without a \
             required label",
        ]
    );
    assert!(lines[6].starts_with("Fine left: 249"), "{}", lines[6]);
    assert!(lines[6].contains(" of 2500 requests and ") && lines[6].ends_with("in this hour"));
}

#[tokio::test]
async fn rule_11_6_an_examination_finds_what_does_not_exist() {
    let fake = Fake::new();
    let mut wrong = settings(&json!({}));
    wrong.tracker.active_states = StateSet::new(["Todo", "In Progess"]);
    wrong.tracker.terminal_states = StateSet::new(["done", "Finished"]);
    wrong.tracker.required_labels = vec![Label::new("agnet")];
    let mut found = examine(&fake, &wrong).await;
    found.retain(|finding| finding.severity != Severity::Fine);
    assert_eq!(
        lines(&found),
        [
            "Doubtful label: no label is called \"agnet\"",
            "Doubtful states: no workflow state is called \"In Progess\"",
            "Doubtful states: no workflow state is called \"Finished\"",
        ]
    );
    let found = examine(&fake, &settings(&json!({ "project_slug": "gone" }))).await;
    let last = found.last().unwrap();
    assert_eq!((last.severity, last.subject.as_str()), (Severity::Wrong, "scope"));
}

#[tokio::test]
async fn rule_11_6_an_examination_without_a_network_or_with_a_wrong_key_says_so() {
    let fake = Fake::new();
    fake.fail(Some(FakeFault::Close));
    let found = lines(&examine(&fake, &settings(&json!({}))).await);
    assert_eq!(found, ["Doubtful linear: Linear cannot be reached: connection closed"]);
    fake.fail(Some(FakeFault::error(401, "AUTHENTICATION_ERROR", "no")));
    let found = lines(&examine(&fake, &settings(&json!({}))).await);
    assert!(found[0].starts_with("Wrong key: Linear refuses the API key"), "{found:?}");
}
