//! Files of every version that was ever released.

use std::path::Path;

use rusqlite::Connection;
use serde::Deserialize;
use symphony_core::store::{Rows, RunQuery, RunRow, Store};
use symphony_sqlite::SqliteStore;

use crate::{Place, begin, block_on};

/// What a dump holds, as this version reads it.
#[derive(Debug, PartialEq, Deserialize)]
struct Dumped {
    boot: u64,
    rows: Rows,
    runs: Vec<RunRow>,
}

/// The versions, with their dumps and what these hold.
fn dumps() -> Vec<(i32, String, Dumped)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schemas");
    let read = |name: String| std::fs::read_to_string(folder.join(name)).ok();
    let dumps = (1..).map_while(|version| {
        let dump = read(format!("v{version}.sql"))?;
        let expected = serde_json::from_str(&read(format!("v{version}.json"))?).unwrap();
        Some((version, dump, expected))
    });
    dumps.collect()
}

fn look(store: &SqliteStore) -> Dumped {
    let boot = block_on(store.last_boot()).unwrap();
    let rows = block_on(store.rows(&crate::scope())).unwrap();
    Dumped { boot, rows, runs: block_on(store.runs(&RunQuery::default())).unwrap() }
}

#[test]
fn rule_16_5_every_released_schema_opens_with_all_its_rows() {
    let dumps = dumps();
    assert!(!dumps.is_empty());
    for (version, dump, expected) in dumps {
        let place = Place::new();
        place.connection().execute_batch(&dump).unwrap();
        let store = place.open();
        assert_eq!(look(&store), expected, "version {version}");
        assert_eq!(begin(&store), (expected.boot + 1, expected.rows), "version {version}");
    }
}

/// A schema that was released does not change any more: a change is a new version, with a dump.
#[test]
fn rule_16_5_the_newest_dump_has_the_schema_of_a_new_file() {
    let schema = |connection: &Connection| {
        let mut select = connection
            .prepare("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY 1")
            .unwrap();
        let schema = select.query_map((), |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        schema.collect::<Result<Vec<(String, String)>, _>>().unwrap()
    };
    let head = |connection: &Connection| {
        ["application_id", "user_version"].map(|name| {
            connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0)).unwrap()
        })
    };
    let (_, dump, _) = dumps().pop().unwrap();
    let (of_dump, place) = (Connection::open_in_memory().unwrap(), Place::new());
    of_dump.execute_batch(&dump).unwrap();
    drop(place.open());
    let of_today = place.connection();
    assert_eq!(schema(&of_dump), schema(&of_today));
    assert_eq!(head(&of_dump), head(&of_today));
}
