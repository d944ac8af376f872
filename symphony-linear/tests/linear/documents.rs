//! What is sent, and what the manual tells agents to send, against Linear's full schema (11.3).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use apollo_compiler::schema::{ExtendedType, Type};
use apollo_compiler::validation::Valid;
use apollo_compiler::{ExecutableDocument, Schema};
use serde_json::{Value, json};

use symphony_core::settings::AgentProfile;
use symphony_linear::LINEAR_GRAPHQL;
use symphony_linear_fake::{Fake, FakeIssue, SCHEMA};

use crate::harness::tracker;
use crate::polls::poll;
use crate::tool::call;

const MANUAL: &str = include_str!("../../../docs/guide/trackers/linear.md");

/// Linear's schema, where it is at hand.
fn full() -> Option<Valid<Schema>> {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let mut places = above.map(|folder| folder.join("shared/data/linear.graphql"));
    let Some(text) = places.find_map(|path| std::fs::read_to_string(path).ok()) else {
        println!("NOT RUN: ../shared/data/linear.graphql is not there");
        return None;
    };
    Some(Schema::parse_and_validate(text, "linear.graphql").unwrap())
}

/// Every document that the adapter sends.
async fn documents() -> BTreeSet<String> {
    let fake = Fake::new();
    let labels = (0..40).map(|n| format!("label-{n}")).collect();
    fake.put([FakeIssue { labels, ..FakeIssue::new(1) }]);
    let tracker = tracker(&fake);
    tracker.poll(&poll(5, &["id-1"])).await.by_id.unwrap();
    let settings = crate::harness::settings(&json!({}));
    assert!(!tracker.examine(&settings).await.is_empty());
    let documents: BTreeSet<String> = fake.made().into_iter().map(|made| made.query).collect();
    assert_eq!(documents.len(), 3, "a poll, the rest of an issue, a survey");
    documents
}

