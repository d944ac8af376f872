//! Symphony turns an issue tracker into finished work.
//!
//! This crate is the facade: one dependency for people who embed Symphony in
//! their own tools. [`Service`] runs a workflow, [`Handle`] watches and steers
//! it. [`core`] holds the domain, the scheduler as a pure state machine, and
//! the traits that adapters implement; [`workflow`] reads a WORKFLOW.md; [`host`] is
//! where commands run; [`api`] is the wire format of a running service;
//! [`codex`] runs Codex as the agent, [`linear`] reads Linear, and [`memory`] is a
//! tracker and an agent without network or keys. The features `http` and `tui` add the
//! dashboards, `client` a client for a service elsewhere, and `sqlite` a file for what must
//! survive a restart.

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
pub use symphony_runtime::{
    AnnouncedAddress, CommandError, DiskError, DryRun, FixedAgent, FixedTracker, Handle,
    Inspection, LockHolder, NotReceived, NoticeItem, NoticeStream, Received, Registry, Service,
    ServiceBuilder, ServiceEnd, ServiceStopped, ShellHooks, StartError, TranscriptTail, Usable,
    inspect, open_tracker, plain, read_leniently, service_address,
};
#[cfg(feature = "sqlite")]
pub use symphony_sqlite as sqlite;
#[cfg(feature = "tui")]
pub use symphony_tui as tui;
pub use symphony_workflow as workflow;

/// The examples of the README, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
