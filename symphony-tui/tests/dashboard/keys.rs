//! What keys do.

use symphony_tui::{App, AppAction, Key, Link, Owner, SourceCommand, SourceRefusal};

use crate::fixtures::{app, issue, seen, status};
use crate::pictures::{picture, text};

fn shown(app: &mut App) -> String {
    text(&picture(app, &[], (120, 40), symphony_tui::Palette { colours: true }))
}

/// The row with the mark.
fn chosen(app: &mut App) -> String {
    let shown = shown(app);
    let mut marked = shown.lines().filter_map(|line| line.strip_prefix('▶'));
    let row = marked.find(|rest| !rest.starts_with(' ')).unwrap_or_default();
    row.split_whitespace().next().unwrap_or_default().to_owned()
}

fn keys(app: &mut App, keys: &str) -> Option<AppAction> {
    keys.chars().fold(None, |_, key| app.key(Key::Char(key)))
}

#[test]
fn rule_13_4_moving_stays_within_a_list() {
    let mut app = app("busy");
    assert_eq!(chosen(&mut app), "MT-1");
    keys(&mut app, "jj");
    assert_eq!(chosen(&mut app), "MT-3");
    keys(&mut app, "jjjjj");
    assert_eq!(chosen(&mut app), "MT-4");
    app.key(Key::Home);
    app.key(Key::Up);
    assert_eq!(chosen(&mut app), "MT-1");
    app.key(Key::End);
    assert_eq!(chosen(&mut app), "MT-4");
    app.key(Key::PageUp);
    assert_eq!(chosen(&mut app), "MT-1");
    for wanted in ["MT-5", "MT-8", "MT-11", "MT-1"] {
        app.key(Key::Tab);
        assert_eq!(chosen(&mut app), wanted);
    }
    app.key(Key::BackTab);
    assert_eq!(chosen(&mut app), "MT-11");
}

#[test]
fn rule_13_4_the_choice_follows_its_issue() {
    let mut app = app("busy");
    keys(&mut app, "jj");
    let mut later = status("busy");
    later.running.remove(0);
    app.update(seen(later.clone()));
    assert_eq!(chosen(&mut app), "MT-3", "it moved up, and is still the one");
    later.running.remove(1);
    app.update(seen(later.clone()));
    assert_eq!(chosen(&mut app), "MT-4", "it is gone: the one in its place");
    later.running.clear();
    app.update(seen(later));
    assert_eq!(keys(&mut app, "s"), None);
    assert_eq!(app.key(Key::Enter), None, "there is nothing to look at");
}

#[test]
fn rule_4_7_keys_pause_resume_poll_and_retry() {
    let mut app = app("busy");
    assert_eq!(keys(&mut app, "p"), Some(AppAction::Send(SourceCommand::Pause)));
    assert_eq!(keys(&mut app, "r"), Some(AppAction::Send(SourceCommand::PollNow)));
    let mut paused = status("busy");
    paused.summary.paused = true;
    app.update(seen(paused));
    assert_eq!(keys(&mut app, "p"), Some(AppAction::Send(SourceCommand::Resume)));
    assert_eq!(keys(&mut app, "t"), None, "what runs is not tried again");
    assert!(shown(&mut app).contains("MT-1 neither waits nor is blocked"));
    app.key(Key::Tab);
    assert_eq!(keys(&mut app, "t"), Some(AppAction::Send(SourceCommand::Retry("MT-5".to_owned()))));
    app.on_outcome(&SourceCommand::PollNow, &Err(SourceRefusal::new("nobody\u{1b}[2J answers")));
    assert!(shown(&mut app).contains("poll now: nobody\\u{1b}[2J answers"));
}

#[test]
fn rule_4_7_a_stop_is_asked_about() {
    let mut app = app("busy");
    assert_eq!(keys(&mut app, "js"), None);
    assert!(shown(&mut app).contains("stop MT-2? y: yes"));
    assert_eq!(keys(&mut app, "n"), None);
    assert!(!shown(&mut app).contains("stop MT-2?"));
    assert_eq!(keys(&mut app, "y"), None, "the question is over");
    assert_eq!(keys(&mut app, "sy"), Some(AppAction::Send(SourceCommand::Stop("MT-2".to_owned()))));
    app.key(Key::BackTab);
    assert_eq!(keys(&mut app, "s"), None);
    assert!(shown(&mut app).contains("there is nothing to stop"), "a candidate does not run");
    assert_eq!(keys(&mut app, "y"), None);
}

