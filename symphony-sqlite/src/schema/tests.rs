//! Migrations, with programs of tomorrow.

use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rusqlite::Connection;
use symphony_core::Scope;
use symphony_core::store::{Rows, StoreErrorKind};
use tempfile::TempDir;

use super::{MIGRATIONS, Migration, newest};
use crate::file::beside;
use crate::open::{for_reading, for_writing};
use crate::reads;

const V1_DUMP: &str = include_str!("../../tests/schemas/v1.sql");

/// Adds a column, which older programs may ignore.
const ADDS: Migration = Migration {
    version: 2,
    min_reader: 1,
    apply: |connection| connection.execute_batch("ALTER TABLE claim ADD COLUMN stage TEXT"),
};

/// Moves claims elsewhere, where older programs do not find them.
const MOVES: Migration = Migration {
    version: 3,
    min_reader: 3,
    apply: |connection| connection.execute_batch("ALTER TABLE claim RENAME TO claims"),
};

/// Changes as much as it can, and then says so and hangs.
const HANGS: Migration = Migration {
    version: 3,
    min_reader: 3,
    apply: |connection| {
        // More than the cache holds, so that part of it is in the log already.
        connection.pragma_update(None, "cache_size", 10)?;
        connection.execute_batch(
            "UPDATE claim SET body = body || hex(zeroblob(10000)); ALTER TABLE claim RENAME TO claims;",
        )?;
        println!("\nhalf done");
        std::io::stdout().flush().expect("the other end reads");
        loop {
            std::thread::park();
        }
    },
};

/// A program that knows these versions.
fn program(more: impl IntoIterator<Item = Migration>) -> &'static [Migration] {
    let of_today = MIGRATIONS.iter().map(|step| Migration { ..*step });
    Vec::leak(of_today.chain(more).collect())
}

/// A file as version 1 wrote it.
fn of_today() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("symphony.db");
    Connection::open(&path).unwrap().execute_batch(V1_DUMP).unwrap();
    (folder, path)
}

fn rows(connection: &Connection) -> Rows {
    reads::rows(connection, &Scope::from("linear:team")).unwrap()
}

fn version(path: &Path) -> i32 {
    let connection = Connection::open(path).unwrap();
    connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

fn has(path: &Path, table: &str) -> bool {
    Connection::open(path).unwrap().table_exists(None, table).unwrap()
}

fn rows_of_today() -> Rows {
    let (_folder, path) = of_today();
    let rows = rows(&for_reading(&path, MIGRATIONS).unwrap());
    assert!(rows.claims.len() > 1, "{rows:?}");
    rows
}

#[test]
fn rule_16_5_versions_count_up_one_by_one() {
    for migrations in [MIGRATIONS, program([ADDS, MOVES])] {
        let versions: Vec<_> = migrations.iter().map(|step| step.version).collect();
        assert_eq!(versions, (1..=newest(migrations)).collect::<Vec<_>>());
        assert!(migrations.iter().map(|step| step.min_reader).is_sorted());
        assert!(migrations.iter().all(|step| step.min_reader <= step.version));
    }
}

#[test]
fn rule_16_5_an_older_file_is_copied_and_migrated_with_all_its_rows() {
    let (_folder, path) = of_today();
    let backup = beside(&path, ".backup-v1");
    fs::write(beside(&backup, ".part"), "what a kill left of an earlier try").unwrap();
    drop(for_writing(&path, program([ADDS])).unwrap());
    assert_eq!(rows(&for_reading(&path, program([ADDS])).unwrap()), rows_of_today());
    assert_eq!((version(&path), version(&backup)), (2, 1));
    assert_eq!(rows(&for_reading(&backup, MIGRATIONS).unwrap()), rows_of_today());
    // Two steps at once, from where it stands, and a copy of that.
    drop(for_writing(&path, program([ADDS, MOVES])).unwrap());
    assert!(has(&path, "claims") && !has(&path, "claim"));
    assert_eq!((version(&path), version(&beside(&path, ".backup-v2"))), (3, 2));
}

#[test]
fn rule_16_5_a_new_file_needs_no_copy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("symphony.db");
    drop(for_writing(&path, program([ADDS, MOVES])).unwrap());
    assert_eq!(version(&path), 3);
    assert!(!beside(&path, ".backup-v0").exists());
}

