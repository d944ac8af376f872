//! Liquid's arithmetic. Nothing overflows.

use crate::prompt::liquid::filters::too_large;
use crate::prompt::liquid::value::Value;

#[derive(Clone, Copy)]
pub(super) enum Number {
    Int(i64),
    Float(f64),
}

impl Number {
    #[expect(clippy::cast_precision_loss, reason = "arithmetic with a fraction")]
    pub(super) fn float(self) -> f64 {
        match self {
            Self::Int(int) => int as f64,
            Self::Float(float) => float,
        }
    }
}

/// A number, or text that is one; null is zero.
pub(super) fn number(value: &Value) -> Result<Number, String> {
    match value {
        Value::Int(int) => Ok(Number::Int(*int)),
        Value::Float(float) => Ok(Number::Float(*float)),
        Value::Null => Ok(Number::Int(0)),
        Value::Text(text) => {
            let text = text.trim();
            let int = text.parse().map(Number::Int).ok();
            int.or_else(|| text.parse().map(Number::Float).ok())
                .ok_or_else(|| "this text is not a number".to_owned())
        }
        other => Err(format!("{} is not a number", other.kind())),
    }
}

pub(super) fn int(value: &Value) -> Result<i64, String> {
    match number(value)? {
        Number::Int(int) => Ok(int),
        Number::Float(_) => Err("a whole number is needed".to_owned()),
    }
}

/// A count; below zero it is none.
pub(super) fn size(value: &Value) -> Result<usize, String> {
    Ok(usize::try_from(int(value)?.max(0)).unwrap_or(usize::MAX))
}

pub(super) fn arithmetic(
    a: &Value,
    b: &Value,
    ints: fn(i64, i64) -> Option<i64>,
    floats: fn(f64, f64) -> f64,
) -> Result<Value, String> {
    match (number(a)?, number(b)?) {
        (Number::Int(a), Number::Int(b)) => ints(a, b).map(Value::Int).ok_or_else(too_large),
        (a, b) => Ok(Value::Float(floats(a.float(), b.float()))),
    }
}

pub(super) fn not_zero(value: &Value) -> Result<(), String> {
    if number(value)?.float() == 0.0 {
        return Err("nothing can be divided by zero".to_owned());
    }
    Ok(())
}

/// Rounds towards minus infinity, as Liquid does.
pub(super) fn floor_div(a: i64, b: i64) -> Option<i64> {
    let quotient = a.checked_div(b)?;
    let inexact = a.checked_rem(b)? != 0;
    Some(quotient - i64::from(inexact && (a < 0) != (b < 0)))
}

pub(super) fn floor_mod(a: i64, b: i64) -> Option<i64> {
    let rest = a.checked_rem(b)?;
    Some(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
}

#[expect(clippy::cast_possible_truncation, reason = "checked to be in range")]
pub(super) fn whole(value: &Value, round: fn(f64) -> f64) -> Result<Value, String> {
    match number(value)? {
        Number::Int(int) => Ok(Value::Int(int)),
        Number::Float(float) if float.abs() < 9.0e15 => Ok(Value::Int(round(float) as i64)),
        Number::Float(_) => Err(too_large()),
    }
}
