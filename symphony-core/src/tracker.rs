//! What an issue tracker must be able to do (contract section 11).
//!
//! An adapter is a [`TrackerFactory`], registered under the name that `tracker.kind` uses, and the
//! [`Tracker`] it builds. The `conformance` feature has one test per rule for it.

use std::error::Error;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::budget::{BudgetView, Spent};
use crate::env::Env;
use crate::failure::{Failure, FailureKind, chain};
use crate::finding::Finding;
use crate::issue::{Issue, IssueId};
use crate::settings::{BudgetSettings, Settings, StateSet, TrackerSettings};
use crate::time::Wall;
use crate::webhook::Webhook;
use crate::workspace::Scope;

/// Reads one tracker scope.
///
/// Every call is bounded in time by the caller and safe to drop at any await. Results are complete
/// or an error, never a part that looks like the whole.
#[async_trait]
pub trait Tracker: fmt::Debug + Send + Sync {
    /// Answers one poll in as few requests as the tracker allows, with separate results for the list
    /// and for the ids.
    ///
    /// - Issues are full snapshots, whether dispatchable or not.
    /// - A list holds the issues of the scope in the states asked for. A malformed record is dropped
    ///   with one log line (1.3).
    /// - Ids are a set. What is gone or out of scope is omitted, and omission means exactly that: a
    ///   record that cannot be read is in [`unreadable`](IssuesById::unreadable).
    /// - Each result is complete or an error: a failed page fails its part.
    /// - What is empty makes no request.
    /// - When its [`Budget`](crate::budget::Budget) refuses the list, the ids are read all the same:
    ///   candidates give way first (12.6).
    ///
    /// An adapter that has two plain reads is a [`ReadIssues`] in [`TwoReads`].
    async fn poll(&self, poll: &Poll) -> Polled;

    /// Finds one issue of the scope by its id or its identifier, in whatever state it is: for a
    /// person who asks about it (11.8).
    ///
    /// As it stands, this looks for the id alone. An adapter whose ids are not its identifiers
    /// looks for both.
    ///
    /// # Errors
    /// When the tracker cannot be read, or the issue's record cannot.
    async fn find(&self, name: &str) -> Result<Option<Issue>, TrackerError> {
        let poll = Poll::of_ids(Purpose::Manual, vec![name.into()]);
        self.poll(&poll).await.by_id?.into_one()
    }

    /// The tools that an agent gets for this tracker. A session keeps the ones it began with.
    fn tools(&self) -> Option<Arc<dyn AgentTools>>;

    /// Reads what the tracker delivers by itself, where it can and a secret is known (12.8).
    fn webhook(&self) -> Option<Arc<dyn Webhook>> {
        None
    }

    /// Takes in the day's requests of an earlier life, before the first read (12.4).
    ///
    /// An adapter with a [`Budget`](crate::budget::Budget) goes on with them; others need not care.
    fn resume(&self, _: &Spent) {}

    /// Looks whether it could work with these settings: whose credential it is, whether the
    /// project and the states exist, how many issues would be candidates now. A few reads.
    async fn examine(&self, _: &Settings) -> Vec<Finding> {
        Vec::new()
    }
}

/// One part of [`Tracker::poll`] alone, as commands and tests ask for it.
#[async_trait]
pub trait TrackerExt: Tracker {
    /// Reads all issues of the scope in these states.
    ///
    /// # Errors
    /// As [`Tracker::poll`] has them for its list.
    async fn fetch_issues_by_states(&self, states: &StateSet) -> Result<Vec<Issue>, TrackerError> {
        let polled = self.poll(&Poll::of_states(Purpose::Sweep, states.clone())).await;
        polled.candidates.map_or_else(|| Ok(Vec::new()), |list| Ok(list?.issues))
    }

    /// Reads the issues with these ids.
    ///
    /// # Errors
    /// As [`Tracker::poll`] has them for its ids.
    async fn fetch_issues_by_ids(&self, ids: &[IssueId]) -> Result<IssuesById, TrackerError> {
        self.poll(&Poll::of_ids(Purpose::Check, ids.to_vec())).await.by_id
    }
}

impl<T: Tracker + ?Sized> TrackerExt for T {}

/// What one poll asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Poll {
    /// What it is for: the tracker's budget ranks its requests by it (12.6).
    pub purpose: Purpose,
    /// Candidates, unless no slot is free or nothing may start.
    pub candidates: Option<CandidateQuery>,
    /// Issues to read by id.
    pub ids: Vec<IssueId>,
}

