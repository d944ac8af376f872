//! The day's requests to the tracker: what is spent, and what the day will take (contract 12.4,
//! 12.7).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::budget::{BudgetView, Spent, TOOL};
use crate::time::{Now, Wall, millis};
use crate::tracker::Purpose;

/// What was asked of the tracker today, and what it said is left.
#[derive(Debug)]
pub(super) struct DayRequests {
    spent: Spent,
    budget: Option<BudgetView>,
}

impl DayRequests {
    pub(super) const fn new(spent: Spent) -> Self {
        Self { spent, budget: None }
    }

    pub(super) const fn spent(&self) -> &Spent {
        &self.spent
    }

    pub(super) const fn budget(&self) -> Option<&BudgetView> {
        self.budget.as_ref()
    }

    /// Forgets the budget of another tracker.
    pub(super) fn forget_budget(&mut self) {
        self.budget = None;
    }

    /// Counts the requests of one read.
    pub(super) fn count(&mut self, today: Wall, purpose: Purpose, requests: u32) {
        self.begin_day(today);
        if requests > 0 {
            let count = self.spent.requests.entry(purpose.as_str().to_owned()).or_default();
            *count = count.saturating_add(u64::from(requests));
        }
    }

    /// Takes over what the tracker's budget says. The agents' tool calls are not our reads: only
    /// the budget knows of them.
    pub(super) fn note_budget(&mut self, budget: BudgetView) {
        if let Some(calls) = budget.today.get(TOOL) {
            let count = self.spent.requests.entry(TOOL.to_owned()).or_default();
            *count = (*count).max(*calls);
        }
        self.budget = Some(budget);
    }

    /// Returns the requests of a day: after midnight there are none yet.
    pub(super) fn of(&self, day: i64) -> BTreeMap<String, u64> {
        if self.spent.is_of(day) { self.spent.requests.clone() } else { BTreeMap::new() }
    }

    /// Starts the counts of a new day. A clock that jumps back a little does not wipe them.
    fn begin_day(&mut self, today: Wall) {
        let today = today.day();
        if !self.spent.is_of(today) {
            self.spent.day = today;
            self.spent.requests.clear();
        }
    }

    /// Returns how many requests the day will take: what is spent, a poll per `interval` for the
    /// rest of it, and reads before starts, after turns and deliveries, and tool calls as often as
    /// so far.
    pub(super) fn projected(&self, now: Now, interval: Duration) -> u64 {
        const DAY: u64 = 86_400_000;
        const HOUR: u64 = 3_600_000;
        let passed = now.wall.as_unix_millis().rem_euclid(86_400_000).unsigned_abs();
        let left = DAY - passed;
        let today = self.of(now.wall.day());
        let spent = today.values().fold(0, |sum: u64, n| sum.saturating_add(*n));
        let unpaced =
            [Purpose::Check.as_str(), Purpose::Turn.as_str(), Purpose::Delivery.as_str(), TOOL];
        let reads = unpaced.iter().filter_map(|purpose| today.get(*purpose));
        let reads = reads.fold(0, |sum: u64, n| sum.saturating_add(*n));
        let polls = left / millis(interval).max(1);
        spent.saturating_add(polls).saturating_add(reads.saturating_mul(left) / passed.max(HOUR))
    }
}
