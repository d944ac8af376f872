//! A service elsewhere, for the dashboard: its event stream, taken up again whenever it breaks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::fmt::rfc2822::DateTimeParser;
use reqwest::header::{DATE, HeaderMap};
use symphony_api::status::IssueStatus;
use symphony_core::time::Wall;
use symphony_tui::{Command, Lines, Link, Refused, Seen, Source};
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use super::events::Events;
use super::state::{Applied, State};
use super::{Client, Problem};
use crate::local::wall_now;

/// A service shows that it lives more often than this.
const SILENCE: Duration = Duration::from_secs(45);

/// How long it takes until it is looked for again: first, and at most.
const AGAIN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));

/// Clocks that differ by less are the same: the service tells its time in whole seconds.
const SAME_CLOCK_MS: i64 = 2_000;

/// A service elsewhere.
#[derive(Debug)]
pub(crate) struct Remote {
    client: Client,
    shared: Arc<Shared>,
    _feed: AbortOnDropHandle<()>,
}

#[derive(Debug)]
struct Shared {
    known: Mutex<Known>,
    changed: Notify,
    lines: Lines,
}

#[derive(Debug)]
struct Known {
    state: State,
    link: Link,
    /// By how much its clock is ahead of ours.
    ahead_ms: i64,
}

impl Remote {
    /// Begins to listen; what happens there goes into these lines.
    pub(crate) fn new(client: Client, lines: Lines) -> Self {
        let known = Known { state: State::default(), link: Link::Connecting, ahead_ms: 0 };
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
async fn listen(client: Client, shared: Arc<Shared>) {
    let mut last_seen = None;
    let mut again = AGAIN.0;
    loop {
        let before = last_seen.clone();
        let why = hear(&client, &shared, &mut last_seen).await;
        if last_seen != before {
            again = AGAIN.0;
        }
        shared.lost(why.to_string());
        tokio::time::sleep(again).await;
        again = again.saturating_mul(2).min(AGAIN.1);
    }
}

/// Takes in one stream of events until it breaks.
async fn hear(client: &Client, shared: &Shared, last_seen: &mut Option<String>) -> Problem {
    let mut response = match client.events(last_seen.as_deref()).await {
        Ok(response) => response,
        Err(problem) => return problem,
    };
    let address = client.address().to_string();
    if let Some(ahead) = ahead(response.headers()) {
        shared.lock().ahead_ms = ahead;
    }
    let mut events = Events::default();
    loop {
        let chunk = match tokio::time::timeout(SILENCE, response.chunk()).await {
            Ok(Ok(Some(chunk))) => chunk,
            Ok(_) => return Problem::Unreachable(format!("{address} has closed the connection")),
            Err(_) => return Problem::Unreachable(format!("{address} has fallen silent")),
        };
        let strange = || Problem::Strange(format!("{address} tells something else than a state"));
        let Ok(came) = events.feed(&chunk) else { return strange() };
        for event in came {
            let mut known = shared.lock();
            match known.state.apply(&event) {
                Ok(Applied::Told(text)) => {
                    let now = wall_now().to_string();
                    shared.lines.push(&format!("{} {text}", now.get(11..19).unwrap_or_default()));
                }
                Ok(Applied::Changed | Applied::Unknown) => {}
                Err(_) => {
                    *last_seen = None; // all of it, the next time
                    return strange();
                }
            }
            *last_seen = event.id.or(last_seen.take());
        }
        // Also a comment shows that it is there.
        let mut known = shared.lock();
        if known.state.status.is_some() {
            known.link = Link::Live;
        }
        drop(known);
        shared.changed.notify_one();
    }
}

/// By how much the clock there is ahead of ours, in milliseconds.
fn ahead(headers: &HeaderMap) -> Option<i64> {
    let date = headers.get(DATE)?.to_str().ok()?;
    let there = DateTimeParser::new().parse_timestamp(date).ok()?.as_millisecond();
    let ahead = there.saturating_sub(wall_now().as_unix_millis());
    Some(if ahead.abs() < SAME_CLOCK_MS { 0 } else { ahead })
}

fn refused(problem: &Problem) -> Refused {
    Refused::new(&problem.to_string())
}

#[async_trait]
impl Source for Remote {
    fn latest(&self) -> Seen {
        let known = self.shared.lock();
        let clock = wall_now().as_unix_millis().saturating_add(known.ahead_ms);
        Seen {
            status: known.state.status.clone(),
            link: known.link.clone(),
            clock: Wall::from_unix_millis(clock),
        }
    }

    async fn changed(&self) {
        self.shared.changed.notified().await;
    }

    async fn issue(&self, identifier: &str) -> Result<IssueStatus, Refused> {
        let body = self.client.get(&[identifier]).await.map_err(|problem| refused(&problem))?;
        serde_json::from_slice(&body)
            .map_err(|error| Refused::new(&format!("the answer cannot be read: {error}")))
    }

    async fn command(&self, command: &Command) -> Result<(), Refused> {
        let done = match command {
            Command::PollNow => self.client.post(&["refresh"]).await,
            Command::Pause => self.client.post(&["pause"]).await,
            Command::Resume => self.client.post(&["resume"]).await,
            Command::Stop(issue) => self.client.post(&[issue, "stop"]).await,
            Command::Retry(issue) => self.client.post(&[issue, "retry"]).await,
        };
        done.map_err(|problem| refused(&problem))
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    #[test]
    fn the_time_there_is_taken_from_its_answer() {
        let with = |date: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(DATE, HeaderValue::from_static(date));
            ahead(&headers)
        };
        assert_eq!(with("yesterday"), None);
        let far = with("Tue, 15 Nov 1994 08:12:31 GMT").unwrap();
        assert!(far < -900_000_000_000, "{far}");
        assert_eq!(ahead(&HeaderMap::new()), None);
    }
}
