//! A budget with a clock, and everything it ever admitted.

use std::time::Duration;

use symphony_core::budget::{Budget, Permit, Quota, Refused, Reported, Spender, Spent};
use symphony_core::settings::BudgetSettings;
use symphony_core::time::{Mono, Now, Wall};
use symphony_core::tracker::Purpose;

pub(crate) const HOUR: u64 = 3_600_000;
pub(crate) const DAY: u64 = 24 * HOUR;
pub(crate) const NOON: i64 = 20_000 * 86_400_000 + 43_200_000;
/// More than any budget in these tests lets through at once.
pub(crate) const ENDLESS: usize = 5000;

pub(crate) const REFRESH: Spender = Spender::Read(Purpose::Refresh);
pub(crate) const MANUAL: Spender = Spender::Read(Purpose::Manual);
pub(crate) const CANDIDATES: Spender = Spender::Read(Purpose::Candidates);

pub(crate) fn tool(agent: usize) -> Spender {
    Spender::Tool(format!("issue-{agent}").into())
}

/// Seven reads and four agents.
pub(crate) fn spenders() -> Vec<Spender> {
    let purposes = [
        Purpose::Candidates,
        Purpose::Refresh,
        Purpose::Sweep,
        Purpose::Check,
        Purpose::Turn,
        Purpose::Delivery,
        Purpose::Manual,
    ];
    let reads = purposes.into_iter().map(Spender::Read);
    reads.chain((0..4).map(tool)).collect()
}

pub(crate) fn hourly(per_hour: u32) -> BudgetSettings {
    limited(Some(per_hour), None)
}

pub(crate) fn limited(per_hour: Option<u32>, per_day: Option<u32>) -> BudgetSettings {
    let mut settings = BudgetSettings::default();
    settings.per_hour = per_hour;
    settings.per_day = per_day;
    settings
}

pub(crate) fn reserving(reserve: f64, mut settings: BudgetSettings) -> BudgetSettings {
    settings.reserve = reserve;
    settings
}

pub(crate) fn quota(limit: u64, left: u64) -> Quota {
    Quota { limit: Some(limit), left: Some(left), ..Quota::default() }
}

/// The most that fell into any window of this length.
pub(crate) fn most_in(times: &[u64], window: u64) -> u64 {
    let (mut first, mut most) = (0, 0);
    for (last, time) in times.iter().enumerate() {
        while time - times[first] >= window {
            first += 1;
        }
        most = most.max(last - first + 1);
    }
    u64::try_from(most).unwrap()
}

pub(crate) struct World {
    pub(crate) now: Now,
    pub(crate) budget: Budget,
    /// The time, the spender, and its points.
    pub(crate) admitted: Vec<(u64, Spender, u64)>,
}

impl World {
    pub(crate) fn new(settings: BudgetSettings) -> Self {
        Self::seeded(settings, 1)
    }

    pub(crate) fn seeded(settings: BudgetSettings, seed: u64) -> Self {
        let now = Now { mono: Mono::from_millis(5 * DAY), wall: Wall::from_unix_millis(NOON) };
        Self {
            now,
            budget: Budget::new(settings, Spent::default(), seed, now),
            admitted: Vec::new(),
        }
    }

    pub(crate) fn ask(&mut self, spender: &Spender) -> Result<Permit, Refused> {
        self.ask_for(spender, 0)
    }

    pub(crate) fn ask_for(&mut self, spender: &Spender, points: u64) -> Result<Permit, Refused> {
        let answer = self.budget.admit(self.now, spender, points);
        if answer.is_ok() {
            self.admitted.push((self.millis(), spender.clone(), points));
        }
        answer
    }

    /// How many in a row it gets.
    pub(crate) fn drain(&mut self, spender: &Spender) -> usize {
        let asks = (0..ENDLESS).map(|_| self.ask(spender));
        asks.take_while(Result::is_ok).count()
    }

    pub(crate) fn learn(&mut self, permit: Permit, limit: u64, left: u64) {
        let reported = Reported { requests: quota(limit, left), ..Reported::default() };
        self.budget.learn(self.now, permit, &reported);
    }

    pub(crate) fn pass(&mut self, millis: u64) {
        let span = Duration::from_millis(millis);
        self.now.mono = self.now.mono + span;
        self.now.wall = self.now.wall + span;
    }

    pub(crate) fn millis(&self) -> u64 {
        self.now.mono.as_millis()
    }

    pub(crate) fn times(&self) -> Vec<u64> {
        self.admitted.iter().map(|(at, ..)| *at).collect()
    }

    pub(crate) fn count(&self, spender: &Spender) -> usize {
        let own = self.admitted.iter().filter(|(_, who, _)| who == spender);
        own.count()
    }
}
