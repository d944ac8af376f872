//! The event stream of the API: the whole state, then what changes in it.

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use symphony_api::{NoticeEvent, RowList, StateChange, StreamEventKind, Summary};
use symphony_core::IssueId;
use symphony_core::orchestrator::Notice;
use symphony_core::snapshot::{BlockedRow, RunningRow, Snapshot, WaitingRow};

use crate::hub::{Event, Feed};
use crate::written::{Json, Written, to_string};

/// What was told of the state.
#[derive(Debug, Default)]
pub(crate) struct StateFeed {
    told: Option<Written>,
    summary: Option<Arc<Summary>>,
}

impl Feed for StateFeed {
    fn changes(&mut self, snapshot: &Arc<Snapshot>, notices: &[Arc<Notice>]) -> Vec<Event> {
        let mut events: Vec<Event> = notices
            .iter()
            .map(|notice| event(StreamEventKind::Notice, &NoticeEvent::from(&**notice)))
            .collect();
        let Some(before) = self.told.take() else {
            self.summary = Some(Arc::new(Summary::of(snapshot)));
            self.told = Some(Written::new(snapshot));
            events.extend(self.whole());
            return events;
        };
        let mut now = before.clone();
        now.update(snapshot);
        let (old, new) = (&before.snapshot, &now.snapshot);
        let running = |row: &RunningRow| row.issue.id.clone();
        let (was, is) = ((&*old.running, &*before.running), (&*new.running, &*now.running));
        differences(RowList::Running, was, is, running, &mut events);
        let waiting = |row: &WaitingRow| row.issue.id.clone();
        let (was, is) = ((&*old.waiting, &*before.retrying), (&*new.waiting, &*now.retrying));
        differences(RowList::Retrying, was, is, waiting, &mut events);
        let blocked = |row: &BlockedRow| row.issue.id.clone();
        let (was, is) = ((&*old.blocked, &*before.blocked), (&*new.blocked, &*now.blocked));
        differences(RowList::Blocked, was, is, blocked, &mut events);
        let summary = Summary::of(snapshot);
        if self.summary.as_deref().is_none_or(|told| !says_the_same(told, &summary)) {
            events.push(event(StreamEventKind::Summary, &summary));
            self.summary = Some(Arc::new(summary));
        }
        self.told = Some(now);
        events
    }

    fn whole(&self) -> Vec<Event> {
        let Some(told) = &self.told else { return Vec::new() };
        let body: Bytes = told.body(told.snapshot.now.wall);
        let data = String::from_utf8(body.into()).unwrap_or_default();
        vec![Event { name: StreamEventKind::State.as_str(), data }]
    }

    fn reset(&mut self) {
        *self = Self::default();
    }
}

fn event(kind: StreamEventKind, data: &impl Serialize) -> Event {
    Event { name: kind.as_str(), data: to_string(data) }
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

/// What one list has that the other has not, row by row. Both are in the order of their ids.
fn differences<R>(
    list: RowList,
    was: (&[R], &[Json]),
    is: (&[R], &[Json]),
    id: impl Fn(&R) -> IssueId,
    events: &mut Vec<Event>,
) {
    let mut tell = |id: &IssueId, row: Option<&Json>| {
        let issue_id = id.as_str().into();
        let change = StateChange { list, issue_id, row: row.map(|row| &**row) };
        events.push(event(StreamEventKind::Row, &change));
    };
    let mut old = was.0.iter().zip(was.1).map(|(row, json)| (id(row), json)).peekable();
    for (row, json) in is.0.iter().zip(is.1) {
        let id = id(row);
        while let Some((gone, _)) = old.next_if(|(other, _)| *other < id) {
            tell(&gone, None);
        }
        let before = old.next_if(|(other, _)| *other == id);
        if before.is_none_or(|(_, before)| !Arc::ptr_eq(before, json)) {
            tell(&id, Some(json));
        }
    }
    old.for_each(|(gone, _)| tell(&gone, None));
}
