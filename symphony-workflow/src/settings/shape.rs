//! What a value of the front matter may be, and how a wrong one is described.

use serde_json::{Number, Value};

use crate::front_matter::Node;
use symphony_core::settings::{LogFilter, SettingShape};

/// The largest bound that a message names together with the smallest.
const MAX_SMALL_BOUND: i64 = u16::MAX as i64;

/// How much of a wrong text a message shows.
const MAX_SHOWN_BYTES: usize = 40;

/// What keys that name other hosts have in their name.
const HOST_WORDS: [&str; 4] = ["host", "ssh", "machine", "remote"];

/// How a value is checked against what it may be.
pub(super) trait CheckShape: Copy {
    /// Returns the value in one form, whatever form of it the file has; `None` where it counts as absent.
    ///
    /// # Errors
    /// What it must be instead, and what it is.
    fn check(self, node: &Node) -> Result<Option<Value>, String>;

    /// Returns what to do about a value that is nearly right.
    fn help(self, node: &Node) -> Option<&'static str>;
}

impl CheckShape for SettingShape {
    fn check(self, node: &Node) -> Result<Option<Value>, String> {
        if node.is_null() {
            return Ok(None);
        }
        let value = match self {
            Self::Integer { min, max } => integer(node)
                .and_then(|n| i64::try_from(n).ok())
                .filter(|n| (min..=max).contains(n))
                .map(Value::from),
            Self::Number { min, max } => number(node)
                .filter(|n| (min..=max).contains(n))
                .and_then(Number::from_f64)
                .map(Value::Number),
            Self::Flag => flag(node).map(Value::Bool),
            Self::Text | Self::Secret => text(node).filter(|t| !is_blank(t)).map(Value::from),
            Self::OptionalText | Self::Path => match text(node) {
                Some(text) if is_blank(text) => return Ok(None),
                text => text.map(Value::from),
            },
            Self::Time => text(node).and_then(minutes).map(Value::from),
            Self::Filter => {
                text(node).and_then(LogFilter::parse).map(|filter| filter.as_str().into())
            }
            Self::Choice(words) => text(node)
                .map(|text| text.trim().to_lowercase())
                .filter(|word| words.contains(&word.as_str()))
                .map(Value::from),
            Self::OnlyOff(_) => is_off(node).then(|| Value::from("off")),
            Self::Texts => texts(node).map(Value::from),
            Self::TextOrMap => match node {
                Node::Scalar(_) => text(node).filter(|t| !is_blank(t)).map(Value::from),
                Node::List(_) => None,
                Node::Map(map) => Some(Value::Object(map.to_json())),
            },
            Self::Map | Self::Limits => match node {
                Node::Map(map) => Some(Value::Object(map.to_json())),
                _ => None,
            },
            Self::Older => Some(node.to_json()),
            Self::NotYet if !names_hosts(node) => return Ok(None),
            Self::NotYet => None,
            // A shape that this version does not know.
            _ => None,
        };
        value.map(Some).ok_or_else(|| refusal(self, node))
    }

    fn help(self, node: &Node) -> Option<&'static str> {
        match (self, node) {
            (
                Self::MILLIS | Self::MILLIS_OR_NONE | Self::MILLIS_OR_OFF,
                Node::Scalar(Value::String(_)),
            ) => Some("times are numbers of milliseconds: 30 s is 30000"),
            (Self::OptionalText, Node::List(_) | Node::Map(_)) => {
                Some("write one text: `|` behind the colon, and the lines below it, indented")
            }
            (Self::Texts, Node::Scalar(Value::String(_))) => Some("write a list, such as [a, b]"),
            (
                Self::Text | Self::OptionalText | Self::Secret | Self::Path,
                Node::Scalar(Value::Bool(_) | Value::Number(_)),
            ) => Some("put it in quotes"),
            _ => None,
        }
    }
}

