//! Faults on request: what a tracker on the other side of a network does by itself.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use symphony_core::time::Wall;
use symphony_core::tracker::{TrackerError, TrackerErrorKind};
use tokio::sync::watch;

/// What goes wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryFault {
    /// It is answered with an error.
    Fail {
        /// The category.
        kind: TrackerErrorKind,
        /// When to ask again, where the tracker says so.
        retry_at: Option<Wall>,
    },
    /// It is not answered until [`Faults::release`]; then with what is true by then.
    Hang,
    /// It is answered late.
    Delay(Duration),
}

impl MemoryFault {
    /// An error of this category.
    #[must_use]
    pub const fn fail(kind: TrackerErrorKind) -> Self {
        Self::Fail { kind, retry_at: None }
    }

    /// The tracker wants to be left alone, perhaps until a time it names.
    #[must_use]
    pub const fn rate_limited(retry_at: Option<Wall>) -> Self {
        Self::Fail { kind: TrackerErrorKind::RateLimited, retry_at }
    }
}

/// Which requests a fault is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requests {
    /// Any read, and all of it.
    Reads,
    /// A read of candidates or by states; the other part of a poll is answered.
    Candidates,
    /// A read by ids; the other part of a poll is answered.
    IssuesById,
    /// A call of a tool.
    Tools,
}

/// The faults that wait for their request.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use symphony_core::StateSet;
/// use symphony_core::tracker::{TrackerErrorKind, TrackerExt};
/// use symphony_memory::{MemoryFault, MemoryTracker};
///
/// let board = MemoryTracker::new();
/// board.faults().next(MemoryFault::fail(TrackerErrorKind::Status));
/// let todo = StateSet::new(["Todo"]);
/// let error = board.fetch_issues_by_states(&todo).await.unwrap_err();
/// assert_eq!(error.kind, TrackerErrorKind::Status);
/// assert!(board.fetch_issues_by_states(&todo).await.is_ok());
/// # });
/// ```
#[derive(Debug, Default)]
pub struct Faults {
    plan: Mutex<Plan>,
    released: watch::Sender<u64>,
    hanging: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Plan {
    next: VecDeque<(Requests, MemoryFault)>,
    always: Vec<(Requests, MemoryFault)>,
}

impl Faults {
    /// The next read meets this fault. Called again, the one after that does.
    pub fn next(&self, fault: MemoryFault) {
        self.next_of(Requests::Reads, fault);
    }

    /// The next request of this sort meets this fault.
    pub fn next_of(&self, requests: Requests, fault: MemoryFault) {
        self.plan().next.push_back((requests, fault));
    }

    /// Every request of this sort meets this fault, until [`clear`](Self::clear).
    pub fn always(&self, requests: Requests, fault: MemoryFault) {
        self.plan().always.push((requests, fault));
    }

    /// Requests that hang are answered now.
    pub fn release(&self) {
        self.released.send_modify(|count| *count += 1);
    }

    /// Forgets every fault, and releases what hangs.
    pub fn clear(&self) {
        *self.plan() = Plan::default();
        self.release();
    }

    /// How many requests hang.
    #[must_use]
    pub fn hanging(&self) -> usize {
        *self.hanging.borrow()
    }

    /// Waits until exactly this many requests hang.
    pub async fn until_hanging(&self, count: usize) {
        // The sender lives as long as we do, so this ends with the condition only.
        let _ = self.hanging.subscribe().wait_for(|hanging| *hanging == count).await;
    }

    /// Lets a request that asks for these things meet its fault, if one waits. Returns the error
    /// of each part.
    pub(crate) async fn apply(&self, asked: &[Requests]) -> Met {
        let Some((requests, fault)) = self.plan().take(asked) else { return Met::default() };
        match fault {
            MemoryFault::Fail { kind, retry_at } => Met(Some((requests, kind, retry_at))),
            MemoryFault::Delay(span) => {
                tokio::time::sleep(span).await;
                Met::default()
            }
            MemoryFault::Hang => {
                let mut released = self.released.subscribe();
                let _hanging = Hanging::begin(&self.hanging);
                // An error would mean that the sender is gone, and we borrow it.
                let _ = released.changed().await;
                Met::default()
            }
        }
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Plan {
    fn take(&mut self, asked: &[Requests]) -> Option<(Requests, MemoryFault)> {
        let fits = |requests: Requests| match requests {
            Requests::Reads => !asked.contains(&Requests::Tools),
            other => asked.contains(&other),
        };
        if let Some(index) = self.next.iter().position(|(requests, _)| fits(*requests)) {
            return self.next.remove(index);
        }
        self.always.iter().find(|(requests, _)| fits(*requests)).cloned()
    }
}

/// What a request has met.
#[derive(Debug, Default)]
pub(crate) struct Met(Option<(Requests, TrackerErrorKind, Option<Wall>)>);

impl Met {
    /// Whether this part of the request may be answered.
    pub(crate) fn part(&self, part: Requests) -> Result<(), TrackerError> {
        match self.0 {
            Some((requests, kind, retry_at)) if requests == part || requests == Requests::Reads => {
                Err(TrackerError::new(kind, "a fault was asked for").with_retry_at(retry_at))
            }
            _ => Ok(()),
        }
    }
}

/// A request that hangs, counted until it is dropped.
struct Hanging<'a>(&'a watch::Sender<usize>);

impl<'a> Hanging<'a> {
    fn begin(count: &'a watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count)
    }
}

impl Drop for Hanging<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}
