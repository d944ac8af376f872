//! What is logged, as a workflow file says it. Its shape is checked here; the log writer applies it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The words for how much is logged, least first.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// `logging.level`: a level, or levels of single parts of the program, such as
/// `info,symphony_linear=debug`.
///
/// ```
/// use symphony_core::settings::LogFilter;
///
/// let filter = LogFilter::parse(" INFO, symphony_linear = debug ");
/// assert_eq!(filter.unwrap().as_str(), "info,symphony_linear=debug");
/// assert_eq!(LogFilter::parse("loud"), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LogFilter(String);

impl LogFilter {
    /// Normalizes the text; `None` where it is not a filter.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let parts: Option<Vec<String>> = text.split(',').map(part).collect();
        parts.map(|parts| Self(parts.join(",")))
    }

    /// As text, which `tracing_subscriber::EnvFilter` understands.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for LogFilter {
    fn default() -> Self {
        Self("info".to_owned())
    }
}

impl fmt::Display for LogFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn part(text: &str) -> Option<String> {
    let Some((target, level)) = text.split_once('=') else { return word(text) };
    let target = target.trim();
    // What the path of a Rust module is made of.
    let is_named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '-');
    let is_target = !target.is_empty() && target.chars().all(is_named);
    word(level).filter(|_| is_target).map(|level| format!("{target}={level}"))
}

fn word(text: &str) -> Option<String> {
    let word = text.trim().to_ascii_lowercase();
    LEVELS.contains(&word.as_str()).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_3_a_filter_is_a_level_or_levels_by_target() {
        let parsed = |text| LogFilter::parse(text).map(|filter| filter.0);
        for right in ["off", "trace", "warn,a::b=debug", "a-b=info", "a=off,b=error,info"] {
            assert_eq!(parsed(right).as_deref(), Some(right));
        }
        assert_eq!(parsed(" Debug ,a = TRACE").as_deref(), Some("debug,a=trace"));
        for wrong in ["", ",", "info,", "a=", "=info", "a=b=info", "a", "a[b]=info", "2", "é=info"]
        {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
