//! What a person looks at, and what each key does: no terminal, no clock, no waiting.

mod chart;
mod lists;

use std::sync::Arc;

use symphony_api::{IssueStage, IssueStatus, Status};
use symphony_core::plain;
use symphony_core::time::Wall;

use crate::keys::Key;
use crate::source::{Link, SourceCommand, SourceRefusal, SourceView};

pub(crate) use chart::Chart;
use lists::Cursor;
pub use lists::IssueList;

/// How long a filter may be.
const MAX_FILTER_BYTES: usize = 100;

/// How long it is told what a command came to.
const MESSAGE_MS: i64 = 8_000;

/// The dashboard, without its terminal.
#[derive(Debug)]
pub struct App {
    pub(crate) status: Option<Arc<Status>>,
    pub(crate) link: Link,
    pub(crate) chart: Chart,
    pub(crate) list: IssueList,
    pub(crate) filter: String,
    pub(crate) view: AppView,
    pub(crate) asking: Asking,
    pub(crate) owner: Owner,
    /// Where the service is reached.
    pub(crate) address: Option<String>,
    cursors: [Cursor; 4],
    told: Option<(String, Wall)>,
    clock: Wall,
    /// How many rows a page has; known once it was drawn.
    pub(crate) page: usize,
}

/// What fills the screen.
#[derive(Debug)]
pub(crate) enum AppView {
    /// The lists.
    Lists,
    /// One issue.
    Issue(Box<IssueView>),
    /// The keys.
    Help,
}

/// One issue, as it was last heard of.
#[derive(Debug)]
pub(crate) struct IssueView {
    pub(crate) identifier: String,
    pub(crate) status: Option<Result<IssueStatus, SourceRefusal>>,
    pub(crate) scroll: usize,
}

/// What the next keys answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asking {
    Nothing,
    /// The filter is typed.
    Filter,
    /// Whether this is really wanted.
    Really(SourceCommand),
}

/// What leaving the dashboard means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The service runs in this process and goes on.
    Service,
    /// The service is elsewhere, and this process only looks.
    Visitor,
}

/// What a key asks of the outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppAction {
    /// Leave the dashboard.
    Leave,
    /// What Ctrl-C does.
    Interrupt,
    /// Draw everything anew.
    Redraw,
    /// Tell the service.
    Send(SourceCommand),
    /// Ask for everything that is known of an issue.
    Fetch(String),
}

impl App {
    /// Before anything is known.
    #[must_use]
    pub fn new(owner: Owner) -> Self {
        Self {
            status: None,
            link: Link::Connecting,
            chart: Chart::default(),
            list: IssueList::default(),
            filter: String::new(),
            view: AppView::Lists,
            asking: Asking::Nothing,
            owner,
            address: None,
            cursors: Default::default(),
            told: None,
            clock: Wall::default(),
            page: 10,
        }
    }

    /// Shows where the service is reached, if it is.
    #[must_use]
    pub fn at(mut self, address: Option<String>) -> Self {
        self.address = address;
        self
    }

    /// Takes in what is known now.
    pub fn update(&mut self, seen: SourceView) {
        self.clock = seen.clock;
        self.link = seen.link;
        if let Some(status) = seen.status {
            self.chart.add(seen.clock, status.summary.codex_totals.tokens.total_tokens);
            self.status = Some(status);
        }
    }

    /// It is this time now, whether there is news or not.
    pub fn tick(&mut self, clock: Wall) {
        self.clock = clock;
        let is_old = |at: &Wall| {
            let age = self.clock.as_unix_millis().saturating_sub(at.as_unix_millis());
            !(0..MESSAGE_MS).contains(&age)
        };
        self.told.take_if(|(_, at)| is_old(at));
    }

    /// Takes in what a command came to.
    pub fn on_outcome(&mut self, command: &SourceCommand, outcome: &Result<(), SourceRefusal>) {
        let text = match outcome {
            Ok(()) => format!("{command}: asked for"),
            Err(why) => format!("{command}: {why}"),
        };
        self.told = Some((text, self.clock));
    }

    /// Takes in what is known of an issue, if it is still looked at.
    pub fn issue(&mut self, identifier: &str, status: Result<IssueStatus, SourceRefusal>) {
        if let AppView::Issue(view) = &mut self.view
            && view.identifier == identifier
        {
            view.status = Some(status);
        }
    }

    /// The issue that is looked at.
    #[must_use]
    pub fn open_issue(&self) -> Option<&str> {
        match &self.view {
            AppView::Issue(view) => Some(&view.identifier),
            AppView::Lists | AppView::Help => None,
        }
    }

    pub(crate) fn message(&self) -> Option<&str> {
        self.told.as_ref().map(|(text, _)| text.as_str())
    }

    pub(crate) const fn clock(&self) -> Wall {
        self.clock
    }

    /// The rows of a list that pass the filter, and the place of the chosen one among them.
    pub(crate) fn rows(&self, list: IssueList) -> (Vec<usize>, usize) {
        let Some(status) = self.status.as_deref() else { return (Vec::new(), 0) };
        let rows = list.rows(status, &self.filter);
        let place = self.cursors[list.index()].place(list, status, &rows);
        (rows, place)
    }

    /// What a key does, and what it asks of the outside.
    pub fn key(&mut self, key: Key) -> Option<AppAction> {
        match key {
            Key::Interrupt => return Some(AppAction::Interrupt),
            Key::Redraw => return Some(AppAction::Redraw),
            _ => {}
        }
        match std::mem::replace(&mut self.asking, Asking::Nothing) {
            Asking::Nothing => self.plain_key(key),
            Asking::Filter => {
                self.filter_key(key);
                None
            }
            Asking::Really(command) => {
                matches!(key, Key::Char('y' | 'Y')).then_some(AppAction::Send(command))
            }
        }
    }

