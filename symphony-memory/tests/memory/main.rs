//! The memory tracker: contract sections 1, 11.1, 11.2, 11.5 and 11.6.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

mod board;
mod board_file;
mod factory;
mod faults;
mod profile;
mod reads;
mod tool;

use symphony_core::time::Wall;
use symphony_core::{Issue, IssueId};
use symphony_memory::{BoardClock, MemoryTracker};

/// A clock that stands still.
fn clock() -> BoardClock {
    BoardClock::new(|| at(0))
}

/// A moment, in milliseconds after one that never changes.
fn at(millis: i64) -> Wall {
    Wall::from_unix_millis(1_772_000_000_000 + millis)
}

fn board() -> MemoryTracker {
    MemoryTracker::with_clock(clock())
}

/// Issue `MT-<n>` with the id `<n>`.
fn issue(number: u32, state: &str) -> Issue {
    let title = format!("Issue {number}");
    Issue::new(&number.to_string(), &format!("MT-{number}"), &title, state).unwrap()
}

fn ids(texts: &[&str]) -> Vec<IssueId> {
    texts.iter().map(|text| IssueId::from(*text)).collect()
}

fn identifiers(issues: &[Issue]) -> Vec<&str> {
    issues.iter().map(|issue| issue.identifier.as_str()).collect()
}
