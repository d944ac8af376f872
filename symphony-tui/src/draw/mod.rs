//! What it looks like: everything is drawn from an [`App`], and nothing else is asked.

mod help;
mod issue;
mod lists;
mod look;
mod problems;
mod summary;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use symphony_core::{is_plain, plain};

use crate::app::{App, AppView, Asking, IssueList, Owner};
use crate::source::Link;
use crate::text::{cut, fit, time_of_day, width};
use lists::Rows;
pub use lists::phase;
pub use look::Palette;
pub use problems::{problems, warnings};

/// From this width on, the lists stand beside everything else.
const WIDE_COLUMNS: u16 = 170;

/// How wide everything else is then.
const SIDE_COLUMNS: u16 = 72;

/// With fewer lines than this only one list is shown at a time.
const MIN_ROWS_FOR_ALL_LISTS: u16 = 18;

/// The log is shown where it has this many lines.
const MIN_LOG_ROWS: u16 = 4;

/// Draws all of it; `log` has the last lines, oldest first.
pub fn draw(frame: &mut Frame<'_>, app: &mut App, log: &[String], look: Palette) {
    let mut rest = frame.area();
    let head = take_top(&mut rest, 1);
    title(frame, app, head, look);
    let foot = take_bottom(&mut rest, 1);
    footer(frame, app, foot, look);
    problems::draw(frame, app, &mut rest, look);
    if app.status.is_none() {
        let text = match app.link {
            Link::Connecting => "waiting for the first answer",
            _ => "nothing is known yet",
        };
        write(frame, Line::raw(text), rest, 1);
        return;
    }
    match app.view {
        AppView::Help => help::draw(frame, app.owner, rest),
        AppView::Issue(_) => issue::draw(frame, app, rest, look),
        AppView::Lists if rest.width >= WIDE_COLUMNS => {
            let rows = Rows::new(app);
            let mut side = rest;
            side.x += rest.width - SIDE_COLUMNS;
            side.width = SIDE_COLUMNS;
            rest.width -= SIDE_COLUMNS + 2;
            beside(frame, app, log, side, look);
            all_lists(frame, app, &rows, rest, look);
        }
        AppView::Lists => {
            let rows = Rows::new(app);
            // At least as much is left for the lists.
            let mut summary = summary::lines(app, look);
            summary.truncate(usize::from(rest.height / 2));
            let area = take_top(&mut rest, u16::try_from(summary.len()).unwrap_or(u16::MAX));
            summary.into_iter().zip(0..).for_each(|(line, y)| write(frame, line, area, y));
            let lines = log_lines(&rows, log.len(), rest.height);
            let bottom = take_bottom(&mut rest, lines);
            log_pane(frame, log, bottom);
            all_lists(frame, app, &rows, rest, look);
        }
    }
}

/// How many lines the log gets: what the lists leave, and a quarter where there is much space.
fn log_lines(rows: &Rows, log: usize, height: u16) -> u16 {
    let spare = height.saturating_sub(rows.all_lines());
    let lines =
        if height >= MIN_ROWS_FOR_ALL_LISTS + MIN_LOG_ROWS { spare.max(height / 4) } else { spare };
    let log = u16::try_from(log.saturating_add(1)).unwrap_or(u16::MAX);
    if lines < MIN_LOG_ROWS || log < 2 { 0 } else { lines.min(log) }
}

/// Everything but the lists, at the right.
fn beside(frame: &mut Frame<'_>, app: &App, log: &[String], mut area: Rect, look: Palette) {
    let summary = summary::lines(app, look);
    let lines = u16::try_from(summary.len() + 1).unwrap_or(u16::MAX);
    let top = take_top(&mut area, lines);
    rule(frame, "Service", false, top);
    summary.into_iter().zip(1..).for_each(|(line, y)| write(frame, line, top, y));
    if !log.is_empty() {
        take_top(&mut area, 1);
        log_pane(frame, log, area);
    }
}

