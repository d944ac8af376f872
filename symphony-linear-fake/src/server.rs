//! The fake on a socket: as much HTTP as a client of an API speaks, and no more.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use crate::{Answered, Fake};

/// A request is never this long.
const MAX_REQUEST_BYTES: usize = 4 << 20;

/// The fake, listening on loopback until it is dropped.
#[derive(Debug)]
pub struct FakeServer {
    address: SocketAddr,
    task: AbortHandle,
}

impl FakeServer {
    /// Listens on a free port. Needs a tokio runtime with I/O.
    ///
    /// # Errors
    /// There is no port.
    pub async fn start(fake: Fake) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(async move {
            // Dropped with the task, and all connections with it.
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                fake.note_connection();
                connections.spawn(serve(stream, fake.clone()));
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { address, task: task.abort_handle() })
    }

    /// What `tracker.provider.endpoint` is to be.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}/graphql", self.address)
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut stream: TcpStream, fake: Fake) {
    let mut buffer = Vec::new();
    while let Some((head, body)) = read(&mut stream, &mut buffer).await {
        let header = |name: &str| {
            let mut lines = head.lines().filter_map(|line| line.split_once(':'));
            let found = lines.find(|(known, _)| known.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.trim().to_owned())
        };
        let answered = fake.answer(header("authorization").as_deref(), &body);
        let sent = match answered {
            Answered::Closed => return,
            Answered::Never => std::future::pending().await,
            Answered::Reply { status, headers, body, missing } => {
                let length = body.len() + missing;
                let mut text = format!("HTTP/1.1 {status} Status\r\ncontent-length: {length}\r\n");
                for (name, value) in headers {
                    text += &format!("{name}: {value}\r\n");
                }
                text += "\r\n";
                let mut bytes = text.into_bytes();
                bytes.extend(body);
                let sent = stream.write_all(&bytes).await;
                if missing > 0 {
                    return;
                }
                sent
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

/// The next request: its head and its body.
async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    loop {
        if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
            let mut lines = head.lines().filter_map(|line| line.split_once(':'));
            let length = lines.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
            let length: usize = length.and_then(|(_, n)| n.trim().parse().ok()).unwrap_or(0);
            let from = end + 4;
            if buffer.len() >= from + length {
                let rest = buffer.split_off(from + length);
                let body = buffer.split_off(from);
                *buffer = rest;
                return Some((head, body));
            }
        }
        if buffer.len() > MAX_REQUEST_BYTES || stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}
