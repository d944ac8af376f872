//! Notices in words: the one place that gives each notice its level, its code, its texts and its
//! fields.

use std::fmt::Display;
use std::time::Duration;

use symphony_core::orchestrator::{
    BlockReason, NoticeKind, Outcome, ReleaseReason, RunEnd, StopReason,
};
use symphony_core::{plain, plain_start};

use crate::status::MAX_TEXT_BYTES;

/// Bounds one field: a hook's output is cut to the same size (contract 9.5).
const MAX_FIELD_BYTES: usize = 2 * 1024;

/// A notice in words. Log lines, the API, the dashboards and the demo are made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NoticeText {
    /// How much attention it needs.
    pub level: NoticeLevel,
    /// A stable name, for programs, such as `run_started`.
    pub code: &'static str,
    /// What happened, in a few words that are the same each time.
    pub title: &'static str,
    /// The details in one line; empty where there are none.
    pub details: String,
    /// The details as values.
    pub fields: NoticeFields,
}

/// How much attention a notice needs, as levels of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoticeLevel {
    /// Of interest to developers.
    Debug,
    /// Work goes on as planned.
    Info,
    /// Something failed and is handled.
    Warn,
    /// A person has to act.
    Error,
}

/// The details of a notice as values, each absent where the notice has none. Text is bounded and
/// plain. The names are those of log lines, where every field is named once: a new one breaks the
/// build there until it is logged too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoticeFields {
    /// Which attempt begins or comes next.
    pub attempt: Option<u32>,
    /// The state of the issue.
    pub state: Option<String>,
    /// The number of the turn.
    pub turn: Option<u32>,
    /// How many turns there may be.
    pub max_turns: Option<u32>,
    /// How the run is booked.
    pub outcome: Option<&'static str>,
    /// How long the run took.
    pub took_ms: Option<u64>,
    /// Why it happened.
    pub why: Option<String>,
    /// What went wrong.
    pub error: Option<String>,
    /// What the agent asks.
    pub question: Option<String>,
    /// Whether it is tried again soon.
    pub again: Option<bool>,
    /// What the read was for.
    pub purpose: Option<&'static str>,
    /// Names of folders.
    pub folders: Option<String>,
    /// The kind of the agent.
    pub agent: Option<String>,
    /// The pace of polling.
    pub mode: Option<&'static str>,
    /// The issue that changed.
    pub changed: Option<String>,
    /// The job of an embedder.
    pub job: Option<String>,
}

impl From<&NoticeKind> for NoticeText {
    fn from(what: &NoticeKind) -> Self {
        let (level, code, title) = headline(what);
        let details = plain_start(&details(what), MAX_TEXT_BYTES);
        Self { level, code, title, details, fields: fields(what) }
    }
}

impl NoticeText {
    /// Returns the details, or the title of a notice without details.
    #[must_use]
    pub fn message(&self) -> &str {
        if self.details.is_empty() { self.title } else { &self.details }
    }

    /// Returns the title and the details in one line.
    #[must_use]
    pub fn line(&self) -> String {
        match self.details.as_str() {
            "" => self.title.to_owned(),
            details => format!("{}: {details}", self.title),
        }
    }
}

type Headline = (NoticeLevel, &'static str, &'static str);

