//! The examples in `docs/guide/prompts.md` say what the code does.
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "reads the document")]

mod samples;

use std::fs;
use std::path::Path;

use samples::{full, input, sparse};
use symphony_core::settings::PromptEngine;
use symphony_workflow::prompt::Prompt;

/// Fenced blocks: the words behind the fence, and the text.
fn blocks(document: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in document.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(words), None) => open = Some((words.to_owned(), String::new())),
            (None, Some((_, text))) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

fn outcome(words: &str, body: &str) -> String {
    let engine = match words.split(' ').next() {
        Some("tera") => PromptEngine::Tera,
        _ => PromptEngine::Liquid,
    };
    match Prompt::compile(body, 1, None) {
        Ok(prompt) => {
            assert_eq!(prompt.engine(), engine, "{body}");
            let rendered = if words.ends_with("sparse") {
                prompt.render(&input(&sparse(), None))
            } else {
                prompt.render(&input(&full(), Some(2)))
            };
            rendered.unwrap()
        }
        Err(problems) => {
            assert!(words.ends_with("error"), "{problems:?}");
            let lines = problems.iter().map(|problem| match &problem.help {
                Some(help) => format!("{problem} ({help})"),
                None => problem.to_string(),
            });
            lines.collect::<Vec<_>>().join("\n")
        }
    }
}

#[test]
fn every_example_in_the_document_is_true() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/prompts.md");
    let blocks = blocks(&fs::read_to_string(path).unwrap());
    assert_eq!(blocks.len(), 12);
    for pair in blocks.chunks(2) {
        let [(words, body), (kind, expected)] = pair else {
            unreachable!("an even number of blocks");
        };
        assert_eq!(kind, "text");
        assert_eq!(outcome(words, body.trim()), expected.trim_end(), "{body}");
    }
}

#[test]
fn every_filter_that_the_document_names_exists() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/prompts.md");
    let document = fs::read_to_string(path).unwrap();
    let paragraphs = document.split("\n\n").map(|lines| lines.replace('\n', " "));
    let named =
        paragraphs.filter_map(|text| Some(text.split_once("and these filters:")?.1.to_owned()));
    let named = named.collect::<String>();
    assert!(named.contains("`abs`"), "the page reads differently now");
    for name in named.split('`').skip(1).step_by(2) {
        let tried = ["", ": 1", ": 1, 1"].iter().any(|args| {
            let body = format!("{{{{ issue.priority | {name}{args} }}}}");
            let compiled = Prompt::compile(&body, 1, Some(PromptEngine::Liquid));
            compiled.is_ok_and(|prompt| prompt.render(&input(&full(), None)).is_ok())
        });
        assert!(tried, "{name}");
    }
}
