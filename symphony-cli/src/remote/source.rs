//! A service elsewhere, for the dashboard: its event stream, taken up again whenever it breaks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::fmt::rfc2822::DateTimeParser;
use symphony_api::IssueStatus;
use symphony_api::client::{ApiClient, ApiError, Applied, MergedState};
use symphony_core::time::Wall;
use symphony_tui::{Link, LogTail, SourceCommand, SourceRefusal, SourceView, StatusSource};
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use crate::local::wall_now;

/// How long it takes until it is looked for again: first, and at most.
const RECONNECT_DELAYS: (Duration, Duration) =
    (Duration::from_millis(500), Duration::from_secs(10));

/// Clocks that differ by less are the same: the service tells its time in whole seconds.
const SAME_CLOCK_MS: i64 = 2_000;

/// A service elsewhere.
#[derive(Debug)]
pub(crate) struct Remote {
    client: ApiClient,
    shared: Arc<Shared>,
    _feed: AbortOnDropHandle<()>,
}

#[derive(Debug)]
struct Shared {
    known: Mutex<Known>,
    changed: Notify,
    lines: LogTail,
}

#[derive(Debug)]
struct Known {
    state: MergedState,
    link: Link,
    /// By how much its clock is ahead of ours.
    ahead_ms: i64,
}

impl Remote {
    /// Begins to listen; what happens there goes into these lines.
    pub(crate) fn new(client: ApiClient, lines: LogTail) -> Self {
        let known = Known { state: MergedState::default(), link: Link::Connecting, ahead_ms: 0 };
        let shared = Arc::new(Shared { known: Mutex::new(known), changed: Notify::new(), lines });
        let feed = tokio::spawn(listen(client.clone(), Arc::clone(&shared)));
        Self { client, shared, _feed: AbortOnDropHandle::new(feed) }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lost(&self, why: String) {
        self.lock().link = Link::Lost(why);
        self.changed.notify_one();
    }
}

/// Listens for ever.
async fn listen(client: ApiClient, shared: Arc<Shared>) {
    let mut last_seen = None;
    let mut again = RECONNECT_DELAYS.0;
    loop {
        let before = last_seen.clone();
        let why = read_stream(&client, &shared, &mut last_seen).await;
        if last_seen != before {
            again = RECONNECT_DELAYS.0;
        }
        shared.lost(why.to_string());
        tokio::time::sleep(again).await;
        again = again.saturating_mul(2).min(RECONNECT_DELAYS.1);
    }
}

/// Takes in one stream of events until it breaks.
async fn read_stream(
    client: &ApiClient,
    shared: &Shared,
    last_seen: &mut Option<String>,
) -> ApiError {
    let mut stream = match client.events(last_seen.as_deref()).await {
        Ok(stream) => stream,
        Err(error) => return error,
    };
    if let Some(ahead) = stream.date().and_then(ahead) {
        shared.lock().ahead_ms = ahead;
    }
    loop {
        let events = match stream.next().await {
            Ok(events) => events,
            Err(error) => return error,
        };
        for event in events {
            match shared.lock().state.apply(&event) {
                Ok(Applied::Notice(notice)) => {
                    let now = wall_now().to_string();
                    let time = now.get(11..19).unwrap_or_default();
                    shared.lines.push(&format!("{time} {notice}"));
                }
                Ok(_) => {}
                Err(_) => {
                    *last_seen = None; // all of it, the next time
                    let address = client.address();
                    let why = format!("{address} tells something else than a state");
                    return ApiError::Unexpected(why);
                }
            }
            *last_seen = event.id.or(last_seen.take());
        }
        // Also a heartbeat shows that the service is there.
        let mut known = shared.lock();
        if known.state.status().is_some() {
            known.link = Link::Live;
        }
        drop(known);
        shared.changed.notify_one();
    }
}

/// By how much the clock there is ahead of ours, in milliseconds.
fn ahead(date: &str) -> Option<i64> {
    let there = DateTimeParser::new().parse_timestamp(date).ok()?.as_millisecond();
    let ahead = there.saturating_sub(wall_now().as_unix_millis());
    Some(if ahead.abs() < SAME_CLOCK_MS { 0 } else { ahead })
}

fn refused(error: &ApiError) -> SourceRefusal {
    SourceRefusal::new(&error.to_string())
}

#[async_trait]
impl StatusSource for Remote {
    fn latest(&self) -> SourceView {
        let known = self.shared.lock();
        let clock = wall_now().as_unix_millis().saturating_add(known.ahead_ms);
        SourceView {
            status: known.state.status().cloned(),
            link: known.link.clone(),
            clock: Wall::from_unix_millis(clock),
        }
    }

    async fn changed(&self) {
        self.shared.changed.notified().await;
    }

    async fn issue(&self, identifier: &str) -> Result<IssueStatus, SourceRefusal> {
        self.client.issue(identifier).await.map_err(|error| refused(&error))
    }

    async fn command(&self, command: &SourceCommand) -> Result<(), SourceRefusal> {
        let done = match command {
            SourceCommand::PollNow => self.client.post(&["refresh"]).await,
            SourceCommand::Pause => self.client.post(&["pause"]).await,
            SourceCommand::Resume => self.client.post(&["resume"]).await,
            SourceCommand::Stop(issue) => self.client.post(&[issue, "stop"]).await,
            SourceCommand::Retry(issue) => self.client.post(&[issue, "retry"]).await,
        };
        done.map_err(|error| refused(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_there_is_taken_from_its_answer() {
        assert_eq!(ahead("yesterday"), None);
        let far = ahead("Tue, 15 Nov 1994 08:12:31 GMT").unwrap();
        assert!(far < -900_000_000_000, "{far}");
    }
}
