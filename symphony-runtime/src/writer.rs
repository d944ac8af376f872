//! The writer: keeps what must survive a restart, away from the driver (contract 16.1, 16.3).
//!
//! All that waits is committed as one batch. Two commits are never open at a time. A batch that
//! could not be kept is tried again, together with what came meanwhile: rows replace each other, so
//! a store that fails for long costs no more memory than there are rows.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use symphony_core::failure::chain;
use symphony_core::orchestrator::Event;
use symphony_core::store::{Batch, Durability, RowKey, Store, StoreError, Write};
use symphony_core::{Failure, FailureKind, Scope};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use crate::driver::{DriverMessage, Inbox};
use crate::panics::catch_panic;

/// How long a call of the store may take before that counts as trouble.
const SLOW_AFTER: Duration = Duration::from_secs(2);

/// How long to wait after a failure, at first and at most.
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(10);

/// How long the last of it may take when the service ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// What the writer is told.
#[derive(Debug)]
enum WriterOrder {
    /// Keeps the writes of a step.
    Keep { sequence: u64, writes: Vec<Write>, durability: Durability },
    /// Reads the rows of another scope, once all that was ordered before is kept.
    Read { number: u64, scope: Scope },
}

/// What the driver holds of the writer.
#[derive(Debug)]
pub(crate) struct Writer {
    orders: mpsc::UnboundedSender<WriterOrder>,
    task: AbortOnDropHandle<()>,
}

impl Writer {
    /// Starts the task that writes, and tells the driver how far it is.
    pub(crate) fn start(store: Arc<dyn Store>, inbox: Inbox) -> Self {
        let (orders, queue) = mpsc::unbounded_channel();
        let (queue, wanted) = (Some(queue), Wanted::default());
        let task = WriterTask { store, queue, wanted, inbox, told: None };
        Self { orders, task: AbortOnDropHandle::new(tokio::spawn(task.run())) }
    }

    /// Keeps the writes of a step: [`DriverMessage::Committed`] follows.
    pub(crate) fn keep(&self, sequence: u64, writes: Vec<Write>, durability: Durability) {
        let _ = self.orders.send(WriterOrder::Keep { sequence, writes, durability });
    }

    /// Reads the rows of another scope: [`DriverMessage::Rows`] follows. A later one replaces it.
    pub(crate) fn read(&self, number: u64, scope: Scope) {
        let _ = self.orders.send(WriterOrder::Read { number, scope });
    }

    /// Waits until the last of it is kept. Returns whether it is.
    pub(crate) async fn finish(self) -> bool {
        drop(self.orders);
        tokio::time::timeout(FLUSH_TIMEOUT, self.task).await.is_ok_and(|ended| ended.is_ok())
    }
}

/// What is to be kept or read next.
#[derive(Debug, Default)]
struct Wanted {
    /// The newest row of each key, with its place in the order.
    rows: BTreeMap<RowKey, (u64, Write)>,
    places: u64,
    durability: Durability,
    /// The last step whose writes are among them.
    sequence: Option<u64>,
    /// What is to be read, and the number of that order.
    scope: Option<(u64, Scope)>,
}

impl Wanted {
    fn take(&mut self, order: WriterOrder) {
        match order {
            WriterOrder::Read { number, scope } => self.scope = Some((number, scope)),
            WriterOrder::Keep { sequence, writes, durability } => {
                self.sequence = Some(sequence);
                self.durability = self.durability.max(durability);
                for write in writes {
                    self.places += 1;
                    self.rows.insert(write.key(), (self.places, write));
                }
            }
        }
    }

    /// Returns what is to be kept now, and the last step of it.
    fn batch(&mut self) -> Option<(u64, Batch)> {
        let sequence = self.sequence.take()?;
        let mut rows: Vec<_> = std::mem::take(&mut self.rows).into_values().collect();
        rows.sort_by_key(|(place, _)| *place);
        let writes = rows.into_iter().map(|(_, write)| write).collect();
        Some((sequence, Batch { durability: std::mem::take(&mut self.durability), writes }))
    }

