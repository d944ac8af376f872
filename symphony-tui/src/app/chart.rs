//! Tokens per minute, for the last ten minutes, as far as they were seen.

use std::collections::VecDeque;

use symphony_core::time::Wall;

/// How long one bar is.
const BAR_MS: i64 = 10_000;

/// How many bars there are.
const MAX_BARS: usize = 60;

/// What was used lately, bar by bar.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chart {
    /// The number of the newest bar, and the count at the last look.
    now: Option<(i64, u64)>,
    bars: VecDeque<u64>,
}

impl Chart {
    /// So many tokens in all, at this time.
    pub(crate) fn add(&mut self, at: Wall, total: u64) {
        let bar = at.as_unix_millis().div_euclid(BAR_MS);
        let Some((newest, before)) = self.now else {
            self.now = Some((bar, total));
            self.bars.push_back(0);
            return;
        };
        let most = i64::try_from(MAX_BARS).unwrap_or(i64::MAX);
        for _ in 0..bar.saturating_sub(newest).clamp(0, most) {
            self.bars.push_back(0);
        }
        while self.bars.len() > MAX_BARS {
            self.bars.pop_front();
        }
        // A service that was started anew counts from the beginning.
        let used = total.checked_sub(before).unwrap_or(total);
        if let Some(last) = self.bars.back_mut() {
            *last = last.saturating_add(used);
        }
        self.now = Some((bar.max(newest), total));
    }

    /// The bars, the newest last.
    pub(crate) fn bars(&self) -> impl ExactSizeIterator<Item = u64> + DoubleEndedIterator {
        self.bars.iter().copied()
    }

    /// The tokens of the last minute.
    pub(crate) fn minute(&self) -> u64 {
        self.bars().rev().take(6).fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Wall {
        Wall::from_unix_millis(seconds * 1_000)
    }

    #[test]
    fn the_chart_counts_what_was_used_since_the_last_look() {
        let mut chart = Chart::default();
        assert_eq!((chart.bars().len(), chart.minute()), (0, 0));
        chart.add(at(100), 5_000);
        chart.add(at(105), 5_010);
        chart.add(at(131), 5_100);
        assert_eq!(chart.bars().collect::<Vec<_>>(), [10, 0, 0, 90]);
        assert_eq!(chart.minute(), 100);
        chart.add(at(140), 7);
        assert_eq!(chart.bars().last(), Some(7), "a new life of the service");
        chart.add(at(1_000_000), 7);
        assert_eq!((chart.bars().len(), chart.minute()), (MAX_BARS, 0));
        chart.add(at(0), 9);
        assert_eq!(chart.minute(), 2, "a clock that went back");
    }
}
