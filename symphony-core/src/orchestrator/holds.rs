//! Holds: an agent whose refusal applies to every run is not tried by every run (contract 7.6).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::agent::RateLimits;
use crate::failure::{Failure, FailureKind};
use crate::policy;
use crate::run::RunId;
use crate::snapshot::HoldRow;
use crate::time::{Mono, Now};

use super::RunEnd;

/// The longest hold, whatever the agent says.
const MAX_HOLD: Duration = Duration::from_secs(24 * 3600);

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

/// The held kinds of agent, each with at most one run that tries.
#[derive(Debug)]
pub(super) struct Holds {
    by_agent: BTreeMap<String, HoldRow>,
    /// Holds that ended up to here have been acted on.
    acted_on: Mono,
    /// The last limits that an agent reported, and its kind.
    rate_limits: Option<(Arc<str>, Arc<RateLimits>)>,
}

impl Holds {
    pub(super) const fn new(now: Mono) -> Self {
        Self { by_agent: BTreeMap::new(), acted_on: now, rate_limits: None }
    }

    /// Whether starts to this agent may go ahead.
    pub(super) fn gate(&self, agent: &str, now: Mono) -> HoldGate {
        match self.by_agent.get(agent) {
            None => HoldGate::Open,
            Some(hold) if hold.probe.is_none() && hold.until <= now => HoldGate::OneProbe,
            Some(hold) => HoldGate::Closed(hold.until),
        }
    }

    pub(super) fn get(&self, agent: &str) -> Option<&HoldRow> {
        self.by_agent.get(agent)
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &HoldRow> {
        self.by_agent.values()
    }

    pub(super) fn rate_limits(&self) -> Option<&Arc<RateLimits>> {
        self.rate_limits.as_ref().map(|(_, limits)| limits)
    }

    /// Returns when the next hold's time is over.
    pub(super) fn next(&self) -> Option<Mono> {
        self.by_agent.values().map(|hold| hold.until).filter(|until| *until > self.acted_on).min()
    }

    /// Whether a hold's time passed since this was last asked: one run may try.
    pub(super) fn pass(&mut self, now: Mono) -> bool {
        let has_passed = self.next().is_some_and(|until| until <= now);
        self.acted_on = now;
        has_passed
    }

    /// Notes the limits that an agent reports.
    pub(super) fn note_limits(&mut self, agent: &Arc<str>, limits: Arc<RateLimits>) {
        self.rate_limits = Some((Arc::clone(agent), limits));
    }

    /// Goes on with a hold of an earlier life.
    pub(super) fn restore(&mut self, agent: &str, until: Mono, failure: &Failure) {
        let (agent, failure) = (agent.to_owned(), failure.clone());
        self.by_agent.insert(agent.clone(), HoldRow { agent, until, probe: None, failure });
    }

    /// Begins a hold, or prolongs it: a run failed for a reason that applies to every run. Returns
    /// until when.
    pub(super) fn begin(
        &mut self,
        agent: &str,
        failure: &Failure,
        now: Now,
        longest_backoff: Duration,
    ) -> Mono {
        let span = self.span(agent, failure, now, longest_backoff);
        let until = now.mono + span.min(MAX_HOLD);
        let fresh =
            || HoldRow { agent: agent.to_owned(), until, probe: None, failure: failure.clone() };
        let hold = self.by_agent.entry(agent.to_owned()).or_insert_with(fresh);
        // Of two reasons the one that holds longer is shown, and decides what ends the hold.
        if until >= hold.until {
            hold.until = until;
            hold.failure = failure.clone();
        }
        hold.until
    }

    /// Returns how long to hold: what the agent said, else what its windows say, else the longest
    /// backoff. A machine without room is tried again soon: one run that ends makes room.
    fn span(&self, agent: &str, failure: &Failure, now: Now, longest: Duration) -> Duration {
        if failure.kind == FailureKind::Machine {
            return policy::backoff(1, longest);
        }
        let is_some = |wait: &Duration| !wait.is_zero();
        let windows = || self.exhausted_for(agent, now).filter(is_some);
        failure.retry_after.filter(is_some).or_else(windows).unwrap_or(longest)
    }

    /// Returns how long the limits that this agent last reported stay exhausted.
    fn exhausted_for(&self, agent: &str, now: Now) -> Option<Duration> {
        let (_, limits) = self.rate_limits.as_ref().filter(|(reporter, _)| **reporter == *agent)?;
        let windows = &limits.windows;
        let exhausted = windows.iter().filter(|window| window.used_percent >= 100.0);
        exhausted.filter_map(|window| now.wall.until(window.resets_at?)).max()
    }

    /// Makes the run just started the one that tries.
    pub(super) fn begin_probe(&mut self, agent: &str, run: RunId) {
        if let Some(hold) = self.by_agent.get_mut(agent) {
            hold.probe = Some(run);
        }
    }

    /// Notes that a run got work out of the agent. Returns the agent whose hold that ended: the one
    /// that the run tried.
    pub(super) fn works(&mut self, run: RunId) -> Option<String> {
        let hold = self.by_agent.values().find(|hold| hold.probe == Some(run));
        let agent = hold?.agent.clone();
        self.by_agent.remove(&agent).map(|hold| hold.agent)
    }

    /// Notes that a run's agent has started. Returns the agent whose hold that ended: where the
    /// machine had no room, a process that runs is the answer.
    pub(super) fn launched(&mut self, run: RunId) -> Option<String> {
        let is_tried = |hold: &&HoldRow| hold.probe == Some(run) && is_of_the_machine(hold);
        let agent = self.by_agent.values().find(is_tried)?.agent.clone();
        self.by_agent.remove(&agent).map(|hold| hold.agent)
    }

    /// Ends the run that tried this agent, if it was such a run. Returns the agent if that
    /// ended its hold; else another run tries.
    pub(super) fn end_probe(&mut self, agent: &str, run: RunId, end: &RunEnd) -> Option<String> {
        let hold = self.by_agent.get_mut(agent).filter(|hold| hold.probe == Some(run))?;
        hold.probe = None;
        let is_over = match end {
            RunEnd::Succeeded | RunEnd::InputRequired { .. } => true,
            // It got further than to the machine's limit.
            RunEnd::Failed(failure) => {
                is_of_the_machine(hold) && failure.kind != FailureKind::Machine
            }
            RunEnd::Cancelled => false,
        };
        if is_over { self.by_agent.remove(agent).map(|hold| hold.agent) } else { None }
    }

    /// Lifts every hold. Returns the agents.
    pub(super) fn clear(&mut self) -> Vec<String> {
        std::mem::take(&mut self.by_agent).into_keys().collect()
    }
}

fn is_of_the_machine(hold: &HoldRow) -> bool {
    hold.failure.kind == FailureKind::Machine
}
