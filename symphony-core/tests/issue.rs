//! The issue model (contract 1.1 to 1.3).

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;
use symphony_core::{Blocker, Issue, Label, MalformedIssue, StateKind, StateName, StateSet};

fn labels(texts: &[&str]) -> Vec<String> {
    let labels = Label::list(texts);
    labels.iter().map(|label| label.as_str().to_owned()).collect()
}

#[test]
fn rule_1_1_labels_are_trimmed_lowercased_deduplicated_and_never_blank() {
    let found = labels(&[" Bug", "bug", "", "  ", "Needs Review", "BUG\t", "\u{c9}t\u{e9}"]);
    assert_eq!(found, ["bug", "needs review", "\u{e9}t\u{e9}"]);
    assert!(Label::new(" \t").is_blank());
}

#[test]
fn rule_1_1_an_issue_survives_being_written_and_read() {
    let mut issue = Issue::new("id-1", "MT-1", "Mend the gate", "In Progress").unwrap();
    issue.state_kind = Some(StateKind::Started);
    issue.priority = Some(2);
    issue.labels = Label::list(["Bug"]);
    issue.dispatchable = false;
    issue.blocked_by = vec![Blocker {
        identifier: Some("MT-0".into()),
        state: Some("Todo".into()),
        ..Blocker::default()
    }];
    issue.native_ref = json!({ "team": "MT" }).as_object().cloned();
    let json = serde_json::to_string(&issue).unwrap();
    assert_eq!(serde_json::from_str::<Issue>(&json).unwrap(), issue);
}

#[test]
fn rule_1_1_what_is_read_from_text_is_normalised_too() {
    let read: Issue = serde_json::from_value(json!({
        "id": "id-1",
        "identifier": "MT-1",
        "title": "Mend the gate",
        "state": "Todo",
        "labels": ["Bug", " bug ", ""],
    }))
    .unwrap();
    let mut expected = Issue::new("id-1", "MT-1", "Mend the gate", "Todo").unwrap();
    expected.labels = Label::list(["bug"]);
    assert_eq!(read, expected);
    assert!(read.dispatchable, "unless the adapter says no");
}

#[test]
fn rule_1_1_only_completed_and_cancelled_states_are_over() {
    use StateKind::{Backlog, Cancelled, Completed, Started, Unstarted};
    let over = [Backlog, Unstarted, Started, Completed, Cancelled].map(StateKind::is_over);
    assert_eq!(over, [false, false, false, true, true]);
}

#[test]
fn rule_1_2_states_compare_trimmed_and_lowercased_and_keep_their_spelling() {
    let state = StateName::from("  In PROGRESS ");
    assert_eq!(state, StateName::from("in progress"));
    assert_eq!((state.as_str(), state.key()), ("  In PROGRESS ", "in progress"));
    assert_eq!(state.to_string(), "  In PROGRESS ");
    let json = serde_json::to_string(&state).unwrap();
    assert_eq!(json, r#""  In PROGRESS ""#);
    let read: StateName = serde_json::from_str(&json).unwrap();
    assert_eq!(read.as_str(), state.as_str());
}

#[test]
fn rule_1_2_a_set_of_states_has_no_blanks_and_no_duplicates() {
    let set = StateSet::new(["Todo", " todo", "", "Done"]);
    let names: Vec<_> = set.names().iter().map(StateName::as_str).collect();
    assert_eq!(names, ["Todo", "Done"]);
    assert!(set.contains(&"TODO".into()) && !set.contains(&"Doing".into()));
    assert!(StateSet::new([" "]).is_empty());
}

#[test]
fn rule_1_3_a_record_without_what_it_must_have_says_what_is_missing() {
    let error = Issue::new("id-1", " ", "", "Todo").unwrap_err();
    let expected = MalformedIssue { id: "id-1".into(), missing: vec!["identifier", "title"] };
    assert_eq!(error, expected);
    let message = r#"issue record "id-1" has no identifier, title"#;
    assert_eq!(error.to_string(), message);
    assert_eq!(Issue::new("", "", "", "").unwrap_err().missing.len(), 4);
}

proptest! {
    #[test]
    fn rule_1_2_equality_order_and_key_of_states_agree(one in ".{0,4}", two in ".{0,4}") {
        let (a, b) = (StateName::from(one.as_str()), StateName::from(two.as_str()));
        prop_assert_eq!(a == b, a.key() == b.key());
        prop_assert_eq!(a.cmp(&b), a.key().cmp(b.key()));
        prop_assert_eq!(a.is_blank(), one.trim().is_empty());
        let again = StateName::from(a.key());
        prop_assert_eq!(again.key(), a.key(), "folding twice is folding once");
    }

    #[test]
    fn rule_1_1_labels_are_a_set_of_folded_texts(texts in proptest::collection::vec(" ?[aAbB\u{130}]{0,2} ?", 0..8)) {
        let found = Label::list(&texts);
        let folded = texts.iter().map(|text| text.trim().to_lowercase());
        let expected: BTreeSet<_> = folded.filter(|text| !text.is_empty()).collect();
        prop_assert_eq!(found.len(), expected.len());
        prop_assert!(found.iter().all(|label| expected.contains(label.as_str())));
    }

    #[test]
    fn rule_1_3_an_issue_is_made_exactly_when_it_is_well_formed(
        id in " ?a?", identifier in "\t?b?", title in " ?c?", state in " ?d?"
    ) {
        let filled = [&id, &identifier, &title, &state].iter().all(|text| !text.trim().is_empty());
        let issue = Issue::new(&id, &identifier, &title, &state);
        prop_assert_eq!(issue.is_ok(), filled);
        prop_assert!(issue.is_ok_and(|issue| issue.is_well_formed()) == filled);
    }
}
