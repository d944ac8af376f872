//! An HTTP client for a running service: requests bounded in size and time, and its event stream.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use symphony_api::client::{ApiClient, MergedState, ServiceAddress};
//!
//! let client = ApiClient::new(ServiceAddress::parse("http://127.0.0.1:4000")?)?;
//! let mut state = MergedState::default();
//! let mut stream = client.events(None).await?;
//! loop {
//!     for event in stream.next().await? {
//!         state.apply(&event)?;
//!     }
//!     let running = state.status().map(|status| status.running.len());
//!     println!("{running:?} running");
//! }
//! # }
//! ```

mod address;
mod merge;
mod sse;

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header::{ACCEPT, AUTHORIZATION, DATE, HeaderMap, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Method, RequestBuilder, Response, Url};
use secrecy::ExposeSecret as _;
use serde::de::DeserializeOwned;
use symphony_core::plain;

use crate::{ErrorBody, ExplanationStatus, IssueExplanation, IssueStatus, Status};

pub use address::{AddressError, ServiceAddress};
pub use merge::{Applied, MergedState};
pub use sse::{EventTooLong, SseDecoder, SseEvent};

/// A connection that takes longer will not come.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// A service sends events or heartbeats more often than this.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(45);

/// Bounds an answer: room for tens of thousands of rows.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// The API of one service.
#[derive(Clone, Debug)]
pub struct ApiClient {
    http: reqwest::Client,
    address: ServiceAddress,
}

/// Why a request has no good answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApiError {
    /// The client cannot be set up: TLS or the token cannot be used.
    #[error("{0}")]
    Setup(String),
    /// The service does not answer.
    #[error("{0}")]
    Unreachable(String),
    /// The service answers with an error.
    #[error("{message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// What the service says, plain and bounded.
        message: String,
    },
    /// The answer is not one of a service.
    #[error("{0}")]
    Unexpected(String),
}

impl ApiClient {
    /// Sets up a client; connects with the first request.
    ///
    /// # Errors
    /// [`ApiError::Setup`] when TLS or the token cannot be used.
    pub fn new(address: ServiceAddress) -> Result<Self, ApiError> {
        let mut headers = HeaderMap::new();
        if let Some(token) = &address.token {
            let mut value = HeaderValue::try_from(format!("Bearer {}", token.expose_secret()))
                .map_err(|_| setup("the token holds characters that cannot be sent"))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        // The token goes to the service and nowhere else: redirects are not followed.
        let mut builder = reqwest::Client::builder()
            .default_headers(headers)
            .user_agent(concat!("symphony/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .connect_timeout(CONNECT_TIMEOUT);
        if address.url.scheme() == "http" {
            // No proxy is to see the token, and no certificate is needed.
            builder = builder.no_proxy().tls_certs_only([]);
        }
        if let Some(socket) = &address.socket {
            builder = builder.unix_socket(socket.path.as_path());
        }
        let http = builder.build().map_err(|_| {
            setup(
                "TLS cannot be used; where the system has no certificates, install \
                 ca-certificates or name a bundle in SSL_CERT_FILE",
            )
        })?;
        Ok(Self { http, address })
    }

    /// Returns the address of the service.
    #[must_use]
    pub const fn address(&self) -> &ServiceAddress {
        &self.address
    }

    /// Reads everything at one moment.
    ///
    /// # Errors
    /// As every request: when the service does not answer, refuses, or is not a Symphony.
    pub async fn state(&self) -> Result<Status, ApiError> {
        self.read(&["state"], "a state").await
    }

    /// Reads one issue by its human key.
    ///
    /// # Errors
    /// As every request.
    pub async fn issue(&self, identifier: &str) -> Result<IssueStatus, ApiError> {
        self.read(&[identifier], "an issue").await
    }

    /// Reads why nothing starts, and the reason of every candidate.
    ///
    /// # Errors
    /// As every request.
    pub async fn explanation(&self) -> Result<ExplanationStatus, ApiError> {
        self.read(&["explain"], "an explanation").await
    }

    /// Reads why one issue is not running.
    ///
    /// # Errors
    /// As every request.
    pub async fn issue_explanation(&self, identifier: &str) -> Result<IssueExplanation, ApiError> {
        self.read(&["explain", identifier], "an explanation").await
    }

    /// Reads the JSON at this path below `/api/v1` as it stands.
    ///
    /// # Errors
    /// As every request.
    pub async fn get(&self, path: &[&str]) -> Result<Bytes, ApiError> {
        self.whole(self.request(Method::GET, path).timeout(ANSWER_TIMEOUT)).await
    }

    /// Sends the command at this path below `/api/v1`, such as `["pause"]` or `["MT-1", "stop"]`.
    ///
    /// # Errors
    /// As every request.
    pub async fn post(&self, path: &[&str]) -> Result<(), ApiError> {
        self.command(path).await.map(drop)
    }

    /// Sends the command at this path below `/api/v1`, and returns the receipt as it stands.
    ///
    /// # Errors
    /// As every request.
    pub async fn command(&self, path: &[&str]) -> Result<Bytes, ApiError> {
        self.whole(self.request(Method::POST, path).timeout(ANSWER_TIMEOUT)).await
    }

    /// Opens the stream of events, after the event with this id where the service still has it.
    ///
    /// # Errors
    /// As every request.
    pub async fn events(&self, last_seen: Option<&str>) -> Result<EventStream, ApiError> {
        let mut request = self.request(Method::GET, &["events"]);
        request = request.header(ACCEPT, "text/event-stream");
        // An id that cannot be sent begins anew.
        if let Some(id) = last_seen.filter(|id| id.bytes().all(|byte| byte.is_ascii_graphic())) {
            request = request.header("Last-Event-ID", id);
        }
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, request.send());
        let response = answer.await.map_err(|_| self.unreachable("it takes too long"))?;
        let response = response.map_err(|error| self.failed(error))?;
        if response.status().is_success() {
            let (decoder, address) = (SseDecoder::default(), self.address.to_string());
            return Ok(EventStream { response, decoder, address });
        }
        let status = response.status().as_u16();
        let body = tokio::time::timeout(ANSWER_TIMEOUT, self.body(response)).await;
        Err(self.refused(status, &body.unwrap_or_else(|_| Ok(Bytes::new()))?))
    }

    async fn read<T: DeserializeOwned>(&self, path: &[&str], what: &str) -> Result<T, ApiError> {
        let body = self.get(path).await?;
        serde_json::from_slice(&body).map_err(|error| {
            let (address, error) = (&self.address, plain(&error.to_string(), 300));
            ApiError::Unexpected(format!("{address} answers something else than {what}: {error}"))
        })
    }

    fn request(&self, method: Method, path: &[&str]) -> RequestBuilder {
        self.http.request(method, self.url(path))
    }

    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.address.url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(["api", "v1"]).extend(path);
        }
        url
    }

