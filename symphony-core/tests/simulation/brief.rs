//! Steps in short, for people who read a trace.

use std::fmt::Write as _;

use symphony_core::Issue;
use symphony_core::orchestrator::{Answer, Effect, Event, Notice};
use symphony_core::store::Write;
use symphony_core::tracker::{Candidates, IssuesById, Poll};

/// One event.
pub(crate) fn event(event: &Event) -> String {
    match event {
        Event::Answered { read, answer } => {
            format!("read {} answered: {}", read.0, self::answer(answer))
        }
        Event::Run { run, news } => format!("run {run}: {news:?}"),
        Event::Reloaded { configuration, workspaces, claims } => {
            let settings = &configuration.settings;
            format!(
                "reloaded: generation {}, scope {}, agent {:?}, tracker {:?}, polling {:?}, stall {:?}, hosts {:?}, root {} {workspaces:?}, {} claims",
                configuration.generation.0,
                configuration.scope,
                settings.agent,
                settings.tracker,
                settings.polling,
                settings.agent.common.stall_timeout,
                settings.hosts,
                settings.workspace.root.display(),
                claims.len(),
            )
        }
        other => format!("{other:?}"),
    }
}

fn answer(answer: &Answer) -> String {
    let mut text = String::new();
    match &answer.candidates {
        Some(Ok(Candidates { issues, more, .. })) => {
            let _ = write!(
                text,
                "list [{}] more {more} ",
                issues.iter().map(issue).collect::<String>()
            );
        }
        Some(Err(failure)) => {
            let _ = write!(text, "list failed {:?} {:?} ", failure.kind, failure.retry_after);
        }
        None => {}
    }
    match &answer.by_id {
        Some(Ok(IssuesById { found, unreadable, .. })) => {
            let _ = write!(text, "found [{}]", found.iter().map(issue).collect::<String>());
            for one in unreadable {
                let _ = write!(text, " unreadable {}", one.id);
            }
        }
        Some(Err(failure)) => {
            let _ = write!(text, "ids failed {:?} {:?}", failure.kind, failure.retry_after);
        }
        None => {}
    }
    if let Some(next) = answer.next_poll {
        let _ = write!(text, " next poll {next:?}");
    }
    text
}

/// One issue.
fn issue(issue: &Issue) -> String {
    let blocked = if issue.blocked_by.is_empty() { "" } else { " blocked" };
    let priority = issue.priority.unwrap_or(0);
    let updated = issue.updated_at.map_or(0, |at| at.as_unix_millis() % 1_000_000_000);
    let odd = if issue.dispatchable { "" } else { " not dispatchable" };
    let labels: Vec<_> = issue.labels.iter().map(ToString::to_string).collect();
    format!(
        "({} {} {:?} p{priority} @{updated} {labels:?}{blocked}{odd})",
        issue.id, issue.identifier, issue.state
    )
}

/// One effect.
pub(crate) fn effect(effect: &Effect) -> String {
    match effect {
        Effect::Read { read, poll, .. } => {
            let ids: Vec<_> = poll.ids.iter().map(ToString::to_string).collect();
            let enough = poll.candidates.as_ref().map(|query| query.enough);
            format!("read {} for {:?}: list {enough:?}, ids {ids:?}", read.0, poll.purpose)
        }
        Effect::Start(start) => format!(
            "start {} of {} attempt {:?} in {} on {} resume {:?} recorded {}",
            start.run,
            issue(&start.issue),
            start.attempt,
            start.key,
            start.host,
            start.resume,
            start.record.is_some()
        ),
        Effect::NextTurn { run, turn, text, .. } => format!("turn {turn} of {run}: {text:?}"),
        Effect::Remove { removal, issue, workspace } => {
            format!("remove {} of {}: {workspace:?}", removal.0, issue.id)
        }
        other => format!("{other:?}"),
    }
}

/// One effect, with everything in it.
pub(crate) fn whole_effect(effect: &Effect) -> String {
    let Effect::Read { read, generation, poll } = effect else {
        return format!("{effect:?}");
    };
    let Poll { purpose, candidates, ids } = poll;
    format!("{read:?} of {generation:?} for {purpose:?}: {candidates:?} {ids:?}")
}

/// One notice.
pub(crate) fn notice(notice: &Notice) -> String {
    let name = notice.issue.as_ref().map(|issue| issue.id.to_string()).unwrap_or_default();
    format!("{name} {:?}", notice.what)
}

/// One row.
pub(crate) fn write(write: &Write) -> String {
    match write {
        Write::Claim(row) => format!(
            "{} {}: {:?} attempt {:?} due {:?} thread {:?} asked {:?} interrupted {}",
            row.scope,
            row.issue.id,
            row.stage,
            row.attempt,
            row.due,
            row.thread,
            row.asked,
            row.interruptions
        ),
        Write::Run(row) => format!("run {}: {:?} {:?}", row.run, row.outcome, row.tokens.total),
        Write::Totals(totals) => format!("totals: {} tokens", totals.tokens.total),
        Write::Polls(_) => "polls".to_owned(),
        other => format!("{other:?}"),
    }
}
