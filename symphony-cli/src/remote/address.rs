//! Which service a command is about, and the token for it.

use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context as _, bail};
use secrecy::SecretString;
use symphony_api::client::ServiceAddress;
use symphony_core::settings::ServerSettings;
use symphony_http::Config;
use symphony_runtime::inspect;

use crate::adapters;
use crate::commands::CliEnv;

/// The variable with the token.
const TOKEN_VARIABLE: &str = "SYMPHONY_TOKEN";

/// The address that was given, else the one in the workflow file.
///
/// The file's token goes to the file's address only, never to one from the command line.
pub(crate) fn find(given: Option<&str>, workflow: &Path) -> anyhow::Result<ServiceAddress> {
    let token = std::env::var(TOKEN_VARIABLE).ok();
    let token = token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty());
    let token = token.map(SecretString::from);
    match given {
        Some(given) => {
            let address = ServiceAddress::parse(&with_scheme(given));
            let address = address.with_context(|| format!("--url {given:?} cannot be used"))?;
            Ok(with_token(address, token))
        }
        None => of_file(workflow, token),
    }
}

fn of_file(workflow: &Path, token: Option<SecretString>) -> anyhow::Result<ServiceAddress> {
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
    let Some(config) =
        Config::from_settings(&server, None, &CliEnv)?.filter(|config| config.port != 0)
    else {
        bail!(
            "which service? {file} sets no server.port; set it and start the service anew, or \
             start it with --port and name it here with --url http://127.0.0.1:PORT"
        );
    };
    let url = format!("http://{}:{}", reachable(&config.host), config.port);
    let address = ServiceAddress::parse(&url)
        .with_context(|| format!("server.host {:?} cannot be used", config.host))?;
    Ok(with_token(address, token.or(config.token)))
}

/// Completes what people type: a port, or an address without its scheme.
fn with_scheme(given: &str) -> String {
    if given.parse::<u16>().is_ok() {
        format!("http://127.0.0.1:{given}")
    } else if given.contains("://") {
        given.to_owned()
    } else {
        format!("http://{given}")
    }
}

fn with_token(address: ServiceAddress, token: Option<SecretString>) -> ServiceAddress {
    match token {
        Some(token) => address.with_token(token),
        None => address,
    }
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
    fn rule_14_1_an_address_needs_no_scheme() {
        for (given, wanted) in [
            ("4711", "http://127.0.0.1:4711"),
            ("127.0.0.1:4711", "http://127.0.0.1:4711"),
            ("localhost:1/below", "http://localhost:1/below"),
            ("https://x", "https://x"),
            ("ftp://x", "ftp://x"),
        ] {
            assert_eq!(with_scheme(given), wanted);
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
}