const fn headline(what: &NoticeKind) -> Headline {
    use NoticeLevel::{Debug, Error, Info, Warn};
    match what {
        NoticeKind::Started { .. } => (Info, "run_started", "run started"),
        NoticeKind::Continued { .. } => (Info, "turn_started", "next turn"),
        NoticeKind::Stopping { .. } => (Info, "run_stopping", "run is being stopped"),
        NoticeKind::StopOverdue => {
            (Error, "stop_overdue", "a stopped run is still there after its bound")
        }
        NoticeKind::Ended { outcome, end, .. } => ended(*outcome, end),
        NoticeKind::Waiting { .. } => (Info, "waiting", "waiting for the next attempt"),
        NoticeKind::Queued => (Info, "queued", "due: no available orchestrator slots"),
        NoticeKind::Blocked { .. } => (Warn, "blocked", "blocked until a person acts"),
        NoticeKind::Released { .. } => (Info, "released", "released"),
        NoticeKind::Cleaning => (Info, "cleaning", "removing the workspace"),
        NoticeKind::Cleaned => (Info, "cleaned", "workspace removed"),
        NoticeKind::CleaningFailed { .. } => {
            (Warn, "cleaning_failed", "the workspace could not be removed")
        }
        NoticeKind::ReadFailed { .. } => (Warn, "read_failed", "the tracker could not be read"),
        NoticeKind::Unreadable { .. } => (Warn, "unreadable", "an issue could not be read"),
        NoticeKind::StraysLeft { .. } => {
            (Warn, "strays_left", "folders that belong to no known issue are left alone")
        }
        NoticeKind::HoldBegan { .. } => (Warn, "hold_began", "starts are held"),
        NoticeKind::HoldEnded { .. } => (Info, "hold_ended", "starts go on"),
        NoticeKind::ModeChanged { .. } => (Debug, "mode_changed", "polling changed its pace"),
        NoticeKind::Reloaded => (Info, "reloaded", "the workflow file is in force"),
        NoticeKind::WorkflowInvalid { .. } => {
            (Error, "workflow_invalid", "the workflow file cannot be used; starts wait")
        }
        NoticeKind::CommandIgnored { .. } => (Warn, "command_ignored", "a command did not apply"),
        NoticeKind::Paused => (Info, "paused", "starts are paused"),
        NoticeKind::Resumed => (Info, "resumed", "starts are resumed"),
        NoticeKind::ShuttingDown => (Info, "shutting_down", "shutting down"),
        NoticeKind::DeliveryMissed { .. } => (
            Warn,
            "delivery_missed",
            "a poll found a change that no webhook delivery announced; polls keep their pace for an hour",
        ),
        NoticeKind::JobFailed { .. } => (Warn, "job_failed", "a job failed"),
        NoticeKind::Storage { failure: Some(_) } => {
            (Error, "storage_failed", "what must survive a restart cannot be written; starts wait")
        }
        NoticeKind::Storage { failure: None } => {
            (Info, "storage_recovered", "what must survive a restart is written again")
        }
        _ => (Info, "notice", "something that this version has no words for"),
    }
}

/// The headline of a run's end. Once the issue is done, how the last turn ended is not an error.
const fn ended(outcome: Outcome, end: &RunEnd) -> Headline {
    use NoticeLevel::{Info, Warn};
    let code = match outcome {
        Outcome::Done => "run_done",
        Outcome::Succeeded => "run_succeeded",
        Outcome::OutOfTurns => "run_out_of_turns",
        Outcome::Failed => "run_failed",
        Outcome::TimedOut => "run_timed_out",
        Outcome::Stalled => "run_stalled",
        Outcome::Cancelled => "run_cancelled",
        Outcome::InputRequired => "run_input_required",
        Outcome::Interrupted => "run_interrupted",
        _ => "run_ended",
    };
    match (outcome, end) {
        (Outcome::Done, _) | (_, RunEnd::Succeeded) => (Info, code, "run ended"),
        (_, RunEnd::Failed(_)) => (Warn, code, "run failed"),
        (_, RunEnd::Cancelled) => (Info, code, "run stopped"),
        (_, RunEnd::InputRequired { .. }) => (Warn, code, "run needs a person"),
    }
}

