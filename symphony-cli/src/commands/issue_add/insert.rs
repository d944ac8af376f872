//! One more item at the end of a YAML list, with every other byte of the text as it is.

use serde_yaml::Mapping;

/// Where a list stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListAt {
    /// Below a key, on this line, counted from zero.
    Key(usize),
    /// The file is the list.
    Top,
}

/// Adds an item. `None` where the list is written in a way that has no lines of its own for items.
/// Whether the text then means what was meant is for the caller to check.
pub(super) fn append(text: &str, list: ListAt, item: &Mapping) -> Option<String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let (first, key) = match list {
        ListAt::Key(at) => (at + 1, Some(*lines.get(at)?)),
        ListAt::Top => (0, None),
    };
    let after_key = key.map(|key| key.split_once(':').map_or("", |(_, rest)| rest));
    let (value, remark) = after_key.map_or(("", ""), |rest| match rest.find('#') {
        Some(at) => (rest[..at].trim(), rest[at..].trim_end()),
        None => (rest.trim(), ""),
    });
    let is_empty = matches!(value, "[]" | "null" | "~");
    if !value.is_empty() && !is_empty {
        return None;
    }
    let key_indent = key.map(indent);
    let items = if is_empty { None } else { ListItems::find(&lines, first, key_indent) };
    let (at, indent, is_spaced) = match items {
        Some(items) => (items.end, items.indent, items.is_spaced),
        None => (first, key_indent? + 2, false),
    };
    let mut new: String = lines[..at].concat();
    if let (true, ListAt::Key(at)) = (is_empty, list) {
        let (name, _) = key?.split_once(':')?;
        let remark = if remark.is_empty() { String::new() } else { format!("   {remark}") };
        new = format!("{}{name}:{remark}{line_end}", lines[..at].concat());
    }
    if !new.is_empty() && !new.ends_with('\n') {
        new.push_str(line_end);
    }
    if is_spaced {
        new.push_str(line_end);
    }
    for line in serde_yaml::to_string(&[item]).ok()?.lines() {
        if !line.is_empty() {
            new.push_str(&" ".repeat(indent));
            new.push_str(line);
        }
        new.push_str(line_end);
    }
    new.push_str(&lines[at..].concat());
    Some(new)
}

/// The items of a block list.
struct ListItems {
    indent: usize,
    /// The line after the last item.
    end: usize,
    /// Whether an empty line stands between the last two.
    is_spaced: bool,
}

impl ListItems {
    fn find(lines: &[&str], first: usize, key_indent: Option<usize>) -> Option<Self> {
        let is_mark = |line: &str| matches!(line.trim_end(), "---" | "...");
        let is_content = |line: &str| !is_remark(line) && !is_mark(line);
        let begin = first + lines.get(first..)?.iter().position(|line| is_content(line))?;
        let own = indent(lines[begin]);
        if !is_item(lines[begin]) || key_indent.is_some_and(|key| own < key) {
            return None;
        }
        let mut found = Self { indent: own, end: begin, is_spaced: false };
        for (at, line) in lines.iter().enumerate().skip(begin) {
            let deeper = indent(line) > own && !line.trim().is_empty();
            if is_item(line) && indent(line) == own {
                found.is_spaced = at > begin && lines[at - 1].trim().is_empty();
                found.end = at + 1;
            } else if deeper {
                // A remark there belongs to its item, and may be a line of a text.
                found.end = at + 1;
            } else if !is_remark(line) {
                break;
            }
        }
        Some(found)
    }
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

fn is_item(line: &str) -> bool {
    let line = line.trim();
    line == "-" || line.starts_with("- ")
}

fn is_remark(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(text: &str) -> Option<String> {
        let key = text.lines().position(|line| line.trim_start().starts_with("issues:"));
        let item = Mapping::from_iter([
            ("identifier".into(), "N".into()),
            ("title".into(), "x: y".into()),
        ]);
        append(text, key.map_or(ListAt::Top, ListAt::Key), &item)
    }

    #[test]
    fn rule_14_10_every_other_byte_of_the_text_stays() {
        for (text, wanted) in [
            (
                "a:\n  issues:   # all\n    - t: 1\n      # of one\n\n  # of b\n  b: 2\n",
                "a:\n  issues:   # all\n    - t: 1\n      # of one\n    - identifier: N\n      \
                 title: 'x: y'\n\n  # of b\n  b: 2\n",
            ),
            (
                "issues:\n- t: 1\n\n- t: 2\nstates: [x]",
                "issues:\n- t: 1\n\n- t: 2\n\n- identifier: N\n  title: 'x: y'\nstates: [x]",
            ),
            (
                "issues: []  # none\nb: 1\n",
                "issues:   # none\n  - identifier: N\n    title: 'x: y'\nb: 1\n",
            ),
            ("issues:\nb: 1\n", "issues:\n  - identifier: N\n    title: 'x: y'\nb: 1\n"),
            ("issues:", "issues:\n  - identifier: N\n    title: 'x: y'\n"),
            ("# top\n- t: 1", "# top\n- t: 1\n- identifier: N\n  title: 'x: y'\n"),
            (
                "issues:\r\n  - t: |\r\n      # no remark\r\n",
                "issues:\r\n  - t: |\r\n      # no remark\r\n  - identifier: N\r\n    title: 'x: y'\r\n",
            ),
        ] {
            assert_eq!(added(text).as_deref(), Some(wanted), "{text}");
        }
        for text in ["issues: [{t: 1}]\n", "issues: &a\n  - t: 1\n", "{issues: []}\n", "", "x: y\n"]
        {
            assert_eq!(added(text), None, "{text}");
        }
    }
}
