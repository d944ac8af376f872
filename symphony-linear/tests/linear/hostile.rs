//! Hostile issue text is data: on the way in, in the prompt, and in the log (contract 13.1, 15.2).

use proptest::prelude::*;
use serde_json::{Value, json};
use symphony_core::tracker::TrackerExt;
use symphony_workflow::prompt::{Prompt, PromptInput};

use symphony_linear_fake::{Fake, FakeFault, FakeIssue};

use crate::harness::tracker;
use crate::polls::{candidates, poll};

const TEXTS: [&str; 8] = [
    "{{ issue.id }} {% for x in y %} {{ 7 * 7 }} {# note #}",
    "\u{1b}[2J\u{1b}]0;owned\u{7} red",
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "\u{202e}backwards\u{2066} and \u{200f}more\u{200b}",
    "before\u{0}after",
    "../../etc/passwd; $(rm -rf /) `id` \"quoted\" 'x' \\",
    "\"}]},\"errors\":[{\"message\":\"injected\"}]",
    "---\ntracker:\n  kind: evil\n---\n",
];

#[tokio::test]
async fn rule_15_2_hostile_text_reaches_the_prompt_as_it_is() {
    let fake = Fake::new();
    let hostile = |(n, text): (usize, &&str)| FakeIssue {
        title: (*text).to_owned(),
        description: Some(text.repeat(3)),
        labels: vec![(*text).to_owned()],
        ..FakeIssue::new(n)
    };
    fake.put(TEXTS.iter().enumerate().map(hostile));
    let megabyte = format!("{}\u{0}{}", "{{ x }}".repeat(75_000), "é".repeat(262_000));
    fake.put([FakeIssue { description: Some(megabyte.clone()), ..FakeIssue::new(99) }]);
    let list = candidates(tracker(&fake).poll(&poll(50, &[])).await);
    assert_eq!(list.issues.len(), TEXTS.len() + 1);
    let text = "T:{{ issue.title }}\nD:{{ issue.description }}";
    for engine in ["tera", "liquid"] {
        let engine = serde_json::from_value(json!(engine)).unwrap();
        let prompt = Prompt::compile(text, 1, Some(engine)).unwrap();
        for issue in &list.issues {
            let input = PromptInput { issue, attempt: None, turn: 1, max_turns: 20 };
            let rendered = prompt.render(&input).unwrap();
            let description = issue.description.as_deref().unwrap_or_default();
            assert_eq!(rendered, format!("T:{}\nD:{description}", issue.title));
        }
    }
    let long = list.issues.iter().find(|issue| issue.identifier.as_str() == "MT-99").unwrap();
    assert_eq!(long.description.as_deref(), Some(megabyte.as_str()));
}

/// Any record of the sort that Linear might send, and many that it would not.
fn record() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        Just(Value::Null),
        any::<String>().prop_map(Value::from),
        proptest::sample::select(TEXTS.to_vec()).prop_map(Value::from),
        Just(json!(" ")),
    ];
    let time = prop_oneof![
        Just(Value::Null),
        Just(json!("2026-02-18T12:00:00.000Z")),
        any::<String>().prop_map(Value::from),
    ];
    let priority = prop_oneof![
        Just(Value::Null),
        (0..5).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
    ];
    let kind =
        proptest::sample::select(vec!["backlog", "unstarted", "started", "completed", "odd"]);
    let labels = proptest::collection::vec(text.clone(), 0..5);
    let texts = proptest::collection::vec(text, 6);
    (texts, time, priority, kind, labels, any::<[bool; 4]>()).prop_map(
        |(texts, time, priority, kind, labels, [trashed, assigned, related, me])| {
            let names: Vec<Value> = labels.iter().map(|name| json!({ "name": name })).collect();
            let state = json!({ "name": texts[2], "type": kind });
            let other =
                json!({ "id": "x", "identifier": texts[4], "trashed": null, "state": state });
            let relation = json!({ "type": if me { "blocks" } else { "related" }, "issue": other });
            let relations = if related { vec![relation] } else { Vec::new() };
            json!({
                "id": "id-1",
                "identifier": texts[0],
                "title": texts[1],
                "description": texts[3],
                "priority": priority,
                "branchName": texts[4],
                "url": texts[5],
                "createdAt": time,
                "updatedAt": time,
                "archivedAt": null,
                "trashed": trashed,
                "assignee": assigned.then(|| json!({ "id": "u", "email": "e", "isMe": me })),
                "project": { "slugId": "abc123" },
                "team": { "id": "t", "key": "MT" },
                "state": state,
                "labels": { "nodes": names },
                "inverseRelations": { "nodes": relations },
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rule_1_1_any_record_is_an_issue_as_the_model_wants_it_or_unreadable(record in record()) {
        let fake = Fake::new();
        let page = json!({
            "nodes": [record],
            "pageInfo": { "hasNextPage": false, "endCursor": null },
        });
        let body = json!({ "data": { "claimed": page } }).to_string();
        fake.fail(Some(FakeFault::answer(200, &body)));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let answer = runtime.block_on(tracker(&fake).fetch_issues_by_ids(&["id-1".into()])).unwrap();
        let seen = answer.found.len() + answer.unreadable.len();
        if record["trashed"] == json!(true) {
            prop_assert_eq!(seen, 0, "in the trash it is gone");
            return Ok(());
        }
        prop_assert_eq!(seen, 1, "never silently dropped");
        let filled = |value: &Value| value.as_str().is_some_and(|text| !text.trim().is_empty());
        let whole = ["identifier", "title"].iter().all(|key| filled(&record[*key]))
            && filled(&record["state"]["name"]);
        prop_assert_eq!(answer.found.len() == 1, whole);
        let Some(issue) = answer.found.first() else { return Ok(()) };
        prop_assert!(issue.is_well_formed());
        prop_assert_eq!(Some(issue.title.as_str()), record["title"].as_str());
        prop_assert_eq!(Some(issue.state.as_str()), record["state"]["name"].as_str());
        prop_assert!(issue.priority.is_none_or(|rank| (1..=4).contains(&rank)));
        let labels = &issue.labels;
        let is_normal = |label: &symphony_core::Label| {
            !label.is_blank() && label.as_str() == label.as_str().trim().to_lowercase()
        };
        prop_assert!(labels.iter().all(is_normal));
        prop_assert!((1..labels.len()).all(|n| !labels[..n].contains(&labels[n])));
        let description = record["description"].as_str().filter(|text| !text.is_empty());
        prop_assert_eq!(issue.description.as_deref(), description);
    }
}
