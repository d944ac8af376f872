//! Builds the tree of a YAML document from a parser's events, which carry positions. Depth and size
//! are bounded, aliases included.

use std::collections::BTreeMap;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, StrInput, Tag, options};
use serde_json::{Number, Value};

use super::tree::{Entry, Map, Node};
use symphony_core::problem::{Position, Problem, ProblemKind};

/// How deeply collections may be nested.
const MAX_DEPTH: usize = 128;

/// How much a tree may hold, in bytes of text and [`NODE_COST`] for each node. An alias stands for
/// a copy, so a small file can describe a large tree.
const MAX_TREE_COST: usize = 4 * 1024 * 1024;
const NODE_COST: usize = 16;

const TOO_DEEP: &str = "the front matter is nested too deeply";
const TOO_LARGE: &str = "the front matter is too large once its aliases are followed";

/// Reads one YAML document. An empty text is null.
///
/// # Errors
/// The text is not YAML, is more than one document, or exceeds a bound.
pub(super) fn load(yaml: &str) -> Result<Node, Problem> {
    let mut builder = TreeBuilder::new(yaml);
    let mut root = None;
    loop {
        let (event, at) = builder.next()?;
        match event {
            Event::StreamStart | Event::DocumentEnd => {}
            Event::StreamEnd => return Ok(root.unwrap_or(Node::Scalar(Value::Null))),
            Event::DocumentStart(..) if root.is_some() => {
                return refuse("the front matter is more than one YAML document", at);
            }
            Event::DocumentStart(..) => {}
            event => root = Some(builder.node(event, at, 1)?),
        }
    }
}

fn refuse<T>(message: &str, at: Position) -> Result<T, Problem> {
    Err(Problem::new(ProblemKind::WorkflowParseError, message).with_position(Some(at)))
}

/// Builds a [`Node`].
struct TreeBuilder<'a> {
    events: Parser<'a, StrInput<'a>>,
    /// The character with which each line of the file begins. The parser ends lines at more
    /// characters than editors do.
    line_starts: Vec<usize>,
    /// What each anchor stands for, once it is complete.
    anchors: BTreeMap<usize, Node>,
    /// What is left of [`MAX_TREE_COST`].
    remaining_cost: usize,
}

impl<'a> TreeBuilder<'a> {
    fn new(yaml: &'a str) -> Self {
        let limits = options! { flow_nesting_limit: MAX_DEPTH, block_nesting_limit: MAX_DEPTH };
        let ends = yaml.chars().enumerate().filter(|(_, char)| *char == '\n');
        Self {
            events: Parser::new_from_str_with_options(yaml, limits),
            line_starts: std::iter::once(0).chain(ends.map(|(end, _)| end + 1)).collect(),
            anchors: BTreeMap::new(),
            remaining_cost: MAX_TREE_COST,
        }
    }

    fn next(&mut self) -> Result<(Event<'a>, Position), Problem> {
        match self.events.next() {
            None => Ok((Event::StreamEnd, self.position(0))),
            Some(Ok((event, span))) => Ok((event, self.position(span.start.index()))),
            Some(Err(error)) => {
                let at = self.position(error.marker().index());
                match error.kind() {
                    ErrorKind::RecursionLimitExceeded => refuse(TOO_DEEP, at),
                    kind => refuse(&kind.to_string(), at),
                }
            }
        }
    }

    /// Returns the line and column of a character.
    fn position(&self, index: usize) -> Position {
        let line = self.line_starts.partition_point(|start| *start <= index);
        let start = line.checked_sub(1).and_then(|line| self.line_starts.get(line));
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Position { line: number(line), column: number(index - start.unwrap_or(&0) + 1) }
    }

