//! Whether Linear's pages come best first (contract 5.3), so that later ones need not be read.
//!
//! Which of its two directions puts urgent issues first is not documented. So it is not assumed
//! but read off the pages: a list is cut short only when it has been seen to be in order.

use std::sync::{Mutex, MutexGuard, PoisonError};

use symphony_core::time::Wall;

use crate::queries::{CreatedAtSort, Issue, IssueSortInput, PaginationSortOrder, PrioritySort};

/// The rank of an issue without a priority.
const NO_PRIORITY_RANK: u8 = 5;

/// What the order of dispatch looks at, as far as the server sorts by it.
type SortKey = (u8, bool, Option<Wall>);

/// The direction to ask for, and whether it is known to be right.
#[derive(Debug)]
pub(crate) struct SortOrder(Mutex<Learned>);

#[derive(Debug)]
struct Learned {
    direction: PaginationSortOrder,
    proven: bool,
}

impl Default for SortOrder {
    fn default() -> Self {
        Self(Mutex::new(Learned { direction: PaginationSortOrder::Ascending, proven: false }))
    }
}

impl SortOrder {
    /// The direction to ask a list for, from its first page to its last.
    pub(crate) fn direction(&self) -> PaginationSortOrder {
        self.learned().direction
    }

    /// By priority in this direction, then oldest first.
    pub(crate) fn sort(direction: PaginationSortOrder) -> Vec<IssueSortInput> {
        let priority = PrioritySort {
            no_priority_first: Some(false),
            order: Some(direction),
            use_priority_sort_order_tiebreaker: Some(false),
        };
        let created_at = CreatedAtSort { order: Some(PaginationSortOrder::Ascending) };
        vec![
            IssueSortInput { priority: Some(priority), ..IssueSortInput::default() },
            IssueSortInput { created_at: Some(created_at), ..IssueSortInput::default() },
        ]
    }

    /// How many of these, the first of a longer list that was asked for in this direction, are
    /// sure to come before all that follow.
    pub(crate) fn settled(&self, asked: PaginationSortOrder, issues: &[Issue]) -> usize {
        let places: Vec<SortKey> = issues.iter().map(place).collect();
        let mut learned = self.learned();
        // No priority comes last in either direction, and so tells nothing of it.
        let ranks = || {
            let pairs = places.windows(2).map(|pair| (pair[0].0, pair[1].0));
            pairs.filter(|(_, after)| *after < NO_PRIORITY_RANK)
        };
        let rises = ranks().any(|(before, after)| before < after);
        if !places.is_sorted() {
            if !rises && ranks().any(|(before, after)| before > after) {
                learned.direction = other(asked);
            }
            learned.proven = false;
            return 0;
        }
        learned.proven |= rises;
        // Issues of one priority look the same either way; but nothing comes before urgent ones.
        let is_sure = learned.proven || places.first().is_some_and(|(rank, ..)| *rank == 1);
        let last = places.last().filter(|_| is_sure);
        // Of equal ones, the rest may follow.
        last.map_or(0, |last| places.partition_point(|place| place < last))
    }

    fn learned(&self) -> MutexGuard<'_, Learned> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const fn other(direction: PaginationSortOrder) -> PaginationSortOrder {
    match direction {
        PaginationSortOrder::Ascending => PaginationSortOrder::Descending,
        PaginationSortOrder::Descending => PaginationSortOrder::Ascending,
    }
}

fn place(issue: &Issue) -> SortKey {
    let rank = (1..=4_u8)
        .find(|rank| issue.priority == Some(f64::from(*rank)))
        .unwrap_or(NO_PRIORITY_RANK);
    let created = issue.created_at.as_ref().and_then(|at| Wall::parse(&at.0));
    (rank, created.is_none(), created)
}
