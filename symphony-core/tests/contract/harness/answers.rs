//! Reads, and how they are answered.

use symphony_core::Failure;
use symphony_core::orchestrator::{Answer, Event, ReadId};

use super::{Harness, board};

/// A read whose answer is on its way: it tells what was true when it was made.
pub(crate) struct Late(ReadId, Answer);

impl Late {
    /// The bare event, to be handed in once too often.
    pub(crate) fn into_event(self) -> Event {
        Event::Answered { read: self.0, answer: self.1 }
    }
}

impl Harness {
    /// The open reads, in the order they were asked: `poll with MT-1`, `refresh MT-1`, `read MT-2`.
    pub(crate) fn reads(&self) -> Vec<String> {
        self.reads.values().map(board::spell).collect()
    }

    /// The one open read is answered as the board is now.
    pub(crate) fn answer(&mut self) {
        self.answer_but(|_| ());
    }

    /// The one open read is answered as the board is now, but for what `differ` changes.
    pub(crate) fn answer_but(&mut self, differ: impl FnOnce(&mut Answer)) {
        assert_eq!(self.reads.len(), 1, "which of {:?}?", self.reads());
        let Late(read, mut answer) = self.withhold();
        differ(&mut answer);
        self.deliver(Late(read, answer));
    }

    /// The open read with this spelling is answered as the board is now.
    pub(crate) fn answer_to(&mut self, spelling: &str) {
        self.answer_to_but(spelling, |_| ());
    }

    /// The same, but for what `differ` changes.
    pub(crate) fn answer_to_but(&mut self, spelling: &str, differ: impl FnOnce(&mut Answer)) {
        let Late(read, mut answer) = self.withhold_to(spelling);
        differ(&mut answer);
        self.deliver(Late(read, answer));
    }

    /// The answer to the open read with this spelling, to be delivered later.
    pub(crate) fn withhold_to(&self, spelling: &str) -> Late {
        let mut open = self.reads.iter();
        let found = open.find(|(_, query)| board::spell(query) == spelling);
        let Some((read, query)) = found else {
            panic!("{spelling:?} is not among {:?}", self.reads());
        };
        Late(*read, self.board_answer(query))
    }

    /// The one open read fails as a whole.
    pub(crate) fn answer_fails(&mut self, failure: &Failure) {
        self.answer_but(|answer| {
            answer.candidates = answer.candidates.take().map(|_| Err(failure.clone()));
            answer.by_id = answer.by_id.take().map(|_| Err(failure.clone()));
        });
    }

    /// The answer to the oldest open read, to be delivered later.
    pub(crate) fn withhold(&self) -> Late {
        let (read, query) = self.reads.first_key_value().expect("an open read");
        Late(*read, self.board_answer(query))
    }

    pub(crate) fn deliver(&mut self, Late(read, answer): Late) {
        self.reads.remove(&read).expect("a read is answered once");
        self.event(Event::Answered { read, answer });
    }

    /// Every read is answered as the board is now, until none is open.
    pub(crate) fn settle(&mut self) {
        for _ in 0..50 {
            if self.reads.is_empty() {
                return;
            }
            let late = self.withhold();
            self.deliver(late);
        }
        panic!("the reads never end: {:?}", self.asked());
    }
}
