//! One stream of events for any number of subscribers (contract 13.3).
//!
//! What changed is serialised once, for all of them, at most four times a second. Slow subscribers
//! are disconnected (no backpressure) and may resume with `Last-Event-ID`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream;
use symphony_core::orchestrator::Notice;
use symphony_core::snapshot::Snapshot;
use symphony_runtime::{Handle, NoticeItem, NoticeStream};
use tokio::sync::{Notify, broadcast};
use tokio::time::Instant;

use crate::peers::{Peer, Shares};

/// The least time between two looks at what changed: four a second.
const MIN_PUBLISH_GAP: Duration = Duration::from_millis(250);

/// How many bytes a second a subscriber is sent: where more changes, it is told less often.
const MAX_BYTES_PER_SECOND: usize = 512 * 1024;

/// How many frames a subscriber may lag behind.
const MAX_LAG_FRAMES: usize = 16;

/// How many bytes are kept for subscribers that come back.
const REPLAY_BYTES: usize = 4 << 20;

/// How many subscribers there may be; three quarters of them from one address.
const MAX_SUBSCRIBERS: usize = 256;

/// How long the hub is without a subscriber before its replay buffer is dropped.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// How often a quiet stream shows that it lives.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// How many notices are kept between two looks.
const MAX_QUEUED_NOTICES: usize = 256;

/// What a stream tells.
pub(crate) trait Feed: Send + 'static {
    /// What is other than it was at the last call. All of it, at the first.
    fn changes(&mut self, snapshot: &Arc<Snapshot>, notices: &[Arc<Notice>]) -> Vec<HubEvent>;

    /// Everything, as it was told by the last call.
    fn whole(&self) -> Vec<HubEvent>;

    /// Forgets what was told.
    fn reset(&mut self);
}

/// One event.
#[derive(Clone, Debug)]
pub(crate) struct HubEvent {
    pub(crate) name: &'static str,
    /// On one line.
    pub(crate) data: String,
}

/// A number of events, as they are sent.
#[derive(Clone, Debug)]
struct Frame {
    /// The number of its last event.
    last: u64,
    bytes: Bytes,
}

/// A stream and its subscribers.
#[derive(Debug)]
pub(crate) struct Hub<F> {
    inner: Mutex<HubState<F>>,
    frames: broadcast::Sender<Frame>,
    subscribers: Mutex<Shares>,
    joined: Notify,
    handle: Handle,
    /// Tells one life of the service from another.
    life: u64,
}

#[derive(Debug)]
struct HubState<F> {
    feed: F,
    /// The number of the last event.
    last: u64,
    /// Whether the feed has told anything.
    is_awake: bool,
    kept: VecDeque<Frame>,
    kept_bytes: usize,
    /// The number of the last event that is not kept any more.
    dropped: u64,
    /// Everything, as it was sent to the last one that joined, with the number of the last event.
    whole: Option<(u64, Bytes)>,
}

impl<F: Feed> Hub<F> {
    /// A hub, and the task that feeds it.
    pub(crate) fn start(feed: F, handle: Handle, life: u64) -> Arc<Self> {
        let (frames, _) = broadcast::channel(MAX_LAG_FRAMES);
        let inner = HubState {
            feed,
            last: 0,
            is_awake: false,
            kept: VecDeque::new(),
            kept_bytes: 0,
            dropped: 0,
            whole: None,
        };
        let hub = Arc::new(Self {
            inner: Mutex::new(inner),
            frames,
            subscribers: Mutex::new(Shares::new(MAX_SUBSCRIBERS)),
            joined: Notify::new(),
            handle,
            life,
        });
        let fed = Arc::downgrade(&hub);
        tokio::spawn(async move {
            while let Some(hub) = fed.upgrade() {
                tokio::select! {
                    () = hub.joined.notified() => hub.feed().await,
                    // The hub may be dropped without ever having had a subscriber.
                    () = tokio::time::sleep(IDLE_TIMEOUT) => {}
                }
            }
        });
        hub
    }

