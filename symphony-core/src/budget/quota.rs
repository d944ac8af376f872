//! What a tracker says about its limits.

use std::time::Duration;

use super::HOUR;
use crate::time::Wall;

/// What the headers of one response said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// The limit of requests.
    pub requests: Quota,
    /// The limit of points.
    pub points: Quota,
    /// The points that the request really cost.
    pub charged: Option<u64>,
}

/// One limit, as far as it was reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// How much there is in all.
    pub limit: Option<u64>,
    /// How much of it is left.
    pub left: Option<u64>,
    /// When it is whole again. Shown, never waited for.
    pub resets: Option<Wall>,
    /// The time that `limit` is for.
    pub window: Duration,
}

impl Default for Quota {
    fn default() -> Self {
        Self { limit: None, left: None, resets: None, window: HOUR }
    }
}
