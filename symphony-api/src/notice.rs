//! Notices in one line, for people.

use std::time::Duration;

use symphony_core::orchestrator::{
    BlockReason, Happened, Outcome, ReleaseReason, RunEnd, StopReason,
};
use symphony_core::plain_start;

use crate::status::TEXT;

/// A notice in one word and in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The word: stable, for programs.
    pub event: &'static str,
    /// The line; empty where the word says it all.
    pub message: String,
}

impl Told {
    /// What happened, in words.
    #[must_use]
    pub fn of(what: &Happened) -> Self {
        let none = String::new;
        let (event, message) = match what {
            Happened::Started { attempt: None, state } => ("run_started", format!("in {state}")),
            Happened::Started { attempt: Some(attempt), state } => {
                ("run_started", format!("attempt {attempt}, in {state}"))
            }
            Happened::Continued { turn, max_turns } => {
                ("turn_started", format!("turn {turn} of at most {max_turns}"))
            }
            Happened::Stopping { why } => ("run_stopping", stop(*why).to_owned()),
            Happened::StopOverdue => ("stop_overdue", "still there after its bound".to_owned()),
            Happened::Ended { outcome, end, took } => (run_event(*outcome), ended(end, *took)),
            Happened::Waiting { attempt, failure: Some(failure), .. } => {
                ("waiting", format!("for attempt {attempt}, after {failure}"))
            }
            Happened::Waiting { attempt, failure: None, .. } => {
                ("waiting", format!("for attempt {attempt}"))
            }
            Happened::Queued => ("queued", "no available orchestrator slots".to_owned()),
            Happened::Blocked { why: BlockReason::Question(question) } => {
                ("blocked", format!("asks: {question}"))
            }
            Happened::Blocked { why: BlockReason::Operator } => {
                ("blocked", "stopped by an operator".to_owned())
            }
            Happened::Released { why } => ("released", release(*why).to_owned()),
            Happened::Cleaning => ("cleaning", none()),
            Happened::Cleaned => ("cleaned", none()),
            Happened::CleaningFailed { failure, .. } => ("cleaning_failed", failure.to_string()),
            Happened::ReadFailed { purpose, failure } => {
                ("read_failed", format!("{}: {failure}", purpose.as_str()))
            }
            Happened::Unreadable { message } => ("unreadable", message.clone()),
            Happened::StraysLeft { keys } => {
                ("strays_left", format!("{} folders of no known issue", keys.len()))
            }
            Happened::HoldBegan { agent, failure, .. } => {
                ("hold_began", format!("{agent}: {failure}"))
            }
            Happened::HoldEnded { agent } => ("hold_ended", agent.clone()),
            Happened::ModeChanged { mode } => ("mode_changed", mode.as_str().to_owned()),
            Happened::Reloaded => ("reloaded", "the workflow file is in force".to_owned()),
            Happened::WorkflowInvalid { problems } => {
                let first = problems.first().map(ToString::to_string);
                ("workflow_invalid", first.unwrap_or_default())
            }
            Happened::CommandIgnored { why } => ("command_ignored", why.clone()),
            Happened::Paused => ("paused", none()),
            Happened::Resumed => ("resumed", none()),
            Happened::ShuttingDown => ("shutting_down", none()),
            Happened::DeliveryMissed { id } => {
                ("delivery_missed", format!("no delivery announced what changed in {id}"))
            }
            Happened::JobFailed { job, failure } => ("job_failed", format!("{job}: {failure}")),
        };
        Self { event, message: plain_start(&message, TEXT) }
    }
}

const fn stop(why: StopReason) -> &'static str {
    match why {
        StopReason::Terminal => "the issue is over",
        StopReason::NotActive => "the issue is not to be worked on any more",
        StopReason::Gone => "the issue is gone, or out of scope",
        StopReason::Stalled => "no sign of life",
        StopReason::Operator => "an operator said so",
        StopReason::ShutDown => "the service ends",
    }
}

const fn release(why: ReleaseReason) -> &'static str {
    match why {
        ReleaseReason::Terminal => "it is over",
        ReleaseReason::NotActive => "it is not to be worked on any more",
        ReleaseReason::Gone => "it is gone, or out of scope",
        ReleaseReason::NotEligible => "it may not start just now",
        ReleaseReason::ShutDown => "the service ends",
    }
}

/// The event's name: `run_` and the outcome.
const fn run_event(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Done => "run_done",
        Outcome::Succeeded => "run_succeeded",
        Outcome::OutOfTurns => "run_out_of_turns",
        Outcome::Failed => "run_failed",
        Outcome::TimedOut => "run_timed_out",
        Outcome::Stalled => "run_stalled",
        Outcome::Cancelled => "run_cancelled",
        Outcome::InputRequired => "run_input_required",
        _ => "run_ended",
    }
}

fn ended(end: &RunEnd, took: Duration) -> String {
    let took = took.as_secs_f64();
    match end {
        RunEnd::Failed(failure) => format!("after {took:.1} s: {failure}"),
        RunEnd::InputRequired { question } => question.clone(),
        RunEnd::Succeeded | RunEnd::Cancelled => format!("after {took:.1} s"),
    }
}
