//! Which service a command is about, and the token for it.

use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use secrecy::SecretString;
use symphony_api::client::ServiceAddress;
use symphony_host::MARK_VARIABLE;
use symphony_http::Config;
use symphony_runtime::{FoundSocket, read_leniently, root_holder, service_address};

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

/// A service that runs has written down where it answers, under its workspace root; else the file
/// says it. Whatever else is wrong with the file does not matter.
fn of_file(workflow: &Path, token: Option<SecretString>) -> anyhow::Result<ServiceAddress> {
    let file = workflow.display();
    let Some(settings) = read_leniently(workflow, &adapters::registry()) else {
        bail!("which service? {file} cannot be read; name the service with --url");
    };
    let mut server = settings.server;
    server.token = server.token.filter(|_| token.is_none());
    let root = &settings.workspace.root;
    let found = service_address(root);
    // A hook or an agent, which gets no answer by the socket, asks the port where there is one.
    let is_of_service = std::env::var_os(MARK_VARIABLE).is_some() && found.is_some();
    if let Some(socket) = FoundSocket::of_root(root).filter(|_| !is_of_service) {
        // People know it by its port, where it has one.
        let name = found.unwrap_or_else(|| socket.path().display().to_string());
        let (path, folder) = socket.into_parts();
        return Ok(ServiceAddress::unix(path, name, folder)?);
    }
    let config = Config::from_settings(&server, found.as_ref().map(|_| 0), &CliEnv);
    // Where no service has left a trace, that is what is wrong first.
    let config = config.map_err(|error| match found {
        Some(_) => anyhow!(error),
        None => anyhow!("{}; its port was not asked: {error}", none_runs(workflow, root)),
    })?;
    let url = match (found, &config) {
        (Some(url), _) => url,
        (None, Some(config)) if config.port != 0 => {
            format!("http://{}:{}", reachable(&config.host), config.port)
        }
        _ => bail!("{}", none_runs(workflow, root)),
    };
    let address = ServiceAddress::parse(&url)
        .with_context(|| format!("server.host {:?} cannot be used", server.host))?;
    Ok(with_token(address, token.or(config.and_then(|config| config.token))))
}

/// Says why no service was found by a workspace root.
fn none_runs(workflow: &Path, root: &Path) -> String {
    let owner = root.metadata().map(|found| found.uid()).ok();
    let user = rustix::process::geteuid();
    if let Some(owner) = owner.filter(|owner| *owner != user.as_raw() && !user.is_root()) {
        return format!(
            "the workspace root {} belongs to the user {owner}: give the command as that user, or \
             name the service with --url http://127.0.0.1:PORT",
            root.display()
        );
    }
    if let Some(pid) = root_holder(root) {
        return format!(
            "the service in {} (process {pid}) has no socket, its log says why: name it with --url \
             http://127.0.0.1:PORT where it has a port",
            root.display()
        );
    }
    let file = workflow.display();
    format!(
        "no service runs in {}, the workspace root of {file}; start it with `symphony {file}`, or \
         name another one with --url http://127.0.0.1:PORT",
        root.display()
    )
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
