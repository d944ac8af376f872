//! Linear's limits: buckets that leak at a constant rate.

use std::time::Duration;

use tokio::time::Instant;

const HOUR: f64 = 3600.0;

/// What the key may use in an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FakeLimits {
    /// Requests.
    pub requests: u32,
    /// Points of complexity.
    pub points: u32,
    /// Points of one query.
    pub query: u64,
}

impl Default for FakeLimits {
    /// Those of a personal key, as published.
    fn default() -> Self {
        Self { requests: 2500, points: 3_000_000, query: 10_000 }
    }
}

/// How much is left.
#[derive(Debug)]
pub(crate) struct Buckets {
    limits: FakeLimits,
    requests: f64,
    points: f64,
    at: Instant,
}

impl Buckets {
    pub(crate) fn full(limits: FakeLimits) -> Self {
        let (requests, points) = (f64::from(limits.requests), f64::from(limits.points));
        Self { limits, requests, points, at: Instant::now() }
    }

    pub(crate) const fn limits(&self) -> FakeLimits {
        self.limits
    }

    /// Takes a request of this cost, if it is there.
    pub(crate) fn take(&mut self, points: u64) -> bool {
        let passed = self.at.elapsed().as_secs_f64();
        self.at = Instant::now();
        let refill = |level: f64, limit: u32| {
            (level + passed * f64::from(limit) / HOUR).min(f64::from(limit))
        };
        self.requests = refill(self.requests, self.limits.requests);
        self.points = refill(self.points, self.limits.points);
        #[expect(clippy::cast_precision_loss, reason = "a cost is far below 2^53")]
        let points = points as f64;
        let is_there = self.requests >= 1.0 && self.points >= points;
        if is_there {
            self.requests -= 1.0;
            self.points -= points;
        }
        is_there
    }

    /// Another client uses the same key.
    pub(crate) fn drain(&mut self, requests: u32) {
        self.requests = (self.requests - f64::from(requests)).max(0.0);
    }

    /// The headers that tell of it. The reset is nearly an hour off, whatever is left.
    pub(crate) fn headers(&self, points: u64) -> Vec<(String, String)> {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let reset = since.unwrap_or_default() + Duration::from_secs(3599);
        let header = |name: &str, value: String| (name.to_owned(), value);
        let quota = |what: &str, limit: u32, left: f64| {
            [
                header(&format!("x-ratelimit-{what}-limit"), limit.to_string()),
                header(&format!("x-ratelimit-{what}-remaining"), left.floor().to_string()),
                header(&format!("x-ratelimit-{what}-reset"), reset.as_millis().to_string()),
            ]
        };
        let mut headers = Vec::from(quota("requests", self.limits.requests, self.requests));
        headers.extend(quota("complexity", self.limits.points, self.points));
        headers.push(header("x-complexity", points.to_string()));
        headers
    }
}
