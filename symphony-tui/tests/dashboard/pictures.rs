//! Pictures at three sizes, compared with files in `golden/`. After a change that is meant, write
//! them anew with `UPDATE_PICTURES=1`, and look at each.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::Color;
use symphony_core::is_plain;
use symphony_tui::{App, Key, Link, Palette, draw};

use crate::fixtures::{self, HOSTILE, app};

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 60)];

pub(crate) fn picture(app: &mut App, log: &[String], size: (u16, u16), look: Palette) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
    terminal.draw(|frame| draw(frame, app, log, look)).unwrap();
    terminal.backend().buffer().clone()
}

/// The picture as text, as a person would copy it.
pub(crate) fn text(buffer: &Buffer) -> String {
    let mut text = String::new();
    for y in 0..buffer.area.height {
        let mut line = String::new();
        let mut covered = 0;
        for x in 0..buffer.area.width {
            let symbol = buffer[(x, y)].symbol();
            // A wide character covers the cell behind it.
            if covered == 0 {
                line.push_str(symbol);
                covered = ratatui::text::Span::raw(symbol).width().max(1);
            }
            covered -= 1;
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn compare(name: &str, make: impl Fn() -> App) {
    for size in SIZES {
        let shown = text(&picture(&mut make(), &fixtures::log(), size, Palette { colours: true }));
        let file = format!("{name}-{}x{}.txt", size.0, size.1);
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/dashboard/golden")
            .join(&file);
        if std::env::var_os("UPDATE_PICTURES").is_some() {
            std::fs::write(&path, &shown).unwrap();
        }
        let wanted = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(shown, wanted, "{file} is other than it was; see pictures.rs for what to do");
    }
}

fn press(app: &mut App, keys: &[Key]) {
    for key in keys {
        app.key(*key);
    }
}

fn type_in(app: &mut App, text: &str) {
    text.chars().for_each(|c| drop(app.key(Key::Char(c))));
}

#[test]
fn rule_13_4_a_busy_service() {
    compare("busy", || app("busy"));
}

#[test]
fn rule_13_4_a_service_with_nothing_to_do() {
    compare("empty", || app("empty"));
}

#[test]
fn rule_13_4_problems_stand_on_top() {
    compare("problems", || app("problems"));
}

#[test]
fn rule_2_3_warnings_of_the_workflow_file_stand_on_top() {
    compare("warnings", || app("warnings"));
    let buffer = picture(&mut app("warnings"), &[], (80, 24), Palette { colours: true });
    assert_ne!(buffer[(2, 1)].fg, Color::Red, "it is not an error");
}

#[test]
fn rule_13_4_an_issue_that_nothing_has_happened_to_yet() {
    compare("untouched", || {
        let mut app = app("busy");
        press(&mut app, &[Key::Tab, Key::Tab, Key::Tab, Key::Enter]);
        app.issue("MT-11", Ok(fixtures::untouched()));
        app
    });
}

#[test]
fn rule_13_4_a_blocked_issue_shows_its_question() {
    compare("questions", || {
        let mut app = app("questions");
        press(&mut app, &[Key::Tab, Key::Tab]);
        app
    });
}

#[test]
fn rule_13_4_one_issue_with_its_timeline() {
    compare("issue", || {
        let mut app = app("busy");
        press(&mut app, &[Key::Enter]);
        app.issue("MT-1", Ok(fixtures::issue()));
        app
    });
}

#[test]
fn rule_13_4_a_filter_shows_what_contains_it() {
    compare("filter", || {
        let mut app = app("busy");
        type_in(&mut app, "/DOOR");
        app
    });
}

#[test]
fn rule_13_4_the_keys() {
    compare("help", || {
        let mut app = app("busy");
        press(&mut app, &[Key::Char('?')]);
        app
    });
}

#[test]
fn rule_13_4_a_service_that_cannot_be_reached() {
    compare("lost", || {
        let mut app = app("busy");
        let why = "http://127.0.0.1:4000 does not answer: connection refused".to_owned();
        app.update(symphony_tui::SourceView {
            link: Link::Lost(why),
            ..fixtures::seen(fixtures::status("busy"))
        });
        app
    });
}

#[test]
fn rule_13_1_foreign_text_stays_text_and_breaks_no_line() {
    compare("hostile", || app("hostile"));
    // The second comes from something that only says it is a service.
    for (name, size) in
        ["hostile", "rogue"].into_iter().flat_map(|name| SIZES.map(|size| (name, size)))
    {
        let buffer = picture(&mut app(name), &[], size, Palette { colours: true });
        for cell in &buffer.content {
            let symbol = cell.symbol();
            assert!(symbol.chars().all(is_plain), "{symbol:?} reaches the terminal");
        }
        let shown = text(&buffer);
        let is_told = name == "rogue" || shown.contains("\\u{1b}[2J");
        assert!(is_told, "it is shown as what it is:\n{shown}");
        for line in shown.lines() {
            let width = ratatui::text::Span::raw(line).width();
            assert!(width <= usize::from(size.0), "{width} cells: {line}");
        }
    }
    assert!(!HOSTILE.chars().all(is_plain), "the fixture is harmless");
}

#[test]
fn rule_13_4_without_colours_nothing_is_lost_and_nothing_is_coloured() {
    for name in ["busy", "problems", "questions"] {
        let draw =
            |colours| picture(&mut app(name), &fixtures::log(), (120, 40), Palette { colours });
        let (with, without) = (draw(true), draw(false));
        assert_eq!(text(&with), text(&without));
        let is_plain =
            |cell: &ratatui::buffer::Cell| cell.fg == Color::Reset && cell.bg == Color::Reset;
        assert!(without.content.iter().all(is_plain));
        assert!(!with.content.iter().all(is_plain), "the other has some");
        // A colour that a theme of light or dark background may swallow is not used as background.
        assert!(with.content.iter().all(|cell| cell.bg == Color::Reset));
    }
}

#[test]
fn the_document_shows_what_is_drawn() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = std::fs::read_to_string(root.join("../docs/guide/dashboards.md")).unwrap();
    let picture = root.join("tests/dashboard/golden/busy-120x40.txt");
    let picture = std::fs::read_to_string(picture).unwrap();
    assert!(
        document.contains(&picture),
        "copy golden/busy-120x40.txt into docs/guide/dashboards.md"
    );
}
