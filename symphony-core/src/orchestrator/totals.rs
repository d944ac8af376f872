//! Sums over all runs (contract 10.8, 13.2).

use std::time::Duration;

use crate::agent::{Tokens, Usage, UsdMicros};
use crate::snapshot::Totals;

use super::Outcome;

impl Tokens {
    /// Combines two counts field by field.
    #[inline]
    fn zip(&self, other: &Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            input: combine(self.input, other.input),
            cached_input: combine(self.cached_input, other.cached_input),
            output: combine(self.output, other.output),
            reasoning_output: combine(self.reasoning_output, other.reasoning_output),
            total: combine(self.total, other.total),
        }
    }

    /// Adds another count to this one.
    #[inline]
    pub(super) fn add(&mut self, other: &Self) {
        *self = self.zip(other, u64::saturating_add);
    }

    /// Raises this high-water mark to an absolute count and returns what that added. A count that
    /// fell adds nothing, so nothing is counted twice.
    #[inline]
    pub(super) fn raise_to(&mut self, absolute: &Self) -> Self {
        let added = absolute.zip(self, u64::saturating_sub);
        *self = self.zip(absolute, u64::max);
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
    pub(super) fn add_to(&self, tokens: &mut Tokens, cost: &mut Option<UsdMicros>) {
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
        };
        *counter += 1;
    }
}