fn details(what: &NoticeKind) -> String {
    match what {
        NoticeKind::Started { attempt: None, state } => format!("in {state}"),
        NoticeKind::Started { attempt: Some(attempt), state } => {
            format!("attempt {attempt}, in {state}")
        }
        NoticeKind::Continued { turn, max_turns } => format!("turn {turn} of at most {max_turns}"),
        NoticeKind::Stopping { why } => stop_reason(*why).to_owned(),
        NoticeKind::Ended { end, took, .. } => end_details(end, *took),
        NoticeKind::Waiting { attempt, failure, .. } => match failure {
            Some(failure) => format!("attempt {attempt}, after {failure}"),
            None => "continuation".to_owned(),
        },
        NoticeKind::Blocked { why: BlockReason::Question(question) } => format!("asks: {question}"),
        NoticeKind::Blocked { why: BlockReason::Operator } => "stopped by an operator".to_owned(),
        NoticeKind::Released { why } => release_reason(*why).to_owned(),
        NoticeKind::CleaningFailed { failure, .. } => failure.to_string(),
        NoticeKind::ReadFailed { purpose, failure } => format!("{}: {failure}", purpose.as_str()),
        NoticeKind::Unreadable { message } => message.clone(),
        NoticeKind::StraysLeft { keys } => format!("{} folders of no known issue", keys.len()),
        NoticeKind::HoldBegan { agent, failure, .. } => format!("{agent}: {failure}"),
        NoticeKind::HoldEnded { agent } => agent.clone(),
        NoticeKind::ModeChanged { mode } => mode.as_str().to_owned(),
        NoticeKind::WorkflowInvalid { problems } => {
            problems.first().map(ToString::to_string).unwrap_or_default()
        }
        NoticeKind::CommandIgnored { why } => why.clone(),
        NoticeKind::DeliveryMissed { id } => {
            format!("no delivery announced what changed in {id}")
        }
        NoticeKind::JobFailed { job, failure } => format!("{job}: {failure}"),
        NoticeKind::Storage { failure: Some(failure) } => failure.message.clone(),
        NoticeKind::StopOverdue
        | NoticeKind::Queued
        | NoticeKind::Cleaning
        | NoticeKind::Cleaned
        | NoticeKind::Reloaded
        | NoticeKind::Storage { failure: None }
        | NoticeKind::Paused
        | NoticeKind::Resumed
        | NoticeKind::ShuttingDown => String::new(),
        _ => String::new(),
    }
}

fn fields(what: &NoticeKind) -> NoticeFields {
    let mut fields = NoticeFields::default();
    match what {
        NoticeKind::Started { attempt, state } => {
            (fields.attempt, fields.state) = (*attempt, field(state));
        }
        NoticeKind::Continued { turn, max_turns } => {
            (fields.turn, fields.max_turns) = (Some(*turn), Some(*max_turns));
        }
        NoticeKind::Ended { outcome, end, took } => return end_fields(*outcome, end, *took),
        NoticeKind::Waiting { attempt, failure, .. } => {
            // The number of a continuation stays 1, however many there are.
            match failure {
                Some(failure) => (fields.attempt, fields.error) = (Some(*attempt), field(failure)),
                None => fields.why = field("continuation"),
            }
        }
        NoticeKind::CleaningFailed { failure, again } => {
            (fields.error, fields.again) = (field(failure), Some(*again));
        }
        NoticeKind::ReadFailed { purpose, failure } => {
            (fields.purpose, fields.error) = (Some(purpose.as_str()), field(failure));
        }
        NoticeKind::StraysLeft { keys } => {
            let names: Vec<&str> = keys.iter().map(|key| key.as_str()).collect();
            fields.folders = field(names.join(", "));
        }
        NoticeKind::HoldBegan { agent, failure, .. } => {
            (fields.agent, fields.error) = (field(agent), field(failure));
        }
        NoticeKind::HoldEnded { agent } => fields.agent = field(agent),
        NoticeKind::ModeChanged { mode } => fields.mode = Some(mode.as_str()),
        NoticeKind::DeliveryMissed { id } => fields.changed = field(id),
        NoticeKind::JobFailed { job, failure } => {
            (fields.job, fields.error) = (field(job), field(failure));
        }
        NoticeKind::Unreadable { .. }
        | NoticeKind::WorkflowInvalid { .. }
        | NoticeKind::Storage { failure: Some(_) } => {
            fields.error = field(details(what));
        }
        NoticeKind::Stopping { .. }
        | NoticeKind::Blocked { .. }
        | NoticeKind::Released { .. }
        | NoticeKind::CommandIgnored { .. } => fields.why = field(details(what)),
        NoticeKind::StopOverdue
        | NoticeKind::Queued
        | NoticeKind::Cleaning
        | NoticeKind::Cleaned
        | NoticeKind::Reloaded
        | NoticeKind::Storage { failure: None }
        | NoticeKind::Paused
        | NoticeKind::Resumed
        | NoticeKind::ShuttingDown => {}
        _ => {}
    }
    fields
}

