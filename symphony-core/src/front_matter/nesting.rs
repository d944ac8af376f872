//! How deeply brackets are nested in YAML, told without parsing it.
//!
//! The parser reads the whole text before it minds the depth, and its work for each bracket grows
//! with the number of those that are open. So a depth that it would refuse is refused before.

/// The parser's own limit: a collection within so many others is refused.
pub(super) const DEEPEST: usize = 128;

/// Where the bracket stands, in bytes, that is open within too many others.
pub(super) fn too_deep(yaml: &str) -> Option<usize> {
    Scan::new(yaml).deeper_than(DEEPEST)
}

/// Looks at one token after the other, as YAML's scanner does: a bracket within a quoted text, a
/// comment, a plain scalar or a block scalar opens nothing.
struct Scan<'a> {
    text: &'a str,
    at: usize,
    open: usize,
    /// Where the line begins.
    line: usize,
    /// The column at which what stands here begins, after the line's start or its last `- `.
    entry: Option<usize>,
    /// The least column of the lines of a value here: further in than the entry it belongs to.
    least: usize,
}

impl<'a> Scan<'a> {
    const fn new(text: &'a str) -> Self {
        Self { text, at: 0, open: 0, line: 0, entry: None, least: 0 }
    }

    fn deeper_than(mut self, limit: usize) -> Option<usize> {
        while let Some(next) = self.rest().chars().next() {
            if !is_space(next) {
                self.entry.get_or_insert(self.at - self.line);
            }
            match next {
                c if is_break(c) => self.end_line(),
                ' ' | '\t' => self.at += 1,
                '#' if self.is_spaced() => self.skip_until(is_break),
                '[' | '{' => {
                    self.open += 1;
                    if self.open > limit {
                        return Some(self.at);
                    }
                    self.at += 1;
                }
                ']' | '}' if self.open > 0 => {
                    self.open -= 1;
                    self.at += 1;
                }
                ',' if self.open > 0 => self.at += 1,
                '"' | '\'' => self.quoted(next),
                '&' | '*' | '!' => self.property(),
                _ if self.is_document() => (self.at, self.least) = (self.at + 3, 0),
                '-' | '?' | ':' if self.is_indicator() => self.indicator(next),
                '|' | '>' if self.open == 0 => self.block_scalar(),
                _ => self.plain(),
            }
        }
        None
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Whether what stands here follows space, or nothing.
    fn is_spaced(&self) -> bool {
        self.text[..self.at].chars().next_back().is_none_or(is_space)
    }

    fn skip_until(&mut self, is_end: impl Fn(char) -> bool) {
        self.at += self.rest().find(is_end).unwrap_or(self.rest().len());
    }

    fn end_line(&mut self) {
        self.at += self.rest().chars().next().map_or(0, char::len_utf8);
        self.line = self.at;
        self.entry = None;
    }

    /// Whether a `-`, `?` or `:` stands alone: within brackets a `:` may also touch what follows.
    fn is_indicator(&self) -> bool {
        let mut chars = self.rest().chars();
        let first = chars.next();
        match chars.next() {
            None => true,
            Some(next) if is_space(next) => true,
            Some(next) => self.open > 0 && first == Some(':') && is_flow(next),
        }
    }

    /// A `-`, `?` or `:` of a block says what the value after it belongs to.
    fn indicator(&mut self, which: char) {
        if self.open == 0 {
            let column = self.at - self.line;
            match which {
                ':' => self.least = self.entry.unwrap_or(column) + 1,
                _ => (self.least, self.entry) = (column + 1, None),
            }
        }
        self.at += 1;
    }

    fn is_document(&self) -> bool {
        let rest = self.rest();
        let is_marked = rest.starts_with("---") || rest.starts_with("...");
        self.at == self.line && is_marked && rest[3..].chars().next().is_none_or(is_space)
    }

    /// An anchor, an alias or a tag.
    fn property(&mut self) {
        self.at += 1;
        let is_inside = self.open > 0;
        self.skip_until(|c| is_space(c) || (is_inside && is_flow(c)));
    }

    fn quoted(&mut self, quote: char) {
        self.at += 1;
        loop {
            self.skip_until(|c| c == quote || (c == '\\' && quote == '"'));
            let rest = self.rest();
            if let Some(escaped) = rest.strip_prefix('\\') {
                self.at += 1 + escaped.chars().next().map_or(0, char::len_utf8);
            } else if quote == '\'' && rest.starts_with("''") {
                self.at += 2;
            } else {
                self.at += usize::from(!rest.is_empty());
                return;
            }
        }
    }

    /// A text without quotes. In a block it goes on in the lines that are further in.
    fn plain(&mut self) {
        let is_inside = self.open > 0;
        let mut before = ' ';
        let mut chars = self.rest().char_indices().peekable();
        let mut end = self.rest().len();
        while let Some((at, c)) = chars.next() {
            let next = chars.peek().map_or(' ', |(_, next)| *next);
            let is_value = c == ':' && (is_space(next) || (is_inside && is_flow(next)));
            let is_comment = c == '#' && is_space(before);
            if is_break(c) || is_value || is_comment || (is_inside && is_flow(c)) {
                end = at;
                break;
            }
            before = c;
        }
        // Nothing else could stand here, so something must be taken.
        self.at += end.max(usize::from(end == 0));
        if !is_inside && self.rest().chars().next().is_some_and(is_break) {
            self.skip_lines(self.least);
        }
    }

    /// A text in lines of its own, further in than what it belongs to.
    fn block_scalar(&mut self) {
        let header = self.rest();
        self.skip_until(is_break);
        let header = &header[..header.len() - self.rest().len()];
        let explicit = header.chars().skip(1).take(2).find_map(|c| c.to_digit(10));
        let explicit = explicit.and_then(|digit| usize::try_from(digit).ok());
        let first = self.lines().find(|line| !is_blank(line)).map_or(0, indent);
        let content = explicit.map_or(first, |digit| self.least.saturating_sub(1) + digit);
        if content >= self.least {
            self.skip_lines(content);
        }
    }

    /// The lines after this one.
    fn lines(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.rest().split_inclusive(is_break).skip(1)
    }

    /// Skips the lines that follow, as long as they are blank or so far in.
    fn skip_lines(&mut self, column: usize) {
        let this = self.rest().find(is_break).unwrap_or(self.rest().len());
        let mut end = this;
        let mut at = this + self.rest()[this..].chars().next().map_or(0, char::len_utf8);
        for line in self.lines() {
            if !is_blank(line) && indent(line) < column {
                break;
            }
            let kept = line.trim_end_matches(is_break).len();
            end = at + kept;
            at += line.len();
        }
        self.at += end;
    }
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

fn is_blank(line: &str) -> bool {
    line.chars().all(is_space)
}

const fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

const fn is_space(c: char) -> bool {
    is_break(c) || matches!(c, ' ' | '\t')
}

const fn is_flow(c: char) -> bool {
    matches!(c, '[' | ']' | '{' | '}' | ',')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::super::tree::{self, Map, Node};
    use super::*;

    /// How deeply brackets are nested, as the scan sees it.
    fn scanned(yaml: &str) -> usize {
        (0..).find(|limit| Scan::new(yaml).deeper_than(*limit).is_none()).unwrap()
    }

    /// How deeply collections are nested, as the parser sees it.
    fn depth(node: &Node) -> usize {
        match node {
            Node::Scalar(_) => 0,
            Node::List(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
            Node::Map(map) => 1 + below(map),
        }
    }

    fn below(map: &Map) -> usize {
        let deepest = |entry: &tree::Entry| depth(&entry.value).max(in_key(&entry.key));
        map.entries().iter().map(deepest).max().unwrap_or(0)
    }

    /// A key may be a collection too: then it is kept as JSON.
    fn in_key(key: &str) -> usize {
        fn of(value: &Value) -> usize {
            match value {
                Value::Array(items) => 1 + items.iter().map(of).max().unwrap_or(0),
                Value::Object(map) => 1 + map.values().map(of).max().unwrap_or(0),
                _ => 0,
            }
        }
        serde_json::from_str(key).map_or(0, |value| of(&value))
    }

    #[test]
    fn rule_2_2_brackets_are_counted_where_they_open_something() {
        for (yaml, expected) in [
            ("a: [[x], {y: [z]}]", 3),
            ("[a, [b]]: {c: d}", 2),
            ("- - [a]\n- ? {b: [c]}", 2),
            ("a: &x [b]\nb: !t {c: *x}\n", 1),
            ("a: [\"[[[\", '[[''[', b # [[[\n]", 1),
            ("a: \"[[ \\\" [[\nmore [[ \"\nb: [c]", 1),
            ("a: x[[[ [[ {{ # [[\nb: it's [[\nc: [d]", 1),
            ("a: text\n  [[[ that\n\n  [[ goes on\nb: [c]", 1),
            ("# [[[\na: # [[[\n  b\n", 0),
            ("a: |\n  [[[ don't\n\n    [[[\nb: [c]\n", 1),
            ("a:\n  b: >-2 # [[\n     [[[\n  c: [[d]]\n", 2),
            ("- a: |\n  b: [[c]]\n", 2),
            ("- a: |\n    [[[\n  b: [[c]]\n", 2),
            ("- |\n [[[\n- [[c]]\n", 2),
            ("a:\n  |\n  [[[\nb: [c]\n", 1),
            ("a: |\r\n  [[[\r\nb: [c]\r\n", 1),
            ("a: # x \u{2028}  [[b]]\n", 2),
            ("a: |\nb: [c]", 1),
            ("a: [b: [c], -, - d, ?e, f#g, 'h': [i]]", 2),
            ("a: {b: \"c\", d: {e: [[f]]}}\n--- [[[[g]]]]", 4),
        ] {
            assert_eq!(scanned(yaml), expected, "{yaml:?}");
        }
    }

    /// Pieces of YAML, so that many rows of them are YAML.
    fn piece() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec![
            "a: ",
            "b:",
            "- ",
            "? ",
            ": ",
            "[",
            "]",
            "{",
            "}",
            ", ",
            ",",
            "[[",
            "]]",
            "x",
            "it's",
            "\"",
            "'",
            "''",
            "\\",
            "\"[\"",
            "'['",
            "#",
            " # [",
            "|",
            ">-",
            "|2",
            "&x ",
            "*x",
            "!t ",
            "\n",
            "\n  ",
            "\n    ",
            "\n\n",
            "\r\n",
            "\t",
            " ",
            "\u{2028}",
            "---",
            "\n- ",
            "\nk: ",
            "\n  k: ",
            "\n  - ",
            "k: |\n    [[\n",
            "k: v [[\n  [[\n",
        ])
    }

    /// A tree in which every collection has brackets.
    fn flow() -> impl Strategy<Value = String> {
        let leaf = prop::sample::select(vec!["x", "\"[\"", "'[''['", "1", "~", "a b"]);
        leaf.prop_map(str::to_owned).prop_recursive(20, 60, 3, |inner| {
            let items = prop::collection::vec(inner, 0..3);
            (items, any::<bool>()).prop_map(|(items, is_map)| {
                let item = |(at, item): (usize, &String)| match is_map {
                    true => format!("k{at}: {item}"),
                    false => item.clone(),
                };
                let items: Vec<String> = items.iter().enumerate().map(item).collect();
                let (open, close) = if is_map { ('{', '}') } else { ('[', ']') };
                format!("{open}{} # [\n {close}", items.join(", "))
            })
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        /// What the parser accepts is never nested more deeply than the parser finds it.
        #[test]
        fn rule_2_2_no_legal_file_is_refused_for_its_brackets(
            pieces in prop::collection::vec(piece(), 0..24)
        ) {
            let yaml = format!("---\n{}", pieces.concat());
            if let Ok(node) = tree::load(&yaml) {
                prop_assert!(scanned(&yaml) <= depth(&node), "{:?}", yaml);
            }
        }

        /// And what has only brackets is counted exactly.
        #[test]
        fn rule_2_2_nested_brackets_are_counted_exactly(flow in flow()) {
            let yaml = format!("---\na: 'it''s [ ' # [\nb: |\n  [[ it's\nc:\n  - k: {flow}\n");
            let node = tree::load(&yaml).map_err(|refusal| refusal.message).unwrap();
            let outside = 3; // the map, the list, and the map in it
            prop_assert_eq!(scanned(&yaml), depth(&node).max(outside) - outside);
        }
    }
}
