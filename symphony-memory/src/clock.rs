//! The wall clock as an argument: tests say what time it is.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use symphony_core::time::Wall;

/// Where changes and events get their time from. Cheap to clone.
///
/// ```
/// use symphony_core::time::Wall;
/// use symphony_memory::BoardClock;
/// let noon = Wall::parse("2026-02-18T12:00:00Z").unwrap();
/// assert_eq!(BoardClock::new(move || noon).now(), noon);
/// ```
#[derive(Clone)]
pub struct BoardClock(Arc<dyn Fn() -> Wall + Send + Sync>);

impl BoardClock {
    /// A clock that this function reads.
    #[must_use]
    pub fn new(now: impl Fn() -> Wall + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The machine's clock.
    #[must_use]
    pub fn system() -> Self {
        Self::new(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            Wall::from_unix_millis(0) + since
        })
    }

    /// A clock that shows `start` now and moves with tokio's, which a test can pause.
    #[must_use]
    pub fn tokio(start: Wall) -> Self {
        let origin = tokio::time::Instant::now();
        Self::new(move || start + origin.elapsed())
    }

    /// What it shows.
    #[must_use]
    pub fn now(&self) -> Wall {
        (self.0)()
    }
}

impl Default for BoardClock {
    fn default() -> Self {
        Self::system()
    }
}

impl fmt::Debug for BoardClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BoardClock({})", self.now())
    }
}
