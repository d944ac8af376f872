//! The schema of the file, and the migrations from older ones.

use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::Value;
use symphony_core::store::{StoreError, StoreErrorKind};

/// Says in the file's head that it is Symphony's: "Symp".
pub(crate) const APPLICATION_ID: i32 = 0x5379_6d70;

/// A step to a newer schema.
#[derive(Debug)]
pub(crate) struct Migration {
    /// The schema version that it leads to.
    pub(crate) version: i32,
    /// The schema version that a program must know at least to use such a file. A step that only adds
    /// columns, tables or fields leaves it as it was.
    pub(crate) min_reader: i32,
    /// Makes the change, within a transaction.
    pub(crate) apply: fn(&Connection) -> rusqlite::Result<()>,
}

/// Every schema that was ever released. `tests/schemas` has a dump of each.
pub(crate) const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    min_reader: 1,
    apply: |connection| connection.execute_batch(include_str!("v1.sql")),
}];

/// The program, as the file names the one that last changed its schema.
const PROGRAM: &str = concat!("symphony ", env!("CARGO_PKG_VERSION"));

/// Returns the schema version that this program writes.
pub(crate) const fn newest(migrations: &[Migration]) -> i32 {
    match migrations {
        [.., last] => last.version,
        [] => 0,
    }
}

/// Refuses a file that a newer version wrote, unless that version says that this one may use it.
pub(crate) fn check_newer(
    connection: &Connection,
    path: &Path,
    version: i32,
    migrations: &[Migration],
) -> Result<(), StoreError> {
    let known = newest(migrations);
    if version <= known {
        return Ok(());
    }
    let meta = |key: &str| -> Option<Value> {
        let select = "SELECT value FROM meta WHERE key = ?1";
        connection.query_one(select, [key], |row| row.get(0)).ok()
    };
    if let Some(Value::Integer(min_reader)) = meta("min_reader")
        && min_reader <= known.into()
    {
        return Ok(());
    }
    let program = match meta("program") {
        Some(Value::Text(program)) => program,
        _ => "a newer version".to_owned(),
    };
    let path = path.display();
    let message = format!(
        "{path} was written by {program} (schema version {version}), and this is {PROGRAM}, which \
         knows up to schema version {known}: use the newer program, or go back to a copy such as \
         {path}.backup-v{known}"
    );
    Err(StoreError::new(StoreErrorKind::Newer, message))
}

/// Makes all steps to the newest schema, or none of them.
pub(crate) fn migrate(
    connection: &mut Connection,
    version: i32,
    migrations: &[Migration],
) -> rusqlite::Result<()> {
    connection.pragma_update(None, "synchronous", "FULL")?;
    let transaction = connection.transaction()?;
    for step in migrations.iter().filter(|step| step.version > version) {
        (step.apply)(&transaction)?;
        let set = "INSERT INTO meta (key, value) VALUES ('min_reader', ?1), ('program', ?2)
                   ON CONFLICT (key) DO UPDATE SET value = excluded.value";
        transaction.execute(set, (step.min_reader, PROGRAM))?;
        transaction.pragma_update(None, "user_version", step.version)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.commit()
}

#[cfg(test)]
mod tests;