/// What to do about a section that is not a map. Its text is not repeated: it may hold a secret.
pub(super) fn section_help(section: &str, node: &Node) -> Option<String> {
    let text = text(node)?;
    if text.contains([':', '=']) {
        return Some("put a space after the colon: `key: value`".to_owned());
    }
    matches!(section, "tracker" | "agent")
        .then(|| format!("below `{section}:`, indented, `kind:` says which one it is"))
}

/// Whether a section says where agents run: a list, or a key that is called after hosts.
pub(super) fn names_hosts(node: &Node) -> bool {
    let is_about_hosts = |key: &str| {
        let key = key.to_lowercase();
        HOST_WORDS.iter().any(|word| key.contains(word)) && !key.contains("per_host")
    };
    match node {
        Node::Scalar(_) => false,
        Node::List(items) => !items.is_empty(),
        Node::Map(map) => map.entries().iter().any(|entry| {
            !entry.value.is_null()
                && (is_about_hosts(&entry.key)
                    || matches!(entry.value, Node::Map(_)) && names_hosts(&entry.value))
        }),
    }
}

fn refusal(shape: SettingShape, node: &Node) -> String {
    match shape {
        SettingShape::NotYet => {
            "cannot be set until agents can run on other hosts; they run on this machine".to_owned()
        }
        SettingShape::Secret => format!("{}, got {}", must_be(shape), node.kind()),
        // Where a space after a colon was forgotten, the text holds the value too.
        SettingShape::Map | SettingShape::Limits | SettingShape::Older => {
            format!("{}, got {}", must_be(shape), shown_without_text(node))
        }
        SettingShape::Text | SettingShape::TextOrMap if text(node).is_some_and(is_blank) => {
            "must not be blank".to_owned()
        }
        SettingShape::Integer { max, .. }
            if max > MAX_SMALL_BOUND && integer(node) > Some(max.into()) =>
        {
            format!("must be at most {max}, got {}", shown(node))
        }
        SettingShape::Texts => match wrong_item(node) {
            Some(item) => format!("{}, got a list with {} in it", must_be(shape), item.kind()),
            None => format!("{}, got {}", must_be(shape), shown(node)),
        },
        _ => format!("{}, got {}", must_be(shape), shown(node)),
    }
}

fn must_be(shape: SettingShape) -> String {
    match shape {
        SettingShape::Integer { min: 1, .. } => "must be a positive integer".to_owned(),
        SettingShape::Integer { min: i64::MIN, .. } => "must be an integer".to_owned(),
        SettingShape::Integer { min, max } if max <= MAX_SMALL_BOUND => {
            format!("must be an integer from {min} to {max}")
        }
        SettingShape::Integer { min, .. } => format!("must be an integer of {min} or more"),
        SettingShape::Number { min, max } => format!("must be a number from {min} to {max}"),
        SettingShape::Flag => "must be true or false".to_owned(),
        SettingShape::Text
        | SettingShape::OptionalText
        | SettingShape::Secret
        | SettingShape::Path => "must be text".to_owned(),
        SettingShape::Time => "must be a time of day such as \"22:30\"".to_owned(),
        SettingShape::Filter => {
            "must be a level (off, error, warn, info, debug, trace) or a list such \
                             as info,symphony_linear=debug"
                .to_owned()
        }
        SettingShape::Choice(words) => format!("must be one of {}", words.join(", ")),
        SettingShape::OnlyOff(why) => format!("must be off ({why})"),
        SettingShape::Texts => "must be a list of texts".to_owned(),
        SettingShape::TextOrMap => "must be text or a map".to_owned(),
        SettingShape::Map | SettingShape::Limits | SettingShape::Older | SettingShape::NotYet => {
            "must be a map".to_owned()
        }
        // A shape that this version does not know accepts nothing.
        _ => "cannot be set".to_owned(),
    }
}

/// The same where the text may hold a secret.
pub(super) fn shown_without_text(node: &Node) -> String {
    if text(node).is_some() { node.kind().to_owned() } else { shown(node) }
}

