//! One issue as it is written down, in a board file or in a workflow file.

use serde_json::{Map, Value};
use symphony_core::time::Wall;
use symphony_core::{Blocker, Issue, IssueId, Label, StateKind};

use crate::board::{Card, Comment};

/// The keys that a record may have.
pub(crate) const KEYS: [&str; 17] = [
    "assignee_id",
    "blocked_by",
    "branch_name",
    "comments",
    "created_at",
    "description",
    "dispatchable",
    "id",
    "identifier",
    "labels",
    "native_ref",
    "priority",
    "state",
    "state_kind",
    "title",
    "updated_at",
    "url",
];

/// One written issue.
#[derive(Clone, Debug)]
pub(crate) struct BoardRecord {
    /// Its id, if it has one: without, it cannot be asked for.
    pub(crate) id: Option<IssueId>,
    /// What stands there.
    pub(crate) raw: Value,
    /// What it means, or why it cannot be read (contract 1.3).
    pub(crate) card: Result<Card, String>,
}

impl BoardRecord {
    /// Reads what stands there. Unknown keys are ignored, null means absent.
    pub(crate) fn read(raw: Value) -> Self {
        let Value::Object(map) = &raw else {
            let card = Err(format!("must be a map, got {}", shown(&raw)));
            return Self { id: None, raw, card };
        };
        let mut fields = RecordFields { map, problems: Vec::new() };
        let identifier = fields.text("identifier").unwrap_or_default();
        let id = fields.text("id").unwrap_or_else(|| identifier.clone());
        let card = fields.card(&id, &identifier);
        let id = (!id.trim().is_empty()).then(|| IssueId::from(id));
        Self { id, raw, card }
    }
}

struct RecordFields<'a> {
    map: &'a Map<String, Value>,
    problems: Vec<String>,
}

impl RecordFields<'_> {
    fn card(mut self, id: &str, identifier: &str) -> Result<Card, String> {
        let title = self.text("title").unwrap_or_default();
        let state = self.text("state").unwrap_or_default();
        let issue = Issue::new(id, identifier, &title, &state).map(|mut issue| {
            issue.state_kind = self.read("state_kind", "a kind of state", state_kind);
            issue.priority = self.read("priority", "an integer", integer);
            issue.created_at = self.read("created_at", "an RFC 3339 time", time);
            issue.updated_at = self.read("updated_at", "an RFC 3339 time", time);
            issue.dispatchable =
                self.read("dispatchable", "true or false", Value::as_bool).unwrap_or(true);
            issue.kept_back_by =
                (!issue.dispatchable).then(|| "dispatchable is false on the board".to_owned());
            issue.labels = Label::list(self.texts("labels"));
            issue.blocked_by = self.texts("blocked_by").into_iter().map(blocker).collect();
            issue.description = self.text("description");
            issue.branch_name = self.text("branch_name");
            issue.url = self.text("url");
            issue.assignee_id = self.text("assignee_id");
            issue.native_ref = self.read("native_ref", "a map", |v| v.as_object().cloned());
            issue
        });
        let comments = self.read("comments", "a list of {at, text}", comments).unwrap_or_default();
        match issue {
            Ok(issue) if self.problems.is_empty() => Ok(Card { issue, comments }),
            Ok(_) => Err(self.problems.join("; ")),
            Err(malformed) => {
                self.problems.insert(0, format!("has no {}", malformed.missing.join(", ")));
                Err(self.problems.join("; "))
            }
        }
    }

    fn read<T>(&mut self, key: &str, kind: &str, read: impl Fn(&Value) -> Option<T>) -> Option<T> {
        let value = self.map.get(key).filter(|value| !value.is_null())?;
        let read = read(value);
        if read.is_none() {
            self.problems.push(format!("{key} must be {kind}, got {}", shown(value)));
        }
        read
    }

    fn text(&mut self, key: &str) -> Option<String> {
        self.read(key, "text", text)
    }

    fn texts(&mut self, key: &str) -> Vec<String> {
        self.read(key, "a list of texts", texts).unwrap_or_default()
    }
}

/// A text, also when YAML takes it for a number.
pub(crate) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// A list of texts; one alone is a list of one.
pub(crate) fn texts(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Array(items) => items.iter().map(text).collect(),
        one => text(one).map(|text| vec![text]),
    }
}

pub(crate) fn state_kind(value: &Value) -> Option<StateKind> {
    let name = value.as_str()?.trim().to_lowercase();
    // Trackers spell it both ways.
    let name = if name == "canceled" { "cancelled".to_owned() } else { name };
    serde_json::from_value(Value::String(name)).ok()
}

fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        other => other.as_i64(),
    }
}

fn time(value: &Value) -> Option<Wall> {
    value.as_str().and_then(Wall::parse)
}

fn blocker(identifier: String) -> Blocker {
    Blocker { identifier: Some(identifier.into()), ..Blocker::default() }
}

fn comments(value: &Value) -> Option<Vec<Comment>> {
    let comment =
        |item: &Value| Some(Comment { at: time(item.get("at")?)?, text: text(item.get("text")?)? });
    value.as_array()?.iter().map(comment).collect()
}

/// A value as a message shows it: short, on one line.
pub(crate) fn shown(value: &Value) -> String {
    const MAX_CHARS: usize = 40;
    let text = value.to_string();
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
