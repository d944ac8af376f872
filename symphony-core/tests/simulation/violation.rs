//! A rule that was broken.

use std::fmt;

/// What was broken, and how it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    /// The rule in short; shrinking keeps to failures of the same one.
    pub(crate) rule: &'static str,
    /// What was seen.
    pub(crate) detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.detail)
    }
}

/// The outcome of a check.
pub(crate) type Check = Result<(), Violation>;

/// Fails with a [`Violation`] of the rule unless the condition holds.
macro_rules! ensure {
    ($holds:expr, $rule:literal, $($detail:tt)+) => {
        if !$holds {
            return Err($crate::violation::Violation {
                rule: $rule,
                detail: format!($($detail)+),
            });
        }
    };
}

pub(crate) use ensure;
