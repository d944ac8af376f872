//! Merges the events of a service into its state.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::SseEvent;
use crate::{IssueHead, NoticeEvent, RowList, StateChange, Status, StreamEventKind};

/// The state of a service as far as its events have told.
#[derive(Debug, Default)]
pub struct MergedState {
    status: Option<Arc<Status>>,
}

/// What an event came to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Applied {
    /// The state differs.
    Changed,
    /// Something happened.
    Notice(NoticeEvent),
    /// The event is of a kind that is newer than this crate.
    Unknown,
}

impl MergedState {
    /// Returns the state; `None` before the first `state` event.
    #[must_use]
    pub const fn status(&self) -> Option<&Arc<Status>> {
        self.status.as_ref()
    }

    /// Merges one event. A state that was handed out stays as it is.
    ///
    /// # Errors
    /// When the event is not one of a service; then the state has to be read anew.
    pub fn apply(&mut self, event: &SseEvent) -> serde_json::Result<Applied> {
        match StreamEventKind::parse(&event.name) {
            Some(StreamEventKind::State) => {
                self.status = Some(serde_json::from_str(&event.data)?);
            }
            Some(StreamEventKind::Notice) => {
                return serde_json::from_str(&event.data).map(Applied::Notice);
            }
            Some(StreamEventKind::Summary) => {
                let summary = serde_json::from_str(&event.data)?;
                if let Some(status) = &mut self.status {
                    Arc::make_mut(status).summary = summary;
                }
            }
            Some(StreamEventKind::Row) => {
                let change: StateChange<'_> = serde_json::from_str(&event.data)?;
                if let Some(status) = &mut self.status {
                    merge_row(&change, Arc::make_mut(status))?;
                }
            }
            None => return Ok(Applied::Unknown),
        }
        Ok(Applied::Changed)
    }
}

fn merge_row(change: &StateChange<'_>, status: &mut Status) -> serde_json::Result<()> {
    match change.list {
        RowList::Running => put(change, &mut status.running, |row| &row.issue),
        RowList::Retrying => put(change, &mut status.retrying, |row| &row.issue),
        RowList::Blocked => put(change, &mut status.blocked, |row| &row.issue),
        RowList::Unknown => Ok(()),
    }
}

/// Rows are in the order of their ids.
fn put<R: DeserializeOwned>(
    change: &StateChange<'_>,
    rows: &mut Vec<R>,
    issue: impl Fn(&R) -> &IssueHead,
) -> serde_json::Result<()> {
    let place = rows.binary_search_by(|row| issue(row).id.as_str().cmp(&change.issue_id));
    match (change.row, place) {
        (Some(row), Ok(at)) => rows[at] = serde_json::from_str(row.get())?,
        (Some(row), Err(at)) => rows.insert(at, serde_json::from_str(row.get())?),
        (None, Ok(at)) => drop(rows.remove(at)),
        (None, Err(_)) => {}
    }
    Ok(())
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
            warnings: Arc::default(),
        };
        let (service, _) = Orchestrator::new(configuration, Restored::default(), Now::default());
        let mut status = Status::from(&service.snapshot(Now::default()));
        status.retrying =
            waiting.iter().map(|id| serde_json::from_value(row(id, 1)).unwrap()).collect();
        status
    }

    fn row(id: &str, attempt: u32) -> serde_json::Value {
        json!({"issue_id": id, "issue_identifier": id, "title": "", "issue_url": null, "state": "Todo",
               "attempt": attempt, "due_at": null, "error": null, "unchanged_ends": 0})
    }

    fn event(name: &str, data: &impl serde::Serialize) -> SseEvent {
        let data = serde_json::to_string(data).unwrap();
        SseEvent { id: None, name: name.to_owned(), data }
    }

    fn waiting(state: &MergedState) -> BTreeMap<&str, u32> {
        let status = state.status.as_deref().unwrap();
        status.retrying.iter().map(|row| (row.issue.id.as_str(), row.attempt)).collect()
    }

    #[test]
    fn rule_13_3_rows_come_change_and_go_and_what_was_handed_out_stays() {
        let mut known = MergedState::default();
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
        let told = MergedState::default().apply(&event("notice", &notice)).unwrap();
        let Applied::Notice(told) = told else { panic!("{told:?}") };
        assert_eq!(told.to_string(), "MT\\n1 run_started in \\u{1b}[2J");
        let newer = MergedState::default().apply(&event("newer", &json!(1))).unwrap();
        assert_eq!(newer, Applied::Unknown);
        assert!(MergedState::default().apply(&event("state", &json!("hello"))).is_err());
    }
}
