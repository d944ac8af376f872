//! How much one rendering may do. A prompt is written by its owner, but issues are untrusted: a loop
//! over a long text must not hold up the service or fill its memory.

use std::sync::atomic::{AtomicU64, Ordering};

/// The longest body, in bytes.
pub(super) const MAX_BODY_BYTES: usize = 256 * 1024;
/// The longest rendered prompt, and the longest text or list on the way there, in bytes.
pub(super) const MAX_TEXT_BYTES: usize = 4 * 1024 * 1024;
/// How often all loops together may go round.
pub(super) const MAX_STEPS: u64 = 10_000;
/// How many items a range or a split text may have.
pub(super) const MAX_ITEMS: usize = 10_000;
/// How deep blocks may stand in each other.
pub(super) const MAX_DEPTH: usize = 32;

/// Work on this many bytes costs as much as one more step.
const BYTES_PER_STEP: usize = 64 * 1024;

/// Counts down the steps of one rendering.
#[derive(Debug)]
pub(super) struct StepMeter {
    left: AtomicU64,
    step: u64,
}

/// There are no steps left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StepsSpent;

impl StepsSpent {
    pub(super) const MESSAGE: &'static str =
        "the loops of this prompt go round too often for the size of the issue";
}

impl StepMeter {
    /// A step costs more where the variables hold much text, since the loop may work on it.
    pub(super) fn new(variable_bytes: usize) -> Self {
        Self { left: AtomicU64::new(MAX_STEPS), step: 1 + weight(variable_bytes) }
    }

    /// A loop goes round.
    pub(super) fn step(&self) -> Result<(), StepsSpent> {
        self.spend(self.step)
    }

    /// Text or a list of this size was made.
    pub(super) fn charge_bytes(&self, bytes: usize) -> Result<(), StepsSpent> {
        self.spend(weight(bytes))
    }

    fn spend(&self, cost: u64) -> Result<(), StepsSpent> {
        let spent = |left: u64| left.checked_sub(cost);
        self.left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, spent)
            .map(|_| ())
            .map_err(|_| StepsSpent)
    }
}

fn weight(bytes: usize) -> u64 {
    u64::try_from(bytes / BYTES_PER_STEP).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_fewer_where_there_is_much_text() {
        let steps = |bytes| {
            let meter = StepMeter::new(bytes);
            (0..).take_while(|_| meter.step().is_ok()).count()
        };
        assert_eq!([steps(0), steps(65_536), steps(10 * 65_536)], [10_000, 5_000, 909]);
    }

    #[test]
    fn small_text_costs_nothing() {
        let meter = StepMeter::new(0);
        assert!((0..100_000).all(|_| meter.charge_bytes(1000).is_ok()));
        assert_eq!((0..).take_while(|_| meter.charge_bytes(MAX_TEXT_BYTES).is_ok()).count(), 156);
    }
}