impl Poll {
    /// Asks for these issues alone.
    #[must_use]
    pub const fn of_ids(purpose: Purpose, ids: Vec<IssueId>) -> Self {
        Self { purpose, candidates: None, ids }
    }

    /// Asks for all issues in these states alone.
    #[must_use]
    pub const fn of_states(purpose: Purpose, states: StateSet) -> Self {
        let candidates = Some(CandidateQuery { states, enough: usize::MAX });
        Self { purpose, candidates, ids: Vec::new() }
    }
}

/// What a read is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Finding issues to start.
    Candidates,
    /// Reading claimed issues again.
    Refresh,
    /// Finding workspaces to remove.
    Sweep,
    /// Reading chosen issues and due retries before they start.
    Check,
    /// Reading issues whose turn ended.
    Turn,
    /// Reading issues that a delivery is about, or that an ended issue let go.
    Delivery,
    /// Reading claimed issues and candidates because an operator asked for it.
    Manual,
}

impl Purpose {
    /// The name used in counts.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Candidates => "candidates",
            Self::Refresh => "refresh",
            Self::Sweep => "sweep",
            Self::Check => "check",
            Self::Turn => "turn",
            Self::Delivery => "delivery",
            Self::Manual => "manual",
        }
    }
}

/// Which candidates are asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CandidateQuery {
    /// The states to look in.
    pub states: StateSet,
    /// A tracker whose order is that of contract 5.3 may stop when it knows this many.
    pub enough: usize,
}

/// What one poll found.
#[derive(Debug)]
#[non_exhaustive]
pub struct Polled {
    /// The candidates, if they were asked for.
    pub candidates: Option<Result<Candidates, TrackerError>>,
    /// The issues read by id.
    pub by_id: Result<IssuesById, TrackerError>,
    /// When the tracker would like to be asked again.
    pub next_poll: Option<Duration>,
    /// How many requests it took.
    pub requests: u32,
    /// What is left of the budget, where there is one.
    pub budget: Option<BudgetView>,
}

impl Polled {
    /// Makes the answer of a poll that took one request and says nothing about a budget.
    #[must_use]
    pub const fn new(
        candidates: Option<Result<Candidates, TrackerError>>,
        by_id: Result<IssuesById, TrackerError>,
    ) -> Self {
        Self { candidates, by_id, next_poll: None, requests: 1, budget: None }
    }
}

/// A list of issues in the states that were asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Candidates {
    /// The issues that were found.
    pub issues: Vec<Issue>,
    /// Whether the tracker stopped early because enough were known.
    pub more: bool,
}

impl Candidates {
    /// Makes a list; `more` says that the tracker has others.
    #[must_use]
    pub const fn new(issues: Vec<Issue>, more: bool) -> Self {
        Self { issues, more }
    }
}

/// What a read by id found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct IssuesById {
    /// The issues that exist in the scope.
    pub found: Vec<Issue>,
    /// The issues whose record could not be read: their refresh failed, no more is known.
    pub unreadable: Vec<Unreadable>,
}

impl IssuesById {
    /// Makes the answer of a read by id.
    #[must_use]
    pub const fn new(found: Vec<Issue>, unreadable: Vec<Unreadable>) -> Self {
        Self { found, unreadable }
    }

    /// The answer to a read of one id, which finds one issue or none.
    ///
    /// # Errors
    /// The record of the issue could not be read.
    pub fn into_one(self) -> Result<Option<Issue>, TrackerError> {
        match self.unreadable.into_iter().next() {
            None => Ok(self.found.into_iter().next()),
            Some(unreadable) => Err(unreadable.into()),
        }
    }
}

/// An issue whose record could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreadable {
    /// The id that was asked for.
    pub id: IssueId,
    /// Why its record could not be read.
    pub message: String,
}

impl From<Unreadable> for TrackerError {
    /// For a caller that wanted this issue alone.
    fn from(Unreadable { id, message }: Unreadable) -> Self {
        let message = format!("the record of {id} cannot be read: {message}");
        Self::new(TrackerErrorKind::Response, message)
    }
}

/// Reads lists and single issues, each in a request of its own: all that an adapter with nothing
/// special has to do. [`TwoReads`] makes a [`Tracker`] of it.
#[async_trait]
pub trait ReadIssues: fmt::Debug + Send + Sync {
    /// Reads all issues of the scope in these states, of which there is at least one.
    ///
    /// # Errors
    /// A failed page fails the read.
    async fn by_states(&self, states: &StateSet) -> Result<Vec<Issue>, TrackerError>;

