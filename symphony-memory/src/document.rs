//! The text of a board file: what it says, on which line, and how one record of it is replaced.

use serde::Serialize;
use serde_json::Value;
use serde_yaml::{Mapping, Value as Yaml};
use symphony_core::IssueId;

use crate::seeds::Seeds;

/// A board file's text that could be read.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    text: String,
    root: Yaml,
    ids: Vec<Option<IssueId>>,
}

/// Why a text is no board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    /// Counted from one.
    pub(crate) line: Option<usize>,
    pub(crate) message: String,
}

impl Document {
    /// Reads a map with `issues` and perhaps `states`, or the bare list of issues.
    pub(crate) fn parse(text: &str) -> Result<(Self, Seeds), Broken> {
        let root = parse(text)?;
        let mut merged = root.clone();
        merged.apply_merge().map_err(|error| located(&error))?;
        let whole = |message: &str| Broken { line: Some(1), message: message.to_owned() };
        let (states, issues) = match json(&merged).map_err(|message| whole(&message))? {
            Value::Null => (None, None),
            Value::Object(mut map) => (map.remove("states"), map.remove("issues")),
            list @ Value::Array(_) => (None, Some(list)),
            _ => return Err(whole("must be a map with `issues`, or a list of issues")),
        };
        let seeds = Seeds::read(states.as_ref(), issues).map_err(|flaw| {
            let items = Items::find(text, &root);
            let line = flaw.issue.and_then(|index| items?.starts.get(index).copied());
            Broken { line: line.map(|line| line + 1), message: flaw.message }
        })?;
        let ids = seeds.records.iter().map(|record| record.id.clone()).collect();
        Ok((Self { text: text.to_owned(), root, ids }, seeds))
    }

    /// The text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The document with one record changed, and that record as a read finds it. `None` if no
    /// record has this id.
    ///
    /// Only the record's own lines are written anew, so that people keep their remarks and
    /// layout. Where that does not give the board we mean, the whole is written anew.
    pub(crate) fn with(
        &self,
        id: &IssueId,
        change: impl FnOnce(&mut Mapping),
    ) -> Result<Option<(Self, Value)>, String> {
        let Some(index) = self.ids.iter().position(|found| found.as_ref() == Some(id)) else {
            return Ok(None);
        };
        let mut root = self.root.clone();
        let Some(Yaml::Mapping(record)) = item_of(&mut root, index) else { return Ok(None) };
        change(record);
        let own_lines = render(&[record])?;
        let spliced = self.spliced(index, &own_lines).and_then(|text| Self::parse(&text).ok());
        let (document, seeds) = match spliced {
            Some((document, seeds)) if document.root == root => (document, seeds),
            _ => Self::parse(&render(&root)?).map_err(|broken| broken.message)?,
        };
        let record = seeds.records.into_iter().nth(index);
        Ok(record.map(|record| (document, record.raw)))
    }

    /// The text with the lines of one item replaced.
    fn spliced(&self, index: usize, own_lines: &str) -> Option<String> {
        let items = Items::find(&self.text, &self.root)?;
        let lines: Vec<&str> = self.text.split_inclusive('\n').collect();
        let start = *items.starts.get(index)?;
        let mut end = items.starts.get(index + 1).copied().unwrap_or(items.end);
        // Remarks and space before the next item belong to that one.
        while end > start + 1 && is_trivia(lines[end - 1]) {
            end -= 1;
        }
        let line_end = if self.text.contains("\r\n") { "\r\n" } else { "\n" };
        let mut text: String = lines[..start].concat();
        for line in own_lines.lines() {
            if !line.is_empty() {
                text.push_str(&items.indent);
                text.push_str(line);
            }
            text.push_str(line_end);
        }
        text.push_str(&lines[end..].concat());
        Some(text)
    }
}

/// Where the items of a block list stand.
struct Items {
    indent: String,
    /// The first line of each item, counted from zero.
    starts: Vec<usize>,
    /// The line after the last item.
    end: usize,
}

impl Items {
    /// Finds as many items as the list has, or nothing: what is written on fewer lines, or in
    /// another way, is not looked for.
    fn find(text: &str, root: &Yaml) -> Option<Self> {
        let wanted = items_of(root)?.len();
        let lines: Vec<&str> = text.lines().collect();
        let first = match root {
            Yaml::Sequence(_) => 0,
            _ => 1 + lines.iter().position(|line| line.starts_with("issues:"))?,
        };
        let is_content = |line: &&str| !is_trivia(line) && line.trim_end() != "---";
        let opening = lines.iter().skip(first).find(|line| is_content(line))?;
        let indent = &opening[..opening.len() - opening.trim_start().len()];
        let mut starts = Vec::new();
        let mut end = lines.len();
        for (number, line) in lines.iter().enumerate().skip(first) {
            let rest = line.strip_prefix(indent);
            if rest.is_some_and(|rest| rest == "-" || rest.starts_with("- ")) {
                starts.push(number);
            } else if is_content(line) && !rest.is_some_and(|rest| rest.starts_with([' ', '\t'])) {
                end = number;
                break;
            }
        }
        let indent = indent.to_owned();
        (starts.len() == wanted).then_some(Self { indent, starts, end })
    }
}

fn is_trivia(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

fn items_of(root: &Yaml) -> Option<&Vec<Yaml>> {
    match root {
        Yaml::Sequence(items) => Some(items),
        other => other.get("issues")?.as_sequence(),
    }
}

fn item_of(root: &mut Yaml, index: usize) -> Option<&mut Yaml> {
    match root {
        Yaml::Sequence(items) => items.get_mut(index),
        other => other.get_mut("issues")?.get_mut(index),
    }
}

fn parse(text: &str) -> Result<Yaml, Broken> {
    serde_yaml::from_str(text).map_err(|error| located(&error))
}

fn render(value: &(impl Serialize + ?Sized)) -> Result<String, String> {
    serde_yaml::to_string(value).map_err(|error| error.to_string())
}

fn json(value: &Yaml) -> Result<Value, String> {
    serde_json::to_value(value).map_err(|error| error.to_string())
}

fn located(error: &serde_yaml::Error) -> Broken {
    Broken { line: error.location().map(|at| at.line()), message: error.to_string() }
}
