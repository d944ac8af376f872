//! Sums over all runs (contract 10.8, 13.2).

use std::time::Duration;

use crate::agent::{Tokens, Usage, UsdMicros};
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

impl Usage {
    /// Raises this high-water mark to an absolute report and returns what that added; an
    /// increase of zero is `None`.
    pub(super) fn raise_to(&mut self, absolute: &Self) -> Self {
        let tokens =
            absolute.tokens.map(|tokens| self.tokens.get_or_insert_default().raise_to(&tokens));
        let cost = absolute.cost.map(|cost| {
            let before = self.cost.replace(cost.max(self.cost.unwrap_or_default()));
            UsdMicros(cost.0.saturating_sub(before.unwrap_or_default().0))
        });
        let tokens = tokens.filter(|tokens| *tokens != Tokens::default());
        Self { tokens, cost: cost.filter(|cost| cost.0 > 0) }
    }

    /// Whether it reports nothing.
    pub(super) const fn is_empty(&self) -> bool {
        self.tokens.is_none() && self.cost.is_none()
    }

    /// Adds it to sums of tokens and of money.
    #[inline]
    pub(crate) fn add_to(&self, tokens: &mut Tokens, cost: &mut Option<UsdMicros>) {
        if let Some(mine) = &self.tokens {
            tokens.add(mine);
        }
        if let Some(mine) = self.cost {
            let sum = cost.get_or_insert_default();
            sum.0 = sum.0.saturating_add(mine.0);
        }
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
            Outcome::Interrupted => &mut self.interrupted,
        };
        *counter += 1;
    }
}
