//! Fields of stored rows that only a newer version knows: they stay when a row is updated.

use std::collections::BTreeMap;

use serde::de::{Deserialize, Deserializer, Error as _, Visitor, value};
use serde::forward_to_deserialize_any;
use serde_json::value::RawValue;

/// Returns the names of the fields of a struct, as serde reads them.
pub(crate) fn names<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    // The answer comes by the way in which it is asked for; nothing is read.
    let _ = T::deserialize(FieldNames(&mut names));
    names
}

struct FieldNames<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for FieldNames<'_> {
    type Error = value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(value::Error::custom("not a struct"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = fields;
        Err(value::Error::custom("only the names are wanted"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Adds to a row, written as JSON, what its stored form has beside the known fields. A known field
/// that is absent now is gone.
pub(crate) fn keep_unknown(mut row: String, stored: &str, known: &[&str]) -> String {
    // What cannot be read any more has nothing to keep.
    let stored: BTreeMap<String, &RawValue> = serde_json::from_str(stored).unwrap_or_default();
    for (name, value) in stored {
        if known.contains(&name.as_str()) || row.pop().is_none() {
            continue;
        }
        if row.len() > 1 {
            row.push(',');
        }
        row.push_str(&serde_json::Value::from(name).to_string());
        row.push(':');
        row.push_str(value.get());
        row.push('}');
    }
    row
}

#[cfg(test)]
mod tests {
    use symphony_core::snapshot::Totals;
    use symphony_core::store::{ClaimRow, HeldAgentRow, OperatorRow, PollRow, RunRow};

    use super::*;

    #[test]
    fn rule_16_2_every_kind_of_row_has_known_fields() {
        assert_eq!(names::<OperatorRow>(), ["paused", "earlier_lives"]);
        assert_eq!(names::<PollRow>(), ["scope", "last_runs", "spent"]);
        assert_eq!(names::<HeldAgentRow>(), ["agent", "due", "failure"]);
        let has = |names: &[&str], wanted: &[&str]| wanted.iter().all(|name| names.contains(name));
        assert!(has(names::<Totals>(), &["tokens", "cost", "input_required"]));
        assert!(has(names::<ClaimRow>(), &["scope", "attempt", "seen"]));
        assert!(has(names::<RunRow>(), &["run", "attempt", "cost"]));
        assert_eq!(names::<String>(), [""; 0]);
    }

    #[test]
    fn rule_16_2_unknown_fields_are_kept_letter_by_letter_and_known_ones_are_not() {
        let keep = |row: &str, stored: &str| keep_unknown(row.to_owned(), stored, &["a", "b"]);
        assert_eq!(keep(r#"{"a":1}"#, r#"{"a":2,"b":3}"#), r#"{"a":1}"#);
        assert_eq!(keep("{}", r#"{"b":3}"#), "{}");
        assert_eq!(keep("{}", r#"{"c":null}"#), r#"{"c":null}"#);
        let stored =
            r#"{ "d\n\"": 1e400, "b": {"c": 1}, "c": [1.10, {"a": 123456789012345678901}] }"#;
        let kept = r#"{"a":1,"c":[1.10, {"a": 123456789012345678901}],"d\n\"":1e400}"#;
        assert_eq!(keep(r#"{"a":1}"#, stored), kept);
        assert_eq!(keep(r#"{"a":1}"#, kept), kept);
        for nothing in ["", "[1]", "not JSON", "{\"c\":"] {
            assert_eq!(keep(r#"{"a":1}"#, nothing), r#"{"a":1}"#);
        }
    }
}
