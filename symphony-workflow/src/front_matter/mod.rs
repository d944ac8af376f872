//! The YAML at the top of a workflow file (contract 2.1, 2.2): where it ends, and its content as a
//! tree in which every key knows its place in the file.

mod places;
mod tree;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};

pub use places::KeyPlaces;
pub(crate) use tree::{Entry, Map, Node};

use symphony_core::problem::{Position, Problem, ProblemKind};

/// The most YAML that is read. Real files have a few KiB; the parser's own work and memory on
/// hostile input grow with this.
const MAX_YAML_BYTES: usize = 256 * 1024;

/// How far down the line is looked for that should have been the first.
const MAX_LINES_SEARCHED: usize = 50;

/// How many lines of a repeated key a message names.
const MAX_LINES_NAMED: usize = 5;

/// A workflow file, cut in two.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parts<'a> {
    /// The front matter with its opening line, so that its lines are those of the file.
    pub(crate) yaml: Option<&'a str>,
    /// The rest, trimmed.
    pub(crate) body: &'a str,
    /// The line of the file at which the body begins.
    pub(crate) body_line: u32,
    /// Whether the front matter ends at a line of its own.
    pub(crate) is_closed: bool,
}

/// Cuts a file at its `---` lines (contract 2.1).
pub(crate) fn split(text: &str) -> Parts<'_> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.split_inclusive('\n');
    let Some(opening) = lines.next().filter(|line| is_fence(line)) else {
        return Parts::new(text, None, 0);
    };
    let mut end = opening.len();
    for line in lines {
        if is_fence(line) {
            return Parts::new(text, Some(end), end + line.len());
        }
        end += line.len();
    }
    Parts { is_closed: false, ..Parts::new(text, Some(end), end) }
}

/// What to do about a file whose first line opens no front matter, if that seems to be a slip.
pub(crate) fn opening_help(text: &str) -> String {
    let lines = text.lines().take(MAX_LINES_SEARCHED);
    let fence = lines.enumerate().find(|(_, line)| line.trim() == "---");
    match fence {
        Some((index, _)) => format!(
            "line {} has the first `---`: it must be the first line of the file, and nothing else \
             may stand on it",
            index + 1
        ),
        None => "settings stand at the top, between two lines `---`".to_owned(),
    }
}

fn is_fence(line: &str) -> bool {
    let line = line.strip_suffix('\n').unwrap_or(line);
    line.strip_suffix('\r').unwrap_or(line) == "---"
}

impl<'a> Parts<'a> {
    fn new(text: &'a str, yaml_end: Option<usize>, body_start: usize) -> Self {
        let body = text[body_start..].trim_start();
        let before = &text[..text.len() - body.len()];
        Self {
            yaml: yaml_end.map(|end| &text[..end]),
            body: body.trim_end(),
            is_closed: true,
            body_line: u32::try_from(before.matches('\n').count() + 1).unwrap_or(u32::MAX),
        }
    }
}

/// Parses front matter. Nothing at all is an empty map.
///
/// With keys that are set twice the tree is there all the same: what else is wrong with the file is
/// found in the same pass.
///
/// # Errors
/// It is not YAML, or not a map.
pub(crate) fn parse(yaml: &str) -> Result<(Map, Vec<Duplicate>), Problem> {
    if yaml.len() > MAX_YAML_BYTES {
        let message = format!("the front matter is larger than {} KiB", MAX_YAML_BYTES / 1024);
        return Err(Problem::new(ProblemKind::WorkflowParseError, message));
    }
    match yaml::load(yaml).map_err(|problem| with_indent_help(problem, yaml))? {
        Node::Map(map) => {
            let mut duplicates = Duplicates::default();
            duplicates.find(&map, &mut Vec::new());
            Ok((map.merged(), duplicates.found))
        }
        node if node.is_null() => Ok((Map::default(), Vec::new())),
        node => Err(Problem::new(
            ProblemKind::WorkflowFrontMatterNotAMap,
            format!("the front matter must be a map, got {}", node.kind()),
        )),
    }
}

/// What to do about YAML that cannot be read, if the line shows it.
fn with_indent_help(mut problem: Problem, yaml: &str) -> Problem {
    let index = problem.at.map_or(0, |at| at.line.saturating_sub(1));
    let line = yaml.lines().nth(usize::try_from(index).unwrap_or(usize::MAX)).unwrap_or_default();
    let is_space = |char: &char| char.is_whitespace();
    if line.chars().take_while(is_space).any(|char| char == '\t') {
        problem.help = Some("indent with spaces: YAML takes no tabs there".to_owned());
    }
    problem
}

