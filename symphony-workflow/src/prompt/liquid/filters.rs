//! Liquid's filters, apart from those that write HTML.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::ops::RangeInclusive;

use crate::prompt::liquid::numbers::{
    Number, arithmetic, floor_div, floor_mod, int, not_zero, number, size, whole,
};
use crate::prompt::liquid::value::Value;
use crate::prompt::marks::PromptFault;
use crate::prompt::meter::{MAX_ITEMS, MAX_TEXT_BYTES};

/// A filter: its name, how many arguments it takes, and what it does.
pub(super) struct Filter {
    pub(super) name: &'static str,
    pub(super) args: RangeInclusive<usize>,
    pub(super) apply: fn(&Value, &[Value]) -> Result<Value, String>,
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Filter {
    /// The fault of a call with so many arguments.
    pub(super) fn wrong_count(&self, found: usize, at: usize) -> PromptFault {
        let (least, most) = (self.args.start(), self.args.end());
        let wanted = match (least, most) {
            (0, 0) => "no argument".to_owned(),
            (1, 1) => "one argument".to_owned(),
            (least, most) if least == most => format!("{least} arguments"),
            (least, most) => format!("{least} to {most} arguments"),
        };
        PromptFault::new(at, format!("`{}` takes {wanted}, not {found}", self.name))
    }
}

/// Finds a filter by its name.
pub(super) fn filter(name: &str) -> Option<&'static Filter> {
    FILTERS.iter().find(|filter| filter.name == name)
}

pub(in crate::prompt) fn filter_names() -> impl Iterator<Item = &'static str> {
    FILTERS.iter().map(|filter| filter.name)
}

macro_rules! filters {
    ($($name:literal, $args:expr, $apply:expr;)*) => {
        &[$(Filter { name: $name, args: $args, apply: $apply }),*]
    };
}