    /// Reads these issues, of which there is at least one. What is gone or out of scope is omitted;
    /// what cannot be read is [`unreadable`](IssuesById::unreadable).
    ///
    /// # Errors
    /// A failed page fails the read.
    async fn by_ids(&self, ids: &[IssueId]) -> Result<IssuesById, TrackerError>;

    /// Finds one issue as [`Tracker::find`] does. As it stands, by its id alone.
    ///
    /// # Errors
    /// When the tracker cannot be read, or the issue's record cannot.
    async fn find(&self, name: &str) -> Result<Option<Issue>, TrackerError> {
        self.by_ids(&[name.into()]).await?.into_one()
    }

    /// The tools that an agent gets for this tracker.
    fn tools(&self) -> Option<Arc<dyn AgentTools>> {
        None
    }
}

/// A [`Tracker`] that answers a poll with up to two reads, each counted as one request.
#[derive(Clone, Debug)]
pub struct TwoReads<T>(pub T);

#[async_trait]
impl<T: ReadIssues> Tracker for TwoReads<T> {
    async fn poll(&self, poll: &Poll) -> Polled {
        let mut requests = 0;
        let candidates = match &poll.candidates {
            None => None,
            Some(query) if query.states.is_empty() => Some(Ok(Candidates::default())),
            Some(query) => {
                requests += 1;
                let issues = self.0.by_states(&query.states).await;
                Some(issues.map(|issues| Candidates { issues, more: false }))
            }
        };
        let by_id = if poll.ids.is_empty() {
            Ok(IssuesById::default())
        } else {
            requests += 1;
            self.0.by_ids(&poll.ids).await
        };
        Polled { candidates, by_id, next_poll: None, requests, budget: None }
    }

    async fn find(&self, name: &str) -> Result<Option<Issue>, TrackerError> {
        self.0.find(name).await
    }

    fn tools(&self) -> Option<Arc<dyn AgentTools>> {
        self.0.tools()
    }
}

/// Builds trackers of one kind.
pub trait TrackerFactory: fmt::Debug + Send + Sync {
    /// The name that `tracker.kind` uses.
    fn kind(&self) -> &str;

    /// What is known before any instance exists.
    fn profile(&self) -> &TrackerProfile;

    /// Builds a tracker, resolving and checking the adapter's own settings.
    ///
    /// # Errors
    /// `invalid_tracker_config` and `missing_tracker_secret` name the key and what to do.
    fn build(&self, cx: &TrackerContext<'_>) -> Result<BuiltTracker, TrackerError>;
}

/// What a factory knows of its kind of tracker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrackerProfile {
    /// States to work on when the file names none.
    pub active_states: StateSet,
    /// States that mean the end when the file names none.
    pub terminal_states: StateSet,
    /// The least time between two reads that refill freed slots (contract 4.6).
    pub min_read_gap: Duration,
    /// The keys of `tracker.provider` that the adapter reads.
    pub provider_keys: Vec<&'static str>,
    /// Those of them whose value is a secret.
    pub secret_keys: Vec<&'static str>,
}

impl TrackerProfile {
    /// Makes a profile with these default states, no pause between reads and no keys.
    #[must_use]
    pub fn new(active_states: StateSet, terminal_states: StateSet) -> Self {
        Self { active_states, terminal_states, ..Self::default() }
    }
}

/// What a factory builds from.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct TrackerContext<'a> {
    /// `tracker.*`, with `provider` unresolved.
    pub tracker: &'a TrackerSettings,
    /// `polling.budget.*`
    pub budget: &'a BudgetSettings,
    /// The service's environment.
    pub env: &'a dyn Env,
    /// The folder of the workflow file, from which relative paths resolve (2.4).
    pub folder: Option<&'a Path>,
}

impl<'a> TrackerContext<'a> {
    /// A context of these parts.
    #[must_use]
    pub fn new(tracker: &'a TrackerSettings, budget: &'a BudgetSettings, env: &'a dyn Env) -> Self {
        Self { tracker, budget, env, folder: None }
    }

    /// With the folder of the workflow file.
    #[must_use]
    pub const fn in_folder(mut self, folder: &'a Path) -> Self {
        self.folder = Some(folder);
        self
    }
}

/// A tracker, ready to be read.
#[derive(Debug)]
#[non_exhaustive]
pub struct BuiltTracker {
    /// The tracker itself.
    pub tracker: Arc<dyn Tracker>,
    /// The part of the tracker that it reads.
    pub scope: Scope,
    /// Environment variables that hold secrets: removed from every child (2.9).
    pub secret_names: Vec<String>,
}