/// All lists where there is space for them, else the one that is looked at.
fn all_lists(frame: &mut Frame<'_>, app: &mut App, rows: &Rows, mut area: Rect, look: Palette) {
    let focus = app.list;
    if area.height < MIN_ROWS_FOR_ALL_LISTS.min(rows.all_lines()) {
        let tabs = take_top(&mut area, 1);
        write(frame, tab_line(app), tabs, 0);
        lists::draw(frame, app, rows, focus, area, look);
        app.page = usize::from(area.height.saturating_sub(2)).max(1);
        return;
    }
    let heights = share(IssueList::ALL.map(|list| rows.lines(list)), focus, area.height);
    for (list, height) in IssueList::ALL.into_iter().zip(heights) {
        let part = take_top(&mut area, height);
        lists::draw(frame, app, rows, list, part, look);
        if list == focus {
            app.page = usize::from(height.saturating_sub(2)).max(1);
        }
    }
}

/// What each list gets: a few lines each, then the one that is looked at, then all in order.
fn share(wanted: [u16; 4], focus: IssueList, height: u16) -> [u16; 4] {
    let mut given = wanted.map(|wanted| wanted.min(4));
    let mut left = height.saturating_sub(given.iter().sum());
    let least_focus = wanted[focus.index()].min(height / 2).saturating_sub(given[focus.index()]);
    let order = [(focus.index(), least_focus)];
    let others = (0..4).map(|at| (at, u16::MAX));
    for (at, most) in order.into_iter().chain(others) {
        let more = wanted[at].saturating_sub(given[at]).min(left).min(most);
        given[at] += more;
        left -= more;
    }
    given
}

fn tab_line(app: &App) -> Line<'static> {
    let Some(status) = app.status.as_deref() else { return Line::default() };
    let tabs = IssueList::ALL.into_iter().flat_map(|list| {
        let text = format!("{} {}", list.name(), list.count(status));
        let (text, style) = if list == app.list {
            (format!("[{text}]"), Palette::chosen())
        } else {
            (format!(" {text} "), Palette::dim())
        };
        [Span::styled(text, style), Span::raw(" ")]
    });
    Line::from_iter(tabs)
}

fn title(frame: &mut Frame<'_>, app: &App, area: Rect, look: Palette) {
    let (word, style) = match &app.link {
        Link::Connecting => ("connecting", Palette::dim()),
        Link::Live => ("live", look.good()),
        Link::Lost(_) => ("NO CONNECTION", look.bad()),
        Link::Ended => ("ENDED", look.bad()),
    };
    let mut spans = vec![Span::styled("Symphony ", Palette::strong()), Span::styled(word, style)];
    let is_paused = app.status.as_ref().is_some_and(|status| status.summary.paused);
    if is_paused {
        spans.push(Span::styled(" PAUSED", look.bad()));
    }
    let service = app.status.as_ref().map(|status| status.summary.service.names());
    // The file comes last: its path is long, and may be cut.
    let mut names = service.unwrap_or_default();
    names.extend(app.address.as_deref());
    if let [_, _, _] = names[..] {
        names.swap(1, 2);
    }
    if !app.filter.is_empty() && app.asking != Asking::Filter {
        spans.push(Span::raw(format!("  only: {}", app.filter)));
    }
    let clock = format!("  {} UTC", time_of_day(app.clock()));
    let used: usize = spans.iter().map(Span::width).sum();
    let space = usize::from(area.width).saturating_sub(used + width(&clock));
    if space > 0 && app.status.is_some() {
        spans.push(Span::raw(fit(&format!("  {}", names.join("  ")), space)));
        spans.push(Span::styled(clock, Palette::dim()));
    }
    write(frame, Line::from(spans), area, 0);
}

