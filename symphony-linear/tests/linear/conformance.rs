//! The conformance kit on the adapter, over HTTP to the fake.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use symphony_core::conformance::tracker::{Fault as Trouble, Seed};
use symphony_core::conformance::{Able, TrackerFixture};
use symphony_core::tracker::{ToolCall, Tracker};
use symphony_core::{IssueId, StateName};
use symphony_linear::{LINEAR_GRAPHQL, LinearFactory, PAGE_SIZE};
use symphony_linear_fake::{Fake, FakeFault, FakeIssue, FakeLimits, FakeServer};
use tokio::runtime::Runtime;

use crate::harness;

/// A project of the fake, read over loopback.
struct Project {
    runtime: Runtime,
    fake: Fake,
    _server: FakeServer,
    tracker: Arc<dyn Tracker>,
}

impl Project {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let fake = Fake::new();
        // The kit asks more often within a second than a key would last.
        fake.set_limits(FakeLimits {
            requests: 100_000,
            points: 100_000_000,
            ..FakeLimits::default()
        });
        let server = runtime.block_on(FakeServer::start(fake.clone())).unwrap();
        let settings =
            harness::settings(&json!({ "endpoint": server.endpoint(), "assignee": "me" }));
        let tracker = harness::try_build(&LinearFactory::new(), &settings, &[]).unwrap().tracker;
        Self { runtime, fake, _server: server, tracker }
    }

    fn issue(&self, seed: Seed) -> FakeIssue {
        let number = self.fake.world().issues.len() + 1;
        // Linear's ids look like this, and not like identifiers.
        let id = format!("5f0c8a52-7c1e-4b7e-9d43-{number:012}");
        let issue = FakeIssue { id, ..FakeIssue::new(number) };
        let created_at = seed.created_at.map_or(issue.created_at.clone(), |at| at.to_string());
        FakeIssue {
            title: seed.title,
            state: seed.state.to_string(),
            labels: seed.labels,
            priority: u8::try_from(seed.priority.unwrap_or(0)).unwrap(),
            created_at,
            blocked_by: seed.blocked_by.iter().map(ToString::to_string).collect(),
            assignee: seed.dispatchable.then(|| "robot@example.com".to_owned()),
            ..issue
        }
    }
}

impl TrackerFixture for Project {
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        let limit = Duration::from_secs(60);
        self.runtime.block_on(async { tokio::time::timeout(limit, future).await.unwrap() })
    }

    fn tracker(&self) -> Arc<dyn Tracker> {
        Arc::clone(&self.tracker)
    }

    fn states(&self) -> [StateName; 2] {
        ["In Progress", "Human Review"].map(StateName::from)
    }

    fn put(&self, seed: Seed) -> Able<IssueId> {
        let issue = self.issue(seed);
        let id = issue.id.clone();
        self.fake.put([issue]);
        Ok(id.into())
    }

    fn move_to(&self, id: &IssueId, state: &StateName) {
        assert!(self.fake.move_to(id.as_str(), state.as_str()));
    }

    fn remove(&self, id: &IssueId) {
        self.fake.change(|world| world.issues.retain(|issue| issue.id != id.as_str()));
    }

    fn requests(&self) -> u64 {
        self.fake.requests()
    }

    fn put_outside(&self, seed: Seed) -> Able<IssueId> {
        let issue = FakeIssue { project: Some("def456".to_owned()), ..self.issue(seed) };
        let id = issue.id.clone();
        self.fake.put([issue]);
        Ok(id.into())
    }

    fn spoil(&self, id: &IssueId) -> Able {
        let spoil = |issue: &mut FakeIssue| issue.spoiled.push("title".to_owned());
        assert!(self.fake.change(|world| world.edit(id.as_str(), spoil)));
        Ok(())
    }

    fn fail(&self, trouble: Option<Trouble>) -> Able {
        self.fake.fail(trouble.map(|trouble| match trouble {
            Trouble::Unreachable => FakeFault::Close,
            Trouble::Status => FakeFault::answer(500, "oops"),
            Trouble::Nonsense => FakeFault::html(200),
            Trouble::RateLimited(span) => {
                FakeFault::RateLimited { retry_after: Some(span.as_secs()) }
            }
            Trouble::LaterPage => FakeFault::LaterPage,
        }));
        Ok(())
    }

    fn page_size(&self) -> Able<usize> {
        Ok(PAGE_SIZE)
    }

    fn move_call(&self, issue: &Arc<symphony_core::Issue>, state: &StateName) -> Able<ToolCall> {
        let query = "mutation($id: String!, $state: String!) {
            issueUpdate(id: $id, input: { stateId: $state }) { success }
        }";
        let state = format!("state-MT-{}", state.as_str().to_lowercase().replace(' ', "-"));
        let arguments = json!({ "query": query, "variables": { "id": issue.id, "state": state } });
        let (name, issue) = (LINEAR_GRAPHQL.to_owned(), Arc::clone(issue));
        Ok(ToolCall { name, arguments, issue })
    }
}

mod over_http {
    symphony_core::tracker_conformance!(super::Project::new());
}
