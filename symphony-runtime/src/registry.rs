//! The adapters a service can choose from, by the names that workflow files use.

use std::collections::BTreeMap;
use std::sync::Arc;

use symphony_core::agent::AgentFactory;
use symphony_core::tracker::TrackerFactory;

/// Factories by kind.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    trackers: BTreeMap<String, Arc<dyn TrackerFactory>>,
    agents: BTreeMap<String, Arc<dyn AgentFactory>>,
}

impl Registry {
    /// Adds a kind of tracker; a later one of the same kind replaces it.
    pub fn add_tracker(&mut self, factory: Arc<dyn TrackerFactory>) {
        self.trackers.insert(factory.kind().to_owned(), factory);
    }

    /// Adds a kind of agent; a later one of the same kind replaces it.
    pub fn add_agent(&mut self, factory: Arc<dyn AgentFactory>) {
        self.agents.insert(factory.kind().to_owned(), factory);
    }

    /// The kinds of tracker.
    pub fn trackers(&self) -> impl Iterator<Item = &Arc<dyn TrackerFactory>> {
        self.trackers.values()
    }

    /// The kinds of agent.
    pub fn agents(&self) -> impl Iterator<Item = &Arc<dyn AgentFactory>> {
        self.agents.values()
    }

    /// The factory of this kind of tracker.
    #[must_use]
    pub fn tracker(&self, kind: &str) -> Option<&Arc<dyn TrackerFactory>> {
        self.trackers.get(kind)
    }

    /// The factory of this kind of agent.
    #[must_use]
    pub fn agent(&self, kind: &str) -> Option<&Arc<dyn AgentFactory>> {
        self.agents.get(kind)
    }
}
