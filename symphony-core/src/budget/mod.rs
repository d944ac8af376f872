//! The one admission point for tracker requests (contract 12.6).
//!
//! An adapter's client owns a [`Budget`] behind a lock and asks it before each request, the agents'
//! tool calls included. Four things decide:
//!
//! - Meters: what the settings allow in an hour and in a day, and what the tracker says is left.
//!   Each is a bucket that refills evenly, so an empty one gives the next request after one refill
//!   interval, never after a far reset.
//! - Floors: the last part of every bucket is kept. Candidates and deliveries leave the whole reserve alone,
//!   tools and checks half of it; refresh and turn ends may use everything.
//! - A FIFO queue: a refused spender keeps its position, so eager retries gain nothing. The floor
//!   stops applying to the head of the queue after a maximum wait, so no spender starves.
//! - A hold: when the tracker itself refused, no spender asks until then. Reads of claimed issues pass it
//!   every five minutes, an operator's poll once a minute.

mod hold;
mod meter;
mod queue;
mod quota;
mod spender;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::issue::IssueId;
use crate::settings::BudgetSettings;
use crate::time::{Mono, Now, Wall};
use crate::tracker::{TrackerError, TrackerErrorKind};

use hold::Hold;
use meter::Meter;
use queue::{Cost, QueuePosition, WaitQueue};
pub use quota::{Quota, Reported};
pub use spender::Spender;
pub(crate) use spender::TOOL;

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Requests of one day, by what they were for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// The day, as [`Wall::day`] counts.
    pub day: i64,
    /// Requests by purpose: `candidates`, `refresh`, `sweep`, `check`, `turn`, `delivery`,
    /// `manual`; and `tool`.
    pub requests: BTreeMap<String, u64>,
}

impl Spent {
    /// Whether these are the counts of a day. Those of the day after it are, too: a clock that was set
    /// back a little wipes nothing. One that was far ahead once does not keep them for ever.
    #[must_use]
    pub const fn is_of(&self, day: i64) -> bool {
        self.day == day || self.day == day.saturating_add(1)
    }
}

/// A tenth of an hour's budget may go at once: nine tenths make the steady rate.
const HOUR_BURST_DIVISOR: u64 = 10;
/// Half of a day's budget may go at once: work comes in waves, and the rest still trickles.
const DAY_BURST_DIVISOR: u64 = 2;
/// The refill interval where no limit is known.
const DEFAULT_REFILL_INTERVAL: Duration = Duration::from_secs(30);
/// A tracker that wants a longer silence is asked once in a while all the same.
const MAX_HOLD: Duration = HOUR;
/// So many issues have their tool calls counted.
const MAX_COUNTED_ISSUES: usize = 256;
const MAX_JITTER: Duration = Duration::from_secs(10);

/// What stands in the way of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The hour's requests, by the settings.
    Hour,
    /// The day's requests, by the settings.
    Day,
    /// The requests of the tracker's own window.
    Window,
    /// What the tracker says is left, others' use of the same credential included.
    Left,
    /// The points of the tracker's own window.
    Points,
    /// The points the tracker says are left.
    PointsLeft,
    /// The tracker refused a request, and wants silence.
    Held,
}

impl Limit {
    const fn share(self, cost: Cost) -> u64 {
        match self {
            Self::Points | Self::PointsLeft => cost.points,
            Self::Hour | Self::Day | Self::Window | Self::Left | Self::Held => cost.requests,
        }
    }

    const fn as_text(self) -> &'static str {
        match self {
            Self::Hour => "the hour's requests are used up",
            Self::Day => "the day's requests are used up",
            Self::Window => "the tracker's limit of requests is reached",
            Self::Left => "the tracker has no requests left for us",
            Self::Points => "the tracker's limit of points is reached",
            Self::PointsLeft => "the tracker has no points left for us",
            Self::Held => "the tracker asked for a pause",
        }
    }
}

/// Leave to make one request. Its number tells old news from new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permit {
    number: u64,
    points: u64,
    points_through: u64,
}

/// No leave to make a request now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", limit.as_text())]
pub struct Refused {
    /// What stands in the way.
    pub limit: Limit,
    /// When to ask again. A spender that does keeps its position.
    pub retry_after: Duration,
}

