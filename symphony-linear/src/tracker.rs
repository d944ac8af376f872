//! The tracker: what Symphony asks of Linear, and what is remembered between two reads.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use symphony_core::budget::Spent;
use symphony_core::finding::Finding;
use symphony_core::time::Mono;
use symphony_core::tracker::{
    AgentTools, CandidateQuery, Candidates, Poll, Polled, Purpose, Tracker, TrackerError,
};
use symphony_core::webhook::Webhook;
use symphony_core::{Issue, Settings, StateName, StateSet, plain};
use tracing::warn;

use crate::client::Client;
use crate::complexity::CANDIDATES_PER_PAGE;
use crate::config::{LinearConfig, ToolMode};
use crate::error::LinearError;
use crate::examine::examine;
use crate::factory::default_states;
use crate::normal::Flaw;
use crate::order::SortOrder;
use crate::queries;
use crate::reading::Reading;
use crate::scope::Surroundings;
use crate::tool::LinearGraphql;

/// How often project, team and states are looked at again. They travel with a poll.
const SCOPE_REFRESH_INTERVAL: Duration = Duration::from_secs(3600);

/// The smallest page that is tried when answers are too large.
const MIN_PAGE: i32 = 5;

/// How many different complaints are remembered, so that each is logged once.
const MAX_LOGGED_COMPLAINTS: usize = 1000;

/// How much of a foreign text goes into a log line.
const MAX_TEXT_BYTES: usize = 500;

/// One project or team of Linear.
#[derive(Debug)]
pub struct LinearTracker {
    pub(crate) client: Arc<Client>,
    pub(crate) config: Arc<LinearConfig>,
    pub(crate) order: SortOrder,
    page: AtomicI32,
    scope: Mutex<ScopeFacts>,
    told: Mutex<BTreeSet<String>>,
}

/// What is known of the surroundings.
#[derive(Debug, Default)]
struct ScopeFacts {
    seen: Option<Mono>,
    found: Surroundings,
    problem: Option<LinearError>,
}

impl LinearTracker {
    pub(crate) fn new(client: Arc<Client>, config: Arc<LinearConfig>) -> Self {
        Self {
            client,
            config,
            order: SortOrder::default(),
            page: AtomicI32::new(CANDIDATES_PER_PAGE),
            scope: Mutex::default(),
            told: Mutex::default(),
        }
    }

    /// How many candidates are asked for at once.
    pub(crate) fn page_size(&self) -> i32 {
        self.page.load(Ordering::Relaxed)
    }

    /// An answer was too large to be read: the next ones are smaller.
    pub(crate) fn shrink_pages(&self) {
        let smaller = (self.page_size() / 2).max(MIN_PAGE);
        self.page.store(smaller, Ordering::Relaxed);
        warn!(page = smaller, "Linear's answer was too large; pages are smaller from now on");
    }

    /// Whether the next poll is to look at project, team and states.
    pub(crate) fn is_scope_refresh_due(&self) -> bool {
        let scope = self.scope();
        let age = scope.seen.map(|at| self.client.now().mono.since(at));
        scope.problem.is_some() || age.is_none_or(|age| age >= SCOPE_REFRESH_INTERVAL)
    }

    /// What makes every candidate read wrong.
    pub(crate) fn scope_problem(&self) -> Option<LinearError> {
        self.scope().problem.clone()
    }

    /// What was last seen of project, team and states.
    pub(crate) fn surroundings(&self) -> Surroundings {
        self.scope().found.clone()
    }

    /// Takes in what a poll saw of the surroundings, and tells of states that do not exist.
    pub(crate) fn update_scope(&self, answer: &queries::Poll) {
        let seen = Some(self.client.now().mono);
        match Surroundings::read(&self.config.board, answer) {
            Ok(found) => {
                for name in self.doubtful_states(&found) {
                    if self.report_once(&format!("state {}", name.key())) {
                        let state = plain(name.as_str(), MAX_TEXT_BYTES);
                        let known = plain(&found.known(), MAX_TEXT_BYTES);
                        warn!(state, known, "no workflow state in Linear has this name");
                    }
                }
                *self.scope() = ScopeFacts { seen, found, problem: None };
            }
            Err(problem) => {
                *self.scope() =
                    ScopeFacts { seen, found: Surroundings::default(), problem: Some(problem) };
            }
        }
    }

    /// States that the file names and Linear does not have. Of the terminal ones that stand where
    /// the file names none, most are always missing.
    pub(crate) fn doubtful_states<'c>(&'c self, found: &Surroundings) -> Vec<&'c StateName> {
        let tracker = &self.config.tracker;
        let (active, terminal) = (&tracker.active_states, &tracker.terminal_states);
        let mut names = found.unknown(active);
        if *terminal != default_states().1 {
            names.extend(found.unknown(terminal));
        }
        names
    }

    /// Logs a record that is not an issue, once for each.
    pub(crate) fn log_flaw(&self, flaw: &Flaw) {
        if self.report_once(&format!("flaw {} {}", flaw.id, flaw.message)) {
            let (issue_id, error) =
                (plain(flaw.id.as_str(), 100), plain(&flaw.message, MAX_TEXT_BYTES));
            warn!(issue_id, error, "a record of Linear is not an issue; it is left out");
        }
    }

    fn report_once(&self, what: &str) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.len() < MAX_LOGGED_COMPLAINTS && told.insert(what.to_owned())
    }

    fn scope(&self) -> MutexGuard<'_, ScopeFacts> {
        self.scope.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All issues in these states.
    pub(crate) async fn list(&self, states: &StateSet) -> Result<Vec<Issue>, LinearError> {
        let query = CandidateQuery { states: states.clone(), enough: usize::MAX };
        let mut reading = Reading::new(self, Purpose::Sweep);
        let (candidates, _) = reading.read(Some(&query), &[]).await;
        candidates.unwrap_or_else(|| Ok(Candidates::default())).map(|list| list.issues)
    }
}

#[async_trait]
impl Tracker for LinearTracker {
    async fn poll(&self, poll: &Poll) -> Polled {
        let mut reading = Reading::new(self, poll.purpose);
        let (candidates, by_id) = reading.read(poll.candidates.as_ref(), &poll.ids).await;
        let asked = poll.candidates.as_ref();
        let candidates = asked.map(|_| candidates.unwrap_or_else(|| Ok(Candidates::default())));
        let mut polled = Polled::new(
            candidates.map(|result| result.map_err(TrackerError::from)),
            by_id.map_err(TrackerError::from),
        );
        polled.requests = reading.made;
        polled.budget = Some(self.client.view());
        polled
    }

    async fn find(&self, name: &str) -> Result<Option<Issue>, TrackerError> {
        Reading::new(self, Purpose::Manual).find(name).await?.into_one()
    }

    fn tools(&self) -> Option<Arc<dyn AgentTools>> {
        let read_only = match self.config.tool {
            ToolMode::Off => return None,
            ToolMode::ReadOnly => true,
            ToolMode::ReadWrite => false,
        };
        Some(Arc::new(LinearGraphql::new(
            Arc::clone(&self.client),
            read_only,
            self.config.tracker.timeout,
        )))
    }

    fn webhook(&self) -> Option<Arc<dyn Webhook>> {
        let webhook = self.config.webhook.as_ref()?;
        Some(Arc::clone(webhook) as Arc<dyn Webhook>)
    }

    fn resume(&self, spent: &Spent) {
        self.client.resume(self.config.budget.clone(), spent);
    }

    async fn examine(&self, _: &Settings) -> Vec<Finding> {
        examine(self).await
    }
}
