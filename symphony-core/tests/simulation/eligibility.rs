//! Contract 5.1 and 5.2, written a second time: what stands in an issue's own way.

use symphony_core::snapshot::Reason;
use symphony_core::{Blocker, Issue, Settings, StateKind, StateName, WorkspaceKey};

/// Whether the state is active and not terminal.
pub(crate) fn is_active(state: &StateName, settings: &Settings) -> bool {
    settings.tracker.active_states.contains(state) && !is_terminal(state, settings)
}

/// Whether the state is terminal.
pub(crate) fn is_terminal(state: &StateName, settings: &Settings) -> bool {
    settings.tracker.terminal_states.contains(state)
}

/// Whether the adapter and the labels let it be worked on (1.2).
pub(crate) fn is_routable(issue: &Issue, settings: &Settings) -> bool {
    let required = &settings.tracker.required_labels;
    issue.dispatchable && required.iter().all(|label| issue.labels.contains(label))
}

/// The blockers that are not done, if they matter in the issue's state (5.2).
pub(crate) fn open_blockers<'a>(issue: &'a Issue, settings: &Settings) -> Vec<&'a Blocker> {
    let gated = match issue.state_kind {
        Some(kind) => kind == StateKind::Unstarted,
        None => issue.state.key() == "todo",
    };
    let done = |blocker: &Blocker| {
        blocker.state_kind.is_some_and(StateKind::is_over)
            || blocker.state.as_ref().is_some_and(|state| is_terminal(state, settings))
    };
    let open = issue.blocked_by.iter().filter(|blocker| !done(blocker));
    if gated { open.collect() } else { Vec::new() }
}

/// The first thing about the issue itself that keeps it from starting, in the order of [`Reason`].
pub(crate) fn obstacle(issue: &Issue, settings: &Settings, has_record: bool) -> Option<Reason> {
    if !issue.is_well_formed() {
        return Some(Reason::Malformed);
    }
    if !has_record && WorkspaceKey::derive(issue.identifier.as_str()).is_err() {
        return Some(Reason::InvalidIdentifier);
    }
    if is_terminal(&issue.state, settings) {
        return Some(Reason::Terminal(issue.state.clone()));
    }
    if !is_active(&issue.state, settings) {
        return Some(Reason::NotActive(issue.state.clone()));
    }
    if !issue.dispatchable {
        return Some(Reason::NotDispatchable(None));
    }
    let required = &settings.tracker.required_labels;
    if let Some(missing) = required.iter().find(|label| !issue.labels.contains(label)) {
        return Some(Reason::MissingLabel(missing.clone()));
    }
    let blockers = open_blockers(issue, settings);
    blockers.first().map(|blocker| Reason::BlockedBy(name_of(blocker)))
}

/// What a blocker is called.
fn name_of(blocker: &Blocker) -> String {
    let identifier = blocker.identifier.as_ref().map(ToString::to_string);
    identifier.or_else(|| blocker.id.as_ref().map(ToString::to_string)).unwrap_or_default()
}
