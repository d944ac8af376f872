//! The tool `update_issue`: an agent moves, labels and comments on its own issue, and no other.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use serde_yaml::{Mapping, Value as Yaml};
use symphony_core::time::Wall;
use symphony_core::tracker::{AgentTools, ToolCall, ToolResult, ToolSpec, TrackerError};
use symphony_core::{Issue, IssueId, Label, StateName};

use crate::board::{Card, Comment, MemoryBoard};
use crate::board_file::BoardError;
use crate::tracker::MemoryTracker;

/// The tool's name.
pub const UPDATE_ISSUE: &str = "update_issue";

/// Bounds of one call, so that no agent fills the memory.
const MAX_COMMENT_BYTES: usize = 64 * 1024;
const MAX_LABELS: usize = 100;
const MAX_LABEL_BYTES: usize = 200;

/// The tools of a [`MemoryTracker`].
#[derive(Debug)]
pub(crate) struct UpdateIssue {
    tracker: MemoryTracker,
}

impl UpdateIssue {
    pub(crate) const fn new(tracker: MemoryTracker) -> Self {
        Self { tracker }
    }
}

#[async_trait]
impl AgentTools for UpdateIssue {
    fn specs(&self) -> Vec<ToolSpec> {
        let known = self.tracker.subscribe().borrow().known_states();
        vec![ToolSpec::new(
            UPDATE_ISSUE,
            "Changes the issue you work on: moves it to another state, replaces its labels, adds a \
             comment. Give at least one of the three.",
            json!({
                "type": "object",
                "properties": {
                    "state": {
                        "type": "string",
                        "description": format!("The state to move it to. Known: {}.", list(&known)),
                    },
                    "labels": {
                        "type": "array",
                        "items": { "type": "string", "maxLength": MAX_LABEL_BYTES },
                        "maxItems": MAX_LABELS,
                        "description": "Its labels from now on, in place of those it has.",
                    },
                    "comment": {
                        "type": "string",
                        "maxLength": MAX_COMMENT_BYTES,
                        "description": "What to note on it.",
                    },
                },
                "minProperties": 1,
                "additionalProperties": false,
            }),
        )]
    }

    async fn call(&self, call: ToolCall) -> ToolResult {
        match self.update(call).await {
            Ok(issue) => {
                ToolResult::success(json!({ "issue": issue }).to_string()).with_change(true)
            }
            Err(refusal) => ToolResult::failure(json!({ "error": refusal.shown() }).to_string()),
        }
    }
}

impl UpdateIssue {
    async fn update(&self, call: ToolCall) -> Result<Value, UpdateRefusal> {
        if call.name != UPDATE_ISSUE {
            return Err(UpdateRefusal::UnknownTool(call.name));
        }
        let change = IssueUpdate::read(call.arguments)?;
        let issue = self.tracker.change(&call.issue.id, change).await?;
        Ok(outline(&issue))
    }
}

/// What the agent is shown of its issue.
fn outline(issue: &Issue) -> Value {
    json!({
        "id": issue.id,
        "identifier": issue.identifier,
        "title": issue.title,
        "state": issue.state,
        "labels": issue.labels,
        "updated_at": issue.updated_at.map(|at| at.to_string()),
    })
}

/// What an agent asks for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IssueUpdate {
    state: Option<StateName>,
    labels: Option<Vec<Label>>,
    comment: Option<String>,
}

impl IssueUpdate {
    fn read(arguments: Value) -> Result<Self, UpdateRefusal> {
        // serde would take a list for the fields in their order.
        if !arguments.is_object() {
            return Err(UpdateRefusal::invalid("must be an object"));
        }
        let change: Self = serde_json::from_value(arguments)
            .map_err(|error| UpdateRefusal::invalid(error.to_string()))?;
        let labels = change.labels.as_deref().unwrap_or_default();
        let comment = change.comment.as_deref();
        if change.state.is_none() && change.labels.is_none() && comment.is_none() {
            Err(UpdateRefusal::invalid("give at least one of state, labels and comment"))
        } else if comment.is_some_and(|text| text.trim().is_empty()) {
            Err(UpdateRefusal::invalid("comment must not be blank"))
        } else if comment.is_some_and(|text| text.len() > MAX_COMMENT_BYTES) {
            Err(UpdateRefusal::invalid(format!(
                "comment must have at most {MAX_COMMENT_BYTES} bytes"
            )))
        } else if labels.len() > MAX_LABELS {
            Err(UpdateRefusal::invalid(format!("at most {MAX_LABELS} labels are allowed")))
        } else if labels.iter().any(|label| label.as_str().len() > MAX_LABEL_BYTES) {
            Err(UpdateRefusal::invalid(format!(
                "a label must have at most {MAX_LABEL_BYTES} bytes"
            )))
        } else {
            Ok(change)
        }
    }

