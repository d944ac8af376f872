//! Everything that can go wrong between us and Linear, and the category it is told as.

use std::time::Duration;

use symphony_core::budget::Refused;
use symphony_core::time::Wall;
use symphony_core::tracker::{TrackerError, TrackerErrorKind};

/// Why Linear was not read. Foreign words in it have been made plain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LinearError {
    #[error("Linear cannot be reached: {0}")]
    Unreachable(String),
    #[error("Linear did not answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("Linear's answer broke off: {0}")]
    BrokeOff(String),
    #[error("Linear's answer has more than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("request not made: {refused}")]
    NotMade { refused: Refused, retry_at: Wall },
    #[error("Linear's rate limit is reached{}", detail(message))]
    RateLimited { message: String, retry_at: Wall },
    #[error(
        "Linear refuses the API key (HTTP {status}){}; check tracker.provider.api_key or LINEAR_API_KEY",
        detail(message)
    )]
    Unauthorized { status: u16, message: String },
    #[error("Linear answered HTTP {status}{}", detail(message))]
    Status { status: u16, message: String },
    #[error("Linear reports an error{}", detail(message))]
    Errors { message: String },
    #[error("Linear answered only in part{}", detail(message))]
    Partial { message: String },
    #[error("Linear's answer is {found}, not JSON: a proxy or a captive portal may have answered")]
    NotJson { found: &'static str },
    #[error("Linear's answer cannot be understood: {0}")]
    Unexpected(String),
    #[error("Linear's pages do not fit together: {0}")]
    Pages(&'static str),
    #[error("{0}")]
    Scope(String),
}

/// What Linear said, where it said something.
fn detail(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}

impl LinearError {
    /// The category of contract 11.2.
    pub(crate) const fn kind(&self) -> TrackerErrorKind {
        match self {
            Self::Unreachable(_) | Self::TimedOut(_) | Self::BrokeOff(_) => {
                TrackerErrorKind::Request
            }
            Self::NotMade { .. } | Self::RateLimited { .. } => TrackerErrorKind::RateLimited,
            Self::Unauthorized { .. } | Self::Status { .. } | Self::Errors { .. } => {
                TrackerErrorKind::Status
            }
            Self::TooLarge { .. }
            | Self::Partial { .. }
            | Self::NotJson { .. }
            | Self::Unexpected(_) => TrackerErrorKind::Response,
            Self::Pages(_) => TrackerErrorKind::Pagination,
            Self::Scope(_) => TrackerErrorKind::InvalidConfig,
        }
    }

    /// When to ask again, where that is known.
    pub(crate) const fn retry_at(&self) -> Option<Wall> {
        match self {
            Self::NotMade { retry_at, .. } | Self::RateLimited { retry_at, .. } => Some(*retry_at),
            _ => None,
        }
    }
}

impl From<LinearError> for TrackerError {
    fn from(error: LinearError) -> Self {
        Self::new(error.kind(), error.to_string()).with_retry_at(error.retry_at())
    }
}
