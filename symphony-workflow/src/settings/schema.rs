//! The JSON Schema of the front matter, for editors and other programs.

use schemars::{Schema, json_schema};
use serde_json::{Value, json};

use symphony_core::settings::{AgentProfile, SettingKey, SettingShape};

use super::keys::{self, KeyTable};

/// The JSON Schema of a workflow file's front matter: every key of contract section 3, and
/// the sections of these agents.
///
/// Keys that it does not name are allowed, as they are in the file.
///
/// ```
/// let schema = symphony_workflow::json_schema([]);
/// let max_turns = &schema["properties"]["agent"]["properties"]["max_turns"];
/// assert_eq!(max_turns["default"], 20);
/// ```
#[must_use]
pub fn json_schema<'a>(agents: impl IntoIterator<Item = &'a AgentProfile>) -> Value {
    let table = KeyTable::new(agents);
    let mut schema = section(&table, "", "The front matter of a Symphony workflow file.");
    schema.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    schema.insert("title".to_owned(), json!("WORKFLOW.md"));
    schema.to_value()
}

fn section(table: &KeyTable<'_>, path: &str, about: &str) -> Schema {
    let mut properties = serde_json::Map::new();
    for member in table.members(path) {
        let schema = match (table.find(member), table.sections().find(|row| row.0 == member)) {
            (Some(key), _) => property(key),
            (None, Some((_, about))) => section(table, member, about),
            (None, None) => continue,
        };
        properties.insert(keys::leaf(member).to_owned(), schema.to_value());
    }
    json_schema!({
        "description": about,
        "type": ["object", "null"],
        "properties": properties,
        "additionalProperties": true,
    })
}

fn property(key: &SettingKey) -> Schema {
    let mut schema = shape_schema(key.shape);
    schema.insert("description".to_owned(), json!(key.about));
    if let Some(default) = key.default {
        schema.insert("default".to_owned(), default());
    }
    schema
}

/// What `LogFilter::parse` makes of a text.
const FILTER: &str = concat!(
    r"^([A-Za-z0-9_:-]+=)?(off|error|warn|info|debug|trace)",
    r"(,([A-Za-z0-9_:-]+=)?(off|error|warn|info|debug|trace))*$",
);

fn shape_schema(shape: SettingShape) -> Schema {
    match shape {
        SettingShape::Integer { min, max } => {
            let mut schema = json_schema!({
                "type": ["integer", "string", "null"],
                "pattern": r"^\s*[+-]?[0-9]+\s*$",
                "maximum": max,
            });
            if min > i64::MIN {
                schema.insert("minimum".to_owned(), json!(min));
            }
            schema
        }
        SettingShape::Number { min, max } => json_schema!({
            "type": ["number", "string", "null"],
            "minimum": min,
            "maximum": max,
        }),
        SettingShape::Flag => json_schema!({ "enum": [true, false, "true", "false", null] }),
        SettingShape::Text | SettingShape::Secret => json_schema!({
            "type": ["string", "null"],
            "pattern": r"\S",
        }),
        SettingShape::OptionalText | SettingShape::Path => {
            json_schema!({ "type": ["string", "null"] })
        }
        SettingShape::Time => json_schema!({
            "type": ["string", "null"],
            "pattern": r"^\s*([01]?[0-9]|2[0-3]):[0-5][0-9]\s*$",
        }),
        SettingShape::Filter => json_schema!({
            "type": ["string", "null"],
            "pattern": FILTER,
        }),
        SettingShape::Choice(words) => {
            let mut words: Vec<Value> = words.iter().map(|word| json!(word)).collect();
            words.push(Value::Null);
            json_schema!({ "enum": words })
        }
        SettingShape::OnlyOff(_) => json_schema!({ "enum": ["off", false, "false", null] }),
        SettingShape::Texts => json_schema!({
            "type": ["array", "null"],
            "items": { "type": ["string", "number"] },
        }),
        SettingShape::Limits => json_schema!({
            "type": ["object", "null"],
            "additionalProperties": { "type": ["integer", "string", "null"], "minimum": 1 },
        }),
        SettingShape::TextOrMap => json_schema!({ "type": ["string", "object", "null"] }),
        SettingShape::Map => json_schema!({ "type": ["object", "null"] }),
        SettingShape::Older => json_schema!({ "deprecated": true }),
        SettingShape::NotYet => json_schema!({ "type": ["object", "null"], "maxProperties": 0 }),
        // A shape that this version does not know.
        _ => json_schema!({}),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::settings::keys::KEYS;

    fn leaves(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
        let Some(properties) = schema["properties"].as_object() else {
            found.insert(path.to_owned());
            return;
        };
        for (name, schema) in properties {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            assert!(schema["description"].is_string(), "{path}");
            leaves(schema, &path, found);
        }
    }

    #[test]
    fn rule_3_the_schema_names_every_key_of_the_table() {
        let mut found = BTreeSet::new();
        leaves(&json_schema([]), "", &mut found);
        let known: BTreeSet<String> = KEYS.iter().map(|key| key.path.to_owned()).collect();
        assert_eq!(found, known);
    }
}
