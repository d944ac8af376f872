//! The FIFO queue of refused spenders: each keeps its position, and none waits for ever.

use std::collections::BTreeMap;
use std::time::Duration;

use super::spender::{Spender, SpenderRank};
use crate::time::Mono;

/// How long after the promised time a place is kept, at least.
const MIN_RETURN_GRACE: Duration = Duration::from_secs(5);

/// What a request takes from the meters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    pub(super) requests: u64,
    pub(super) points: u64,
}

impl Cost {
    pub(super) const fn new(points: u64) -> Self {
        Self { requests: 1, points }
    }

    const fn plus(self, other: Self) -> Self {
        Self {
            requests: self.requests.saturating_add(other.requests),
            points: self.points.saturating_add(other.points),
        }
    }
}

/// One waiting spender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wait {
    since: Mono,
    /// When it was told to come back.
    due: Mono,
    cost: Cost,
}

impl Wait {
    fn is_kept(&self, now: Mono, step: Duration) -> bool {
        now <= self.due + MIN_RETURN_GRACE.max(step)
    }
}

/// The position of a spender in the queue.
pub(super) struct QueuePosition {
    /// What those before it take: it is left for them.
    pub(super) ahead: Cost,
    /// Whether it is the first of its rank: only that one's patience can end.
    first: bool,
    /// How long until its patience ends.
    pub(super) patience: Duration,
}

impl QueuePosition {
    /// Whether the rank's floor no longer holds for it.
    pub(super) fn is_entitled(&self) -> bool {
        self.first && self.patience.is_zero()
    }
}

/// The waiting spenders, each once, so that many calls of one agent are one position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WaitQueue {
    waiting: BTreeMap<Spender, Wait>,
    /// When each rank last got something.
    served: BTreeMap<SpenderRank, Mono>,
}

impl WaitQueue {
    /// How many are expected back.
    pub(super) fn len(&self, now: Mono, step: Duration) -> usize {
        let waiting = self.waiting.values();
        waiting.filter(|wait| wait.is_kept(now, step)).count()
    }

    /// Drops the spenders that did not come back.
    pub(super) fn expire(&mut self, now: Mono, step: Duration) {
        self.waiting.retain(|_, wait| wait.is_kept(now, step));
    }

    /// Orders by the ends of patience: one order over all ranks, so spenders never wait for each
    /// other, and later ones cannot push in for ever.
    pub(super) fn position(&self, spender: &Spender, now: Mono, step: Duration) -> QueuePosition {
        let since = self.waiting.get(spender).map_or(now, |wait| wait.since);
        let own = self.turn(spender, since, step);
        let mut position =
            QueuePosition { ahead: Cost::default(), first: true, patience: now.until(own.0) };
        for (other, wait) in &self.waiting {
            let turn = self.turn(other, wait.since, step);
            if other != spender && turn < own {
                position.first &= other.rank() != spender.rank();
                position.ahead = position.ahead.plus(wait.cost);
            }
        }
        position
    }

    /// A refused spender keeps the place it has, or takes the last one.
    pub(super) fn wait(&mut self, spender: &Spender, now: Mono, due: Mono, cost: Cost) {
        let since = self.waiting.get(spender).map_or(now, |wait| wait.since);
        let wait = Wait { since, due, cost };
        self.waiting.insert(spender.clone(), wait);
    }

    /// Removes an admitted spender. One that left enough for all before it has not taken its rank's turn.
    pub(super) fn serve(&mut self, spender: &Spender, now: Mono, position: &QueuePosition) {
        self.waiting.remove(spender);
        if position.first {
            self.served.insert(spender.rank(), now);
        }
    }

    fn turn<'a>(
        &self,
        spender: &'a Spender,
        since: Mono,
        step: Duration,
    ) -> (Mono, SpenderRank, Mono, &'a Spender) {
        let rank = spender.rank();
        // What the rank got in the meantime counts: a hundred agents are no better than one.
        let from = self.served.get(&rank).map_or(since, |at| since.max(*at));
        let patience = step.saturating_mul(rank.patience());
        (from + patience, rank, since, spender)
    }
}
