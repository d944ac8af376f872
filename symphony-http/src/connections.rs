//! The table of open connections, and which of them is evicted when it is full.
//!
//! A connection is either being answered, from the moment its request is complete until the body of
//! the response is sent, or idle: half-open, or between two requests. Idle connections cost a client
//! nothing, so when the table is full the oldest idle connection of the peer with the most is
//! evicted. A client that sends its request at once is answered, however many connections are idle.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::peers::{Peer, Shares, most_of};

/// How long a connection is safe from eviction: enough for a request that was sent at once.
const EVICTION_GRACE: Duration = Duration::from_millis(20);

/// Every connection of a server.
#[derive(Debug)]
pub(crate) struct Connections {
    limit: usize,
    inner: Mutex<ConnectionTable>,
    evicted: AtomicU64,
}

#[derive(Debug)]
struct ConnectionTable {
    /// The number of the next idle connection.
    next: u64,
    /// How many are idle, and by peer in the order in which they became idle.
    idle: usize,
    by_peer: BTreeMap<Peer, BTreeMap<u64, Idle>>,
    /// The connections being answered.
    answered: Shares,
}

#[derive(Debug)]
struct Idle {
    since: Instant,
    evicted: CancellationToken,
}

impl Connections {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        let answered = Shares::new(most_of(limit));
        let inner = ConnectionTable { next: 0, idle: 0, by_peer: BTreeMap::new(), answered };
        Arc::new(Self { limit, inner: Mutex::new(inner), evicted: AtomicU64::new(0) })
    }

    /// How many connections were evicted.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Waits until a connection can be accepted: until there is room, or an idle connection is old
    /// enough to be evicted.
    pub(crate) async fn wait_for_room(&self) {
        let until = {
            let inner = self.lock();
            let is_full = inner.count() >= self.limit;
            let oldest = inner.oldest_idle().filter(|_| is_full);
            oldest.map(|(_, _, idle)| idle.since + EVICTION_GRACE)
        };
        if let Some(until) = until {
            tokio::time::sleep_until(until).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionTable> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionTable {
    const fn count(&self) -> usize {
        self.idle + self.answered.taken()
    }

    /// The oldest idle connection of the peer with the most.
    fn oldest_idle(&self) -> Option<(Peer, u64, &Idle)> {
        let (peer, idle) = self.by_peer.iter().max_by_key(|(_, idle)| idle.len())?;
        let (number, longest) = idle.first_key_value()?;
        Some((*peer, *number, longest))
    }

    fn remove(&mut self, peer: Peer, number: u64) -> Option<Idle> {
        let own = self.by_peer.get_mut(&peer)?;
        let removed = own.remove(&number)?;
        if own.is_empty() {
            self.by_peer.remove(&peer);
        }
        self.idle -= 1;
        Some(removed)
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    all: Arc<Connections>,
    peer: Peer,
    /// Its number among the idle ones, if it is idle.
    number: Mutex<Option<u64>>,
    evicted: CancellationToken,
    /// Whether it has shown the right token.
    is_trusted: AtomicBool,
}

impl Connection {
    /// A new connection, idle until its first request. If the table is full, another is evicted.
    pub(crate) fn new(all: &Arc<Connections>, peer: Peer) -> Arc<Self> {
        let connection = Arc::new(Self {
            all: Arc::clone(all),
            peer,
            number: Mutex::default(),
            evicted: CancellationToken::new(),
            is_trusted: AtomicBool::new(false),
        });
        connection.become_idle();
        connection
    }

    pub(crate) const fn peer(&self) -> Peer {
        self.peer
    }

    pub(crate) fn is_trusted(&self) -> bool {
        self.is_trusted.load(Ordering::Relaxed)
    }

    pub(crate) fn trust(&self) {
        self.is_trusted.store(true, Ordering::Relaxed);
    }

    /// A wrong token came: behind a proxy the connection may be another client's now.
    pub(crate) fn revoke_trust(&self) {
        self.is_trusted.store(false, Ordering::Relaxed);
    }

    /// Returns when the connection is evicted.
    pub(crate) async fn until_evicted(&self) {
        self.evicted.cancelled().await;
    }

    fn number(&self) -> MutexGuard<'_, Option<u64>> {
        self.number.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn become_idle(&self) {
        let mut inner = self.all.lock();
        let (number, since) = (inner.next, Instant::now());
        inner.next += 1;
        inner.idle += 1;
        let idle = Idle { since, evicted: self.evicted.clone() };
        inner.by_peer.entry(self.peer).or_default().insert(number, idle);
        *self.number() = Some(number);
        while inner.count() > self.all.limit
            && let Some((peer, number, _)) = inner.oldest_idle()
            && let Some(longest) = inner.remove(peer, number)
        {
            longest.evicted.cancel();
            self.all.evicted.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Marks a connection whose request is complete as being answered; `None` if too many are.
    /// Health probes are always answered.
    pub(crate) fn answer(self: &Arc<Self>, is_probe: bool) -> Option<Answering> {
        let mut inner = self.all.lock();
        if is_probe {
            inner.answered.take_beyond(self.peer);
        } else if !inner.answered.take(self.peer) {
            return None;
        }
        if let Some(number) = self.number().take() {
            inner.remove(self.peer, number);
        }
        Some(Answering(Arc::clone(self)))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let number = self.number().take();
        if let Some(number) = number {
            self.all.lock().remove(self.peer, number);
        }
    }
}

/// A connection being answered; when dropped, it is idle again.
#[derive(Debug)]
pub(crate) struct Answering(Arc<Connection>);

impl Answering {
    /// Holds the place until the body is sent or dropped.
    pub(crate) fn with(self, body: Body) -> Body {
        Body::new(Held { body, _answering: self })
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.all.lock().answered.give_back(self.0.peer);
        if self.0.number().is_none() {
            self.0.become_idle();
        }
    }
}

/// A body and the place it takes.
struct Held {
    body: Body,
    _answering: Answering,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn peer(last: u8) -> Peer {
        Peer::from(SocketAddr::from(([192, 0, 2, last], 1)))
    }

    fn is_evicted(connection: &Connection) -> bool {
        connection.evicted.is_cancelled()
    }

    #[test]
    fn rule_13_3_the_oldest_idle_connection_of_the_largest_peer_is_evicted() {
        let all = Connections::new(8);
        let alone = Connection::new(&all, peer(1));
        let many: Vec<_> = (0..9).map(|_| Connection::new(&all, peer(2))).collect();
        let evicted: Vec<bool> = many.iter().map(|connection| is_evicted(connection)).collect();
        assert_eq!(evicted, [true, true, false, false, false, false, false, false, false]);
        assert!(!is_evicted(&alone), "the oldest, but of a small peer");
        assert_eq!((all.evicted(), all.lock().count()), (2, 8));
        drop(many);
        assert_eq!(all.lock().count(), 1);
        drop(alone);
        assert!(all.lock().by_peer.is_empty() && all.lock().count() == 0);
    }

    #[test]
    fn rule_13_3_connections_being_answered_are_not_evicted() {
        let all = Connections::new(8);
        let busy: Vec<_> = (0..8).map(|_| Connection::new(&all, peer(1))).collect();
        let answered: Vec<_> = busy.iter().filter_map(|one| one.answer(false)).collect();
        assert_eq!(answered.len(), 5, "of 6 places one peer gets 5");
        let other = Connection::new(&all, peer(2));
        let place = other.answer(false);
        assert!(place.is_some() && busy[7].answer(false).is_none());
        assert!(busy[7].answer(true).is_some(), "probes are always answered");
        for _ in 0..100 {
            let silent = Connection::new(&all, peer(3));
            assert!(!is_evicted(&silent), "it is the youngest");
            std::mem::forget(silent);
        }
        assert!(busy[..5].iter().all(|one| !is_evicted(one)));
        drop((answered, place));
        assert_eq!(all.lock().answered.taken(), 0);
        assert_eq!(all.lock().count(), 8, "idle again, and within the limit");
    }

    #[tokio::test(start_paused = true)]
    async fn rule_13_3_no_eviction_before_a_request_could_arrive() {
        let all = Connections::new(4);
        let began = Instant::now();
        let _first: Vec<_> = (0..3).map(|_| Connection::new(&all, peer(1))).collect();
        all.wait_for_room().await;
        assert_eq!(began.elapsed(), Duration::ZERO, "there is room");
        let _last = Connection::new(&all, peer(1));
        all.wait_for_room().await;
        assert!(began.elapsed() >= EVICTION_GRACE);
    }
}