#[test]
fn rule_4_7_a_stop_is_for_the_issue_that_was_asked_about() {
    let mut app = app("busy");
    keys(&mut app, "s");
    let mut later = status("busy");
    later.running.remove(0);
    app.update(seen(later));
    assert_eq!(keys(&mut app, "y"), Some(AppAction::Send(SourceCommand::Stop("MT-1".to_owned()))));
}

#[test]
fn rule_13_4_details_and_back() {
    let mut app = app("busy");
    assert_eq!(app.key(Key::Enter), Some(AppAction::Fetch("MT-1".to_owned())));
    assert_eq!(app.open_issue(), Some("MT-1"));
    assert!(shown(&mut app).contains("being asked for"));
    app.issue("MT-2", Err(SourceRefusal::new("an answer to an older question")));
    assert!(shown(&mut app).contains("being asked for"));
    app.issue("MT-1", Ok(issue()));
    assert!(shown(&mut app).contains("turn 3 of at most 20"));
    assert_eq!(keys(&mut app, "sy"), Some(AppAction::Send(SourceCommand::Stop("MT-1".to_owned()))));
    app.issue("MT-1", Err(SourceRefusal::new("no issue MT-1 is known")));
    assert!(shown(&mut app).contains("no issue MT-1 is known"));
    app.key(Key::Escape);
    assert_eq!(app.open_issue(), None);
}

#[test]
fn rule_13_4_a_long_issue_scrolls_and_not_beyond_its_end() {
    let mut app = app("busy");
    app.key(Key::Enter);
    let mut long = issue();
    let entry = long.recent_events[0].clone();
    long.recent_events = (0..200)
        .map(|n| {
            let mut entry = entry.clone();
            entry.message = format!("entry {n}.");
            entry
        })
        .collect();
    app.issue("MT-1", Ok(long));
    assert!(shown(&mut app).contains("entry 199."));
    app.key(Key::End);
    assert!(shown(&mut app).contains("entry 0."));
    app.key(Key::Up);
    assert!(!shown(&mut app).contains("entry 0."), "one line up from the end");
    app.key(Key::Home);
    assert!(shown(&mut app).contains("entry 199."));
}

#[test]
fn rule_13_4_a_filter_is_typed_kept_and_left() {
    let mut app = app("busy");
    assert_eq!(keys(&mut app, "/paintq"), None, "q is a letter here");
    assert!(!shown(&mut app).contains("MT-2"));
    app.key(Key::Backspace);
    assert_eq!(chosen(&mut app), "MT-2");
    app.key(Key::Enter);
    let kept = shown(&mut app);
    assert!(kept.contains("only: paint") && kept.contains("Running 4, 1 shown"), "{kept}");
    assert_eq!(app.key(Key::Enter), Some(AppAction::Fetch("MT-2".to_owned())));
    app.key(Key::Escape);
    app.key(Key::Escape);
    assert!(!shown(&mut app).contains("only:"));
    keys(&mut app, "/x");
    app.key(Key::Escape);
    assert_eq!(chosen(&mut app), "MT-1");
}

#[test]
fn rule_14_2_leaving_and_ctrl_c_are_two_things_whatever_is_asked() {
    let mut app = app("busy");
    for before in ["", "/", "s", "?"] {
        keys(&mut app, before);
        assert_eq!(app.key(Key::Interrupt), Some(AppAction::Interrupt), "after {before:?}");
        app.key(Key::Escape);
        app.key(Key::Escape);
    }
    assert_eq!(app.key(Key::Redraw), Some(AppAction::Redraw));
    assert_eq!(keys(&mut app, "q"), Some(AppAction::Leave));
}

#[test]
fn rule_13_4_before_the_first_answer_keys_do_no_harm() {
    let mut app = App::new(Owner::Visitor);
    for key in "jkgGst/x?".chars() {
        assert_eq!(app.key(Key::Char(key)), None);
        app.key(Key::Escape);
    }
    assert!(shown(&mut app).contains("waiting for the first answer"));
    let clock = seen(status("empty")).clock;
    app.update(symphony_tui::SourceView {
        status: None,
        link: Link::Lost("refused".to_owned()),
        clock,
    });
    assert!(shown(&mut app).contains("no connection: refused"));
    assert_eq!(keys(&mut app, "q"), Some(AppAction::Leave));
}
