//! Symphony's tracker in the process, and an agent that follows a script.
//!
//! [`MemoryTracker`] is a board: the embedded default, the test double, and the example of an
//! adapter (contract 11.5). It is filled through its Rust API, from `tracker.provider`, or from a
//! YAML file that people edit while Symphony runs; [`Faults`] make it as unreliable as a tracker
//! behind a network. [`MemoryFactory`] registers it as `tracker.kind: memory`.
//!
//! [`ScriptedAgent`] does what its [`AgentScript`] says and writes down what happened in a [`Journal`].
//! [`ScriptedFactory`] registers it as `agent.kind: scripted`.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! use std::sync::Arc;
//! use symphony_core::agent::{AgentBackend, SessionRequest, Turn, Updates};
//! use symphony_core::run::RunId;
//! use symphony_core::tracker::{Tracker, TrackerExt};
//! use symphony_core::{Issue, Settings, StateSet};
//! use symphony_memory::{MemoryTracker, AgentScript, ScriptedAgent};
//!
//! // A board with one issue, and an agent that finishes what it is given.
//! let board = MemoryTracker::new();
//! board.add(Issue::new("1", "MT-1", "Fix the door", "Todo")?);
//! let agent = ScriptedAgent::new(AgentScript::new().say("on it").set_state("Done"));
//!
//! // What the service does with them.
//! let (active, over) = (StateSet::new(["Todo"]), StateSet::new(["Done"]));
//! let issue = board.fetch_issues_by_states(&active).await?.remove(0);
//! let settings = Settings::new("memory", active, over, "/tmp/work".into());
//! let run = RunId { boot: 1, number: 1 };
//! let mut request = SessionRequest::new(
//!     run,
//!     Arc::new(issue),
//!     "/tmp/work/MT-1".into(),
//!     Arc::new(settings),
//!     Updates::new(|update| println!("{update:?}")),
//! );
//! request.tools = board.tools();
//! let mut session = agent.open(request).await?;
//! session.run_turn(Turn::new(run, 1, "Fix the door")).await?;
//! session.close().await?;
//!
//! assert!(board.subscribe().borrow().is_in("1", "Done"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```

mod board;
mod board_file;
mod board_lock;
mod clock;
mod document;
mod examine;
mod factory;
mod faults;
mod file_thread;
mod record;
mod scripted;
mod seeds;
mod tracker;
mod update_issue;

pub use board::{Comment, MemoryBoard};
pub use board_lock::{BoardLock, lock_board};
pub use clock::BoardClock;
pub use factory::{MEMORY, MemoryFactory, board_path};
pub use faults::{Faults, MemoryFault, Requests};
pub use scripted::{
    AgentScript, Did, Gate, Journal, JournalEntry, Opening, SCRIPTED, ScriptStep, ScriptedAgent,
    ScriptedFactory, Scripts,
};
pub use tracker::MemoryTracker;
pub use update_issue::UPDATE_ISSUE;
