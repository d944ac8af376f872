//! Symphony's agent backend for the Codex app-server, as version 0.166 speaks.
//!
//! [`CodexFactory`] registers it as `agent.kind: codex`; [`CodexAgent`] launches `codex.command` in
//! a workspace on a [`Host`] and opens a [`CodexSession`] with it. A session works over any two byte
//! streams ([`CodexSession::connect`]), for servers that another program runs.
//!
//! Whatever the server sends is read, in order, for as long as the session lives; every request is
//! answered; nothing it sends is a panic, a hang or more memory than one line. `docs/guide/agents/codex.md`
//! says what goes over the wire, and which setting changes what.

mod answers;
mod backend;
mod connection;
mod examine;
mod failure;
mod last_activity;
mod lines;
mod outbox;
mod process;
mod questions;
mod reader;
mod session;
mod settings;
mod show;
mod text;
mod tools;
mod turn;
mod unrequested;
mod update_batcher;
mod wire;

pub use backend::{CODEX, CodexAgent, CodexFactory};
pub use examine::login_shell;
pub use session::CodexSession;
pub use settings::PROFILE;

#[cfg(doc)]
use symphony_host::Host;
