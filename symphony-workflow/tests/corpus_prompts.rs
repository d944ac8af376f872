//! The prompts of workflow files from public repositories (contract 15.1): what the reference
//! renders, we render.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    clippy::unwrap_used,
    reason = "reads the corpus, prints the counts, and fails in helpers"
)]

mod samples;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use samples::{full, input, sparse};
use symphony_core::settings::PromptEngine;
use symphony_workflow::prompt::Prompt;

struct Entry {
    file: String,
    body: String,
    first_line: u32,
    reference_renders: bool,
}

/// `None`, with a word on the output, where the corpus is not there.
fn corpus() -> Option<Vec<Entry>> {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let folder = above.map(|folder| folder.join("shared/data/workflows")).find(|it| it.is_dir());
    let folder = folder.unwrap_or_default();
    let Ok(table) = fs::read_to_string(folder.join("EXPECT.tsv")) else {
        println!("NOT RUN: no corpus at ../shared/data/workflows");
        return None;
    };
    let entries = table.lines().skip(1).map(|line| {
        let columns: Vec<&str> = line.split('\t').collect();
        let text = fs::read_to_string(folder.join(columns[0])).unwrap();
        let (body, first_line) = split(&text);
        Entry {
            file: columns[0].to_owned(),
            body,
            first_line,
            reference_renders: columns[4] == "true",
        }
    });
    Some(entries.collect())
}

/// The trimmed body, and the line on which it begins.
fn split(text: &str) -> (String, u32) {
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let mut lines = text.split_inclusive('\n');
    let mut skipped = 0;
    if text.lines().next() == Some("---") {
        skipped = 1
            + lines
                .by_ref()
                .skip(1)
                .take_while(|line| line.trim_end_matches('\n') != "---")
                .count()
            + 1;
    }
    let rest: String = lines.collect();
    let blank = rest.len() - rest.trim_start().len();
    let line = 1 + skipped + rest[..blank].matches('\n').count();
    (rest.trim().to_owned(), u32::try_from(line).unwrap())
}

#[test]
fn rule_15_1_every_prompt_of_the_corpus_that_the_reference_renders_is_rendered() {
    let Some(corpus) = corpus() else { return };
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut count = |what| *counts.entry(what).or_default() += 1;
    let mut failures = Vec::new();
    for entry in &corpus {
        let compiled = Prompt::compile(&entry.body, entry.first_line, None);
        let rendered = compiled.as_ref().map(|prompt| {
            prompt.render(&input(&full(), Some(2)))?;
            prompt.render(&input(&sparse(), None))
        });
        count(match (entry.reference_renders, &compiled) {
            (true, Ok(prompt)) => match prompt.engine() {
                PromptEngine::Tera => "rendered by both, ours by tera",
                PromptEngine::Liquid => "rendered by both, ours by liquid",
            },
            (true, Err(_)) => "rendered by the reference only",
            (false, Ok(_)) => "rendered by us only",
            (false, Err(_)) => "refused by both",
        });
        match rendered {
            Ok(Ok(_)) => {}
            Ok(Err(error)) if entry.reference_renders => {
                failures.push(format!("{}: {error}", entry.file));
            }
            Err(problems) if entry.reference_renders => {
                failures.push(format!("{}: {}", entry.file, problems[0]));
            }
            Ok(Err(error)) => println!("not rendered: {}: {error}", entry.file),
            Err(problems) => println!("not rendered: {}: {}", entry.file, problems[0]),
        }
    }
    println!("{} files", corpus.len());
    for (what, count) in &counts {
        println!("{count:4} {what}");
    }
    assert_eq!(failures, Vec::<String>::new());
}

/// A file may change its language by one line: that must not change the rest of its text.
#[test]
fn rule_15_1_where_both_languages_render_a_prompt_of_the_corpus_they_agree() {
    let Some(corpus) = corpus() else { return };
    let mut compared = 0;
    for entry in &corpus {
        let [tera, liquid] = [PromptEngine::Tera, PromptEngine::Liquid].map(|engine| {
            let prompt = Prompt::compile(&entry.body, 1, Some(engine)).ok()?;
            Some([
                prompt.render(&input(&full(), Some(2))).ok()?,
                prompt.render(&input(&sparse(), None)).ok()?,
            ])
        });
        if let (Some(tera), Some(liquid)) = (tera, liquid) {
            assert_eq!(tera, liquid, "{}", entry.file);
            compared += 1;
        }
    }
    println!("{compared} prompts rendered by both languages");
    assert!(compared > 90);
}