static FILTERS: &[Filter] = filters! {
    // Any value
    "default", 1..=1, |value, args| {
        let missing = matches!(value, Value::Null | Value::Truth(false)) || value.is_empty();
        Ok(if missing { args[0].clone() } else { value.clone() })
    };
    "size", 0..=0, |value, _| count(value.size());

    // Text
    "append", 1..=1, |value, args| joined([value, &args[0]]);
    "prepend", 1..=1, |value, args| joined([&args[0], value]);
    "capitalize", 0..=0, |value, _| {
        let text = value.to_string();
        let mut rest = text.chars();
        let first: String = rest.next().into_iter().flat_map(char::to_uppercase).collect();
        Ok(Value::text(first + &rest.as_str().to_lowercase()))
    };
    "downcase", 0..=0, |value, _| Ok(Value::text(value.to_string().to_lowercase()));
    "upcase", 0..=0, |value, _| Ok(Value::text(value.to_string().to_uppercase()));
    "strip", 0..=0, |value, _| Ok(Value::text(value.to_string().trim()));
    "lstrip", 0..=0, |value, _| Ok(Value::text(value.to_string().trim_start()));
    "rstrip", 0..=0, |value, _| Ok(Value::text(value.to_string().trim_end()));
    "strip_newlines", 0..=0, |value, _| {
        Ok(Value::text(value.to_string().replace(['\r', '\n'], "")))
    };
    "replace", 2..=2, |value, args| replaced(value, &args[0], &args[1], usize::MAX);
    "replace_first", 2..=2, |value, args| replaced(value, &args[0], &args[1], 1);
    "remove", 1..=1, |value, args| replaced(value, &args[0], &Value::Null, usize::MAX);
    "remove_first", 1..=1, |value, args| replaced(value, &args[0], &Value::Null, 1);
    "split", 1..=1, |value, args| split(&value.to_string(), &args[0].to_string());
    "truncate", 0..=2, |value, args| truncated(&value.to_string(), args);
    "truncatewords", 0..=2, |value, args| truncated_words(&value.to_string(), args);
    "slice", 1..=2, slice;
    "escape", 0..=0, |value, _| Ok(Value::text(escaped(&value.to_string())));
    "url_encode", 0..=0, |value, _| Ok(Value::text(url_encoded(&value.to_string())));
    "date", 1..=1, |value, args| dated(value, &args[0].to_string());

    // Lists
    "join", 0..=1, |value, args| {
        let separator = args.first().map_or_else(|| " ".to_owned(), Value::to_string);
        written(&items(value)?, &separator)
    };
    "first", 0..=0, |value, _| Ok(items(value)?.first().cloned().unwrap_or(Value::Null));
    "last", 0..=0, |value, _| Ok(items(value)?.last().cloned().unwrap_or(Value::Null));
    "reverse", 0..=0, |value, _| Ok(list(items(value)?.into_iter().rev()));
    "compact", 0..=0, |value, _| {
        Ok(list(items(value)?.into_iter().filter(|item| *item != Value::Null)))
    };
    "concat", 1..=1, |value, args| {
        let both: Vec<Value> = items(value)?.into_iter().chain(items(&args[0])?).collect();
        let bytes = both.iter().map(Value::bytes).sum();
        fits(bytes)?;
        Ok(list(both))
    };
    "uniq", 0..=0, |value, _| {
        let mut seen = BTreeSet::new();
        let fresh = |item: &Value| seen.insert((item.kind(), item.to_string()));
        Ok(list(items(value)?.into_iter().filter(fresh)))
    };
    "sort", 0..=1, |value, args| sorted(value, args.first(), |item| item.to_string());
    "sort_natural", 0..=1, |value, args| {
        sorted(value, args.first(), |item| item.to_string().to_lowercase())
    };
    "map", 1..=1, |value, args| {
        let name = args[0].to_string();
        Ok(list(items(value)?.iter().map(|item| field(item, &name))))
    };
    "where", 1..=2, |value, args| {
        let name = args[0].to_string();
        let fits = |item: &Value| match args.get(1) {
            Some(wanted) => field(item, &name).equals(wanted),
            None => field(item, &name).is_true(),
        };
        Ok(list(items(value)?.into_iter().filter(fits)))
    };

    // Numbers
    "abs", 0..=0, |value, _| match number(value)? {
        Number::Int(int) => int.checked_abs().map(Value::Int).ok_or_else(too_large),
        Number::Float(float) => Ok(Value::Float(float.abs())),
    };
    "plus", 1..=1, |value, args| arithmetic(value, &args[0], i64::checked_add, |a, b| a + b);
    "minus", 1..=1, |value, args| arithmetic(value, &args[0], i64::checked_sub, |a, b| a - b);
    "times", 1..=1, |value, args| arithmetic(value, &args[0], i64::checked_mul, |a, b| a * b);
    "divided_by", 1..=1, |value, args| {
        not_zero(&args[0])?;
        arithmetic(value, &args[0], floor_div, |a, b| a / b)
    };
    "modulo", 1..=1, |value, args| {
        not_zero(&args[0])?;
        arithmetic(value, &args[0], floor_mod, |a, b| a - b * (a / b).floor())
    };
    "at_least", 1..=1, |value, args| arithmetic(value, &args[0], |a, b| Some(a.max(b)), f64::max);
    "at_most", 1..=1, |value, args| arithmetic(value, &args[0], |a, b| Some(a.min(b)), f64::min);
    "ceil", 0..=0, |value, _| whole(value, f64::ceil);
    "floor", 0..=0, |value, _| whole(value, f64::floor);
    "round", 0..=1, |value, args| match args.first().map(int).transpose()? {
        Some(digits @ 1..=15) => {
            let scale = 10_f64.powi(i32::try_from(digits).unwrap_or(0));
            let float = number(value)?.float();
            Ok(Value::Float((float * scale).round() / scale))
        }
        _ => whole(value, f64::round),
    };
};

pub(super) fn too_large() -> String {
    "the result is too large".to_owned()
}

fn fits(bytes: usize) -> Result<(), String> {
    if bytes <= MAX_TEXT_BYTES { Ok(()) } else { Err(too_large()) }
}

fn count(size: usize) -> Result<Value, String> {
    i64::try_from(size).map(Value::Int).map_err(|_| too_large())
}

fn list(items: impl IntoIterator<Item = Value>) -> Value {
    Value::List(items.into_iter().collect())
}

/// A value as a list: null is the empty one, and anything else a list of one.
fn items(value: &Value) -> Result<Vec<Value>, String> {
    match value {
        Value::List(items) => Ok(items.to_vec()),
        Value::Null => Ok(Vec::new()),
        Value::Range(first, last) => {
            if value.size() > MAX_ITEMS {
                return Err(too_large());
            }
            Ok((*first..=*last).map(Value::Int).collect())
        }
        other => Ok(vec![other.clone()]),
    }
}

fn field(item: &Value, name: &str) -> Value {
    match item {
        Value::Map(fields) => fields.get(name).cloned().unwrap_or(Value::Null),
        _ => Value::Null,
    }
}

