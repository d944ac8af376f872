//! A running Symphony over HTTP (contract 13.3): JSON API, event stream, metrics, web dashboard.
//!
//! The server reads snapshots and sends commands through a [`Handle`](symphony_runtime::Handle), and
//! nothing else: when it fails, or has no client, work goes on. It sees no adapter; what a tracker
//! delivers by itself is handed to the handle.
//!
//! ```no_run
//! # async fn example(service: symphony_runtime::Service) -> Result<(), Box<dyn std::error::Error>> {
//! use symphony_http::{Config, Server};
//!
//! let config = Config { port: 4000, ..Config::default() };
//! let server = Server::bind(&config).await?;
//! println!("http://{}/", server.address());
//! let serving = tokio::spawn(server.serve(service.handle()));
//! service.run().await;
//! serving.abort();
//! # Ok(())
//! # }
//! ```
//!
//! It listens on loopback unless told otherwise, checks Host and Origin on every route, so that no
//! page of another site can reach it, and needs a token on any other address.

mod api;
mod config;
mod connections;
mod dashboard;
mod error;
mod feed;
mod guard;
mod hub;
mod metrics;
mod openapi;
mod peers;
mod routes;
mod serialized;
mod server;
mod token_rate_limit;
mod write_timeout;

pub use config::{Config, ConfigError};
pub use openapi::document;
pub use server::{BindError, LocalSocket, Server, serve};
