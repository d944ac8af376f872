//! The dispatch order of contract 5.3, written a second time.

use symphony_core::Issue;

/// What two candidates are compared by: the lesser starts first.
pub(crate) fn rank(issue: &Issue, retry: bool) -> (i64, bool, i64, &str) {
    let priority = match issue.priority {
        Some(known @ 1..=4) => known,
        _ => 5,
    };
    let created = issue.created_at.map_or(i64::MAX, |at| at.as_unix_millis());
    (priority, !retry, created, issue.identifier.as_str())
}