fn end_fields(outcome: Outcome, end: &RunEnd, took: Duration) -> NoticeFields {
    let (error, question) = match end {
        RunEnd::Failed(failure) if outcome != Outcome::Done => (field(failure), None),
        RunEnd::InputRequired { question } if outcome != Outcome::Done => (None, field(question)),
        _ => (None, None),
    };
    let took_ms = Some(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
    let outcome = Some(outcome.as_str());
    NoticeFields { outcome, took_ms, error, question, ..NoticeFields::default() }
}

fn field(text: impl Display) -> Option<String> {
    Some(plain(&text.to_string(), MAX_FIELD_BYTES))
}

const fn stop_reason(why: StopReason) -> &'static str {
    match why {
        StopReason::Terminal => "the issue is over",
        StopReason::NotActive => "the issue is not to be worked on any more",
        StopReason::Gone => "the issue is gone, or out of scope",
        StopReason::Stalled => "no sign of life",
        StopReason::Operator => "an operator said so",
        StopReason::ShutDown => "the service ends",
        _ => "for another reason",
    }
}

const fn release_reason(why: ReleaseReason) -> &'static str {
    match why {
        ReleaseReason::Terminal => "it is over",
        ReleaseReason::NotActive => "it is not to be worked on any more",
        ReleaseReason::Gone => "it is gone, or out of scope",
        ReleaseReason::NotEligible => "it may not start just now",
        ReleaseReason::ShutDown => "the service ends",
        _ => "for another reason",
    }
}

fn end_details(end: &RunEnd, took: Duration) -> String {
    let took = took.as_secs_f64();
    match end {
        RunEnd::Failed(failure) => format!("after {took:.1} s: {failure}"),
        RunEnd::InputRequired { question } => question.to_string(),
        RunEnd::Succeeded | RunEnd::Cancelled => format!("after {took:.1} s"),
    }
}

#[cfg(test)]
mod tests {
    use symphony_core::{Failure, FailureKind, StateName};

    use super::*;

    fn failed(outcome: Outcome) -> NoticeText {
        let end = RunEnd::Failed(Failure::new(FailureKind::Stalled, "silent\u{1b}"));
        let took = Duration::from_millis(2_345);
        NoticeText::from(&NoticeKind::Ended { outcome, end, took })
    }

    #[test]
    fn rule_13_2_a_notice_has_one_wording_for_lines_and_values() {
        let state = StateName::from("Todo");
        let text = NoticeText::from(&NoticeKind::Started { attempt: Some(2), state });
        assert_eq!((text.level, text.code), (NoticeLevel::Info, "run_started"));
        assert_eq!(text.line(), "run started: attempt 2, in Todo");
        assert_eq!(text.message(), "attempt 2, in Todo");
        assert_eq!(text.fields.attempt, Some(2));
        assert_eq!(text.fields.state.as_deref(), Some("Todo"));
        let paused = NoticeText::from(&NoticeKind::Paused);
        assert_eq!(paused.line(), paused.message());
        assert_eq!(paused.fields, NoticeFields::default());
    }

    #[test]
    fn rule_13_1_foreign_text_in_a_notice_is_plain_and_bounded() {
        let text = failed(Outcome::Failed);
        assert_eq!(text.details, "after 2.3 s: stalled: silent\\u{1b}");
        assert_eq!(text.fields.error.as_deref(), Some("stalled: silent\\u{1b}"));
        let long = NoticeText::from(&NoticeKind::Unreadable { message: "x".repeat(10_000) });
        assert!(long.details.len() < 600 && long.fields.error.unwrap().len() < 2_100);
    }

    #[test]
    fn the_last_turn_of_a_done_issue_is_not_an_error() {
        let text = failed(Outcome::Done);
        assert_eq!(
            (text.level, text.code, text.title),
            (NoticeLevel::Info, "run_done", "run ended")
        );
        assert_eq!((text.fields.error, text.fields.outcome), (None, Some("done")));
    }
}
