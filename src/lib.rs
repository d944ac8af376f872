//! Symphony turns an issue tracker into finished work: it polls the tracker, decides which issues to
//! work on, gives each a workspace, runs a coding agent there, watches, continues, retries, stops and
//! cleans up. This crate puts it into your own program: one dependency.
//!
//! ```toml
//! [dependencies]
//! symphony = { git = "...", default-features = false, features = ["codex", "linear"] }
//! tokio = { version = "1", features = ["fs", "macros", "rt-multi-thread", "signal"] }
//! tracing-subscriber = "0.3"
//! ```
//!
//! # I want to ...
//!
//! | I want to | look at |
//! |---|---|
//! | run a `WORKFLOW.md`, and nothing else | [`run_workflow`] |
//! | make the settings in code | [`ServiceBuilder::settings`], [`core::Settings`] |
//! | change them, or the prompt, while it runs | [`Handle::set_settings`], [`Handle::set_prompt`] |
//! | make the prompt with a function of mine | [`ServiceBuilder::prompt_with`] |
//! | hear of what happens | [`Handle::subscribe`], [`core::orchestrator::NoticeKind`] |
//! | look at what runs, waits and is blocked | [`Handle::snapshot`], [`Handle::snapshots`] |
//! | know why nothing happens | [`Handle::explain`] |
//! | pause, stop an issue, try one again | [`Handle::pause`], [`Handle::stop`], [`Handle::retry`] |
//! | know what is doubtful in the settings | [`Service::warnings`], [`Handle::warnings`] |
//! | run a job of mine now and then | [`ServiceBuilder::job`] |
//! | run code around each run, instead of shell scripts | [`ServiceBuilder::hooks`], [`core::hooks::WorkspaceHooks`] |
//! | read another tracker | [`core::tracker::ReadIssues`], [`core::tracker::Tracker`] |
//! | run another agent | [`core::agent::AgentBackend`] |
//! | check that an adapter keeps the contract | `core::conformance`, with the feature `conformance` of `symphony-core` |
//! | check a workflow file without running it | [`inspect`], [`Usable::examine`], [`Usable::dry_run`] |
//! | test what I have built, without network and waiting | the last section of this page |
//! | serve the dashboard and the API | `http`, with the feature of that name |
//! | talk to a service that runs elsewhere | [`api`], with the feature `client` |
//!
//! `docs/guide/embedding.md` goes through them one by one. The rules behind them are in
//! `docs/design/contract.md`.
//!
//! # Embed it
//!
//! Settings made in code, a handle to watch and steer the service. The tracker is a board in memory
//! and the agent follows a script, so that this runs anywhere:
//!
//! ```
//! use std::sync::Arc;
//!
//! use symphony::core::orchestrator::NoticeKind;
//! use symphony::core::{Issue, Settings, StateSet};
//! use symphony::memory::{AgentScript, MemoryTracker, ScriptedAgent};
//! use symphony::{FixedAgent, FixedTracker, NoticeItem, Service, ServiceEnd};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     symphony::host::init(); // agents and hooks end with this program, however it ends
//!     let folder = tempfile::tempdir()?; // where agents work
//!     let board = MemoryTracker::new();
//!     board.add(Issue::new("1", "MT-1", "Fix the door", "Todo")?);
//!     let agent = ScriptedAgent::new(AgentScript::new().say("on it").set_state("Done"));
//!
//!     let (active, over) = (StateSet::new(["Todo"]), StateSet::new(["Done"]));
//!     let mut settings = Settings::new("board", active, over, folder.path().to_owned());
//!     settings.agent.kind = "scripted".to_owned();
//!     let service = Service::builder()
//!         .settings(settings, "Please do this: {{ issue.title }}.")
//!         .tracker(FixedTracker::new("board", Arc::new(board)))
//!         .agent(FixedAgent::new("scripted", Arc::new(agent)))
//!         .build()
//!         .await?;
//!     let handle = service.handle();
//!     let mut notices = handle.subscribe()?;
//!     let running = tokio::spawn(service.run());
//!
//!     while let Some(item) = notices.next().await {
//!         // A program that reads too slowly is told so: then it looks at `handle.snapshot()`.
//!         let NoticeItem::Notice(notice) = item else { continue };
//!         match (&notice.issue, &notice.what) {
//!             (Some(issue), NoticeKind::Blocked { .. }) => handle.retry(&issue.id).await?,
//!             (_, NoticeKind::Cleaned) => handle.shut_down()?,
//!             _ => {}
//!         }
//!     }
//!     assert_eq!(running.await?, ServiceEnd::Drained);
//!     Ok(())
//! }
//! ```
//!
//! # Read another tracker
//!
//! An adapter reads issues, by their state and by their id; [`TwoReads`](core::tracker::TwoReads)
//! makes a tracker of it. `examples/custom_tracker.rs` adds what a workflow file says of it and a tool
//! with which agents move their issue, and runs the conformance kit. Here the program moves the issue.
//!
//! ```
//! use std::sync::{Arc, Mutex};
//!
//! use symphony::core::orchestrator::NoticeKind;
//! use symphony::core::tracker::{IssuesById, ReadIssues, TrackerError, TwoReads};
//! use symphony::core::{Issue, IssueId, Settings, StateSet, async_trait};
//! use symphony::memory::{AgentScript, ScriptedAgent};
//! use symphony::{FixedAgent, FixedTracker, NoticeItem, Service};
//!
//! /// A tracker of one issue.
//! #[derive(Clone, Debug)]
//! struct Door(Arc<Mutex<Issue>>);
//!
//! impl Door {
//!     fn issue(&self) -> Issue {
//!         self.0.lock().unwrap().clone()
//!     }
//! }
//!
//! #[async_trait]
//! impl ReadIssues for Door {
//!     async fn by_states(&self, states: &StateSet) -> Result<Vec<Issue>, TrackerError> {
//!         Ok([self.issue()].into_iter().filter(|issue| states.contains(&issue.state)).collect())
//!     }
//!
//!     async fn by_ids(&self, ids: &[IssueId]) -> Result<IssuesById, TrackerError> {
//!         let found = [self.issue()].into_iter().filter(|issue| ids.contains(&issue.id));
//!         Ok(IssuesById::new(found.collect(), Vec::new()))
//!     }
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let folder = tempfile::tempdir()?;
//!     let door = Door(Arc::new(Mutex::new(Issue::new("1", "D-1", "Fix the door", "Broken")?)));
//!     let (active, over) = (StateSet::new(["Broken"]), StateSet::new(["Fixed"]));
//!     let mut settings = Settings::new("door", active, over, folder.path().to_owned());
//!     settings.agent.kind = "scripted".to_owned();
//!     settings.agent.max_turns = 1;
//!     let agent = ScriptedAgent::new(AgentScript::new().write("report.txt", "It closes again."));
//!     let service = Service::builder()
//!         .settings(settings, "Please do this: {{ issue.title }}.")
//!         .tracker(FixedTracker::new("door", Arc::new(TwoReads(door.clone()))))
//!         .agent(FixedAgent::new("scripted", Arc::new(agent)))
//!         .build()
//!         .await?;
//!     let handle = service.handle();
//!     let mut notices = handle.subscribe()?;
//!     let running = tokio::spawn(service.run());
//!
//!     while let Some(item) = notices.next().await {
//!         let NoticeItem::Notice(notice) = item else { continue };
//!         match &notice.what {
//!             NoticeKind::Ended { .. } => {
//!                 door.0.lock().unwrap().state = "Fixed".into();
//!                 handle.poll_now()?;
//!             }
//!             NoticeKind::Cleaned => handle.shut_down()?,
//!             _ => {}
//!         }
//!     }
//!     running.await?;
//!     Ok(())
//! }
//! ```
//!
//! # Run another agent
//!
//! A backend opens a session in a workspace; the session runs turns, and is closed when nothing of
//! it is left. `examples/custom_agent.rs` does it with a shell command for each turn, whose whole tree of
//! processes ends with it. This one works in the process:
//!
//! ```
//! use std::sync::Arc;
//!
//! use symphony::core::agent::{
//!     AgentBackend, AgentError, AgentErrorKind, AgentSession, SessionRequest, Turn, TurnEnd,
//! };
//! use symphony::core::serde_json::json;
//! use symphony::core::tracker::ToolCall;
//! use symphony::core::{Issue, Settings, StateSet, async_trait};
//! use symphony::memory::MemoryTracker;
//! use symphony::{FixedAgent, FixedTracker, Service};
//!
//! #[derive(Debug)]
//! struct Clerk;
//!
//! struct ClerkSession(SessionRequest);
//!
//! #[async_trait]
//! impl AgentBackend for Clerk {
//!     async fn open(&self, request: SessionRequest) -> Result<Box<dyn AgentSession>, AgentError> {
//!         Ok(Box::new(ClerkSession(request)))
//!     }
//! }
//!
//! #[async_trait]
//! impl AgentSession for ClerkSession {
//!     async fn run_turn(&mut self, turn: Turn) -> Result<TurnEnd, AgentError> {
//!         let failed = |error| {
//!             AgentError::new(AgentErrorKind::TurnFailed, "cannot write").with_source(error)
//!         };
//!         tokio::fs::write(self.0.workspace.join("done"), turn.prompt).await.map_err(failed)?;
//!         if let Some(tools) = &self.0.tools {
//!             let issue = Arc::clone(&self.0.issue);
//!             let (name, arguments) = ("update_issue".to_owned(), json!({ "state": "Done" }));
//!             tools.call(ToolCall { name, arguments, issue }).await;
//!         }
//!         Ok(TurnEnd::Completed)
//!     }
//!
//!     async fn close(self: Box<Self>) -> Result<(), AgentError> {
//!         Ok(()) // nothing of it is left
//!     }
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let folder = tempfile::tempdir()?;
//!     let board = MemoryTracker::new();
//!     board.add(Issue::new("1", "MT-1", "Fix the door", "Todo")?);
//!     let (active, over) = (StateSet::new(["Todo"]), StateSet::new(["Done"]));
//!     let mut settings = Settings::new("board", active, over, folder.path().to_owned());
//!     settings.agent.kind = "clerk".to_owned();
//!     let service = Service::builder()
//!         .settings(settings, "Please do this: {{ issue.title }}.")
//!         .tracker(FixedTracker::new("board", Arc::new(board.clone())))
//!         .agent(FixedAgent::new("clerk", Arc::new(Clerk)))
//!         .build()
//!         .await?;
//!     let is_done = async move { board.wait_until(|board| board.is_in("1", "Done")).await };
//!     service.run_until(is_done).await;
//!     Ok(())
//! }
//! ```
//!
//! # Test it
//!
//! With tokio's clock paused (its feature `test-util`), a service that waits for polls, retries and
//! timeouts takes milliseconds: `#[tokio::test(start_paused = true)]`, a
//! [`MemoryTracker`](memory::MemoryTracker) and a [`ScriptedAgent`](memory::ScriptedAgent), whose
//! journal says what agents were told. `docs/guide/embedding.md` has a whole test.
//!
//! # Features
//!
//! | feature | default | brings |
//! |---|---|---|
//! | `codex` | yes | [`codex`]: the agent backend for the Codex app-server |
//! | `memory` | yes | [`memory`]: a tracker in the process, and an agent that follows a script |
//! | `linear` | | `linear`: the tracker for Linear, over HTTP; compiles C for TLS |
//! | `http` | | `http`: the API and the dashboard in a browser |
//! | `tui` | | `tui`: the dashboard in a terminal |
//! | `client` | | `api::client`: requests to a service elsewhere; compiles C for TLS |
//!
//! The default features need no C compiler, and neither do `http` and `tui`.
//!
//! # Names
//!
//! Whatever a signature here names has a name here. [`core::async_trait`] and [`core::serde_json`]
//! are those that the traits use; a snapshot's [`WatchReceiver`] is tokio's. Log lines go to
//! `tracing`: without a subscriber, such as that of `tracing-subscriber`, nothing is printed.

