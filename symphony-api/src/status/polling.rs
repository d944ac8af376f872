//! How and when the tracker is read, and what the agent's limits are.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use symphony_core::agent::RateLimits;
use symphony_core::budget::BudgetView;
use symphony_core::plain;
use symphony_core::snapshot::{JobRow, Mode, Polling, WebhookView};
use symphony_core::time::{Now, Wall};

use super::{MAX_TEXT_BYTES, MAX_TITLE_BYTES, at};
use crate::when;

/// How and when the tracker is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct PollingStatus {
    /// The pace.
    pub mode: Mode,
    /// Whether quiet hours are on.
    pub quiet: bool,
    /// One row per job.
    pub jobs: Vec<JobStatus>,
    /// Requests today, by what they were for.
    pub requests_today: BTreeMap<String, u64>,
    /// How many requests the whole day will take if it goes on as now.
    pub projected_today: u64,
    /// What is left of the tracker's budget.
    pub budget: Option<BudgetStatus>,
    /// What the tracker delivers by itself; absent before the first delivery.
    pub webhook: Option<WebhookStatus>,
}

impl PollingStatus {
    pub(super) fn new(polling: &Polling, now: Now) -> Self {
        Self {
            mode: polling.mode,
            quiet: polling.quiet,
            jobs: polling.jobs.iter().map(|job| JobStatus::new(job, now)).collect(),
            requests_today: polling.requests_today.clone(),
            projected_today: polling.projected_today,
            budget: polling.budget.as_ref().map(BudgetStatus::from),
            webhook: polling.webhook.as_ref().map(WebhookStatus::from),
        }
    }
}

/// What the tracker delivers by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct WebhookStatus {
    /// When the last delivery came.
    #[serde(with = "when")]
    #[schemars(with = "when::Rfc3339")]
    pub last_at: Wall,
    /// How many deliveries there were.
    pub received: u64,
    /// How many changes polls found that no delivery announced.
    pub missed: u64,
    /// Whether polls are rarer because of them.
    pub healthy: bool,
    /// How many issues are still to be read because of them.
    pub waiting: usize,
}

impl From<&WebhookView> for WebhookStatus {
    fn from(view: &WebhookView) -> Self {
        let WebhookView { last, received, missed, healthy, waiting, .. } = *view;
        Self { last_at: last, received, missed, healthy, waiting }
    }
}

/// One job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct JobStatus {
    /// Which.
    pub job: String,
    /// Whether its read is open.
    pub in_progress: bool,
    /// When it is due next; absent while its read is open, and while it has nothing to do.
    #[serde(with = "when::maybe")]
    #[schemars(with = "Option<when::Rfc3339>")]
    pub due_at: Option<Wall>,
    /// When it last ran.
    #[serde(with = "when::maybe")]
    #[schemars(with = "Option<when::Rfc3339>")]
    pub last_run_at: Option<Wall>,
    /// Why it last failed, if it did.
    pub error: Option<String>,
}

impl JobStatus {
    fn new(row: &JobRow, now: Now) -> Self {
        Self {
            job: plain(&row.job.to_string(), MAX_TITLE_BYTES),
            in_progress: row.in_progress,
            due_at: row.next.map(|next| at(now, next)),
            last_run_at: row.last_run,
            error: row.failure.as_ref().map(|failure| plain(&failure.to_string(), MAX_TEXT_BYTES)),
        }
    }
}

/// What is left of the tracker's budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct BudgetStatus {
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
    #[serde(with = "when::maybe")]
    #[schemars(with = "Option<when::Rfc3339>")]
    pub resets_at: Option<Wall>,
    /// For how many milliseconds no request may be made, because the tracker refused.
    pub held_ms: Option<u64>,
    /// How many spenders were refused and are expected back.
    pub waiting: usize,
    /// Requests of agents' tools today, by issue: those with the most.
    pub tools: BTreeMap<String, u64>,
}

impl From<&BudgetView> for BudgetStatus {
    fn from(view: &BudgetView) -> Self {
        let tools = view.tools.iter();
        Self {
            requests_left: view.requests_left,
            requests_limit: view.requests_limit,
            points_left: view.points_left,
            points_limit: view.points_limit,
            day_left: view.day_left,
            resets_at: view.resets,
            held_ms: view.held_for.map(|held| u64::try_from(held.as_millis()).unwrap_or(u64::MAX)),
            waiting: view.waiting,
            tools: tools.map(|(issue, n)| (issue.as_str().to_owned(), *n)).collect(),
        }
    }
}

/// The agent's limits, as last reported.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct RateLimitsStatus {
    /// Which limit, where there are several.
    pub limit_id: Option<String>,
    /// The account's plan.
    pub plan: Option<String>,
    /// The windows, shortest first.
    pub windows: Vec<RateLimitStatus>,
}

/// One window of a limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct RateLimitStatus {
    /// `primary`, `secondary`
    pub name: String,
    /// How much of it is used, in percent.
    pub used_percent: f64,
    /// Its length.
    pub window_minutes: Option<u64>,
    /// When it begins anew.
    #[serde(with = "when::maybe")]
    #[schemars(with = "Option<when::Rfc3339>")]
    pub resets_at: Option<Wall>,
}

impl From<&RateLimits> for RateLimitsStatus {
    fn from(limits: &RateLimits) -> Self {
        let windows = limits.windows.iter().map(|window| RateLimitStatus {
            name: plain(&window.name, MAX_TITLE_BYTES),
            used_percent: window.used_percent,
            window_minutes: window.window_minutes,
            resets_at: window.resets_at,
        });
        Self {
            limit_id: limits.limit_id.as_ref().map(|id| plain(id, MAX_TITLE_BYTES)),
            plan: limits.plan.as_ref().map(|plan| plain(plan, MAX_TITLE_BYTES)),
            windows: windows.collect(),
        }
    }
}