/// A wrong value as a message shows it: short, on one line, without control characters.
pub(super) fn shown(node: &Node) -> String {
    match node {
        Node::Scalar(Value::String(text)) if text.chars().count() > MAX_SHOWN_BYTES => {
            let start: String = text.chars().take(MAX_SHOWN_BYTES).collect();
            format!("{start:?}…")
        }
        Node::Scalar(Value::String(text)) => format!("{text:?}"),
        Node::Scalar(value) => value.to_string(),
        Node::List(_) | Node::Map(_) => node.kind().to_owned(),
    }
}

/// A whole number, or a text of one (contract 2.3).
pub(super) fn integer(node: &Node) -> Option<i128> {
    match node {
        Node::Scalar(Value::Number(number)) => number.as_i128(),
        Node::Scalar(Value::String(text)) => text.trim().parse().ok(),
        _ => None,
    }
}

fn number(node: &Node) -> Option<f64> {
    match node {
        Node::Scalar(Value::Number(number)) => number.as_f64(),
        Node::Scalar(Value::String(text)) => text.trim().parse().ok(),
        _ => None,
    }
}

fn flag(node: &Node) -> Option<bool> {
    match node {
        Node::Scalar(Value::Bool(flag)) => Some(*flag),
        Node::Scalar(Value::String(text)) => text.trim().to_lowercase().parse().ok(),
        _ => None,
    }
}

fn is_off(node: &Node) -> bool {
    flag(node) == Some(false)
        || text(node).is_some_and(|text| text.trim().eq_ignore_ascii_case("off"))
}

fn text(node: &Node) -> Option<&str> {
    match node {
        // No command line, path or name can hold a NUL.
        Node::Scalar(Value::String(text)) if !text.contains('\0') => Some(text),
        _ => None,
    }
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

fn texts(node: &Node) -> Option<Vec<String>> {
    match node {
        Node::List(items) => items.iter().map(item_text).collect(),
        _ => None,
    }
}

/// The text of a list's item, which may look like a number.
fn item_text(item: &Node) -> Option<String> {
    match item {
        Node::Scalar(Value::Number(number)) => Some(number.to_string()),
        item => text(item).map(str::to_owned),
    }
}

fn wrong_item(node: &Node) -> Option<&Node> {
    match node {
        Node::List(items) => items.iter().find(|item| item_text(item).is_none()),
        _ => None,
    }
}

/// Minutes after midnight of a time such as `22:30`.
fn minutes(text: &str) -> Option<u16> {
    let (hours, minutes) = text.trim().split_once(':')?;
    let part = |digits: &str, below: u16| {
        let plain = matches!(digits.len(), 1 | 2) && digits.bytes().all(|b| b.is_ascii_digit());
        let number: u16 = digits.parse().ok()?;
        (plain && number < below).then_some(number)
    };
    if minutes.len() != 2 {
        return None;
    }
    Some(part(hours, 24)? * 60 + part(minutes, 60)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_is_hours_and_two_digits_of_minutes() {
        assert_eq!(minutes("00:00"), Some(0));
        assert_eq!(minutes(" 7:05 "), Some(425));
        assert_eq!(minutes("23:59"), Some(1439));
        for wrong in
            ["", "7", "7:5", "24:00", "12:60", "+1:00", "1:+5", "001:00", "a:00", "1:00:00"]
        {
            assert_eq!(minutes(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_wrong_value_is_shown_short_and_harmless() {
        let text = |text: &str| shown(&Node::Scalar(Value::from(text)));
        assert_eq!(text("abc"), r#""abc""#);
        assert_eq!(text("a\u{1b}[2J\u{202e}\n"), r#""a\u{1b}[2J\u{202e}\n""#);
        assert_eq!(text(&"x".repeat(41)), format!("\"{}\"…", "x".repeat(40)));
        assert_eq!(shown(&Node::Scalar(Value::from(1.5))), "1.5");
        assert_eq!(shown(&Node::List(Vec::new())), "a list");
    }
}
