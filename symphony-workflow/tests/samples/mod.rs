//! Two issues for prompts: one with everything, one with nothing but what every issue has.

use symphony_core::time::Wall;
use symphony_core::{Blocker, Issue, Label, StateKind};
use symphony_workflow::prompt::PromptInput;

/// An issue with every field set.
pub(crate) fn full() -> Issue {
    let mut issue = sparse();
    issue.description = Some("It sticks.".to_owned());
    issue.priority = Some(2);
    issue.state_kind = Some(StateKind::Unstarted);
    issue.branch_name = Some("mt-7-door".to_owned());
    issue.url = Some("https://tracker.example/MT-7".to_owned());
    issue.assignee_id = Some("user-9".to_owned());
    issue.labels = Label::list(["Bug", "UI"]);
    issue.blocked_by = vec![Blocker {
        id: Some("id-3".into()),
        identifier: Some("MT-3".into()),
        state: Some("Done".into()),
        state_kind: Some(StateKind::Completed),
    }];
    issue.created_at = Wall::parse("2026-01-02T03:04:05Z");
    issue.updated_at = Wall::parse("2026-02-03T04:05:06Z");
    issue.native_ref = serde_json::json!({"number": 7}).as_object().cloned();
    issue
}

/// An issue with only what every issue has.
pub(crate) fn sparse() -> Issue {
    Issue::new("id-7", "MT-7", "Fix the door", "Todo").unwrap()
}

/// The first turn of twenty.
pub(crate) fn input(issue: &Issue, attempt: Option<u32>) -> PromptInput<'_> {
    PromptInput { issue, attempt, turn: 1, max_turns: 20 }
}