impl Refused {
    /// What the caller of the tracker is told.
    #[must_use]
    pub fn into_error(self, now: Wall) -> TrackerError {
        TrackerError::new(TrackerErrorKind::RateLimited, "request not made")
            .with_retry_at(Some(now + self.retry_after))
            .with_source(self)
    }
}

/// Decides whether a request may be made now.
///
/// In any window of an hour it admits at most `per_hour` requests, in any 24 hours at most
/// `per_day`, in any window of the tracker's at most the tracker's limit, all by the monotonic
/// clock. A spender that comes back when told is admitted in the end, however many others ask.
///
/// ```
/// use symphony_core::budget::{Budget, Quota, Reported, Spender, Spent};
/// use symphony_core::tracker::Purpose;
/// use symphony_core::settings::BudgetSettings;
/// use symphony_core::time::Now;
///
/// let now = Now::default();
/// let mut budget = Budget::new(BudgetSettings::default(), Spent::default(), 7, now);
/// let candidates = Spender::Read(Purpose::Candidates);
///
/// let permit = budget.admit(now, &candidates, 120).expect("nothing is known yet");
/// let requests = Quota { limit: Some(2500), left: Some(100), ..Quota::default() };
/// budget.learn(now, permit, &Reported { requests, ..Reported::default() });
///
/// // 100 of 2500 is within the reserve: refresh may use it, candidates give way.
/// assert!(budget.admit(now, &candidates, 120).is_err());
/// assert!(budget.admit(now, &Spender::Read(Purpose::Refresh), 120).is_ok());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    settings: BudgetSettings,
    meters: BTreeMap<Limit, Meter>,
    queue: WaitQueue,
    hold: Option<Hold>,
    spent: Spent,
    /// Of the same day, the tool calls by issue; for people, so not kept over a restart.
    tools: BTreeMap<IssueId, u64>,
    admitted: u64,
    admitted_points: u64,
    heard: u64,
    resets: Option<Wall>,
    jitter: Jitter,
}

impl Budget {
    /// A budget that goes on with what an earlier life spent on the same day.
    #[must_use]
    pub fn new(settings: BudgetSettings, spent: Spent, seed: u64, now: Now) -> Self {
        let mut budget = Self {
            settings: BudgetSettings::default(),
            meters: BTreeMap::new(),
            queue: WaitQueue::default(),
            hold: None,
            spent,
            tools: BTreeMap::new(),
            admitted: 0,
            admitted_points: 0,
            heard: 0,
            resets: None,
            jitter: Jitter(seed),
        };
        budget.roll_day(now.wall);
        budget.reconfigure(settings, now);
        budget
    }

    /// Other settings are in force; what was spent stays spent.
    pub fn reconfigure(&mut self, settings: BudgetSettings, now: Now) {
        self.settings = settings;
        let configured =
            [(Limit::Hour, self.settings.per_hour, HOUR), (Limit::Day, self.settings.per_day, DAY)];
        for (which, limit, window) in configured {
            match limit {
                Some(limit) => self.limit(which, u64::from(limit), window, now.mono),
                None => _ = self.meters.remove(&which),
            }
            if let Some(hold) = &mut self.hold {
                let limit = limit.map(u64::from);
                hold.limit(which, limit, window, sum(&self.spent.requests), now.mono);
            }
        }
    }

