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
use symphony_core::snapshot::{Explanation, Snapshot};
use symphony_core::time::Wall;
use symphony_core::webhook::{Delivery, DeliveryRefused};
use symphony_core::{Identifier, IssueId, plain};
use symphony_runtime::{Handle, NotReceived};

use crate::dashboard;
use crate::error::Error;
use crate::peers::Peer;
use crate::routes::HttpState;
use crate::serialized::{SerializedState, to_string};

/// How long the cached state is served while an agent runs: its totals grow with time.
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

/// Returns the wall-clock time.
pub(crate) fn wall_now() -> Wall {
    SystemTime::now().into()
}

/// The state as it was last serialised.
#[derive(Debug, Default)]
pub(crate) struct StateCache(Mutex<Option<CachedState>>);

#[derive(Debug)]
struct CachedState {
    serialized: SerializedState,
    body: Bytes,
    serialized_at: Instant,
    version: u64,
}

impl StateCache {
    fn lock(&self) -> MutexGuard<'_, Option<CachedState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state as JSON and its version, which changes with it.
    fn state(&self, snapshot: &Arc<Snapshot>) -> (Bytes, u64) {
        let mut cache = self.lock();
        let now = Instant::now();
        match &mut *cache {
            Some(cached) => {
                let is_new_snapshot = !Arc::ptr_eq(&cached.serialized.snapshot, snapshot);
                let is_stale =
                    !snapshot.running.is_empty() && now - cached.serialized_at >= STATE_MAX_AGE;
                if is_new_snapshot || is_stale {
                    cached.serialized.update(snapshot);
                    cached.body = cached.serialized.body(wall_now());
                    cached.serialized_at = now;
                    cached.version += 1;
                }
                (cached.body.clone(), cached.version)
            }
            None => {
                let serialized = SerializedState::new(snapshot);
                let body = serialized.body(wall_now());
                let fresh =
                    CachedState { serialized, body: body.clone(), serialized_at: now, version: 0 };
                *cache = Some(fresh);
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
    let mut response = if has_tag(&headers, &tag) {
        with_type("application/json", StatusCode::NOT_MODIFIED, Body::empty())
    } else {
        with_type("application/json", StatusCode::OK, Body::from(body))
    };
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    Ok(response)
}

/// Whether a client has what this tag stands for. It may know several, and a proxy that compresses
/// makes a tag a weak one.
fn has_tag(headers: &HeaderMap, tag: &str) -> bool {
    let known =
        headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|known| known.to_str().ok());
    known
        .flat_map(|known| known.split(','))
        .map(str::trim)
        .any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

/// The name in a path: of an issue, or of a tracker's kind.
pub(crate) struct PathSegment(pub(crate) Identifier);

impl<S: Send + Sync> FromRequestParts<S> for PathSegment {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        let path = axum::extract::Path::<String>::from_request_parts(parts, state).await;
        let refused = |_| {
            let message = "the name in the path must be percent-encoded UTF-8";
            Error::new(StatusCode::BAD_REQUEST, "bad_identifier", message)
        };
        let axum::extract::Path(identifier) = path.map_err(refused)?;
        Ok(Self(Identifier::from(identifier.as_str())))
    }
}

fn issue_id(handle: &Handle, identifier: &Identifier) -> Result<IssueId, Error> {
    handle.snapshot()?;
    handle.find(identifier).ok_or_else(|| Error::no_such_issue(identifier.as_str()))
}

/// `GET /api/v1/<identifier>`
pub(crate) async fn issue(
    State(app): State<Arc<HttpState>>,
    PathSegment(identifier): PathSegment,
) -> Result<Response, Error> {
    Ok(json(StatusCode::OK, &issue_status(&app.handle, &identifier).await?))
}

/// Returns everything that is known of an issue; a candidate far down the list is looked for too.
pub(crate) async fn issue_status(
    handle: &Handle,
    identifier: &Identifier,
) -> Result<IssueStatus, Error> {
    handle.snapshot()?;
    match tracked_issue(handle, identifier) {
        Some(status) => Ok(status),
        None => candidate(handle, identifier, &*handle.explain().await?),
    }
}

/// Returns an issue that is claimed, has a history or is near the top of the list.
fn tracked_issue(handle: &Handle, identifier: &Identifier) -> Option<IssueStatus> {
    let mut status = handle.issue(identifier)?;
    for log in &mut status.logs.codex_session_logs {
        log.url = Some(dashboard::transcript_path(identifier.as_str(), &log.run));
    }
    Some(status)
}

/// Returns a candidate anywhere in the list.
fn candidate(
    handle: &Handle,
    identifier: &Identifier,
    explanation: &Explanation,
) -> Result<IssueStatus, Error> {
    let row = explanation.unstarted.iter().find(|row| row.identifier == *identifier);
    let row = row.ok_or_else(|| Error::no_such_issue(identifier.as_str()))?;
    Ok(handle.candidate(row))
}

fn accepted(operations: &[&str], coalesced: bool) -> Response {
    json(StatusCode::ACCEPTED, &CommandReceipt::new(operations, coalesced, wall_now()))
}

/// `POST /api/v1/refresh`
pub(crate) async fn refresh(State(app): State<Arc<HttpState>>) -> Result<Response, Error> {
    // The scheduler merges requests that come before it has polled. That this one is merged is
    // known when no snapshot was published since the last.
    let snapshot = app.handle.snapshot()?;
    let last =
        app.last_refresh.swap(snapshot.now.mono.as_millis(), std::sync::atomic::Ordering::Relaxed);
    let coalesced = last == snapshot.now.mono.as_millis();
    app.handle.poll_now()?;
    Ok(accepted(&["poll", "reconcile"], coalesced))
}

/// `POST /api/v1/pause`
pub(crate) async fn pause(State(app): State<Arc<HttpState>>) -> Result<Response, Error> {
    let coalesced = app.handle.snapshot()?.paused;
    app.handle.pause().await?;
    Ok(accepted(&["pause"], coalesced))
}

/// `POST /api/v1/resume`
pub(crate) async fn resume(State(app): State<Arc<HttpState>>) -> Result<Response, Error> {
    let coalesced = !app.handle.snapshot()?.paused;
    app.handle.resume().await?;
    Ok(accepted(&["resume"], coalesced))
}

/// `POST /api/v1/clear-holds`
pub(crate) async fn clear_holds(State(app): State<Arc<HttpState>>) -> Result<Response, Error> {
    let coalesced = app.handle.snapshot()?.holds.is_empty();
    app.handle.clear_holds().await?;
    Ok(accepted(&["clear_holds"], coalesced))
}

/// `POST /api/v1/<identifier>/stop`
pub(crate) async fn stop(
    State(app): State<Arc<HttpState>>,
    PathSegment(identifier): PathSegment,
) -> Result<Response, Error> {
    let id = issue_id(&app.handle, &identifier)?;
    let stage = app.handle.issue(&identifier).map(|issue| issue.status);
    let can_stop = stage.is_some_and(|stage| {
        !matches!(stage, IssueStage::Candidate | IssueStage::Released | IssueStage::Cleaning)
    });
    if !can_stop {
        let message = "nothing of this issue runs or waits, so there is nothing to stop";
        return Err(Error::new(StatusCode::CONFLICT, "not_claimed", message));
    }
    app.handle.stop(id).await?;
    Ok(accepted(&["stop"], false))
}

/// `POST /api/v1/<identifier>/retry`
pub(crate) async fn retry(
    State(app): State<Arc<HttpState>>,
    PathSegment(identifier): PathSegment,
) -> Result<Response, Error> {
    let id = issue_id(&app.handle, &identifier)?;
    let stage = app.handle.issue(&identifier).map(|issue| issue.status);
    if !matches!(stage, Some(IssueStage::Retrying | IssueStage::Blocked)) {
        let message = "this issue neither waits nor is blocked, so there is nothing to try again";
        return Err(Error::new(StatusCode::CONFLICT, "not_waiting", message));
    }
    app.handle.retry(id).await?;
    Ok(accepted(&["retry"], false))
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
    PathSegment(identifier): PathSegment,
) -> Result<Response, Error> {
    let explanation = app.handle.explain().await?;
    let now = app.handle.last_snapshot().now;
    let row = explanation.unstarted.iter().find(|row| row.identifier == identifier);
    let unstarted = row.map(|row| UnstartedStatus::new(row, now));
    let issue = match tracked_issue(&app.handle, &identifier) {
        Some(issue) => issue,
        None => candidate(&app.handle, &identifier, &explanation)?,
    };
    Ok(json(StatusCode::OK, &IssueExplanation::new(&issue, unstarted)))
}

/// `GET /api/v1/events`
pub(crate) async fn events(
    State(app): State<Arc<HttpState>>,
    peer: Peer,
    headers: HeaderMap,
) -> Result<Response, Error> {
    app.handle.snapshot()?;
    stream(app.events.subscribe(last_seen(&headers), peer))
}

/// Returns the last event that a subscriber saw before it lost its connection.
pub(crate) fn last_seen(headers: &HeaderMap) -> Option<&str> {
    headers.get("last-event-id").and_then(|value| value.to_str().ok())
}

/// Returns a stream of events, if there is room for one more subscriber.
pub(crate) fn stream<S>(subscribed: Option<S>) -> Result<Response, Error>
where
    S: futures_util::Stream<Item = Result<Bytes, std::convert::Infallible>> + Send + 'static,
{
    let full = || {
        let message = "there are too many subscribers; close some, or poll /api/v1/state instead";
        Error::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_listeners", message)
    };
    let stream = subscribed.ok_or_else(full)?;
    Ok(with_type("text/event-stream", StatusCode::OK, Body::from_stream(stream)))
}

/// `POST /webhooks/<tracker>`
pub(crate) async fn webhook(
    State(app): State<Arc<HttpState>>,
    PathSegment(kind): PathSegment,
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
