//! Symphony as a service: a small driver around the pure core.
//!
//! [`Service`] reads a workflow, builds the adapters it names, and runs the orchestrator of
//! `symphony-core`: it performs the effects and feeds the results back as events. What an
//! embedder holds on to is a [`Handle`].

mod activity;
mod clock;
mod disk;
mod driver;
mod handle;
mod loader;
mod news;
mod panics;
mod plain;
mod quiet;
mod reader;
mod recent;
mod registry;
mod run_hooks;
mod service;
mod shell;
mod state;
mod watch;
mod worker;

pub use disk::{DiskError, LockHolder};
pub use handle::{Handle, Unavailable};
pub use registry::Registry;
pub use service::{Ended, Service, ServiceBuilder, StartError};
pub use shell::ShellHooks;
