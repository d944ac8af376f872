//! People who reload, pause, poll, stop, retry and shut down, and accidents of the machine.

use symphony_core::IssueId;
use symphony_core::orchestrator::Command;

use crate::faults::{Fault, Luck};
use crate::plan::Plan;

/// What an operator does next.
#[derive(Clone, Debug)]
pub(crate) enum Deed {
    Command(Command),
    EditFile,
    Activity,
    AddJob,
    QuietHours,
    Meddle,
    Nothing,
}

/// What happens to the service or its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accident {
    Kill { again: bool },
    WallJump(i64),
    Suspend(u64),
    SpuriousWake,
    OldRunNews,
    OldReadAnswer,
    Nothing,
}

/// The operators of a world.
#[derive(Debug)]
pub(crate) struct Operator {
    pub(crate) luck: Luck,
    pace: u64,
    mishaps: u64,
}

impl Operator {
    pub(crate) fn new(plan: &Plan) -> Self {
        let mut luck = Luck::new(plan.seed, 7, plan.faults);
        let pace = luck.rng.pick(&[60_000, 300_000, 1_200_000]);
        let mishaps = luck.rng.pick(&[120_000, 600_000, 3_000_000]);
        Self { luck, pace, mishaps }
    }

    /// Milliseconds until the next deed.
    pub(crate) fn pause(&mut self) -> u64 {
        let pace = self.pace;
        self.luck.rng.between(pace / 20, pace * 2)
    }

    /// Milliseconds until the next accident.
    pub(crate) fn respite(&mut self) -> u64 {
        let mishaps = self.mishaps;
        self.luck.rng.between(mishaps / 20, mishaps * 2)
    }

    /// What an operator does now; `issues` are those to choose from.
    pub(crate) fn deed(&mut self, paused: bool, issues: &[IssueId]) -> Deed {
        let issue = (!issues.is_empty()).then(|| issues[self.luck.rng.index(issues.len())].clone());
        let issue = issue.unwrap_or_else(|| IssueId::from("nobody"));
        // A pause is not forgotten for long.
        if paused && self.luck.rng.per_mille(400) {
            return Deed::Command(Command::Resume);
        }
        let luck = &mut self.luck;
        match luck.rng.below(100) {
            0..=24 => Deed::EditFile,
            25..=34 if luck.strikes(Fault::PolledNow, 1000) => Deed::Command(Command::PollNow),
            35..=42 if luck.strikes(Fault::Paused, 500) => Deed::Command(Command::Pause),
            43..=58 if luck.strikes(Fault::Stopped, 800) => Deed::Command(Command::Stop(issue)),
            59..=76 if luck.strikes(Fault::Retried, 900) => Deed::Command(Command::Retry(issue)),
            77..=82 if luck.strikes(Fault::HoldsCleared, 800) => Deed::Command(Command::ClearHolds),
            83..=84 if luck.strikes(Fault::ShutDown, 400) => Deed::Command(Command::ShutDown),
            85..=88 if luck.strikes(Fault::Activity, 1000) => Deed::Activity,
            89..=90 if luck.strikes(Fault::CustomJob, 1000) => Deed::AddJob,
            91..=94 if luck.strikes(Fault::QuietHours, 800) => Deed::QuietHours,
            95..=99 => Deed::Meddle,
            _ => Deed::Nothing,
        }
    }

    /// What happens now.
    pub(crate) fn accident(&mut self) -> Accident {
        let luck = &mut self.luck;
        match luck.rng.below(100) {
            0..=14 if luck.strikes(Fault::Killed, 500) => {
                Accident::Kill { again: luck.strikes(Fault::KilledAgain, 300) }
            }
            15..=24 if luck.strikes(Fault::WallJumped, 500) => {
                Accident::WallJump(luck.rng.pick(&[
                    -90_000_000,
                    -3_600_000,
                    -1_500,
                    2_000,
                    3_600_000,
                    90_000_000,
                ]))
            }
            25..=34 if luck.strikes(Fault::Suspended, 500) => {
                Accident::Suspend(luck.rng.pick(&[200, 20_000, 1_800_000]))
            }
            35..=54 if luck.strikes(Fault::SpuriousWake, 1000) => Accident::SpuriousWake,
            55..=79 => Accident::OldRunNews,
            80..=99 => Accident::OldReadAnswer,
            _ => Accident::Nothing,
        }
    }
}
