//! Pure questions about one issue: may it start, where does it stand, how long does it wait.

use std::time::Duration;

use crate::issue::{Blocker, Issue, Label, StateKind, StateName};
use crate::settings::TrackerSettings;
use crate::time::Wall;

/// The wait after a normal end (contract 7.1).
pub const CONTINUATION_DELAY: Duration = Duration::from_millis(1000);

/// The wait before the given attempt: 10 s, doubled with each one, at most `max` (contract 7.2).
///
/// ```
/// use std::time::Duration;
/// use symphony_core::policy::backoff;
/// let max = Duration::from_secs(300);
/// assert_eq!(backoff(1, max), Duration::from_secs(10));
/// assert_eq!(backoff(3, max), Duration::from_secs(40));
/// assert_eq!(backoff(u32::MAX, max), max);
/// ```
#[must_use]
pub fn backoff(attempt: u32, max: Duration) -> Duration {
    let doublings = attempt.saturating_sub(1).min(40);
    Duration::from_millis(10_000 << doublings).min(max)
}

/// Where an issue stands with respect to the settings (contract 1.2, 8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its state is terminal.
    Terminal,
    /// Its state is active and it is routable.
    Active,
    /// Anything else.
    Inactive,
}

/// Where the issue stands.
#[must_use]
pub fn standing(issue: &Issue, tracker: &TrackerSettings) -> Standing {
    if tracker.terminal_states.contains(&issue.state) {
        Standing::Terminal
    } else if tracker.active_states.contains(&issue.state) && is_routable(issue, tracker) {
        Standing::Active
    } else {
        Standing::Inactive
    }
}

/// Names of terminal states in which nothing was completed, where a tracker does not tell.
const DISCARDED_STATES: [&str; 4] = ["cancelled", "canceled", "duplicate", "closed"];

/// Whether the issue is over because its work is done (contract 6.4).
#[must_use]
pub fn is_completed(issue: &Issue, tracker: &TrackerSettings) -> bool {
    match issue.state_kind {
        Some(kind) => kind == StateKind::Completed,
        None => tracker.terminal_states.contains(&issue.state) && !is_discarded(issue),
    }
}

/// Whether the issue is over without its work being done.
#[must_use]
pub fn is_discarded(issue: &Issue) -> bool {
    match issue.state_kind {
        Some(kind) => kind == StateKind::Cancelled,
        None => DISCARDED_STATES.contains(&issue.state.key()),
    }
}

/// Whether the adapter lets it through and it has every required label.
#[must_use]
pub fn is_routable(issue: &Issue, tracker: &TrackerSettings) -> bool {
    issue.dispatchable && missing_label(issue, tracker).is_none()
}

/// The first required label that the issue lacks.
#[must_use]
pub fn missing_label<'a>(issue: &Issue, tracker: &'a TrackerSettings) -> Option<&'a Label> {
    tracker.required_labels.iter().find(|label| !issue.labels.contains(label))
}

/// Whether an issue in this state keeps none that wait for it any more (contract 5.2).
#[must_use]
pub fn is_over(
    state: Option<&StateName>,
    kind: Option<StateKind>,
    tracker: &TrackerSettings,
) -> bool {
    kind.is_some_and(StateKind::is_over)
        || state.is_some_and(|state| tracker.terminal_states.contains(state))
}

/// The first blocker that keeps the issue from starting (contract 5.2).
#[must_use]
pub fn open_blocker<'a>(issue: &'a Issue, tracker: &TrackerSettings) -> Option<&'a Blocker> {
    let waits = match issue.state_kind {
        Some(kind) => kind == StateKind::Unstarted,
        None => issue.state.key() == "todo",
    };
    let is_done = |blocker: &Blocker| is_over(blocker.state.as_ref(), blocker.state_kind, tracker);
    if waits { issue.blocked_by.iter().find(|blocker| !is_done(blocker)) } else { None }
}

/// A place in the order of dispatch; the least goes first (contract 5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank<'a> {
    priority: u8,
    is_fresh: bool,
    created_at: Wall,
    identifier: &'a str,
    id: &'a str,
}

impl<'a> Rank<'a> {
    /// The place of an issue that was not tried yet.
    #[must_use]
    pub fn fresh(issue: &'a Issue) -> Self {
        let priority = match issue.priority {
            Some(1) => 1,
            Some(2) => 2,
            Some(3) => 3,
            Some(4) => 4,
            _ => 5,
        };
        Self {
            priority,
            is_fresh: true,
            created_at: issue.created_at.unwrap_or(Wall::from_unix_millis(i64::MAX)),
            identifier: issue.identifier.as_str(),
            id: issue.id.as_str(),
        }
    }

    /// The place of a due retry: before fresh issues of its priority.
    #[must_use]
    pub fn retry(issue: &'a Issue) -> Self {
        Self { is_fresh: false, ..Self::fresh(issue) }
    }
}
