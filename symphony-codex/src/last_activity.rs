//! Measures an agent's silence, from its last line or from the end of a tool call.

use std::time::Duration;

use tokio::time::Instant;

/// Waking up this late means that this process was suspended (SIGSTOP, frozen cgroup): silence
/// during that time is not a timeout.
const SUSPENDED_AFTER: Duration = Duration::from_secs(2);

/// The time of the agent's last line. Silence counts only while no tool runs for the agent.
#[derive(Debug)]
pub(crate) struct LastActivity {
    last: Instant,
    /// Whether a tool runs for the agent, which waits for its result.
    owes: bool,
}

impl LastActivity {
    pub(crate) fn new() -> Self {
        Self { last: Instant::now(), owes: false }
    }

    /// Records a line at this time.
    pub(crate) fn touch(&mut self, now: Instant) {
        self.last = now;
    }

    /// Records whether Symphony owes the next step. Silence is measured anew from here.
    pub(crate) fn set_owes(&mut self, owes: bool) {
        self.touch(Instant::now());
        self.owes = owes;
    }

    /// Returns when the agent will have been silent for this long; `None` while a tool runs.
    pub(crate) fn silent_at(&self, limit: Duration) -> Option<Instant> {
        if self.owes { None } else { self.last.checked_add(limit) }
    }

    /// Returns whether the agent has been silent for this long. After a suspension of this process
    /// silence is measured anew: the agent may have been suspended too.
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
