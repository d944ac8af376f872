//! Counts for Prometheus, in its text format.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use symphony_core::snapshot::{Mode, Snapshot};

use crate::api::with_type;
use crate::error::Error;
use crate::routes::HttpState;

/// `GET /metrics`
pub(crate) async fn serve(State(app): State<Arc<HttpState>>) -> Result<Response, Error> {
    let snapshot = app.handle.snapshot()?;
    let mut text = render(&snapshot);
    text.push_str(&refused(&app));
    Ok(with_type("text/plain; version=0.0.4", StatusCode::OK, Body::from(text)))
}

/// A snapshot as metrics.
fn render(snapshot: &Snapshot) -> String {
    let mut out = MetricsText::default();
    let n = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    out.gauge("symphony_issues", "Issues by where they stand.");
    for (stage, count) in [
        ("running", snapshot.running.len()),
        ("retrying", snapshot.waiting.len()),
        ("blocked", snapshot.blocked.len()),
        ("checking", snapshot.checking.len()),
        ("cleaning", snapshot.cleaning.len()),
    ] {
        out.value(&[("stage", stage)], n(count));
    }
    out.gauge("symphony_slots", "Slots in use and in all.");
    out.value(&[("kind", "used")], snapshot.slots.used.into());
    out.value(&[("kind", "limit")], snapshot.slots.limit.into());
    out.gauge("symphony_candidates", "Candidates in the last list.");
    out.value(&[], n(snapshot.candidates.total));
    out.gauge("symphony_unstarted", "Candidates that are not running, by reason.");
    for (reason, count) in &snapshot.candidates.reasons {
        out.value(&[("reason", reason)], n(*count));
    }
    let totals = &snapshot.totals;
    out.counter("symphony_runs_started_total", "Runs started.");
    out.value(&[], totals.started);
    out.counter("symphony_runs_ended_total", "Runs ended, by how.");
    for (outcome, count) in [
        ("done", totals.done),
        ("succeeded", totals.succeeded),
        ("out_of_turns", totals.out_of_turns),
        ("failed", totals.failed),
        ("cancelled", totals.cancelled),
        ("input_required", totals.input_required),
        ("interrupted", totals.interrupted),
    ] {
        out.value(&[("outcome", outcome)], count);
    }
    out.counter("symphony_tokens_total", "Tokens used by agents.");
    for (kind, count) in [
        ("input", totals.tokens.input),
        ("cached_input", totals.tokens.cached_input),
        ("output", totals.tokens.output),
        ("reasoning_output", totals.tokens.reasoning_output),
    ] {
        out.value(&[("kind", kind)], count);
    }
    out.counter("symphony_agent_seconds_total", "Running time of all runs.");
    out.number(&[], totals.runtime.as_secs_f64());
    polling(&mut out, snapshot);
    limits(&mut out, snapshot);
    out.gauge("symphony_paused", "Whether starts are paused.");
    out.value(&[], snapshot.paused.into());
    out.gauge("symphony_storage_failing", "Whether nothing can be written for the next start.");
    out.value(&[], snapshot.storage.is_some().into());
    out.gauge("symphony_workflow_problems", "What is wrong with the workflow file.");
    out.value(&[], n(snapshot.problems.len()));
    out.gauge("symphony_workflow_warnings", "What is doubtful in the workflow file in force.");
    out.value(&[], n(snapshot.warnings.len()));
    out.text
}

/// What a snapshot does not know: refused deliveries and requests.
fn refused(app: &HttpState) -> String {
    let mut out = MetricsText::default();
    out.counter("symphony_webhook_refused_total", "Webhook deliveries that were refused.");
    out.value(&[], app.handle.refused_deliveries());
    let (wrong, unseen) = app.token_limit.counts();
    out.counter("symphony_http_wrong_tokens_total", "Requests with a wrong access token.");
    out.value(&[], wrong);
    out.counter(
        "symphony_http_throttled_total",
        "Requests refused because of earlier wrong tokens.",
    );
    out.value(&[], unseen);
    out.counter("symphony_http_evicted_connections_total", "Idle connections closed to make room.");
    out.value(&[], app.connections.evicted());
    out.text
}

