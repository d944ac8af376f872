//! What a world is made from. A plan that fails is shrunk: fewer issues, fewer hours, fewer
//! faults, as long as it still fails.

use std::fmt;
use std::str::FromStr;

use crate::faults::{Fault, FaultSet};
use crate::rng::Rng;

/// The hours at the end of a world in which nothing goes wrong.
pub(crate) const TAIL_HOURS: u64 = 4;

/// Everything that decides a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The seed of every stream.
    pub(crate) seed: u64,
    /// How many issues there can be.
    pub(crate) issues: u64,
    /// Simulated hours, the calm tail included.
    pub(crate) hours: u64,
    /// What can happen.
    pub(crate) faults: FaultSet,
}

impl Plan {
    /// The plan of a seed: worlds differ in size and in which faults they have.
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::stream(seed, 1);
        let issues = match rng.below(10) {
            0 => rng.between(1, 3),
            1..=6 => rng.between(4, 25),
            _ => rng.between(25, 60),
        };
        let share = rng.pick(&[150, 400, 600, 800, 1000]);
        Self { seed, issues, hours: 24, faults: FaultSet::random(&mut rng, share) }
    }

    /// Smaller plans, the boldest first.
    pub(crate) fn smaller(&self) -> Vec<Self> {
        let mut plans = Vec::new();
        for hours in [TAIL_HOURS + 1, TAIL_HOURS + 3, TAIL_HOURS + 8] {
            if hours < self.hours {
                plans.push(Self { hours, ..*self });
            }
        }
        for issues in [1, 2, 3, 5, 8, 13, 21, 34] {
            if issues < self.issues {
                plans.push(Self { issues, ..*self });
            }
        }
        let present = Fault::ALL.iter().filter(|f| self.faults.contains(**f));
        plans.extend(present.map(|fault| Self { faults: self.faults.without(*fault), ..*self }));
        plans
    }
}

impl fmt::Display for Plan {
    /// `seed:issues:hours:faults`, as [`FromStr`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, issues, hours, faults } = self;
        write!(f, "{seed}:{issues}:{hours}:{:x}", faults.0)
    }
}

impl FromStr for Plan {
    type Err = String;

    /// A seed alone, or a whole plan.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("{text:?} is no plan: {what}");
        let mut parts = text.trim().split(':');
        let mut number = |what: &str| -> Result<Option<u64>, String> {
            parts.next().map(|part| part.parse().map_err(|_| wrong(what))).transpose()
        };
        let seed = number("the seed")?.ok_or_else(|| wrong("no seed"))?;
        let mut plan = Self::new(seed);
        if let Some(issues) = number("the issues")? {
            plan.issues = issues.max(1);
        }
        if let Some(hours) = number("the hours")? {
            plan.hours = hours.max(TAIL_HOURS + 1);
        }
        if let Some(faults) = parts.next() {
            plan.faults =
                FaultSet(u128::from_str_radix(faults, 16).map_err(|_| wrong("the faults"))?);
        }
        Ok(plan)
    }
}
