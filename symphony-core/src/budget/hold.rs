//! A hold: the tracker refused a request and wants silence. Some spenders may ask in spite of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::meter::Meter;
use super::queue::Cost;
use super::spender::Spender;
use super::{DAY_BURST_DIVISOR, HOUR_BURST_DIVISOR, Limit};
use crate::time::Mono;
use crate::tracker::Purpose;

/// How often reads of claimed issues pass a hold: one far time must not keep agents at work whose
/// issue was closed.
const UPKEEP_PASS_INTERVAL: Duration = Duration::from_secs(300);

/// How often an operator's poll passes it.
const MANUAL_PASS_INTERVAL: Duration = Duration::from_secs(60);

/// A read may take several requests: for so long after its first one the others pass too.
const PASS_WINDOW: Duration = Duration::from_secs(10);

/// The tracker refused a request, and wants silence.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Hold {
    pub(super) until: Mono,
    since: Mono,
    /// The last pass of each purpose, and whether more requests of the same read may follow.
    passes: BTreeMap<Purpose, (Mono, bool)>,
    /// The numbers of the requests that passed: an answer to one of them ends the hold.
    pub(super) let_through: BTreeSet<u64>,
    /// The limits of our own requests as they would be without the hold: what passes keeps to them.
    pub(super) own_limits: BTreeMap<Limit, Meter>,
}

impl Hold {
    pub(super) fn new(since: Mono, own_limits: BTreeMap<Limit, Meter>) -> Self {
        let (passes, let_through) = (BTreeMap::new(), BTreeSet::new());
        Self { until: since, since, passes, let_through, own_limits }
    }

    /// When the spender may next ask in spite of the hold, if it may at all.
    pub(super) fn next_pass(&self, spender: &Spender) -> Option<Mono> {
        let (purpose, least) = match spender {
            Spender::Read(Purpose::Manual) => (Purpose::Manual, MANUAL_PASS_INTERVAL),
            Spender::Read(purpose @ (Purpose::Refresh | Purpose::Turn)) => {
                (*purpose, UPKEEP_PASS_INTERVAL)
            }
            _ => return None,
        };
        Some(self.passes.get(&purpose).map_or(self.since, |(last, _)| *last) + least)
    }

    /// Whether the request passes. It still keeps to the limits of our own requests.
    pub(super) fn try_pass(&mut self, now: Mono, spender: &Spender, cost: Cost) -> bool {
        let (Some(next), Spender::Read(purpose)) = (self.next_pass(spender), spender) else {
            return false;
        };
        let follows = match self.passes.get(purpose) {
            Some((first, true)) => now.since(*first) < PASS_WINDOW,
            _ => false,
        };
        let is_due = next <= now;
        let has_room = |meter: &Meter| meter.wait(cost.requests, 0, 0.0, now).is_zero();
        let passes = (is_due || follows) && self.own_limits.values().all(has_room);
        if passes {
            self.own_limits.values_mut().for_each(|meter| meter.spend(cost.requests, now));
        }
        if passes && is_due {
            self.passes.insert(*purpose, (now, true));
        }
        passes
    }

    /// The tracker refused again: no read that passed goes on.
    pub(super) fn close_passes(&mut self) {
        self.passes.values_mut().for_each(|(_, is_open)| *is_open = false);
        self.let_through.clear();
    }

    /// Another limit is in force.
    pub(super) fn limit(
        &mut self,
        which: Limit,
        limit: Option<u64>,
        window: Duration,
        spent: u64,
        now: Mono,
    ) {
        let burst = if which == Limit::Day { DAY_BURST_DIVISOR } else { HOUR_BURST_DIVISOR };
        match limit {
            Some(limit) => self
                .own_limits
                .entry(which)
                .or_insert_with(|| Meter::paced(limit, burst, window, spent, now))
                .change(limit, burst, window, now),
            None => _ = self.own_limits.remove(&which),
        }
    }
}
