//! What a prompt can say about an issue: the values, and the two sample issues of the trial.

use serde_json::{Map, Value, json};

use crate::prompt::PromptInput;
use symphony_core::issue::{Blocker, Issue, StateKind};
use symphony_core::time::Wall;

/// The variables of one rendering. Text that is empty counts as null, in both languages.
pub(super) fn variables(input: &PromptInput<'_>) -> Map<String, Value> {
    let mut variables = Map::new();
    variables.insert("issue".to_owned(), issue(input.issue));
    variables.insert("attempt".to_owned(), json!(input.attempt));
    variables.insert("turn".to_owned(), json!(input.turn));
    variables.insert("max_turns".to_owned(), json!(input.max_turns));
    variables
}

/// How much text the variables hold.
pub(super) fn text_bytes(variables: &Map<String, Value>) -> usize {
    let mut bytes = 0;
    let mut open: Vec<&Value> = variables.values().collect();
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) => bytes += text.len(),
            Value::Array(items) => open.extend(items),
            Value::Object(fields) => open.extend(fields.values()),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    bytes
}

fn issue(issue: &Issue) -> Value {
    let labels: Vec<&str> = issue.labels.iter().map(|label| label.as_str()).collect();
    let blockers: Vec<Value> = issue.blocked_by.iter().map(blocker).collect();
    json!({
        "id": issue.id,
        "native_ref": issue.native_ref,
        "identifier": issue.identifier,
        "title": issue.title,
        "description": text(issue.description.as_deref()),
        "priority": issue.priority,
        "state": issue.state,
        "state_kind": issue.state_kind,
        "branch_name": text(issue.branch_name.as_deref()),
        "url": text(issue.url.as_deref()),
        "assignee_id": text(issue.assignee_id.as_deref()),
        "labels": labels,
        "blocked_by": blockers,
        "dispatchable": issue.dispatchable,
        "created_at": time(issue.created_at),
        "updated_at": time(issue.updated_at),
    })
}

fn blocker(blocker: &Blocker) -> Value {
    json!({
        "id": blocker.id,
        "identifier": blocker.identifier,
        "state": blocker.state,
        "state_kind": blocker.state_kind,
    })
}

fn text(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

fn time(at: Option<Wall>) -> Option<String> {
    at.map(|at| at.to_string())
}

/// An issue of the trial on load (contract 15.1).
pub(super) struct Sample {
    issue: Issue,
    attempt: Option<u32>,
}

impl Sample {
    /// Every field is set, and this is not the first attempt.
    pub(super) fn full() -> Option<Self> {
        let mut issue = Self::bare()?;
        issue.description = Some("It does not open.\n\nSteps: push.".to_owned());
        issue.priority = Some(2);
        issue.state_kind = Some(StateKind::Started);
        issue.branch_name = Some("mt-1-fix-the-door".to_owned());
        issue.url = Some("https://tracker.example/MT-1".to_owned());
        issue.assignee_id = Some("user-1".to_owned());
        issue.labels = symphony_core::issue::Label::list(["bug", "ui"]);
        issue.blocked_by = vec![Blocker {
            id: Some("id-2".into()),
            identifier: Some("MT-2".into()),
            state: Some("Done".into()),
            state_kind: Some(StateKind::Completed),
        }];
        issue.created_at = Some(Wall::from_unix_millis(1_767_225_600_000));
        issue.updated_at = Some(Wall::from_unix_millis(1_767_312_000_000));
        issue.native_ref = Some(Map::new());
        Some(Self { issue, attempt: Some(2) })
    }

    /// Only what every issue has, a blocker of which nothing is known, and a first attempt.
    pub(super) fn sparse() -> Option<Self> {
        let mut issue = Self::bare()?;
        issue.blocked_by = vec![Blocker::default()];
        Some(Self { issue, attempt: None })
    }

    fn bare() -> Option<Issue> {
        Issue::new("id-1", "MT-1", "Fix the door", "In Progress").ok()
    }

    pub(super) fn input(&self) -> PromptInput<'_> {
        PromptInput { issue: &self.issue, attempt: self.attempt, turn: 1, max_turns: 20 }
    }
}
