//! Symphony's tracker for Linear (contract 11.3, 11.4), and the tool that its agents use.
//!
//! A poll is one request: candidates and claimed issues travel in one document. Every request, the
//! agents' included, is admitted by one [`Budget`](symphony_core::budget::Budget) per key, which
//! learns Linear's limits from its answers. [`LinearFactory`] registers it as `tracker.kind:
//! linear`; `docs/guide/trackers/linear.md` is its profile.
//!
//! | file | subject |
//! |---|---|
//! | `config.rs`, `key.rs`, `factory.rs` | from a workflow file to a tracker |
//! | `queries.rs`, `complexity.rs` | what is asked, and what that costs |
//! | `transport.rs`, `client.rs`, `answer.rs`, `error.rs` | how it is asked, and what comes back |
//! | `reading.rs`, `order.rs`, `scope.rs`, `board.rs` | one read, page by page, of what is ours |
//! | `normal.rs` | from Linear's record to an issue |
//! | `tracker.rs`, `tool.rs`, `examine.rs` | what Symphony, its agents and its operators see |
//! | `webhook.rs` | what Linear tells by itself |

mod answer;
mod board;
mod client;
mod complexity;
mod config;
mod error;
mod examine;
mod factory;
mod key;
mod normal;
mod order;
mod queries;
mod reading;
mod scope;
mod tool;
mod tracker;
mod transport;
mod webhook;

pub use factory::{LINEAR, LinearFactory};
pub use key::ApiKey;
pub use tool::LINEAR_GRAPHQL;
pub use tracker::LinearTracker;
pub use transport::{Bounds, Http, NoReply, Reply, Transport};

/// How many candidates are read at once.
pub const PAGE_SIZE: usize = complexity::CANDIDATES_PER_PAGE.unsigned_abs() as usize;

// A custom transport needs these.
pub use bytes::Bytes;
pub use reqwest::Url;
pub use reqwest::header::HeaderMap;
