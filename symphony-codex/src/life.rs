//! When the agent last said something, and whether it is its turn to speak.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Signs of life. Silence counts only while Symphony owes nothing.
#[derive(Debug)]
pub(crate) struct Life {
    origin: Instant,
    /// Milliseconds from the origin to the last sign.
    last: AtomicU64,
    /// A tool runs for the agent, which waits for it.
    owes: AtomicBool,
}

impl Life {
    pub(crate) fn new() -> Self {
        Self { origin: Instant::now(), last: AtomicU64::new(0), owes: AtomicBool::new(false) }
    }

    /// The agent said something at this time.
    pub(crate) fn touch(&self, now: Instant) {
        let since = now.saturating_duration_since(self.origin).as_millis();
        self.last.store(u64::try_from(since).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Whether Symphony owes the next step. When it does no more, silence begins anew.
    pub(crate) fn set_owes(&self, owes: bool) {
        self.touch(Instant::now());
        self.owes.store(owes, Ordering::Relaxed);
    }

    /// Waits until nothing has come for so long.
    pub(crate) async fn silence(&self, limit: Duration) {
        loop {
            let now = Instant::now();
            let last = if self.owes.load(Ordering::Relaxed) {
                now
            } else {
                self.origin + Duration::from_millis(self.last.load(Ordering::Relaxed))
            };
            let Some(end) = last.checked_add(limit) else {
                return std::future::pending().await;
            };
            if end <= now {
                return;
            }
            tokio::time::sleep_until(end).await;
        }
    }
}
