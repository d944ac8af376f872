//! Symphony as a service: a small driver around the pure core.
//!
//! [`Service`] reads a workflow, builds the adapters it names, and runs the orchestrator of
//! `symphony-core`: it performs the effects and feeds the results back as events. What an
//! embedder holds on to is a [`Handle`].

mod clock;
mod driver;
mod handle;
mod news;
mod panics;
mod reader;
mod registry;
mod service;
mod worker;

pub use handle::{Handle, Unavailable};
pub use registry::Registry;
pub use service::{Service, ServiceBuilder, StartError};
