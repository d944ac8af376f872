//! The API key: it reaches the `Authorization` header and nothing else.

use std::fmt;

use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret, SecretString};
use symphony_core::redact::Redactor;
use symphony_core::tracker::{TrackerError, TrackerErrorKind};

/// A personal API key or an OAuth token. It does not print.
#[derive(Clone)]
pub struct ApiKey(SecretString);

impl ApiKey {
    /// Takes a key over, without the space around it.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(SecretString::from(text.trim()))
    }

    /// Personal keys go as they are, OAuth tokens as bearers.
    pub(crate) fn header(&self) -> Result<HeaderValue, TrackerError> {
        let key = self.0.expose_secret();
        let text = match key.starts_with("lin_oauth_") {
            true => SecretString::from(format!("Bearer {key}")),
            false => self.0.clone(),
        };
        let mut value = HeaderValue::from_str(text.expose_secret()).map_err(|_| {
            let message = "tracker.provider.api_key: has characters that no key has";
            TrackerError::new(TrackerErrorKind::InvalidConfig, message)
        })?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// What takes it out of text.
    pub(crate) fn redactor(&self) -> Redactor {
        Redactor::new([self.0.expose_secret().to_owned()])
    }

    /// Whether both are the same credential: what is known of its limits then holds for both.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.0.expose_secret() == other.0.expose_secret()
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(***)")
    }
}