    /// Takes back what could not be kept, before all that came since, but for rows that have newer
    /// ones.
    fn take_back(&mut self, sequence: u64, batch: Batch) {
        self.sequence = self.sequence.max(Some(sequence));
        self.durability = self.durability.max(batch.durability);
        for (place, write) in (0..).zip(batch.writes) {
            if let Entry::Vacant(entry) = self.rows.entry(write.key()) {
                entry.insert((place, write));
            }
        }
    }
}

/// The task that writes.
struct WriterTask {
    store: Arc<dyn Store>,
    /// `None` once the driver is gone.
    queue: Option<mpsc::UnboundedReceiver<WriterOrder>>,
    wanted: Wanted,
    inbox: Inbox,
    /// The trouble that was told last, and is not over.
    told: Option<String>,
}

impl WriterTask {
    async fn run(mut self) {
        let mut backoff = FIRST_BACKOFF;
        while self.has_work().await {
            if self.work().await {
                backoff = FIRST_BACKOFF;
                continue;
            }
            tokio::select! {
                () = take_orders(&mut self.queue, &mut self.wanted) => {}
                () = sleep(backoff) => {}
            }
            backoff = (backoff * 2).min(MAX_BACKOFF);
        }
    }

    /// Waits for something to do, and takes in all there is of it. Returns whether there is any.
    async fn has_work(&mut self) -> bool {
        loop {
            while let Some(order) = self.queue.as_mut().and_then(|queue| queue.try_recv().ok()) {
                self.wanted.take(order);
            }
            let is_wanted = self.wanted.sequence.is_some() || self.wanted.scope.is_some();
            let Some(queue) = &mut self.queue else { return self.wanted.sequence.is_some() };
            if is_wanted {
                return true;
            }
            match queue.recv().await {
                Some(order) => self.wanted.take(order),
                None => self.queue = None,
            }
        }
    }

    /// Does the next thing, the writes first. Returns whether that could be done.
    async fn work(&mut self) -> bool {
        let store = Arc::clone(&self.store);
        if let Some((sequence, batch)) = self.wanted.batch() {
            let is_kept = self.call(store.commit(&batch)).await.is_some();
            if is_kept {
                self.inbox.post(DriverMessage::Committed(sequence));
                self.end_trouble();
            } else {
                self.wanted.take_back(sequence, batch);
            }
            is_kept
        } else if let Some((number, scope)) = self.wanted.scope.take() {
            let rows = self.call(store.rows(&scope)).await;
            let is_read = rows.is_some();
            if let Some(rows) = rows {
                self.inbox.post(DriverMessage::Rows(number, rows.claims));
                self.end_trouble();
            } else {
                self.wanted.scope.get_or_insert((number, scope));
            }
            is_read
        } else {
            true
        }
    }

    /// Runs a call of the store to its end, however long that takes; orders are taken in meanwhile.
    async fn call<T>(&mut self, call: impl Future<Output = Result<T, StoreError>>) -> Option<T> {
        let (mut call, mut slow) = (pin!(catch_panic(call)), pin!(sleep(SLOW_AFTER)));
        let mut is_slow = false;
        let outcome = loop {
            tokio::select! {
                biased;
                outcome = &mut call => break outcome,
                () = &mut slow, if !is_slow => {
                    is_slow = true;
                    self.tell_trouble(format!("the store has not answered for {SLOW_AFTER:?}"));
                }
                () = take_orders(&mut self.queue, &mut self.wanted) => {}
            }
        };
        match outcome {
            Ok(Ok(done)) => return Some(done),
            Ok(Err(error)) => self.tell_trouble(chain(&error)),
            Err(panic) => self.tell_trouble(panic.message),
        }
        None
    }

    /// Tells of a trouble once.
    fn tell_trouble(&mut self, message: String) {
        if self.told.as_ref() != Some(&message) {
            self.told = Some(message.clone());
            self.inbox.send(Event::Storage(Some(Failure::new(FailureKind::Storage, message))));
        }
    }

    fn end_trouble(&mut self) {
        if self.told.take().is_some() {
            self.inbox.send(Event::Storage(None));
        }
    }
}

/// Takes in orders for as long as it is polled.
async fn take_orders(
    queue: &mut Option<mpsc::UnboundedReceiver<WriterOrder>>,
    wanted: &mut Wanted,
) {
    while let Some(open) = queue {
        match open.recv().await {
            Some(order) => wanted.take(order),
            None => *queue = None,
        }
    }
    std::future::pending().await
}
