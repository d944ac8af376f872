//! Notices as log lines, with the fields of contract 13.1.

use symphony_core::orchestrator::{Happened, Notice, RunEnd};
use tracing::{debug, error, info, warn};

/// Writes one log line about a notice.
pub(crate) fn log(notice: &Notice) {
    let id = notice.issue.as_ref().map(|issue| issue.id.as_str()).unwrap_or_default();
    let identifier = notice.issue.as_ref().map(|issue| issue.identifier.as_str());
    let identifier = identifier.unwrap_or_default();
    let run = notice.run.map(|run| run.to_string()).unwrap_or_default();
    macro_rules! say {
        ($level:ident, $($rest:tt)*) => {
            $level!(issue_id = id, issue_identifier = identifier, run, $($rest)*)
        };
    }
    match &notice.what {
        Happened::Started { attempt, state } => {
            say!(info, attempt = attempt.unwrap_or(0), %state, "run started");
        }
        Happened::Continued { turn, max_turns } => say!(info, turn, max_turns, "next turn"),
        Happened::Stopping { why } => say!(info, ?why, "run is being stopped"),
        Happened::StopOverdue => say!(error, "a stopped run is still there after its bound"),
        Happened::Ended { end, took } => {
            let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            match end {
                RunEnd::Failed(failure) => say!(warn, took_ms, error = %failure, "run failed"),
                RunEnd::Succeeded => say!(info, took_ms, "run ended"),
                RunEnd::Cancelled => say!(info, took_ms, "run stopped"),
                RunEnd::InputRequired { .. } => say!(warn, took_ms, "run needs a person"),
            }
        }
        Happened::Waiting { attempt, failure, .. } => {
            let error = failure.as_ref().map(ToString::to_string).unwrap_or_default();
            say!(info, attempt, error, "waiting for the next attempt");
        }
        Happened::Queued => say!(info, "due: no available orchestrator slots"),
        Happened::Blocked { why } => say!(warn, ?why, "blocked until a person acts"),
        Happened::Released { why } => say!(info, ?why, "released"),
        Happened::Cleaning => say!(info, "removing the workspace"),
        Happened::Cleaned => say!(info, "workspace removed"),
        Happened::CleaningFailed { failure, again } => {
            say!(warn, error = %failure, again, "the workspace could not be removed");
        }
        Happened::ReadFailed { purpose, failure } => {
            say!(warn, purpose = purpose.as_str(), error = %failure, "the tracker could not be read");
        }
        Happened::Unreadable { message } => say!(warn, error = message, "an issue could not be read"),
        Happened::StraysLeft { keys } => {
            let folders: Vec<&str> = keys.iter().map(|key| key.as_str()).collect();
            say!(warn, ?folders, "folders that belong to no known issue are left alone");
        }
        Happened::HoldBegan { agent, failure, .. } => {
            say!(warn, agent, error = %failure, "starts are held: the agent refuses");
        }
        Happened::HoldEnded { agent } => say!(info, agent, "starts go on: the agent works again"),
        Happened::ModeChanged { mode } => say!(debug, ?mode, "polling changed its pace"),
        Happened::Reloaded => say!(info, "the workflow file is in force"),
        Happened::WorkflowInvalid { problems } => {
            for problem in problems {
                say!(error, error = %problem, "the workflow file cannot be used; starts wait");
            }
        }
        Happened::CommandIgnored { why } => say!(warn, why, "a command did not apply"),
        Happened::Paused => say!(info, "starts are paused"),
        Happened::Resumed => say!(info, "starts are resumed"),
        Happened::ShuttingDown => say!(info, "shutting down"),
        Happened::JobFailed { job, failure } => {
            say!(warn, %job, error = %failure, "a job failed");
        }
    }
}
