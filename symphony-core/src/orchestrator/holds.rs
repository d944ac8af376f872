//! Holds: an agent that refuses everyone is not asked again by everyone (contract 7.6).

use std::time::Duration;

use crate::failure::{Failure, FailureKind};
use crate::policy;
use crate::snapshot::HoldRow;
use crate::time::Mono;

use super::{Happened, Orchestrator, RunEnd, RunId};

/// The longest hold, whatever the agent says.
const LONGEST_HOLD: Duration = Duration::from_secs(24 * 3600);

/// Whether a start to an agent may go ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HoldGate {
    /// Nothing is held.
    Open,
    /// The hold's time is over: one run may try.
    OneProbe,
    /// Held until then, or until the probe has shown how it goes.
    Closed(Mono),
}

impl Orchestrator {
    /// Whether starts to the configured agent may go ahead.
    pub(super) fn hold_gate(&self) -> HoldGate {
        match self.holds.get(self.settings().agent.kind.as_str()) {
            None => HoldGate::Open,
            Some(hold) if hold.probe.is_none() && hold.until <= self.now.mono => HoldGate::OneProbe,
            Some(hold) => HoldGate::Closed(hold.until),
        }
    }

    /// When the next hold's time is over.
    pub(super) fn next_hold(&self) -> Option<Mono> {
        self.holds.values().map(|hold| hold.until).filter(|until| *until > self.told_holds).min()
    }

    /// A hold's time may just have passed: one run may try.
    pub(super) fn holds_due(&mut self) {
        if self.next_hold().is_some_and(|until| until <= self.now.mono) {
            self.refill_now();
        }
        self.told_holds = self.now.mono;
    }

    /// The agent refused a run for a reason that holds for every run. Returns until when.
    pub(super) fn begin_hold(&mut self, agent: &str, failure: &Failure) -> Mono {
        let mut until = self.now.mono + self.hold_span(agent, failure).min(LONGEST_HOLD);
        if let Some(hold) = self.holds.get(agent) {
            until = until.max(hold.until);
        }
        let probe = self.holds.get(agent).and_then(|hold| hold.probe);
        let row = HoldRow { agent: agent.to_owned(), until, probe, failure: failure.clone() };
        self.holds.insert(agent.to_owned(), row);
        let (agent, failure) = (agent.to_owned(), failure.clone());
        self.notice(Happened::HoldBegan { agent, until, failure });
        until
    }

    /// How long to hold: what the agent said, else what its windows say, else the longest backoff. A
    /// machine without room is tried again soon: one run that ends makes room.
    fn hold_span(&self, agent: &str, failure: &Failure) -> Duration {
        let longest = self.settings().agent.max_retry_backoff;
        if failure.kind == FailureKind::Machine {
            return policy::backoff(1, longest);
        }
        let is_some = |wait: &Duration| !wait.is_zero();
        let windows = || self.exhausted_for(agent).filter(is_some);
        failure.retry_after.filter(is_some).or_else(windows).unwrap_or(longest)
    }

    /// How long the limits that this agent last reported stay exhausted.
    fn exhausted_for(&self, agent: &str) -> Option<Duration> {
        let (_, limits) = self.rate_limits.as_ref().filter(|(reporter, _)| **reporter == *agent)?;
        let windows = &limits.windows;
        let exhausted = windows.iter().filter(|window| window.used_percent >= 100.0);
        exhausted.filter_map(|window| self.now.wall.until(window.resets_at?)).max()
    }

    /// The run just started is the one that tries.
    pub(super) fn start_probe(&mut self, run: RunId) {
        let kind = self.settings().agent.kind.clone();
        if let Some(hold) = self.holds.get_mut(&kind) {
            hold.probe = Some(run);
        }
    }

    /// A run got work out of the agent; if it is the one that tries, the hold is over.
    pub(super) fn probe_works(&mut self, run: RunId) {
        let held = self.holds.values().find(|hold| hold.probe == Some(run));
        if let Some(agent) = held.map(|hold| hold.agent.clone()) {
            self.lift_hold(&agent);
        }
    }

    /// The run that tries is over. If it never reached the agent, another one tries.
    pub(super) fn probe_ended(&mut self, run: RunId, agent: &str, end: &RunEnd) {
        let Some(hold) = self.holds.get_mut(agent).filter(|hold| hold.probe == Some(run)) else {
            return;
        };
        hold.probe = None;
        if matches!(end, RunEnd::Succeeded | RunEnd::InputRequired { .. }) {
            self.lift_hold(agent);
        }
    }

    pub(super) fn lift_hold(&mut self, agent: &str) {
        if self.holds.remove(agent).is_none() {
            return;
        }
        self.notice(Happened::HoldEnded { agent: agent.to_owned() });
        self.wake_held();
    }

    /// What waited for nothing but a hold is due.
    pub(super) fn wake_held(&mut self) {
        self.wake_waiting(|failure| failure.kind.is_limit());
        self.refill_now();
    }

    /// An operator lifts every hold.
    pub(super) fn clear_holds(&mut self) {
        let agents: Vec<String> = self.holds.keys().cloned().collect();
        for agent in agents {
            self.lift_hold(&agent);
        }
    }
}
