//! The state as JSON, kept row by row: of thousands of rows few change at a time, and only those
//! are written again.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::ser::Formatter;
use serde_json::value::RawValue;
use symphony_api::{BlockedStatus, RetryStatus, RunningStatus, StatusOf, Summary, obstacle};
use symphony_core::is_plain;
use symphony_core::snapshot::{BlockedRow, RunningRow, Snapshot, WaitingRow};
use symphony_core::time::Wall;

/// One row as JSON.
pub(crate) type Json = Arc<RawValue>;

/// A snapshot with its rows as JSON, in the snapshot's order.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) running: Vec<Json>,
    pub(crate) retrying: Vec<Json>,
    pub(crate) blocked: Vec<Json>,
}

impl Written {
    pub(crate) fn new(snapshot: &Arc<Snapshot>) -> Self {
        let now = snapshot.now;
        let why = obstacle(snapshot);
        Self {
            running: snapshot.running.iter().map(|row| write(&RunningStatus::of(row))).collect(),
            retrying: snapshot
                .waiting
                .iter()
                .map(|row| write(&RetryStatus::of(row, now, why)))
                .collect(),
            blocked: snapshot.blocked.iter().map(|row| write(&BlockedStatus::of(row))).collect(),
            snapshot: Arc::clone(snapshot),
        }
    }

    /// The same for a later snapshot. A row that says the same is the same.
    pub(crate) fn update(&mut self, snapshot: &Arc<Snapshot>) {
        let (old, now) = (Arc::clone(&self.snapshot), snapshot.now);
        if Arc::ptr_eq(&old, snapshot) {
            return;
        }
        let clock_jumped = has_jumped(&old, snapshot);
        let why = obstacle(snapshot);
        let same_obstacle = obstacle(&old) == why;
        self.running = merge(
            (&old.running, &self.running),
            &snapshot.running,
            |row| row.issue.id.as_str(),
            is_same_run,
            |row| write(&RunningStatus::of(row)),
        );
        self.retrying = merge(
            (&old.waiting, &self.retrying),
            &snapshot.waiting,
            |row| row.issue.id.as_str(),
            |a, b| !clock_jumped && is_same_wait(a, b, same_obstacle),
            |row| write(&RetryStatus::of(row, now, why)),
        );
        self.blocked = merge(
            (&old.blocked, &self.blocked),
            &snapshot.blocked,
            |row| row.issue.id.as_str(),
            is_same_block,
            |row| write(&BlockedStatus::of(row)),
        );
        self.snapshot = Arc::clone(snapshot);
    }

    /// All of it, as of this time: what runs has been running on since the snapshot.
    pub(crate) fn body(&self, wall: Wall) -> Bytes {
        let mut summary = Summary::of(&self.snapshot);
        if let Some(since) = summary.generated_at.until(wall) {
            summary.codex_totals.run_on(since, self.snapshot.running.len());
            summary.generated_at = wall;
        }
        let (running, retrying, blocked) = (&self.running, &self.retrying, &self.blocked);
        let lengths = [running, retrying, blocked].into_iter().flatten();
        let size: usize = lengths.map(|row| row.get().len() + 1).sum();
        let status = StatusOf {
            summary,
            running: running.iter().collect(),
            retrying: retrying.iter().collect(),
            blocked: blocked.iter().collect(),
        };
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

/// Both lists are in the order of their keys: one pass finds what is new or other.
fn merge<R>(
    old: (&[R], &[Json]),
    new: &[R],
    key: impl Fn(&R) -> &str,
    is_same: impl Fn(&R, &R) -> bool,
    write: impl Fn(&R) -> Json,
) -> Vec<Json> {
    let mut known = old.0.iter().zip(old.1).peekable();
    let mut written = Vec::with_capacity(new.len());
    for row in new {
        while known.next_if(|(before, _)| key(before) < key(row)).is_some() {}
        let before = known.next_if(|(before, _)| key(before) == key(row));
        written.push(match before {
            Some((before, json)) if is_same(before, row) => Arc::clone(json),
            Some((_, json)) => {
                let other = write(row);
                if other.get() == json.get() { Arc::clone(json) } else { other }
            }
            None => write(row),
        });
    }
    written
}

fn is_same_run(a: &RunningRow, b: &RunningRow) -> bool {
    let event = |row: &RunningRow| row.last_event.as_ref().map(Arc::as_ptr);
    Arc::ptr_eq(&a.issue, &b.issue)
        && a.run == b.run
        && a.phase == b.phase
        && a.stopping == b.stopping
        && a.stop_overdue == b.stop_overdue
        && a.turns == b.turns
        && a.unrequested_turns == b.unrequested_turns
        && a.finish_by == b.finish_by
        && a.session_id == b.session_id
        && a.pid == b.pid
        && a.tokens == b.tokens
        && event(a) == event(b)
}

fn is_same_wait(a: &WaitingRow, b: &WaitingRow, same_obstacle: bool) -> bool {
    Arc::ptr_eq(&a.issue, &b.issue)
        && a.attempt == b.attempt
        && a.until == b.until
        && a.unchanged_ends == b.unchanged_ends
        && a.failure == b.failure
        && (same_obstacle || a.until.is_some())
}

fn is_same_block(a: &BlockedRow, b: &BlockedRow) -> bool {
    Arc::ptr_eq(&a.issue, &b.issue) && a.why == b.why && a.since == b.since
}

fn write(row: &impl Serialize) -> Json {
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
    use super::*;

    #[test]
    fn rule_13_1_json_holds_nothing_that_steers_a_screen_and_loses_nothing() {
        let foreign = "a\u{1b}[2J\u{202e}b\u{7f}ü\u{e0001}\u{9b}\"\\\n";
        let text = to_string(&foreign);
        assert!(text.chars().all(is_plain), "{text}");
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), foreign);
        assert!(text.contains('ü'));
    }
}
