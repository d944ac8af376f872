//! Any state, on a terminal of any size.

use proptest::prelude::*;
use symphony_api::Status;
use symphony_core::time::Wall;
use symphony_tui::{App, Key, Link, Owner, Palette, SourceView};

use crate::fixtures::{issue, status};
use crate::pictures::picture;

/// Text of any characters: what calls itself a service need not be one.
fn foreign() -> impl Strategy<Value = String> {
    any::<String>()
}

fn wall() -> impl Strategy<Value = Wall> {
    prop_oneof![any::<i64>(), 0..2_000_000_000_000_i64].prop_map(Wall::from_unix_millis)
}

prop_compose! {
    fn any_status()(
        name in prop::sample::select(vec!["empty", "busy", "problems", "questions"]),
        names in prop::collection::vec(any::<String>(), 0..40),
        text in foreign(),
        at in wall(),
        number in any::<u64>(),
        small in any::<u32>(),
        part in any::<f64>(),
    ) -> Status {
        let mut state = status(name);
        let busy = status("busy");
        for (at_row, name) in names.iter().enumerate() {
            let (id, identifier) = (format!("{at_row}"), name.clone());
            match at_row % 3 {
                0 => {
                    let mut row = busy.running[0].clone();
                    (row.issue.id, row.issue.identifier) = (id, identifier);
                    (row.issue.title, row.started_at, row.turn_count) = (text.clone(), at, small);
                    state.running.push(row);
                }
                1 => {
                    let mut row = busy.retrying[0].clone();
                    (row.issue.id, row.issue.identifier) = (id, identifier);
                    (row.error, row.due_at, row.attempt) = (Some(text.clone()), Some(at), small);
                    state.retrying.push(row);
                }
                _ => {
                    let mut row = busy.blocked[0].clone();
                    (row.issue.id, row.issue.identifier) = (id, identifier);
                    (row.question, row.since) = (Some(text.clone()), at);
                    state.blocked.push(row);
                }
            }
        }
        let summary = &mut state.summary;
        summary.codex_totals.tokens.total_tokens = number;
        summary.codex_totals.seconds_running = part;
        summary.slots.limit = small;
        summary.verdict.message = text;
        if let Some(limits) = &mut summary.rate_limits {
            limits.windows[0].used_percent = part;
            limits.windows[0].window_minutes = Some(number);
            limits.windows[0].resets_at = Some(at);
        }
        state
    }
}

fn key() -> impl Strategy<Value = Key> {
    use Key::*;
    let keys = vec![
        Enter, Escape, Tab, BackTab, Backspace, Up, Down, Left, Right, PageUp, PageDown, Home, End,
        Interrupt, Redraw, Clear,
    ];
    prop_oneof![
        prop::sample::select(keys),
        prop::sample::select("jkgGpqrst/?yn ".chars().collect::<Vec<_>>()).prop_map(Char),
        any::<char>().prop_map(Char),
    ]
}

fn size() -> impl Strategy<Value = (u16, u16)> {
    prop_oneof![(1..12_u16, 1..12_u16), (1..250_u16, 1..90_u16)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn rule_13_4_any_state_is_drawn_at_any_size_whatever_keys_came_before(
        states in prop::collection::vec((any_status(), wall()), 1..3),
        keys in prop::collection::vec(key(), 0..30),
        log in prop::collection::vec(foreign(), 0..20),
        (size, other_size) in (size(), size()),
        link in prop_oneof![
            Just(Link::Live), Just(Link::Connecting), Just(Link::Ended),
            foreign().prop_map(Link::Lost),
        ],
    ) {
        let mut app = App::new(Owner::Visitor);
        let look = Palette { colours: true };
        for (state, clock) in states {
            app.update(SourceView { status: Some(std::sync::Arc::new(state)), link: link.clone(), clock });
            picture(&mut app, &log, size, look);
            for key in &keys {
                app.key(*key);
                if let Some(name) = app.open_issue().map(str::to_owned) {
                    app.issue(&name, Ok(issue()));
                }
            }
            let buffer = picture(&mut app, &log, other_size, look);
            for cell in &buffer.content {
                prop_assert!(cell.symbol().chars().all(symphony_core::is_plain));
            }
        }
    }
}
