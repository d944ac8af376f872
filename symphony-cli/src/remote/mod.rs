//! A service somewhere else, over its API.

mod address;
mod source;

use anyhow::anyhow;
use symphony_api::client::ApiError;

pub(crate) use address::find;
pub(crate) use source::Remote;

/// Adds to an error what to do about it on the command line.
pub(crate) fn with_advice(error: ApiError) -> anyhow::Error {
    match error {
        ApiError::Unreachable(why) => {
            anyhow!("{why}; start the service, or name another one with --url")
        }
        ApiError::Refused { status: 401, message } => {
            anyhow!("{message}; set SYMPHONY_TOKEN to it")
        }
        other => other.into(),
    }
}
