//! One issue: what it is about, where it stands, what has been tried, what happened.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use symphony_api::{Attempts, IssueStatus, RunningStatus, TimelineEntry};
use symphony_core::plain;
use symphony_core::time::Wall;

use super::lists::phase;
use super::look::Palette;
use super::{rule, write};
use crate::app::{App, AppView};
use crate::text::{count, fit, since, time_of_day, until, wrap};

/// Draws the issue that is looked at, and keeps its scroll within what there is.
pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App, area: Rect, look: Palette) {
    let now = app.clock();
    let page = usize::from(area.height.saturating_sub(1));
    let AppView::Issue(view) = &mut app.view else { return };
    let name = plain(&view.identifier, 60);
    let lines = match &view.status {
        None => vec![Line::raw("being asked for")],
        Some(Err(why)) => vec![Line::styled(why.to_string(), look.bad())],
        Some(Ok(issue)) => lines(issue, now, usize::from(area.width), look),
    };
    view.scroll = view.scroll.min(lines.len().saturating_sub(page));
    let (first, last) = (view.scroll, (view.scroll + page).min(lines.len()));
    let place = if last - first < lines.len() {
        format!("{name}: lines {} to {last} of {}", first + 1, lines.len())
    } else {
        name
    };
    rule(frame, &place, true, area);
    let shown = lines.into_iter().skip(first).take(page);
    for (line, y) in shown.zip(1..) {
        write(frame, line, area, y);
    }
    app.page = page.max(1);
}

fn lines(issue: &IssueStatus, now: Wall, cells: usize, look: Palette) -> Vec<Line<'static>> {
    let mut out = Vec::new();
    let mut say = |word: &str, text: &str, style: Style| {
        for (at, part) in wrap(text, cells.saturating_sub(12)).into_iter().enumerate() {
            let word = if at == 0 { word } else { "" };
            let word = Span::styled(format!("{word:<11} "), Palette::dim());
            out.push(Line::from(vec![word, Span::styled(part, style)]));
        }
    };
    let plainly = Style::new();
    if let Some(title) = &issue.title {
        say("Title", title, Palette::strong());
    }
    say("Stands", &standing(issue), plainly);
    if let Some(row) = &issue.running {
        say("Run", &run(row, now), plainly);
        let tokens = row.tokens;
        let (total, input) = (count(tokens.total_tokens), count(tokens.input_tokens));
        let output = count(tokens.output_tokens);
        say("Tokens", &format!("{total} (in {input}, out {output})"), plainly);
        if let Some(event) = &row.last_event {
            let at = row.last_event_at.map(|at| format!(", {} ago", since(now, at)));
            let what = [agent_event(event), &row.last_message].into_iter();
            let what: Vec<&str> = what.filter(|text| !text.is_empty()).collect();
            let text = format!("{}{}", what.join(": "), at.unwrap_or_default());
            say("Last event", &text, plainly);
        }
    }
    if let Some(question) = issue.blocked.as_ref().and_then(|row| row.question.as_ref()) {
        say("Asks", question, look.attention());
    }
    if let Some(row) = &issue.retry {
        let due = row.due_at.map_or_else(|| "now".to_owned(), |due| until(now, due));
        say("Next", &format!("attempt {}, due in {due}", row.attempt), plainly);
    }
    if let Some(row) = issue.reason_to_show() {
        say("Not started", &row.message, plainly);
    }
    if let Some(error) = &issue.last_error {
        say("Last error", error, look.bad());
    }
    for (word, text) in [
        ("Link", issue.issue_url.as_ref()),
        ("Workspace", issue.workspace.as_ref().map(|workspace| &workspace.path)),
    ] {
        if let Some(text) = text {
            say(word, &plain(text, 2_000), plainly);
        }
    }
    for log in issue.logs.codex_session_logs.iter().take(3) {
        say("Log", &plain(&log.path, 2_000), plainly);
    }
    out.extend(runs(&issue.attempts, now));
    out.extend(timeline(&issue.recent_events));
    out
}

/// Returns the name of an event; what an agent says needs none.
fn agent_event(name: &str) -> &str {
    if name == "notification" { "" } else { name }
}

fn standing(issue: &IssueStatus) -> String {
    let state = issue.tracked.get("state").and_then(|state| state.as_str());
    let state = state.map(|state| format!(", state {}", plain(state, 200)));
    let attempt = issue.attempts.current_retry_attempt;
    let attempt = attempt.map(|number| format!(", attempt {number}")).unwrap_or_default();
    let last = issue.attempts.runs.last().and_then(|run| run.outcome.as_deref());
    let last = last.map(|outcome| format!(", last run {}", outcome.replace('_', " ")));
    let (stage, state) = (issue.status.as_str(), state.unwrap_or_default());
    format!("{stage}{state}{attempt}{}", last.unwrap_or_default())
}

fn run(row: &RunningStatus, now: Wall) -> String {
    let age = since(now, row.started_at);
    let pid = row.pid.map(|pid| format!(", process {pid}")).unwrap_or_default();
    let session = row.session_id.as_ref().map(|id| format!(", session {id}")).unwrap_or_default();
    format!(
        "{}: phase {}, turn {} of at most {}, for {age}, on {}{pid}{session}",
        row.run,
        phase(row),
        row.turn_count,
        row.max_turns,
        row.host
    )
}

fn runs(attempts: &Attempts, now: Wall) -> Vec<Line<'static>> {
    if attempts.runs.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![Line::raw(""), Line::styled("Runs, newest first", Palette::dim())];
    lines.extend(attempts.runs.iter().zip(attempts.in_words()).rev().map(|(run, word)| {
        let took = since(run.ended_at.unwrap_or(now), run.started_at);
        let outcome =
            run.outcome.as_deref().map_or_else(|| "lives".into(), |o| o.replace('_', " "));
        let error = run.error.as_deref().unwrap_or_default();
        let attempt = match word.as_str() {
            "first" => String::new(),
            "continuation" => " continuation".to_owned(),
            number => format!(" attempt {number}"),
        };
        let began = time_of_day(run.started_at);
        Line::raw(format!("{began}  {}{attempt}  {outcome} after {took}  {error}", run.run))
    }));
    lines
}

fn timeline(events: &[TimelineEntry]) -> Vec<Line<'static>> {
    let mut lines = vec![Line::raw(""), Line::styled("Timeline, newest first", Palette::dim())];
    if events.is_empty() {
        let text = "nothing yet: starts, what the agent does, ends and retries appear here";
        lines.push(Line::styled(text, Palette::dim()));
    }
    lines.extend(events.iter().rev().map(|entry| {
        let event = fit(&plain(agent_event(&entry.event), 60), 20);
        let spans = vec![
            Span::styled(format!("{}  ", time_of_day(entry.at)), Palette::dim()),
            Span::raw(format!("{event} {}", plain(&entry.message, 500))),
        ];
        Line::from(spans)
    }));
    lines
}
