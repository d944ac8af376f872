//! `docs/conformance.md` names the tests of every rule of `docs/contract.md`, and this keeps it
//! true. `UPDATE=1 cargo test -p symphony-core --test conformance_list` writes its first table.

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

const SHOWN: &str = "## Shown by tests\n\n| rule | tests |\n|---|---|\n";
const MISSING: &str = "\n## Not built yet\n";

#[test]
fn every_rule_is_shown_by_a_test_or_listed_as_not_built() {
    let (shown, missing) = (tests(&root()), missing(&list()));
    let bare: Vec<_> = rules()
        .into_iter()
        .filter(|rule| !shown.contains_key(rule) && !missing.contains_key(rule))
        .map(spell)
        .collect();
    assert!(bare.is_empty(), "without a test: {}", bare.join(", "));
}

#[test]
fn every_test_and_every_row_names_a_rule_that_exists() {
    let rules = rules();
    let (shown, missing) = (tests(&root()), missing(&list()));
    let unknown: Vec<_> = shown
        .keys()
        .chain(missing.keys())
        .filter(|rule| !rules.contains(rule))
        .map(|rule| spell(*rule))
        .collect();
    assert!(unknown.is_empty(), "not in the contract: {}", unknown.join(", "));
}

#[test]
fn what_a_test_shows_is_not_wholly_missing() {
    let shown = tests(&root());
    for (rule, what) in missing(&list()) {
        let built = what == "all" && shown.contains_key(&rule);
        assert!(!built, "{} has a test: say what is still missing", spell(rule));
    }
}

#[test]
fn the_list_is_up_to_date() {
    let (list, fresh) = (list(), table(&tests(&root())));
    let (head, rest) = list.split_once(SHOWN).unwrap();
    let (old, tail) = rest.split_once(MISSING).unwrap();
    if std::env::var("UPDATE").is_ok() {
        let text = [head, SHOWN, &fresh, MISSING, tail].concat();
        std::fs::write(root().join("docs/conformance.md"), text).unwrap();
    } else {
        let (old, fresh) = (rows(old), rows(&fresh));
        let stale: Vec<_> = old.symmetric_difference(&fresh).collect();
        assert!(stale.is_empty(), "run it with UPDATE=1: {stale:#?}");
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn list() -> String {
    std::fs::read_to_string(root().join("docs/conformance.md")).unwrap()
}

/// The rule and one test each, so that a stale table says where.
fn rows(table: &str) -> BTreeSet<(&str, &str)> {
    let rows = table.lines().filter_map(|row| row.split_once(" | "));
    rows.flat_map(|(rule, tests)| {
        tests.split("<br>").map(move |test| (rule, test.trim_end_matches(" |")))
    })
    .collect()
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
    let contract = std::fs::read_to_string(root().join("docs/contract.md")).unwrap();
    let items = contract.lines().filter_map(|line| line.strip_prefix("- "));
    let rules: BTreeSet<_> = items.filter_map(numbered).chain([SETTINGS]).collect();
    assert!(rules.len() > 60, "the contract reads differently now");
    rules
}

/// The second table: what is missing of each rule in it.
fn missing(list: &str) -> BTreeMap<Rule, String> {
    let (_, tail) = list.split_once(MISSING).unwrap();
    let rows = tail.lines().filter(|line| line.starts_with("| ")).skip(1);
    rows.map(|row| {
        let cells: Vec<_> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [rule, owner, what] = cells[..] else {
            unreachable!("three cells: {row}");
        };
        assert!(!owner.is_empty() && !what.is_empty(), "{row}");
        (numbered(rule).unwrap(), what.to_owned())
    })
    .collect()
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

/// The first table, grouped by file.
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
