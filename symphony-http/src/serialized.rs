//! The state as JSON, kept row by row: of thousands of rows few change at a time, and only those
//! are serialised again.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::ser::Formatter;
use serde_json::value::RawValue;
use symphony_api::{BlockedStatus, RetryStatus, RunningStatus, StatusOf, Summary, obstacle};
use symphony_core::snapshot::{RunningRow, Snapshot, WaitingRow};
use symphony_core::time::Wall;
use symphony_core::{Issue, IssueId, is_plain};

/// One row as JSON.
#[derive(Clone, Debug)]
pub(crate) struct SerializedRow {
    /// The issue: rows are in the order of their ids.
    pub(crate) id: IssueId,
    pub(crate) json: Arc<RawValue>,
}

/// A snapshot with its rows as JSON, in the snapshot's order.
#[derive(Clone, Debug)]
pub(crate) struct SerializedState {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) running: Vec<SerializedRow>,
    pub(crate) retrying: Vec<SerializedRow>,
    pub(crate) blocked: Vec<SerializedRow>,
}

impl SerializedState {
    pub(crate) fn new(snapshot: &Arc<Snapshot>) -> Self {
        Self::build(snapshot, None)
    }

    /// Serialises a later snapshot; rows that say the same stay the same.
    pub(crate) fn update(&mut self, snapshot: &Arc<Snapshot>) {
        if !Arc::ptr_eq(&self.snapshot, snapshot) {
            *self = Self::build(snapshot, Some(self));
        }
    }

    fn build(snapshot: &Arc<Snapshot>, before: Option<&Self>) -> Self {
        let (now, why) = (snapshot.now, obstacle(snapshot));
        let old = before.map(|before| &*before.snapshot);
        let same_clock = old.is_some_and(|old| !has_jumped(old, snapshot));
        let same_obstacle = old.is_some_and(|old| obstacle(old) == why);
        let is_same_wait = |a: &WaitingRow, b: &WaitingRow| {
            a == b && same_clock && (same_obstacle || a.until.is_some())
        };
        Self {
            snapshot: Arc::clone(snapshot),
            running: serialize_rows(
                before.map(|before| (&*before.snapshot.running, &*before.running)),
                &snapshot.running,
                |row| &row.issue,
                is_same_run,
                |row| RunningStatus::from(row),
            ),
            retrying: serialize_rows(
                before.map(|before| (&*before.snapshot.waiting, &*before.retrying)),
                &snapshot.waiting,
                |row| &row.issue,
                is_same_wait,
                |row| RetryStatus::new(row, now, why),
            ),
            blocked: serialize_rows(
                before.map(|before| (&*before.snapshot.blocked, &*before.blocked)),
                &snapshot.blocked,
                |row| &row.issue,
                PartialEq::eq,
                |row| BlockedStatus::from(row),
            ),
        }
    }

    /// Returns all of it as of this time: what runs has been running on since the snapshot.
    pub(crate) fn body(&self, wall: Wall) -> Bytes {
        let mut summary = Summary::from(&*self.snapshot);
        if let Some(since) = summary.generated_at.until(wall) {
            summary.codex_totals.run_on(since, self.snapshot.running.len());
            summary.generated_at = wall;
        }
        let lists = [&self.running, &self.retrying, &self.blocked];
        let size: usize = lists.into_iter().flatten().map(|row| row.json.get().len() + 1).sum();
        let [running, retrying, blocked] =
            lists.map(|rows| rows.iter().map(|row| &row.json).collect());
        let status: StatusOf<&Arc<RawValue>, &Arc<RawValue>, &Arc<RawValue>> =
            StatusOf::new(summary, running, retrying, blocked);
        let mut out = Vec::with_capacity(size + 16 * 1024);
        to_writer(&mut out, &status);
        Bytes::from(out)
    }
}

/// Whether the wall clock was set: then deadlines are other times of day.
fn has_jumped(old: &Snapshot, new: &Snapshot) -> bool {
    let passed = new.now.mono.since(old.now.mono);
    let expected = old.now.wall + passed;
    expected.as_unix_millis().abs_diff(new.now.wall.as_unix_millis()) > 1_000
}

/// Whether two rows show the same run: a sign of life is not shown.
fn is_same_run(a: &RunningRow, b: &RunningRow) -> bool {
    *a == RunningRow { last_alive: a.last_alive, ..b.clone() }
}

