//! The events of `GET /api/v1/events`: first the whole state, then what changes in it.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use symphony_core::orchestrator::Notice;
use symphony_core::plain;

use crate::NoticeText;

/// The kinds of events, by the name in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamEventKind {
    /// The whole state, a [`Status`](crate::Status).
    State,
    /// A [`Summary`](crate::Summary) that differs in more than the time.
    Summary,
    /// A row that is new, differs or is gone: a [`StateChange`].
    Row,
    /// Something happened: a [`NoticeEvent`].
    Notice,
}

impl StreamEventKind {
    /// Returns the name in the stream.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Summary => "summary",
            Self::Row => "row",
            Self::Notice => "notice",
        }
    }

    /// Returns the kind of this name; `None` for one that is newer than this crate.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::State, Self::Summary, Self::Row, Self::Notice]
            .into_iter()
            .find(|kind| kind.as_str() == name)
    }
}

/// The lists of a [`Status`](crate::Status) that are sent row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RowList {
    /// Rows are [`RunningStatus`](crate::RunningStatus).
    Running,
    /// Rows are [`RetryStatus`](crate::RetryStatus).
    Retrying,
    /// Rows are [`BlockedStatus`](crate::BlockedStatus).
    Blocked,
    /// A list that is newer than this crate.
    #[serde(other)]
    Unknown,
}

/// A row that is new or differs, or that is gone from its list.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StateChange<'a> {
    /// The list.
    pub list: RowList,
    /// The tracker's id of the issue.
    #[serde(borrow)]
    pub issue_id: Cow<'a, str>,
    /// The row as JSON; `null` when it is gone from this list.
    #[serde(borrow)]
    pub row: Option<&'a RawValue>,
}

/// Something happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NoticeEvent {
    /// What, as a stable name: the code of a [`NoticeText`].
    pub event: String,
    /// What, in one line.
    pub message: String,
    /// The tracker's id of the issue that it is about, if any.
    pub issue_id: Option<String>,
    /// The human key of the issue.
    pub issue_identifier: Option<String>,
    /// The run that it is about, if any.
    pub run: Option<String>,
}

impl From<&Notice> for NoticeEvent {
    fn from(notice: &Notice) -> Self {
        let text = NoticeText::from(&notice.what);
        let issue = notice.issue.as_ref();
        Self {
            event: text.code.to_owned(),
            message: text.message().to_owned(),
            issue_id: issue.map(|issue| issue.id.as_str().to_owned()),
            issue_identifier: issue.map(|issue| issue.identifier.as_str().to_owned()),
            run: notice.run.map(|run| run.to_string()),
        }
    }
}

impl fmt::Display for NoticeEvent {
    /// Writes one plain line, whatever the service sent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.issue_identifier {
            write!(f, "{} ", plain(name, 60))?;
        }
        write!(f, "{} {}", plain(&self.event, 60), plain(&self.message, 500))
    }
}
