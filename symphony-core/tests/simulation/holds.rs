//! The expected holds (contract 7.6).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use symphony_core::agent::RateLimits;
use symphony_core::run::RunId;
use symphony_core::snapshot::HoldRow;
use symphony_core::store::HeldAgentRow;
use symphony_core::time::{Mono, Now};
use symphony_core::{Failure, FailureKind};

use crate::violation::{Check, ensure};

const MAX_HOLD: Duration = Duration::from_secs(24 * 3600);

/// One hold.
#[derive(Clone, Debug)]
pub(crate) struct HoldModel {
    /// The times it may last until: one, unless two limits met.
    pub(crate) until: Vec<Mono>,
    pub(crate) probe: Option<RunId>,
    /// Whether what the probe showed may, but need not, have ended it.
    may_end: bool,
    /// Whether the machine had no room, and whether an agent reported a limit.
    machine: bool,
    limit: bool,
}

/// All holds, by the agent's kind.
#[derive(Debug, Default)]
pub(crate) struct HoldsModel {
    pub(crate) all: BTreeMap<String, HoldModel>,
    pub(crate) limits: Option<Arc<RateLimits>>,
    /// The agent that reported them.
    pub(crate) limits_of: String,
}

impl HoldsModel {
    /// Holds of an earlier life last for what is left of them.
    pub(crate) fn new(rows: &[HeldAgentRow], now: Now) -> Self {
        let hold = |row: &HeldAgentRow| {
            let machine = row.failure.kind == FailureKind::Machine;
            let until = vec![now.mono + row.due.rest(now.wall)];
            let hold = HoldModel { until, probe: None, may_end: false, machine, limit: !machine };
            (row.agent.clone(), hold)
        };
        Self { all: rows.iter().map(hold).collect(), ..Self::default() }
    }

    /// A run reported a limit.
    pub(crate) fn begin(
        &mut self,
        agent: &str,
        run: RunId,
        failure: &Failure,
        backoff: Duration,
        now: Now,
    ) {
        let machine = failure.kind == FailureKind::Machine;
        let until = now.mono + self.span(agent, failure, backoff, now).min(MAX_HOLD);
        match self.all.get_mut(agent) {
            Some(hold) if hold.probe != Some(run) => {
                let latest = hold.until.iter().copied().max().unwrap_or(until).max(until);
                hold.until.extend([until, latest]);
                hold.machine |= machine;
                hold.limit |= !machine;
            }
            _ => {
                let hold = HoldModel {
                    until: vec![until],
                    probe: None,
                    may_end: false,
                    machine,
                    limit: !machine,
                };
                self.all.insert(agent.to_owned(), hold);
            }
        }
    }

    fn span(&self, agent: &str, failure: &Failure, backoff: Duration, now: Now) -> Duration {
        if failure.kind == FailureKind::Machine {
            return backoff.min(Duration::from_secs(10));
        }
        if let Some(span) = failure.retry_after {
            return span;
        }
        let limits = self.limits.iter().filter(|_| self.limits_of == agent);
        let windows = limits.flat_map(|limits| &limits.windows);
        let exhausted = windows.filter(|window| window.used_percent >= 100.0);
        let resets = exhausted.filter_map(|window| now.wall.until(window.resets_at?));
        resets.max().unwrap_or(backoff)
    }

    /// A run starts: after a hold's time it is the probe.
    pub(crate) fn started(&mut self, agent: &str, run: RunId, now: Mono) -> Check {
        let Some(hold) = self.all.get_mut(agent) else {
            return Ok(());
        };
        let over = hold.until.iter().any(|until| *until <= now);
        ensure!(
            over,
            "nothing starts during a hold",
            "run {run} starts at {now:?}, held until {:?}",
            hold.until
        );
        ensure!(
            hold.probe.is_none(),
            "one probe at a time",
            "run {run} starts while {:?} tries",
            hold.probe
        );
        hold.probe = Some(run);
        Ok(())
    }

    /// A probe showed that the agent works.
    pub(crate) fn works(&mut self, run: RunId) {
        self.all.retain(|_, hold| hold.probe != Some(run));
    }

    /// A probe's agent has started: the machine has room.
    pub(crate) fn launched(&mut self, run: RunId) {
        self.all.retain(|_, hold| hold.probe != Some(run) || !hold.machine || hold.limit);
        let mixed = |hold: &&mut HoldModel| hold.probe == Some(run) && hold.machine;
        for hold in self.all.values_mut().filter(mixed) {
            hold.may_end = true;
        }
    }

    /// A probe showed something from which either may be concluded.
    pub(crate) fn may_work(&mut self, run: RunId) {
        for hold in self.all.values_mut().filter(|hold| hold.probe == Some(run)) {
            hold.may_end = true;
        }
    }

    /// A run is over: it tries no more.
    pub(crate) fn ended(&mut self, run: RunId) {
        for hold in self.all.values_mut().filter(|hold| hold.probe == Some(run)) {
            hold.probe = None;
        }
    }

    /// Another agent is in use: what becomes of holds on others is left open.
    pub(crate) fn other_agent(&mut self, agent: &str) {
        for (held, hold) in &mut self.all {
            hold.may_end |= held != agent;
        }
    }

    /// Whether nothing may start on the agent now.
    pub(crate) fn holds(&self, agent: &str, now: Mono) -> bool {
        self.all
            .get(agent)
            .is_some_and(|hold| hold.probe.is_some() || hold.until.iter().all(|until| *until > now))
    }

    /// The snapshot shows what must be there, and nothing else.
    pub(crate) fn check(&mut self, rows: &[HoldRow]) -> Check {
        for row in rows {
            let Some(hold) = self.all.get_mut(&row.agent) else {
                ensure!(
                    false,
                    "the snapshot equals the world",
                    "a hold that should be over: {row:?}"
                );
                continue;
            };
            ensure!(
                hold.until.contains(&row.until),
                "the snapshot equals the world",
                "{row:?} for {hold:?}"
            );
            ensure!(
                hold.probe == row.probe,
                "the snapshot equals the world",
                "{row:?} for {hold:?}"
            );
            hold.until = vec![row.until];
            hold.may_end = false;
        }
        let shown = |agent: &String| rows.iter().any(|row| row.agent == *agent);
        let lost = self.all.iter().find(|(agent, hold)| !shown(agent) && !hold.may_end);
        ensure!(lost.is_none(), "the snapshot equals the world", "a hold is missing: {lost:?}");
        self.all.retain(|agent, _| shown(agent));
        Ok(())
    }
}
