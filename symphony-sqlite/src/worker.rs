//! A thread that owns a connection: callers wait for it without blocking their runtime.

use std::fmt;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use symphony_core::store::{StoreError, StoreErrorKind};
use tokio::sync::{Semaphore, oneshot};

/// How many calls may wait for a thread. Others wait for those.
const MAX_QUEUED_CALLS: usize = 64;
/// How long the end of a thread is waited for: a disk that hangs must not hold up a shutdown.
const MAX_CLOSE_WAIT: Duration = Duration::from_secs(2);

/// What a thread owns.
pub(crate) trait Owned: Send + 'static {
    /// Returns when it wants to do something by itself. Until then its thread sleeps.
    fn deadline(&self) -> Option<Instant> {
        None
    }

    /// Does what the deadline was for.
    fn on_deadline(&mut self) {}
}

impl Owned for Connection {}

type StoreCall<T> = Box<dyn FnOnce(&mut T) + Send>;

/// A thread with what it owns. Calls are done one after another, in the order in which they came.
pub(crate) struct Worker<T> {
    calls: Option<Sender<StoreCall<T>>>,
    places: Arc<Semaphore>,
    /// Disconnected when the thread has ended.
    ended: Mutex<Receiver<()>>,
}

impl<T: Owned> Worker<T> {
    /// Starts the thread.
    pub(crate) fn start(name: &str, owned: T) -> Result<Self, StoreError> {
        let (calls, queue) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            let _end: Sender<()> = end;
            run(owned, &queue);
        });
        thread.map_err(|error| {
            StoreError::new(StoreErrorKind::Io, "cannot start a thread").with_source(error)
        })?;
        let places = Arc::new(Semaphore::new(MAX_QUEUED_CALLS));
        Ok(Self { calls: Some(calls), places, ended: Mutex::new(ended) })
    }

    /// Does a piece of work on the thread. It is done also if the caller gives up meanwhile.
    pub(crate) async fn call<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut T) -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        let gone = || StoreError::new(StoreErrorKind::Io, "the store has ended: start it again");
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| gone())?;
        let (reply, answer) = oneshot::channel();
        let job: StoreCall<T> = Box::new(move |owned| {
            let _ = reply.send(work(owned));
            drop(place);
        });
        self.calls.as_ref().and_then(|calls| calls.send(job).ok()).ok_or_else(gone)?;
        answer.await.map_err(|_| gone())?
    }
}

/// The life of the thread.
fn run<T: Owned>(mut owned: T, queue: &Receiver<StoreCall<T>>) {
    loop {
        let now = Instant::now();
        let next = match owned.deadline() {
            None => queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(at) if at <= now => Err(RecvTimeoutError::Timeout),
            Some(at) => queue.recv_timeout(at - now),
        };
        match next {
            Ok(job) => job(&mut owned),
            Err(RecvTimeoutError::Timeout) => owned.on_deadline(),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    if owned.deadline().is_some() {
        owned.on_deadline();
    }
}

impl<T> Drop for Worker<T> {
    fn drop(&mut self) {
        self.calls = None;
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = ended.recv_timeout(MAX_CLOSE_WAIT);
    }
}

impl<T> fmt::Debug for Worker<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Future, poll_fn};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Poll;

    use super::*;

    /// Counts deadlines, which all have passed when it is made.
    struct Clockwork {
        due: Instant,
        wanted: usize,
        reached: Arc<AtomicUsize>,
    }

    impl Clockwork {
        fn new(wanted: usize) -> Self {
            Self { due: Instant::now(), wanted, reached: Arc::default() }
        }
    }

    impl Owned for Clockwork {
        fn deadline(&self) -> Option<Instant> {
            (self.reached.load(Ordering::SeqCst) < self.wanted).then_some(self.due)
        }

        fn on_deadline(&mut self) {
            self.reached.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn block_on<F: Future>(future: F) -> F::Output {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn rule_16_5_deadlines_are_kept_among_calls_and_at_the_end() {
        let clockwork = Clockwork::new(1);
        let reached = Arc::clone(&clockwork.reached);
        let worker = Worker::start("test", clockwork).unwrap();
        let first = block_on(worker.call(|owned| Ok(owned.reached.load(Ordering::SeqCst))));
        assert_eq!(first.unwrap(), 1, "a call does not come before what is due");
        let second = block_on(worker.call(|owned| Ok(std::mem::replace(&mut owned.wanted, 2))));
        assert_eq!(second.unwrap(), 1);
        drop(worker);
        assert_eq!(reached.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn rule_16_5_a_thread_that_ended_is_an_error_and_no_hang() {
        let worker = Worker::start("test", Clockwork::new(0)).unwrap();
        let panics = worker.call(|_| -> Result<(), StoreError> { panic!("on purpose") });
        let error = block_on(panics).unwrap_err();
        assert_eq!(error.to_string(), "the store has ended: start it again");
        block_on(worker.call(|_| Ok(()))).unwrap_err();
    }

    #[test]
    fn rule_16_5_calls_wait_for_a_place_and_keep_their_order() {
        let worker = Worker::start("test", Clockwork::new(0)).unwrap();
        let (hold, held) = mpsc::channel::<()>();
        let done = Arc::<Mutex<Vec<usize>>>::default();
        let calls = 3 * MAX_QUEUED_CALLS;
        let blocks = worker.call(move |_| Ok(held.recv().is_ok()));
        let notes = (0..calls).map(|number| {
            let done = Arc::clone(&done);
            worker.call(move |_| {
                done.lock().unwrap().push(number);
                Ok(())
            })
        });
        block_on(async {
            let mut blocks = Box::pin(blocks);
            let mut notes: Vec<_> = notes.map(Box::pin).collect();
            poll_fn(|cx| {
                assert!(blocks.as_mut().poll(cx).is_pending());
                assert!(notes.iter_mut().all(|note| note.as_mut().poll(cx).is_pending()));
                Poll::Ready(())
            })
            .await;
            assert_eq!(worker.places.available_permits(), 0);
            drop(hold);
            blocks.await.unwrap();
            for note in notes {
                note.await.unwrap();
            }
        });
        assert_eq!(*done.lock().unwrap(), (0..calls).collect::<Vec<_>>());
    }
}
