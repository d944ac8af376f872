//! Which requests are answered at all (contract 13.3).
//!
//! A page of another site can make a browser send requests here, by a name that it points at this
//! machine (DNS rebinding) or straight across sites. So every request must name this server in its
//! Host, and one that says where it comes from must come from here.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::config::Config;
use crate::connections::Connection;
use crate::error::Error;
use crate::peers::Peer;
use crate::routes::WEBHOOKS_PATH;
use crate::token_rate_limit::TokenRateLimit;

/// Checks host, origin and token of each request.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    address: SocketAddr,
    allowed_hosts: Vec<String>,
    /// Of the token, so that comparing takes the same time whatever its length.
    token: Option<[u8; 32]>,
    token_limit: Arc<TokenRateLimit>,
}

/// How long the path and the query of a request may be.
const MAX_URI_BYTES: usize = 8 * 1024;

/// What needs no token: it tells nothing but that the service lives.
const PATHS_WITHOUT_TOKEN: [&str; 2] = ["/healthz", "/readyz"];

impl Guard {
    pub(crate) fn new(config: &Config, address: SocketAddr) -> Self {
        let hosts = config.allowed_hosts.iter();
        Self {
            address,
            allowed_hosts: hosts.map(|host| host.trim().to_ascii_lowercase()).collect(),
            token: config.token.as_ref().map(digest),
            token_limit: Arc::default(),
        }
    }

    /// For a service that only listens on its unix socket.
    pub(crate) fn for_socket() -> Self {
        Self::new(&Config::default(), SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// The wrong tokens so far.
    pub(crate) fn token_limit(&self) -> Arc<TokenRateLimit> {
        Arc::clone(&self.token_limit)
    }

    fn check(&self, request: &Request) -> Result<(), Error> {
        let (method, uri, headers) = (request.method(), request.uri(), request.headers());
        if uri.path().len() + uri.query().map_or(0, str::len) > MAX_URI_BYTES {
            let message = format!("the address is longer than {MAX_URI_BYTES} bytes");
            return Err(Error::new(StatusCode::URI_TOO_LONG, "address_too_long", message));
        }
        let host = self.host(uri, headers)?;
        from_here(&host, method, headers)?;
        let path = uri.path();
        // A delivery has a signature of its own, and a probe learns nothing.
        let is_open = is_probe(path) || path.starts_with(WEBHOOKS_PATH);
        if !is_open {
            match Peer::from_extensions(request.extensions()) {
                // The kernel has said which user it is: that is all that a token would show.
                Peer::Operator => {}
                Peer::Descendant => return Err(descendant()),
                Peer::Ip(_) => self.token(headers, request.extensions())?,
            }
        }
        simple_content(method, path, headers)
    }

    /// The one host that the request is for, if it is this server.
    fn host(&self, uri: &Uri, headers: &HeaderMap) -> Result<String, Error> {
        let refused = || {
            Error::forbidden(
                "this Host is not answered; use the address itself, or name it in \
                 server.allowed_hosts",
            )
        };
        let mut named = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (named.next(), named.next()) else { return Err(refused()) };
        let host = host.to_str().map_err(|_| refused())?.to_ascii_lowercase();
        // A request may also name the host in its first line.
        let elsewhere =
            uri.authority().is_some_and(|other| !host.eq_ignore_ascii_case(other.as_str()));
        if elsewhere || !self.is_own_host(&host) {
            return Err(refused());
        }
        Ok(host)
    }

    fn is_own_host(&self, host: &str) -> bool {
        let Some(name) = without_port(host) else { return false };
        let is_listed = self.allowed_hosts.iter().any(|known| known == host || known == name);
        let ip: Option<IpAddr> = without_brackets(name).parse().ok();
        let is_loopback = name == "localhost" || ip.is_some_and(|ip| ip.is_loopback());
        // An address cannot be pointed elsewhere, only a name can.
        is_listed || is_loopback || (!self.address.ip().is_loopback() && ip.is_some())
    }

    fn token(&self, headers: &HeaderMap, extensions: &Extensions) -> Result<(), Error> {
        let Some(expected) = &self.token else { return Ok(()) };
        let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        // A request without a token is not a guess: a browser begins so.
        let shown = shown.and_then(shown_token).ok_or_else(unauthorized)?;
        let (peer, connection) =
            (Peer::from_extensions(extensions), extensions.get::<Arc<Connection>>());
        let is_trusted = connection.is_some_and(|connection| connection.is_trusted());
        // On loopback the right token always counts: an agent of this machine could lock the
        // operator out otherwise.
        let wait = if is_trusted { None } else { self.token_limit.refuse(peer) };
        let limited = |wait| {
            let message = "too many wrong tokens came from this address; wait a moment";
            let error = Error::new(StatusCode::TOO_MANY_REQUESTS, "too_many_guesses", message);
            error.with_retry_after(wait)
        };
        if let Some(wait) = wait.filter(|_| !peer.is_loopback()) {
            return Err(limited(wait));
        }
        let is_right: bool = digest(&SecretString::from(shown)).ct_eq(expected).into();
        if !is_right {
            connection.iter().for_each(|connection| connection.revoke_trust());
            if let Some(wait) = wait {
                return Err(limited(wait));
            }
            self.token_limit.count_wrong(peer);
            return Err(wrong_token());
        }
        connection.iter().for_each(|connection| connection.trust());
        Ok(())
    }
}

/// Whether a request only asks whether the service lives.
pub(crate) fn is_probe(path: &str) -> bool {
    PATHS_WITHOUT_TOKEN.contains(&path)
}

fn unauthorized() -> Error {
    let message = "a token is needed: send `Authorization: Bearer <token>`, the one that \
                   server.token names";
    Error::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
}

fn wrong_token() -> Error {
    let message = "the token is wrong: send the one that server.token names";
    Error::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
}

fn descendant() -> Error {
    Error::forbidden(
        "the socket is for operators, and this request comes from a process that the service has \
         started; where hooks are to give commands, set server.port",
    )
}

fn digest(token: &SecretString) -> [u8; 32] {
    Sha256::digest(token.expose_secret().as_bytes()).into()
}

/// A bearer token, or the password that a browser asked for.
fn shown_token(value: &str) -> Option<String> {
    let (scheme, rest) = value.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(rest.trim().to_owned());
    }
    let is_basic = scheme.eq_ignore_ascii_case("basic");
    let decoded =
        is_basic.then(|| BASE64.decode(rest.trim().trim_end_matches('=')).ok()).flatten()?;
    let text = String::from_utf8(decoded).ok()?;
    text.split_once(':').map(|(_, password)| password.to_owned())
}

/// Whether a browser, where one tells, says that a page of this server asks.
fn from_here(host: &str, method: &Method, headers: &HeaderMap) -> Result<(), Error> {
    let refused = || Error::forbidden("requests of pages of another site are not answered");
    for origin in headers.get_all(header::ORIGIN) {
        let origin = origin.to_str().map_err(|_| refused())?.to_ascii_lowercase();
        let of = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        if of != Some(host) {
            return Err(refused());
        }
    }
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    let mode = headers.get("sec-fetch-mode").map(HeaderValue::as_bytes);
    let is_followed_link = *method == Method::GET && mode == Some(b"navigate");
    match site {
        None | Some(b"same-origin" | b"none") => Ok(()),
        Some(_) if is_followed_link => Ok(()),
        Some(_) => Err(refused()),
    }
}

/// Refuses what a form of any site could send.
fn simple_content(method: &Method, path: &str, headers: &HeaderMap) -> Result<(), Error> {
    if *method != Method::POST || path.starts_with(WEBHOOKS_PATH) {
        return Ok(());
    }
    let kind = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let is_json = |kind: &[u8]| {
        let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default();
        kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
    };
    if kind.is_none_or(is_json) {
        return Ok(());
    }
    let message = "send no body, or one with Content-Type: application/json";
    Err(Error::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message))
}

