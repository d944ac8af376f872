//! The four lists as tables.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use symphony_api::{
    BlockedStatus, RetryStatus, RunningStatus, Status, UnstartedStatus, reason_in_words,
};
use symphony_core::orchestrator::Phase;
use symphony_core::plain;
use symphony_core::time::Wall;

use super::look::Palette;
use super::{rule, write};
use crate::app::{App, IssueList};
use crate::text::{count, fit, fit_right, since, until};

/// A column: its name, its width, and from which width of the whole it is shown.
struct Column {
    name: &'static str,
    width: Width,
    from: u16,
}

#[derive(Clone, Copy)]
enum Width {
    Left(u16),
    Right(u16),
    /// A share of what is left.
    Rest(u16),
}

const fn column(name: &'static str, width: Width) -> Column {
    Column { name, width, from: 0 }
}

/// A column that only wide terminals show: the title of an issue says more than its state.
const fn wide(name: &'static str, width: Width) -> Column {
    Column { name, width, from: 100 }
}

fn columns(list: IssueList) -> Vec<Column> {
    use Width::{Left, Rest, Right};
    let mut columns = vec![column("ISSUE", Left(10)), wide("STATE", Left(11))];
    columns.extend(match list {
        IssueList::Running => vec![
            column("PHASE", Left(9)),
            column("TURN", Right(5)),
            column("AGE", Right(6)),
            wide("TOKENS", Right(6)),
            column("LAST EVENT", Rest(1)),
        ],
        IssueList::Waiting => {
            vec![column("ATTEMPT", Right(7)), column("DUE IN", Right(7)), column("WHY", Rest(1))]
        }
        IssueList::Blocked => vec![column("SINCE", Right(7)), column("NEEDS", Rest(1))],
        IssueList::Unstarted => vec![column("UNTIL", Right(7)), column("WHY NOT", Rest(1))],
    });
    columns.push(column("TITLE", Rest(1)));
    columns
}

/// The rows of every list that pass the filter, and the place of the chosen one among them.
pub(super) struct Rows([(Vec<usize>, usize); 4]);

impl Rows {
    /// Found once per picture: lists may be long.
    pub(super) fn new(app: &App) -> Self {
        Self(IssueList::ALL.map(|list| app.rows(list)))
    }

    fn in_list(&self, list: IssueList) -> (&[usize], usize) {
        let (rows, chosen) = &self.0[list.index()];
        (rows, *chosen)
    }

    /// How many lines a list would like.
    pub(super) fn lines(&self, list: IssueList) -> u16 {
        let rows = self.in_list(list).0.len();
        if rows == 0 { 1 } else { u16::try_from(rows.saturating_add(2)).unwrap_or(u16::MAX) }
    }

    /// How many lines all lists would take.
    pub(super) fn all_lines(&self) -> u16 {
        IssueList::ALL.into_iter().fold(0, |sum, list| sum.saturating_add(self.lines(list)))
    }
}

/// Draws a list into as many lines as it is given: a rule, the names of the columns, rows.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    app: &App,
    rows: &Rows,
    list: IssueList,
    area: Rect,
    look: Palette,
) {
    let Some(status) = app.status.as_deref() else { return };
    let (rows, chosen) = rows.in_list(list);
    let is_focus = list == app.list;
    rule(frame, &heading(app, status, list, rows.len()), is_focus, area);
    let body = below(area, 1);
    if rows.is_empty() || body.is_empty() {
        return;
    }
    let all = columns(list);
    let is_shown: Vec<bool> = all.iter().map(|column| column.from <= area.width).collect();
    let columns = only(all, &is_shown);
    let widths = widths(&columns, area.width);
    let names = columns.iter().map(|column| column.name.to_owned()).collect::<Vec<_>>();
    let names = line(" ", &names, &columns, &widths);
    write(frame, Line::styled(names, Palette::dim()), body, 0);
    let space = usize::from(body.height.saturating_sub(1));
    let first = first_shown(chosen, rows.len(), space);
    for (at, row) in rows.iter().enumerate().skip(first).take(space) {
        let (cells, style) = cells(list, status, *row, app.clock(), look);
        let is_chosen = is_focus && at == chosen;
        let mark = if is_chosen { "▶" } else { " " };
        let style = if is_chosen { style.patch(Palette::chosen()) } else { style };
        let text = line(mark, &only(cells, &is_shown), &columns, &widths);
        let y = u16::try_from(at - first + 1).unwrap_or(u16::MAX);
        write(frame, Line::from(Span::styled(text, style)), body, y);
    }
}

/// Returns those that are shown.
fn only<T>(all: Vec<T>, is_shown: &[bool]) -> Vec<T> {
    all.into_iter().zip(is_shown).filter(|(_, is_shown)| **is_shown).map(|(one, _)| one).collect()
}

/// The chosen row is always seen, as far down as it can be only when the list is scrolled.
const fn first_shown(chosen: usize, rows: usize, space: usize) -> usize {
    let last_first = rows.saturating_sub(space);
    let first = chosen.saturating_sub(space.saturating_sub(1));
    if first < last_first { first } else { last_first }
}

fn heading(app: &App, status: &Status, list: IssueList, shown: usize) -> String {
    let all = list.count(status);
    let mut text = format!("{} {all}", list.name());
    if all == 0 {
        text.push_str(&format!(": {}", list.when_empty()));
    }
    if shown < all {
        text.push_str(&format!(", {shown} shown"));
    }
    if list == IssueList::Unstarted {
        let reasons = status.summary.candidates.unclaimed.iter();
        let reasons: Vec<String> =
            reasons.map(|(why, n)| format!("{n} {}", reason_in_words(why))).collect();
        if !reasons.is_empty() {
            text.push_str(&format!(": {}", reasons.join(", ")));
        }
        if let Some(read) = status.summary.candidates.read_at {
            text.push_str(&format!(" (read {} ago)", since(app.clock(), read)));
        }
    }
    text
}

