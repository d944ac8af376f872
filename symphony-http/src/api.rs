//! The answers of the JSON API.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use axum::body::Body;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use serde::Serialize;
use symphony_api::{
    CommandReceipt, DeliveryReceipt, ExplanationStatus, IssueExplanation, IssueStage, IssueStatus,
    UnstartedStatus,
};
use symphony_core::snapshot::Snapshot;
use symphony_core::time::Wall;
use symphony_core::webhook::{Delivery, DeliveryRefused};
use symphony_core::{Identifier, IssueId, plain};
use symphony_runtime::{Handle, NotReceived};

use crate::dashboard;
use crate::error::Error;
use crate::peers::Peer;
use crate::routes::HttpState;
use crate::serialized::{SerializedState, to_string};

/// How long a written state is good while something runs: its sums go on.
const STATE_MAX_AGE: Duration = Duration::from_secs(1);

/// An answer in JSON.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    with_type("application/json", status, Body::from(to_string(value)))
}

pub(crate) fn with_type(kind: &'static str, status: StatusCode, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// What time it is.
pub(crate) fn wall_now() -> Wall {
    SystemTime::now().into()
}

/// The state as it was last written.
#[derive(Debug, Default)]
pub(crate) struct Cache(Mutex<Option<Cached>>);

#[derive(Debug)]
struct Cached {
    serialized: SerializedState,
    body: Bytes,
    at: Instant,
    version: u64,
}

impl Cache {
    fn lock(&self) -> MutexGuard<'_, Option<Cached>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state as JSON, and a number that is another one whenever it is.
    fn state(&self, snapshot: &Arc<Snapshot>) -> (Bytes, u64) {
        let mut cached = self.lock();
        let now = Instant::now();
        match &mut *cached {
            Some(known) => {
                let is_other = !Arc::ptr_eq(&known.serialized.snapshot, snapshot);
                let is_old = !snapshot.running.is_empty() && now - known.at >= STATE_MAX_AGE;
                if is_other || is_old {
                    known.serialized.update(snapshot);
                    known.body = known.serialized.body(wall_now());
                    known.at = now;
                    known.version += 1;
                }
                (known.body.clone(), known.version)
            }
            None => {
                let serialized = SerializedState::new(snapshot);
                let body = serialized.body(wall_now());
                let fresh = Cached { serialized, body: body.clone(), at: now, version: 0 };
                *cached = Some(fresh);
                (body, 0)
            }
        }
    }
}

/// `GET /api/v1/state`
pub(crate) async fn state(
    State(app): State<Arc<HttpState>>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let snapshot = app.handle.snapshot()?;
    let (body, version) = app.cache.state(&snapshot);
    let tag = format!("\"{:x}-{version}\"", app.life);
    let known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known == tag.as_str());
    let mut response = if known {
        with_type("application/json", StatusCode::NOT_MODIFIED, Body::empty())
    } else {
        with_type("application/json", StatusCode::OK, Body::from(body))
    };
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    Ok(response)
}

/// The issue that a path names.
pub(crate) struct PathName(pub(crate) Identifier);

impl<S: Send + Sync> FromRequestParts<S> for PathName {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        let path = axum::extract::Path::<String>::from_request_parts(parts, state).await;
        let refused = |_| {
            let message = "the issue's identifier must be percent-encoded UTF-8";
            Error::new(StatusCode::BAD_REQUEST, "bad_identifier", message)
        };
        let axum::extract::Path(identifier) = path.map_err(refused)?;
        Ok(Self(Identifier::from(identifier.as_str())))
    }
}

fn find(handle: &Handle, identifier: &Identifier) -> Result<IssueId, Error> {
    handle.snapshot()?;
    handle.find(identifier).ok_or_else(|| Error::no_such_issue(identifier.as_str()))
}

/// `GET /api/v1/<identifier>`
pub(crate) async fn issue(
    State(app): State<Arc<HttpState>>,
    PathName(identifier): PathName,
) -> Result<Response, Error> {
    Ok(json(StatusCode::OK, &look_up(&app.handle, &identifier).await?))
}

