//! Symphony's tracker in the process, and an agent that follows a script.

mod board;
mod board_file;
mod clock;
mod document;
mod factory;
mod faults;
mod record;
mod scripted;
mod seeds;
mod tracker;
mod update_issue;

pub use board::{Board, Comment};
pub use clock::Clock;
pub use factory::{KIND, MemoryFactory};
pub use faults::{Fault, Faults, Requests};
pub use scripted::{
    Did, Entry, Gate, Journal, Opening, SCRIPTED, Script, ScriptedAgent, ScriptedFactory, Scripts,
    Step,
};
pub use tracker::MemoryTracker;
pub use update_issue::UPDATE_ISSUE;
