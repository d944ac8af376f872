//! What polling will cost, before it is begun (contract 12.7).

use std::time::Duration;

use crate::settings::{ActivitySettings, PollingSettings};
use crate::snapshot::Mode;

const HOUR: Duration = Duration::from_secs(3600);

/// The work that requests are estimated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Agents at work at a time.
    pub agents: u32,
    /// How long a turn takes.
    pub turn: Duration,
    /// How many turns an issue takes.
    pub turns: u32,
}

impl Workload {
    /// Assumes so many agents, with two turns of ten minutes for each issue.
    #[must_use]
    pub const fn with_agents(agents: u32) -> Self {
        Self { agents, turn: Duration::from_secs(600), turns: 2 }
    }
}

/// Requests to the tracker in an hour. The agents' own tool calls come on top.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hourly {
    /// Polls: new work and what is being worked on, in one request where they meet.
    pub polls: u64,
    /// Reads before starts and after turns.
    pub reads: u64,
}

impl Hourly {
    /// Returns the sum of all requests.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.polls.saturating_add(self.reads)
    }
}

/// How many requests an hour takes in this mode, at most, if a poll is one request.
#[must_use]
pub fn hourly(polling: &PollingSettings, mode: Mode, workload: Workload) -> Hourly {
    let slowest = match (mode, polling.activity.as_ref().unwrap_or(&ActivitySettings::default())) {
        (Mode::Active, _) => Duration::ZERO,
        (Mode::Idle, activity) => activity.idle,
        (Mode::Dormant, activity) => activity.dormant,
    };
    let candidates = polling.jobs.candidates.unwrap_or(polling.interval).max(slowest);
    if workload.agents == 0 {
        return Hourly { polls: per_hour(candidates), reads: 0 };
    }
    // While a run lives, refresh keeps the active interval.
    let refresh = polling.jobs.refresh.unwrap_or(polling.interval);
    let (fast, slow) = (candidates.min(refresh), candidates.max(refresh));
    // What is due together travels together.
    let meets = slow.as_millis().is_multiple_of(fast.as_millis().max(1));
    let polls = per_hour(fast) + if meets { 0 } else { per_hour(slow) };
    let turns = per_hour(workload.turn).saturating_mul(u64::from(workload.agents));
    Hourly { polls, reads: turns + turns / u64::from(workload.turns.max(1)) }
}

/// A day of so many hours of work, the rest of it without any.
#[must_use]
pub fn daily(polling: &PollingSettings, workload: Workload, hours_of_work: u64) -> u64 {
    let rest = 24_u64.saturating_sub(hours_of_work);
    let at_rest = if polling.activity.is_some() { Mode::Dormant } else { Mode::Active };
    let work = hourly(polling, Mode::Active, workload).total().saturating_mul(hours_of_work);
    work + hourly(polling, at_rest, Workload::with_agents(0)).total().saturating_mul(rest)
}

/// How often something happens in an hour that happens in every interval.
fn per_hour(interval: Duration) -> u64 {
    let times = HOUR.as_millis().div_ceil(interval.as_millis().max(1));
    u64::try_from(times).unwrap_or(u64::MAX)
}
