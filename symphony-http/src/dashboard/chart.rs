//! Tokens per minute, for the last ten minutes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use symphony_runtime::Handle;

/// How long one bar is.
const BAR_SPAN: Duration = Duration::from_secs(10);

/// How many bars there are.
const MAX_BARS: usize = 60;

/// What was used lately, bar by bar.
#[derive(Debug, Default)]
pub(crate) struct RunsChart(Mutex<VecDeque<u64>>);

impl RunsChart {
    /// A chart, and the task that looks at the counts for as long as there is one.
    pub(crate) fn start(handle: Handle) -> Arc<Self> {
        let chart = Arc::new(Self::default());
        let drawn = Arc::downgrade(&chart);
        tokio::spawn(async move {
            let total = |handle: &Handle| handle.last_snapshot().totals.tokens.total;
            let mut last = total(&handle);
            loop {
                tokio::time::sleep(BAR_SPAN).await;
                let (Some(chart), Ok(_)) = (drawn.upgrade(), handle.snapshot()) else { return };
                let now = total(&handle);
                chart.add(now.saturating_sub(std::mem::replace(&mut last, now)));
            }
        });
        chart
    }

    fn add(&self, tokens: u64) {
        let mut bars = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bars.push_back(tokens);
        if bars.len() > MAX_BARS {
            bars.pop_front();
        }
    }

    /// The bars as heights in percent, the newest last, and the tokens of the last minute.
    pub(super) fn bars(&self) -> (Vec<(usize, u64)>, u64) {
        let bars = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let most = bars.iter().copied().max().unwrap_or_default().max(1);
        let first = MAX_BARS - bars.len();
        let heights = bars.iter().enumerate().map(|(at, tokens)| {
            // Whatever was used is seen.
            let height = (tokens.saturating_mul(100) / most).max(u64::from(*tokens > 0) * 3);
            (first + at, height)
        });
        (heights.collect(), bars.iter().rev().take(6).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_shows_the_last_bars_beside_the_highest() {
        let chart = RunsChart::default();
        assert_eq!(chart.bars(), (vec![], 0));
        [0, 1, 1_000, 500].into_iter().for_each(|tokens| chart.add(tokens));
        let heights = vec![(56, 0), (57, 3), (58, 100), (59, 50)];
        assert_eq!(chart.bars(), (heights, 1_501));
        (0..MAX_BARS as u64).for_each(|_| chart.add(7));
        let (bars, minute) = chart.bars();
        assert_eq!((bars.len(), bars[0], minute), (MAX_BARS, (0, 100), 42));
    }
}
