//! A Linear for tests.
//!
//! [`Fake`] executes GraphQL on a board in the process, against the adapter's own subset of Linear's
//! schema, with pages, limits and faults. It answers in the process ([`Fake::answer`]) and, as a
//! [`FakeServer`], over HTTP on loopback.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use symphony_linear_fake::{Fake, FakeIssue, KEY, FakeServer};
//!
//! let fake = Fake::new();
//! fake.change(|world| world.issues.push(FakeIssue::new(1)));
//! let server = FakeServer::start(fake.clone()).await.unwrap();
//! // tracker.provider: { endpoint: server.endpoint(), api_key: KEY, project_slug: abc123 }
//! assert!(server.endpoint().starts_with("http://127.0.0.1:"));
//! assert_eq!((KEY, fake.requests()), ("lin_api_fake", 0));
//! # });
//! ```

mod execute;
mod fault;
mod limits;
mod select;
mod server;
mod world;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::time::Instant;

use execute::{Documents, FakeBoard};
use limits::Buckets;

pub use execute::SCHEMA;
pub use fault::FakeFault;
pub use limits::FakeLimits;
pub use server::FakeServer;
pub use world::{FakeIssue, FakeTeam, World};

/// The key that the fake knows.
pub const KEY: &str = "lin_api_fake";

/// A request that was made.
#[derive(Clone, Debug, PartialEq)]
pub struct MadeRequest {
    /// When.
    pub at: Instant,
    /// The document.
    pub query: String,
    /// Its variables.
    pub variables: Value,
    /// The status of the answer.
    pub status: u16,
    /// What it cost.
    pub points: u64,
}

/// What the fake does with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answered {
    /// This comes back.
    Reply {
        /// The status.
        status: u16,
        /// The headers, without the length.
        headers: Vec<(String, String)>,
        /// The body.
        body: Vec<u8>,
        /// How many bytes of it are promised and never come.
        missing: usize,
    },
    /// The connection is closed.
    Closed,
    /// Nothing ever comes.
    Never,
}

/// A Linear in the process. Clones share one board.
#[derive(Clone, Debug, Default)]
pub struct Fake {
    shared: Arc<FakeState>,
}

#[derive(Debug)]
struct FakeState {
    board: Mutex<FakeBoard>,
    documents: Documents,
    state: Mutex<ServerState>,
}

/// What is between the board and its clients.
#[derive(Debug)]
struct ServerState {
    buckets: Buckets,
    fault: Option<FakeFault>,
    /// How many requests meet the fault; all, if none is said.
    left: Option<u32>,
    made: Vec<MadeRequest>,
    connections: u64,
}

impl Default for FakeState {
    fn default() -> Self {
        let buckets = Buckets::full(FakeLimits::default());
        let state =
            ServerState { buckets, fault: None, left: None, made: Vec::new(), connections: 0 };
        Self { board: Mutex::default(), documents: Documents::default(), state: Mutex::new(state) }
    }
}

