//! Symphony as a service: a small driver around the pure core.
//!
//! [`Service`] reads a workflow, builds the adapters it names, and runs the orchestrator of
//! `symphony-core`: it performs the effects and feeds the results back as events. What an
//! embedder holds on to is a [`Handle`].
//!
//! ```no_run
//! use std::sync::Arc;
//! use symphony_core::{Issue, Settings, StateSet};
//! use symphony_memory::{MemoryTracker, AgentScript, ScriptedAgent};
//! use symphony_runtime::{ServiceEnd, FixedAgent, FixedTracker, Service};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let root = std::path::PathBuf::new();
//! let board = MemoryTracker::new();
//! board.add(Issue::new("1", "MT-1", "Fix the door", "Todo")?);
//! let agent = ScriptedAgent::new(AgentScript::new().set_state("Done"));
//!
//! let mut settings =
//!     Settings::new("board", StateSet::new(["Todo"]), StateSet::new(["Done"]), root);
//! settings.agent.kind = "scripted".to_owned();
//! let service = Service::builder()
//!     .settings(settings, "Please do this: {{ issue.title }}")
//!     .tracker(FixedTracker::new("board", Arc::new(board.clone())))
//!     .agent(FixedAgent::new("scripted", Arc::new(agent)))
//!     .build()
//!     .await?;
//! let handle = service.handle();
//! let running = tokio::spawn(service.run());
//!
//! board.wait_until(|board| board.is_in("1", "Done")).await;
//! handle.shut_down()?;
//! assert_eq!(running.await?, ServiceEnd::Drained);
//! # Ok(())
//! # }
//! ```
//!
//! With a workflow file instead of settings, `.workflow("WORKFLOW.md")`, the file is watched, and
//! an edit is in force about a second later, without disturbing what runs. A program of its own
//! calls `symphony_host::init()` first thing in `main`, so that agents and hooks end with it
//! however it ends.

mod activity;
mod clock;
mod deliveries;
mod disk;
mod driver;
mod dry_run;
mod fixed;
mod folder_watch;
mod gate;
mod handle;
mod home;
mod inspect;
mod loader;
mod news;
mod notices;
mod panics;
mod plain;
mod quiet;
mod reader;
mod recent;
mod redacted;
mod registry;
mod run_hooks;
mod scope_guard;
mod service;
mod shell;
mod spans;
mod state_file;
mod state_folder;
mod transcript;
mod watch;
mod worker;
mod writer;

pub use deliveries::{NotReceived, Received};
pub use disk::{AnnouncedAddress, DiskError, LockHolder, service_address};
pub use dry_run::DryRun;
pub use fixed::{FixedAgent, FixedTracker};
pub use handle::{CommandError, Handle, ServiceStopped};
pub use inspect::{Inspection, OpenTracker, Usable, inspect, open_tracker, read_leniently};
pub use notices::{NoticeItem, NoticeStream};
pub use plain::plain;
pub use registry::Registry;
pub use scope_guard::{HeldScope, ScopeGuard};
pub use service::{Service, ServiceBuilder, ServiceEnd, StartError};
pub use shell::ShellHooks;
pub use state_folder::{service_folder, state_folder};
pub use transcript::TranscriptTail;
