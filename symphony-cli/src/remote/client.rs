//! Requests to a service, bounded in size and time.

use std::fmt;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use bytes::{Bytes, BytesMut};
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Method, RequestBuilder, Response, Url};
use secrecy::ExposeSecret as _;
use serde::Deserialize;
use symphony_core::plain;

use super::Address;

/// A connection that takes longer will not come.
const CONNECT: Duration = Duration::from_secs(5);

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(30);

/// How large an answer may be: tens of thousands of rows.
const LARGEST: usize = 64 << 20;

/// The API of one service.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    address: Address,
}

/// Why there is no good answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// Nobody answers.
    Unreachable(String),
    /// The answer is no.
    Refused { status: u16, message: String },
    /// The answer is none of a service.
    Strange(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) | Self::Strange(why) => f.write_str(why),
            Self::Refused { message, .. } => f.write_str(message),
        }
    }
}

impl std::error::Error for Problem {}

impl Problem {
    /// The same for somebody who asked on the command line, with what to do.
    pub(crate) fn with_advice(self) -> anyhow::Error {
        match self {
            Self::Unreachable(why) => {
                anyhow!("{why}; start the service, or name another one with --url")
            }
            other => other.into(),
        }
    }
}

/// What the API says of an error.
#[derive(Deserialize)]
struct Envelope {
    error: Complaint,
}

#[derive(Deserialize)]
struct Complaint {
    message: String,
}

impl Client {
    pub(crate) fn new(address: Address) -> anyhow::Result<Self> {
        let mut headers = HeaderMap::new();
        if let Some(token) = &address.token {
            let mut value = HeaderValue::try_from(format!("Bearer {}", token.expose_secret()))
                .ok()
                .context("the token holds characters that cannot be sent")?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        // The token goes to the service and nowhere else: redirects are not followed.
        let mut builder = reqwest::Client::builder()
            .default_headers(headers)
            .user_agent(concat!("symphony/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .connect_timeout(CONNECT);
        if address.url.scheme() == "http" {
            // No proxy is to see the token, and no certificate is needed.
            builder = builder.no_proxy().tls_certs_only([]);
        }
        let http = builder.build().context(
            "TLS cannot be used; where the system has no certificates, install ca-certificates \
             or name a bundle in SSL_CERT_FILE",
        )?;
        Ok(Self { http, address })
    }

    pub(crate) const fn address(&self) -> &Address {
        &self.address
    }

    /// Reads what is at this path below `/api/v1`.
    pub(crate) async fn get(&self, path: &[&str]) -> Result<Bytes, Problem> {
        self.whole(self.request(Method::GET, path).timeout(ANSWER)).await
    }

    /// Asks for something to be done.
    pub(crate) async fn post(&self, path: &[&str]) -> Result<(), Problem> {
        self.whole(self.request(Method::POST, path).timeout(ANSWER)).await.map(drop)
    }

    /// The stream of events, after this one. How long it is silent is the caller's to bound.
    pub(crate) async fn events(&self, last_seen: Option<&str>) -> Result<Response, Problem> {
        let mut request = self.request(Method::GET, &["events"]);
        request = request.header(ACCEPT, "text/event-stream");
        // One that cannot be sent begins anew.
        if let Some(id) = last_seen.filter(|id| id.bytes().all(|byte| byte.is_ascii_graphic())) {
            request = request.header("Last-Event-ID", id);
        }
        let answer = tokio::time::timeout(ANSWER, request.send());
        let response = answer.await.map_err(|_| self.unreachable("it takes too long"))?;
        let response = response.map_err(|error| self.failed(error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status().as_u16();
        let body = tokio::time::timeout(ANSWER, self.body(response)).await;
        Err(self.refused(status, &body.unwrap_or_else(|_| Ok(Bytes::new()))?))
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

    async fn whole(&self, request: RequestBuilder) -> Result<Bytes, Problem> {
        let response = request.send().await.map_err(|error| self.failed(error))?;
        let status = response.status();
        let body = self.body(response).await?;
        if status.is_success() { Ok(body) } else { Err(self.refused(status.as_u16(), &body)) }
    }

    async fn body(&self, mut response: Response) -> Result<Bytes, Problem> {
        let mut body = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.failed(error))? {
            if body.len() + chunk.len() > LARGEST {
                return Err(Problem::Strange(format!("{} answers too much", self.address)));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }

    fn refused(&self, status: u16, body: &[u8]) -> Problem {
        match serde_json::from_slice::<Envelope>(body) {
            Ok(Envelope { error }) => {
                let mut message = plain(&error.message, 500);
                if status == 401 {
                    message.push_str("; set SYMPHONY_TOKEN to it");
                }
                Problem::Refused { status, message }
            }
            Err(_) => Problem::Strange(format!(
                "{} answers {status}, and not as Symphony does; is it the right address?",
                self.address
            )),
        }
    }

    fn failed(&self, error: reqwest::Error) -> Problem {
        let error = error.without_url();
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            text = cause.to_string(); // the innermost says it best
            source = cause.source();
        }
        self.unreachable(&text)
    }

    fn unreachable(&self, why: &str) -> Problem {
        Problem::Unreachable(format!("{} does not answer: {}", self.address, plain(why, 300)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_13_3_identifiers_are_percent_encoded_and_stay_below_the_api() {
        let url = |base: &str, path: &[&str]| {
            let address = Address { url: Url::parse(base).unwrap(), token: None };
            Client::new(address).unwrap().url(path).to_string()
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