use std::path::PathBuf;
#[cfg(any(feature = "codex", feature = "linear", feature = "memory"))]
use std::sync::Arc;

pub use symphony_api as api;
#[cfg(feature = "codex")]
pub use symphony_codex as codex;
pub use symphony_core as core;
pub use symphony_host as host;
#[cfg(feature = "http")]
pub use symphony_http as http;
#[cfg(feature = "linear")]
pub use symphony_linear as linear;
#[cfg(feature = "memory")]
pub use symphony_memory as memory;
// All of it, so that no type of a signature is without a name here.
#[doc(inline)]
pub use symphony_runtime::*;
#[cfg(feature = "tui")]
pub use symphony_tui as tui;
pub use symphony_workflow as workflow;

/// Returns every kind of tracker and agent that the enabled features bring, by the names that
/// workflow files use: `linear` and `memory`; `codex`, and `scripted`, an agent that costs nothing
/// and moves its issue to `Done`.
#[must_use]
pub fn registry() -> Registry {
    #[cfg_attr(
        not(any(feature = "codex", feature = "linear", feature = "memory")),
        expect(unused_mut, reason = "without features there is nothing to add")
    )]
    let mut registry = Registry::default();
    #[cfg(feature = "linear")]
    registry.add_tracker(Arc::new(linear::LinearFactory::new()));
    #[cfg(feature = "memory")]
    {
        use memory::{AgentScript, MemoryFactory, ScriptedAgent, ScriptedFactory};
        let script = AgentScript::new().say("the stand-in was here").set_state("Done");
        let agent = ScriptedAgent::new(script).without_entries();
        registry.add_tracker(Arc::new(MemoryFactory::new()));
        registry.add_agent(Arc::new(ScriptedFactory::new(agent)));
    }
    #[cfg(feature = "codex")]
    registry.add_agent(Arc::new(codex::CodexFactory::new()));
    registry
}

/// Runs a workflow file with the adapters of the enabled features until a future is ready, such as one
/// that waits for Ctrl-C, and then until everything is drained.
///
/// A program that wants more of its service (watch it, steer it, add adapters) begins with
/// [`Service::builder`] and [`registry`].
///
/// ```no_run
/// #[tokio::main]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     symphony::host::init(); // agents and hooks end with this program, however it ends
///     let ctrl_c = async { drop(tokio::signal::ctrl_c().await) };
///     symphony::run_workflow("WORKFLOW.md", ctrl_c).await?;
///     Ok(())
/// }
/// ```
///
/// # Errors
/// Every problem of the workflow file at once, or what is wrong with the workspace root.
pub async fn run_workflow(
    path: impl Into<PathBuf>,
    until: impl Future<Output = ()> + Send,
) -> Result<ServiceEnd, StartError> {
    let service = Service::builder().workflow(path).registry(registry()).build().await?;
    Ok(service.run_until(until).await)
}

/// The examples of the README and of the guide, run as tests.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[cfg(feature = "http")]
    #[doc = include_str!("../docs/guide/embedding.md")]
    struct Embedding;
}