fn polling(out: &mut MetricsText, snapshot: &Snapshot) {
    let polling = &snapshot.polling;
    out.gauge("symphony_polling_mode", "The pace of polling: one of them is 1.");
    for mode in [Mode::Active, Mode::Idle, Mode::Dormant] {
        out.value(&[("mode", mode.as_str())], (mode == polling.mode).into());
    }
    out.gauge("symphony_tracker_requests_today", "Requests to the tracker today, by purpose.");
    for (purpose, count) in &polling.requests_today {
        out.value(&[("purpose", purpose)], *count);
    }
    out.gauge("symphony_tracker_requests_projected", "Requests that the whole day will take.");
    out.value(&[], polling.projected_today);
    out.gauge("symphony_job_failing", "Whether a job's last read failed.");
    for job in &polling.jobs {
        out.value(&[("job", &job.job.to_string())], job.failure.is_some().into());
    }
    out.gauge("symphony_job_last_run_timestamp_seconds", "When a job last ran.");
    for job in &polling.jobs {
        if let Some(at) = job.last_run {
            let millis = std::time::Duration::from_millis(
                u64::try_from(at.as_unix_millis()).unwrap_or_default(),
            );
            out.number(&[("job", &job.job.to_string())], millis.as_secs_f64());
        }
    }
    if let Some(webhook) = &polling.webhook {
        out.counter("symphony_webhook_deliveries_total", "Webhook deliveries that were taken.");
        out.value(&[], webhook.received);
        out.counter("symphony_webhook_missed_total", "Changes that no delivery announced.");
        out.value(&[], webhook.missed);
        out.gauge("symphony_webhook_healthy", "Whether polls are rarer because of deliveries.");
        out.value(&[], webhook.healthy.into());
    }
    if let Some(budget) = &polling.budget {
        out.gauge("symphony_tracker_budget_left", "What is left of the tracker's budget.");
        for (kind, left) in [
            ("requests", budget.requests_left),
            ("points", budget.points_left),
            ("day", budget.day_left),
        ] {
            if let Some(left) = left {
                out.value(&[("kind", kind)], left);
            }
        }
    }
}

fn limits(out: &mut MetricsText, snapshot: &Snapshot) {
    out.gauge("symphony_agent_limit_used_ratio", "How much of the agent's limits is used.");
    for window in snapshot.rate_limits.iter().flat_map(|limits| &limits.windows) {
        out.number(&[("window", &window.name)], window.used_percent / 100.0);
    }
    out.gauge("symphony_hold", "Agents that nothing is started on for now.");
    for hold in &snapshot.holds {
        out.value(&[("agent", &hold.agent)], 1);
    }
}

/// Metrics, one below the other.
#[derive(Default)]
struct MetricsText {
    text: String,
    name: &'static str,
}

impl MetricsText {
    fn gauge(&mut self, name: &'static str, help: &str) {
        self.head(name, help, "gauge");
    }

    fn counter(&mut self, name: &'static str, help: &str) {
        self.head(name, help, "counter");
    }

    fn head(&mut self, name: &'static str, help: &str, kind: &str) {
        self.name = name;
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn value(&mut self, labels: &[(&str, &str)], value: u64) {
        self.labels(labels);
        let _ = writeln!(self.text, " {value}");
    }

    fn number(&mut self, labels: &[(&str, &str)], value: f64) {
        self.labels(labels);
        let _ = writeln!(self.text, " {value}");
    }

    fn labels(&mut self, labels: &[(&str, &str)]) {
        self.text.push_str(self.name);
        let mut between = '{';
        for (name, value) in labels {
            let value = symphony_core::plain(value, 200);
            let value = value.replace('\\', "\\\\").replace('"', "\\\"");
            let _ = write!(self.text, "{between}{name}=\"{value}\"");
            between = ',';
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut out = MetricsText::default();
        out.gauge("m", "Help.");
        out.value(&[("a", "x\"y\\z\n"), ("b", "c")], 1);
        out.value(&[], 2);
        let expected = "# HELP m Help.\n# TYPE m gauge\nm{a=\"x\\\"y\\\\z\",b=\"c\"} 1\nm 2\n";
        assert_eq!(out.text, expected);
    }
}
