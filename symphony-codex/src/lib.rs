//! Symphony's agent backend for the Codex app-server.

mod lines;
mod wire;
