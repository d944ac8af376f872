//! Symphony's pure core.
//!
//! The domain ([`Issue`], [`WorkspaceKey`]), what a policy file decides ([`settings`]), the scheduler
//! as a state machine ([`orchestrator`]), and the traits that adapters implement ([`tracker`],
//! [`webhook`], [`agent`], [`hooks`]). Nothing in here waits, reads a clock or a variable, touches a
//! file, logs or spawns: what should happen outside goes out as data.

pub mod agent;
pub mod budget;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod env;
pub mod failure;
pub mod finding;
pub mod forecast;
pub mod hooks;
pub mod issue;
pub mod orchestrator;
mod plain;
pub mod policy;
pub mod problem;
pub mod redact;
pub mod run;
pub mod settings;
pub mod snapshot;
pub mod store;
mod text;
pub mod time;
pub mod tracker;
pub mod transcript;
pub mod webhook;
pub mod workspace;

pub use failure::{Failure, FailureKind};
pub use issue::{Blocker, Identifier, Issue, IssueId, Label, MalformedIssue, StateKind, StateName};
pub use orchestrator::Orchestrator;
pub use plain::{plain, plain_json, plain_start};
pub use settings::{Settings, StateSet};
pub use text::is_plain;
pub use workspace::{HostId, Scope, WorkspaceKey, WorkspaceRecord};
