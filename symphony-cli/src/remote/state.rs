//! The state of a service, put together from its events.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use symphony_core::plain;
use symphony_core::status::{BlockedStatus, RetryStatus, RunningStatus, Status, Summary};

use super::events::Event;

/// What is known so far.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) status: Option<Arc<Status>>,
}

/// What an event came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Applied {
    /// The state is another.
    Changed,
    /// Something happened, in one line.
    Told(String),
    /// It is of a kind that is not known here.
    Unknown,
}

/// One row is another, or gone.
#[derive(Deserialize)]
struct Change<'a> {
    list: String,
    issue_id: String,
    #[serde(borrow)]
    row: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Happening {
    event: String,
    message: String,
    issue_identifier: Option<String>,
}

impl State {
    /// Takes in one event.
    pub(super) fn apply(&mut self, event: &Event) -> serde_json::Result<Applied> {
        match event.name.as_str() {
            "state" => self.status = Some(serde_json::from_str(&event.data)?),
            "notice" => {
                let told: Happening = serde_json::from_str(&event.data)?;
                let who = told.issue_identifier.map(|name| plain(&name, 60) + " ");
                let (what, message) = (plain(&told.event, 60), plain(&told.message, 500));
                let text = format!("{}{what} {message}", who.unwrap_or_default());
                return Ok(Applied::Told(text));
            }
            "summary" => {
                let summary: Summary = serde_json::from_str(&event.data)?;
                if let Some(status) = &mut self.status {
                    Arc::make_mut(status).summary = summary;
                }
            }
            "row" => {
                let change: Change<'_> = serde_json::from_str(&event.data)?;
                if let Some(status) = &mut self.status {
                    change.apply(Arc::make_mut(status))?;
                }
            }
            _ => return Ok(Applied::Unknown),
        }
        Ok(Applied::Changed)
    }
}

impl Change<'_> {
    fn apply(&self, status: &mut Status) -> serde_json::Result<()> {
        match self.list.as_str() {
            "running" => self.put(&mut status.running, |row: &RunningStatus| &row.issue_id),
            "retrying" => self.put(&mut status.retrying, |row: &RetryStatus| &row.issue_id),
            "blocked" => self.put(&mut status.blocked, |row: &BlockedStatus| &row.issue_id),
            _ => Ok(()),
        }
    }

    /// Rows are in the order of their ids.
    fn put<R: DeserializeOwned>(
        &self,
        rows: &mut Vec<R>,
        id: impl Fn(&R) -> &String,
    ) -> serde_json::Result<()> {
        let place = rows.binary_search_by(|row| id(row).cmp(&self.issue_id));
        match (self.row, place) {
            (Some(row), Ok(at)) => rows[at] = serde_json::from_str(row.get())?,
            (Some(row), Err(at)) => rows.insert(at, serde_json::from_str(row.get())?),
            (None, Ok(at)) => drop(rows.remove(at)),
            (None, Err(_)) => {}
        }
        Ok(())
    }
}
