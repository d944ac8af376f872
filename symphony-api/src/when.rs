//! Times as RFC 3339 in JSON.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serializer};

use symphony_core::time::Wall;

/// The schema of such a time.
pub(crate) struct Rfc3339;

impl JsonSchema for Rfc3339 {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Rfc3339".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time"})
    }
}

pub(crate) fn serialize<S: Serializer>(at: &Wall, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(at)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Wall, D::Error> {
    let text = Cow::<'_, str>::deserialize(from)?;
    Wall::parse(&text).ok_or_else(|| D::Error::custom("not a time of RFC 3339"))
}

/// The same where there may be none.
pub(crate) mod maybe {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(at: &Option<Wall>, to: S) -> Result<S::Ok, S::Error> {
        match at {
            Some(at) => to.collect_str(at),
            None => to.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Wall>, D::Error> {
        let text = Option::<Cow<'_, str>>::deserialize(from)?;
        let parse = |text: Cow<'_, str>| {
            Wall::parse(&text).ok_or_else(|| D::Error::custom("not a time of RFC 3339"))
        };
        text.map(parse).transpose()
    }
}