fn joined(parts: [&Value; 2]) -> Result<Value, String> {
    fits(parts.iter().map(|part| part.bytes()).sum())?;
    Ok(Value::text(parts[0].to_string() + &parts[1].to_string()))
}

fn written(items: &[Value], separator: &str) -> Result<Value, String> {
    let bytes: usize = items.iter().map(|item| item.bytes() + separator.len()).sum();
    fits(bytes)?;
    let texts: Vec<String> = items.iter().map(Value::to_string).collect();
    Ok(Value::text(texts.join(separator)))
}

fn replaced(value: &Value, from: &Value, to: &Value, times: usize) -> Result<Value, String> {
    let (text, from, to) = (value.to_string(), from.to_string(), to.to_string());
    if from.is_empty() {
        return Ok(Value::text(text));
    }
    let found = text.matches(&from).count().min(times);
    fits(text.len() + found.saturating_mul(to.len()))?;
    Ok(Value::text(text.replacen(&from, &to, times)))
}

/// Without a separator, into characters.
fn split(text: &str, separator: &str) -> Result<Value, String> {
    if text.matches(separator).count() > MAX_ITEMS {
        return Err(too_large());
    }
    let parts: Vec<Value> = match separator {
        "" => text.chars().map(|c| Value::text(c.to_string())).collect(),
        _ if text.is_empty() => Vec::new(),
        _ => text.split(separator).map(Value::text).collect(),
    };
    Ok(list(parts))
}

fn truncated(text: &str, args: &[Value]) -> Result<Value, String> {
    let length = args.first().map(size).transpose()?.unwrap_or(50);
    let end = args.get(1).map_or_else(|| "...".to_owned(), Value::to_string);
    if text.chars().count() <= length {
        return Ok(Value::text(text));
    }
    let kept = length.saturating_sub(end.chars().count());
    Ok(Value::text(text.chars().take(kept).collect::<String>() + &end))
}

fn truncated_words(text: &str, args: &[Value]) -> Result<Value, String> {
    let length = args.first().map(size).transpose()?.unwrap_or(15).max(1);
    let end = args.get(1).map_or_else(|| "...".to_owned(), Value::to_string);
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.len() <= length {
        return Ok(Value::text(text));
    }
    Ok(Value::text(words[..length].join(" ") + &end))
}

fn slice(value: &Value, args: &[Value]) -> Result<Value, String> {
    let length = args.get(1).map(size).transpose()?.unwrap_or(1);
    let start = int(&args[0])?;
    let whole = value.size();
    let back = usize::try_from(start.unsigned_abs()).unwrap_or(usize::MAX);
    let start = if start >= 0 {
        back
    } else {
        match whole.checked_sub(back) {
            Some(start) => start,
            None => return Ok(Value::text("")),
        }
    };
    Ok(match value {
        Value::List(items) => list(items.iter().skip(start).take(length).cloned()),
        other => {
            let text = other.to_string();
            Value::text(text.chars().skip(start).take(length).collect::<String>())
        }
    })
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

fn url_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                out.push(char::from(byte));
            }
            b' ' => out.push('+'),
            _ => {
                // Writing to a String does not fail.
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

/// Formats a time. Text that is none stays as it is, as in Liquid; `now` is none, because a prompt
/// reads no clock.
fn dated(value: &Value, format: &str) -> Result<Value, String> {
    let Ok(time) = value.to_string().parse::<jiff::Timestamp>() else {
        return Ok(value.clone());
    };
    jiff::fmt::strtime::format(format, time)
        .map(Value::text)
        .map_err(|error| format!("`{format}` is not a date format: {error}"))
}

/// Sorts by the value or by a field of it; null comes last.
fn sorted(value: &Value, by: Option<&Value>, text: fn(&Value) -> String) -> Result<Value, String> {
    let by = by.map(Value::to_string);
    let key = |item: &Value| match &by {
        Some(name) => field(item, name),
        None => item.clone(),
    };
    let mut keyed: Vec<(Value, String, Value)> = items(value)?
        .into_iter()
        .map(|item| {
            let key = key(&item);
            let text = text(&key);
            (key, text, item)
        })
        .collect();
    keyed.sort_by(|(a, a_text, _), (b, b_text, _)| {
        let nulls = (*a == Value::Null).cmp(&(*b == Value::Null));
        let numbers = match (a.float(), b.float()) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => a_text.cmp(b_text),
        };
        nulls.then(numbers)
    });
    Ok(list(keyed.into_iter().map(|(_, _, item)| item)))
}
