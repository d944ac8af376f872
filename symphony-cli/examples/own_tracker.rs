//! The command `symphony` with a tracker of your own.
//!
//!     cargo run -p symphony-cli --example own_tracker -- check WORKFLOW.md

use std::process::ExitCode;
use std::sync::Arc;

use symphony_core::tracker::{IssuesById, ReadIssues, TrackerError, TrackerProfile, TwoReads};
use symphony_core::{Issue, IssueId, StateSet, async_trait};
use symphony_runtime::FixedTracker;

fn main() -> ExitCode {
    symphony_cli::main_with(|| {
        let mut registry = symphony_cli::registry();
        let mut profile = TrackerProfile::default();
        profile.active_states = StateSet::new(["Broken"]);
        profile.terminal_states = StateSet::new(["Fixed"]);
        let door = FixedTracker::new("door", Arc::new(TwoReads(Door)));
        registry.add_tracker(Arc::new(door.with_profile(profile)));
        registry
    })
}

/// A tracker of one issue: `tracker.kind: door`.
#[derive(Debug)]
struct Door;

impl Door {
    fn issue() -> Option<Issue> {
        Issue::new("1", "D-1", "Fix the door", "Broken").ok()
    }
}

#[async_trait]
impl ReadIssues for Door {
    async fn by_states(&self, states: &StateSet) -> Result<Vec<Issue>, TrackerError> {
        Ok(Self::issue().into_iter().filter(|issue| states.contains(&issue.state)).collect())
    }

    async fn by_ids(&self, ids: &[IssueId]) -> Result<IssuesById, TrackerError> {
        let found = Self::issue().into_iter().filter(|issue| ids.contains(&issue.id));
        Ok(IssuesById::new(found.collect(), Vec::new()))
    }
}
