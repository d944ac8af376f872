//! Measuring on a machine that others use too: the clock is the processor time of this thread,
//! contenders take turns, and what counts is the ratio of their medians within one run.

use std::cell::RefCell;
use std::fmt;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Small and once, to see that it works.
    Quick,
    /// For figures.
    Full,
}

impl Effort {
    /// Cargo passes `--bench` when it benchmarks, and not when it tests.
    pub(crate) fn from_arguments(arguments: &[String]) -> Self {
        let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
        if has("--bench") && !has("--quick") { Self::Full } else { Self::Quick }
    }

    /// The full number, or the quick one.
    pub(crate) fn pick<T>(self, full: T, quick: T) -> T {
        match self {
            Self::Full => full,
            Self::Quick => quick,
        }
    }
}

/// Does its own preparation and says how long the rest took.
pub(crate) type Contender<'a> = Box<dyn FnMut() -> Duration + 'a>;

/// Does one piece of work and says how long it took.
pub(crate) fn timed<R>(work: impl FnOnce() -> R) -> (Duration, R) {
    let start = clock_gettime(ClockId::ThreadCPUTime);
    let result = std::hint::black_box(work());
    let took = clock_gettime(ClockId::ThreadCPUTime) - start;
    (took.try_into().unwrap_or_default(), result)
}

/// Fills the processor's caches with something else. Polls are half a minute apart, so neither
/// the lists nor the code of the last one are at hand.
pub(crate) fn sweep_caches() {
    thread_local! {
        static MUCH: RefCell<Vec<u64>> = RefCell::new(vec![1; 8 << 20]);
    }
    MUCH.with_borrow_mut(|much| {
        for line in much.chunks_mut(8) {
            line[0] = line[0].wrapping_mul(3);
        }
    });
}

/// Lets the contenders take turns, back and forth, so that a slow moment hits all of them. The
/// first round only warms up.
pub(crate) fn race<const N: usize>(rounds: u32, mut contenders: [Contender<'_>; N]) -> [Times; N] {
    let mut times = [const { Times(Vec::new()) }; N];
    for round in 0..=rounds {
        for place in 0..N {
            let place = if round % 2 == 0 { place } else { N - 1 - place };
            let took = contenders[place]().as_secs_f64() * 1e9;
            if round > 0 {
                times[place].0.push(took.max(1.0));
            }
        }
    }
    times
}

/// What a contender took in each round, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Times(Vec<f64>);

impl Times {
    /// What the work costs as a rule.
    pub(crate) fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// What the work costs when nothing disturbs it.
    fn best(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// This one against another of the same race.
    pub(crate) fn against(&self, other: &Self) -> Ratio {
        Ratio { median: self.median() / other.median(), best: self.best() / other.best() }
    }
}

/// How two contenders compare: of their medians, and of their best times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ratio {
    pub(crate) median: f64,
    best: f64,
}

impl Ratio {
    /// The same, divided by a factor.
    pub(crate) fn over(self, factor: f64) -> Self {
        Self { median: self.median / factor, best: self.best / factor }
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ({:.2})", self.median, self.best)
    }
}

/// Nanoseconds, in the unit that people read.
pub(crate) fn span(nanos: f64) -> String {
    match nanos {
        n if n < 1e3 => format!("{n:.0} ns"),
        n if n < 1e6 => format!("{:.1} us", n / 1e3),
        n => format!("{:.2} ms", n / 1e6),
    }
}

/// A number with its thousands apart.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
