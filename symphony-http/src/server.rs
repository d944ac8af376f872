//! The listener and its connections. Everything about them is bounded: how many, how long a request
//! may take to arrive, how long an answer may stand still.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::process::{Resource, geteuid, getrlimit};
use secrecy::SecretString;
use symphony_runtime::Handle;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::JoinSet;
use tower::ServiceExt as _;
use tracing::{debug, info, warn};

use crate::config::{Config, ConfigError};
use crate::connections::{Connection, Connections};
use crate::guard::Guard;
use crate::peers::Peer;
use crate::routes;
use crate::write_timeout::WriteTimeout;

/// How many connections there may be at a time.
const MAX_CONNECTIONS: usize = 512;

/// At most one connection per so many descriptors of `RLIMIT_NOFILE`: agents need descriptors too.
const DESCRIPTORS_PER_CONNECTION: u64 = 4;

/// Below this, idle connections and those being answered would block each other.
const MIN_CONNECTIONS: usize = 8;

/// How long the first lines of a request may take to arrive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a write may block on a client that does not read.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// How large the first lines of a request may be.
const MAX_HEAD_BYTES: usize = 32 * 1024;

/// The pause after a connection that could not be accepted.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The settings do not allow it.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The port is taken.
    #[error(
        "port {} is in use already; choose another with --port or server.port, or end what uses it",
        .0.port()
    )]
    Taken(SocketAddr),
    /// The address cannot be listened on.
    #[error("the server cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
}

/// A server that listens already, and answers once it serves.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    guard: Guard,
}

impl Server {
    /// Binds the port.
    ///
    /// # Errors
    /// When the port is in use, the address cannot be listened on, or a token is missing.
    pub async fn bind(config: &Config) -> Result<Self, BindError> {
        let wanted = SocketAddr::new(config.ip()?, config.port);
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => BindError::Taken(wanted),
            _ => BindError::Listen { address: wanted, source },
        };
        let listener = TcpListener::bind(wanted).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address, guard: Guard::new(config, address) })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until this future is dropped. After the service has ended, requests are answered 503.
    pub async fn serve(self, handle: Handle) {
        serve(Some(self), None, handle).await;
    }
}

/// A unix socket that serves the same API to processes of the same user.
#[derive(Debug)]
pub struct LocalSocket {
    listener: UnixListener,
    token: Option<SecretString>,
}

impl LocalSocket {
    /// Serves on a socket that listens already. Requests must show the token, where there is one.
    ///
    /// # Errors
    /// When the listener blocks, or cannot be watched.
    pub fn new(
        listener: std::os::unix::net::UnixListener,
        token: Option<SecretString>,
    ) -> io::Result<Self> {
        Ok(Self { listener: UnixListener::from_std(listener)?, token })
    }
}

/// Serves the port, the socket or both until this future is dropped. The token of the port counts
/// for both.
pub async fn serve(server: Option<Server>, socket: Option<LocalSocket>, handle: Handle) {
    let (socket, token) = socket.map(|socket| (socket.listener, socket.token)).unzip();
    let (listener, guard) = match server {
        Some(server) => {
            info!(address = %server.address, "dashboard and API are served");
            (Some(server.listener), server.guard)
        }
        None => (None, Guard::for_socket(token.flatten().as_ref())),
    };
    let connections = Connections::new(connection_limit(getrlimit(Resource::Nofile).current));
    let router = routes::router(handle, guard, Arc::clone(&connections));
    // Dropped with this future, and its connections with it.
    let mut tasks = JoinSet::new();
    let mut is_failing = false;
    loop {
        connections.wait_for_room().await;
        let accepted = match accept(listener.as_ref(), socket.as_ref()).await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, say: others may give some back.
                if !std::mem::replace(&mut is_failing, true) {
                    warn!(%error, "connections cannot be accepted now; this is tried again");
                }
                tokio::time::sleep(ACCEPT_RETRY_PAUSE).await;
                continue;
            }
        };
        if std::mem::take(&mut is_failing) {
            info!("connections are accepted again");
        }
        match accepted {
            Accepted::Tcp(stream, address) => {
                let _ = stream.set_nodelay(true);
                let connection = Connection::new(&connections, Peer::from(address));
                tasks.spawn(serve_connection(stream, router.clone(), connection));
            }
            Accepted::Unix(stream) if is_own_user(&stream) => {
                let connection = Connection::new(&connections, Peer::Socket);
                tasks.spawn(serve_connection(stream, router.clone(), connection));
            }
            Accepted::Unix(_) => warn!("another user's connection to the socket was closed"),
        }
        while tasks.try_join_next().is_some() {}
    }
}

/// A connection that was accepted.
enum Accepted {
    Tcp(TcpStream, SocketAddr),
    Unix(UnixStream),
}

/// Waits for the next connection of either listener.
async fn accept(tcp: Option<&TcpListener>, unix: Option<&UnixListener>) -> io::Result<Accepted> {
    let next_tcp = async {
        match tcp {
            Some(listener) => listener.accept().await,
            None => std::future::pending().await,
        }
    };
    let next_unix = async {
        match unix {
            Some(listener) => listener.accept().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        accepted = next_tcp => accepted.map(|(stream, address)| Accepted::Tcp(stream, address)),
        accepted = next_unix => accepted.map(|(stream, _)| Accepted::Unix(stream)),
    }
}

/// Whether the other end of a socket is of the user that runs the service.
fn is_own_user(stream: &UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == geteuid().as_raw())
}

/// Returns how many connections there may be with this limit of descriptors.
fn connection_limit(descriptors: Option<u64>) -> usize {
    let quarter = descriptors.map_or(usize::MAX, |descriptors| {
        usize::try_from(descriptors / DESCRIPTORS_PER_CONNECTION).unwrap_or(usize::MAX)
    });
    quarter.clamp(MIN_CONNECTIONS, MAX_CONNECTIONS)
}

async fn serve_connection<S>(stream: S, router: axum::Router, connection: Arc<Connection>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(WriteTimeout::new(stream, WRITE_TIMEOUT));
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(MAX_HEAD_BYTES);
    let of_request = Arc::clone(&connection);
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(Arc::clone(&of_request));
        router.clone().oneshot(request)
    });
    tokio::select! {
        served = http.serve_connection(io, service) => {
            if let Err(error) = served {
                debug!(%error, "a connection ended early");
            }
        }
        () = connection.until_evicted() => {
            debug!(peer = %connection.peer(), "an idle connection was evicted to make room");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_13_3_the_connection_limit_leaves_file_descriptors_for_agents() {
        for (descriptors, limit) in
            [(None, 512), (Some(1 << 20), 512), (Some(1_024), 256), (Some(2), 8)]
        {
            assert_eq!(connection_limit(descriptors), limit, "{descriptors:?}");
        }
    }
}
