//! How fast each job goes: intervals, activity, quiet hours (contract 12.1–12.3).

use std::time::Duration;

use crate::budget::TOOL;
use crate::settings::ActivitySettings;
use crate::snapshot::Mode;
use crate::time::{Mono, Now, millis};

use super::jobs::JobState;
use super::{Happened, Job, Orchestrator, Purpose};

/// A tracker's wish for its next poll is honoured up to this many intervals.
const LONGEST_WISH: u32 = 10;

/// What the pace depends on besides the settings.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace {
    /// When something last happened.
    pub(super) last_activity: Mono,
    /// Whether quiet hours are on.
    pub(super) quiet: bool,
    /// The mode that people were told.
    pub(super) told: Mode,
}

impl Orchestrator {
    /// Something happened: back to the active pace at once.
    pub(super) fn touch(&mut self) {
        self.pace.last_activity = self.now.mono;
    }

    /// The pace at which candidates are asked for.
    pub(super) fn mode(&self, now: Mono) -> Mode {
        if self.pace.quiet { Mode::Dormant } else { self.activity(now) }
    }

    fn activity(&self, now: Mono) -> Mode {
        let Some(activity) = &self.settings().polling.activity else {
            return Mode::Active;
        };
        let silence = now.since(self.pace.last_activity);
        if silence >= activity.dormant_after {
            Mode::Dormant
        } else if silence >= activity.idle_after {
            Mode::Idle
        } else {
            Mode::Active
        }
    }

    /// The interval of a job at this moment.
    pub(super) fn interval(&self, job: &Job) -> Duration {
        let polling = &self.settings().polling;
        let now = self.now.mono;
        match job {
            Job::Candidates => {
                let base = polling.jobs.candidates.unwrap_or(polling.interval);
                self.relaxed(self.slowed(base, self.mode(now)), &self.jobs.candidates)
            }
            Job::Refresh => {
                let base = polling.jobs.refresh.unwrap_or(polling.interval);
                // While a run lives, a cancel in the tracker must be noticed in time.
                if !self.runs.is_empty() {
                    return base;
                }
                self.relaxed(self.slowed(base, self.activity(now)), &self.jobs.refresh)
            }
            Job::Sweep => polling.jobs.sweep,
            Job::Custom(name) => {
                self.jobs.custom.get(name).map(|(interval, _)| *interval).unwrap_or_default()
            }
        }
    }

    fn slowed(&self, base: Duration, mode: Mode) -> Duration {
        let defaults = ActivitySettings::default();
        let activity = self.settings().polling.activity.as_ref().unwrap_or(&defaults);
        match mode {
            Mode::Active => base,
            Mode::Idle => base.max(activity.idle),
            Mode::Dormant => base.max(activity.dormant),
        }
    }

    /// While deliveries tell what changes, polls only make sure (contract 12.8). One that failed
    /// has made sure of nothing.
    fn relaxed(&self, interval: Duration, job: &JobState) -> Duration {
        if self.deliveries.are_healthy(self.now.mono) && job.failure.is_none() {
            self.slowed(interval, Mode::Idle)
        } else {
            interval
        }
    }

    /// A tracker's wish for its next poll, within bounds (contract 12.6).
    pub(super) fn bounded_wish(&self, wish: Duration) -> Duration {
        let base = self.interval(&Job::Candidates);
        wish.clamp(base, base.saturating_mul(LONGEST_WISH))
    }

    /// How many requests the day will take: what is spent, polls at this pace for the rest of it,
    /// and reads before starts, after turns and deliveries, and tool calls as often as so far
    /// (contract 12.7).
    pub(super) fn projected_day(&self, now: Now) -> u64 {
        const DAY: u64 = 86_400_000;
        const HOUR: u64 = 3_600_000;
        let passed = now.wall.as_unix_millis().rem_euclid(86_400_000).unsigned_abs();
        let left = DAY - passed;
        let today = self.requests_of(now.wall.day());
        let count = |purpose: Purpose| today.get(purpose.as_str()).copied();
        let spent = today.values().fold(0, |sum: u64, n| sum.saturating_add(*n));
        let reads = count(Purpose::Check).unwrap_or(0);
        let reads = reads.saturating_add(count(Purpose::Turn).unwrap_or(0));
        let reads = reads.saturating_add(count(Purpose::Delivery).unwrap_or(0));
        let reads = reads.saturating_add(today.get(TOOL).copied().unwrap_or(0));
        let mut pace = self.interval(&Job::Candidates);
        if !self.claims.is_empty() {
            pace = pace.min(self.interval(&Job::Refresh));
        }
        let polls = left / millis(pace).max(1);
        spent.saturating_add(polls).saturating_add(reads.saturating_mul(left) / passed.max(HOUR))
    }

    /// Tells when the mode changed.
    pub(super) fn tell_mode(&mut self) {
        let mode = self.mode(self.now.mono);
        if mode != self.pace.told {
            self.pace.told = mode;
            self.notice(Happened::ModeChanged { mode });
        }
    }
}
