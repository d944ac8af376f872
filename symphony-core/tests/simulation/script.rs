//! What an agent will do, drawn when its run starts or is told to stop.

use std::sync::Arc;
use std::time::Duration;

use symphony_core::agent::{AgentErrorKind, AgentUpdate, Question, RateLimitWindow, RateLimits};
use symphony_core::orchestrator::{RunEnd, RunEvent};
use symphony_core::time::Wall;
use symphony_core::{Failure, FailureKind};

use crate::faults::{Fault, Luck};

/// What goes wrong in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    None,
    Create,
    BeforeRun,
    Prompt,
    SlowHook,
    Launch(AgentErrorKind),
    /// The machine has no room for it.
    Exhausted,
    HangAtLaunch,
    Fail(AgentErrorKind),
    Hang,
    Ask,
    Limit(Limit),
}

/// How an agent refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    kind: AgentErrorKind,
    says_when: bool,
}

impl Limit {
    /// What the run says at its end.
    pub(crate) fn report(self, wall: Wall, luck: &mut Luck) -> (Vec<RunEvent>, Failure) {
        let span = Duration::from_millis(luck.rng.pick(&[20_000, 300_000, 3_600_000, 200_000_000]));
        let failure = Failure::new(FailureKind::Agent(self.kind), "no more for now");
        if self.says_when {
            return (Vec::new(), failure.with_retry_after(Some(span)));
        }
        let mut news = Vec::new();
        if luck.strikes(Fault::WindowExhausted, 600) {
            let window = |name: &str, used_percent, resets_at| RateLimitWindow {
                name: name.to_owned(),
                used_percent,
                window_minutes: Some(300),
                resets_at,
            };
            let limits = RateLimits {
                limit_id: None,
                plan: None,
                windows: vec![
                    window("primary", 100.0, Some(wall + span)),
                    window("secondary", 40.0, Some(wall + span * 3)),
                ],
            };
            news.push(RunEvent::Agent(AgentUpdate::RateLimits(Arc::new(limits))));
        }
        (news, failure)
    }
}

/// A run's part.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) trouble: Trouble,
    /// Signs of life in one turn, and the milliseconds between them.
    pub(crate) beats: u64,
    pub(crate) beat: u64,
    /// After this many turns it moves its issue, if it does at all.
    pub(crate) turns: u32,
    pub(crate) moves_to: Option<&'static str>,
    /// Whether a turn ends between the stop and the exit.
    pub(crate) turn_races: bool,
}

impl Script {
    pub(crate) fn draw(luck: &mut Luck, chatty: bool, calm: bool) -> Self {
        let beat =
            if chatty { luck.rng.between(200, 2_000) } else { luck.rng.between(2_000, 40_000) };
        let beats = if chatty { luck.rng.between(20, 400) } else { luck.rng.between(1, 60) };
        let turns = u32::try_from(luck.rng.between(1, 3)).unwrap_or(1);
        let script =
            Self { trouble: Trouble::None, beats, beat, turns, moves_to: None, turn_races: false };
        if calm {
            let state = if luck.rng.per_mille(900) { "Done" } else { "Review" };
            return Self { beats: 3, beat: 10_000, turns: 1, moves_to: Some(state), ..script };
        }
        let trouble = Self::trouble(luck);
        Self { trouble, moves_to: Self::movement(luck), ..script }
    }

    fn movement(luck: &mut Luck) -> Option<&'static str> {
        if luck.strikes(Fault::NoProgress, 150) {
            return None;
        }
        if luck.strikes(Fault::MovedToTerminal, 400) {
            return Some(luck.rng.pick(&["Done", "Closed"]));
        }
        if luck.strikes(Fault::MovedItself, 600) {
            return Some(luck.rng.pick(&["In Progress", "Review", "Rework", "Review"]));
        }
        Some("Done")
    }

    fn trouble(luck: &mut Luck) -> Trouble {
        use AgentErrorKind as Kind;
        if luck.strikes(Fault::CreateFailed, 30) {
            Trouble::Create
        } else if luck.strikes(Fault::BeforeRunFailed, 30) {
            Trouble::BeforeRun
        } else if luck.strikes(Fault::PromptFailed, 15) {
            Trouble::Prompt
        } else if luck.strikes(Fault::SlowHook, 20) {
            Trouble::SlowHook
        } else if luck.strikes(Fault::LaunchFailed, 30) {
            let kind =
                luck.rng.pick(&[Kind::NotFound, Kind::ResponseTimeout, Kind::InvalidWorkspace]);
            // Without a draw of its own, so that older plans keep their meaning.
            if kind == Kind::NotFound && luck.happens(Fault::MachineExhausted) {
                Trouble::Exhausted
            } else {
                Trouble::Launch(kind)
            }
        } else if luck.strikes(Fault::AgentHung, 50) {
            if luck.rng.per_mille(300) { Trouble::HangAtLaunch } else { Trouble::Hang }
        } else if luck.strikes(Fault::RunFailed, 120) {
            let kind = luck.rng.pick(&[
                Kind::TurnFailed,
                Kind::ProcessExit,
                Kind::TurnTimeout,
                Kind::TurnCancelled,
            ]);
            Trouble::Fail(kind)
        } else if luck.strikes(Fault::InputAsked, 40) {
            Trouble::Ask
        } else if luck.strikes(Fault::UsageLimit, 25) {
            let kind = luck.rng.pick(&[Kind::UsageLimit, Kind::RateLimited]);
            Trouble::Limit(Limit { kind, says_when: luck.strikes(Fault::LimitWithTime, 500) })
        } else if luck.strikes(Fault::Unauthorized, 8) {
            Trouble::Limit(Limit { kind: Kind::Unauthorized, says_when: false })
        } else {
            Trouble::None
        }
    }
}

/// How a run leaves after it was told to stop.
#[derive(Clone, Debug)]
pub(crate) struct Exit {
    pub(crate) after: u64,
    pub(crate) end: RunEnd,
    pub(crate) turn_first: bool,
}

impl Exit {
    pub(crate) fn draw(luck: &mut Luck) -> Self {
        let mut after = luck.rng.between(1, 4_000);
        if luck.strikes(Fault::ExitLate, 150) {
            after = luck.rng.between(5_000, 60_000);
        }
        if luck.strikes(Fault::ExitOverdue, 30) {
            after = luck.rng.between(300_000, 7_200_000);
        }
        let mut end = RunEnd::Cancelled;
        if luck.strikes(Fault::EndRacesStop, 150) {
            let failure = Failure::new(
                FailureKind::Agent(AgentErrorKind::ProcessExit),
                "gone before the stop",
            );
            end = if luck.rng.per_mille(800) {
                RunEnd::Failed(failure)
            } else {
                RunEnd::InputRequired { question: Question::text("q-2", "Too late?") }
            };
        }
        Self { after, end, turn_first: luck.strikes(Fault::TurnRacesStop, 100) }
    }
}
