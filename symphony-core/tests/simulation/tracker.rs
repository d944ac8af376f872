//! A tracker that is slow, fails, refuses, and answers late, out of order or with duplicates.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use symphony_core::budget::BudgetView;
use symphony_core::orchestrator::{Answer, Event, ReadId};
use symphony_core::settings::StateSet;
use symphony_core::tracker::{
    CandidateQuery, Candidates, IssuesById, Poll, Purpose, TrackerErrorKind, Unreadable,
};
use symphony_core::{Failure, FailureKind, Issue, IssueId};

use crate::board::{Board, CardRead};
use crate::faults::{Fault, Luck};
use crate::order::rank;
use crate::plan::Plan;

/// A read under way.
#[derive(Debug)]
struct Open {
    poll: Poll,
    scope: usize,
    fate: Fate,
    asked: u64,
    /// What it saw when it was asked, if that is what it will bring.
    early: Option<Answer>,
}

/// What a read is, by what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Jobs that travel together.
    Jobs,
    /// Issues by id.
    Ids,
    /// Terminal issues, for folders without a record.
    Strays,
}

/// The form of a read.
pub(crate) const fn form(poll: &Poll) -> Form {
    match poll.purpose {
        Purpose::Check | Purpose::Turn | Purpose::Delivery => Form::Ids,
        Purpose::Sweep if poll.candidates.is_some() => Form::Strays,
        Purpose::Sweep | Purpose::Candidates | Purpose::Refresh | Purpose::Manual => Form::Jobs,
    }
}

/// How a read will end.
#[derive(Clone, Debug)]
enum Fate {
    Well,
    Failed(Failure),
    ListFailed(Failure),
    IdsFailed(Failure),
}

/// The tracker and the reads it has to answer.
#[derive(Debug)]
pub(crate) struct Tracker {
    pub(crate) board: Board,
    pub(crate) luck: Luck,
    open: BTreeMap<ReadId, Open>,
    bucket: Bucket,
    latest: ReadId,
    trouble: u64,
    /// A few answers that were given, to be given again.
    pub(crate) old: Vec<Event>,
}

impl Tracker {
    pub(crate) fn new(plan: &Plan, board: Board) -> Self {
        let mut luck = Luck::new(plan.seed, 3, plan.faults);
        let limited = luck.may(Fault::BudgetRefused) && luck.rng.per_mille(400);
        let per_hour = if limited { luck.rng.between(100, 600) } else { u64::MAX };
        let trouble = luck.rng.pick(&[5, 20, 60, 200]);
        Self {
            board,
            luck,
            open: BTreeMap::new(),
            bucket: Bucket::new(per_hour),
            latest: ReadId(0),
            trouble,
            old: Vec::new(),
        }
    }

    /// Takes a question and says after how many milliseconds the answer comes.
    pub(crate) fn ask(
        &mut self,
        now: u64,
        read: ReadId,
        scope: usize,
        poll: Poll,
        timeout: Duration,
    ) -> u64 {
        let timeout = u64::try_from(timeout.as_millis()).unwrap_or(30_000);
        let (fate, latency) = self.fate(now, timeout);
        let mut open = Open { poll, scope, fate, asked: now, early: None };
        if self.luck.strikes(Fault::OldView, 300) {
            open.early = Some(self.look(&open));
        }
        self.open.insert(read, open);
        latency
    }

    fn fate(&mut self, now: u64, timeout: u64) -> (Fate, u64) {
        let trouble = self.trouble;
        let quick = self.luck.rng.between(20, 900);
        if !self.bucket.admit(now) {
            self.luck.tally.count(Fault::BudgetRefused);
            let wait = Duration::from_millis(self.bucket.refill());
            return (Fate::Failed(refused("budget", Some(wait))), 1);
        }
        if self.luck.strikes(Fault::ReadTimedOut, trouble / 4) {
            return (Fate::Failed(failure(TrackerErrorKind::Request, "timed out")), timeout);
        }
        if self.luck.strikes(Fault::ReadFailed, trouble) {
            use TrackerErrorKind::{Pagination, Request, Response, Status};
            let kind = self.luck.rng.pick(&[Pagination, Request, Response, Status]);
            return (Fate::Failed(failure(kind, "no luck")), quick);
        }
        if self.luck.strikes(Fault::ReadRateLimited, trouble) {
            let wait = self.luck.rng.pick(&[None, Some(0), Some(700), Some(15_000), Some(90_000)]);
            return (Fate::Failed(refused("tracker", wait.map(Duration::from_millis))), quick);
        }
        if self.luck.strikes(Fault::PartFailed, trouble) {
            let failure = failure(TrackerErrorKind::Response, "half of it");
            let fate = if self.luck.rng.per_mille(500) {
                Fate::ListFailed(failure)
            } else {
                Fate::IdsFailed(failure)
            };
            return (fate, quick);
        }
        let slow = self.luck.strikes(Fault::ReadSlow, trouble);
        let latency = if slow {
            self.luck.rng.between(2_000, timeout.saturating_sub(1).max(2_000))
        } else {
            quick
        };
        (Fate::Well, latency.min(timeout))
    }

    /// The answer, now that it is due; `None` when no such read is open.
    pub(crate) fn answer(&mut self, now: u64, read: ReadId) -> Option<Event> {
        let mut open = self.open.remove(&read)?;
        if read < self.latest {
            self.luck.tally.count(Fault::OutOfOrder);
        }
        self.latest = self.latest.max(read);
        let mut answer = match open.early.take() {
            Some(early) => early,
            None => self.look(&open),
        };
        answer.budget = self.bucket.view();
        if form(&open.poll) == Form::Jobs && self.luck.strikes(Fault::NextPoll, 30) {
            let span = self.luck.rng.pick(&[0, 3_000, 45_000, 600_000, 400_000_000]);
            answer.next_poll = Some(Duration::from_millis(span));
        }
        debug_assert!(now >= open.asked, "answers come after their questions");
        let event = Event::Answered { read, answer };
        if self.luck.rng.per_mille(20) && self.old.len() < 50 {
            self.old.push(event.clone());
        }
        Some(event)
    }

