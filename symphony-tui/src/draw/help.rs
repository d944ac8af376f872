//! The keys.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::look::Palette;
use super::{rule, write};
use crate::app::Owner;

const HELP_ROWS: [(&str, &str); 14] = [
    ("Up Down j k", "the row before, the next one"),
    ("PgUp PgDn", "a page"),
    ("Home End g G", "the first, the last"),
    ("Tab Left Right", "the next list, the one before"),
    ("Enter", "everything about the chosen issue; Esc comes back"),
    ("/", "find by identifier, title or state; Esc shows all again"),
    ("p", "pause: start nothing; again: resume"),
    ("r", "poll the tracker now"),
    ("s", "stop the chosen issue's run; it stays blocked until t"),
    ("t", "try the chosen issue now, if it waits or is blocked"),
    ("Ctrl-L", "draw everything anew"),
    ("?", "this"),
    ("q", ""),
    ("Ctrl-C", ""),
];

pub(super) fn draw(frame: &mut Frame<'_>, owner: Owner, area: Rect) {
    rule(frame, "Keys", true, area);
    for ((keys, what), y) in HELP_ROWS.into_iter().zip(2..) {
        let what = match (keys, owner) {
            ("q", Owner::Service) => "leave the dashboard; the service goes on, with plain logs",
            ("q" | "Ctrl-C", Owner::Visitor) => "leave; the service goes on",
            ("Ctrl-C", Owner::Service) => "end the service and its agents; a second time: at once",
            _ => what,
        };
        let keys = Span::styled(format!("  {keys:<16}"), Palette::strong());
        write(frame, Line::from(vec![keys, Span::raw(what)]), area, y);
    }
}
