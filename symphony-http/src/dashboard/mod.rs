//! The web dashboard: pages made here, readable without JavaScript, and kept up to date over an
//! event stream that carries the same pieces of HTML. One place decides what anything looks like.

mod chart;
mod pieces;
mod transcript;

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::header::HOST;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use serde::Deserialize;
use symphony_api::{IssueStage, IssueStatus, ServiceStatus};
use symphony_core::orchestrator::Notice;
use symphony_core::snapshot::Snapshot;

use crate::api::{self, PathSegment, last_seen, wall_now, with_type};
use crate::error::Error;
use crate::hub::{Feed, HubEvent};
use crate::peers::Peer;
use crate::routes::HttpState;
use crate::serialized::to_string;

pub(crate) use chart::RunsChart;
use pieces::{ListQuery, PageClock, Pieces, grouped, name_of, path_of, phase_label, took};
pub(crate) use transcript::transcript_path;

/// The dashboard's routes.
pub(crate) fn routes() -> Router<Arc<HttpState>> {
    Router::new()
        .route("/", get(overview))
        .route("/issues/{identifier}", get(issue))
        .route("/issues/{identifier}/runs/{run}", get(transcript::transcript))
        .route("/live", get(live))
        .route("/assets/style.css", get(async || asset("text/css", STYLE)))
        .route("/assets/app.js", get(async || asset("text/javascript", SCRIPT)))
        .route("/assets/icon.svg", get(async || asset("image/svg+xml", ICON)))
}

const STYLE: &str = include_str!("../../assets/style.css");
const SCRIPT: &str = include_str!("../../assets/app.js");
const ICON: &str = include_str!("../../assets/icon.svg");

fn asset(kind: &'static str, text: &'static str) -> Response {
    with_type(kind, StatusCode::OK, Body::from(text))
}

/// What the search box says.
#[derive(Debug, Default, Deserialize)]
struct Search {
    #[serde(default)]
    q: String,
}

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview<'a> {
    pieces: &'a Pieces,
    q: &'a str,
    service: Vec<String>,
    version: &'static str,
}

#[derive(Template)]
#[template(path = "issue.html")]
struct IssuePageTemplate<'a> {
    issue: &'a IssueStatus,
    name: String,
    path: String,
    clock: PageClock,
    /// How the last run ended, of an issue that is over.
    outcome: Option<&'a str>,
    /// The state of the issue, where it is known.
    state: Option<&'a str>,
    service: Vec<String>,
    version: &'static str,
}

#[derive(Template)]
#[template(path = "error.html")]
struct Trouble<'a> {
    message: &'a str,
    service: Vec<String>,
    version: &'static str,
}

/// What tells this service from others: its scope, its address, its workflow file.
fn service(snapshot: &Snapshot, headers: &HeaderMap) -> Vec<String> {
    let service = ServiceStatus::from(&snapshot.service);
    let mut names: Vec<String> = service.names().into_iter().map(str::to_owned).collect();
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    names.insert(1.min(names.len()), host.unwrap_or_default().to_owned());
    names.retain(|name| !name.is_empty());
    names
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// `GET /`
async fn overview(
    State(app): State<Arc<HttpState>>,
    headers: HeaderMap,
    search: Result<Query<Search>, QueryRejection>,
) -> Response {
    let q = search.map(|Query(search)| search.q).unwrap_or_default();
    let snapshot = match app.handle.snapshot() {
        Ok(snapshot) => snapshot,
        Err(error) => return error_page(&error.into()),
    };
    let clock = PageClock { now: wall_now(), live: false };
    // A search looks through every candidate; a snapshot names the first of them.
    let candidates = match q.trim() {
        "" => None,
        _ => app.handle.explain().await.ok(),
    };
    let query = ListQuery { text: q.trim(), candidates: candidates.as_deref() };
    let pieces = Pieces::render(&snapshot, &app.chart, clock, query);
    let service = service(&snapshot, &headers);
    page(StatusCode::OK, &Overview { pieces: &pieces, q: &q, service, version: VERSION })
}

/// `GET /issues/<identifier>`
async fn issue(
    State(app): State<Arc<HttpState>>,
    headers: HeaderMap,
    named: Result<PathSegment, Error>,
) -> Response {
    let found = match named {
        Ok(PathSegment(identifier)) => api::issue_status(&app.handle, &identifier).await,
        Err(error) => Err(error),
    };
    match found {
        Ok(issue) => {
            let clock = PageClock { now: wall_now(), live: false };
            let name = name_of(&issue.issue_identifier);
            let path = path_of(&issue.issue_identifier);
            let is_over = issue.status == IssueStage::Released;
            let last = issue.attempts.runs.last().filter(|_| is_over);
            let outcome = last.and_then(|run| run.outcome.as_deref());
            let service = service(&app.handle.last_snapshot(), &headers);
            let shown = IssuePageTemplate {
                issue: &issue,
                name,
                path,
                clock,
                outcome,
                state: issue.tracked.get("state").and_then(|state| state.as_str()),
                service,
                version: VERSION,
            };
            page(StatusCode::OK, &shown)
        }
        Err(error) => error_page(&error),
    }
}

/// `GET /live`: the pieces of the overview that change.
async fn live(
    State(app): State<Arc<HttpState>>,
    peer: Peer,
    headers: HeaderMap,
) -> Result<Response, Error> {
    app.handle.snapshot()?;
    api::stream(app.pages.subscribe(last_seen(&headers), peer))
}

fn page(status: StatusCode, page: &impl Template) -> Response {
    match page.render() {
        Ok(text) => with_type("text/html; charset=utf-8", status, Body::from(text)),
        Err(error) => {
            let message = format!("the page could not be made: {error}");
            Error::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", message).into_response()
        }
    }
}

fn error_page(error: &Error) -> Response {
    page(error.status, &Trouble { message: &error.message, service: Vec::new(), version: VERSION })
}

/// The event stream of the overview: each piece of it, whenever it is another one.
#[derive(Debug)]
pub(crate) struct PageFeed {
    chart: Arc<RunsChart>,
    told: Option<Pieces>,
}

impl PageFeed {
    pub(crate) const fn new(chart: Arc<RunsChart>) -> Self {
        Self { chart, told: None }
    }
}

impl Feed for PageFeed {
    fn changes(&mut self, snapshot: &Arc<Snapshot>, _: &[Arc<Notice>]) -> Vec<HubEvent> {
        let clock = PageClock { now: wall_now(), live: true };
        let now = Pieces::render(snapshot, &self.chart, clock, ListQuery::default());
        let before = self.told.as_ref().map(Pieces::all);
        let changed = now.all().into_iter().filter(|(name, html)| {
            let known = before.as_ref().and_then(|pieces| pieces.iter().find(|(n, _)| n == name));
            known.is_none_or(|(_, known)| known != html)
        });
        let events = changed.map(|(name, html)| piece(name, html)).collect();
        self.told = Some(now);
        events
    }

    fn whole(&self) -> Vec<HubEvent> {
        let pieces = self.told.iter().flat_map(Pieces::all);
        pieces.map(|(name, html)| piece(name, html)).collect()
    }

    fn reset(&mut self) {
        self.told = None;
    }
}

fn piece(name: &str, html: &str) -> HubEvent {
    HubEvent { name: "piece", data: to_string(&serde_json::json!({"name": name, "html": html})) }
}
