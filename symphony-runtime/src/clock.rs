//! The two clocks, read in one place.

use std::time::{SystemTime, UNIX_EPOCH};

use symphony_core::time::{Mono, Now, Wall};
use tokio::time::Instant;

/// Turns the runtime's instants into the core's numbers and back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { origin: Instant::now() }
    }

    pub(crate) fn now(&self) -> Now {
        let mono = u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX);
        Now { mono: Mono::from_millis(mono), wall: wall_now() }
    }

    /// Stands still for the time since then.
    pub(crate) fn skip_since(&mut self, then: Instant) {
        self.origin += then.elapsed();
    }

    /// The instant at which a deadline has passed.
    pub(crate) fn instant(&self, at: Mono) -> Instant {
        let since = std::time::Duration::from_millis(at.as_millis());
        // A deadline beyond what the platform can express is as good as none.
        self.origin
            .checked_add(since)
            .unwrap_or_else(|| self.origin + std::time::Duration::from_secs(30 * 365 * 86_400))
    }
}

/// The wall clock. A clock before 1970 reads as 1970.
pub(crate) fn wall_now() -> Wall {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Wall::from_unix_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