    /// Drops what a service that is gone had asked.
    pub(crate) fn forget_life(&mut self) {
        self.open.clear();
        self.latest = ReadId(0);
    }

    /// From now on all goes well.
    pub(crate) fn calm(&mut self) {
        self.luck.calm();
        self.board.mend();
        self.bucket = Bucket::new(u64::MAX);
    }

    fn look(&mut self, open: &Open) -> Answer {
        let mut answer = Answer { requests: 1, ..Answer::default() };
        if let Fate::Failed(failure) = &open.fate {
            answer.requests = u32::from(failure.message != "budget");
        }
        let poll = &open.poll;
        match form(poll) {
            Form::Jobs => {
                answer.candidates =
                    poll.candidates.as_ref().map(|query| self.candidates(open, query));
                if !poll.ids.is_empty() || self.luck.rng.per_mille(500) {
                    answer.by_id = Some(self.by_id(open, &poll.ids));
                }
                if self.luck.rng.per_mille(200) {
                    answer.requests *= 2;
                }
            }
            Form::Ids => answer.by_id = Some(self.by_id(open, &poll.ids)),
            Form::Strays => {
                let query = poll.candidates.as_ref();
                answer.candidates = query.map(|query| self.by_states(open, &query.states));
            }
        }
        answer
    }

    fn candidates(&mut self, open: &Open, query: &CandidateQuery) -> Result<Candidates, Failure> {
        if let Fate::Failed(failure) | Fate::ListFailed(failure) = &open.fate {
            return Err(failure.clone());
        }
        let mut list = self.board.list(open.scope, &query.states);
        let mut more = false;
        if query.enough < list.len() && self.luck.strikes(Fault::More, 200) {
            list.sort_by(|a, b| rank(a, false).cmp(&rank(b, false)));
            list.truncate(query.enough);
            more = true;
        } else {
            self.shuffle(&mut list);
        }
        self.duplicate(&mut list);
        Ok(Candidates::new(list.iter().map(|issue| Issue::clone(issue)).collect(), more))
    }

    fn by_states(&mut self, open: &Open, states: &StateSet) -> Result<Candidates, Failure> {
        if let Fate::Failed(failure) | Fate::ListFailed(failure) = &open.fate {
            return Err(failure.clone());
        }
        let list = self.board.list(open.scope, states);
        Ok(Candidates::new(list.iter().map(|issue| Issue::clone(issue)).collect(), false))
    }

    fn by_id(&mut self, open: &Open, ids: &[IssueId]) -> Result<IssuesById, Failure> {
        if let Fate::Failed(failure) | Fate::IdsFailed(failure) = &open.fate
            && !ids.is_empty()
        {
            return Err(failure.clone());
        }
        let mut found = Vec::new();
        let mut unreadable = Vec::new();
        for id in ids {
            match self.board.read(open.scope, id) {
                CardRead::Issue(issue) => found.push(issue),
                CardRead::Absent => {}
                CardRead::Unreadable => {
                    unreadable.push(Unreadable { id: id.clone(), message: "garbled".to_owned() })
                }
            }
        }
        self.shuffle(&mut found);
        self.duplicate(&mut found);
        let found = found.iter().map(|issue| Issue::clone(issue)).collect();
        Ok(IssuesById::new(found, unreadable))
    }

    fn shuffle(&mut self, list: &mut [Arc<Issue>]) {
        if list.len() > 1 {
            let by = self.luck.rng.index(list.len());
            list.rotate_left(by);
        }
    }

    fn duplicate(&mut self, list: &mut Vec<Arc<Issue>>) {
        if !list.is_empty() && self.luck.strikes(Fault::Duplicate, 30) {
            let twice = Arc::clone(&list[self.luck.rng.index(list.len())]);
            let at = self.luck.rng.index(list.len());
            list.insert(at, twice);
        }
    }
}

fn failure(kind: TrackerErrorKind, message: &str) -> Failure {
    Failure::new(FailureKind::Tracker(kind), message)
}

fn refused(by: &str, wait: Option<Duration>) -> Failure {
    // A wait of nothing counts as none: the model need not know.
    let wait = wait.filter(|wait| !wait.is_zero());
    failure(TrackerErrorKind::RateLimited, by).with_retry_after(wait)
}

/// The tracker's own limit: so many requests an hour, refilled evenly.
#[derive(Debug)]
struct Bucket {
    per_hour: u64,
    left: u64,
    /// When `left` was last brought up to date.
    at: u64,
}

impl Bucket {
    const fn new(per_hour: u64) -> Self {
        Self { per_hour, left: per_hour, at: 0 }
    }

    /// Milliseconds in which one request is earned.
    const fn refill(&self) -> u64 {
        3_600_000 / self.per_hour + 1
    }

    fn admit(&mut self, now: u64) -> bool {
        if self.per_hour == u64::MAX {
            return true;
        }
        let earned = now.saturating_sub(self.at) / self.refill();
        self.at += earned * self.refill();
        self.left = (self.left + earned).min(self.per_hour);
        let admitted = self.left > 0;
        self.left -= u64::from(admitted);
        admitted
    }

    fn view(&self) -> Option<BudgetView> {
        (self.per_hour != u64::MAX).then(|| BudgetView {
            requests_left: Some(self.left),
            requests_limit: Some(self.per_hour),
            ..BudgetView::default()
        })
    }
}
