//! When the agent last said something, and whether it is its turn to speak.

use std::time::Duration;

use tokio::time::Instant;

/// A process that wakes up so late was stopped, as by Ctrl-Z or with its container, and has heard
/// nothing meanwhile.
const SUSPENDED_AFTER: Duration = Duration::from_secs(2);

/// Signs of life. Silence counts only while Symphony owes nothing.
#[derive(Debug)]
pub(crate) struct LastActivity {
    last: Instant,
    /// A tool runs for the agent, which waits for it.
    owes: bool,
}

impl LastActivity {
    pub(crate) fn new() -> Self {
        Self { last: Instant::now(), owes: false }
    }

    /// The agent said something at this time.
    pub(crate) fn touch(&mut self, now: Instant) {
        self.last = now;
    }

    /// Whether Symphony owes the next step. When it does no more, silence begins anew.
    pub(crate) fn set_owes(&mut self, owes: bool) {
        self.touch(Instant::now());
        self.owes = owes;
    }

    /// When the agent will have been silent for so long.
    pub(crate) fn silent_at(&self, limit: Duration) -> Option<Instant> {
        if self.owes { None } else { self.last.checked_add(limit) }
    }

    /// Whether the agent has been silent for so long. Where this process itself was stopped, silence
    /// begins anew: the agent may have been stopped with it.
    pub(crate) fn is_silent(&mut self, limit: Duration) -> bool {
        let now = Instant::now();
        let Some(end) = self.silent_at(limit).filter(|end| *end <= now) else { return false };
        let was_stopped = now.duration_since(end) > SUSPENDED_AFTER;
        if was_stopped {
            self.touch(now);
        }
        !was_stopped
    }
}
