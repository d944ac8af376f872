//! Adapters that an embedder has made already: instances that reloads do not replace.

use std::sync::Arc;

use symphony_core::agent::{AgentBackend, AgentError, AgentFactory};
use symphony_core::env::Env;
use symphony_core::tracker::{
    BuiltTracker, Tracker, TrackerContext, TrackerError, TrackerFactory, TrackerProfile,
};
use symphony_core::{Scope, Settings};

/// A tracker that is there already, under the name that `tracker.kind` uses.
#[derive(Debug)]
pub struct FixedTracker {
    kind: String,
    profile: TrackerProfile,
    tracker: Arc<dyn Tracker>,
}

impl FixedTracker {
    /// This tracker, which leaves its states to the settings.
    #[must_use]
    pub fn new(kind: &str, tracker: Arc<dyn Tracker>) -> Self {
        Self { kind: kind.to_owned(), profile: TrackerProfile::default(), tracker }
    }

    /// With default states and the like.
    #[must_use]
    pub fn with_profile(mut self, profile: TrackerProfile) -> Self {
        self.profile = profile;
        self
    }
}

impl TrackerFactory for FixedTracker {
    fn kind(&self) -> &str {
        &self.kind
    }

    fn profile(&self) -> &TrackerProfile {
        &self.profile
    }

    fn build(&self, _: &TrackerContext<'_>) -> Result<BuiltTracker, TrackerError> {
        let tracker = Arc::clone(&self.tracker);
        // One instance sees one scope, and its kind is its name.
        Ok(BuiltTracker::new(tracker, Scope::from(self.kind.as_str())))
    }
}

/// An agent backend that is there already, under the name that `agent.kind` uses.
#[derive(Debug)]
pub struct FixedAgent {
    kind: String,
    backend: Arc<dyn AgentBackend>,
}

impl FixedAgent {
    /// This backend.
    #[must_use]
    pub fn new(kind: &str, backend: Arc<dyn AgentBackend>) -> Self {
        Self { kind: kind.to_owned(), backend }
    }
}

impl AgentFactory for FixedAgent {
    fn kind(&self) -> &str {
        &self.kind
    }

    fn build(&self, _: &Settings, _: &dyn Env) -> Result<Arc<dyn AgentBackend>, AgentError> {
        Ok(Arc::clone(&self.backend))
    }
}
