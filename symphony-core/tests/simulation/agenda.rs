//! What will happen and when: virtual time jumps from one entry to the next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use symphony_core::orchestrator::{ReadId, RemovalId};
use symphony_core::run::RunId;

/// Something that is due at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// A read comes back.
    Answer(ReadId),
    /// An agent does its next thing; a newer epoch makes it stale.
    Agent(RunId, u32),
    /// A run that was stopped before it could start is over.
    Unstarted(RunId),
    /// The store keeps what waits.
    Commit,
    /// A removal comes back.
    Removal(RemovalId),
    /// The tracker tells something by itself.
    Delivery(u64),
    /// A person changes the board.
    Board,
    /// An operator does something.
    Operator,
    /// The machine, or the service as a whole, has an accident.
    Accident,
    /// The changed workflow file has stood for a second.
    File,
    /// An embedder's job comes back.
    Job,
    /// The service is killed.
    Kill,
    /// The calm tail begins.
    Tail,
    /// In the tail, an operator looks after what needs a person.
    Care,
}

/// A queue in time; entries of one moment keep the order in which they were made.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    queue: BinaryHeap<Reverse<(u64, u64, Due)>>,
    made: u64,
}

impl Agenda {
    /// Puts something at a time, in milliseconds.
    pub(crate) fn put(&mut self, at: u64, due: Due) {
        self.made += 1;
        self.queue.push(Reverse((at, self.made, due)));
    }

    /// When the next thing is due.
    pub(crate) fn next(&self) -> Option<u64> {
        self.queue.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes the next thing.
    pub(crate) fn take(&mut self) -> Option<Due> {
        self.queue.pop().map(|Reverse((_, _, due))| due)
    }

    /// Forgets what belonged to a life of the service that is over.
    pub(crate) fn forget_life(&mut self) {
        let stays = |due: &Due| {
            !matches!(
                due,
                Due::Answer(_)
                    | Due::Agent(..)
                    | Due::Unstarted(_)
                    | Due::Commit
                    | Due::Removal(_)
                    | Due::Job
            )
        };
        self.queue.retain(|Reverse((_, _, due))| stays(due));
    }
}