/// The name in `name:port`; `None` where there is nothing like that.
fn without_port(host: &str) -> Option<&str> {
    let end = host.rfind(']').map_or(0, |at| at + 1);
    let (name, port) = match host[end..].find(':') {
        Some(at) => (&host[..end + at], &host[end + at + 1..]),
        None => (host, ""),
    };
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
    (is_port && !name.is_empty()).then_some(name)
}

fn without_brackets(name: &str) -> &str {
    name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name)
}

/// The gate in front of every route, and what every answer says to a browser.
pub(crate) async fn guard(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let checked = guard.check(&request);
    let mut response = match checked {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in SECURITY_HEADERS {
        headers.entry(HeaderName::from_static(name)).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Nothing is loaded from elsewhere, nothing frames us, nothing is kept.
const SECURITY_HEADERS: [(&str, &str); 8] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
         connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
    ("cache-control", "no-store"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_names_and_ports() {
        for (host, name) in [
            ("localhost", Some("localhost")),
            ("localhost:80", Some("localhost")),
            ("[::1]:80", Some("[::1]")),
            ("[::1]", Some("[::1]")),
            ("localhost:x", None),
            ("localhost:80:90", None),
            (":80", None),
            ("", None),
        ] {
            assert_eq!(without_port(host), name, "{host}");
        }
    }

    #[test]
    fn a_browsers_password_is_a_token() {
        assert_eq!(shown_token("Basic OnRva2Vu").as_deref(), Some("token"));
        assert_eq!(shown_token("basic YW55Ym9keTp0b2tlbg==").as_deref(), Some("token"));
        assert_eq!(shown_token("Bearer  token ").as_deref(), Some("token"));
        for bad in ["", "token", "Basic", "Basic !!", "Basic YQ==", "Digest token"] {
            assert_eq!(shown_token(bad), None, "{bad}");
        }
    }
}
