//! What is wrong or doubtful, in one line each: it stands above everything else.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use symphony_api::{ProblemStatus, Status};
use symphony_core::plain;
use symphony_core::time::Wall;

use super::look::Palette;
use super::{take_top, write};
use crate::app::App;
use crate::source::Link;
use crate::text::{cut, time_of_day, until, width, wrap};

/// The most lines of problems.
const MAX_PROBLEM_ROWS: usize = 5;

/// Something that stands above everything else.
enum TopEntry {
    Problem(String),
    Warning(String),
}

/// Takes the lines for what is wrong from the top of an area, and draws them there. Where there is
/// not enough space to tell all of it, each gets one line.
pub(super) fn draw(frame: &mut Frame<'_>, app: &App, area: &mut Rect, look: Palette) {
    let entries = all(app);
    let most = MAX_PROBLEM_ROWS.min(usize::from(area.height / 3));
    let cells = usize::from(area.width).saturating_sub(2);
    let whole: Vec<Line<'_>> =
        entries.iter().flat_map(|entry| entry.lines(look, |text| wrap(text, cells))).collect();
    let lines = if whole.len() <= most { whole } else { first_lines(&entries, most, cells, look) };
    let top = take_top(area, u16::try_from(lines.len()).unwrap_or(u16::MAX));
    lines.into_iter().zip(0..).for_each(|(line, y)| write(frame, line, top, y));
}

/// Returns one line for each of the first entries; the last line says how many there are besides.
fn first_lines(
    entries: &[TopEntry],
    most: usize,
    cells: usize,
    look: Palette,
) -> Vec<Line<'static>> {
    let shown = most.min(entries.len());
    let hidden = entries.len() - shown;
    let line = |(at, entry): (usize, &TopEntry)| {
        let is_last = at + 1 == shown && hidden > 0;
        let more = if is_last { format!(" (and {hidden} more)") } else { String::new() };
        let space = cells.saturating_sub(width(&more));
        entry.lines(look, |text| vec![format!("{}{more}", cut(text, space))])
    };
    entries.iter().take(shown).enumerate().flat_map(line).collect()
}

impl TopEntry {
    /// Returns its lines, with a mark before the first.
    fn lines(&self, look: Palette, broken: impl Fn(&str) -> Vec<String>) -> Vec<Line<'static>> {
        let (mark, text, style) = match self {
            Self::Problem(text) => ("!", text, look.bad()),
            Self::Warning(text) => ("?", text, look.attention()),
        };
        let line = |(at, text): (usize, String)| {
            Line::styled(format!("{} {text}", if at == 0 { mark } else { " " }), style)
        };
        broken(text).into_iter().enumerate().map(line).collect()
    }
}

/// What is wrong with a dashboard's connection, then with the service, then its warnings.
fn all(app: &App) -> Vec<TopEntry> {
    let mut out = Vec::new();
    match &app.link {
        Link::Lost(why) => {
            out.push(format!("no connection: {}; what is shown is old", plain(why, 300)));
        }
        Link::Ended => {
            out.push("the service has ended; what is shown is its last state".to_owned());
        }
        Link::Live | Link::Connecting => {}
    }
    let status = app.status.as_deref();
    out.extend(status.into_iter().flat_map(|status| problems(status, app.clock())));
    let warnings = status.into_iter().flat_map(warnings).map(TopEntry::Warning);
    out.into_iter().map(TopEntry::Problem).chain(warnings).collect()
}

/// Everything that keeps a service from doing its work, worst first.
#[must_use]
pub fn problems(status: &Status, now: Wall) -> Vec<String> {
    let mut out = Vec::new();
    let summary = &status.summary;
    if summary.shutting_down {
        out.push(format!("the service ends: {} runs are being stopped", status.running.len()));
    }
    if let Some(error) = &summary.storage_error {
        out.push(format!(
            "storage: nothing starts until what must survive a restart is written: {error}"
        ));
    }
    out.extend(summary.problems.iter().map(|problem| file_line("workflow file", problem)));
    for job in &summary.polling.jobs {
        if let Some(error) = &job.error {
            out.push(format!("tracker, {}: {error}", job.job));
        }
    }
    for hold in &summary.holds {
        let (at, left) = (time_of_day(hold.until), until(now, hold.until));
        out.push(format!("{} is held until {at} (in {left}): {}", hold.agent, hold.error));
    }
    if let Some(held) = summary.polling.budget.as_ref().and_then(|budget| budget.held_ms) {
        out.push(format!("the tracker refuses requests for {} s", held.div_ceil(1_000)));
    }
    for row in status.running.iter().filter(|row| row.stop_overdue) {
        let name = plain(&row.issue.identifier, 60);
        out.push(format!("{name} was told to stop and is still there after its bound"));
    }
    if summary.paused {
        out.push("paused: nothing starts until it is resumed".to_owned());
    }
    out
}

/// What is doubtful in the workflow file in force: it keeps no work back.
#[must_use]
pub fn warnings(status: &Status) -> Vec<String> {
    let warnings = status.summary.warnings.iter();
    warnings.map(|warning| file_line("warning, workflow file", warning)).collect()
}

/// Tells in one line what is wrong or doubtful in the workflow file, and where.
fn file_line(what: &str, problem: &ProblemStatus) -> String {
    let line = problem.line.map(|line| format!(" (line {line})")).unwrap_or_default();
    let path = problem.path.as_ref().map(|path| format!("{path}: ")).unwrap_or_default();
    let help = problem.help.as_ref().map(|help| format!("; {help}")).unwrap_or_default();
    format!("{what}{line}: {path}{}{help}", problem.message)
}