    /// Asks for leave to make one request that may cost this many points.
    ///
    /// # Errors
    /// [`Refused`] says when to ask again.
    pub fn admit(&mut self, now: Now, spender: &Spender, points: u64) -> Result<Permit, Refused> {
        self.roll_day(now.wall);
        let (now, cost) = (now.mono, Cost::new(points));
        let step = self.step();
        self.queue.expire(now, step);
        let position = self.queue.position(spender, now, step);
        let passes = self.passes_hold(now, spender, cost);
        let shortage = if passes { None } else { self.shortage(now, spender, cost, &position) };
        if let Some((limit, wait)) = shortage {
            let pass = self.hold.as_ref().and_then(|hold| hold.next_pass(spender));
            let wait = pass.map_or(wait, |pass| wait.min(now.until(pass)));
            let retry_after = wait + self.jitter.up_to(step.min(MAX_JITTER));
            self.queue.wait(spender, now, now + retry_after, cost);
            return Err(Refused { limit, retry_after });
        }
        self.queue.serve(spender, now, &position);
        for (limit, meter) in &mut self.meters {
            meter.spend(limit.share(cost), now);
        }
        let name = spender.as_str().to_owned();
        let count = self.spent.requests.entry(name).or_default();
        *count = count.saturating_add(cost.requests);
        if let Spender::Tool(issue) = spender {
            self.count_tool(issue, cost.requests);
        }
        self.admitted += cost.requests;
        if let Some(hold) = self.hold.as_mut().filter(|_| passes) {
            hold.let_through.insert(self.admitted);
        }
        self.admitted_points = self.admitted_points.saturating_add(points);
        Ok(Permit { number: self.admitted, points, points_through: self.admitted_points })
    }

    /// Takes in what the response to a permitted request said.
    pub fn learn(&mut self, now: Now, permit: Permit, reported: &Reported) {
        if self.hold.as_ref().is_some_and(|hold| hold.let_through.contains(&permit.number)) {
            self.lift_hold(now.mono);
        }
        if let (Some(points), Some(charged)) =
            (self.meters.get_mut(&Limit::Points), reported.charged)
        {
            points.correct(permit.points, charged, now.mono);
        }
        // Responses overtake each other: only the youngest request's news of what is left counts,
        // less what was admitted after it.
        let news = permit.number >= self.heard;
        self.heard = self.heard.max(permit.number);
        if news {
            self.resets = reported.requests.resets.or(self.resets);
        }
        let later = self.admitted.saturating_sub(permit.number);
        let later_points = self.admitted_points.saturating_sub(permit.points_through);
        self.report(Limit::Left, reported.requests, later, news, now.mono);
        self.report(Limit::PointsLeft, reported.points, later_points, news, now.mono);

        let limits = [(Limit::Window, reported.requests), (Limit::Points, reported.points)];
        for (which, quota) in limits {
            if let Some(limit) = quota.limit.filter(|limit| *limit > 0) {
                self.limit(which, limit, quota.window, now.mono);
                if let Some(hold) = self.hold.as_mut().filter(|_| which == Limit::Window) {
                    let spent = sum(&self.spent.requests);
                    hold.limit(which, Some(limit), quota.window, spent, now.mono);
                }
            }
        }
    }

    /// The tracker refused a request: no spender asks until it said, else for one refill interval.
    ///
    /// Afterwards the pace is the steady one, without a burst.
    pub fn refused(&mut self, now: Now, retry_after: Option<Duration>) {
        let refill = self.slowest(&[Limit::Hour, Limit::Window, Limit::Left]);
        let wait = retry_after.or(refill).unwrap_or(DEFAULT_REFILL_INTERVAL);
        let wait = wait.min(MAX_HOLD);
        let held = self.hold.take().filter(|hold| hold.until > now.mono);
        let mut hold = held.unwrap_or_else(|| Hold::new(now.mono, self.own_limits()));
        let until = hold.until.max(now.mono + wait);
        hold.until = until;
        hold.close_passes();
        self.hold = Some(hold);
        for limit in [Limit::Hour, Limit::Window, Limit::Left] {
            if let Some(meter) = self.meters.get_mut(&limit) {
                meter.one_at(until, now.mono);
            }
        }
    }

    /// The day's requests by spender: what a restart must bring back.
    #[must_use]
    pub const fn spent(&self) -> &Spent {
        &self.spent
    }

    /// What is left, for people.
    #[must_use]
    pub fn view(&self, now: Now) -> BudgetView {
        let tightest = |limits: &[Limit]| {
            let meters = limits.iter().filter_map(|limit| self.meters.get(limit));
            let left = meters.map(|meter| (meter.left(now.mono), meter.limit()));
            left.min_by_key(|(left, _)| *left).unzip()
        };
        let (requests_left, requests_limit) = tightest(&[Limit::Hour, Limit::Window, Limit::Left]);
        let (points_left, points_limit) = tightest(&[Limit::Points, Limit::PointsLeft]);
        let today = match &self.spent {
            Spent { day, requests } if *day == now.wall.day() => requests.clone(),
            _ => BTreeMap::new(),
        };
        let day_left = |all: u32| u64::from(all).saturating_sub(sum(&today));
        BudgetView {
            requests_left,
            requests_limit,
            points_left,
            points_limit,
            day_left: self.settings.per_day.map(day_left),
            resets: self.resets,
            refill: self.pace(),
            held_for: self.held(now.mono),
            waiting: self.queue.len(now.mono, self.step()),
            tools: if today.is_empty() { BTreeMap::new() } else { self.tools.clone() },
            today,
        }
    }

