//! The lock, the port and the socket of the service.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use symphony_api::client::{ApiClient, ServiceAddress};
use symphony_core::Settings;
use symphony_core::finding::Finding;
use symphony_runtime::{FoundSocket, root_holder, service_address};

use crate::commands::server_config;

/// Says whether a service runs here, and whether its port is free or its own.
pub(super) async fn findings(settings: &Settings) -> Vec<Finding> {
    let root = &settings.workspace.root;
    let holder = root_holder(root);
    let mut found = vec![match holder {
        Some(pid) => Finding::fine("lock", format!("held by process {pid}, a running service")),
        None => Finding::fine("lock", "is free: no service runs in this root"),
    }];
    if holder.is_some() {
        found.push(socket(root).await);
    }
    found.extend(port(settings, root));
    found
}

/// Says whether the service answers by its socket.
async fn socket(root: &Path) -> Finding {
    let Some(socket) = FoundSocket::of_root(root) else {
        return Finding::doubtful("socket", "the service has none, or it is another user's");
    };
    let name = socket.path().display().to_string();
    let (path, folder) = socket.into_parts();
    let address = ServiceAddress::unix(path, name.clone(), folder);
    let client = address.ok().and_then(|address| ApiClient::new(address).ok());
    let Some(client) = client else {
        return Finding::doubtful("socket", format!("{name} cannot be asked"));
    };
    match client.get(&["state"]).await {
        Ok(_) => Finding::fine("socket", format!("{name} answers")),
        Err(error) => Finding::doubtful("socket", error.to_string()),
    }
}

/// Says whether the port of the file could be listened on, or is so by the service of this root.
fn port(settings: &Settings, root: &Path) -> Option<Finding> {
    // What is wrong with the section is a problem of the file.
    let config = server_config(settings, None).ok()?;
    let announced = service_address(root);
    let Some(config) = config else {
        let text = match &announced {
            Some(url) => format!("no port is set; the service answers at {url}"),
            None => "no port is set: commands use the socket".to_owned(),
        };
        return Some(Finding::fine("server", text));
    };
    let wanted = SocketAddr::new(config.ip().ok()?, config.port);
    if config.port == 0 {
        return Some(Finding::fine("server", format!("any free port of {}", wanted.ip())));
    }
    let port_of = |url: &str| url.rsplit(':').next().and_then(|port| port.parse().ok());
    let is_own = || announced.as_deref().and_then(port_of) == Some(config.port);
    Some(match TcpListener::bind(wanted) {
        Ok(_) => Finding::fine("server", format!("{wanted} is free")),
        Err(error) if error.kind() == ErrorKind::AddrInUse && is_own() => {
            Finding::fine("server", format!("{wanted} is answered by the service of this root"))
        }
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            let text = "is taken by another program; choose another server.port, or end that one";
            Finding::wrong("server", format!("{wanted} {text}"))
        }
        Err(error) => Finding::wrong("server", format!("{wanted} cannot be listened on: {error}")),
    })
}
