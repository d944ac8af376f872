//! The end of a world: after hours without faults nothing is left undone.

use symphony_core::{IssueId, WorkspaceKey};

use crate::eligibility::{is_terminal, obstacle};
use crate::violation::{Check, ensure};
use crate::workspaces::ROOTS;
use crate::world::World;

/// Everything eligible was started, everything finished is gone, and no claim is left.
pub(crate) fn check(world: &World) -> Check {
    let oracle = &world.oracle;
    let settings = oracle.settings();
    let left: Vec<&IssueId> = oracle.claims.keys().collect();
    ensure!(left.is_empty(), "claims drain to zero", "{:?}", oracle.claims);
    ensure!(
        oracle.runs.is_empty() && oracle.removals.is_empty(),
        "claims drain to zero",
        "{:?}",
        oracle.runs
    );
    let wanted = &oracle.deliveries.wanted;
    ensure!(wanted.is_empty(), "what was delivered is read in the end (12.8)", "{wanted:?}");
    let board = world.tracker.board.all(world.files.scope);
    for issue in &board {
        let recorded = oracle.has_record(&issue.id) == Some(true);
        let free = obstacle(issue, settings, recorded).is_none();
        // Where it is open whether its record is still there, its folder may also be a new one.
        let is_open = oracle.has_record(&issue.id).is_none();
        let fresh = WorkspaceKey::derive(issue.identifier.as_str()).ok().filter(|_| is_open);
        let is_held = |key: WorkspaceKey| oracle.holder(&issue.id, &key).is_some();
        let held = oracle.key_of(issue).is_none_or(is_held) || fresh.is_some_and(is_held);
        ensure!(!free || held, "everything eligible is started", "{issue:?} was not");
    }
    for record in world.disk.records(ROOTS[0]).filter(|record| record.scope == oracle.config.scope)
    {
        if oracle.two_rooted.contains(&record.issue) {
            continue;
        }
        let issue = board.iter().find(|issue| issue.id == record.issue);
        let over = issue.is_some_and(|issue| is_terminal(&issue.state, settings));
        ensure!(!over, "a terminal issue's workspace is gone by the end", "{record:?}");
    }
    Ok(())
}
