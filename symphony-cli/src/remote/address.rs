//! Where a service answers, and what it wants to be shown.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context as _, bail};
use reqwest::Url;
use secrecy::SecretString;
use symphony_core::settings::ServerSettings;
use symphony_http::Config;
use symphony_runtime::inspect;

use crate::adapters;
use crate::commands::ProcessEnv;

/// The variable with the token.
const TOKEN: &str = "SYMPHONY_TOKEN";

/// Where a service answers.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) url: Url,
    pub(crate) token: Option<SecretString>,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.token.as_ref().map(|_| "[secret]");
        f.debug_struct("Address").field("url", &self.url.as_str()).field("token", &token).finish()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.url.as_str().trim_end_matches('/'))
    }
}

/// The address that was given, else the one in the workflow file.
///
/// The file's token goes to the file's address only, never to one that somebody typed.
pub(crate) fn find(given: Option<&str>, workflow: &Path) -> anyhow::Result<Address> {
    let token = std::env::var(TOKEN).ok();
    let token = token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty());
    let token = token.map(SecretString::from);
    match given {
        Some(given) => Ok(Address { url: parse(given)?, token }),
        None => of_file(workflow, token),
    }
}

fn parse(given: &str) -> anyhow::Result<Url> {
    let shape = "give it as http://HOST:PORT, such as http://127.0.0.1:4000";
    let url = Url::parse(given).with_context(|| format!("--url: {given:?} is no URL; {shape}"))?;
    let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
    if !is_web || url.cannot_be_a_base() {
        bail!("--url: {given:?} does not begin with http:// or https://; {shape}");
    }
    if !url.username().is_empty() || url.password().is_some() {
        bail!("--url: leave out the user and the password; set {TOKEN} instead");
    }
    Ok(url)
}

fn of_file(workflow: &Path, token: Option<SecretString>) -> anyhow::Result<Address> {
    let inspection = inspect(workflow, &adapters::registry());
    let file = workflow.display();
    let Some(settings) = inspection.settings else {
        let first = inspection.problems.first().map(ToString::to_string).unwrap_or_default();
        bail!("which service? {file} does not tell, because {first}; name the service with --url");
    };
    let server = ServerSettings {
        token: settings.server.token.clone().filter(|_| token.is_none()),
        ..settings.server.clone()
    };
    let Some(config) = Config::of(&server, None, &ProcessEnv)?.filter(|config| config.port != 0)
    else {
        bail!(
            "which service? {file} sets no server.port; set it and start the service anew, or \
             start it with --port and name it here with --url http://127.0.0.1:PORT"
        );
    };
    let url = Url::parse(&format!("http://{}:{}", reachable(&config.host), config.port))
        .with_context(|| format!("server.host: {:?} is no address", config.host))?;
    Ok(Address { url, token: token.or(config.token) })
}

/// How an address that is listened on is reached from here.
fn reachable(host: &str) -> String {
    let bare = host.trim().trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(IpAddr::V4(ip)) if ip.is_unspecified() => "127.0.0.1".to_owned(),
        Ok(IpAddr::V6(ip)) if ip.is_unspecified() => "[::1]".to_owned(),
        Ok(IpAddr::V6(ip)) => format!("[{ip}]"),
        _ => bare.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_14_1_an_address_is_one_of_the_web_without_a_password() {
        assert_eq!(parse("http://127.0.0.1:4000").unwrap().as_str(), "http://127.0.0.1:4000/");
        for bad in ["4000", "127.0.0.1:4000", "file:///etc/passwd", "ftp://x", "http://a:b@x/"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn rule_14_1_a_service_that_listens_everywhere_is_found_here() {
        for (host, wanted) in [
            ("0.0.0.0", "127.0.0.1"),
            ("::", "[::1]"),
            ("[::1]", "[::1]"),
            ("localhost", "localhost"),
            ("192.168.1.2", "192.168.1.2"),
        ] {
            assert_eq!(reachable(host), wanted);
        }
    }

    #[test]
    fn rule_13_3_a_token_is_not_printed() {
        let token = Some(SecretString::from("do not show this"));
        let address = Address { url: parse("http://x").unwrap(), token };
        assert!(!format!("{address} {address:?}").contains("show"));
    }
}
