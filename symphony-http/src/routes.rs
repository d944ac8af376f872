//! What is where. The API's routes and its OpenAPI document come from one list.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, get, post};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use symphony_runtime::Handle;

use crate::api::{self, StateCache};
use crate::connections::{Connection, Connections};
use crate::dashboard::{self, PageFeed, RunsChart};
use crate::error::Error;
use crate::feed::StateFeed;
use crate::guard::{self, Guard};
use crate::hub::Hub;
use crate::metrics;
use crate::openapi::{self, Returns};
use crate::token_rate_limit::TokenRateLimit;

/// Where trackers deliver what changed.
pub(crate) const WEBHOOKS_PATH: &str = "/webhooks/";

/// How large the body of a delivery may be.
const MAX_DELIVERY_BYTES: usize = 1 << 20;

/// The same for every other request: none needs one.
const MAX_BODY_BYTES: usize = 16 * 1024;

/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// What every answer is made from.
pub(crate) struct HttpState {
    pub(crate) handle: Handle,
    pub(crate) cache: StateCache,
    pub(crate) events: Arc<Hub<StateFeed>>,
    pub(crate) pages: Arc<Hub<PageFeed>>,
    pub(crate) chart: Arc<RunsChart>,
    /// The snapshot at the last wish for a poll.
    pub(crate) last_refresh: AtomicU64,
    pub(crate) connections: Arc<Connections>,
    pub(crate) token_limit: Arc<TokenRateLimit>,
    /// Tells one life of the server from another.
    pub(crate) life: u64,
}

/// One route of the API.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) summary: &'static str,
    /// What it answers besides errors.
    pub(crate) answer: Returns,
    /// The errors of its own.
    pub(crate) errors: &'static [u16],
    handler: MethodRouter<Arc<HttpState>>,
}

/// Every route of the API. Each path has one method.
pub(crate) fn api() -> Vec<Route> {
    let read = |path, summary, answer, errors, handler| Route {
        method: Method::GET,
        path,
        summary,
        answer,
        errors,
        handler,
    };
    let order = |path, summary, answer, errors, handler| Route {
        method: Method::POST,
        path,
        summary,
        answer,
        errors,
        handler,
    };
    vec![
        read("/api/v1/state", "Everything at a glance", Returns::State, &[], get(api::state)),
        read(
            "/api/v1/events",
            "The state, and then what changes in it, as server-sent events",
            Returns::Events,
            &[],
            get(api::events),
        ),
        read(
            "/api/v1/explain",
            "Why nothing starts, and why each candidate is not running",
            Returns::Explanation,
            &[],
            get(api::explain),
        ),
        read(
            "/api/v1/explain/{identifier}",
            "Why one issue is not running",
            Returns::IssueExplanation,
            &[400, 404],
            get(api::explain_issue),
        ),
        order("/api/v1/refresh", "Poll the tracker now", Returns::Queued, &[], post(api::refresh)),
        order(
            "/api/v1/pause",
            "Start nothing until resumed; what runs goes on",
            Returns::Queued,
            &[],
            post(api::pause),
        ),
        order("/api/v1/resume", "Start again", Returns::Queued, &[], post(api::resume)),
        order(
            "/api/v1/clear-holds",
            "Try agents again that refuse for now",
            Returns::Queued,
            &[],
            post(api::clear_holds),
        ),
        read("/api/v1/openapi.json", "This document", Returns::Document, &[], get(openapi::serve)),
        read(
            "/api/v1/{identifier}",
            "One issue, with its runs and the last things that happened to it",
            Returns::Issue,
            &[400, 404],
            get(api::issue),
        ),
        order(
            "/api/v1/{identifier}/stop",
            "End the issue's run and keep it blocked until a retry",
            Returns::Queued,
            &[400, 404, 409],
            post(api::stop),
        ),
        order(
            "/api/v1/{identifier}/retry",
            "Try a waiting or blocked issue now",
            Returns::Queued,
            &[400, 404, 409],
            post(api::retry),
        ),
        order(
            "/webhooks/{tracker}",
            "What a tracker tells by itself, with its signature",
            Returns::Received,
            &[400, 404],
            post(api::webhook),
        ),
        read("/metrics", "Counts for Prometheus", Returns::Text, &[], get(metrics::serve)),
        read("/healthz", "Whether the service lives", Returns::Text, &[], get(api::health)),
        read(
            "/readyz",
            "Whether the service lives, is not ending and can write for its next start",
            Returns::Text,
            &[],
            get(api::ready),
        ),
    ]
}

/// Everything, behind its gate.
pub(crate) fn router(handle: Handle, guard: Guard, connections: Arc<Connections>) -> Router {
    let life = u64::try_from(api::wall_now().as_unix_millis()).unwrap_or_default();
    let chart = RunsChart::start(handle.clone());
    let app = HttpState {
        cache: StateCache::default(),
        events: Hub::start(StateFeed::default(), handle.clone(), life),
        pages: Hub::start(PageFeed::new(Arc::clone(&chart)), handle.clone(), life),
        chart,
        last_refresh: AtomicU64::new(u64::MAX),
        connections,
        token_limit: guard.token_limit(),
        life,
        handle,
    };
    let mut router = Router::new();
    for route in api() {
        router = router.route(route.path, route.handler);
    }
    router
        .merge(dashboard::routes())
        .fallback(async || Error::no_such_route())
        .method_not_allowed_fallback(async || Error::method_not_allowed())
        .with_state(Arc::new(app))
        .layer(middleware::from_fn(whole_body))
        .layer(middleware::from_fn_with_state(guard, guard::guard))
}

/// Reads the body before the request is handled: within bounds of size and time. Until it is there
/// the connection is one of those that give way to others.
async fn whole_body(request: Request, next: Next) -> Response {
    let is_delivery = request.uri().path().starts_with(WEBHOOKS_PATH);
    let most = if is_delivery { MAX_DELIVERY_BYTES } else { MAX_BODY_BYTES };
    let (parts, body) = request.into_parts();
    let collected = tokio::time::timeout(BODY_TIMEOUT, collect(Limited::new(body, most))).await;
    let refusal = match collected {
        Ok(Ok(body)) => {
            if is_delivery || body.trim_ascii().is_empty() || is_object(&body) {
                return answered(Request::from_parts(parts, Body::from(body)), next).await;
            }
            let message = "the body is not a JSON object; send none, or {}";
            Error::new(StatusCode::BAD_REQUEST, "bad_body", message)
        }
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let message = format!("the body is larger than {most} bytes");
            Error::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
        }
        Ok(Err(_)) => Error::new(StatusCode::BAD_REQUEST, "bad_body", "the body could not be read"),
        Err(_) => {
            let message = "the body did not arrive in time";
            Error::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", message)
        }
    };
    refusal.into_response()
}

/// Answers a whole request, if its connection has a place among those that are answered.
async fn answered(request: Request, next: Next) -> Response {
    let Some(connection) = request.extensions().get::<Arc<Connection>>() else {
        return next.run(request).await;
    };
    match connection.answer(guard::is_probe(request.uri().path())) {
        Some(answering) => next.run(request).await.map(|body| answering.with(body)),
        None => {
            let message = "too many requests are being answered; try again in a moment";
            let busy = Error::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message);
            busy.with_retry_after(Duration::from_secs(1)).into_response()
        }
    }
}

/// The bytes of a body in one piece. Kept piece by piece, one that comes byte by byte would take
/// many times its size.
async fn collect(body: Limited<Body>) -> Result<Vec<u8>, axum::BoxError> {
    let mut body = std::pin::pin!(body);
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes)
}

fn is_object(body: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(body).is_ok()
}
