//! A bucket of requests or points that refills evenly.

use std::time::Duration;

use crate::time::{Mono, millis};

/// Far above any real limit, and small enough that nothing below can overflow.
const MAX_LIMIT: u64 = 1_000_000_000_000;
const MAX_WINDOW_MILLIS: u64 = 31 * 24 * 3_600_000;

/// A bucket. Amounts inside are in units: one request or point is `window` units, so that a
/// millisecond brings exactly `rate` of them and nothing is lost to rounding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Meter {
    limit: u64,
    /// The most it holds.
    capacity: u64,
    /// What comes back in a window.
    rate: u64,
    /// In milliseconds.
    window: u64,
    /// What it held at `at`, in units. Below zero when a request cost more than expected.
    level: i128,
    at: Mono,
}

impl Meter {
    /// Never lets more than `limit` through in any window: `1/burst` of it at once, the rest evenly.
    pub(super) fn paced(limit: u64, burst: u64, window: Duration, spent: u64, now: Mono) -> Self {
        let limit = limit.min(MAX_LIMIT);
        let capacity = limit.div_ceil(burst.max(1));
        let mut meter = Self {
            limit,
            capacity,
            // With the capacity gone at a window's start, the last of these comes at its end,
            // which is the next window's start.
            rate: if limit == 0 { 0 } else { limit - capacity + 1 },
            window: millis(window).clamp(1, MAX_WINDOW_MILLIS),
            level: 0,
            at: now,
        };
        meter.level = meter.units(capacity.saturating_sub(spent));
        meter
    }

    /// Follows the tracker's own bucket, which holds its whole limit.
    pub(super) fn mirror(limit: u64, window: Duration, left: u64, now: Mono) -> Self {
        let limit = limit.min(MAX_LIMIT);
        let mut meter = Self {
            limit,
            capacity: limit,
            rate: limit,
            window: millis(window).clamp(1, MAX_WINDOW_MILLIS),
            level: 0,
            at: now,
        };
        meter.level = meter.units(left.min(limit));
        meter
    }

    /// Another limit from now on. What is there stays, as far as there is room.
    pub(super) fn change(&mut self, limit: u64, burst: u64, window: Duration, now: Mono) {
        let new = Self::paced(limit, burst, window, 0, now);
        if (new.limit, new.window) == (self.limit, self.window) {
            return;
        }
        self.refill(now);
        let level = self.level * i128::from(new.window) / i128::from(self.window);
        *self =
            Self { level: level.clamp(new.deepest(), new.units(new.capacity)), at: self.at, ..new };
    }

    pub(super) const fn limit(&self) -> u64 {
        self.limit
    }

    /// The time in which one comes back.
    pub(super) fn interval(&self) -> Duration {
        Duration::from_millis(self.window.div_ceil(self.rate.max(1)))
    }

    /// The limit, less what was spent and has not come back.
    pub(super) fn left(&self, now: Mono) -> u64 {
        let gone = self.units(self.capacity) - self.level_at(now);
        let left = (self.units(self.limit) - gone) / i128::from(self.window);
        u64::try_from(left).unwrap_or(0)
    }

    /// How long until `cost` can be spent while `ahead` is left for others and the share `reserve`
    /// for better ranks. Zero means now.
    pub(super) fn wait(&self, cost: u64, ahead: u64, reserve: f64, now: Mono) -> Duration {
        if cost == 0 {
            return Duration::ZERO;
        }
        // What costs more than the bucket holds goes when it is full, and is paid back after.
        let cost = cost.min(self.capacity.max(1));
        let floor = self.floor(reserve).min(self.capacity.saturating_sub(cost));
        let wanted = self.units(cost) + self.units(floor) + self.units(ahead.min(MAX_LIMIT));
        let short = u128::try_from(wanted - self.level_at(now)).unwrap_or(0);
        if short == 0 {
            return Duration::ZERO;
        }
        if self.rate == 0 {
            return Duration::from_millis(self.window);
        }
        let refill = u64::try_from(short.div_ceil(u128::from(self.rate))).unwrap_or(u64::MAX);
        now.until(self.at) + Duration::from_millis(refill)
    }

    pub(super) fn spend(&mut self, cost: u64, now: Mono) {
        self.refill(now);
        self.level = (self.level - self.units(cost.min(MAX_LIMIT))).max(self.deepest());
    }

    /// A request cost something else than expected.
    pub(super) fn correct(&mut self, expected: u64, charged: u64, now: Mono) {
        if charged >= expected {
            self.spend(charged - expected, now);
        } else {
            self.refill(now);
            let back = self.units((expected - charged).min(MAX_LIMIT));
            self.level = (self.level + back).min(self.units(self.capacity));
        }
    }

    /// Empty, with the next one exactly at `until`.
    pub(super) fn one_at(&mut self, until: Mono, now: Mono) {
        self.refill(now);
        let begin = until.as_millis().saturating_sub(millis(self.interval()));
        let begin = Mono::from_millis(begin).max(now);
        self.level = self.level.min(0);
        self.at = begin;
    }

    fn refill(&mut self, now: Mono) {
        self.level = self.level_at(now);
        self.at = self.at.max(now);
    }

    fn level_at(&self, now: Mono) -> i128 {
        let passed = i128::from(millis(now.since(self.at)));
        let refilled = self.level + passed * i128::from(self.rate);
        refilled.min(self.units(self.capacity))
    }

    /// The deepest debt: a wild figure is forgiven after a window or so.
    fn deepest(&self) -> i128 {
        -self.units(self.rate.max(self.capacity))
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of a capacity far below 2^53; what is not a number becomes zero"
    )]
    fn floor(&self, reserve: f64) -> u64 {
        (self.capacity as f64 * reserve).floor() as u64
    }

    fn units(&self, amount: u64) -> i128 {
        i128::from(amount) * i128::from(self.window)
    }
}