fn footer(frame: &mut Frame<'_>, app: &App, area: Rect, look: Palette) {
    let line = match (&app.asking, app.message()) {
        (Asking::Filter, _) => Line::from(vec![
            Span::styled(format!("/{}", app.filter), Palette::strong()),
            Span::styled("▏", Palette::strong()),
            Span::styled("  Enter keeps it, Esc shows all", Palette::dim()),
        ]),
        (Asking::Really(command), _) => {
            Line::styled(format!("{command}? y: yes, any other key: no"), look.attention())
        }
        (Asking::Nothing, Some(message)) => Line::styled(message.to_owned(), Palette::strong()),
        (Asking::Nothing, None) => Line::styled(keys(app), Palette::dim()),
    };
    write(frame, line, area, 0);
}

/// The keys of every list: with those that follow they fit into 80 cells.
const LIST_KEYS: &str = "Enter open  Tab list  / find";

fn keys(app: &App) -> String {
    let paused = app.status.as_ref().is_some_and(|status| status.summary.paused);
    let pause = if paused { "p resume" } else { "p pause" };
    match (&app.view, app.owner) {
        (AppView::Help, _) => "any key comes back".to_owned(),
        (AppView::Issue(_), _) => {
            format!("Esc back   j/k scroll   s stop   t retry   {pause}   ? keys   q leave")
        }
        (AppView::Lists, Owner::Visitor) => {
            format!("{LIST_KEYS}  {pause}  r poll  s stop  t retry  ? keys  q leave")
        }
        (AppView::Lists, Owner::Service) => {
            format!("{LIST_KEYS}  {pause}  r poll  s stop  t retry  ? keys  q logs")
        }
    }
}

fn log_pane(frame: &mut Frame<'_>, log: &[String], area: Rect) {
    rule(frame, "Log", false, area);
    let space = usize::from(area.height.saturating_sub(1));
    let first = log.len().saturating_sub(space);
    for (line, y) in log.iter().skip(first).zip(1..) {
        write(frame, Line::raw(line.clone()), area, y);
    }
}

/// A heading with a line behind it; the one that keys are about has a mark.
fn rule(frame: &mut Frame<'_>, text: &str, is_focus: bool, area: Rect) {
    let cells = usize::from(area.width);
    let mark = if is_focus { "▶ " } else { "─ " };
    let text = cut(&format!("{mark}{text} "), cells);
    let line = "─".repeat(cells.saturating_sub(width(&text)));
    let style = if is_focus { Palette::strong() } else { Default::default() };
    let spans = vec![Span::styled(text, style), Span::styled(line, Palette::dim())];
    write(frame, Line::from(spans), area, 0);
}

/// Writes a line into an area; what does not fit is cut, with a mark. Whatever it holds, it steers
/// nothing: a service elsewhere need not be ours.
fn write(frame: &mut Frame<'_>, mut line: Line<'_>, area: Rect, y: u16) {
    if y >= area.height || area.width == 0 {
        return;
    }
    for span in &mut line.spans {
        if !span.content.chars().all(is_plain) {
            span.content = plain(&span.content, usize::MAX).into();
        }
    }
    let cells = usize::from(area.width);
    let row = Rect { y: area.y + y, height: 1, ..area };
    if line.width() <= cells {
        frame.render_widget(line, row);
        return;
    }
    let mut left = cells;
    let style = line.style;
    let spans = line.spans.into_iter().map_while(|span| {
        if left == 0 {
            return None;
        }
        let space = left;
        left = left.saturating_sub(span.width());
        let text = if span.width() <= space && (left > 0 || span.width() == space) {
            span.content.into_owned()
        } else {
            fit(&span.content, space)
        };
        Some(Span::styled(text, span.style))
    });
    let cut = Line::from_iter(spans).style(style);
    frame.render_widget(cut, row);
}

fn take_top(area: &mut Rect, lines: u16) -> Rect {
    let lines = lines.min(area.height);
    let top = Rect { height: lines, ..*area };
    area.y += lines;
    area.height -= lines;
    top
}

fn take_bottom(area: &mut Rect, lines: u16) -> Rect {
    let lines = lines.min(area.height);
    area.height -= lines;
    Rect { y: area.y + area.height, height: lines, ..*area }
}
