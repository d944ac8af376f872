//! The issue as every tracker presents it (contract section 1).

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::text::{text_newtype, trim_lowercase};
use crate::time::Wall;

text_newtype! {
    /// The tracker's own id of an issue: opaque and stable.
    IssueId
}

text_newtype! {
    /// The key people use, such as `MT-42`: unique within the tracker's scope.
    Identifier
}

/// A state's name: shown as the tracker spells it, compared trimmed and lowercased.
///
/// ```
/// use symphony_core::StateName;
/// assert_eq!(StateName::new("In Progress"), StateName::new(" in progress "));
/// assert_eq!(StateName::new("In Progress").as_str(), "In Progress");
/// ```
#[derive(Clone)]
pub struct StateName {
    spelling: Arc<str>,
    key: Arc<str>,
}

impl StateName {
    /// Keeps the spelling and derives the key that comparisons use.
    #[must_use]
    pub fn new(spelling: impl Into<Arc<str>>) -> Self {
        let spelling = spelling.into();
        let folded = trim_lowercase(&spelling);
        let key = if *folded == *spelling { Arc::clone(&spelling) } else { folded.into() };
        Self { spelling, key }
    }

    /// The tracker's spelling.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.spelling
    }

    /// The trimmed, lowercased form.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whether nothing is left after trimming.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.key.is_empty()
    }
}

impl PartialEq for StateName {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for StateName {}

impl PartialOrd for StateName {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for StateName {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

impl Hash for StateName {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.key.hash(hasher);
    }
}

impl fmt::Debug for StateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spelling.fmt(f)
    }
}

impl fmt::Display for StateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.spelling)
    }
}

impl From<&str> for StateName {
    fn from(spelling: &str) -> Self {
        Self::new(spelling)
    }
}

impl Serialize for StateName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.spelling)
    }
}

impl<'de> Deserialize<'de> for StateName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

/// A label, trimmed and lowercased.
///
/// A blank one can be required, and then matches no issue, because issues never carry one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Label(Arc<str>);

impl Label {
    /// Normalises the text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(trim_lowercase(text).into())
    }

    /// The normalised text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether nothing is left after trimming.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.0.is_empty()
    }

    /// An issue's labels: normalised, without blanks and duplicates, in the tracker's order.
    #[must_use]
    pub fn list<I: IntoIterator>(texts: I) -> Vec<Self>
    where
        I::Item: AsRef<str>,
    {
        let mut labels = Vec::new();
        for text in texts {
            let label = Self::new(text.as_ref());
            if !label.is_blank() && !labels.contains(&label) {
                labels.push(label);
            }
        }
        labels
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Label {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self::new(&text))
    }
}

/// What a state means, where the tracker tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateKind {
    /// Not planned yet.
    Backlog,
    /// Planned, not begun.
    Unstarted,
    /// Being worked on.
    Started,
    /// Done.
    Completed,
    /// Given up.
    Cancelled,
}

impl StateKind {
    /// Whether no more work is expected.
    #[must_use]
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled)
    }
}

/// An issue that must be done before another may start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocker {
    /// The blocker's id, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<IssueId>,
    /// The blocker's human key, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identifier: Option<Identifier>,
    /// The blocker's state, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StateName>,
    /// What that state means, where the tracker tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_kind: Option<StateKind>,
}