/// The code blocks of the manual that begin with this word.
fn blocks(kind: &str) -> Vec<String> {
    let fence = format!("```{kind}\n");
    let parts = MANUAL.split(fence.as_str()).skip(1);
    parts.map(|part| part.split("```").next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn rule_11_3_every_operation_is_valid_against_the_full_schema() {
    let documents = documents().await;
    let Some(schema) = full() else { return };
    for text in documents.into_iter().chain(blocks("graphql")) {
        let checked = ExecutableDocument::parse_and_validate(&schema, &text, "query.graphql");
        if let Err(errors) = checked {
            panic!("{text}\n{}", errors.errors);
        }
    }
}

#[test]
fn rule_11_3_the_subset_is_part_of_the_full_schema() {
    let subset = Schema::parse_and_validate(SCHEMA, "subset.graphql").unwrap();
    let Some(full) = full() else { return };
    let own = subset.types.iter().filter(|(_, ty)| !ty.is_built_in());
    let mut compared = 0;
    for (name, ours) in own {
        let theirs = full.types.get(name).unwrap_or_else(|| panic!("there is no type {name}"));
        compared += 1;
        match (ours, theirs) {
            (ExtendedType::Object(ours), ExtendedType::Object(theirs)) => {
                for (field, ours) in &ours.fields {
                    let theirs = &theirs.fields[field];
                    assert!(weaker(&ours.ty, &theirs.ty), "{name}.{field}");
                    for argument in &ours.arguments {
                        let same = theirs.argument_by_name(&argument.name).unwrap();
                        assert_eq!(argument.ty, same.ty, "{name}.{field}({})", argument.name);
                    }
                    let needed = theirs.arguments.iter().filter(|argument| argument.is_required());
                    for argument in needed {
                        assert!(ours.argument_by_name(&argument.name).is_some(), "{name}.{field}");
                    }
                }
            }
            (ExtendedType::InputObject(ours), ExtendedType::InputObject(theirs)) => {
                for (field, ours) in &ours.fields {
                    assert_eq!(ours.ty, theirs.fields[field].ty, "{name}.{field}");
                }
                let needed = theirs.fields.iter().filter(|(_, field)| field.is_required());
                for (field, _) in needed {
                    assert!(ours.fields.contains_key(field), "{name} needs {field}");
                }
            }
            (ExtendedType::Enum(ours), ExtendedType::Enum(theirs)) => {
                assert!(ours.values.keys().all(|value| theirs.values.contains_key(value)));
            }
            (ExtendedType::Scalar(_), ExtendedType::Scalar(_)) => {}
            _ => panic!("{name} is something else"),
        }
    }
    assert!(compared > 30, "{compared}");
}

/// Whether the first type is the second, or promises less.
fn weaker(ours: &Type, theirs: &Type) -> bool {
    match (ours, theirs) {
        (Type::Named(ours), Type::Named(theirs) | Type::NonNullNamed(theirs)) => ours == theirs,
        (Type::NonNullNamed(ours), Type::NonNullNamed(theirs)) => ours == theirs,
        (Type::List(ours), Type::List(theirs) | Type::NonNullList(theirs)) => weaker(ours, theirs),
        (Type::NonNullList(ours), Type::NonNullList(theirs)) => weaker(ours, theirs),
        _ => false,
    }
}

#[tokio::test]
async fn rule_11_3_values_travel_as_variables_and_never_in_the_document() {
    let before = documents().await;
    let fake = Fake::new();
    let odd = "x\") { nodes { id } } #";
    let provider = json!({ "project_slug": odd, "team_key": odd, "assignee": odd });
    let tracker = crate::harness::tracker_with(&fake, &provider);
    let mut poll = poll(5, &[odd]);
    poll.candidates.as_mut().unwrap().states = symphony_core::StateSet::new([odd]);
    let _ = tracker.poll(&poll).await;
    let made = fake.made();
    assert_eq!(made.len(), 1);
    assert!(made.iter().all(|made| before.contains(&made.query) && made.status == 200));
    // And a filter has no null in it: that may match every issue.
    fn has_null(value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::Array(list) => list.iter().any(has_null),
            Value::Object(map) => map.values().any(has_null),
            _ => false,
        }
    }
    let filters = ["candidates", "claimed", "project", "team"];
    assert!(filters.iter().all(|name| !has_null(&made[0].variables[*name])));
}

#[tokio::test]
async fn rule_11_6_the_manuals_examples_for_agents_do_what_they_say() {
    let fake = Fake::new();
    fake.put([FakeIssue::new(1)]);
    let tools = tracker(&fake).tools().unwrap();
    let examples = blocks("graphql");
    let variables: Vec<Value> =
        blocks("json variables").iter().map(|text| serde_json::from_str(text).unwrap()).collect();
    assert_eq!((examples.len(), variables.len()), (4, 4), "each has its variables");
    let values = BTreeMap::from([
        ("{{ issue.id }}", "id-1"),
        ("<the id of the state Done>", "state-MT-done"),
    ]);
    for (query, variables) in examples.iter().zip(variables) {
        let mut text = variables.to_string();
        for (mark, value) in &values {
            text = text.replace(mark, value);
        }
        let variables: Value = serde_json::from_str(&text).unwrap();
        let arguments = json!({ "query": query, "variables": variables });
        let result = call(&*tools, LINEAR_GRAPHQL, arguments).await;
        assert!(result.success, "{query}\n{}", result.text);
    }
    let world = fake.world();
    let issue = world.issue("MT-1").unwrap();
    assert_eq!(issue.state, "Done");
    assert_eq!((issue.comments.len(), issue.attachments.len()), (1, 1));
}

#[test]
fn rule_11_6_the_manuals_workflow_files_can_be_used() {
    use symphony_workflow::{Workflow, WorkflowContext};

    let factory = crate::harness::factory(&Fake::new());
    let names = ["LINEAR_API_KEY", "MY_LINEAR_KEY", "LINEAR_WEBHOOK_SECRET"];
    let values = names.map(|name| (name, "lin_0123456789abcdef"));
    let env: BTreeMap<String, String> =
        values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let files = blocks("yaml workflow");
    assert!(files.len() >= 3);
    for text in files {
        let context = WorkflowContext::new(&env, "/work")
            .state_folder("/state")
            .factory(&factory)
            .agent("codex", &AgentProfile::NONE);
        let workflow = Workflow::parse(&format!("---\n{text}---\n"), &context).unwrap();
        assert!(workflow.warnings.is_empty(), "{text}\n{:?}", workflow.warnings);
        let settings = &workflow.settings;
        let built = crate::harness::try_build(&factory, settings, &values);
        assert!(built.is_ok(), "{text}\n{built:?}");
    }
}
