//! The loop: keys and news in, pictures and actions out.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use symphony_api::IssueStatus;
use symphony_core::time::Wall;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use crate::app::{App, AppAction};
use crate::dashboard::{DashboardEnd, Options};
use crate::keys::Key;
use crate::source::{SourceCommand, SourceRefusal, StatusSource};
use crate::terminal::TerminalScreen;

/// Ages and countdowns go on.
const TICK: Duration = Duration::from_secs(1);

/// How many lines of the log are asked for: more than any terminal shows.
const LOG_LINES: usize = 200;

/// What was asked for came back.
enum SourceAnswer {
    Told(SourceCommand, Result<(), SourceRefusal>),
    Issue(String, Box<Result<IssueStatus, SourceRefusal>>),
}

/// Shows a source on a screen until it is left.
pub(crate) async fn run(
    source: Arc<dyn StatusSource>,
    screen: &mut dyn TerminalScreen,
    mut keys: Receiver<Key>,
    options: &Options,
    mut stop: oneshot::Receiver<()>,
) -> DashboardEnd {
    let (answers, mut answered) = unbounded_channel();
    let mut requester =
        SourceRequester { source: Arc::clone(&source), answers, is_fetching: false };
    let mut resized = signal(SignalKind::window_change()).ok();
    let mut app = App::new(options.owner).at(options.address.clone());
    let mut seen = refresh(&mut app, source.as_ref());
    // There is news that was not read; something is other than it was drawn.
    let (mut stale, mut dirty) = (false, true);
    let mut next_read = Instant::now() + options.refresh;
    let mut next_draw = Instant::now();
    loop {
        let now = Instant::now();
        if stale && now >= next_read {
            stale = false;
            next_read = now + options.refresh;
            seen = refresh(&mut app, source.as_ref());
            requester.refetch(&app);
            dirty = true;
        }
        if dirty && now >= next_draw {
            dirty = false;
            next_draw = now + options.render_interval;
            app.tick(seen.0 + seen.1.elapsed());
            let log = options.lines.last(LOG_LINES);
            if screen.draw(&mut app, &log, options.look).is_err() {
                return DashboardEnd::TerminalGone;
            }
        }
        tokio::select! {
            _ = &mut stop => return DashboardEnd::Stopped,
            key = keys.recv() => {
                let Some(key) = key else { return DashboardEnd::TerminalGone };
                dirty = true;
                if let Some(action) = app.key(key)
                    && let Some(left) = requester.perform(action, screen, options)
                {
                    return left;
                }
            }
            answer = next(&mut answered) => {
                dirty = true;
                match answer {
                    SourceAnswer::Told(command, outcome) => {
                        app.on_outcome(&command, &outcome);
                        next_read = Instant::now(); // show its effect at once
                    }
                    SourceAnswer::Issue(identifier, status) => {
                        requester.is_fetching = false;
                        app.issue(&identifier, *status);
                    }
                }
            }
            () = source.changed(), if !stale => stale = true,
            () = window_change(&mut resized) => dirty = true,
            () = sleep_until(next_read), if stale => {}
            () = sleep_until(next_draw), if dirty => {}
            () = sleep_until(now + TICK) => {
                requester.refetch(&app);
                dirty = true;
            }
        }
    }
}

/// Takes in what is known, and remembers what time it was, there and here.
fn refresh(app: &mut App, source: &dyn StatusSource) -> (Wall, Instant) {
    let seen = source.latest();
    let clock = seen.clock;
    app.update(seen);
    (clock, Instant::now())
}

/// Asks the source without waiting for it.
struct SourceRequester {
    source: Arc<dyn StatusSource>,
    answers: UnboundedSender<SourceAnswer>,
    /// Whether an issue is being asked for.
    is_fetching: bool,
}

impl SourceRequester {
    /// Does what a key asked for; answers when that is to leave.
    fn perform(
        &mut self,
        action: AppAction,
        screen: &mut dyn TerminalScreen,
        options: &Options,
    ) -> Option<DashboardEnd> {
        match action {
            AppAction::Leave => return Some(DashboardEnd::Quit),
            AppAction::Interrupt => match &options.interrupts {
                Some(interrupts) => drop(interrupts.send(())),
                None => return Some(DashboardEnd::Quit),
            },
            AppAction::Redraw => {
                return screen.forget().is_err().then_some(DashboardEnd::TerminalGone);
            }
            AppAction::Send(command) => self.send(command),
            AppAction::Fetch(identifier) => self.fetch(identifier),
        }
        None
    }

    fn send(&self, command: SourceCommand) {
        let (source, answers) = (Arc::clone(&self.source), self.answers.clone());
        tokio::spawn(async move {
            let outcome = source.command(&command).await;
            let _ = answers.send(SourceAnswer::Told(command, outcome));
        });
    }

    fn fetch(&mut self, identifier: String) {
        self.is_fetching = true;
        let (source, answers) = (Arc::clone(&self.source), self.answers.clone());
        tokio::spawn(async move {
            let status = Box::new(source.issue(&identifier).await);
            let _ = answers.send(SourceAnswer::Issue(identifier, status));
        });
    }

    /// The issue that is looked at may have changed too.
    fn refetch(&mut self, app: &App) {
        if let Some(identifier) = app.open_issue().filter(|_| !self.is_fetching) {
            self.fetch(identifier.to_owned());
        }
    }
}

/// The next answer; a sender is always alive.
async fn next(answers: &mut UnboundedReceiver<SourceAnswer>) -> SourceAnswer {
    match answers.recv().await {
        Some(answer) => answer,
        None => std::future::pending().await,
    }
}

async fn window_change(signal: &mut Option<Signal>) {
    let heard = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if heard.is_none() {
        std::future::pending::<()>().await;
    }
}
