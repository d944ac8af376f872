//! From front matter to [`Settings`](symphony_core::Settings): one table of keys for reading, for
//! unknown keys and for the JSON Schema (contract section 3).

mod agents;
mod elsewhere;
mod keys;
mod made_in_code;
mod other_agent;
mod paths;
mod read;
mod schema;
mod sections;
mod shape;
mod unknown;

pub use made_in_code::check_settings;
pub use schema::json_schema;
pub(crate) use sections::read;
