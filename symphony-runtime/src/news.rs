//! Notices as log lines, with the fields of contract 13.1.

use symphony_api::{NoticeFields, NoticeLevel, NoticeText};
use symphony_core::orchestrator::{Notice, NoticeKind};
use symphony_core::problem::Problem;
use symphony_core::snapshot::{Reason, Snapshot};
use tracing::{debug, error, info, warn};

use crate::plain::safe;

/// Writes the log line of a notice; of a workflow file that cannot be used, one for each problem.
pub(crate) fn log(notice: &Notice, text: NoticeText, session_id: Option<&str>) {
    if let NoticeKind::WorkflowInvalid { problems } = &notice.what
        && let [_, _, ..] = problems[..]
    {
        for problem in problems {
            let what = NoticeKind::WorkflowInvalid { problems: vec![problem.clone()] };
            write(notice, NoticeText::from(&what), session_id);
        }
    } else {
        write(notice, text, session_id);
    }
}

fn write(notice: &Notice, text: NoticeText, session_id: Option<&str>) {
    // Nothing is written for what a notice does not have.
    let issue = notice.issue.as_ref();
    let issue_id = issue.map(|issue| safe(&issue.id));
    let issue_identifier = issue.map(|issue| safe(&issue.identifier));
    let run = notice.run.map(|run| run.to_string());
    let session_id = session_id.map(safe);
    // Every field by its name: the compiler asks for one that is forgotten.
    let NoticeFields {
        attempt,
        state,
        turn,
        max_turns,
        outcome,
        took_ms,
        why,
        error,
        question,
        again,
        purpose,
        folders,
        agent,
        mode,
        changed,
        job,
    } = text.fields;
    macro_rules! say {
        ($level:ident) => {
            $level!(
                issue_id,
                issue_identifier,
                run,
                session_id,
                attempt,
                state,
                turn,
                max_turns,
                outcome,
                took_ms,
                why,
                error,
                question,
                again,
                purpose,
                folders,
                agent,
                mode,
                changed,
                job,
                "{}",
                text.title
            )
        };
    }
    match text.level {
        NoticeLevel::Debug => say!(debug),
        NoticeLevel::Info => say!(info),
        NoticeLevel::Warn => say!(warn),
        NoticeLevel::Error => say!(error),
    }
}

/// Why nothing runs though there are issues to work on, where no notice has said so: how many, and
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
                | Reason::NotDispatchable(_)
                | Reason::WorkspaceHeld(_)
        )
    };
    let mut held = snapshot.candidates.first.iter().filter(|row| is_untold(&row.reason));
    let first = held.next().filter(|_| !is_at_work)?;
    Some((1 + held.count(), format!("{}: {}", first.identifier, first.reason)))
}

/// Says that nothing is started, so that silence is not taken for work.
pub(crate) fn log_idle((issues, first): &(usize, String)) {
    info!(issues, first = safe(first), "nothing is started, though there are issues");
}

/// Tells what is doubtful in a workflow, of a file or made in code, that is put in force.
pub(crate) fn log_warnings(warnings: &[Problem]) {
    for warning in warnings {
        let help = warning.help.as_ref().map(safe);
        warn!(warning = safe(warning), help, "the workflow is doubtful");
    }
}
