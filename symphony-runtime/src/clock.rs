//! The two clocks, read in one place.

use std::time::{Duration, SystemTime};

use symphony_core::time::{Mono, Now, Wall};
use tokio::time::Instant;

/// How far the wall clock may be from where it was expected before it was set.
const MAX_DRIFT: Duration = Duration::from_millis(250);

/// Turns the runtime's instants into the core's numbers and back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
    /// The time of day at the origin: both clocks go on together from there, else a deadline would
    /// be another time of day, by a millisecond, in every snapshot.
    began: Wall,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { origin: Instant::now(), began: wall_now() }
    }

    pub(crate) fn now(&mut self) -> Now {
        self.at(wall_now())
    }

    /// Now, when the wall clock shows this.
    fn at(&mut self, shown: Wall) -> Now {
        let passed = self.origin.elapsed();
        let mono = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
        let mono = Mono::from_millis(mono);
        let passed = Duration::from_millis(mono.as_millis());
        let off = (self.began + passed).as_unix_millis().abs_diff(shown.as_unix_millis());
        if u128::from(off) > MAX_DRIFT.as_millis() {
            self.began = shown - passed;
        }
        Now { mono, wall: self.began + passed }
    }

    /// Stands still for the time since then.
    pub(crate) fn skip_since(&mut self, then: Instant) {
        self.origin += then.elapsed();
    }

    /// The instant at which a deadline has passed.
    pub(crate) fn instant(&self, at: Mono) -> Instant {
        let since = Duration::from_millis(at.as_millis());
        // A deadline beyond what the platform can express is as good as none.
        self.origin
            .checked_add(since)
            .unwrap_or_else(|| self.origin + Duration::from_secs(30 * 365 * 86_400))
    }
}

/// The wall clock. A clock before 1970 reads as 1970.
pub(crate) fn wall_now() -> Wall {
    SystemTime::now().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn rule_13_2_a_deadline_is_the_same_time_of_day_whenever_one_looks() {
        let mut clock = Clock::start();
        let began = clock.began;
        for (passed, shown) in [(0, 1), (1_000, 999), (5_000, 5_200)] {
            let until = Instant::now() - clock.origin;
            tokio::time::advance(Duration::from_millis(passed) - until).await;
            let now = clock.at(began + Duration::from_millis(shown));
            assert_eq!(now.wall - Duration::from_millis(now.mono.as_millis()), began);
        }
        // A clock that was set is believed.
        let set = began + Duration::from_secs(3_600);
        assert_eq!(clock.at(set).wall, set);
        assert_eq!(clock.at(began).wall, began);
    }
}
