//! What `docs/guide/workflow.md` says is true.
#![expect(clippy::disallowed_methods, reason = "the page is read from disk")]

use std::path::Path;

use symphony_workflow::json_schema;

use crate::files::Files;

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/workflow.md");
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The fenced blocks of the page: what stands after the fence, and the content.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let mut blocks = Vec::new();
    let mut rest = page;
    while let Some((info, content, after)) = next_block(rest) {
        blocks.push((info, content));
        rest = after;
    }
    blocks
}

fn next_block(page: &str) -> Option<(&str, &str, &str)> {
    let (_, block) = page.split_once("\n```")?;
    let (info, block) = block.split_once('\n')?;
    let (content, after) = block.split_once("\n```\n")?;
    Some((info, content, after))
}

#[test]
fn rule_2_1_every_example_of_the_page_is_a_workflow_without_warnings() {
    let page = page();
    let examples: Vec<&str> = blocks(&page)
        .iter()
        .filter(|(info, _)| *info == "markdown")
        .map(|(_, example)| *example)
        .collect();
    for example in &examples {
        let workflow = Files::new().parse(example);
        assert_eq!(workflow.warnings, [], "{example}");
    }
    assert_eq!(examples.len(), 3);
}

#[test]
fn rule_2_2_the_refused_example_of_the_page_has_the_problems_it_shows() {
    let page = page();
    let blocks = blocks(&page);
    let [.., ("markdown refused", example), ("text", shown)] = blocks[..] else {
        panic!("the page ends with a refused example and its problems")
    };
    assert_eq!(Files::new().refused(example).join("\n"), shown);
}

#[test]
fn rule_3_the_page_names_every_key() {
    let page = page();
    let mut missing = Vec::new();
    find_missing(&json_schema([&symphony_codex::PROFILE]), "", &page, &mut missing);
    assert_eq!(missing, Vec::<String>::new());
}

fn find_missing(schema: &serde_json::Value, path: &str, page: &str, missing: &mut Vec<String>) {
    let Some(properties) = schema["properties"].as_object() else {
        if !page.contains(&format!("`{path}`")) {
            missing.push(path.to_owned());
        }
        return;
    };
    for (name, schema) in properties {
        let dot = if path.is_empty() { "" } else { "." };
        find_missing(schema, &format!("{path}{dot}{name}"), page, missing);
    }
}
