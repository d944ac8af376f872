//! The one admission point for tracker requests (contract 12.6).

use serde::{Deserialize, Serialize};

/// What is left of a tracker's budget, for people.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
}
