//! Tokens per minute, for the last ten minutes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use symphony_runtime::Handle;

/// How long one bar is.
const BAR_SPAN: Duration = Duration::from_secs(10);

/// How many bars there are.
const MAX_BARS: usize = 60;

/// What was used lately, bar by bar, and the count at the end of the last bar.
#[derive(Debug, Default)]
pub(crate) struct RunsChart(Mutex<(VecDeque<u64>, u64)>);

impl RunsChart {
    /// A chart, and the task that looks at the counts for as long as there is one.
    pub(crate) fn start(handle: Handle) -> Arc<Self> {
        let total = |handle: &Handle| handle.last_snapshot().totals.tokens.total;
        let chart = Arc::new(Self::default());
        chart.lock().1 = total(&handle);
        let drawn = Arc::downgrade(&chart);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(BAR_SPAN).await;
                let (Some(chart), Ok(_)) = (drawn.upgrade(), handle.snapshot()) else { return };
                chart.end_bar(total(&handle));
            }
        });
        chart
    }

    fn lock(&self) -> MutexGuard<'_, (VecDeque<u64>, u64)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the bar under way: so many tokens have been used in all.
    fn end_bar(&self, total: u64) {
        let mut chart = self.lock();
        let (bars, last) = &mut *chart;
        bars.push_back(total.saturating_sub(std::mem::replace(last, total)));
        if bars.len() >= MAX_BARS {
            bars.pop_front();
        }
    }

    /// The bars as heights in percent, the newest last, and the tokens of the last minute, when so
    /// many tokens have been used in all. The bar under way counts.
    pub(super) fn bars(&self, total: u64) -> (Vec<(usize, u64)>, u64) {
        let chart = self.lock();
        let under_way = total.saturating_sub(chart.1);
        let bars: Vec<u64> = chart.0.iter().copied().chain([under_way]).collect();
        let most = bars.iter().copied().max().unwrap_or_default().max(1);
        let first = MAX_BARS.saturating_sub(bars.len());
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
        assert_eq!(chart.bars(0), (vec![(59, 0)], 0));
        assert_eq!(chart.bars(7), (vec![(59, 100)], 7), "the bar under way counts");
        [0, 1, 1_001].into_iter().for_each(|total| chart.end_bar(total));
        let heights = vec![(56, 0), (57, 3), (58, 100), (59, 50)];
        assert_eq!(chart.bars(1_501), (heights, 1_501));
        (1..=2 * MAX_BARS as u64).for_each(|bar| chart.end_bar(1_501 + 7 * bar));
        let (bars, minute) = chart.bars(1_501 + 14 * MAX_BARS as u64 + 7);
        assert_eq!((bars.len(), bars[0], minute), (MAX_BARS, (0, 100), 42));
    }
}
