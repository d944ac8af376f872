//! YAML as a tree of maps, lists and scalars, bounded in size whatever its aliases do.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, IgnoredAny, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde_json::{Number, Value};

use super::TOO_DEEP;
use super::place::Places;
use crate::problem::Position;

/// How much a tree may hold, in bytes of text and [`NODE_COST`] for each node. An alias stands for
/// a copy, so a small file can describe a large tree.
const MAX_TREE: usize = 4 * 1024 * 1024;
const NODE_COST: usize = 16;

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
pub(crate) struct Map(Vec<Entry>);

/// One key of a mapping.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// The key, as text whatever it was.
    pub(crate) key: String,
    /// Where the key stands.
    pub(crate) at: Option<Position>,
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

/// Why a text is not a tree.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) message: String,
    pub(super) at: Option<Position>,
}

impl Refusal {
    fn new(message: &str, at: Option<Position>) -> Self {
        Self { message: message.to_owned(), at }
    }
}

/// Reads one YAML document.
pub(super) fn load(yaml: &str) -> Result<Node, Refusal> {
    let places = Places::of(yaml);
    let room = Cell::new(Some(MAX_TREE));
    let tree = Tree { room: &room, places: &places };
    tree.deserialize(serde_yaml::Deserializer::from_str(yaml)).map_err(|error| match room.get() {
        None => Refusal::new(TOO_LARGE, None),
        Some(_) => refusal(&error, &places),
    })
}

const TOO_LARGE: &str = "the front matter is too large once its aliases are followed";

/// The parser's error in our words, with its place taken out of the text.
fn refusal(error: &serde_yaml::Error, places: &Places<'_>) -> Refusal {
    let text = error.to_string();
    let place = error.location().map(|at| (at.line(), at.column()));
    let at = place.and_then(|(line, column)| places.at(line, column));
    if text.contains("repetition limit") {
        Refusal::new(TOO_LARGE, at)
    } else if text.contains("recursion limit") {
        Refusal::new(TOO_DEEP, at)
    } else if text.contains("more than one document") {
        Refusal::new("the front matter is more than one YAML document", at)
    } else if text.contains("invalid value") || text.contains("invalid type") {
        // The error quotes the value, which may be a secret.
        Refusal::new("a value does not fit its tag", at)
    } else if let Some((message, index)) = text.split_once(" at position ") {
        Refusal::new(message, index.parse().ok().and_then(|i| places.at_byte(i)))
    } else if let Some((line, column)) = place {
        let place = format!(" at line {line} column {column}");
        Refusal::new(&text.replacen(&place, "", 1), at)
    } else {
        Refusal::new(&text, at)
    }
}

/// Builds a [`Node`].
#[derive(Clone, Copy)]
struct Tree<'a> {
    /// What is left of [`MAX_TREE`]; `None` once it was too little.
    room: &'a Cell<Option<usize>>,
    places: &'a Places<'a>,
}

impl Tree<'_> {
    fn charge<E: Error>(self, bytes: usize) -> Result<(), E> {
        let left =
            self.room.get().and_then(|room| room.checked_sub(bytes.saturating_add(NODE_COST)));
        self.room.set(left);
        left.map(|_| ()).ok_or_else(|| E::custom("too large"))
    }

    fn scalar<E: Error>(self, value: Value) -> Result<Node, E> {
        self.charge(value.as_str().map_or(0, str::len))?;
        Ok(Node::Scalar(value))
    }
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("YAML")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Node, E> {
        self.scalar(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Node, E> {
        self.scalar(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Node, E> {
        self.scalar(Value::from(value))
    }

    fn visit_i128<E: Error>(self, value: i128) -> Result<Node, E> {
        self.scalar(Value::String(value.to_string()))
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<Node, E> {
        self.scalar(Value::String(value.to_string()))
    }

    /// JSON has no infinity: what is not a number there is a text.
    fn visit_f64<E: Error>(self, value: f64) -> Result<Node, E> {
        let number = Number::from_f64(value).map(Value::Number);
        self.scalar(number.unwrap_or_else(|| Value::String(value.to_string())))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Node, E> {
        self.scalar(Value::from(value))
    }

    fn visit_unit<E: Error>(self) -> Result<Node, E> {
        self.scalar(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Node, E> {
        self.scalar(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
        self.charge(0)?;
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(self)? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        self.charge(0)?;
        let mut entries = Vec::new();
        loop {
            let mut key = None;
            let seed = Key { key: &mut key, tree: self };
            let at = match map.next_key_seed(seed) {
                Ok(None) => break,
                Ok(Some(())) => None,
                Err(error) if key.is_none() => return Err(error),
                Err(place) => self.place(&place),
            };
            entries.push(Entry {
                key: key.unwrap_or_default(),
                at,
                value: map.next_value_seed(self)?,
            });
        }
        Ok(Node::Map(Map(entries)))
    }

    /// A tag is not looked at.
    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<Node, A::Error> {
        let (_, content) = tagged.variant::<IgnoredAny>()?;
        content.newtype_variant_seed(self)
    }
}

impl Tree<'_> {
    /// The place that ends an error's text.
    fn place(self, error: &impl fmt::Display) -> Option<Position> {
        let text = error.to_string();
        let (_, place) = text.rsplit_once(" at line ")?;
        let (line, column) = place.split_once(" column ")?;
        self.places.at(line.parse().ok()?, column.parse().ok()?)
    }
}

/// Reads a key and its place.
///
/// The YAML crate tells a place only in an error. So a scalar key is kept and then refused, and
/// [`Tree::visit_map`] goes on with the place that the error brought.
struct Key<'a> {
    key: &'a mut Option<String>,
    tree: Tree<'a>,
}

impl Key<'_> {
    fn keep<E: Error>(self, text: String) -> Result<(), E> {
        self.tree.charge(text.len())?;
        *self.key = Some(text);
        Err(E::custom("key"))
    }

    fn keep_node(self, node: &Node) {
        *self.key = Some(node.to_json().to_string());
    }
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

macro_rules! scalar_keys {
    ($($visit:ident: $scalar:ty),* $(,)?) => {
        $(fn $visit<E: Error>(self, key: $scalar) -> Result<(), E> {
            self.keep(key.to_string())
        })*
    };
}

impl<'de> Visitor<'de> for Key<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    scalar_keys! {
        visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_i128: i128, visit_u128: u128,
        visit_f64: f64, visit_str: &str,
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.keep("null".to_owned())
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        self.keep("null".to_owned())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        let node = self.tree.visit_seq(seq)?;
        self.keep_node(&node);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        let node = self.tree.visit_map(map)?;
        self.keep_node(&node);
        Ok(())
    }

    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<(), A::Error> {
        let (_, content) = tagged.variant::<IgnoredAny>()?;
        content.newtype_variant_seed(self)
    }
}
