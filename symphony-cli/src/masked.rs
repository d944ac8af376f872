//! A line of a workflow file's front matter as a finding shows it: without values of unknown keys,
//! and of keys that are called like a secret (contract 2.2).

use std::ops::Range;

use symphony_core::redact::is_secret_name;

/// What stands in the place of a value.
const MASK: &str = "***";

/// Which values of a line are hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hide {
    /// Those of keys that are called like a secret.
    Secrets,
    /// Those, and what follows the key that is marked.
    AndTheMarked,
}

/// The line without hidden values, and the marked bytes where they are now.
pub(crate) fn masked(
    before: &str,
    line: &str,
    marked: Range<usize>,
    hide: Hide,
) -> (String, Range<usize>) {
    let mut shown = String::new();
    let (mut copied, mut start, mut end) = (0, marked.start, marked.end);
    for hidden in hidden(before, line, &marked, hide) {
        if hidden.start < copied {
            continue; // within the last
        }
        shown.push_str(&line[copied..hidden.start]);
        let at = shown.len();
        shown.push_str(MASK);
        let moved = |place: usize| {
            if place >= hidden.end { shown.len() + place - hidden.end } else { place.min(at) }
        };
        // Both count from the end of what is hidden, or from its beginning.
        if marked.start >= hidden.start {
            start = moved(marked.start);
        }
        if marked.end > hidden.start {
            end = moved(marked.end);
        }
        copied = hidden.end;
    }
    shown.push_str(&line[copied..]);
    let end = end.clamp(start, shown.len());
    (shown, start.min(end)..end)
}

/// The bytes that are hidden, in their order.
fn hidden(before: &str, line: &str, marked: &Range<usize>, hide: Hide) -> Vec<Range<usize>> {
    let whole = line.len() - line.trim_start().len()..line.trim_end().len();
    if is_within_secret(before, line) {
        return vec![whole];
    }
    let mut found = Vec::new();
    let mut told = 0..0;
    for (at, separator) in line.match_indices([':', '=']) {
        let value = at + 1..whole.end;
        if hide == Hide::AndTheMarked && at >= marked.start {
            found.push(trimmed(line, value));
            break;
        }
        let (name, value) = (name_before(&line[..at]), value_at(line, value, separator));
        let holds_the_marked = value.start <= marked.start && marked.end <= value.end;
        let is_the_marked = marked.contains(&(at - name.len()));
        if is_the_marked {
            told = value.clone(); // what is wrong is shown, unless it is a secret
        }
        // Another key of a list in braces may be unknown, and its value anything.
        let is_neighbour =
            line[..at].contains('{') && !holds_the_marked && !is_the_marked && !told.contains(&at);
        if is_neighbour || is_secret_name(name) {
            found.push(value);
        }
    }
    found.retain(|range: &Range<usize>| !range.is_empty());
    found
}

/// Whether the line goes on with the value of a secret: the last line further out has its key.
fn is_within_secret(before: &str, line: &str) -> bool {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut outer = before.lines().rev().filter(|line| !line.trim().is_empty());
    let outer = outer.find(|outer| indent(outer) < indent(line));
    let key = outer.and_then(|outer| outer.split_once(':')).map(|(key, _)| key);
    key.is_some_and(|key| is_secret_name(name_before(key)))
}

/// The name that a text ends with.
fn name_before(text: &str) -> &str {
    let text = text.trim_end().trim_end_matches(['"', '\'']);
    let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    &text[text.trim_end_matches(is_of_name).len()..]
}

fn trimmed(line: &str, range: Range<usize>) -> Range<usize> {
    let text = &line[range.clone()];
    range.start + text.len() - text.trim_start().len()..range.end
}

/// The value that begins here: a quoted text, what ends with a comma or a bracket of its line, a
/// word of a command, or all the rest.
fn value_at(line: &str, rest: Range<usize>, separator: &str) -> Range<usize> {
    let rest = trimmed(line, rest);
    let text = &line[rest.clone()];
    let is_flow = line[..rest.start].contains(['{', '[']);
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''));
    let length = match quote {
        Some(quote) => text[1..].find(quote).map(|at| at + 2),
        None if separator == "=" => text.find(char::is_whitespace),
        None if is_flow && !text.starts_with(['{', '[']) => text.find([',', '}', ']']),
        None => None,
    };
    rest.start..length.map_or(rest.end, |length| rest.start + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line with the marked word in brackets, as it is shown.
    fn shown(before: &str, line: &str, word: &str, hide: Hide) -> String {
        let start = line.find(word).unwrap();
        let (text, marked) = masked(before, line, start..start + word.len(), hide);
        format!("{}<{}>{}", &text[..marked.start], &text[marked.clone()], &text[marked.end..])
    }

    #[test]
    fn rule_2_2_no_finding_shows_the_value_of_a_secret() {
        let secrets = |line, word| shown("", line, word, Hide::Secrets);
        assert_eq!(secrets("  api_key: lin_x", "api_key"), "  <api_key>: ***");
        assert_eq!(secrets("  apiKey: 'lin, x' # y", "apiKey"), "  <apiKey>: *** # y");
        assert_eq!(
            secrets("p: {api_key: lin_x, \"token\": \"a b\", wrong: 1}", "wrong"),
            "p: {api_key: ***, \"token\": ***, <wrong>: 1}"
        );
        assert_eq!(secrets("a: {token: [x, y], b: 1}", "b"), "a: {token: <>***");
        assert_eq!(secrets("api_key: lin_x: y", "lin_x"), "api_key: <>***");
        assert_eq!(
            secrets("command: API_KEY=sk-1 codex", "command"),
            "<command>: API_KEY=*** codex"
        );
        assert_eq!(secrets("password: \"lin_x", "\"lin_x"), "password: <***>");
        assert_eq!(secrets("max_turns: 0", "max_turns"), "<max_turns>: 0");
        assert_eq!(
            secrets("t: {kind: x, pat: lin_y, endpoint: http://z, n: 5}", "endpoint"),
            "t: {kind: ***, pat: ***, <endpoint>: http://z, n: ***}"
        );
        assert_eq!(secrets("token:", "token"), "<token>:");
    }

    #[test]
    fn rule_2_2_no_finding_shows_the_value_of_an_unknown_key() {
        let unknown = |line, word| shown("", line, word, Hide::AndTheMarked);
        assert_eq!(unknown("  colour: {a: lin_x}", "colour"), "  <colour>: ***");
        assert_eq!(unknown("{api_key: x, colour: b}", "colour"), "{api_key: ***, <colour>: ***");
        assert_eq!(unknown("{pat: lin_x, colour: b}", "colour"), "{pat: ***, <colour>: ***");
        assert_eq!(unknown("colour=lin_x", "colour=lin_x"), "<colour=***>");
        assert_eq!(unknown("colour", "colour"), "<colour>");
    }

    #[test]
    fn rule_2_2_no_finding_shows_a_further_line_of_a_secret() {
        for before in ["  api_key: |\n", "  api_key:\n\n", "  \"api_key\": >-\n    first\n"] {
            assert_eq!(shown(before, "    lin_x: y", "lin_x", Hide::Secrets), "    <>***");
        }
        let line = shown("  api_key: x\n", "  colour: y", "colour", Hide::Secrets);
        assert_eq!(line, "  <colour>: y");
    }
}
