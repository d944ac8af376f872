//! Errors of the API as responses (contract 13.3).

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use symphony_api::ErrorBody;
use symphony_core::plain;

use crate::api;

/// An error of the API.
#[derive(Clone, Debug)]
pub(crate) struct Error {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// How long to wait before asking again.
    retry_after: Option<Duration>,
}

impl Error {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), retry_after: None }
    }

    pub(crate) const fn with_retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    pub(crate) fn unavailable() -> Self {
        let message = "the service is not running any more";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
    }

    /// Something must survive a restart and cannot be written.
    pub(crate) fn storage(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "storage", message)
    }

    pub(crate) fn no_such_issue(identifier: &str) -> Self {
        let name = plain(identifier, 100);
        let message = format!("no issue {name} is known; GET /api/v1/state lists those that are");
        Self::new(StatusCode::NOT_FOUND, "issue_not_found", message)
    }

    pub(crate) fn no_such_route() -> Self {
        let message = "nothing is here; GET /api/v1/openapi.json lists what is";
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "not with this method; the Allow header names those that are";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
    }
}

impl From<symphony_runtime::ServiceStopped> for Error {
    fn from(_: symphony_runtime::ServiceStopped) -> Self {
        Self::unavailable()
    }
}

impl From<symphony_runtime::CommandError> for Error {
    fn from(error: symphony_runtime::CommandError) -> Self {
        match error {
            symphony_runtime::CommandError::Storage => Self::storage(error.to_string()),
            _ => Self::unavailable(),
        }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let mut response = api::json(self.status, &ErrorBody::new(self.code, self.message));
        if self.code == "unauthorized" {
            // Browsers know how to ask for a password; programs send a bearer token.
            let ask = HeaderValue::from_static("Basic realm=\"Symphony: the token as password\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, ask);
        }
        if let Some(wait) = self.retry_after {
            // In whole seconds, and none would be to ask again at once.
            let seconds = HeaderValue::from(wait.as_secs().saturating_add(1));
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        response
    }
}
