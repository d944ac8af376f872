//! Foreign text, made safe for a log line (contract 13.1).

use std::fmt::Display;

pub use symphony_core::plain;

/// How much of a foreign text goes into one field; of a hook's output too (contract 9.5).
const MAX_FIELD_BYTES: usize = 2 * 1024;

/// A foreign text as one field of a log line.
pub(crate) fn safe(text: impl Display) -> String {
    plain(&text.to_string(), MAX_FIELD_BYTES)
}