/// A key that a map has more than once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Duplicate {
    /// Its path.
    pub(crate) path: Vec<String>,
    /// Its second place.
    pub(crate) at: Position,
    /// How often it is set, and where.
    pub(crate) message: String,
}

#[derive(Default)]
struct Duplicates {
    found: Vec<Duplicate>,
    /// What is reached through an alias is seen more than once.
    seen: BTreeSet<Position>,
}

impl Duplicates {
    fn find<'a>(&mut self, map: &'a Map, path: &mut Vec<&'a str>) {
        let mut places: BTreeMap<&str, Vec<Position>> = BTreeMap::new();
        for entry in map.entries() {
            places.entry(&entry.key).or_default().push(entry.at);
        }
        for (key, places) in places {
            if let [_, second, ..] = *places
                && self.seen.insert(second)
            {
                let path = path.iter().copied().chain([key]).map(str::to_owned).collect();
                self.found.push(Duplicate { path, at: second, message: repeated(&places) });
            }
        }
        for entry in map.entries() {
            path.push(&entry.key);
            self.find_below(&entry.value, path);
            path.pop();
        }
    }

    fn find_below<'a>(&mut self, node: &'a Node, path: &mut Vec<&'a str>) {
        match node {
            Node::Scalar(_) => {}
            Node::List(items) => items.iter().for_each(|item| self.find_below(item, path)),
            Node::Map(map) => self.find(map, path),
        }
    }
}

fn repeated(places: &[Position]) -> String {
    let lines = places.iter().take(MAX_LINES_NAMED).map(|at| at.line.to_string());
    let lines = lines.collect::<Vec<_>>().join(", ");
    match places {
        [first, second] => {
            format!("the key is set twice, on lines {} and {}", first.line, second.line)
        }
        _ => match places.len().saturating_sub(MAX_LINES_NAMED) {
            0 => format!("the key is set {} times, on lines {lines}", places.len()),
            more => {
                format!("the key is set {} times, on lines {lines} and {more} more", places.len())
            }
        },
    }
}

/// The longest part of a key that a message shows.
const MAX_KEY_BYTES: usize = 60;

/// A YAML path as people read it: `agent.max_turns`.
pub(crate) fn dotted<S: AsRef<str>>(path: &[S]) -> String {
    let parts: Vec<String> = path.iter().map(|key| shown(key.as_ref())).collect();
    parts.join(".")
}

