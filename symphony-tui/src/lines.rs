//! The last lines of a log, for the pane at the bottom.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use symphony_core::plain;

/// How many lines are kept.
const MAX_LINES: usize = 500;

/// How much of a line is kept.
const MAX_LINE_BYTES: usize = 2_000;

/// The last lines. Cheap to clone; all clones are the same.
#[derive(Clone, Debug, Default)]
pub struct LogTail(Arc<Mutex<VecDeque<String>>>);

impl LogTail {
    fn lock(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more. What could steer a screen is escaped.
    pub fn push(&self, line: &str) {
        let line = plain(line, MAX_LINE_BYTES);
        let mut kept = self.lock();
        if kept.len() == MAX_LINES {
            kept.pop_front();
        }
        kept.push_back(line);
    }

    /// The last of them, oldest first.
    #[must_use]
    pub fn last(&self, most: usize) -> Vec<String> {
        let kept = self.lock();
        let first = kept.len().saturating_sub(most);
        kept.iter().skip(first).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_13_1_lines_are_bounded_and_steer_nothing() {
        let lines = LogTail::default();
        (0..MAX_LINES + 2).for_each(|number| lines.push(&format!("line {number}\u{1b}[2J\n")));
        assert_eq!(lines.last(usize::MAX).len(), MAX_LINES);
        assert_eq!(lines.last(1), [format!("line {}\\u{{1b}}[2J", MAX_LINES + 1)]);
    }
}
