//! Notices as log lines, with the fields of contract 13.1.

use symphony_core::orchestrator::{BlockReason, Happened, Notice, Outcome, RunEnd};
use symphony_core::problem::Problem;
use symphony_core::snapshot::{Reason, Snapshot};
use tracing::{debug, error, info, warn};

use crate::plain::safe;

/// Writes one log line about a notice.
pub(crate) fn log(notice: &Notice, session_id: Option<&str>) {
    let issue = notice.issue.as_ref();
    // Nothing is written for what a notice does not have.
    let issue_id = issue.map(|issue| safe(&issue.id));
    let issue_identifier = issue.map(|issue| safe(&issue.identifier));
    let run = notice.run.map(|run| run.to_string());
    let session_id = session_id.map(safe);
    macro_rules! say {
        ($level:ident, $($rest:tt)*) => {
            $level!(issue_id, issue_identifier, run, session_id, $($rest)*)
        };
    }
    match &notice.what {
        Happened::Started { attempt, state } => {
            say!(info, attempt, state = safe(state), "run started");
        }
        Happened::Continued { turn, max_turns } => say!(info, turn, max_turns, "next turn"),
        Happened::Stopping { why } => say!(info, ?why, "run is being stopped"),
        Happened::StopOverdue => say!(error, "a stopped run is still there after its bound"),
        Happened::Ended { outcome, end, took } => {
            let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            let outcome = outcome.as_str();
            match end {
                _ if outcome == Outcome::Done.as_str() => {
                    say!(info, outcome, took_ms, "run ended");
                }
                RunEnd::Failed(failure) => {
                    say!(warn, outcome, took_ms, error = safe(failure), "run failed");
                }
                RunEnd::Succeeded => say!(info, outcome, took_ms, "run ended"),
                RunEnd::Cancelled => say!(info, outcome, took_ms, "run stopped"),
                RunEnd::InputRequired { question } => {
                    say!(warn, outcome, took_ms, question = safe(question), "run needs a person");
                }
            }
        }
        Happened::Waiting { attempt, failure, .. } => {
            let error = failure.as_ref().map(safe);
            say!(info, attempt, error, "waiting for the next attempt");
        }
        Happened::Queued => say!(info, "due: no available orchestrator slots"),
        Happened::Blocked { why } => {
            say!(warn, why = safe(reason(why)), "blocked until a person acts")
        }
        Happened::Released { why } => say!(info, ?why, "released"),
        Happened::Cleaning => say!(info, "removing the workspace"),
        Happened::Cleaned => say!(info, "workspace removed"),
        Happened::CleaningFailed { failure, again } => {
            say!(warn, error = safe(failure), again, "the workspace could not be removed");
        }
        Happened::ReadFailed { purpose, failure } => {
            say!(
                warn,
                purpose = purpose.as_str(),
                error = safe(failure),
                "the tracker could not be read"
            );
        }
        Happened::Unreadable { message } => {
            say!(warn, error = safe(message), "an issue could not be read")
        }
        Happened::StraysLeft { keys } => {
            let folders: Vec<&str> = keys.iter().map(|key| key.as_str()).collect();
            say!(warn, ?folders, "folders that belong to no known issue are left alone");
        }
        Happened::HoldBegan { agent, failure, .. } => {
            say!(
                warn,
                agent = safe(agent),
                error = safe(failure),
                "starts are held: the agent refuses"
            );
        }
        Happened::HoldEnded { agent } => {
            say!(info, agent = safe(agent), "starts go on: the agent works again")
        }
        Happened::ModeChanged { mode } => say!(debug, ?mode, "polling changed its pace"),
        Happened::Reloaded => say!(info, "the workflow file is in force"),
        Happened::WorkflowInvalid { problems } => {
            for problem in problems {
                say!(error, error = safe(problem), "the workflow file cannot be used; starts wait");
            }
        }
        Happened::CommandIgnored { why } => say!(warn, why, "a command did not apply"),
        Happened::Paused => say!(info, "starts are paused"),
        Happened::Resumed => say!(info, "starts are resumed"),
        Happened::ShuttingDown => say!(info, "shutting down"),
        Happened::DeliveryMissed { id } => say!(
            warn,
            changed = safe(id),
            "a poll found a change that no webhook delivery announced; polls keep their pace for an hour"
        ),
        Happened::JobFailed { job, failure } => {
            say!(warn, job = safe(job), error = safe(failure), "a job failed");
        }
    }
}

/// Why nothing runs though there are issues to work on, where nobody has been told: how many, and
/// the first of them with its reason.
pub(crate) fn idle(snapshot: &Snapshot) -> Option<(usize, String)> {
    let is_at_work = !snapshot.running.is_empty()
        || !snapshot.waiting.is_empty()
        || !snapshot.checking.is_empty()
        || !snapshot.cleaning.is_empty();
    let is_untold = |reason: &Reason| {
        matches!(
            reason,
            Reason::BlockedBy(_)
                | Reason::HostSlot(_)
                | Reason::InvalidIdentifier
                | Reason::Malformed
                | Reason::MissingLabel(_)
                | Reason::NotDispatchable
                | Reason::WorkspaceHeld(_)
        )
    };
    let mut held = snapshot.candidates.first.iter().filter(|row| is_untold(&row.reason));
    let first = held.next().filter(|_| !is_at_work)?;
    Some((1 + held.count(), format!("{}: {}", first.identifier, first.reason)))
}

/// Says that nothing is started, so that silence is not taken for work.
pub(crate) fn tell_idle((issues, first): &(usize, String)) {
    info!(issues, first = safe(first), "nothing is started, though there are issues");
}

/// Tells what is doubtful in a workflow file that is put in force.
pub(crate) fn warn_of(warnings: &[Problem]) {
    for warning in warnings {
        warn!(warning = safe(warning), "the workflow file is doubtful");
    }
}

fn reason(why: &BlockReason) -> &str {
    match why {
        BlockReason::Question(question) => question,
        BlockReason::Operator => "an operator stopped it",
    }
}
