//! A board under the settings of one workflow file.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use symphony_core::tracker::{AgentTools, ById, Poll, Polled, Tracker, TrackerError};
use symphony_core::{Issue, IssueId, StateName, StateSet};

use crate::seeds::Seeds;
use crate::tracker::MemoryTracker;

/// What a workflow file says about a board.
#[derive(Debug)]
pub(crate) struct Configuration {
    /// The states that the settings name.
    pub(crate) states: Vec<StateName>,
    /// Inline issues, unless there is a board file.
    pub(crate) seeds: Option<Seeds>,
    pub(crate) write_back: bool,
}

/// A tracker as a factory builds it.
///
/// Builds share a board, and one that is thrown away must leave no trace: a workflow file that
/// turns out to be invalid never takes effect (contract 2.6). So the configuration is put to the
/// board at the first use, not before.
#[derive(Debug)]
pub(crate) struct Configured {
    tracker: MemoryTracker,
    first: Mutex<Option<Configuration>>,
}

impl Configured {
    pub(crate) const fn new(tracker: MemoryTracker, configuration: Configuration) -> Self {
        Self { tracker, first: Mutex::new(Some(configuration)) }
    }

    fn board(&self) -> &MemoryTracker {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(configuration) = first.take() {
            self.tracker.configure(configuration);
        }
        &self.tracker
    }
}

#[async_trait]
impl Tracker for Configured {
    async fn fetch_issues_by_states(&self, states: &StateSet) -> Result<Vec<Issue>, TrackerError> {
        self.board().fetch_issues_by_states(states).await
    }

    async fn fetch_issues_by_ids(&self, ids: &[IssueId]) -> Result<ById, TrackerError> {
        self.board().fetch_issues_by_ids(ids).await
    }

    async fn poll(&self, poll: &Poll) -> Polled {
        self.board().poll(poll).await
    }

    fn tools(&self) -> Option<Arc<dyn AgentTools>> {
        self.board().tools()
    }
}
