//! Sums over all runs (contract 10.8, 13.2).

use std::time::Duration;

use crate::agent::Tokens;
use crate::snapshot::Totals;

use super::RunEnd;

impl Tokens {
    fn fields(&mut self) -> [&mut u64; 5] {
        [
            &mut self.input,
            &mut self.cached_input,
            &mut self.output,
            &mut self.reasoning_output,
            &mut self.total,
        ]
    }

    /// Adds another count to this one.
    pub(super) fn add(&mut self, other: &Self) {
        let mut other = *other;
        for (mine, theirs) in self.fields().into_iter().zip(other.fields()) {
            *mine = mine.saturating_add(*theirs);
        }
    }

    /// Raises this high-water mark to an absolute count and returns what that added. A count that
    /// fell adds nothing, so nothing is counted twice.
    pub(super) fn raise_to(&mut self, absolute: &Self) -> Self {
        let (mut absolute, mut added) = (*absolute, Self::default());
        for ((mine, theirs), delta) in
            self.fields().into_iter().zip(absolute.fields()).zip(added.fields())
        {
            *delta = theirs.saturating_sub(*mine);
            *mine = (*mine).max(*theirs);
        }
        added
    }
}

impl Totals {
    /// Counts the end of a run. One that stalled, or whose issue could not be read any more, has
    /// failed whatever its last word was.
    pub(super) fn count_end(&mut self, end: &RunEnd, failed: bool, took: Duration) {
        self.runtime = self.runtime.saturating_add(took);
        let counter = match end {
            _ if failed => &mut self.failed,
            RunEnd::Failed(_) => &mut self.failed,
            RunEnd::Succeeded => &mut self.succeeded,
            RunEnd::InputRequired { .. } => &mut self.input_required,
            RunEnd::Cancelled => &mut self.cancelled,
        };
        *counter += 1;
    }
}
