//! What a board begins with, as it is written down.

use std::collections::BTreeMap;

use serde_json::Value;
use symphony_core::StateName;

use crate::board::DeclaredState;
use crate::record::{BoardRecord, shown, state_kind, text};

/// The states and issues that are written down.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seeds {
    pub(crate) states: Vec<DeclaredState>,
    pub(crate) records: Vec<BoardRecord>,
}

/// What makes a whole board unusable, not only one of its records.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BoardFlaw {
    /// The position of the issue in the list, where it is about one.
    pub(crate) issue: Option<usize>,
    pub(crate) message: String,
}

impl Seeds {
    /// Reads the values of `states` and `issues`.
    pub(crate) fn read(states: Option<&Value>, issues: Option<Value>) -> Result<Self, BoardFlaw> {
        let states = states.filter(|value| !value.is_null()).map_or(Ok(Vec::new()), read_states)?;
        let items = match issues {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(items)) => items,
            Some(other) => {
                return Err(flaw(format!("issues must be a list, got {}", shown(&other))));
            }
        };
        let records: Vec<BoardRecord> = items.into_iter().map(BoardRecord::read).collect();
        refuse_doubles(&records)?;
        Ok(Self { states, records })
    }

    /// The records that cannot be read, each in one line.
    pub(crate) fn unreadable(&self) -> impl Iterator<Item = String> {
        self.records.iter().enumerate().filter_map(|(index, record)| {
            let why = record.card.as_ref().err()?;
            Some(match &record.id {
                Some(id) => format!("issues[{index}] ({:?}): {why}", id.as_str()),
                None => format!("issues[{index}]: {why}"),
            })
        })
    }
}

fn read_states(value: &Value) -> Result<Vec<DeclaredState>, BoardFlaw> {
    let refused = || {
        flaw(format!("states must be a list of names or of {{name, kind}}, got {}", shown(value)))
    };
    let state = |item: &Value| {
        let (name, kind) = match item {
            Value::Object(map) => (text(map.get("name")?)?, map.get("kind")),
            name => (text(name)?, None),
        };
        let kind = match kind.filter(|kind| !kind.is_null()) {
            None => None,
            Some(kind) => Some(state_kind(kind)?),
        };
        Some(DeclaredState { name: StateName::new(name), kind })
    };
    value.as_array().and_then(|items| items.iter().map(state).collect()).ok_or_else(refused)
}

/// An id or an identifier that stands twice leaves open which record is meant.
fn refuse_doubles(records: &[BoardRecord]) -> Result<(), BoardFlaw> {
    let mut ids = BTreeMap::new();
    let mut identifiers = BTreeMap::new();
    for (index, record) in records.iter().enumerate() {
        let id = record.id.as_ref().map(|id| id.as_str());
        let identifier = record.card.as_ref().ok().map(|card| card.issue.identifier.as_str());
        for (name, seen) in [(id, &mut ids), (identifier, &mut identifiers)] {
            if let Some(name) = name
                && let Some(first) = seen.insert(name, index)
            {
                let message =
                    format!("{name:?} stands twice, in issues[{first}] and issues[{index}]");
                return Err(BoardFlaw { issue: Some(index), message });
            }
        }
    }
    Ok(())
}

fn flaw(message: String) -> BoardFlaw {
    BoardFlaw { issue: None, message }
}
