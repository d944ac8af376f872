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
use symphony_host::ProcessId;
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

/// A unix socket that serves the same API, without a token: to processes of the service's user and
/// of root, but to none that the service has started itself.
#[derive(Debug)]
pub struct LocalSocket(UnixListener);

impl LocalSocket {
    /// Serves on a socket that listens already, and does not block.
    ///
    /// # Errors
    /// When the listener cannot be watched.
    pub fn new(listener: std::os::unix::net::UnixListener) -> io::Result<Self> {
        Ok(Self(UnixListener::from_std(listener)?))
    }
}

/// Serves the port, the socket or both until this future is dropped.
pub async fn serve(server: Option<Server>, socket: Option<LocalSocket>, handle: Handle) {
    let socket = socket.map(|socket| socket.0);
    let (listener, guard) = match server {
        Some(server) => {
            info!(address = %server.address, "dashboard and API are served");
            (Some(server.listener), server.guard)
        }
        None => (None, Guard::for_socket()),
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
            AcceptedStream::Tcp(stream, address) => {
                let _ = stream.set_nodelay(true);
                let connection = Connection::new(&connections, Peer::from(address));
                tasks.spawn(serve_connection(stream, router.clone(), connection));
            }
            AcceptedStream::Unix(stream) => match local_peer(&stream) {
                Some(peer) => {
                    let connection = Connection::new(&connections, peer);
                    tasks.spawn(serve_connection(stream, router.clone(), connection));
                }
                None => warn!("another user's connection to the socket was closed"),
            },
        }
        while tasks.try_join_next().is_some() {}
    }
}

/// A connection that was accepted.
enum AcceptedStream {
    Tcp(TcpStream, SocketAddr),
    Unix(UnixStream),
}

/// Waits for the next connection of either listener.
async fn accept(
    tcp: Option<&TcpListener>,
    unix: Option<&UnixListener>,
) -> io::Result<AcceptedStream> {
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
        accepted = next_tcp => accepted.map(|(stream, address)| AcceptedStream::Tcp(stream, address)),
        accepted = next_unix => accepted.map(|(stream, _)| AcceptedStream::Unix(stream)),
    }
}

/// The other end of a unix socket, as the kernel names it: `None` for another user, which the mode
/// of the file keeps out already.
fn local_peer(stream: &UnixStream) -> Option<Peer> {
    let peer = stream.peer_cred().ok()?;
    let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid != 0);
    match (peer.uid(), geteuid().as_raw()) {
        // What an ordinary user's service has started is not root.
        (0, 1..) => Some(Peer::Operator),
        (user, own) if user == own => Some(peer_of(pid)),
        _ => None,
    }
}

/// Whether a process of our own user is one that the service has started. One that is not seen at
/// all is outside our process namespace, and so are its parents; one that has ended already may
/// have left its connection to a child.
fn peer_of(pid: Option<u32>) -> Peer {
    let Some(pid) = pid else { return Peer::Operator };
    let process = ProcessId::from_pid(pid);
    let is_outside = process.is_some_and(|process| !process.is_of_command());
    if is_outside { Peer::Operator } else { Peer::Descendant }
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
    use std::io::{BufRead as _, BufReader};
    use std::process::Stdio;

    use super::*;

    #[test]
    fn rule_14_7_a_process_below_the_service_or_gone_is_no_operator() {
        assert_eq!(peer_of(Some(std::process::id())), Peer::Operator, "not below itself");
        assert_eq!(peer_of(None), Peer::Operator);
        // A child, and a child of that one.
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "sleep 1000 & echo $!; exec sleep 1000"]).stdout(Stdio::piped());
        let mut shell = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let below = line.trim().parse().unwrap();
        for pid in [shell.id(), below] {
            assert_eq!(peer_of(Some(pid)), Peer::Descendant, "{pid}");
        }
        let end = |pid: u32| {
            let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        };
        end(below);
        end(shell.id());
        shell.wait().unwrap();
        assert_eq!(peer_of(Some(shell.id())), Peer::Descendant, "it has ended");
    }

    #[test]
    fn rule_14_7_a_process_with_a_tag_is_no_operator_whatever_is_above_it() {
        // The shell ends at once, so that another process has what it has started.
        let orphan = |limit: &str| {
            let line = format!("bash -c '{limit}echo $$; exec sleep 1000' &");
            let mut shell = std::process::Command::new("sh");
            let mut shell = shell.args(["-c", &line]).stdout(Stdio::piped()).spawn().unwrap();
            let mut line = String::new();
            BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
            shell.wait().unwrap();
            line.trim().parse::<u32>().unwrap()
        };
        let (free, tagged) = (orphan(""), orphan("ulimit -x 4096; "));
        let found = (peer_of(Some(free)), peer_of(Some(tagged)));
        for pid in [free, tagged] {
            let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
        assert_eq!(found, (Peer::Operator, Peer::Descendant));
    }

    #[test]
    fn rule_13_3_the_connection_limit_leaves_file_descriptors_for_agents() {
        for (descriptors, limit) in
            [(None, 512), (Some(1 << 20), 512), (Some(1_024), 256), (Some(2), 8)]
        {
            assert_eq!(connection_limit(descriptors), limit, "{descriptors:?}");
        }
    }
}