/// Everything that is known of an issue; a candidate far down the list is looked for too.
pub(crate) async fn look_up(
    handle: &Handle,
    identifier: &Identifier,
) -> Result<IssueStatus, Error> {
    handle.snapshot()?;
    match handle.issue(identifier) {
        Some(mut status) => {
            for log in &mut status.logs.codex_session_logs {
                log.url = Some(dashboard::transcript_path(identifier.as_str(), &log.run));
            }
            Ok(status)
        }
        None => {
            let explanation = handle.explain().await?;
            let mut unstarted = explanation.unstarted.iter();
            let row = unstarted.find(|row| row.identifier == *identifier);
            let row = row.ok_or_else(|| Error::no_such_issue(identifier.as_str()))?;
            Ok(handle.candidate(row))
        }
    }
}

fn queued(operations: &[&str], coalesced: bool) -> Response {
    json(StatusCode::ACCEPTED, &CommandReceipt::new(operations, coalesced, wall_now()))
}

/// `POST /api/v1/refresh`
pub(crate) async fn refresh(State(app): State<Arc<HttpState>>) -> Result<Response, Error> {
    // One that is being read now, or was asked for since the last snapshot, is not asked for twice.
    let snapshot = app.handle.snapshot()?;
    let last =
        app.last_refresh.swap(snapshot.now.mono.as_millis(), std::sync::atomic::Ordering::Relaxed);
    let coalesced = last == snapshot.now.mono.as_millis();
    app.handle.poll_now()?;
    Ok(queued(&["poll", "reconcile"], coalesced))
}

/// `POST /api/v1/pause`
pub(crate) async fn pause(State(app): State<Arc<HttpState>>) -> Result<Response, Error> {
    let coalesced = app.handle.snapshot()?.paused;
    app.handle.pause().await?;
    Ok(queued(&["pause"], coalesced))
}

/// `POST /api/v1/resume`
pub(crate) async fn resume(State(app): State<Arc<HttpState>>) -> Result<Response, Error> {
    let coalesced = !app.handle.snapshot()?.paused;
    app.handle.resume().await?;
    Ok(queued(&["resume"], coalesced))
}

/// `POST /api/v1/clear-holds`
pub(crate) async fn clear_holds(State(app): State<Arc<HttpState>>) -> Result<Response, Error> {
    let coalesced = app.handle.snapshot()?.holds.is_empty();
    app.handle.clear_holds().await?;
    Ok(queued(&["clear_holds"], coalesced))
}

/// `POST /api/v1/<identifier>/stop`
pub(crate) async fn stop(
    State(app): State<Arc<HttpState>>,
    PathName(identifier): PathName,
) -> Result<Response, Error> {
    let id = find(&app.handle, &identifier)?;
    let stage = app.handle.issue(&identifier).map(|issue| issue.status);
    if matches!(
        stage,
        Some(IssueStage::Candidate | IssueStage::Released | IssueStage::Cleaning) | None
    ) {
        let message = "nothing of this issue runs or waits, so there is nothing to stop";
        return Err(Error::new(StatusCode::CONFLICT, "not_claimed", message));
    }
    app.handle.stop(id).await?;
    Ok(queued(&["stop"], false))
}

/// `POST /api/v1/<identifier>/retry`
pub(crate) async fn retry(
    State(app): State<Arc<HttpState>>,
    PathName(identifier): PathName,
) -> Result<Response, Error> {
    let id = find(&app.handle, &identifier)?;
    let stage = app.handle.issue(&identifier).map(|issue| issue.status);
    if !matches!(stage, Some(IssueStage::Retrying | IssueStage::Blocked)) {
        let message = "this issue neither waits nor is blocked, so there is nothing to try again";
        return Err(Error::new(StatusCode::CONFLICT, "not_waiting", message));
    }
    app.handle.retry(id).await?;
    Ok(queued(&["retry"], false))
}

/// `GET /api/v1/explain`
pub(crate) async fn explain(State(app): State<Arc<HttpState>>) -> Result<Response, Error> {
    let explanation = app.handle.explain().await?;
    let now = app.handle.last_snapshot().now;
    Ok(json(StatusCode::OK, &ExplanationStatus::new(&explanation, now)))
}