    /// Reads the node that begins with an event.
    fn node(&mut self, event: Event<'a>, at: Position, depth: usize) -> Result<Node, Problem> {
        let (anchor, node) = match event {
            Event::Alias(anchor) => return self.resolve_alias(anchor, at, depth),
            Event::Scalar(text, style, anchor, tag) => {
                self.charge(text.len().saturating_add(NODE_COST), at)?;
                let Some(value) = scalar(&text, style, tag.as_deref()) else {
                    // Not shown: it may be a secret.
                    return refuse("a value does not fit its tag", at);
                };
                (anchor, Node::Scalar(value))
            }
            Event::SequenceStart(_, anchor, _) => (anchor, self.list(at, depth)?),
            Event::MappingStart(_, anchor, _) => (anchor, self.map(at, depth)?),
            _ => return refuse("a value is missing", at),
        };
        if anchor != 0 {
            self.charge(cost(&node), at)?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn list(&mut self, at: Position, depth: usize) -> Result<Node, Problem> {
        self.enter(at, depth)?;
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Node::List(items)),
                (event, at) => items.push(self.node(event, at, depth + 1)?),
            }
        }
    }

    fn map(&mut self, at: Position, depth: usize) -> Result<Node, Problem> {
        self.enter(at, depth)?;
        let mut entries = Vec::new();
        loop {
            let (event, at) = match self.next()? {
                (Event::MappingEnd, _) => return Ok(Node::Map(Map(entries))),
                key => key,
            };
            let key = match self.node(event, at, depth + 1)?.to_json() {
                Value::String(text) => text,
                value => value.to_string(),
            };
            // A collection as a key is kept as JSON, whose length doubles with each level.
            self.charge(key.len(), at)?;
            let (event, value_at) = self.next()?;
            let value = self.node(event, value_at, depth + 1)?;
            entries.push(Entry { key, at, value });
        }
    }

    fn enter(&mut self, at: Position, depth: usize) -> Result<(), Problem> {
        if depth > MAX_DEPTH {
            return refuse(TOO_DEEP, at);
        }
        self.charge(NODE_COST, at)
    }

    /// Returns a copy of what an alias stands for.
    fn resolve_alias(
        &mut self,
        anchor: usize,
        at: Position,
        depth: usize,
    ) -> Result<Node, Problem> {
        let Some(node) = self.anchors.get(&anchor) else {
            return refuse("an alias refers to a value that contains it", at);
        };
        let (height, cost, node) = (height(node), cost(node), node.clone());
        if depth + height > MAX_DEPTH + 1 {
            return refuse(TOO_DEEP, at);
        }
        self.charge(cost, at)?;
        Ok(node)
    }

    fn charge(&mut self, cost: usize, at: Position) -> Result<(), Problem> {
        let Some(remaining) = self.remaining_cost.checked_sub(cost) else {
            return refuse(TOO_LARGE, at);
        };
        self.remaining_cost = remaining;
        Ok(())
    }
}

fn height(node: &Node) -> usize {
    match node {
        Node::Scalar(_) => 0,
        Node::List(items) => 1 + items.iter().map(height).max().unwrap_or(0),
        Node::Map(Map(entries)) => {
            1 + entries.iter().map(|entry| height(&entry.value)).max().unwrap_or(0)
        }
    }
}

fn cost(node: &Node) -> usize {
    let inside = match node {
        Node::Scalar(value) => value.as_str().map_or(0, str::len),
        Node::List(items) => items.iter().map(cost).sum(),
        Node::Map(Map(entries)) => {
            entries.iter().map(|entry| NODE_COST + entry.key.len() + cost(&entry.value)).sum()
        }
    };
    NODE_COST + inside
}

/// Reads a scalar by the core schema of YAML 1.2; `None` if it does not fit its tag. Tags of other
/// schemas are ignored.
fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Option<Value> {
    match tag.and_then(Tag::core_suffix) {
        Some("null") => null(text),
        Some("bool") => boolean(text),
        Some("int") => integer(text),
        Some("float") => float(text),
        None if style == ScalarStyle::Plain => Some(plain(text)),
        _ => Some(Value::from(text)),
    }
}

fn plain(text: &str) -> Value {
    let special = null(text).or_else(|| boolean(text)).or_else(|| integer(text));
    special.or_else(|| float(text)).unwrap_or_else(|| Value::from(text))
}

fn null(text: &str) -> Option<Value> {
    matches!(text, "" | "~" | "null" | "Null" | "NULL").then_some(Value::Null)
}

fn boolean(text: &str) -> Option<Value> {
    match text {
        "true" | "True" | "TRUE" => Some(Value::Bool(true)),
        "false" | "False" | "FALSE" => Some(Value::Bool(false)),
        _ => None,
    }
}

/// Reads an integer; it stays text where JSON has no room for it.
fn integer(text: &str) -> Option<Value> {
    let magnitude = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (radix, digits) = match magnitude.get(..2) {
        Some("0x") => (16, &magnitude[2..]),
        Some("0o") => (8, &magnitude[2..]),
        Some("0b") => (2, &magnitude[2..]),
        _ => (10, magnitude),
    };
    let is_number = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    if is_padded(text) || !is_number {
        return None;
    }
    let Ok(number) = i128::from_str_radix(digits, radix) else { return Some(Value::from(text)) };
    let number = if text.starts_with('-') { -number } else { number };
    let small = u64::try_from(number).map(Value::from);
    let small = small.or_else(|_| i64::try_from(number).map(Value::from));
    Some(small.unwrap_or_else(|_| Value::String(number.to_string())))
}

/// Reads a number with a fraction or an exponent; an infinite one, and NaN, are text in JSON.
fn float(text: &str) -> Option<Value> {
    let number = match text {
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => f64::INFINITY,
        "-.inf" | "-.Inf" | "-.INF" => f64::NEG_INFINITY,
        ".nan" | ".NaN" | ".NAN" => f64::NAN,
        text => text.parse().ok().filter(|n: &f64| n.is_finite() && !is_padded(text))?,
    };
    let json = Number::from_f64(number).map(Value::Number);
    Some(json.unwrap_or_else(|| Value::String(number.to_string())))
}

/// Whether digits have a leading zero, as a phone number may: they stay text.
fn is_padded(digits: &str) -> bool {
    let digits = digits.strip_prefix(['-', '+']).unwrap_or(digits);
    digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit())
}
