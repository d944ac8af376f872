//! Choosing the best few of many candidates in one pass (contract 5.3, 5.4).

use std::collections::{BTreeMap, BinaryHeap};

use crate::issue::{IssueId, StateName};
use crate::policy::Rank;
use crate::settings::Settings;
use crate::snapshot::Slots;

/// How many issues beyond the free slots are read before a start (contract 5.4).
pub(in crate::orchestrator) const SPARE_CHECKS: usize = 5;

/// Keeps the best few of many, by limited state where states have limits.
pub(in crate::orchestrator) struct Best<'a> {
    settings: &'a Settings,
    slots: &'a Slots,
    free: usize,
    /// One group for every limited state.
    limited: BTreeMap<&'a StateName, Group<'a>>,
    /// And one for all the rest.
    rest: Group<'a>,
}

/// The best of those that share a limit.
struct Group<'a> {
    /// How many of them could start.
    room: usize,
    /// The worst is on top.
    heap: BinaryHeap<(Rank<'a>, Choice<'a>)>,
}

impl<'a> Group<'a> {
    fn new(room: usize) -> Self {
        Self { room, heap: BinaryHeap::new() }
    }

    /// Takes the choice if it is among the best so far and fit. Fitness is asked last: it is dear.
    fn offer(&mut self, rank: Rank<'a>, choice: Choice<'a>, is_fit: impl FnOnce() -> bool) {
        if self.heap.len() < self.room + SPARE_CHECKS {
            if is_fit() {
                self.heap.push((rank, choice));
            }
        } else if let Some(mut worst) = self.heap.peek_mut()
            && rank < worst.0
            && is_fit()
        {
            *worst = (rank, choice);
        }
    }
}

/// A chosen issue: from the list, by its place there, or a due retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::orchestrator) enum Choice<'a> {
    Kept(usize),
    Retry(&'a IssueId),
}

impl<'a> Best<'a> {
    pub(in crate::orchestrator) fn new(
        free: usize,
        settings: &'a Settings,
        slots: &'a Slots,
    ) -> Self {
        Self { settings, slots, free, limited: BTreeMap::new(), rest: Group::new(free) }
    }

    /// Takes the choice if it is among the best of its group so far, and fit.
    pub(in crate::orchestrator) fn offer(
        &mut self,
        rank: Rank<'a>,
        state: &'a StateName,
        choice: Choice<'a>,
        is_fit: impl FnOnce() -> bool,
    ) {
        let has_limits = !self.settings.agent.max_concurrent_agents_by_state.is_empty();
        let room = has_limits.then(|| self.slots.free_in_state(self.settings, state)).flatten();
        let group = match room {
            None => &mut self.rest,
            Some(0) => return,
            Some(room) => {
                let room = self.free.min(room as usize);
                self.limited.entry(state).or_insert_with(|| Group::new(room))
            }
        };
        group.offer(rank, choice, is_fit);
    }

    /// In order of dispatch: enough to fill the free slots if nothing changed, and a few to spare.
    pub(in crate::orchestrator) fn into_choices(self) -> Vec<Choice<'a>> {
        let mut all: Vec<(Rank<'a>, bool, Choice<'a>)> = Vec::new();
        for Group { room, heap } in self.limited.into_values().chain([self.rest]) {
            for (place, (rank, choice)) in heap.into_sorted_vec().into_iter().enumerate() {
                all.push((rank, place < room, choice));
            }
        }
        all.sort();
        let (mut starters, mut spares) = (0, 0);
        let mut choices = Vec::new();
        for (_, has_room, choice) in all {
            if has_room && starters < self.free {
                starters += 1;
            } else if spares < SPARE_CHECKS {
                spares += 1;
            } else {
                continue;
            }
            choices.push(choice);
        }
        choices
    }
}
