//! YAML as a tree of maps, lists and scalars, in which every key knows its place.

use std::collections::BTreeSet;

use serde_json::Value;

use symphony_core::problem::Position;

/// One YAML value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    /// Null, a flag, a number or a text.
    Scalar(Value),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping.
    Map(Map),
}

/// A mapping, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Map(pub(super) Vec<Entry>);

/// One key of a mapping.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// The key, as text whatever it was.
    pub(crate) key: String,
    /// Where the key stands.
    pub(crate) at: Position,
    /// Its value.
    pub(crate) value: Node,
}

impl Node {
    /// Whether it counts as absent.
    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Self::Scalar(Value::Null))
    }

    /// What it is, for a message.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Scalar(Value::Null) => "null",
            Self::Scalar(Value::Bool(_)) => "a flag",
            Self::Scalar(Value::Number(_)) => "a number",
            Self::Scalar(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }

    /// The same as JSON.
    pub(crate) fn to_json(&self) -> Value {
        match self {
            Self::Scalar(value) => value.clone(),
            Self::List(items) => items.iter().map(Self::to_json).collect(),
            Self::Map(map) => Value::Object(map.to_json()),
        }
    }

    fn merged(self) -> Self {
        match self {
            Self::Scalar(_) => self,
            Self::List(items) => Self::List(items.into_iter().map(Self::merged).collect()),
            Self::Map(map) => Self::Map(map.merged()),
        }
    }
}

impl From<Value> for Node {
    /// What was made in code stands at no place: the first will do.
    fn from(value: Value) -> Self {
        let at = Position { line: 1, column: 1 };
        match value {
            Value::Array(items) => Self::List(items.into_iter().map(Self::from).collect()),
            Value::Object(map) => {
                let entry = |(key, value)| Entry { key, at, value: Self::from(value) };
                Self::Map(Map(map.into_iter().map(entry).collect()))
            }
            scalar => Self::Scalar(scalar),
        }
    }
}

impl Map {
    /// The entries, in the order of the file.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.0
    }

    /// The entry of a key.
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.key == key)
    }

    /// The same as JSON.
    pub(crate) fn to_json(&self) -> serde_json::Map<String, Value> {
        let mut object = serde_json::Map::new();
        for entry in &self.0 {
            object.entry(entry.key.clone()).or_insert_with(|| entry.value.to_json());
        }
        object
    }

    /// With every `<<` replaced by what it stands for. A map's own keys win, then earlier sources.
    pub(super) fn merged(self) -> Self {
        let mut own = Vec::new();
        let mut sources = Vec::new();
        for mut entry in self.0 {
            entry.value = entry.value.merged();
            match entry {
                Entry { key, value, .. } if key == "<<" && value.is_mergeable() => {
                    value.drain_into(&mut sources);
                }
                entry => own.push(entry),
            }
        }
        if !sources.is_empty() {
            let mut known: BTreeSet<String> = own.iter().map(|entry| entry.key.clone()).collect();
            sources.retain(|entry| known.insert(entry.key.clone()));
            own.append(&mut sources);
        }
        Self(own)
    }
}

impl Node {
    fn is_mergeable(&self) -> bool {
        match self {
            Self::Scalar(_) => false,
            Self::List(items) => items.iter().all(|item| matches!(item, Self::Map(_))),
            Self::Map(_) => true,
        }
    }

    fn drain_into(self, entries: &mut Vec<Entry>) {
        match self {
            Self::Scalar(_) => {}
            Self::List(items) => items.into_iter().for_each(|item| item.drain_into(entries)),
            Self::Map(Map(mut own)) => entries.append(&mut own),
        }
    }
}
