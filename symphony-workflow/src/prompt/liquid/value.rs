//! What Liquid computes with.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value as Json;

/// A value. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Truth(bool),
    Int(i64),
    Float(f64),
    Text(Arc<str>),
    List(Arc<[Value]>),
    Map(Arc<BTreeMap<String, Value>>),
    /// `(1..5)`, both ends included.
    Range(i64, i64),
    /// The word `empty`, which equals everything that has no parts.
    Empty,
    /// The word `blank`, which also equals null, false and space.
    Blank,
}

impl Value {
    pub(super) fn text(text: impl Into<Arc<str>>) -> Self {
        Self::Text(text.into())
    }

    /// As in Tera: null, false, zero and what is empty are false. Elsewhere Liquid takes all but
    /// the first two as true, which prints headings of empty lists.
    pub(super) fn is_true(&self) -> bool {
        match self {
            Self::Null | Self::Truth(false) | Self::Int(0) => false,
            Self::Float(number) => *number != 0.0,
            other => !other.is_empty(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::List(items) => items.is_empty(),
            Self::Map(fields) => fields.is_empty(),
            Self::Range(first, last) => first > last,
            _ => false,
        }
    }

    pub(super) fn is_blank(&self) -> bool {
        match self {
            Self::Null | Self::Truth(false) => true,
            Self::Text(text) => text.trim().is_empty(),
            other => other.is_empty(),
        }
    }

    pub(super) fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Empty, value) | (value, Self::Empty) => {
                value.is_empty() || matches!(value, Self::Empty)
            }
            (Self::Blank, value) | (value, Self::Blank) => {
                value.is_blank() || matches!(value, Self::Blank)
            }
            (Self::Int(_) | Self::Float(_), Self::Int(_) | Self::Float(_)) => {
                self.order(other) == Some(Ordering::Equal)
            }
            _ => self == other,
        }
    }

    /// How two numbers or two texts compare; `None` for everything else.
    pub(super) fn order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(b)),
            (Self::Text(a), Self::Text(b)) => Some(a.cmp(b)),
            _ => self.float()?.partial_cmp(&other.float()?),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a comparison with a fraction")]
    pub(super) fn float(&self) -> Option<f64> {
        match self {
            Self::Int(number) => Some(*number as f64),
            Self::Float(number) => Some(*number),
            _ => None,
        }
    }

    /// How many parts it has: characters, items or fields.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Text(text) => text.chars().count(),
            Self::List(items) => items.len(),
            Self::Map(fields) => fields.len(),
            Self::Range(first, last) => {
                let span = i128::from(*last) - i128::from(*first) + 1;
                usize::try_from(span).unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// A rough count of the bytes it takes to write it out.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::List(items) => items.iter().map(|item| item.bytes() + 4).sum(),
            Self::Map(fields) => fields.iter().map(|(k, v)| k.len() + v.bytes() + 8).sum(),
            _ => 8,
        }
    }

    /// What people call such a value.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Truth(_) => "true or false",
            Self::Int(_) | Self::Float(_) => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "an object",
            Self::Range(..) => "a range",
            Self::Empty | Self::Blank => "a word for comparisons",
        }
    }
}

/// As Tera writes it, so that a prompt says the same in both languages.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null | Self::Empty | Self::Blank => Ok(()),
            Self::Truth(truth) => truth.fmt(f),
            Self::Int(number) => number.fmt(f),
            Self::Float(number) => fmt::Debug::fmt(number, f),
            Self::Text(text) => f.write_str(text),
            Self::Range(first, last) => write!(f, "{first}..{last}"),
            Self::List(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    f.write_str(if index > 0 { ", " } else { "" })?;
                    item.quoted(f)?;
                }
                f.write_str("]")
            }
            Self::Map(fields) => {
                f.write_str("{")?;
                for (index, (name, value)) in fields.iter().enumerate() {
                    f.write_str(if index > 0 { ", " } else { "" })?;
                    write!(f, "{name:?}: ")?;
                    value.quoted(f)?;
                }
                f.write_str("}")
            }
        }
    }
}

impl Value {
    fn quoted(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => fmt::Debug::fmt(text, f),
            other => fmt::Display::fmt(other, f),
        }
    }
}

impl From<Json> for Value {
    fn from(json: Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(truth) => Self::Truth(truth),
            Json::Number(number) => match number.as_i64() {
                Some(whole) => Self::Int(whole),
                None => number.as_f64().map_or(Self::Null, Self::Float),
            },
            Json::String(text) => Self::text(text),
            Json::Array(items) => Self::List(items.into_iter().map(Self::from).collect()),
            Json::Object(fields) => {
                let fields = fields.into_iter().map(|(name, value)| (name, value.into()));
                Self::Map(Arc::new(fields.collect()))
            }
        }
    }
}
