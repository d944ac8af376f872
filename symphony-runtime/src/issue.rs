//! One issue, put together from everything that is known of it (contract 13.3).

use std::sync::Arc;

use serde_json::{Map, Value, json};
use symphony_api::{
    Attempts, BlockedStatus, CheckingStatus, CleaningStatus, IssueStatus, Logs, RetryStatus,
    RunStatus, RunningStatus, Stage, TimelineEntry, UnstartedStatus, WorkspaceStatus, obstacle,
};
use symphony_core::snapshot::{Reason, Snapshot, Unstarted};
use symphony_core::{Identifier, Issue, IssueId, Settings, WorkspaceKey, plain, plain_start};

/// How much of a text is shown.
const TEXT: usize = 2_000;

/// Every issue that is claimed.
pub(crate) fn claimed(snapshot: &Snapshot) -> impl Iterator<Item = &Arc<Issue>> {
    let running = snapshot.running.iter().map(|row| &row.issue);
    let waiting = snapshot.waiting.iter().map(|row| &row.issue);
    let blocked = snapshot.blocked.iter().map(|row| &row.issue);
    let checking = snapshot.checking.iter().map(|row| &row.issue);
    let cleaning = snapshot.cleaning.iter().map(|row| &row.issue);
    running.chain(waiting).chain(blocked).chain(checking).chain(cleaning)
}

pub(crate) fn status(
    snapshot: &Snapshot,
    settings: &Settings,
    identifier: &Identifier,
    id: &IssueId,
    recent_events: Vec<TimelineEntry>,
    runs: Vec<RunStatus>,
) -> IssueStatus {
    let now = snapshot.now;
    let running = snapshot.running.iter().find(|row| row.issue.id == *id);
    let waiting = snapshot.waiting.iter().find(|row| row.issue.id == *id);
    let blocked = snapshot.blocked.iter().find(|row| row.issue.id == *id);
    let checking = snapshot.checking.iter().find(|row| row.issue.id == *id);
    let cleaning = snapshot.cleaning.iter().find(|row| row.issue.id == *id);
    let unstarted = snapshot.candidates.first.iter().find(|row| row.id == *id);
    let stage = match () {
        () if running.is_some() => Stage::Running,
        () if waiting.is_some() => Stage::Retrying,
        () if blocked.is_some() => Stage::Blocked,
        () if checking.is_some() => Stage::Checking,
        () if cleaning.is_some() => Stage::Cleaning,
        // A run that a snapshot does not show yet.
        () if runs.last().is_some_and(|run| run.ended_at.is_none()) => Stage::Running,
        () if unstarted.is_some_and(may_start) => Stage::Candidate,
        () => Stage::Released,
    };
    let attempt = running.map(|row| row.attempt).or(checking.map(|row| row.attempt)).flatten();
    let attempt = attempt.or(waiting.map(|row| row.attempt));
    let issue = claimed(snapshot).find(|issue| issue.id == *id);
    let failure = waiting.and_then(|row| row.failure.as_ref());
    let failure = failure.map(|failure| plain(&failure.to_string(), TEXT));
    let last_error = failure.or_else(|| runs.iter().rev().find_map(|run| run.error.clone()));
    let is_ours = !matches!(stage, Stage::Released);
    // A live run is where it began, whatever the issue is called now.
    let begun = running.map(|row| row.key.clone());
    let key = begun.or_else(|| WorkspaceKey::derive(identifier.as_str()).ok());
    let key = key.filter(|_| is_ours);
    let running = running.map(RunningStatus::of);
    IssueStatus {
        issue_identifier: identifier.as_str().to_owned(),
        issue_id: id.as_str().to_owned(),
        status: stage,
        title: issue.map(|issue| plain_start(&issue.title, TEXT)),
        issue_url: issue.and_then(|issue| symphony_api::link(issue.url.as_deref())),
        workspace: key.map(|key| WorkspaceStatus {
            path: settings.workspace.root.join(key.as_str()).display().to_string(),
        }),
        attempts: Attempts {
            restart_count: attempt.unwrap_or_default(),
            current_retry_attempt: attempt,
            runs,
        },
        running,
        retry: waiting.map(|row| RetryStatus::of(row, now, obstacle(snapshot))),
        blocked: blocked.map(BlockedStatus::of),
        checking: checking.map(CheckingStatus::of),
        cleaning: cleaning.map(|row| CleaningStatus::of(row, now)),
        unstarted: unstarted.map(|row| UnstartedStatus::of(row, now)),
        logs: Logs::default(),
        recent_events,
        last_error,
        tracked: issue.map(|issue| tracked(issue)).unwrap_or_default(),
    }
}

/// Whether a candidate is still one: the list may be older than what was learned of it.
pub(crate) const fn may_start(row: &Unstarted) -> bool {
    !matches!(row.reason, Reason::Terminal(_) | Reason::NotActive(_) | Reason::Gone)
}

/// What else the tracker tells, as far as people care; not the description, which may be long.
fn tracked(issue: &Issue) -> Map<String, Value> {
    let text = |text: &str| plain_start(text, TEXT);
    let blocked_by = issue.blocked_by.iter().filter_map(|blocker| blocker.identifier.as_ref());
    let fields = [
        ("state", json!(text(issue.state.as_str()))),
        ("priority", json!(issue.priority)),
        ("labels", issue.labels.iter().map(|label| text(label.as_str())).collect()),
        ("blocked_by", blocked_by.map(|name| text(name.as_str())).collect()),
        ("branch_name", json!(issue.branch_name.as_deref().map(text))),
        ("created_at", json!(issue.created_at.map(|at| at.to_string()))),
        ("updated_at", json!(issue.updated_at.map(|at| at.to_string()))),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