    /// The change as the board can carry it out, with the board's spelling of the state.
    pub(crate) fn checked(&self, board: &MemoryBoard, id: &IssueId) -> Result<Self, UpdateRefusal> {
        board.read(id).ok_or(UpdateRefusal::NotFound)?.map_err(UpdateRefusal::Unreadable)?;
        let known = board.known_states();
        let mut change = self.clone();
        if let Some(wanted) = &mut change.state {
            let Some(state) = known.names().iter().find(|name| *name == wanted) else {
                return Err(UpdateRefusal::UnknownState { wanted: wanted.clone(), known });
            };
            *wanted = state.clone();
        }
        Ok(change)
    }

    pub(crate) fn apply(&self, card: &mut Card, now: Wall) {
        if let Some(state) = &self.state {
            card.issue.state = state.clone();
        }
        if let Some(labels) = &self.labels {
            card.issue.labels = Label::list(labels.iter().map(Label::as_str));
        }
        if let Some(text) = &self.comment {
            card.comments.push(Comment { at: now, text: text.clone() });
        }
    }

    /// Writes what changed into the record of a board file.
    pub(crate) fn write(&self, record: &mut Mapping, card: &Card) {
        let mut set = |key: &str, value: Yaml| record.insert(Yaml::from(key), value);
        if self.state.is_some() {
            set("state", card.issue.state.as_str().into());
        }
        if self.labels.is_some() {
            set(
                "labels",
                card.issue.labels.iter().map(|label| Yaml::from(label.as_str())).collect(),
            );
        }
        if self.comment.is_some() {
            set("comments", card.comments.iter().map(written_comment).collect());
        }
        if let Some(at) = card.issue.updated_at {
            set("updated_at", at.to_string().into());
        }
        // The kind follows from the state: an old one would contradict it.
        if self.state.is_some() {
            record.remove("state_kind");
        }
    }
}

fn written_comment(comment: &Comment) -> Yaml {
    let mut map = Mapping::new();
    map.insert("at".into(), comment.at.to_string().into());
    map.insert("text".into(), comment.text.as_str().into());
    Yaml::Mapping(map)
}

/// Why a call did nothing.
#[derive(Debug)]
pub(crate) enum UpdateRefusal {
    UnknownTool(String),
    InvalidArguments(String),
    UnknownState { wanted: StateName, known: symphony_core::StateSet },
    NotFound,
    Unreadable(String),
    Tracker(TrackerError),
}

impl UpdateRefusal {
    fn invalid(message: impl Into<String>) -> Self {
        Self::InvalidArguments(message.into())
    }

    /// What the agent reads: a code to branch on and a message to act on.
    fn shown(&self) -> Value {
        match self {
            Self::UnknownTool(name) => json!({
                "code": "unknown_tool",
                "message": format!("there is no tool {name:?}"),
                "known_tools": [UPDATE_ISSUE],
            }),
            Self::InvalidArguments(message) => json!({
                "code": "invalid_arguments",
                "message": message,
            }),
            Self::UnknownState { wanted, known } => json!({
                "code": "unknown_state",
                "message": format!("there is no state {wanted:?}. Known: {}.", list(known)),
                "known_states": known,
            }),
            Self::NotFound => json!({
                "code": "issue_not_found",
                "message": "the issue is not on the board any more",
            }),
            Self::Unreadable(why) => json!({
                "code": "issue_unreadable",
                "message": format!("the issue's record cannot be read: {why}"),
            }),
            Self::Tracker(error) => json!({
                "code": error.kind.as_str(),
                "message": error.message,
            }),
        }
    }
}

impl From<TrackerError> for UpdateRefusal {
    fn from(error: TrackerError) -> Self {
        Self::Tracker(error)
    }
}

impl From<BoardError> for UpdateRefusal {
    fn from(error: BoardError) -> Self {
        Self::Tracker(error.into())
    }
}

fn list(states: &symphony_core::StateSet) -> String {
    let names: Vec<&str> = states.names().iter().map(StateName::as_str).collect();
    names.join(", ")
}