impl Fake {
    /// A team, a project, no issues, and the limits of a personal key.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, ServerState> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn board(&self) -> MutexGuard<'_, FakeBoard> {
        self.shared.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is on the board.
    pub fn change<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        self.board().change(change)
    }

    /// What is on the board.
    #[must_use]
    pub fn world(&self) -> World {
        self.board().world.clone()
    }

    /// Puts issues on the board.
    pub fn put(&self, issues: impl IntoIterator<Item = FakeIssue>) {
        self.change(|world| world.issues.extend(issues));
    }

    /// Moves an issue to another state.
    pub fn move_to(&self, id: &str, state: &str) -> bool {
        self.change(|world| world.edit(id, |issue| issue.state = state.to_owned()))
    }

    /// Whether ascending priorities put urgent issues last.
    pub fn set_urgent_last(&self, urgent_last: bool) {
        self.board().urgent_last = urgent_last;
    }

    /// From now on the key has these limits, and nothing of them is used.
    pub fn set_limits(&self, limits: FakeLimits) {
        self.state().buckets = Buckets::full(limits);
    }

    /// Another client uses requests of the same key.
    pub fn drain(&self, requests: u32) {
        self.state().buckets.drain(requests);
    }

    /// All requests meet this fault from now on; none do if there is none.
    pub fn fail(&self, fault: Option<FakeFault>) {
        let mut state = self.state();
        (state.fault, state.left) = (fault, None);
    }

    /// The next requests meet this fault, as many as said.
    pub fn fail_next(&self, requests: u32, fault: FakeFault) {
        let mut state = self.state();
        (state.fault, state.left) = (Some(fault), Some(requests));
    }

    /// How many requests were made.
    #[must_use]
    pub fn requests(&self) -> u64 {
        u64::try_from(self.state().made.len()).unwrap_or(u64::MAX)
    }

    /// The requests that were made, oldest first.
    #[must_use]
    pub fn made(&self) -> Vec<MadeRequest> {
        self.state().made.clone()
    }

    /// Forgets the requests that were made so far.
    pub fn forget(&self) {
        self.state().made.clear();
    }

    /// How many connections were made to the [`FakeServer`].
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.state().connections
    }

    fn note_connection(&self) {
        self.state().connections += 1;
    }

    /// Answers a request with this `Authorization` and this body.
    #[must_use]
    pub fn answer(&self, authorization: Option<&str>, body: &[u8]) -> Answered {
        let request: Value = serde_json::from_slice(body).unwrap_or_default();
        let fault = self.take_fault(&request);
        let (mut status, mut headers, mut reply, points) = self.reply(authorization, &request);
        let mut missing = 0;
        match fault {
            None => {}
            Some(FakeFault::Partial) => {
                reply["errors"] = json!([{ "message": "a part could not be read" }]);
            }
            Some(FakeFault::Without(field)) => {
                if let Some(data) = reply["data"].as_object_mut() {
                    data.remove(&field);
                }
            }
            Some(FakeFault::BreakOff | FakeFault::Truncate) => {
                let mut bytes = reply.to_string().into_bytes();
                let half = bytes.len() / 2;
                if fault == Some(FakeFault::BreakOff) {
                    missing = bytes.len() - half;
                }
                bytes.truncate(half);
                self.note(&request, status, points);
                return Answered::Reply { status, headers, body: bytes, missing };
            }
            Some(FakeFault::RateLimited { retry_after }) => {
                (status, reply) = limited();
                let seconds = retry_after.map(|n| ("retry-after".to_owned(), n.to_string()));
                headers.extend(seconds);
            }
            Some(FakeFault::Answer { status, headers, body }) => {
                self.note(&request, status, points);
                return Answered::Reply { status, headers, body, missing: 0 };
            }
            Some(FakeFault::Close | FakeFault::LaterPage) => {
                self.note(&request, 0, points);
                return Answered::Closed;
            }
            Some(FakeFault::Hang) => {
                self.note(&request, 0, points);
                return Answered::Never;
            }
        }
        self.note(&request, status, points);
        headers.push(("content-type".to_owned(), "application/json".to_owned()));
        Answered::Reply { status, headers, body: reply.to_string().into_bytes(), missing }
    }

    /// What Linear would answer.
    fn reply(
        &self,
        authorization: Option<&str>,
        request: &Value,
    ) -> (u16, Vec<(String, String)>, Value, u64) {
        let error = |code: &str, message: &str| json!({ "errors": [{ "message": message, "extensions": { "code": code } }] });
        if authorization != Some(KEY) {
            let body = error("AUTHENTICATION_ERROR", "Authentication required, not authenticated");
            return (401, Vec::new(), body, 0);
        }
        let text = request["query"].as_str().unwrap_or_default();
        let document = match self.shared.documents.get(text) {
            Ok(document) => document,
            Err(message) => {
                let body = error("GRAPHQL_VALIDATION_FAILED", &message);
                return (400, self.state().buckets.headers(0), body, 0);
            }
        };
        let variables = match &request["variables"] {
            Value::Null => json!({}),
            variables => variables.clone(),
        };
        let variables = serde_json::from_value(variables).unwrap_or_default();
        let points = execute::complexity(&document, &variables);
        {
            let mut state = self.state();
            if points > state.buckets.limits().query {
                let headers = state.buckets.headers(points);
                let body = error("QUERY_TOO_COMPLEX", "Query too complex");
                return (400, headers, body, points);
            }
            if !state.buckets.take(points) {
                let (status, body) = limited();
                return (status, state.buckets.headers(points), body, points);
            }
        }
        let body = execute::execute(&document, &variables, &self.shared.board);
        (200, self.state().buckets.headers(points), body, points)
    }

    /// The fault that this request meets.
    fn take_fault(&self, request: &Value) -> Option<FakeFault> {
        let mut state = self.state();
        if state.left == Some(0) {
            return None;
        }
        let fault = state.fault.clone()?;
        if fault == FakeFault::LaterPage && request["variables"]["after"].is_null() {
            return None;
        }
        state.left = state.left.map(|left| left - 1);
        Some(fault)
    }

    fn note(&self, request: &Value, status: u16, points: u64) {
        let made = MadeRequest {
            at: Instant::now(),
            query: request["query"].as_str().unwrap_or_default().to_owned(),
            variables: request["variables"].clone(),
            status,
            points,
        };
        self.state().made.push(made);
    }
}

/// What an operation costs by Linear's rule, or what is wrong with it.
///
/// # Errors
/// The document is not valid.
pub fn points(query: &str, variables: &Value) -> Result<u64, String> {
    let document = Documents::default().get(query)?;
    let variables = serde_json::from_value(variables.clone()).unwrap_or_default();
    Ok(execute::complexity(&document, &variables))
}

/// How Linear refuses for now.
fn limited() -> (u16, Value) {
    let extensions = json!({
        "code": "RATELIMITED",
        "type": "ratelimited",
        "userPresentableMessage": "Rate limit exceeded. Please try again later.",
    });
    (400, json!({ "errors": [{ "message": "Rate limit exceeded", "extensions": extensions }] }))
}
