//! How a request gets to Linear and its answer back: nothing here knows GraphQL.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use symphony_core::failure::chain;
use symphony_core::plain;
use symphony_core::tracker::{TrackerError, TrackerErrorKind};

use crate::key::ApiKey;

/// Carries requests to Linear. An embedder with an HTTP stack of its own implements it; the default
/// is [`Http`].
#[async_trait]
pub trait Transport: fmt::Debug + Send + Sync {
    /// Posts a JSON body and brings the answer, within these bounds.
    ///
    /// Safe to drop at any await. An answer of any status is an answer.
    ///
    /// # Errors
    /// There is no answer.
    async fn post(&self, body: Bytes, bounds: Bounds) -> Result<Reply, NoReply>;
}

/// How much an answer may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// From the first byte sent to the last one received.
    pub time: Duration,
    /// The length of the body, unpacked.
    pub bytes: usize,
}

/// An answer, whatever it says.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, unpacked.
    pub body: Bytes,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoReply {
    /// No connection could be made.
    Unreachable(String),
    /// It took too long.
    TimedOut(Duration),
    /// The connection broke before all of the answer came.
    BrokeOff(String),
    /// The answer is longer than allowed.
    TooLarge,
}

/// HTTP with connection reuse, gzip, rustls and the proxy variables.
///
/// The key goes to the endpoint and nowhere else: redirects are not followed.
#[derive(Debug)]
pub struct Http {
    client: Client,
    endpoint: Url,
}

/// A handshake that takes longer will not come.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

impl Http {
    /// A transport to this endpoint.
    ///
    /// # Errors
    /// `invalid_tracker_config` where TLS cannot work, such as on a system without certificates.
    pub fn new(endpoint: Url, key: &ApiKey) -> Result<Self, TrackerError> {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, key.header()?);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let mut builder = Client::builder()
            .default_headers(headers)
            .user_agent(concat!("symphony/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .connect_timeout(CONNECT_TIMEOUT);
        if endpoint.scheme() == "http" {
            // Only this machine: no proxy is to see the key, and no certificate is needed.
            builder = builder.no_proxy().tls_certs_only([]);
        }
        let client = builder.build().map_err(|error| {
            let message = "TLS cannot be used; where the system has no certificates, install \
                           ca-certificates or name a bundle in SSL_CERT_FILE";
            TrackerError::new(TrackerErrorKind::InvalidConfig, message).with_source(error)
        })?;
        Ok(Self { client, endpoint })
    }
}

#[async_trait]
impl Transport for Http {
    async fn post(&self, body: Bytes, bounds: Bounds) -> Result<Reply, NoReply> {
        let request = self.client.post(self.endpoint.clone()).body(body).timeout(bounds.time);
        let failed = |error: reqwest::Error| {
            let (is_connect, is_timeout) = (error.is_connect(), error.is_timeout());
            let why = plain(&chain(&error.without_url()), 500);
            match (is_connect, is_timeout) {
                (true, _) => NoReply::Unreachable(why),
                (false, true) => NoReply::TimedOut(bounds.time),
                // The request may have got there.
                (false, false) => NoReply::BrokeOff(why),
            }
        };
        let mut response = request.send().await.map_err(failed)?;
        let status = response.status().as_u16();
        let headers = std::mem::take(response.headers_mut());
        let mut body = BytesMut::new();
        // What counts is the unpacked length: a small packed answer can be a very large one.
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > bounds.bytes {
                return Err(NoReply::TooLarge);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Reply { status, headers, body: body.freeze() })
    }
}
