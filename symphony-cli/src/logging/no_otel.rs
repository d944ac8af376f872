//! In the place of `otel.rs`: a program that was built without it.

use tracing_subscriber::layer::Identity;

/// Nothing.
pub(super) struct Tracing;

/// Sends nothing.
pub(super) fn start() -> anyhow::Result<(Identity, Tracing)> {
    Ok((Identity::new(), Tracing))
}