#[test]
fn rule_16_5_a_newer_file_is_refused_by_name_and_left_as_it_is() {
    let (_folder, path) = of_today();
    drop(for_writing(&path, program([ADDS, MOVES])).unwrap());
    let before = fs::read(&path).unwrap();
    for error in [
        for_writing(&path, MIGRATIONS).unwrap_err(),
        for_writing(&path, program([ADDS])).unwrap_err(),
        for_reading(&path, MIGRATIONS).unwrap_err(),
    ] {
        assert_eq!(error.kind, StoreErrorKind::Newer);
        let program = concat!("symphony ", env!("CARGO_PKG_VERSION"));
        let said = format!("{} was written by {program} (schema version 3), and", path.display());
        assert!(error.to_string().starts_with(&said), "{error}");
    }
    assert_eq!(fs::read(&path).unwrap(), before);
    // Also where it is too new to say what it is.
    Connection::open(&path).unwrap().execute_batch("DROP TABLE meta").unwrap();
    let error = for_writing(&path, MIGRATIONS).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Newer);
    assert!(error.to_string().contains("was written by a newer version (schema version 3)"));
}

#[test]
fn rule_16_5_a_newer_file_that_only_has_more_is_used_and_stays_newer() {
    let (_folder, path) = of_today();
    drop(for_writing(&path, program([ADDS])).unwrap());
    let mut writer = for_writing(&path, MIGRATIONS).unwrap();
    let life = writer.begin(&Scope::from("linear:team")).unwrap();
    assert_eq!(life.rows, rows_of_today());
    drop(writer);
    assert_eq!(version(&path), 2);
    for_reading(&path, MIGRATIONS).unwrap();
}

#[test]
fn rule_16_5_an_older_file_is_not_migrated_by_reading() {
    let (_folder, path) = of_today();
    let error = for_reading(&path, program([ADDS])).unwrap_err();
    assert!(error.to_string().contains("start the service once"), "{error}");
    assert_eq!(version(&path), 1);
}

#[test]
fn rule_16_5_a_migration_that_fails_changes_nothing() {
    let (_folder, path) = of_today();
    let fails = Migration {
        version: 3,
        min_reader: 3,
        apply: |connection| connection.execute_batch("DELETE FROM claim; SELECT * FROM nowhere"),
    };
    let error = for_writing(&path, program([ADDS, fails])).unwrap_err();
    let said = format!("cannot bring up to date {}: ", path.display());
    assert!(error.to_string().starts_with(&said), "{error}");
    assert_eq!(version(&path), 1);
    assert_eq!(
        for_writing(&path, MIGRATIONS).unwrap().begin(&"linear:team".into()).unwrap().rows,
        rows_of_today()
    );
}

#[test]
#[ignore = "not a test: the process that is killed within a migration"]
fn migrates_and_hangs() {
    let Ok(path) = std::env::var("SYMPHONY_TEST_STORE") else { return };
    let _ = for_writing(Path::new(&path), program([ADDS, HANGS]));
}

#[test]
fn rule_16_5_a_kill_within_a_migration_changes_nothing_and_the_next_start_migrates() {
    let (_folder, path) = of_today();
    for _ in 0..3 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["schema::tests::migrates_and_hangs", "--exact", "--ignored", "--nocapture"])
            .env("SYMPHONY_TEST_STORE", &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "half done"));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(beside(&path, "-wal").metadata().unwrap().len() > 10_000);
        assert_eq!((version(&path), version(&beside(&path, ".backup-v1"))), (1, 1));
    }
    assert_eq!(
        for_writing(&path, MIGRATIONS).unwrap().begin(&"linear:team".into()).unwrap().rows,
        rows_of_today()
    );
    drop(for_writing(&path, program([ADDS, MOVES])).unwrap());
    assert_eq!(version(&path), 3);
    let connection = Connection::open(&path).unwrap();
    let verdict = connection.pragma_query_value(None, "integrity_check", |row| row.get(0));
    assert_eq!(verdict, Ok("ok".to_owned()));
    let claims: i64 =
        connection.query_one("SELECT count(*) FROM claims", (), |row| row.get(0)).unwrap();
    assert_eq!(usize::try_from(claims), Ok(rows_of_today().claims.len()));
}
