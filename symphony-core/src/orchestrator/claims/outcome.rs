//! How a run is booked (contract 6.4), by what became of the issue and not by which message came
//! first; and what follows its end.

use crate::agent::AgentErrorKind;
use crate::failure::{Failure, FailureKind};
use crate::issue::Issue;
use crate::policy;
use crate::settings::TrackerSettings;

use crate::orchestrator::{BlockReason, Outcome, RunEnd, StopReason};

use super::run::Run;
use super::stage::After;

/// Returns the outcome of a run: `stopped` says why it was told to stop, if it was, `then` what
/// follows it.
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
            Some(After::Postpone(_)) => Outcome::Interrupted,
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

/// Returns what follows a run; `None` is a continuation check. `asked` follows a stop, `decided`
/// was to follow an end of its own.
pub(in crate::orchestrator) fn after_end(
    asked: Option<After>,
    decided: Option<After>,
    end: RunEnd,
) -> Option<After> {
    match (asked, decided, end) {
        // A question that came while the service was ending is not lost.
        (Some(After::Postpone(_)), _, RunEnd::InputRequired { question }) => {
            Some(After::Block(BlockReason::Question(question)))
        }
        (Some(asked), ..) => Some(asked),
        (None, decided, end) => after_own_end(decided, end),
    }
}

/// Returns what follows a run that was not told to stop.
fn after_own_end(decided: Option<After>, end: RunEnd) -> Option<After> {
    match (decided, end) {
        (decided, RunEnd::Succeeded) => decided,
        // Once the issue is known to be over, how its last turn ended changes nothing.
        (
            Some(then @ (After::Clean | After::Release(_))),
            RunEnd::Failed(_) | RunEnd::InputRequired { .. },
        ) => Some(then),
        // The process that has it ends, or is ended; the agent has not done anything wrong.
        (_, RunEnd::Failed(failure))
            if failure.kind == FailureKind::Agent(AgentErrorKind::ThreadInUse) =>
        {
            Some(After::Postpone(failure))
        }
        (_, RunEnd::Failed(failure)) => Some(After::Retry(failure)),
        (_, RunEnd::InputRequired { question }) => {
            Some(After::Block(BlockReason::Question(question)))
        }
        (_, RunEnd::Cancelled) => {
            let message = "the run ended without being told to";
            Some(After::Retry(Failure::new(FailureKind::Internal, message)))
        }
    }
}
