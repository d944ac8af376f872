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

/// Why a text is not a board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadBoardText {
    /// Counted from one.
    pub(crate) line: Option<usize>,
    pub(crate) message: String,
}

impl Document {
    /// Reads a map with `issues` and perhaps `states`, or the bare list of issues.
    pub(crate) fn parse(text: &str) -> Result<(Self, Seeds), BadBoardText> {
        let root = parse(text)?;
        let mut merged = root.clone();
        merged.apply_merge().map_err(|error| located(&error))?;
        let whole = |message: &str| BadBoardText { line: Some(1), message: message.to_owned() };
        let (states, issues) = match json(&merged).map_err(|message| whole(&message))? {
            // An editor that writes in place empties the file first: that does not mean an empty board.
            Value::Null => return Err(whole("is empty; a board without issues is `issues: []`")),
            Value::Object(mut map) => (map.remove("states"), map.remove("issues")),
            list @ Value::Array(_) => (None, Some(list)),
            _ => return Err(whole("must be a map with `issues`, or a list of issues")),
        };
        let seeds = Seeds::read(states.as_ref(), issues).map_err(|flaw| {
            let items = Items::find(text, &root);
            let line = flaw.issue.and_then(|index| items?.starts.get(index).copied());
            BadBoardText { line: line.map(|line| line + 1), message: flaw.message }
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
        let (document, seeds) = match spliced.filter(|(document, _)| document.root == root) {
            Some(spliced) => spliced,
            None => Self::parse(&render(&root)?).map_err(|broken| broken.message)?,
        };
        if document.root != root {
            return Err("it would read differently from what was meant".to_owned());
        }
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

fn parse(text: &str) -> Result<Yaml, BadBoardText> {
    serde_yaml::from_str(text).map_err(|error| located(&error))
}

fn render(value: &(impl Serialize + ?Sized)) -> Result<String, String> {
    serde_yaml::to_string(value).map_err(|error| error.to_string())
}

fn json(value: &Yaml) -> Result<Value, String> {
    serde_json::to_value(value).map_err(|error| error.to_string())
}

fn located(error: &serde_yaml::Error) -> BadBoardText {
    BadBoardText { line: error.location().map(|at| at.line()), message: error.to_string() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Texts that YAML has opinions about.
    fn awkward() -> impl Strategy<Value = String> {
        prop_oneof![
            "[a-zA-Z0-9 ]{1,12}",
            any::<String>().prop_filter("not blank", |text| !text.trim().is_empty()),
            prop::sample::select(vec![
                "- dash",
                "a: b",
                "# no remark",
                "yes",
                "null",
                "~",
                "0x1f",
                "1e3",
                "'",
                "\"",
                "|",
                ">",
                "issues:",
                "two\nlines",
                "two\n\nlines\n",
                "\ttab",
                "trailing ",
                "---",
                "...",
                "*alias",
                "&anchor",
                "!tag",
                "{",
                "[",
                "%",
                "@",
                "\u{feff}",
                "\u{85}",
                "\u{2028}",
                "\r\n",
                "\0",
            ])
            .prop_map(str::to_owned),
        ]
    }

    /// A board of issues `I-0`, `I-1`, ... as a person may lay it out, with remarks.
    fn layout(titles: &[String], indent: usize, bare: bool, ends: &str) -> String {
        let pad = " ".repeat(if bare { 0 } else { indent });
        let mut text = String::from("# top\n");
        if !bare {
            text.push_str("issues:   # the list\n");
        }
        for (index, title) in titles.iter().enumerate() {
            let title = serde_json::to_string(title).unwrap();
            text.push_str(&format!(
                "{pad}# remark {index}\n{pad}- title: {title}\n{pad}  identifier: I-{index}\n\n\
                 {pad}  state: Todo # inside {index}\n\n"
            ));
        }
        if !bare {
            text.push_str("# end\nstates: [Todo]\n");
        }
        text.replace('\n', ends)
    }

    proptest! {
        #[test]
        fn rule_11_5_only_the_record_that_changed_is_written_anew(
            titles in prop::collection::vec("[a-zA-Z0-9:# -]{1,12}", 1..6),
            pick in any::<prop::sample::Index>(),
            indent in 0_usize..5,
            bare: bool,
            crlf: bool,
            comment in awkward(),
        ) {
            let text = layout(&titles, indent, bare, if crlf { "\r\n" } else { "\n" });
            let (document, _) = Document::parse(&text).unwrap();
            let index = pick.index(titles.len());
            let id = IssueId::from(format!("I-{index}"));
            let change = |record: &mut Mapping| {
                record.insert("comment".into(), comment.as_str().into());
            };
            let (changed, raw) = document.with(&id, change).unwrap().unwrap();
            prop_assert_eq!(&raw["comment"], &Value::from(comment.clone()));
            let mut expected = document.root.clone();
            item_of(&mut expected, index).unwrap()["comment"] = comment.as_str().into();
            prop_assert_eq!(&changed.root, &expected);
            let remarks = |text: &str| -> Vec<String> {
                let lines = text.lines().filter(|line| !line.contains(&format!("inside {index}")));
                lines.filter(|line| line.contains("# ")).map(str::to_owned).collect()
            };
            let kept = remarks(changed.text());
            for remark in remarks(&text).iter().filter(|line| !line.contains("title:")) {
                prop_assert!(kept.contains(remark), "{remark:?} is gone:\n{}", changed.text());
            }
        }

        #[test]
        fn a_change_reads_as_it_was_meant_or_is_refused(
            titles in prop::collection::vec(awkward(), 1..4),
            comment in awkward(),
            flow: bool,
        ) {
            let record = |(index, title)| {
                serde_json::json!({ "identifier": format!("I-{index}"), "title": title, "state": "A" })
            };
            let board: Vec<Value> = titles.iter().enumerate().map(record).collect();
            let text = if flow { Value::from(board).to_string() } else { render(&board).unwrap() };
            let Ok((document, _)) = Document::parse(&text) else { return Ok(()) };
            let change = |record: &mut Mapping| {
                record.insert("comment".into(), comment.as_str().into());
            };
            if let Ok(Some((changed, raw))) = document.with(&IssueId::from("I-0"), change) {
                prop_assert_eq!(&raw["comment"], &Value::from(comment.clone()));
                let mut expected = document.root.clone();
                item_of(&mut expected, 0).unwrap()["comment"] = comment.into();
                prop_assert_eq!(changed.root, expected);
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in prop_oneof![
            any::<String>(),
            "(issues:|states:|- |identifier: a|state: |  |\\n|\\t|#|\\{|\\}|\\[|\\]|,|&a |\\*a|<<: )*",
        ]) {
            if let Ok((document, seeds)) = Document::parse(&text) {
                for record in seeds.records {
                    if let Some(id) = record.id {
                        let _ = document.with(&id, |record| {
                            record.insert("state".into(), "Done".into());
                        });
                    }
                }
            }
        }
    }
}