    fn lock(&self) -> MutexGuard<'_, HubState<F>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn subscribers(&self) -> MutexGuard<'_, Shares> {
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes what changes, until there has been no subscriber for a while.
    async fn feed(&self) {
        let mut snapshots = self.handle.snapshots();
        let mut notices = self.handle.subscribe().ok();
        let mut heard: Vec<Arc<Notice>> = Vec::new();
        let mut alone_since = Instant::now();
        loop {
            if self.subscribers().taken() > 0 {
                alone_since = Instant::now();
            } else if alone_since.elapsed() >= IDLE_TIMEOUT {
                self.lock().forget();
                return;
            }
            let sent = self.publish(&snapshots.borrow_and_update().clone(), &heard);
            heard.clear();
            let pause = MIN_PUBLISH_GAP
                .max(MIN_PUBLISH_GAP.saturating_mul(4).mul_f64(ratio(sent, MAX_BYTES_PER_SECOND)));
            let next = Instant::now() + pause;
            let mut changed = false;
            while !changed || Instant::now() < next {
                tokio::select! {
                    news = snapshots.changed(), if !changed => match news {
                        Ok(()) => changed = true,
                        Err(_) => {
                            self.lock().forget();
                            return;
                        }
                    },
                    item = next_notice(&mut notices) => match item {
                        Some(NoticeItem::Notice(notice)) if heard.len() < MAX_QUEUED_NOTICES => {
                            heard.push(notice);
                            changed = true;
                        }
                        Some(_) => {}
                        None => notices = None,
                    },
                    () = tokio::time::sleep_until(next), if changed => {}
                    () = tokio::time::sleep(IDLE_TIMEOUT), if !changed => break,
                }
            }
        }
    }

    /// Serialises what changed and sends it to all subscribers. Returns its size in bytes.
    fn publish(&self, snapshot: &Arc<Snapshot>, notices: &[Arc<Notice>]) -> usize {
        let mut inner = self.lock();
        let events = inner.feed.changes(snapshot, notices);
        inner.is_awake = true;
        if events.is_empty() {
            return 0;
        }
        let mut text = String::new();
        for event in &events {
            inner.last += 1;
            write_event(&mut text, self.life, inner.last, event);
        }
        let frame = Frame { last: inner.last, bytes: Bytes::from(text) };
        let sent = frame.bytes.len();
        inner.retain(frame.clone());
        // Sent under the lock: a new subscriber sees every frame exactly once.
        let _ = self.frames.send(frame);
        sent
    }

    /// Listens, from the event after this one on if it is still kept; else from the beginning.
    pub(crate) fn subscribe(
        self: &Arc<Self>,
        last_seen: Option<&str>,
        peer: Peer,
    ) -> Option<impl Stream<Item = Result<Bytes, std::convert::Infallible>> + Send + use<F>> {
        let place = StreamPosition::take(self, peer)?;
        let (first, receiver) = {
            let mut inner = self.lock();
            if !inner.is_awake {
                let snapshot = self.handle.last_snapshot();
                let _ = inner.feed.changes(&snapshot, &[]);
                inner.is_awake = true;
            }
            let seen = last_seen.and_then(|id| parse_id(id, self.life));
            let first = match seen.filter(|seen| (inner.dropped..=inner.last).contains(seen)) {
                Some(seen) => inner.since(seen),
                None => VecDeque::from([inner.whole(self.life)]),
            };
            (first, self.frames.subscribe())
        };
        self.joined.notify_one();
        let subscriber = Subscriber { first, receiver, _place: place };
        Some(stream::unfold(subscriber, |mut subscriber| async move {
            let bytes = subscriber.next().await?;
            Some((Ok(bytes), subscriber))
        }))
    }
}

#[expect(clippy::cast_precision_loss, reason = "a pace is not an exact number")]
fn ratio(sent: usize, pace: usize) -> f64 {
    sent as f64 / pace as f64
}

async fn next_notice(notices: &mut Option<NoticeStream>) -> Option<NoticeItem> {
    match notices {
        Some(notices) => notices.next().await,
        None => std::future::pending().await,
    }
}

impl<F: Feed> HubState<F> {
    fn retain(&mut self, frame: Frame) {
        self.kept_bytes += frame.bytes.len();
        self.kept.push_back(frame);
        while self.kept_bytes > REPLAY_BYTES
            && let Some(oldest) = self.kept.pop_front()
        {
            self.kept_bytes -= oldest.bytes.len();
            self.dropped = oldest.last;
        }
    }

    fn forget(&mut self) {
        self.kept.clear();
        self.kept_bytes = 0;
        self.dropped = self.last + 1; // what happens from now on is not noticed
        self.last = self.dropped;
        self.is_awake = false;
        self.whole = None;
        self.feed.reset();
    }

    /// The frames after this event, shared between subscribers; a comment comes first, so that
    /// something comes.
    fn since(&self, seen: u64) -> VecDeque<Bytes> {
        let later = self.kept.iter().filter(|frame| frame.last > seen);
        let welcome = Bytes::from_static(b": welcome back\n\n");
        std::iter::once(welcome).chain(later.map(|frame| frame.bytes.clone())).collect()
    }

    /// The whole state, with the number of the last event: serialised once for all that join meanwhile.
    fn whole(&mut self, life: u64) -> Bytes {
        if let Some((number, bytes)) = &self.whole
            && *number == self.last
        {
            return bytes.clone();
        }
        let mut text = String::new();
        for event in self.feed.whole() {
            write_event(&mut text, life, self.last, &event);
        }
        let bytes = Bytes::from(text);
        self.whole = Some((self.last, bytes.clone()));
        bytes
    }
}

fn write_event(text: &mut String, life: u64, number: u64, event: &HubEvent) {
    use std::fmt::Write as _;
    debug_assert!(!event.data.contains(['\n', '\r']), "one line");
    let (name, data) = (event.name, &event.data);
    let _ = write!(text, "id: {life:x}-{number}\nevent: {name}\ndata: {data}\n\n");
}

fn parse_id(text: &str, life: u64) -> Option<u64> {
    let (of, number) = text.split_once('-')?;
    (u64::from_str_radix(of, 16).ok()? == life).then_some(())?;
    number.parse().ok()
}

/// One that listens.
struct Subscriber<F: Feed> {
    first: VecDeque<Bytes>,
    receiver: broadcast::Receiver<Frame>,
    _place: StreamPosition<F>,
}

impl<F: Feed> Subscriber<F> {
    /// The next bytes; `None` when the service has ended, or for one that fell behind.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.pop_front() {
            return Some(first);
        }
        tokio::select! {
            frame = self.receiver.recv() => frame.ok().map(|frame| frame.bytes),
            () = tokio::time::sleep(KEEP_ALIVE_INTERVAL) => Some(Bytes::from_static(b": still here\n\n")),
        }
    }
}

/// A place among the subscribers, given back when it is dropped.
struct StreamPosition<F: Feed> {
    hub: Arc<Hub<F>>,
    peer: Peer,
}

impl<F: Feed> StreamPosition<F> {
    fn take(hub: &Arc<Hub<F>>, peer: Peer) -> Option<Self> {
        let is_taken = hub.subscribers().take(peer);
        is_taken.then(|| Self { hub: Arc::clone(hub), peer })
    }
}

impl<F: Feed> Drop for StreamPosition<F> {
    fn drop(&mut self) {
        self.hub.subscribers().give_back(self.peer);
    }
}