impl BuiltTracker {
    /// Makes a tracker of this scope that needs no secrets.
    #[must_use]
    pub fn new(tracker: Arc<dyn Tracker>, scope: Scope) -> Self {
        Self { tracker, scope, secret_names: Vec::new() }
    }

    /// Names the environment variables that hold its secrets.
    #[must_use]
    pub fn with_secret_names(mut self, names: Vec<String>) -> Self {
        self.secret_names = names;
        self
    }
}

/// Why a tracker could not answer.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct TrackerError {
    /// The category, the only part that decides anything.
    pub kind: TrackerErrorKind,
    /// What people read: this layer's part only.
    pub message: String,
    /// When to ask again, where known.
    pub retry_at: Option<Wall>,
    /// The error that caused this one.
    #[source]
    pub source: Option<Box<dyn Error + Send + Sync>>,
}

/// The categories of contract 11.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TrackerErrorKind {
    /// The settings cannot work.
    InvalidConfig,
    /// A secret is not there.
    MissingSecret,
    /// The request did not get through, or ran out of time.
    Request,
    /// The tracker answered that it did not work.
    Status,
    /// The answer cannot be understood.
    Response,
    /// The pages do not fit together.
    Pagination,
    /// The tracker, or our own budget, refuses for now.
    RateLimited,
}

impl TrackerErrorKind {
    /// The name of the contract.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidConfig => "invalid_tracker_config",
            Self::MissingSecret => "missing_tracker_secret",
            Self::Request => "tracker_request",
            Self::Status => "tracker_status",
            Self::Response => "tracker_response",
            Self::Pagination => "tracker_pagination",
            Self::RateLimited => "tracker_rate_limited",
        }
    }
}

impl TrackerError {
    /// An error without a cause.
    #[must_use]
    pub fn new(kind: TrackerErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_at: None, source: None }
    }

    /// Sets the error that caused this one.
    #[must_use]
    pub fn with_source(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    /// Sets the time at which to ask again.
    #[must_use]
    pub const fn with_retry_at(mut self, at: Option<Wall>) -> Self {
        self.retry_at = at;
        self
    }

    /// Converts it for the scheduler: the whole chain in one line, and a span instead of a time.
    #[must_use]
    pub fn to_failure(&self, now: Wall) -> Failure {
        let message = chain(self);
        Failure::new(FailureKind::Tracker(self.kind), message)
            .with_retry_after(self.retry_at.and_then(|at| now.until(at)))
    }
}

/// The tools that a tracker gives to agents. They run in Symphony, with its credential.
#[async_trait]
pub trait AgentTools: fmt::Debug + Send + Sync {
    /// What the agent is told about them.
    fn specs(&self) -> Vec<ToolSpec>;

    /// Runs one call. A failure is a result too: the session goes on (contract 10.7).
    async fn call(&self, call: ToolCall) -> ToolResult;
}

/// One tool, as the agent sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolSpec {
    /// The name that the agent calls it by.
    pub name: String,
    /// What it does, for the agent.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub input_schema: Value,
}

impl ToolSpec {
    /// Describes a tool; the schema is that of its arguments.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        input_schema: Value,
    ) -> Self {
        Self { name: name.into(), description: description.into(), input_schema }
    }
}

/// One call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The name of the tool.
    pub name: String,
    /// Its arguments, unchecked.
    pub arguments: Value,
    /// The issue the session works on.
    pub issue: Arc<Issue>,
}

/// What a tool answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolResult {
    /// Whether it did what was asked.
    pub success: bool,
    /// The text that the agent reads.
    pub text: String,
    /// Whether it changed the tracker, or may have: an issue that is seen over after such a call
    /// was probably moved by its own agent, whose turn is then not cut off (contract 8.2).
    #[serde(default)]
    pub changed: bool,
}

impl ToolResult {
    /// The call did what was asked, and changed nothing in the tracker.
    #[must_use]
    pub fn success(text: impl Into<String>) -> Self {
        Self { success: true, text: text.into(), changed: false }
    }

    /// The call did not do what was asked; the text says why.
    #[must_use]
    pub fn failure(text: impl Into<String>) -> Self {
        Self { success: false, text: text.into(), changed: false }
    }

    /// The call changed the tracker, or may have.
    #[must_use]
    pub const fn with_change(mut self, changed: bool) -> Self {
        self.changed = changed;
        self
    }
}
