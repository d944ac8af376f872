//! The store around the orchestrator: it keeps what steps write, a little later and in order, and
//! what waits for that is performed then. At a crash a part of what was not acknowledged is lost.

use std::collections::VecDeque;

use symphony_core::orchestrator::{Effect, Step};
use symphony_core::run::RunId;
use symphony_core::store::{RowMap, Write};
use symphony_core::{Failure, FailureKind};

use crate::faults::{Fault, Luck};
use crate::plan::Plan;

/// An effect that waits for its rows, and what was in force when it was decided.
#[derive(Debug)]
pub(crate) struct Deferred {
    pub(crate) effect: Effect,
    pub(crate) scope: usize,
    pub(crate) root: &'static str,
}

/// What a step asked for: first the rows, then the effects.
#[derive(Debug)]
struct Pending {
    writes: Vec<Write>,
    effects: Vec<Deferred>,
}

/// What keeps the store from working.
#[derive(Debug)]
struct Trouble {
    why: &'static str,
    until: u64,
    /// Whether each try fails, or one hangs.
    refuses: bool,
    told: bool,
}

/// What came of a commit.
#[derive(Debug, Default)]
pub(crate) struct Commit {
    /// What may be performed now.
    pub(crate) effects: Vec<Deferred>,
    /// That the store fails, or works again.
    pub(crate) storage: Option<Option<Failure>>,
    /// After how many milliseconds the next one comes.
    pub(crate) again: Option<u64>,
}

/// The store.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// What was acknowledged.
    kept: RowMap,
    /// What was issued besides.
    queue: VecDeque<Pending>,
    trouble: Option<Trouble>,
    pub(crate) luck: Luck,
}

impl Ledger {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            kept: RowMap::default(),
            queue: VecDeque::new(),
            trouble: None,
            luck: Luck::new(plan.seed, 9, plan.faults),
        }
    }

    /// Takes what a step writes, and its effects that wait for that. Returns after how many
    /// milliseconds a commit comes, if none was on its way.
    pub(crate) fn issue(
        &mut self,
        now: u64,
        writes: Vec<Write>,
        effects: Vec<Deferred>,
    ) -> Option<u64> {
        if writes.is_empty() && effects.is_empty() {
            return None;
        }
        let was_empty = self.queue.is_empty();
        self.queue.push_back(Pending { writes, effects });
        was_empty.then(|| self.delay(now))
    }

    fn delay(&mut self, now: u64) -> u64 {
        let luck = &mut self.luck;
        if let Some(trouble) = &self.trouble {
            return trouble.until.saturating_sub(now).min(luck.rng.between(1, 20_000));
        }
        let is_rare = luck.rng.per_mille(400);
        if luck.strikes(Fault::StoreSlow, 4) {
            return luck.rng.between(500, 30_000);
        }
        let (why, span, refuses) = if is_rare && luck.strikes(Fault::StoreRefused, 2) {
            ("busy", luck.rng.between(5_000, 600_000), true)
        } else if is_rare && luck.strikes(Fault::StoreFull, 1) {
            ("full", luck.rng.between(60_000, 2_000_000), true)
        } else if is_rare && luck.strikes(Fault::StoreHung, 2) {
            ("hung", luck.rng.between(310_000, 1_200_000), false)
        } else {
            return luck.rng.between(1, 40);
        };
        self.trouble = Some(Trouble { why, until: now + span, refuses, told: false });
        // Whether one that hangs is noticed before it comes back is left open.
        if refuses || luck.rng.per_mille(500) { luck.rng.between(1, 10_000) } else { span }
    }

    /// Commits what waits, in order: all of it, or a part.
    pub(crate) fn commit(&mut self, now: u64) -> Commit {
        let mut commit = Commit::default();
        if let Some(trouble) = self.trouble.as_mut().filter(|trouble| now < trouble.until) {
            if !std::mem::replace(&mut trouble.told, true) {
                let failure = Failure::new(FailureKind::Storage, trouble.why);
                commit.storage = Some(Some(failure));
            }
            let rest = trouble.until - now;
            let retry = self.luck.rng.between(1_000, 20_000);
            commit.again = Some(if trouble.refuses { rest.min(retry) } else { rest });
            return commit;
        }
        if self.trouble.take().is_some_and(|trouble| trouble.told) {
            commit.storage = Some(None);
        }
        let is_part = self.queue.len() > 1 && self.luck.rng.per_mille(200);
        let count = if is_part { self.luck.rng.index(self.queue.len()) } else { self.queue.len() };
        for pending in self.queue.drain(..count) {
            pending.writes.iter().for_each(|write| self.kept.apply(write));
            commit.effects.extend(pending.effects);
        }
        commit.again = (!self.queue.is_empty()).then(|| self.luck.rng.between(1, 40));
        commit
    }

    /// A stop overtakes: a start that still waits is not performed at all. Says whether there was
    /// one.
    pub(crate) fn overtake_start(&mut self, run: RunId) -> bool {
        let is_start = |effect: &Effect| matches!(effect, Effect::Start(start) if start.run == run);
        let found = self.take_back(is_start);
        if found {
            self.luck.tally.count(Fault::StopOvertook);
        }
        found
    }

    /// The end of a run overtakes: a turn that still waits is not performed.
    pub(crate) fn overtake_turn(&mut self, run: RunId) {
        let is_turn =
            |effect: &Effect| matches!(effect, Effect::NextTurn { run: of, .. } if *of == run);
        if self.take_back(is_turn) {
            self.luck.tally.count(Fault::FinishOvertook);
        }
    }

    fn take_back(&mut self, is_it: impl Fn(&Effect) -> bool) -> bool {
        let mut found = false;
        for pending in &mut self.queue {
            let before = pending.effects.len();
            pending.effects.retain(|deferred| !is_it(&deferred.effect));
            found |= pending.effects.len() < before;
        }
        found
    }

    /// The service is gone. What was acknowledged is there, and a part of the rest; after a clean
    /// end all of it, if the store works.
    pub(crate) fn end_life(&mut self, is_clean: bool) {
        let issued = self.queue.len();
        let count = match self.trouble.take() {
            None if is_clean => issued,
            _ => self.luck.rng.index(issued + 1),
        };
        for pending in self.queue.drain(..).take(count) {
            pending.writes.iter().for_each(|write| self.kept.apply(write));
        }
        if count < issued {
            self.luck.tally.count(Fault::WritesLost);
        }
    }

    /// What was issued, acknowledged or not.
    pub(crate) fn complete(&self) -> RowMap {
        let mut rows = self.kept.clone();
        let writes = self.queue.iter().flat_map(|pending| &pending.writes);
        writes.for_each(|write| rows.apply(write));
        rows
    }

    /// Begins a life. Returns its number.
    pub(crate) fn begin(&mut self) -> u64 {
        self.kept.begin()
    }

    /// From now on it works.
    pub(crate) fn calm(&mut self, now: u64) {
        self.luck.calm();
        if let Some(trouble) = &mut self.trouble {
            trouble.until = now;
        }
    }
}

/// Takes the effects that wait for the store out of a step.
pub(crate) fn split(step: &mut Step, scope: usize, root: &'static str) -> Vec<Deferred> {
    let (waiting, now) =
        std::mem::take(&mut step.effects).into_iter().partition(Effect::waits_for_store);
    step.effects = now;
    let waiting: Vec<Effect> = waiting;
    waiting.into_iter().map(|effect| Deferred { effect, scope, root }).collect()
}
