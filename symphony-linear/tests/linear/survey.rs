//! What `symphony check` tells of Linear.

use serde_json::json;
use symphony_core::tracker::{Finding, TrackerErrorKind};
use symphony_core::{Label, StateSet};
use symphony_linear_fake::{Fake, Fault, Issue};

use crate::desk::{factory, settings, tracker, tracker_with, try_build};

fn lines(findings: &[Finding]) -> Vec<String> {
    let line = |one: &Finding| {
        format!("{}{}: {}", if one.doubtful { "! " } else { "" }, one.topic, one.text)
    };
    findings.iter().map(line).collect()
}

#[tokio::test]
async fn rule_11_6_a_survey_tells_whose_key_it_is_and_what_waits() {
    let fake = Fake::new();
    let labelled = |n| Issue { labels: vec!["AGENT".to_owned()], ..Issue::new(n) };
    fake.put([
        labelled(1),
        Issue { blocked_by: vec!["id-1".to_owned()], ..labelled(2) },
        Issue::new(3),
        Issue { state: "Done".to_owned(), ..labelled(4) },
    ]);
    let mut settings = settings(&json!({ "team_key": "MT" }));
    settings.tracker.required_labels = vec![Label::new("Agent")];
    let tracker = try_build(&factory(&fake), &settings, &[]).unwrap().tracker;
    let found = tracker.survey().await.unwrap();
    assert_eq!(fake.requests(), 2);
    let lines = lines(&found);
    assert_eq!(
        lines[..6],
        [
            "key of: robot <robot@example.com>, in The Company",
            "project: Symphony",
            "team: Music",
            "states: Triage, Backlog, Todo, In Progress, Human Review, Done, Canceled",
            "label: agent",
            "issues: 1 could start now, of 3 in active states; 1 blocked; 1 without a required label",
        ]
    );
    assert!(lines[6].starts_with("budget: 249"), "{}", lines[6]);
    assert!(lines[6].contains(" of 2500 requests and ") && lines[6].ends_with("for the next hour"));
}

#[tokio::test]
async fn rule_11_6_a_survey_finds_what_does_not_exist() {
    let fake = Fake::new();
    let mut settings = settings(&json!({}));
    settings.tracker.active_states = StateSet::new(["Todo", "In Progess"]);
    settings.tracker.terminal_states = StateSet::new(["done", "Finished"]);
    settings.tracker.required_labels = vec![Label::new("agnet")];
    let tracker = try_build(&factory(&fake), &settings, &[]).unwrap().tracker;
    let doubts: Vec<Finding> =
        tracker.survey().await.unwrap().into_iter().filter(|one| one.doubtful).collect();
    assert_eq!(
        lines(&doubts),
        [
            "! states: no workflow state is called \"In Progess\"",
            "! states: no workflow state is called \"Finished\"",
            "! label: no label is called \"agnet\"",
        ]
    );
    let elsewhere = tracker_with(&fake, &json!({ "project_slug": "gone" }));
    let found = lines(&elsewhere.survey().await.unwrap());
    assert!(found.iter().any(|line| line.starts_with("! scope: tracker.provider.project_slug:")));
}

#[tokio::test]
async fn rule_11_6_a_survey_without_a_network_says_so() {
    let fake = Fake::new();
    fake.fail(Some(Fault::Close));
    let error = tracker(&fake).survey().await.unwrap_err();
    assert_eq!(error.kind, TrackerErrorKind::Request);
    assert!(error.message.starts_with("Linear cannot be reached"), "{error}");
}
