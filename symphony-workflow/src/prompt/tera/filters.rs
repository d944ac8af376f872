//! Filters and functions of Tera that we replace: to take null as missing, and to stay within
//! bounds where the library's own could make text of any length.

use ::tera::{Error, Kwargs, State, Tera, TeraResult, Value};

use crate::prompt::meter::{MAX_ITEMS, MAX_TEXT_BYTES};

pub(super) fn register(tera: &mut Tera) {
    tera.register_filter("default", default);
    tera.register_filter("replace", replace);
    tera.register_filter("join", join);
    tera.register_filter("split", split);
    tera.register_filter("indent", indent);
    tera.register_filter("unique", unique);
    tera.register_function("range", range);
}

fn too_large() -> Error {
    Error::message("the result is too large")
}

/// The library's takes a null as it is.
#[expect(clippy::needless_pass_by_value, reason = "the library's signature")]
fn default(value: Value, kwargs: Kwargs, _: &State<'_>) -> TeraResult<Value> {
    let fallback = kwargs.must_get::<Value>("value")?;
    let missing = match kwargs.get::<bool>("boolean")? {
        Some(true) => !value.is_truthy(),
        _ => value.is_undefined() || value.is_none(),
    };
    Ok(if missing { fallback } else { value })
}

#[expect(clippy::needless_pass_by_value, reason = "the library's signature")]
fn replace(text: &str, kwargs: Kwargs, _: &State<'_>) -> TeraResult<String> {
    let from = kwargs.must_get::<&str>("from")?;
    let to = kwargs.must_get::<&str>("to")?;
    let found = text.matches(from).count();
    if text.len().saturating_add(found.saturating_mul(to.len())) > MAX_TEXT_BYTES {
        return Err(too_large());
    }
    Ok(text.replace(from, to))
}

#[expect(clippy::needless_pass_by_value, reason = "the library's signature")]
fn join(items: &[Value], kwargs: Kwargs, _: &State<'_>) -> TeraResult<String> {
    let separator = kwargs.get::<&str>("sep")?.unwrap_or("");
    let mut out = String::new();
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(separator);
        }
        out.push_str(&item.to_string());
        if out.len() > MAX_TEXT_BYTES {
            return Err(too_large());
        }
    }
    Ok(out)
}

#[expect(clippy::needless_pass_by_value, reason = "the library's signature")]
fn split(text: &str, kwargs: Kwargs, _: &State<'_>) -> TeraResult<Vec<Value>> {
    let separator = kwargs.must_get::<&str>("pat")?;
    if text.matches(separator).count() > MAX_ITEMS {
        return Err(too_large());
    }
    Ok(text.split(separator).map(Value::from).collect())
}

#[expect(clippy::needless_pass_by_value, reason = "the library's signature")]
fn indent(text: &str, kwargs: Kwargs, _: &State<'_>) -> TeraResult<String> {
    let width = kwargs.get::<usize>("width")?.unwrap_or(4).min(1000);
    let first = kwargs.get::<bool>("first")?.unwrap_or(false);
    let blank = kwargs.get::<bool>("blank")?.unwrap_or(false);
    let with = kwargs.get::<&str>("indentation")?.unwrap_or(" ");
    if with.chars().count() != 1 {
        return Err(Error::message("`indentation` is one character"));
    }
    let margin = with.repeat(width);
    let lines = text.split('\n').count();
    if text.len().saturating_add(lines.saturating_mul(margin.len())) > MAX_TEXT_BYTES {
        return Err(too_large());
    }
    let indented = text.split('\n').enumerate().map(|(index, line)| {
        let bare = (index == 0 && !first) || (line.is_empty() && !blank);
        if bare { line.to_owned() } else { format!("{margin}{line}") }
    });
    Ok(indented.collect::<Vec<_>>().join("\n"))
}

/// Compares every item with every other.
fn unique(items: &[Value], _: Kwargs, _: &State<'_>) -> TeraResult<Vec<Value>> {
    const MAX_COMPARED_ITEMS: usize = 1000;
    if items.len() > MAX_COMPARED_ITEMS {
        return Err(too_large());
    }
    let mut kept: Vec<Value> = Vec::new();
    for item in items {
        if !kept.contains(item) {
            kept.push(item.clone());
        }
    }
    Ok(kept)
}

#[expect(clippy::needless_pass_by_value, reason = "the library's signature")]
fn range(kwargs: Kwargs, _: &State<'_>) -> TeraResult<Vec<i64>> {
    let start = kwargs.get::<i64>("start")?.unwrap_or(0);
    let end = kwargs.must_get::<i64>("end")?;
    let step = kwargs.get::<i64>("step_by")?.unwrap_or(1);
    if step == 0 {
        return Err(Error::message("`step_by` must not be 0"));
    }
    let ahead = |number: &i64| {
        if step > 0 { *number < end } else { *number > end }
    };
    let numbers = std::iter::successors(Some(start).filter(ahead), |number| {
        number.checked_add(step).filter(ahead)
    });
    let numbers: Vec<i64> = numbers.take(MAX_ITEMS + 1).collect();
    if numbers.len() > MAX_ITEMS {
        let message = format!("a range may have at most {MAX_ITEMS} numbers");
        return Err(Error::message(message));
    }
    Ok(numbers)
}