/// A key as a message shows it: quoted where it is not plain, and never long.
fn shown(key: &str) -> String {
    let cut: String = key.chars().take(MAX_KEY_BYTES).collect();
    let dots = if cut.len() < key.len() { "…" } else { "" };
    let printable = !cut.contains('.') && cut.escape_debug().eq(cut.chars());
    let plain = printable && !cut.is_empty() && cut.trim() == cut;
    if plain { format!("{cut}{dots}") } else { format!("{cut:?}{dots}") }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn parts(text: &str) -> (Option<&str>, &str, u32) {
        let parts = split(text);
        (parts.yaml, parts.body, parts.body_line)
    }

    #[test]
    fn a_file_is_cut_at_its_first_two_fences() {
        assert_eq!(
            parts("---\na: 1\n---\n\n hi\n---\nmore\n"),
            (Some("---\na: 1\n"), "hi\n---\nmore", 5)
        );
        assert_eq!(parts("---\na: 1\nb"), (Some("---\na: 1\nb"), "", 3));
        assert_eq!(parts("---"), (Some("---"), "", 1));
        assert_eq!(parts("---\n---"), (Some("---\n"), "", 2));
        assert_eq!(parts(" ---\na\n---\n"), (None, "---\na\n---", 1));
        assert_eq!(parts("----\n"), (None, "----", 1));
        assert_eq!(parts("\n\nhi"), (None, "hi", 3));
        assert_eq!(parts(""), (None, "", 1));
        assert_eq!(
            parts("\u{feff}---\r\na: 1\r\n---\r\nhi\r\n"),
            (Some("---\r\na: 1\r\n"), "hi", 4)
        );
    }

    fn parsed(yaml: &str) -> (Value, Vec<String>) {
        let (map, duplicates) = parse(&format!("---\n{yaml}")).unwrap();
        let problem = |found: &Duplicate| {
            let problem = Problem::new(ProblemKind::WorkflowParseError, found.message.as_str());
            problem.with_path(dotted(&found.path)).with_position(Some(found.at)).to_string()
        };
        let problems = duplicates.iter().map(problem).collect();
        (Value::Object(map.to_json()), problems)
    }

    fn refused(yaml: &str) -> String {
        let problem = parse(&format!("---\n{yaml}")).unwrap_err();
        let column = problem.at.map(|at| format!("column {}, ", at.column));
        format!("{}{problem}", column.unwrap_or_default())
    }

    #[test]
    fn a_tree_has_aliases_merges_tags_and_any_key() {
        let (json, problems) = parsed(
            "base: &base {a: 1, b: 2}\none:\n  <<: *base\n  b: 3\ntwo:\n  b: 4\n  <<: [{c: 5}, *base]\n\
             three: *base\n? [x, y]\n: !odd tagged\n7: ~\ntrue: 0x1F\n1.5: 99999999999999999999\n\
             text: .inf\nodd:\n  <<: scalar\n",
        );
        let expected = serde_json::json!({
            "base": {"a": 1, "b": 2},
            "one": {"b": 3, "a": 1},
            "two": {"b": 4, "c": 5, "a": 1},
            "three": {"a": 1, "b": 2},
            "[\"x\",\"y\"]": "tagged",
            "7": null,
            "true": 31,
            "1.5": "99999999999999999999",
            "text": "inf",
            "odd": {"<<": "scalar"},
        });
        assert_eq!((json, problems), (expected, Vec::new()));
    }

    #[test]
    fn a_scalar_is_what_the_core_schema_says() {
        for (yaml, expected) in [
            ("[~, null, Null, NULL, ]", "[null,null,null,null]"),
            (
                "[true, True, TRUE, false, yes, on, tRue]",
                r#"[true,true,true,false,"yes","on","tRue"]"#,
            ),
            ("[0, -0, +7, -7, 0x1f, -0o17, 0b11, 1_0]", r#"[0,0,7,-7,31,-15,3,"1_0"]"#),
            (
                "[007, -007, +08, 0x, 0x-1, +-1, 00.5]",
                r#"["007","-007","+08","0x","0x-1","+-1",0.5]"#,
            ),
            (
                "[18446744073709551615, -9223372036854775808]",
                "[18446744073709551615,-9223372036854775808]",
            ),
            (
                "[18446744073709551616, -9223372036854775809]",
                r#"["18446744073709551616","-9223372036854775809"]"#,
            ),
            (
                "[1234567890123456789012345678901234567890, -0xffffffffffffffffffffffffffffffffff]",
                r#"["1234567890123456789012345678901234567890","-0xffffffffffffffffffffffffffffffffff"]"#,
            ),
            (
                "[1.0, .5, 1e3, -1.5E-3, 1e999, inf, nan]",
                r#"[1.0,0.5,1000.0,-0.0015,"1e999","inf","nan"]"#,
            ),
            ("[.inf, +.Inf, -.INF, .NaN]", r#"["inf","inf","-inf","NaN"]"#),
            (
                "['1', \"true\", !!str 1, !odd 1, !!int '1', !!bool \"true\"]",
                r#"["1","true","1",1,1,true]"#,
            ),
            ("[2001-01-01, 1:30, a b, '']", r#"["2001-01-01","1:30","a b",""]"#),
        ] {
            let (json, _) = parsed(&format!("a: {yaml}"));
            assert_eq!(json["a"].to_string(), expected, "{yaml}");
        }
    }

    #[test]
    fn every_key_knows_its_place() {
        let (map, _) =
            parse("---\nbase: &b\n  ä: 1\nflow: {ü: 1,  z: {y: 2}}\nalias: *b\n\"k\" : 3\n")
                .unwrap();
        let mut places = Vec::new();
        collect(&map, "", &mut places);
        assert_eq!(
            places.join(" "),
            "base@2:1 base.ä@3:3 flow@4:1 flow.ü@4:8 flow.z@4:15 flow.z.y@4:19 alias@5:1 alias.ä@3:3 k@6:1"
        );
        // A line of the file ends where editors end it.
        let (map, _) = parse("---\r\na: 1\r\nb: {c:\r 1, \u{2028}: 2}\n").unwrap();
        let mut places = Vec::new();
        collect(&map, "", &mut places);
        assert_eq!(places.join(" "), "a@2:1 b@3:1 b.c@3:5 b.\u{2028}@3:12");
    }

    #[test]
    fn a_merged_key_stands_once() {
        let (map, _) = parse("---\na: &a {x: 1, y: 2}\nb:\n  <<: *a\n  x: 3\n").unwrap();
        let mut places = Vec::new();
        collect(&map, "", &mut places);
        assert_eq!(places.join(" "), "a@2:1 a.x@2:8 a.y@2:14 b@3:1 b.x@5:3 b.y@2:14");
    }

    fn collect(map: &Map, path: &str, places: &mut Vec<String>) {
        for entry in map.entries() {
            let at = entry.at;
            let key = &entry.key;
            places.push(format!("{path}{key}@{}:{}", at.line, at.column));
            if let Node::Map(inner) = &entry.value {
                collect(inner, &format!("{path}{key}."), places);
            }
        }
    }

    #[test]
    fn a_repeated_key_is_named_once_with_its_lines() {
        let twice = "line 3: a: the key is set twice, on lines 2 and 3";
        assert_eq!(parsed("a: 1\na: 2\n").1, [twice]);
        assert_eq!(
            parsed("x: &x\n  a: 1\n  a: 2\n  a: 3\ny: *x\nz: [*x]\n").1,
            ["line 4: x.a: the key is set 3 times, on lines 3, 4, 5"]
        );
        assert_eq!(
            parsed(&"a: 1\n".repeat(9)).1,
            ["line 3: a: the key is set 9 times, on lines 2, 3, 4, 5, 6 and 4 more"]
        );
        assert_eq!(
            parsed("? [a]\n: 1\n? [a]\n: 2\n").1,
            ["line 4: \"[\\\"a\\\"]\": the key is set twice, on lines 2 and 4"]
        );
    }

    #[test]
    fn what_is_no_yaml_is_refused_with_its_place() {
        let cases = [
            ("a: b: c", "column 5, line 2: mapping values are not allowed in this context"),
            ("a: [", "column 4, line 2: unclosed bracket '['"),
            ("a: \u{7}", "column 4, line 2: unexpected character: `\\u{7}'"),
            ("a: *b", "column 4, line 2: while parsing node, found unknown anchor"),
            ("a: !!int sesame", "column 10, line 2: a value does not fit its tag"),
            ("--- a", "column 1, line 2: the front matter is more than one YAML document"),
            ("&a [*a, *a]", "column 5, line 2: an alias refers to a value that contains it"),
            ("- a", "the front matter must be a map, got a list"),
            ("a", "the front matter must be a map, got text"),
        ];
        for (yaml, expected) in cases {
            assert_eq!(refused(yaml), expected, "{yaml:?}");
        }
    }

    #[test]
    fn what_grows_without_bound_is_refused() {
        let too_large =
            |at| format!("{at}: the front matter is too large once its aliases are followed");
        let wide = format!("a: &a [{}]\nb: [{}]\n", "x,".repeat(9_000), "*a,".repeat(9_000));
        assert_eq!(refused(&wide), too_large("column 80, line 3"));
        let layers: String = (1..12)
            .map(|n| format!("a{n}: &a{n} [{}]\n", format!("*a{},", n - 1).repeat(9)))
            .collect();
        let layers = format!("a0: &a0 [x]\n{layers}");
        assert_eq!(refused(&layers), too_large("column 9, line 7"));
        // Each level quotes the quotes of the one below.
        let keys = format!("{}a{}", "{".repeat(60), ": 1}".repeat(60));
        assert_eq!(refused(&keys), too_large("column 41, line 2"));
        let deep = "column 132, line 2: the front matter is nested too deeply";
        assert_eq!(refused(&format!("a: {}", "[".repeat(5_000))), deep);
        // The work for each bracket grows with the number of those that are open: it ends early.
        assert_eq!(refused(&format!("a: {}\u{7}", "[".repeat(120_000))), deep);
        let alias = format!("a: &a {}{}\nb: [*a]\n", "[".repeat(126), "]".repeat(126));
        assert!(parse(&alias).is_ok());
        assert_eq!(
            refused(&alias.replace("[*a]", "[[*a]]")),
            "column 6, line 3: the front matter is nested too deeply"
        );
        let long = format!("a: {}\n", "x".repeat(MAX_YAML_BYTES));
        assert_eq!(refused(&long), "the front matter is larger than 256 KiB");
    }

    #[test]
    fn a_key_is_shown_plain_only_where_that_is_safe() {
        assert_eq!(dotted(&["agent", "max_turns"]), "agent.max_turns");
        assert_eq!(dotted(&["by_state", "In Progress"]), "by_state.In Progress");
        assert_eq!(
            dotted(&["a.b", "", "x\u{1b}[0m"]),
            r#""a.b"."".~"#.replace('~', r#""x\u{1b}[0m""#)
        );
        assert_eq!(dotted(&[" a"]), r#"" a""#);
        assert_eq!(dotted(&["k".repeat(100)]), "k".repeat(60) + "…");
    }
}
