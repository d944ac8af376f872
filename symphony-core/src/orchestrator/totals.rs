//! Sums over all runs (contract 10.8, 13.2).

use std::time::Duration;

use crate::agent::Tokens;
use crate::snapshot::Totals;

use super::Outcome;

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
    /// Returns the totals with what the live runs have taken so far.
    pub(super) fn with_live(&self, runtime: Duration) -> Self {
        Self { runtime: self.runtime.saturating_add(runtime), ..self.clone() }
    }

    /// Counts the end of a run.
    pub(super) fn count_end(&mut self, outcome: Outcome, took: Duration) {
        self.runtime = self.runtime.saturating_add(took);
        let counter = match outcome {
            Outcome::Done => &mut self.done,
            Outcome::Succeeded => &mut self.succeeded,
            Outcome::OutOfTurns => &mut self.out_of_turns,
            Outcome::Failed | Outcome::TimedOut | Outcome::Stalled => &mut self.failed,
            Outcome::Cancelled => &mut self.cancelled,
            Outcome::InputRequired => &mut self.input_required,
        };
        *counter += 1;
    }
}
