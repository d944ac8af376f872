//! How fast each job goes: intervals, activity, quiet hours (contract 12.1–12.3), and what holds
//! starts and reads back.

use std::time::Duration;

use crate::budget::Spent;
use crate::settings::{ActivitySettings, PollingSettings};
use crate::snapshot::Mode;
use crate::time::Mono;

use super::holds::Holds;
use super::requests::DayRequests;

/// A tracker's wish for its next poll is honoured up to this many intervals.
const MAX_WISH_INTERVALS: u32 = 10;

/// What the pace depends on besides the settings.
#[derive(Debug)]
pub(super) struct Pacing {
    /// When something last happened.
    last_activity: Mono,
    /// Whether quiet hours are on.
    quiet: bool,
    /// The mode that people were told.
    told: Mode,
    pub(super) holds: Holds,
    pub(super) requests: DayRequests,
}

impl Pacing {
    pub(super) fn new(now: Mono, spent: Spent) -> Self {
        Self {
            last_activity: now,
            quiet: false,
            told: Mode::default(),
            holds: Holds::new(now),
            requests: DayRequests::new(spent),
        }
    }

    /// Notes activity: the active pace begins at once.
    pub(super) const fn touch(&mut self, now: Mono) {
        self.last_activity = now;
    }

    pub(super) const fn is_quiet(&self) -> bool {
        self.quiet
    }

    pub(super) const fn set_quiet(&mut self, on: bool) {
        self.quiet = on;
    }

    /// Returns the pace at which candidates are asked for.
    pub(super) fn mode(&self, polling: &PollingSettings, now: Mono) -> Mode {
        if self.quiet { Mode::Dormant } else { self.activity(polling, now) }
    }

    /// Returns the pace at which claimed issues are read while none of them runs.
    pub(super) fn activity(&self, polling: &PollingSettings, now: Mono) -> Mode {
        let Some(activity) = &polling.activity else {
            return Mode::Active;
        };
        let silence = now.since(self.last_activity);
        if silence >= activity.dormant_after {
            Mode::Dormant
        } else if silence >= activity.idle_after {
            Mode::Idle
        } else {
            Mode::Active
        }
    }

    /// Returns the mode, if it is not the one that was last told.
    pub(super) fn changed_mode(&mut self, polling: &PollingSettings, now: Mono) -> Option<Mode> {
        let mode = self.mode(polling, now);
        (std::mem::replace(&mut self.told, mode) != mode).then_some(mode)
    }
}

/// Returns an interval as it is in this mode.
pub(super) fn slowed(polling: &PollingSettings, base: Duration, mode: Mode) -> Duration {
    let defaults = ActivitySettings::default();
    let activity = polling.activity.as_ref().unwrap_or(&defaults);
    match mode {
        Mode::Active => base,
        Mode::Idle => base.max(activity.idle),
        Mode::Dormant => base.max(activity.dormant),
    }
}

/// Bounds a tracker's wish for its next poll (contract 12.6).
pub(super) fn bounded_wish(wish: Duration, interval: Duration) -> Duration {
    wish.clamp(interval, interval.saturating_mul(MAX_WISH_INTERVALS))
}
