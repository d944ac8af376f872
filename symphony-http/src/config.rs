//! The address that the server listens on, and the token that it asks for.

use std::fmt;
use std::net::IpAddr;

use secrecy::SecretString;
use symphony_core::env::Env;
use symphony_core::settings::{ServerSettings, env_reference};

/// The address that the server listens on, and the token that it asks for.
#[derive(Clone)]
pub struct Config {
    /// The address: an IP address, or `localhost`.
    pub host: String,
    /// The port; 0 takes any free one.
    pub port: u16,
    /// What every request must show, where there is one.
    pub token: Option<SecretString>,
    /// Host names that are answered besides the address itself: of a proxy, say.
    pub allowed_hosts: Vec<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self { host: "127.0.0.1".to_owned(), port: 0, token: None, allowed_hosts: Vec::new() }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("token", &self.token.as_ref().map(|_| "[secret]"))
            .field("allowed_hosts", &self.allowed_hosts)
            .finish()
    }
}

/// Why a server cannot be started like this.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The variable that `server.token` names has no value.
    #[error("server.token: the variable {0} is not set; set it, or remove the setting")]
    TokenUnset(String),
    /// The address is none.
    #[error("server.host: {0:?} is not an IP address; give one, such as 127.0.0.1 or 0.0.0.0")]
    BadHost(String),
    /// Others can reach it, and nothing keeps them out.
    #[error(
        "server.host: {0} can be reached from other machines, so it needs a token; \
         set server.token to $SYMPHONY_TOKEN and that variable to a long random text"
    )]
    NeedsToken(IpAddr),
    /// The token is too short to be safe.
    #[error("server.token: too short; it needs at least 16 characters")]
    ShortToken,
}

impl ConfigError {
    /// The setting that is wrong. The text of the error begins with it.
    #[must_use]
    pub const fn setting(&self) -> &'static str {
        match self {
            Self::TokenUnset(_) | Self::ShortToken => "server.token",
            Self::BadHost(_) | Self::NeedsToken(_) => "server.host",
        }
    }
}

impl Config {
    /// What the settings say; `None` when they start no server. A port from elsewhere wins.
    ///
    /// # Errors
    /// When the token's variable is not set.
    pub fn from_settings(
        settings: &ServerSettings,
        port: Option<u16>,
        env: &dyn Env,
    ) -> Result<Option<Self>, ConfigError> {
        let Some(port) = port.or(settings.port) else { return Ok(None) };
        let token = match settings.token.as_deref() {
            None => None,
            Some(text) => Some(match env_reference(text) {
                None => SecretString::from(text),
                Some(name) => {
                    let value = env.var(name).filter(|value| !value.trim().is_empty());
                    let value = value.ok_or_else(|| ConfigError::TokenUnset(name.to_owned()))?;
                    SecretString::from(value.trim())
                }
            }),
        };
        let (host, allowed_hosts) = (settings.host.clone(), settings.allowed_hosts.clone());
        Ok(Some(Self { host, port, token, allowed_hosts }))
    }

    /// The address to listen on.
    ///
    /// # Errors
    /// When it is none, or when it needs a token.
    pub fn ip(&self) -> Result<IpAddr, ConfigError> {
        use secrecy::ExposeSecret as _;
        let text = self.host.trim();
        let text = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        let ip: IpAddr = if text.eq_ignore_ascii_case("localhost") {
            IpAddr::from([127, 0, 0, 1])
        } else {
            text.parse().map_err(|_| ConfigError::BadHost(self.host.clone()))?
        };
        match &self.token {
            None if !ip.is_loopback() => Err(ConfigError::NeedsToken(ip)),
            Some(token) if token.expose_secret().chars().count() < 16 => {
                Err(ConfigError::ShortToken)
            }
            _ => Ok(ip),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use secrecy::ExposeSecret as _;

    use super::*;

    fn settings() -> ServerSettings {
        let mut settings = ServerSettings::default();
        settings.port = Some(4000);
        settings
    }

    #[test]
    fn rule_13_3_without_a_port_there_is_no_server_and_the_command_line_wins() {
        let env = BTreeMap::new();
        let none = ServerSettings::default();
        assert!(Config::from_settings(&none, None, &env).unwrap().is_none());
        assert_eq!(Config::from_settings(&none, Some(1), &env).unwrap().unwrap().port, 1);
        assert_eq!(Config::from_settings(&settings(), None, &env).unwrap().unwrap().port, 4000);
        assert_eq!(Config::from_settings(&settings(), Some(0), &env).unwrap().unwrap().port, 0);
    }

    #[test]
    fn rule_13_3_a_token_comes_from_its_variable_and_is_never_printed() {
        let env = BTreeMap::from([("T".to_owned(), " a long enough token ".to_owned())]);
        let with = |token: &str| {
            let mut settings = settings();
            settings.token = Some(token.to_owned());
            settings
        };
        let config = Config::from_settings(&with("$T"), None, &env).unwrap().unwrap();
        assert_eq!(config.token.as_ref().unwrap().expose_secret(), "a long enough token");
        assert!(!format!("{config:?}").contains("enough"));
        let unset = Config::from_settings(&with("$U"), None, &env).unwrap_err();
        assert_eq!(unset, ConfigError::TokenUnset("U".to_owned()));
    }

    #[test]
    fn rule_13_3_any_address_but_loopback_needs_a_token() {
        let at = |host: &str, token: Option<&str>| {
            let (host, token) = (host.to_owned(), token.map(SecretString::from));
            Config { host, token, ..Config::default() }.ip()
        };
        let long = Some("0123456789abcdef");
        for host in ["127.0.0.1", "localhost", "::1", "[::1]", "127.8.8.8"] {
            assert!(at(host, None).unwrap().is_loopback(), "{host}");
        }
        for host in ["0.0.0.0", "::", "192.168.1.2"] {
            assert!(matches!(at(host, None), Err(ConfigError::NeedsToken(_))), "{host}");
            assert!(at(host, long).is_ok(), "{host}");
        }
        assert_eq!(at("0.0.0.0", Some("short")), Err(ConfigError::ShortToken));
        assert!(matches!(at("example.com", long), Err(ConfigError::BadHost(_))));
    }
}
