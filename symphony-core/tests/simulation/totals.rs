//! The sums of contract 10.8, added up from what was reported.

use std::collections::BTreeMap;
use std::time::Duration;

use symphony_core::agent::{ThreadId, Tokens, Usage, UsdMicros};
use symphony_core::orchestrator::{RunEnd, StopReason};
use symphony_core::snapshot::Totals;
use symphony_core::store::{ClaimRow, Rows};

use crate::runs::{FinishReason, RunModel};
use crate::violation::{Check, ensure};

/// Sums over all lives of the service.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    high: BTreeMap<ThreadId, (Tokens, u64)>,
    tokens: Tokens,
    cost: u64,
    runtime: Duration,
    started: u64,
    ended: u64,
    /// Ends that can be counted in one way only.
    sure: Totals,
    last: Option<Totals>,
}

impl Sums {
    /// Sums go on over lives, and what a crash cut off was interrupted (16.4).
    pub(crate) fn new(rows: &Rows) -> Self {
        let (totals, cut_off) = (&rows.totals, rows.open_runs.len() as u64);
        let mut sums = Self {
            tokens: totals.tokens,
            cost: totals.cost.map_or(0, |cost| cost.0),
            runtime: totals.runtime,
            started: totals.started,
            ended: ended(totals) + cut_off,
            sure: totals.clone(),
            ..Self::default()
        };
        sums.sure.interrupted += cut_off;
        rows.claims.iter().for_each(|row| sums.restore(row));
        sums
    }

    /// What of a claim's conversations is in the sums already.
    pub(crate) fn restore(&mut self, row: &ClaimRow) {
        for (thread, usage) in &row.counted {
            let counted = (usage.tokens.unwrap_or_default(), usage.cost.map_or(0, |cost| cost.0));
            self.high.insert(thread.clone(), counted);
        }
    }

    /// The sum of all tokens.
    pub(crate) const fn tokens(&self) -> Tokens {
        self.tokens
    }

    pub(crate) fn started(&mut self) {
        self.started += 1;
    }

    /// A thread reports its absolute total; returns what is new in it.
    pub(crate) fn used(&mut self, thread: &ThreadId, total: &Usage) -> (Tokens, u64) {
        let (high, highest_cost) = self.high.entry(thread.clone()).or_default();
        let cost = total.cost.map_or(0, |cost| cost.0);
        let new_cost = cost.saturating_sub(*highest_cost);
        *highest_cost = cost.max(*highest_cost);
        self.cost += new_cost;
        let total = total.tokens.unwrap_or_default();
        let mut new = Tokens::default();
        for (high, now, new, sum) in [
            (&mut high.input, total.input, &mut new.input, &mut self.tokens.input),
            (
                &mut high.cached_input,
                total.cached_input,
                &mut new.cached_input,
                &mut self.tokens.cached_input,
            ),
            (&mut high.output, total.output, &mut new.output, &mut self.tokens.output),
            (
                &mut high.reasoning_output,
                total.reasoning_output,
                &mut new.reasoning_output,
                &mut self.tokens.reasoning_output,
            ),
            (&mut high.total, total.total, &mut new.total, &mut self.tokens.total),
        ] {
            *new = now.saturating_sub(*high);
            *high = now.max(*high);
            *sum += *new;
        }
        (new, new_cost)
    }

    /// A run is over; `completed` says whether its issue, if it is over too, is completed.
    pub(crate) fn ended(
        &mut self,
        model: &RunModel,
        end: &RunEnd,
        took: Duration,
        completed: Option<bool>,
    ) {
        self.ended += 1;
        self.runtime += took;
        let unread =
            matches!(model.finish, Some(FinishReason::Unreadable | FinishReason::TurnFailed));
        let over = match model.stop {
            Some((why, _)) => why == StopReason::Terminal,
            None => {
                model.finish == Some(FinishReason::Terminal)
                    || (model.finish.is_none() && model.over == Some(StopReason::Terminal))
            }
        };
        match (end, model.stop.map(|(why, _)| why)) {
            // By what became of the issue, whatever the last word was (6.4).
            _ if over && !model.operator_stop && !model.seen_inactive && !model.seen_active => {
                match completed {
                    Some(true) => self.sure.done += 1,
                    Some(false) => self.sure.cancelled += 1,
                    None => {}
                }
            }
            // Handed over within its grace: how it then ended may count or not.
            _ if model.over.is_some() && model.finish.is_none() => {}
            // What came while it was ending may count or not.
            _ if model.operator_stop
                || model.seen_terminal
                || model.seen_inactive
                || model.seen_active => {}
            (_, None) if unread => self.sure.failed += 1,
            (RunEnd::Succeeded, None) if model.finish == Some(FinishReason::Storage) => {
                self.sure.interrupted += 1
            }
            (RunEnd::Succeeded, None) if model.finish == Some(FinishReason::MaxTurns) => {
                self.sure.out_of_turns += 1
            }
            (RunEnd::Succeeded, None) => self.sure.succeeded += 1,
            (RunEnd::Failed(_), None) | (RunEnd::Cancelled, Some(StopReason::Stalled)) => {
                self.sure.failed += 1
            }
            (RunEnd::Cancelled, Some(_)) => self.sure.cancelled += 1,
            (RunEnd::InputRequired { .. }, None) => self.sure.input_required += 1,
            _ => {}
        }
    }

    /// Totals equal the sum of what was reported, and never fall.
    pub(crate) fn check(&mut self, shown: &Totals, live: Duration) -> Check {
        ensure!(
            shown.tokens == self.tokens,
            "totals equal what was reported",
            "{:?} instead of {:?}",
            shown.tokens,
            self.tokens
        );
        let cost = shown.cost.map_or(0, |cost: UsdMicros| cost.0);
        ensure!(
            cost == self.cost,
            "totals equal what was reported",
            "{cost} instead of {} millionths of a dollar",
            self.cost
        );
        let runtime = self.runtime + live;
        ensure!(
            shown.runtime == runtime,
            "totals equal what was reported",
            "{:?} instead of {runtime:?}",
            shown.runtime
        );
        ensure!(
            shown.started == self.started,
            "totals equal what was reported",
            "{} runs started, not {}",
            self.started,
            shown.started
        );
        ensure!(
            ended(shown) == self.ended,
            "totals equal what was reported",
            "{} runs ended: {shown:?}",
            self.ended
        );
        let enough = shown.done >= self.sure.done
            && shown.succeeded >= self.sure.succeeded
            && shown.out_of_turns >= self.sure.out_of_turns
            && shown.failed >= self.sure.failed
            && shown.cancelled >= self.sure.cancelled
            && shown.input_required >= self.sure.input_required
            && shown.interrupted >= self.sure.interrupted;
        ensure!(enough, "totals equal what was reported", "{shown:?}, at least {:?}", self.sure);
        if let Some(last) = &self.last {
            let fell = shown.tokens.total < last.tokens.total || shown.runtime < last.runtime;
            ensure!(!fell, "totals never fall", "{last:?}, then {shown:?}");
        }
        self.last = Some(shown.clone());
        Ok(())
    }
}

/// How many runs are over.
pub(crate) const fn ended(totals: &Totals) -> u64 {
    totals.done
        + totals.succeeded
        + totals.out_of_turns
        + totals.failed
        + totals.cancelled
        + totals.input_required
        + totals.interrupted
}