    /// What keeps this request from being made now, and for how long.
    fn shortage(
        &self,
        now: Mono,
        spender: &Spender,
        cost: Cost,
        position: &QueuePosition,
    ) -> Option<(Limit, Duration)> {
        let rank = spender.rank();
        let held = self.held(now);
        let short = |floor| self.longest_wait(cost, position.ahead, floor, now);
        let reserve = self.reserve() * f64::from(rank.halves_of_reserve()) / 2.0;
        let floor = if position.is_entitled() { 0.0 } else { reserve };
        let (limit, filled) = match (held, short(floor)) {
            (None, None) => return None,
            (None, Some(short)) => short,
            (Some(_), short) => (Limit::Held, short.map_or(Duration::ZERO, |(_, span)| span)),
        };
        // Whichever comes first: the bucket fills above the floor, or patience ends.
        let entitled =
            short(0.0).map_or(position.patience, |(_, span)| span.max(position.patience));
        let wait = filled.min(entitled).max(held.unwrap_or_default());
        Some((limit, wait + self.stagger(position)))
    }

    /// The meter that keeps the request waiting longest, if any does.
    fn longest_wait(
        &self,
        cost: Cost,
        others: Cost,
        floor: f64,
        now: Mono,
    ) -> Option<(Limit, Duration)> {
        let waits = self.meters.iter().map(|(limit, meter)| {
            let (cost, others) = (limit.share(cost), limit.share(others));
            (*limit, meter.wait(cost, others, floor, now))
        });
        let longest = waits.max_by_key(|(_, span)| *span);
        longest.filter(|(_, span)| !span.is_zero())
    }

    /// Staggers the spenders that return from a hold while no limit is known: nothing else paces them.
    fn stagger(&self, position: &QueuePosition) -> Duration {
        if self.pace().is_some() {
            return Duration::ZERO;
        }
        let ahead = u32::try_from(position.ahead.requests).unwrap_or(u32::MAX);
        DEFAULT_REFILL_INTERVAL.saturating_mul(ahead).min(MAX_HOLD)
    }

    fn held(&self, now: Mono) -> Option<Duration> {
        self.hold.as_ref().map(|hold| now.until(hold.until)).filter(|span| !span.is_zero())
    }

    /// The limits that hold for our own requests, whatever the tracker says is left.
    fn own_limits(&self) -> BTreeMap<Limit, Meter> {
        let limits = [Limit::Hour, Limit::Day, Limit::Window];
        limits.iter().filter_map(|limit| Some((*limit, self.meters.get(limit)?.clone()))).collect()
    }

    fn passes_hold(&mut self, now: Mono, spender: &Spender, cost: Cost) -> bool {
        let points = self.meters.get(&Limit::Points);
        let has_points = points.is_none_or(|m| m.wait(cost.points, 0, 0.0, now).is_zero());
        let hold = self.hold.as_mut().filter(|hold| has_points && hold.until > now);
        hold.is_some_and(|hold| hold.try_pass(now, spender, cost))
    }

    /// The tracker answers again: the pace is the steady one, as after any hold.
    fn lift_hold(&mut self, now: Mono) {
        let Some(hold) = self.hold.take() else {
            return;
        };
        let configured = |limit: &Limit| matches!(limit, Limit::Hour | Limit::Day);
        self.meters.extend(hold.own_limits.into_iter().filter(|(limit, _)| configured(limit)));
        for limit in [Limit::Window, Limit::Left] {
            if let Some(meter) = self.meters.get_mut(&limit) {
                meter.one_at(now, now);
            }
        }
    }