fn widths(columns: &[Column], total: u16) -> Vec<usize> {
    let gaps = u16::try_from(columns.len()).unwrap_or(u16::MAX);
    let fixed = columns.iter().map(|column| match column.width {
        Width::Left(cells) | Width::Right(cells) => cells,
        Width::Rest(_) => 0,
    });
    let rest = total.saturating_sub(gaps).saturating_sub(fixed.sum());
    let shares: u16 = columns
        .iter()
        .map(|column| if let Width::Rest(share) = column.width { share } else { 0 })
        .sum();
    let width = |column: &Column| match column.width {
        Width::Left(cells) | Width::Right(cells) => usize::from(cells),
        Width::Rest(share) => usize::from(rest) * usize::from(share) / usize::from(shares.max(1)),
    };
    columns.iter().map(width).collect()
}

fn line(mark: &str, cells: &[String], columns: &[Column], widths: &[usize]) -> String {
    let mut text = mark.to_owned();
    for (at, ((cell, column), width)) in cells.iter().zip(columns).zip(widths).enumerate() {
        if at > 0 {
            text.push(' ');
        }
        text.push_str(&match column.width {
            Width::Right(_) => fit_right(cell, *width),
            Width::Left(_) | Width::Rest(_) => fit(cell, *width),
        });
    }
    text
}

fn cells(
    list: IssueList,
    status: &Status,
    at: usize,
    now: Wall,
    look: Palette,
) -> (Vec<String>, Style) {
    let row = match list {
        IssueList::Running => status.running.get(at).map(|row| running(row, now, look)),
        IssueList::Waiting => status.retrying.get(at).map(|row| waiting(row, now)),
        IssueList::Blocked => status.blocked.get(at).map(|row| blocked(row, now, look)),
        IssueList::Unstarted => {
            status.summary.candidates.first.get(at).map(|row| unstarted(row, now))
        }
    };
    row.unwrap_or_default()
}

/// An issue's name as the tracker has it.
fn name(identifier: &str) -> String {
    plain(identifier, 60)
}

fn running(row: &RunningStatus, now: Wall, look: Palette) -> (Vec<String>, Style) {
    let last = match (&row.last_event, row.last_message.is_empty()) {
        (Some(event), true) => event.clone(),
        (_, _) => row.last_message.clone(),
    };
    let cells = vec![
        name(&row.issue.identifier),
        row.issue.state.clone(),
        phase(row).to_owned(),
        format!("{}/{}", row.turn_count, row.max_turns),
        since(now, row.started_at),
        count(row.tokens.total_tokens),
        last,
        row.issue.title.clone(),
    ];
    let style = if row.stop_overdue { look.bad() } else { Style::new() };
    (cells, style)
}

/// Where a run is, in one word.
#[must_use]
pub const fn phase(row: &RunningStatus) -> &'static str {
    match (row.stop_overdue, row.stopping, row.phase) {
        (true, _, _) => "STUCK",
        (false, Some(_), _) => "stopping",
        (false, None, Phase::PreparingWorkspace) => "workspace",
        (false, None, Phase::BuildingPrompt) => "prompt",
        (false, None, Phase::LaunchingAgent) => "launching",
        (false, None, Phase::InitializingSession) => "session",
        (false, None, Phase::StreamingTurn) => "turn",
        (false, None, Phase::Finishing) => "finishing",
        (false, None, _) => "other",
    }
}

fn waiting(row: &RetryStatus, now: Wall) -> (Vec<String>, Style) {
    let due = row.due_at.map_or_else(|| "now".to_owned(), |due| until(now, due));
    let mut why =
        row.error.clone().unwrap_or_else(|| "looks whether there is more to do".to_owned());
    if row.unchanged_ends > 1 {
        why = format!("{} ends changed nothing; {why}", row.unchanged_ends);
    }
    // The number of a continuation stays 1, however many there are.
    let attempt = row.error.as_ref().map_or_else(|| "-".to_owned(), |_| row.attempt.to_string());
    (
        vec![
            name(&row.issue.identifier),
            row.issue.state.clone(),
            attempt,
            due,
            why,
            row.issue.title.clone(),
        ],
        Style::new(),
    )
}

fn blocked(row: &BlockedStatus, now: Wall, look: Palette) -> (Vec<String>, Style) {
    let needs = match &row.question {
        Some(question) => format!("asks: {question}"),
        None => "stopped; t tries again".to_owned(),
    };
    let since = since(now, row.since);
    let cells = vec![
        name(&row.issue.identifier),
        row.issue.state.clone(),
        since,
        needs,
        row.issue.title.clone(),
    ];
    (cells, look.attention())
}

fn unstarted(row: &UnstartedStatus, now: Wall) -> (Vec<String>, Style) {
    let due = row.until.map(|due| until(now, due)).unwrap_or_default();
    let (state, title) = (row.state.clone(), row.title.clone());
    (vec![name(&row.issue_identifier), state, due, row.message.clone(), title], Style::new())
}

/// What is left of an area below so many lines.
const fn below(area: Rect, lines: u16) -> Rect {
    let lines = if lines < area.height { lines } else { area.height };
    Rect { y: area.y + lines, height: area.height - lines, ..area }
}
