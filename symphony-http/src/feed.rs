//! The event stream of the API: the whole state, then what changes in it.

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use symphony_api::{NoticeEvent, RowList, StateChange, StreamEventKind, Summary};
use symphony_core::IssueId;
use symphony_core::orchestrator::Notice;
use symphony_core::snapshot::Snapshot;

use crate::hub::{Feed, HubEvent};
use crate::serialized::{SerializedRow, SerializedState, to_string};

/// What was told of the state.
#[derive(Debug, Default)]
pub(crate) struct StateFeed {
    told: Option<SerializedState>,
    summary: Option<Arc<Summary>>,
}

impl Feed for StateFeed {
    fn changes(&mut self, snapshot: &Arc<Snapshot>, notices: &[Arc<Notice>]) -> Vec<HubEvent> {
        let mut events: Vec<HubEvent> = notices
            .iter()
            .map(|notice| event(StreamEventKind::Notice, &NoticeEvent::from(&**notice)))
            .collect();
        let Some(before) = self.told.take() else {
            self.summary = Some(Arc::new(Summary::from(&**snapshot)));
            self.told = Some(SerializedState::new(snapshot));
            events.extend(self.whole());
            return events;
        };
        let mut now = before.clone();
        now.update(snapshot);
        differences(RowList::Running, &before.running, &now.running, &mut events);
        differences(RowList::Retrying, &before.retrying, &now.retrying, &mut events);
        differences(RowList::Blocked, &before.blocked, &now.blocked, &mut events);
        let summary = Summary::from(&**snapshot);
        if self.summary.as_deref().is_none_or(|told| !says_the_same(told, &summary)) {
            events.push(event(StreamEventKind::Summary, &summary));
            self.summary = Some(Arc::new(summary));
        }
        self.told = Some(now);
        events
    }

    fn whole(&self) -> Vec<HubEvent> {
        let Some(told) = &self.told else { return Vec::new() };
        let body: Bytes = told.body(told.snapshot.now.wall);
        let data = String::from_utf8(body.into()).unwrap_or_default();
        vec![HubEvent { name: StreamEventKind::State.as_str(), data }]
    }

    fn reset(&mut self) {
        *self = Self::default();
    }
}

fn event(kind: StreamEventKind, data: &impl Serialize) -> HubEvent {
    HubEvent { name: kind.as_str(), data: to_string(data) }
}

/// Whether two summaries differ in nothing but the time.
fn says_the_same(a: &Summary, b: &Summary) -> bool {
    let timeless = |summary: &Summary| {
        let mut summary = summary.clone();
        summary.generated_at = Default::default();
        summary.codex_totals.seconds_running = 0.0;
        summary
    };
    timeless(a) == timeless(b)
}

/// Tells what one list has that the other has not, row by row. Both are in the order of their ids.
fn differences(
    list: RowList,
    before: &[SerializedRow],
    now: &[SerializedRow],
    events: &mut Vec<HubEvent>,
) {
    let mut tell = |id: &IssueId, row: Option<&RawValue>| {
        let change = StateChange { list, issue_id: id.as_str().into(), row };
        events.push(event(StreamEventKind::Row, &change));
    };
    let mut before = before.iter().peekable();
    for row in now {
        while let Some(gone) = before.next_if(|other| other.id < row.id) {
            tell(&gone.id, None);
        }
        let known = before.next_if(|other| other.id == row.id);
        if known.is_none_or(|known| !Arc::ptr_eq(&known.json, &row.json)) {
            tell(&row.id, Some(&row.json));
        }
    }
    before.for_each(|gone| tell(&gone.id, None));
}
