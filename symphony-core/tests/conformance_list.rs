//! Every rule of `docs/design/contract.md` has a test whose name begins with its number, and every such
//! test names a rule that exists. The list of both is written to `target/conformance.md`.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "it reads the repository, and a missing file is a failed test"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// A rule's number, `(4, 5)`; the table of settings is `(3, 0)` and spelled `3`.
type Rule = (u32, u32);

/// The rule of the table of settings.
const SETTINGS: Rule = (3, 0);

#[test]
fn every_rule_is_shown_by_a_test() {
    let shown = tests(&root());
    let bare: Vec<_> =
        rules().into_iter().filter(|rule| !shown.contains_key(rule)).map(spell).collect();
    assert!(bare.is_empty(), "without a test: {}", bare.join(", "));
}

#[test]
fn every_test_names_a_rule_that_exists() {
    let rules = rules();
    let shown = tests(&root());
    let unknown: Vec<_> =
        shown.keys().filter(|rule| !rules.contains(rule)).map(|rule| spell(*rule)).collect();
    assert!(unknown.is_empty(), "not in the contract: {}", unknown.join(", "));
}

#[test]
fn the_list_is_written_for_readers() {
    let list = format!("# Conformance\n\n| rule | tests |\n|---|---|\n{}", table(&tests(&root())));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    std::fs::write(folder.join("conformance.md"), list).unwrap();
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn spell(rule: Rule) -> String {
    match rule {
        SETTINGS => "3".to_owned(),
        (section, number) => format!("{section}.{number}"),
    }
}

/// The number at the start of a text such as `4.5 Requests: ...`.
fn numbered(text: &str) -> Option<Rule> {
    let (section, rest) = text.split_once('.')?;
    let number = rest.split(' ').next()?;
    Some((section.parse().ok()?, number.parse().ok()?))
}

/// All rules of the contract.
fn rules() -> BTreeSet<Rule> {
    let contract = std::fs::read_to_string(root().join("docs/design/contract.md")).unwrap();
    let items = contract.lines().filter_map(|line| line.strip_prefix("- "));
    let rules: BTreeSet<_> = items.filter_map(numbered).chain([SETTINGS]).collect();
    assert!(rules.len() > 60, "the contract reads differently now");
    rules
}

/// The tests of each rule, as `(file, name)`.
fn tests(root: &Path) -> BTreeMap<Rule, BTreeSet<(String, String)>> {
    let mut tests: BTreeMap<Rule, BTreeSet<_>> = BTreeMap::new();
    for file in sources(root) {
        let text = std::fs::read_to_string(&file).unwrap();
        let file = file.strip_prefix(root).unwrap().display().to_string();
        for name in test_names(&text) {
            let rule = rule_of(name).unwrap_or((0, 0));
            let test = (file.clone(), name.to_owned());
            tests.entry(rule).or_default().insert(test);
        }
    }
    tests
}

/// Rust files of the repository.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() && name != "target" && !name.starts_with('.') {
            files.extend(sources(&entry.path()));
        } else if kind.is_file() && name.ends_with(".rs") {
            files.push(entry.path());
        }
    }
    files
}

/// Names of functions that are tests and begin with `rule_`.
fn test_names(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some((_, rest)) = line.split_once("fn ") {
            let name = rest.split(['(', '<']).next().unwrap_or_default();
            if is_test && name.starts_with("rule_") {
                names.push(name);
            }
            is_test = false;
        }
    }
    names
}

/// `rule_4_5_with_no_free_slot...` shows 4.5, `rule_3_...` the table of settings.
fn rule_of(name: &str) -> Option<Rule> {
    let mut parts = name.strip_prefix("rule_")?.split('_');
    let section = parts.next()?.parse().ok()?;
    match parts.next()?.parse() {
        Ok(number) => Some((section, number)),
        Err(_) if section == SETTINGS.0 => Some(SETTINGS),
        Err(_) => None,
    }
}

/// The rows of the list, grouped by file.
fn table(tests: &BTreeMap<Rule, BTreeSet<(String, String)>>) -> String {
    let mut table = String::new();
    for (rule, tests) in tests {
        let mut cells = Vec::new();
        let mut last_file = "";
        for (file, name) in tests {
            if file != last_file {
                cells.push(format!("**{file}**"));
                last_file = file;
            }
            cells.push(format!("`{name}`"));
        }
        writeln!(table, "| {} | {} |", spell(*rule), cells.join("<br>")).unwrap();
    }
    table
}