    fn reserve(&self) -> f64 {
        self.settings.reserve.clamp(0.0, 1.0)
    }

    /// The slowest refill interval of requests, where a limit is known.
    fn pace(&self) -> Option<Duration> {
        self.slowest(&[Limit::Hour, Limit::Day, Limit::Window, Limit::Left])
    }

    fn step(&self) -> Duration {
        self.pace().unwrap_or(DEFAULT_REFILL_INTERVAL)
    }

    fn slowest(&self, limits: &[Limit]) -> Option<Duration> {
        let meters = limits.iter().filter_map(|limit| self.meters.get(limit));
        meters.map(Meter::interval).max()
    }

    /// Sets what our own requests may add up to. A new meter knows of the day so far, so that
    /// neither a restart nor a late header brings a second burst.
    fn limit(&mut self, which: Limit, limit: u64, window: Duration, now: Mono) {
        let burst = if which == Limit::Day { DAY_BURST_DIVISOR } else { HOUR_BURST_DIVISOR };
        let spent = match which {
            Limit::Points => self.admitted_points,
            _ => sum(&self.spent.requests),
        };
        self.meters
            .entry(which)
            .or_insert_with(|| Meter::paced(limit, burst, window, spent, now))
            .change(limit, burst, window, now);
    }

    /// Mirrors what the tracker says is left.
    fn report(&mut self, which: Limit, quota: Quota, later: u64, news: bool, now: Mono) {
        let known = self.meters.get(&which).map(Meter::limit);
        let (Some(limit), Some(left)) = (quota.limit.or(known), quota.left) else {
            return;
        };
        if news && limit > 0 {
            let left = left.saturating_sub(later);
            let meter = Meter::mirror(limit, quota.window, left, now);
            self.meters.insert(which, meter);
        }
    }

    /// Counts by the wall clock's day. The day's limit does not: a clock that jumps gains nothing.
    fn roll_day(&mut self, wall: Wall) {
        if self.spent.day != wall.day() {
            self.spent = Spent { day: wall.day(), requests: BTreeMap::new() };
            self.tools.clear();
        }
    }

    /// Counts an issue's tool calls. The issue with the fewest makes room for a new one.
    fn count_tool(&mut self, issue: &IssueId, requests: u64) {
        if self.tools.len() >= MAX_COUNTED_ISSUES && !self.tools.contains_key(issue) {
            let least = self.tools.iter().min_by_key(|(_, count)| **count);
            if let Some(least) = least.map(|(issue, _)| issue.clone()) {
                self.tools.remove(&least);
            }
        }
        let count = self.tools.entry(issue.clone()).or_default();
        *count = count.saturating_add(requests);
    }
}

/// What is left of a tracker's budget, for people.
///
/// Exhaustive on purpose: a tracker with a limiter of its own fills it in as a literal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BudgetView {
    /// Requests left in the window.
    pub requests_left: Option<u64>,
    /// The window's limit.
    pub requests_limit: Option<u64>,
    /// Points left in the window, where the tracker counts them.
    pub points_left: Option<u64>,
    /// The window's limit in points.
    pub points_limit: Option<u64>,
    /// Requests left today.
    pub day_left: Option<u64>,
    /// When the tracker says that its window is whole again.
    pub resets: Option<Wall>,
    /// The time in which one request comes back.
    pub refill: Option<Duration>,
    /// For how long no spender may ask, because the tracker refused.
    pub held_for: Option<Duration>,
    /// How many spenders were refused and are expected back.
    pub waiting: usize,
    /// Requests today, by spender.
    pub today: BTreeMap<String, u64>,
    /// Requests of agents' tools today, by issue: those with the most, since the service started.
    pub tools: BTreeMap<IssueId, u64>,
}

/// Saturating, because counts may come from a file.
fn sum(requests: &BTreeMap<String, u64>) -> u64 {
    requests.values().copied().fold(0, u64::saturating_add)
}

/// Small deterministic randomness (splitmix64), so that a refused herd does not return at once.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Jitter(u64);

impl Jitter {
    fn up_to(&mut self, most: Duration) -> Duration {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        Duration::from_millis(z % (crate::time::millis(most).saturating_add(1)))
    }
}
