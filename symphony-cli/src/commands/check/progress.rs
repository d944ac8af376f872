//! A sign of life for what takes longer than a moment.

use std::io::{IsTerminal as _, Write as _, stderr};
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, interval_at};

const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Waits for work. On a terminal, a line says how long it has taken so far.
pub(super) async fn with_progress<T>(what: &str, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    if !stderr().is_terminal() {
        return work.await;
    }
    let began = Instant::now();
    let mut ticks = interval_at(began + PROGRESS_INTERVAL, PROGRESS_INTERVAL);
    let mut is_shown = false;
    loop {
        tokio::select! {
            biased;
            done = &mut work => {
                if is_shown {
                    let _ = write!(stderr(), "\r\u{1b}[K");
                }
                return done;
            }
            _ = ticks.tick() => {
                is_shown = true;
                let seconds = began.elapsed().as_secs();
                let _ = write!(stderr(), "\r\u{1b}[K{what}: {seconds} s");
                let _ = stderr().flush();
            }
        }
    }
}