/// `GET /api/v1/explain/<identifier>`
pub(crate) async fn explain_issue(
    State(app): State<Arc<HttpState>>,
    PathName(identifier): PathName,
) -> Result<Response, Error> {
    let explanation = app.handle.explain().await?;
    let now = app.handle.last_snapshot().now;
    let row = explanation.unstarted.iter().find(|row| row.identifier == identifier);
    let unstarted = row.map(|row| UnstartedStatus::new(row, now));
    let issue = look_up(&app.handle, &identifier).await?;
    Ok(json(StatusCode::OK, &IssueExplanation::new(&issue, unstarted)))
}

/// `GET /api/v1/events`
pub(crate) async fn events(
    State(app): State<Arc<HttpState>>,
    peer: Peer,
    headers: HeaderMap,
) -> Result<Response, Error> {
    app.handle.snapshot()?;
    stream(app.events.listen(last_seen(&headers), peer))
}

/// The last event that a listener has seen before it lost its connection.
pub(crate) fn last_seen(headers: &HeaderMap) -> Option<&str> {
    headers.get("last-event-id").and_then(|value| value.to_str().ok())
}

/// A stream of events, if there is a place for one more listener.
pub(crate) fn stream<S>(listening: Option<S>) -> Result<Response, Error>
where
    S: futures_util::Stream<Item = Result<Bytes, std::convert::Infallible>> + Send + 'static,
{
    let full = || {
        let message = "too many listen already; close some, or read /api/v1/state now and then";
        Error::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_listeners", message)
    };
    let stream = listening.ok_or_else(full)?;
    Ok(with_type("text/event-stream", StatusCode::OK, Body::from_stream(stream)))
}

/// `POST /webhooks/<tracker>`
pub(crate) async fn webhook(
    State(app): State<Arc<HttpState>>,
    PathName(kind): PathName,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Error> {
    let headers: Vec<(&str, &[u8])> =
        headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    let received = app.handle.deliver(kind.as_str(), &Delivery::new(&headers, &body));
    match received {
        // Not 202: Linear sends again whatever is not answered with 200.
        Ok(received) => {
            let taken = DeliveryReceipt::new(received.is_duplicate);
            Ok(json(StatusCode::OK, &taken))
        }
        Err(NotReceived::NoWebhook) => {
            let kind = plain(kind.as_str(), 100);
            let message = format!(
                "no tracker {kind} takes deliveries; its secret may be missing in the workflow file"
            );
            Err(Error::new(StatusCode::NOT_FOUND, "no_webhook", message))
        }
        Err(NotReceived::Refused(why)) => Err(refused_delivery(why)),
        Err(_) => Err(Error::unavailable()),
    }
}

fn refused_delivery(why: DeliveryRefused) -> Error {
    let (status, code) = match why {
        DeliveryRefused::Signature => (StatusCode::UNAUTHORIZED, "bad_signature"),
        DeliveryRefused::Time => (StatusCode::BAD_REQUEST, "stale_delivery"),
        _ => (StatusCode::BAD_REQUEST, "bad_delivery"),
    };
    Error::new(status, code, why.to_string())
}

/// `GET /healthz`
pub(crate) async fn health(State(app): State<Arc<HttpState>>) -> Result<&'static str, Error> {
    app.handle.snapshot()?;
    Ok("ok\n")
}

/// `GET /readyz`
pub(crate) async fn ready(State(app): State<Arc<HttpState>>) -> Result<&'static str, Error> {
    let snapshot = app.handle.snapshot()?;
    if snapshot.shutting_down {
        let message = "the service ends";
        return Err(Error::new(StatusCode::SERVICE_UNAVAILABLE, "shutting_down", message));
    }
    if let Some(failure) = &snapshot.storage {
        let why = plain(&failure.message, 300);
        return Err(Error::storage(format!("nothing can be written for the next start: {why}")));
    }
    Ok("ready\n")
}
