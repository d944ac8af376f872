//! The state of a service, put together from its events.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use symphony_api::status::{BlockedStatus, RetryStatus, RunningStatus, Status, Summary};
use symphony_core::plain;

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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use serde_json::json;
    use symphony_core::orchestrator::{Configuration, Orchestrator, Restored};
    use symphony_core::time::Now;
    use symphony_core::{Scope, Settings, StateSet};

    use super::*;

    /// The state of a service that does nothing, with these issues waiting.
    fn state(waiting: &[&str]) -> Status {
        let states = |name: &str| StateSet::new([name]);
        let settings = Settings::new("memory", states("Todo"), states("Done"), "/tmp/w".into());
        let configuration = Configuration {
            settings: Arc::new(settings),
            generation: Default::default(),
            scope: Scope::from("board"),
            min_read_gap: Duration::ZERO,
        };
        let (service, _) = Orchestrator::new(configuration, Restored::default(), Now::default());
        let mut status = Status::of(&service.snapshot(Now::default()));
        status.retrying =
            waiting.iter().map(|id| serde_json::from_value(row(id, 1)).unwrap()).collect();
        status
    }

    fn row(id: &str, attempt: u32) -> serde_json::Value {
        json!({"issue_id": id, "issue_identifier": id, "title": "", "issue_url": null, "state": "Todo",
               "attempt": attempt, "due_at": null, "error": null, "unchanged_ends": 0})
    }

    fn event(name: &str, data: &impl serde::Serialize) -> Event {
        let data = serde_json::to_string(data).unwrap();
        Event { id: None, name: name.to_owned(), data }
    }

    fn waiting(state: &State) -> BTreeMap<&str, u32> {
        let status = state.status.as_deref().unwrap();
        status.retrying.iter().map(|row| (row.issue_id.as_str(), row.attempt)).collect()
    }

    #[test]
    fn rule_13_3_rows_come_change_and_go_and_what_was_handed_out_stays() {
        let mut known = State::default();
        let change =
            |id: &str, row| event("row", &json!({"list": "retrying", "issue_id": id, "row": row}));
        assert_eq!(known.apply(&change("b", row("b", 1))).unwrap(), Applied::Changed);
        assert!(known.status.is_none(), "a row of nothing");
        known.apply(&event("state", &state(&["b", "d"]))).unwrap();
        let before = known.status.clone().unwrap();
        for (id, row) in
            [("c", row("c", 1)), ("b", row("b", 7)), ("d", json!(null)), ("x", json!(null))]
        {
            known.apply(&change(id, row)).unwrap();
        }
        assert_eq!(waiting(&known), BTreeMap::from([("b", 7), ("c", 1)]));
        assert_eq!(*before, state(&["b", "d"]));
        let mut paused = state(&[]).summary;
        paused.paused = true;
        known.apply(&event("summary", &paused)).unwrap();
        assert!(known.status.as_ref().unwrap().summary.paused);
        assert_eq!(waiting(&known).len(), 2);
    }

    #[test]
    fn rule_13_1_what_happened_is_told_in_one_plain_line() {
        let notice = json!({"event": "run_started", "message": "in \u{1b}[2J", "issue_id": "1",
                            "issue_identifier": "MT\n1", "run": null});
        let told = State::default().apply(&event("notice", &notice)).unwrap();
        assert_eq!(told, Applied::Told("MT\\n1 run_started in \\u{1b}[2J".to_owned()));
        assert_eq!(State::default().apply(&event("newer", &json!(1))).unwrap(), Applied::Unknown);
        assert!(State::default().apply(&event("state", &json!("hello"))).is_err());
    }
}