/// Serialises the rows that are new or differ. Both lists are in the order of their issues' ids, so
/// that one pass finds them.
fn serialize_rows<R, S: Serialize>(
    old: Option<(&[R], &[SerializedRow])>,
    new: &[R],
    issue: impl Fn(&R) -> &Arc<Issue>,
    is_same: impl Fn(&R, &R) -> bool,
    status: impl Fn(&R) -> S,
) -> Vec<SerializedRow> {
    let (rows, jsons) = old.unwrap_or_default();
    let mut known = rows.iter().zip(jsons).peekable();
    let mut serialized = Vec::with_capacity(new.len());
    for row in new {
        let id = &issue(row).id;
        while known.next_if(|(_, before)| before.id < *id).is_some() {}
        let before = known.next_if(|(_, before)| before.id == *id);
        // An issue that was read again may be spelled otherwise, though it compares as equal.
        let is_same = |old: &R| Arc::ptr_eq(issue(old), issue(row)) && is_same(old, row);
        serialized.push(match before {
            Some((old, before)) if is_same(old) => before.clone(),
            _ => {
                let json = serialize(&status(row));
                let before = before.map(|(_, before)| before);
                match before.filter(|before| before.json.get() == json.get()) {
                    Some(before) => before.clone(),
                    None => SerializedRow { id: id.clone(), json },
                }
            }
        });
    }
    serialized
}

fn serialize(row: &impl Serialize) -> Arc<RawValue> {
    let text = to_string(row);
    RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned()).into()
}

/// JSON in which nothing steers a screen: what is not plain is escaped.
pub(crate) fn to_string(value: &impl Serialize) -> String {
    let mut out = Vec::with_capacity(512);
    to_writer(&mut out, value);
    String::from_utf8(out).unwrap_or_default()
}

fn to_writer(out: &mut Vec<u8>, value: &impl Serialize) {
    let mut serializer = serde_json::Serializer::with_formatter(out, Plain);
    let written = value.serialize(&mut serializer);
    debug_assert!(written.is_ok(), "our own shapes can be written: {written:?}");
}

/// Writes what is not plain as an escape, which reads back as the same.
struct Plain;

impl Formatter for Plain {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if fragment.is_ascii() {
            // Controls never come here: they are escaped in any case. One is not: DEL.
            if !fragment.contains('\u{7f}') {
                return writer.write_all(fragment.as_bytes());
            }
        }
        let mut rest = fragment;
        while let Some((at, odd)) = rest.char_indices().find(|(_, c)| !is_plain(*c)) {
            writer.write_all(&rest.as_bytes()[..at])?;
            for unit in odd.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = &rest[at + odd.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use symphony_core::orchestrator::{Configuration, Orchestrator, Restored};
    use symphony_core::time::{Mono, Now};
    use symphony_core::{Scope, Settings, StateSet};

    use super::*;

    fn row() -> RunningRow {
        let row = json!({
            "issue": {"id": "1", "identifier": "MT-1", "title": "Sand the door", "state": "Todo"},
            "run": {"boot": 1, "number": 1}, "attempt": null, "host": "local", "key": "MT-1",
            "phase": "streaming_turn", "stopping": null, "stop_overdue": false,
            "started": {"mono": 5, "wall": 5}, "turns": 1, "max_turns": 20, "unrequested_turns": 0,
            "finish_by": null, "thread": "t", "session_id": "t-1", "pid": null,
            "tokens": {"input": 0, "cached_input": 0, "output": 0, "reasoning_output": 0, "total": 0},
            "last_event": null, "last_alive": 17,
        });
        serde_json::from_value(row).unwrap()
    }

    /// The snapshot of a service in which only this runs.
    fn snapshot(row: RunningRow) -> Arc<Snapshot> {
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
        let mut snapshot = service.snapshot(Now::default());
        snapshot.running = vec![row];
        Arc::new(snapshot)
    }

    /// Whether a run that becomes this is serialised again.
    fn is_serialized_again(change: impl Fn(&mut RunningRow)) -> bool {
        let (before, mut after) = (row(), row());
        after.issue = Arc::clone(&before.issue);
        change(&mut after);
        let mut state = SerializedState::new(&snapshot(before));
        let json = Arc::clone(&state.running[0].json);
        state.update(&snapshot(after));
        !Arc::ptr_eq(&json, &state.running[0].json)
    }

    #[test]
    fn rule_13_3_a_row_that_differs_in_any_field_that_is_shown_is_serialized_again() {
        let changes: [fn(&mut RunningRow); 6] = [
            |row| row.attempt = Some(1),
            |row| row.max_turns = 21,
            |row| row.host = "elsewhere".into(),
            |row| row.started.wall = Wall::from_unix_millis(1_000),
            |row| row.turns = 2,
            |row| Arc::make_mut(&mut row.issue).state = "TODO".into(),
        ];
        for (at, change) in changes.into_iter().enumerate() {
            assert!(is_serialized_again(change), "change {at}");
        }
        assert!(!is_serialized_again(|_| {}));
        assert!(!is_serialized_again(|row| row.last_alive = Mono::from_millis(99)));
        assert!(!is_serialized_again(|row| row.issue = Arc::new((*row.issue).clone())));
    }

    #[test]
    fn rule_13_1_json_holds_nothing_that_steers_a_screen_and_loses_nothing() {
        let foreign = "a\u{1b}[2J\u{202e}b\u{7f}ü\u{e0001}\u{9b}\"\\\n";
        let text = to_string(&foreign);
        assert!(text.chars().all(is_plain), "{text}");
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), foreign);
        assert!(text.contains('ü'));
    }
}