/// One issue, as last read from the tracker.
///
/// [`Issue::new`] takes what every issue must have and refuses a record without it (contract
/// 1.3); the rest starts empty and is set field by field.
///
/// ```
/// use symphony_core::{Issue, Label};
/// let mut issue = Issue::new("id-1", "MT-1", "Fix the door", "Todo").unwrap();
/// issue.priority = Some(2);
/// issue.labels = Label::list(["Bug", " bug ", ""]);
/// assert_eq!(issue.labels.len(), 1);
/// assert!(Issue::new("id-1", "MT-1", "  ", "Todo").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Issue {
    /// The tracker's id.
    pub id: IssueId,
    /// The human key.
    pub identifier: Identifier,
    /// The title, in one line.
    pub title: String,
    /// The state, as the tracker spells it.
    pub state: StateName,
    /// What the state means, where the tracker tells.
    #[serde(default)]
    pub state_kind: Option<StateKind>,
    /// 1 (urgent) to 4 (low); anything else sorts after those.
    #[serde(default)]
    pub priority: Option<i64>,
    /// When it was created.
    #[serde(default)]
    pub created_at: Option<Wall>,
    /// When it last changed.
    #[serde(default)]
    pub updated_at: Option<Wall>,
    /// The adapter's verdict on tracker-specific rules such as assignee or membership.
    #[serde(default = "default_true")]
    pub dispatchable: bool,
    /// The rule that makes it not dispatchable, in words for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_back_by: Option<String>,
    /// Labels, normalised by [`Label::list`].
    #[serde(default, deserialize_with = "deserialize_labels")]
    pub labels: Vec<Label>,
    /// The issues that must be done before this one may start.
    #[serde(default)]
    pub blocked_by: Vec<Blocker>,
    /// The body.
    #[serde(default)]
    pub description: Option<String>,
    /// The branch the tracker suggests.
    #[serde(default)]
    pub branch_name: Option<String>,
    /// The address of its page in the tracker.
    #[serde(default)]
    pub url: Option<String>,
    /// The user it is assigned to.
    #[serde(default)]
    pub assignee_id: Option<String>,
    /// Non-secret ids that the tracker's own tools need; never read by the core.
    #[serde(default)]
    pub native_ref: Option<Map<String, Value>>,
}

fn default_true() -> bool {
    true
}

fn deserialize_labels<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Label>, D::Error> {
    Vec::<String>::deserialize(deserializer).map(Label::list)
}

impl Issue {
    /// Creates an issue of the fields that every issue must have; the others are empty.
    ///
    /// # Errors
    /// [`MalformedIssue`] names the fields that are empty.
    pub fn new(
        id: &str,
        identifier: &str,
        title: &str,
        state: &str,
    ) -> Result<Self, MalformedIssue> {
        let issue = Self {
            id: id.into(),
            identifier: identifier.into(),
            title: title.to_owned(),
            state: state.into(),
            state_kind: None,
            priority: None,
            created_at: None,
            updated_at: None,
            dispatchable: true,
            kept_back_by: None,
            labels: Vec::new(),
            blocked_by: Vec::new(),
            description: None,
            branch_name: None,
            url: None,
            assignee_id: None,
            native_ref: None,
        };
        let missing: Vec<_> = issue.missing_fields().collect();
        if missing.is_empty() { Ok(issue) } else { Err(MalformedIssue { id: issue.id, missing }) }
    }

    /// Whether everything an issue must have is there (contract 5.1).
    #[must_use]
    pub fn is_well_formed(&self) -> bool {
        self.missing_fields().next().is_none()
    }

    fn missing_fields(&self) -> impl Iterator<Item = &'static str> {
        // As a rule the first character answers; a trim would look at both ends.
        let is_blank = |text: &str| text.chars().all(char::is_whitespace);
        let fields = [
            ("id", self.id.as_str()),
            ("identifier", self.identifier.as_str()),
            ("title", self.title.as_str()),
            ("state", self.state.as_str()),
        ];
        fields.into_iter().filter(move |(_, text)| is_blank(text)).map(|(name, _)| name)
    }
}

/// A record without everything an issue must have (contract 1.3).
///
/// A list read drops it with one log line; a read by id reports it as unreadable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("issue record {:?} has no {}", id.as_str(), missing.join(", "))]
pub struct MalformedIssue {
    /// The record's id, possibly empty.
    pub id: IssueId,
    /// The fields that are empty.
    pub missing: Vec<&'static str>,
}
