//! The URL of a service, and the token that it wants.

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use reqwest::Url;
use secrecy::SecretString;

/// The URL of a service, and the token to send there, which is never printed.
#[derive(Clone)]
pub struct ServiceAddress {
    pub(super) url: Url,
    pub(super) token: Option<SecretString>,
    pub(super) socket: Option<UnixAddress>,
}

/// A unix socket.
#[derive(Clone, Debug)]
pub(super) struct UnixAddress {
    pub(super) path: PathBuf,
    name: String,
    /// What a path below `/proc/self/fd` leads through.
    _folder: Arc<OwnedFd>,
}

/// Why a text is not the address of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// The text is not a URL.
    #[error("not a URL; give it as http://HOST:PORT, such as http://127.0.0.1:4000")]
    NotUrl,
    /// The URL's scheme is neither http nor https.
    #[error(
        "does not begin with http:// or https://; give it as http://HOST:PORT, such as \
         http://127.0.0.1:4000"
    )]
    NotHttp,
    /// The URL holds a user or a password.
    #[error(
        "leave out the user and the password; a token is given separately, to commands in \
         SYMPHONY_TOKEN"
    )]
    Credentials,
    /// The URL holds a query or a fragment.
    #[error(
        "leave out everything from the first ? or #; a token is given separately, to commands in \
         SYMPHONY_TOKEN"
    )]
    Query,
}

impl ServiceAddress {
    /// Reads `http://HOST:PORT`, with or without a path below which the API is found.
    ///
    /// # Errors
    /// When it is not such a URL, or holds a user, a password, a query or a fragment: they would be
    /// printed with the address, and a query would be sent with every request.
    pub fn parse(url: &str) -> Result<Self, AddressError> {
        let url = Url::parse(url).map_err(|_| AddressError::NotUrl)?;
        let is_http = matches!(url.scheme(), "http" | "https") && url.has_host();
        if !is_http || url.cannot_be_a_base() {
            return Err(AddressError::NotHttp);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(AddressError::Credentials);
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(AddressError::Query);
        }
        Ok(Self { url, token: None, socket: None })
    }

    /// Reaches a service on this machine by its unix socket. `name` is what messages call it: the
    /// path to connect to may be a short one, through this folder, which is kept open.
    ///
    /// # Errors
    /// When the URL that stands for the socket cannot be used, which does not happen.
    pub fn unix(
        path: impl Into<PathBuf>,
        name: impl Into<String>,
        folder: OwnedFd,
    ) -> Result<Self, AddressError> {
        let address = Self::parse("http://localhost")?;
        let (path, name, _folder) = (path.into(), name.into(), Arc::new(folder));
        Ok(Self { socket: Some(UnixAddress { path, name, _folder }), ..address })
    }

    /// Sends this token with every request.
    #[must_use]
    pub fn with_token(mut self, token: SecretString) -> Self {
        self.token = Some(token);
        self
    }
}

impl fmt::Debug for ServiceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.token.as_ref().map(|_| "[secret]");
        let mut address = f.debug_struct("ServiceAddress");
        address.field("url", &self.url.as_str()).field("token", &token);
        address.field("socket", &self.socket).finish()
    }
}

impl fmt::Display for ServiceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(socket) = &self.socket {
            return f.write_str(&socket.name);
        }
        f.write_str(self.url.as_str().trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_14_1_an_address_is_http_without_a_password_and_a_query() {
        let here = ServiceAddress::parse("http://127.0.0.1:4000").unwrap();
        assert_eq!(here.to_string(), "http://127.0.0.1:4000");
        for (bad, why) in [
            ("4000", AddressError::NotUrl),
            ("127.0.0.1:4000", AddressError::NotUrl),
            ("file:///etc/passwd", AddressError::NotHttp),
            ("ftp://x", AddressError::NotHttp),
            ("http://a:b@x/", AddressError::Credentials),
            ("http://x/?token=a", AddressError::Query),
            ("http://x/#a", AddressError::Query),
        ] {
            assert_eq!(ServiceAddress::parse(bad).err(), Some(why), "{bad}");
        }
    }

    #[test]
    fn rule_13_3_a_token_is_not_printed() {
        let token = SecretString::from("do not show this");
        let address = ServiceAddress::parse("http://x").unwrap().with_token(token);
        assert!(!format!("{address} {address:?}").contains("show"));
    }
}