    async fn whole(&self, request: RequestBuilder) -> Result<Bytes, ApiError> {
        let response = request.send().await.map_err(|error| self.failed(error))?;
        let status = response.status();
        let body = self.body(response).await?;
        if status.is_success() { Ok(body) } else { Err(self.refused(status.as_u16(), &body)) }
    }

    async fn body(&self, mut response: Response) -> Result<Bytes, ApiError> {
        let mut body = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.failed(error))? {
            if body.len() + chunk.len() > MAX_ANSWER_BYTES {
                return Err(ApiError::Unexpected(format!("{} answers too much", self.address)));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }

    fn refused(&self, status: u16, body: &[u8]) -> ApiError {
        match serde_json::from_slice::<ErrorBody>(body) {
            Ok(ErrorBody { error }) => {
                ApiError::Refused { status, message: plain(&error.message, 500) }
            }
            Err(_) => ApiError::Unexpected(format!(
                "{} answers {status}, and not as Symphony does; is it the right address?",
                self.address
            )),
        }
    }

    fn failed(&self, error: reqwest::Error) -> ApiError {
        let error = error.without_url();
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            text = cause.to_string(); // the innermost says it best
            source = cause.source();
        }
        self.unreachable(&text)
    }

    fn unreachable(&self, why: &str) -> ApiError {
        ApiError::Unreachable(format!("{} does not answer: {}", self.address, plain(why, 300)))
    }
}

fn setup(why: &str) -> ApiError {
    ApiError::Setup(why.to_owned())
}

/// The events of a service as they arrive.
#[derive(Debug)]
pub struct EventStream {
    response: Response,
    decoder: SseDecoder,
    address: String,
}

impl EventStream {
    /// Returns the `Date` header of the answer: the clock of the service, in whole seconds.
    #[must_use]
    pub fn date(&self) -> Option<&str> {
        self.response.headers().get(DATE)?.to_str().ok()
    }

    /// Waits for the next events. An empty list is a heartbeat.
    ///
    /// # Errors
    /// When the connection is closed or silent for too long, or the bytes are not events.
    pub async fn next(&mut self) -> Result<Vec<SseEvent>, ApiError> {
        let address = &self.address;
        let lost = |why: &str| ApiError::Unreachable(format!("{address} {why}"));
        match tokio::time::timeout(SILENCE_TIMEOUT, self.response.chunk()).await {
            Ok(Ok(Some(chunk))) => self.decoder.feed(&chunk).map_err(|_| {
                ApiError::Unexpected(format!("{address} sends something else than events"))
            }),
            Ok(_) => Err(lost("has closed the connection")),
            Err(_) => Err(lost("has fallen silent")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_13_3_identifiers_are_percent_encoded_and_stay_below_the_api() {
        let url = |base: &str, path: &[&str]| {
            let address = ServiceAddress::parse(base).unwrap();
            ApiClient::new(address).unwrap().url(path).to_string()
        };
        let here = "http://127.0.0.1:1";
        assert_eq!(url(here, &["state"]), "http://127.0.0.1:1/api/v1/state");
        assert_eq!(
            url(here, &["a/../b?c#d e"]),
            "http://127.0.0.1:1/api/v1/a%2F..%2Fb%3Fc%23d%20e"
        );
        assert_eq!(url(here, &[".."]), "http://127.0.0.1:1/api/v1");
        assert_eq!(url("https://x/symphony/", &["pause"]), "https://x/symphony/api/v1/pause");
    }
}
