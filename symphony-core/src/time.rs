//! Time as plain numbers: the core never reads a clock, it is told.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A point on the monotonic clock, in milliseconds since an arbitrary origin.
///
/// Every deadline of the orchestrator is one of these.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Mono(u64);

impl Mono {
    /// The point `millis` after the origin.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the origin.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// How long ago `earlier` was; zero if it lies in the future.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// How long until `later`; zero if it has passed.
    #[must_use]
    pub const fn until(self, later: Self) -> Duration {
        later.since(self)
    }
}

impl Add<Duration> for Mono {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(millis(span)))
    }
}

/// A point on the wall clock, in milliseconds since the Unix epoch.
///
/// For people and for the day's counts; nothing is scheduled by it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Wall(i64);

impl Wall {
    /// The point `millis` after the Unix epoch.
    #[must_use]
    pub const fn from_unix_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub const fn as_unix_millis(self) -> i64 {
        self.0
    }

    /// Parses an RFC 3339 instant; `None` for anything else.
    ///
    /// ```
    /// use symphony_core::time::Wall;
    /// let wall = Wall::parse("2026-02-18T09:30:00Z").unwrap();
    /// assert_eq!(wall.to_string(), "2026-02-18T09:30:00Z");
    /// assert_eq!(Wall::parse("yesterday"), None);
    /// ```
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let instant: jiff::Timestamp = text.trim().parse().ok()?;
        Some(Self(instant.as_millisecond()))
    }

    /// The number of whole days since the epoch (UTC): the key of a day's counts.
    #[must_use]
    pub const fn day(self) -> i64 {
        self.0.div_euclid(86_400_000)
    }

    /// How long until `later`; `None` if it has passed.
    #[must_use]
    pub fn until(self, later: Self) -> Option<Duration> {
        u64::try_from(later.0.saturating_sub(self.0)).ok().map(Duration::from_millis)
    }
}

#[expect(clippy::disallowed_types, reason = "a time that the caller has read from a clock")]
impl From<std::time::SystemTime> for Wall {
    /// Converts what a clock shows. A clock before 1970 reads as 1970.
    fn from(time: std::time::SystemTime) -> Self {
        Self::default() + time.duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
    }
}

impl Add<Duration> for Wall {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        let span = i64::try_from(millis(span)).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(span))
    }
}

impl Sub<Duration> for Wall {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        let span = i64::try_from(millis(span)).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(span))
    }
}

impl fmt::Display for Wall {
    /// RFC 3339 in UTC. What lies beyond its years is shown as the last or first moment of them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let furthest = if self.0 < 0 { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX };
        jiff::Timestamp::from_millisecond(self.0).unwrap_or(furthest).fmt(f)
    }
}

/// Both clocks at one moment, as the orchestrator is told them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Now {
    /// The clock that deadlines are on.
    pub mono: Mono,
    /// The clock that people read.
    pub wall: Wall,
}

/// Whole milliseconds of a duration, saturating.
pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_time_is_a_wall_time_and_never_before_1970() {
        let millis = |millis| std::time::UNIX_EPOCH + Duration::from_millis(millis);
        assert_eq!(Wall::from(millis(1_790_000_000_123)).as_unix_millis(), 1_790_000_000_123);
        let before = std::time::UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(Wall::from(before), Wall::default());
    }

    #[test]
    fn rule_13_3_every_time_can_be_read_back() {
        for millis in [-1, 0, 1, 1_790_000_000_000] {
            let wall = Wall::from_unix_millis(millis);
            assert_eq!(Wall::parse(&wall.to_string()), Some(wall));
        }
        // An agent that tells milliseconds where seconds are meant, and the ends of all numbers.
        for millis in [i64::MIN, 1_790_000_000_000_000, i64::MAX] {
            let text = Wall::from_unix_millis(millis).to_string();
            let read = Wall::parse(&text).map(Wall::as_unix_millis);
            assert!(read.is_some_and(|read| (read < 0) == (millis < 0)), "{text}");
        }
    }
}
