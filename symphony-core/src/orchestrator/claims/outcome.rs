//! How a run is booked (contract 6.4): by what became of the issue, not by which message came
//! first.

use crate::agent::AgentErrorKind;
use crate::failure::FailureKind;
use crate::issue::Issue;
use crate::policy;
use crate::settings::TrackerSettings;

use crate::orchestrator::{Outcome, RunEnd, StopReason};

use super::run::Run;
use super::stage::After;

/// The outcome of a run: `stopped` says why it was told to stop, if it was, `then` what follows it.
pub(in crate::orchestrator) fn outcome(
    run: &Run,
    end: &RunEnd,
    stopped: Option<StopReason>,
    then: Option<&After>,
    issue: &Issue,
    tracker: &TrackerSettings,
) -> Outcome {
    match (stopped, then) {
        (Some(StopReason::Stalled), _) => return Outcome::Stalled,
        (Some(StopReason::Operator | StopReason::ShutDown), _) => return Outcome::Cancelled,
        (_, Some(After::Clean)) if policy::is_completed(issue, tracker) => return Outcome::Done,
        (_, Some(After::Clean)) if policy::is_discarded(issue) => return Outcome::Cancelled,
        _ => {}
    }
    match end {
        RunEnd::Succeeded => match then {
            Some(After::Retry(_)) => Outcome::Failed,
            None if run.turns >= run.max_turns => Outcome::OutOfTurns,
            _ => Outcome::Succeeded,
        },
        RunEnd::Failed(failure) => match failure.kind {
            FailureKind::Agent(AgentErrorKind::TurnTimeout) => Outcome::TimedOut,
            _ => Outcome::Failed,
        },
        RunEnd::InputRequired { .. } => Outcome::InputRequired,
        RunEnd::Cancelled => Outcome::Cancelled,
    }
}
