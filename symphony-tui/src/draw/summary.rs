//! The service at a glance: slots, tokens, limits, polling.

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use symphony_api::{PollingStatus, RateLimitsStatus, Status};
use symphony_core::time::Wall;

use super::look::Palette;
use crate::app::App;
use crate::text::{bar, count, span, sparks, until};

/// How wide a bar is.
const BAR_COLUMNS: usize = 10;

/// How many bars of the chart fit beside the other figures.
const MAX_SPARKS: usize = 30;

/// The lines, each with a word before it.
pub(super) fn lines(app: &App, look: Palette) -> Vec<Line<'static>> {
    let Some(status) = app.status.as_deref() else { return Vec::new() };
    let now = app.clock();
    let mut lines = vec![
        line("Agents", agents(status, look)),
        line("", claims(status, look)),
        line("Tokens", tokens(status, app, look)),
        line("Runs", runs(status)),
    ];
    lines.extend(limits(status.summary.rate_limits.as_ref(), now, look));
    lines.extend(polling(&status.summary.polling, now));
    lines
}

fn line(word: &'static str, mut rest: Vec<Span<'static>>) -> Line<'static> {
    rest.insert(0, Span::styled(format!("{word:<9}"), Palette::dim()));
    Line::from(rest)
}

fn agents(status: &Status, look: Palette) -> Vec<Span<'static>> {
    let slots = &status.summary.slots;
    let part = f64::from(slots.used) / f64::from(slots.limit.max(1));
    vec![
        Span::styled(bar(part, BAR_COLUMNS), look.good()),
        Span::styled(format!(" {} of {}", slots.used, slots.limit), Palette::strong()),
        Span::raw(format!("   {}", status.summary.verdict.message)),
    ]
}

fn claims(status: &Status, look: Palette) -> Vec<Span<'static>> {
    let counts = status.summary.counts;
    let blocked = if counts.blocked > 0 { look.attention() } else { Style::new() };
    let mut spans = vec![
        Span::raw(format!("waiting {}", counts.retrying)),
        Span::styled(format!("   blocked {}", counts.blocked), blocked),
        Span::raw(format!("   candidates {}", counts.candidates)),
    ];
    for (number, what) in [(counts.checking, "checking"), (counts.cleaning, "cleaning")] {
        if number > 0 {
            spans.push(Span::raw(format!("   {what} {number}")));
        }
    }
    spans
}

fn tokens(status: &Status, app: &App, look: Palette) -> Vec<Span<'static>> {
    let tokens = status.summary.codex_totals.tokens;
    let bars = app.chart.bars();
    let skipped = bars.len().saturating_sub(MAX_SPARKS);
    let bars: Vec<u64> = bars.skip(skipped).collect();
    let (input, output) = (count(tokens.input_tokens), count(tokens.output_tokens));
    vec![
        Span::styled(count(tokens.total_tokens), Palette::strong()),
        Span::raw(format!(" (in {input}, out {output})   {}/min ", count(app.chart.minute()))),
        Span::styled(sparks(bars.into_iter()), look.good()),
    ]
}

#[expect(clippy::cast_possible_truncation, reason = "a float becomes the nearest number")]
fn runs(status: &Status) -> Vec<Span<'static>> {
    let totals = &status.summary.codex_totals;
    let time = span((totals.seconds_running * 1_000.0) as i64);
    let mut text = format!(
        "{} started, {} done, {} failed",
        totals.runs_started, totals.runs_done, totals.runs_failed
    );
    for (number, what) in [
        (totals.runs_succeeded, "handed over"),
        (totals.runs_out_of_turns, "out of turns"),
        (totals.runs_cancelled, "stopped"),
        (totals.runs_input_required, "asked"),
        (totals.runs_interrupted, "cut off"),
    ] {
        if number > 0 {
            text.push_str(&format!(", {number} {what}"));
        }
    }
    vec![Span::raw(format!("{text}; {time} in all"))]
}

/// One line per window: how much of it is used.
fn limits(limits: Option<&RateLimitsStatus>, now: Wall, look: Palette) -> Vec<Line<'static>> {
    let windows = limits.into_iter().flat_map(|limits| &limits.windows).take(4);
    let shown = windows.enumerate().map(|(at, window)| {
        let is_full = window.used_percent >= 100.0;
        let style = if is_full { look.bad() } else { look.good() };
        let mut text = format!(" {:>3.0}% of {}", window.used_percent, window.name);
        if let Some(minutes) = window.window_minutes {
            let millis = i64::try_from(minutes).unwrap_or(i64::MAX).saturating_mul(60_000);
            text.push_str(&format!(" ({})", span(millis)));
        }
        if let Some(resets) = window.resets_at {
            text.push_str(&format!(", anew in {}", until(now, resets)));
        }
        let full = if is_full { " used up" } else { "" };
        let word = if at == 0 { "Limits" } else { "" };
        let spans = vec![
            Span::styled(bar(window.used_percent / 100.0, BAR_COLUMNS), style),
            Span::raw(text),
            Span::styled(full, look.bad()),
        ];
        line(word, spans)
    });
    shown.collect()
}

fn polling(polling: &PollingStatus, now: Wall) -> Vec<Line<'static>> {
    let quiet = if polling.quiet { ", quiet hours" } else { "" };
    let mut text = format!("{}{quiet}", polling.mode.as_str());
    for job in &polling.jobs {
        let when = match (job.in_progress, job.due_at) {
            (true, _) => "being read".to_owned(),
            (false, Some(due)) => until(now, due),
            (false, None) => continue,
        };
        text.push_str(&format!("; {} {when}", job.job));
    }
    let today = polling.requests_today.values().fold(0_u64, |sum, n| sum.saturating_add(*n));
    let mut spent =
        format!("{} requests today, {} by its end", count(today), count(polling.projected_today));
    if let Some(budget) = &polling.budget {
        if let (Some(left), Some(limit)) = (budget.requests_left, budget.requests_limit) {
            spent.push_str(&format!("; {} of {} left", count(left), count(limit)));
        }
        if let Some(left) = budget.day_left {
            spent.push_str(&format!("; {} left for today", count(left)));
        }
    }
    if let Some(webhook) = &polling.webhook {
        let trust = if webhook.healthy { "relied on" } else { "not relied on" };
        spent.push_str(&format!("; {} deliveries, {trust}", count(webhook.received)));
    }
    vec![line("Polling", vec![Span::raw(text)]), line("", vec![Span::raw(spent)])]
}
