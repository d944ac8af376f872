//! Files that are not what the store wrote.

use std::fs;
use std::path::Path;

use symphony_core::store::{RunQuery, Store, StoreErrorKind};
use symphony_sqlite::SqliteStore;

use crate::{Place, attempts, begin, block_on, commit, integrity, scope, write};

/// More than any count of lives: it is a time.
const SECONDS: u64 = 1_700_000_000;

/// A store of some pages.
fn large() -> Place {
    let place = Place::filled();
    let writes = (0..500).map(|number| write(&format!("id-{number}"), number)).collect();
    commit(&place.open(), writes).unwrap();
    place
}

/// A damaged store is set aside as it is, and the next one begins beyond every number of the last.
fn is_set_aside(place: &Place) {
    let damaged = fs::read(&place.path).unwrap();
    let store = place.open();
    let aside = place.set_aside();
    assert_eq!(aside.len(), 1, "{:?}", place.names());
    assert_eq!(fs::read(&aside[0]).unwrap(), damaged);
    assert_eq!(attempts(&store), []);
    let (boot, _) = begin(&store);
    assert!(boot > SECONDS, "{boot}");
    commit(&store, vec![write("id-1", 7)]).unwrap();
    drop(store);
    let store = place.open();
    assert_eq!((begin(&store).0, attempts(&store)), (boot + 1, vec![Some(7)]));
    assert_eq!(place.set_aside().len(), 1);
}

#[test]
fn rule_16_5_a_file_that_is_not_a_database_is_set_aside() {
    let place = Place::new();
    fs::write(&place.path, "{\"boot\": 3}".repeat(1000)).unwrap();
    is_set_aside(&place);
}

#[test]
fn rule_16_5_a_file_with_a_broken_page_is_set_aside() {
    let place = large();
    let mut bytes = fs::read(&place.path).unwrap();
    let middle = bytes.len() / 2 / 4096 * 4096;
    bytes[middle..middle + 4096].fill(0xff);
    fs::write(&place.path, bytes).unwrap();
    is_set_aside(&place);
}

#[test]
fn rule_16_5_a_file_that_was_cut_is_set_aside() {
    let place = large();
    let bytes = fs::read(&place.path).unwrap();
    fs::write(&place.path, &bytes[..bytes.len() / 2]).unwrap();
    is_set_aside(&place);
}

#[test]
fn rule_16_5_files_that_are_set_aside_do_not_replace_each_other() {
    let place = Place::new();
    for content in ["one", "two", "three"] {
        fs::write(&place.path, content.repeat(100)).unwrap();
        drop(place.open());
    }
    let mut kept: Vec<_> =
        place.set_aside().iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    kept.sort();
    assert_eq!(kept, ["one", "three", "two"].map(|content| content.repeat(100)));
}

/// A log that a kill left, whose file was deleted by a person.
#[test]
fn rule_16_5_a_log_without_its_file_is_not_taken_for_that_of_the_next() {
    let place = large();
    let store = place.open();
    commit(&store, vec![write("id-1", 9)]).unwrap();
    let log = fs::read(place.beside("-wal")).unwrap();
    drop(store);
    fs::remove_file(&place.path).unwrap();
    fs::write(place.beside("-wal"), &log).unwrap();
    let store = place.open();
    assert_eq!((begin(&store).0, attempts(&store)), (1, vec![]));
    drop(store);
    let names = place.names();
    assert!(
        names.iter().any(|name| name.contains(".damaged-") && name.ends_with("-wal")),
        "{names:?}"
    );
}

/// What a kill leaves is the beginning of the log.
#[test]
fn rule_16_5_a_log_that_was_cut_anywhere_gives_the_rows_of_one_commit() {
    let place = Place::new();
    let store = place.open();
    begin(&store);
    let before = fs::read(place.beside("-wal")).unwrap().len();
    for attempt in 1..=6 {
        let writes = (0..20).map(|number| write(&format!("id-{number}"), attempt)).collect();
        commit(&store, writes).unwrap();
    }
    let (file, log) = (fs::read(&place.path).unwrap(), fs::read(place.beside("-wal")).unwrap());
    drop(store);
    let mut seen = Vec::new();
    for length in (before..log.len()).step_by(3 * 997).chain([log.len()]) {
        fs::write(&place.path, &file).unwrap();
        fs::write(place.beside("-wal"), &log[..length]).unwrap();
        let store = place.open();
        let found = attempts(&store);
        let first = found.first().copied().flatten().unwrap_or(0);
        assert_eq!(found, vec![Some(first); if first == 0 { 0 } else { 20 }], "cut at {length}");
        drop(store);
        assert_eq!(integrity(&place.path), "ok", "cut at {length}");
        seen.push(first);
    }
    assert!(seen.is_sorted(), "{seen:?}");
    seen.dedup();
    assert_eq!(seen, [0, 1, 2, 3, 4, 5, 6]);
}

/// Whatever bytes are wrong: it opens, or it is set aside, or it is an error; nothing panics or hangs.
#[test]
fn rule_16_5_no_damage_makes_it_panic() {
    let place = large();
    let whole = fs::read(&place.path).unwrap();
    let mut random = Random(0x5eed);
    for _ in 0..60 {
        let mut bytes = whole.clone();
        for _ in 0..random.below(8) + 1 {
            // Heads of pages are where it hurts.
            let page = random.below(bytes.len() / 4096) * 4096;
            let part = if random.below(2) == 0 { 64 } else { 4096 };
            let at = page + random.below(part);
            bytes[at] = random.below(256).to_le_bytes()[0];
        }
        fs::write(&place.path, bytes).unwrap();
        let Ok(store) = SqliteStore::open(&place.path) else { continue };
        let _ = block_on(store.begin(&scope(), Default::default()));
        let _ = block_on(store.runs(&RunQuery::default()));
        let _ = commit(&store, vec![write("id-1", 1)]);
    }
}

/// Numbers that are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

#[test]
fn rule_16_5_a_row_that_was_edited_badly_is_named_and_forgets_nothing() {
    for body in ["not JSON", "{}", "[1]", "{\"scope\": 7}"] {
        let place = Place::filled();
        place.connection().execute("UPDATE claim SET body = ?1", [body]).unwrap();
        let store = place.open();
        let error = block_on(store.begin(&scope(), Default::default())).unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Io);
        let said = symphony_core::failure::chain(&error);
        let expected = "a row of the table `claim` cannot be read";
        assert!(said.contains(expected) && said.contains(&format!("{body:?}")), "{said}");
        assert!(said.contains(&place.path.display().to_string()), "{said}");
        assert_eq!(place.set_aside(), Vec::<&Path>::new());
        commit(&store, vec![write("id-1", 8)]).unwrap();
        assert_eq!(attempts(&store), [Some(8)]);
    }
}
