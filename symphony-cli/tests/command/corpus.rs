//! `symphony check` on real workflow files: what it says of each can be acted upon.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::program::{Harness, Shown, files};

/// The files, which are not part of the repository.
fn corpus() -> Option<Vec<PathBuf>> {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let folder = above.map(|folder| folder.join("shared/data/workflows")).find(|it| it.is_dir())?;
    let is_workflow = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "md");
    Some(files(&folder).into_iter().filter(is_workflow).collect())
}

/// One error of a file, as it is shown.
struct Refusal<'a> {
    kind: &'a str,
    /// The setting, where there is one.
    path: Option<&'a str>,
    line: Option<&'a str>,
}

/// The errors on the screen. A block of lines for each: a title, the place, help.
fn refusals<'a>(shown: &'a Shown, name: &str) -> Vec<Refusal<'a>> {
    let blocks = shown.stdout.split("\n\n").filter_map(|block| block.strip_prefix("error["));
    let read = |block: &'a str| {
        let (kind, rest) = block.split_once("]: ").unwrap();
        let (title, rest) = rest.split_once('\n').unwrap_or((rest, ""));
        let is_path = |text: &&str| {
            let letter = |c: char| c.is_ascii_lowercase() || matches!(c, '.' | '_');
            !text.is_empty() && text.chars().all(letter)
        };
        let path = title.split_once(": ").map(|(path, _)| path).filter(is_path);
        let place = rest.lines().find_map(|line| line.trim_start().strip_prefix("--> "));
        let line = place.and_then(|place| place.strip_prefix(name)?.strip_prefix(':'));
        Refusal { kind, path, line }
    };
    blocks.map(read).collect()
}

#[test]
fn rule_2_2_every_refusal_of_a_real_file_names_its_line_or_its_setting() {
    let Some(corpus) = corpus() else {
        println!("NOT RUN: ../shared/data/workflows is not there");
        return;
    };
    let harness = Harness::new();
    let (mut accepted, mut only_adapters) = (0, 0);
    let mut kinds: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let shown: Vec<_> = corpus
        .iter()
        .map(|path| path.to_str().unwrap())
        .map(|name| (name, harness.run(&["check", "--offline", name])))
        .collect();
    for (name, shown) in &shown {
        assert_eq!(shown.stderr, "", "{name}: a panic, or something else out of place");
        let refusals = refusals(shown, name);
        let expected = if refusals.is_empty() { 0 } else { 1 };
        assert_eq!(shown.code, Some(expected), "{name}: {shown:#?}");
        let of_adapters =
            |refusal: &Refusal<'_>| matches!(refusal.path, Some("tracker.kind" | "agent.kind"));
        accepted += usize::from(refusals.is_empty());
        only_adapters += usize::from(!refusals.is_empty() && refusals.iter().all(of_adapters));
        let mut in_file: BTreeMap<&str, usize> = BTreeMap::new();
        for refusal in &refusals {
            let is_told = refusal.path.is_some() || refusal.line.is_some();
            assert!(is_told, "{name}: where is this {}?\n{}", refusal.kind, shown.stdout);
            *in_file.entry(refusal.kind).or_default() += 1;
        }
        for (kind, count) in in_file {
            let (files, problems) = kinds.entry(kind).or_default();
            (*files, *problems) = (*files + 1, *problems + count);
        }
    }
    println!("{:4} files", corpus.len());
    println!("{accepted:4} accepted");
    println!("{:4} refused", corpus.len() - accepted);
    println!("{only_adapters:4} of them only because this command lacks their tracker or agent");
    println!("\n{:<32} {:>5} {:>8}", "refused for", "files", "problems");
    for (kind, (files, problems)) in &kinds {
        println!("{kind:<32} {files:>5} {problems:>8}");
    }
    assert!(corpus.len() >= 100, "the corpus is not whole");
}