    fn plain_key(&mut self, key: Key) -> Option<AppAction> {
        match key {
            Key::Char('q') => return Some(AppAction::Leave),
            Key::Char('?') => {
                self.view = match self.view {
                    AppView::Help => AppView::Lists,
                    AppView::Lists | AppView::Issue(_) => AppView::Help,
                };
            }
            Key::Char('p') => {
                let paused = self.status.as_ref().is_some_and(|status| status.summary.paused);
                return Some(AppAction::Send(if paused {
                    SourceCommand::Resume
                } else {
                    SourceCommand::Pause
                }));
            }
            Key::Char('r') => return Some(AppAction::Send(SourceCommand::PollNow)),
            Key::Char('s') => return self.stop(),
            Key::Char('t') => return self.retry(),
            _ => match &mut self.view {
                AppView::Lists => return self.list_key(key),
                AppView::Issue(_) => self.issue_key(key),
                AppView::Help => self.view = AppView::Lists,
            },
        }
        None
    }

    fn list_key(&mut self, key: Key) -> Option<AppAction> {
        match key {
            Key::Tab | Key::Right => self.list = self.list.next(),
            Key::BackTab | Key::Left => self.list = self.list.previous(),
            Key::Up | Key::Char('k') => self.move_choice(|at, _| at.saturating_sub(1)),
            Key::Down | Key::Char('j') => self.move_choice(|at, _| at + 1),
            Key::PageUp => self.move_choice(|at, page| at.saturating_sub(page)),
            Key::PageDown => self.move_choice(|at, page| at + page),
            Key::Home | Key::Char('g') => self.move_choice(|_, _| 0),
            Key::End | Key::Char('G') => self.move_choice(|_, _| usize::MAX),
            Key::Char('/') => self.asking = Asking::Filter,
            Key::Escape | Key::Clear => self.filter.clear(),
            Key::Enter => {
                let identifier = self.chosen()?;
                let view = IssueView { identifier: identifier.clone(), status: None, scroll: 0 };
                self.view = AppView::Issue(Box::new(view));
                return Some(AppAction::Fetch(identifier));
            }
            _ => {}
        }
        None
    }

    fn issue_key(&mut self, key: Key) {
        let page = self.page;
        let AppView::Issue(view) = &mut self.view else { return };
        let scroll = &mut view.scroll;
        match key {
            Key::Escape | Key::Backspace | Key::Left | Key::Enter => self.view = AppView::Lists,
            Key::Up | Key::Char('k') => *scroll = scroll.saturating_sub(1),
            Key::Down | Key::Char('j') => *scroll = scroll.saturating_add(1),
            Key::PageUp => *scroll = scroll.saturating_sub(page),
            Key::PageDown | Key::Char(' ') => *scroll = scroll.saturating_add(page),
            Key::Home | Key::Char('g') => *scroll = 0,
            Key::End | Key::Char('G') => *scroll = usize::MAX,
            _ => {}
        }
    }

    fn filter_key(&mut self, key: Key) {
        self.asking = Asking::Filter;
        match key {
            Key::Char(c) if self.filter.len() < MAX_FILTER_BYTES && symphony_core::is_plain(c) => {
                self.filter.push(c);
            }
            Key::Backspace => {
                self.filter.pop();
            }
            Key::Clear => self.filter.clear(),
            Key::Escape => {
                self.filter.clear();
                self.asking = Asking::Nothing;
            }
            Key::Enter => self.asking = Asking::Nothing,
            _ => {}
        }
    }

    /// Moves the choice in the list that is looked at: from its place, with the length of a page.
    fn move_choice(&mut self, to: impl Fn(usize, usize) -> usize) {
        let list = self.list;
        let (rows, at) = self.rows(list);
        let Some(status) = self.status.clone() else { return };
        let place = to(at, self.page.max(1));
        self.cursors[list.index()].move_to(place, list, &status, &rows);
    }

    /// The human key of the issue that keys are about.
    fn chosen(&self) -> Option<String> {
        if let AppView::Issue(view) = &self.view {
            return Some(view.identifier.clone());
        }
        let (rows, place) = self.rows(self.list);
        let (_, identifier) = self.list.names(self.status.as_deref()?, *rows.get(place)?)?;
        Some(identifier.to_owned())
    }

    /// Where the issue that keys are about stands.
    fn stage(&self) -> Option<IssueStage> {
        if let AppView::Issue(view) = &self.view {
            return view.status.as_ref()?.as_ref().ok().map(|issue| issue.status);
        }
        Some(match self.list {
            IssueList::Running => IssueStage::Running,
            IssueList::Waiting => IssueStage::Retrying,
            IssueList::Blocked => IssueStage::Blocked,
            IssueList::Unstarted => IssueStage::Candidate,
        })
    }

    fn stop(&mut self) -> Option<AppAction> {
        let identifier = self.chosen()?;
        match self.stage()? {
            IssueStage::Running | IssueStage::Retrying | IssueStage::Checking => {
                self.asking = Asking::Really(SourceCommand::Stop(identifier));
            }
            _ => self
                .show_message(&identifier, "neither runs nor waits, so there is nothing to stop"),
        }
        None
    }

    fn retry(&mut self) -> Option<AppAction> {
        let identifier = self.chosen()?;
        match self.stage()? {
            IssueStage::Retrying | IssueStage::Blocked => {
                return Some(AppAction::Send(SourceCommand::Retry(identifier)));
            }
            _ => {
                self.show_message(&identifier, "neither waits nor is blocked: nothing to try again")
            }
        }
        None
    }

    fn show_message(&mut self, identifier: &str, what: &str) {
        self.told = Some((format!("{} {what}", plain(identifier, 60)), self.clock));
    }
}
