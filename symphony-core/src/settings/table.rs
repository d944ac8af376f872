//! Keys of the front matter as data: what a key may be, what it is when absent, what it decides.

use serde_json::Value;

/// One key (contract section 3).
#[derive(Clone, Copy, Debug)]
pub struct SettingKey {
    /// Its YAML path.
    pub path: &'static str,
    /// What it may be.
    pub shape: SettingShape,
    /// What it is when absent, where that is one value.
    pub default: Option<fn() -> Value>,
    /// What it decides, for people.
    pub about: &'static str,
}

impl SettingKey {
    /// A key with a default.
    #[must_use]
    pub const fn new(
        path: &'static str,
        shape: SettingShape,
        default: fn() -> Value,
        about: &'static str,
    ) -> Self {
        Self { path, shape, default: Some(default), about }
    }

    /// A key without a default of its own.
    #[must_use]
    pub const fn optional(path: &'static str, shape: SettingShape, about: &'static str) -> Self {
        Self { path, shape, default: None, about }
    }
}

/// What a value may be.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum SettingShape {
    /// A whole number; a numeric text will do.
    Integer {
        /// The least.
        min: i64,
        /// The most.
        max: i64,
    },
    /// A number; a numeric text will do.
    Number {
        /// The least.
        min: f64,
        /// The most.
        max: f64,
    },
    /// True or false.
    Flag,
    /// A text that is not blank.
    Text,
    /// A text; a blank one counts as absent.
    OptionalText,
    /// A text that no message may show.
    Secret,
    /// A path; a blank one counts as absent.
    Path,
    /// A time of day.
    Time,
    /// What is logged.
    Filter,
    /// One of a few words.
    Choice(&'static [&'static str]),
    /// Only `off`, which YAML may write as false; the text says why.
    OnlyOff(&'static str),
    /// A list of texts.
    Texts,
    /// A map of limits by state.
    Limits,
    /// What is passed on as it is: a text or a map.
    TextOrMap,
    /// A map that an adapter reads.
    Map,
    /// A tracker key at its older place, read by the adapter.
    Older,
    /// A section that cannot be set yet.
    NotYet,
}

/// A hundred years in milliseconds: beyond any use, and no sum of times overflows.
const MAX_MILLIS: i64 = 100 * 365 * 24 * 3600 * 1000;

impl SettingShape {
    /// A time in milliseconds, at least one.
    pub const MILLIS: Self = Self::Integer { min: 1, max: MAX_MILLIS };
    /// A time in milliseconds, or zero for none.
    pub const MILLIS_OR_NONE: Self = Self::Integer { min: 0, max: MAX_MILLIS };
    /// A time in milliseconds; zero or less switches it off.
    pub const MILLIS_OR_OFF: Self = Self::Integer { min: i64::MIN, max: MAX_MILLIS };
    /// A number of things, at least one.
    pub const COUNT: Self = Self::Integer { min: 1, max: u32::MAX as i64 };
    /// What is answered to an agent that asks for approval.
    pub const APPROVALS: Self = Self::Choice(&["accept", "decline", "block"]);
}
