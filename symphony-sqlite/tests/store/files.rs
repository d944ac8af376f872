//! The file, its folder, its lock and its copies.

use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use symphony_core::Scope;
use symphony_core::store::{RunQuery, Store, StoreErrorKind};
use symphony_sqlite::SqliteStore;

use crate::{Place, attempts, begin, block_on, commit, names, scope, write};

fn mode(path: impl AsRef<Path>) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn rule_16_5_file_and_new_folders_are_for_their_owner_alone() {
    let place = Place::new();
    let folder = place.folder.path().join("state/symphony");
    let path = folder.join("symphony.db");
    let store = SqliteStore::open(&path).unwrap();
    begin(&store);
    assert_eq!([mode(&folder), mode(folder.parent().unwrap())], [0o700; 2]);
    let files = ["symphony.db", "symphony.db-shm", "symphony.db-wal", "symphony.db.lock"];
    assert_eq!(names(&folder), files);
    for file in files {
        assert_eq!(mode(folder.join(file)), 0o600, "{file}");
    }
    block_on(store.backup(folder.join("copy.db"))).unwrap();
    assert_eq!(mode(folder.join("copy.db")), 0o600);
    drop(store);
    assert_eq!(names(&folder), ["copy.db", "symphony.db", "symphony.db.lock"]);
}

#[test]
fn rule_16_5_a_file_that_others_could_read_is_closed_to_them() {
    let place = Place::filled();
    fs::set_permissions(&place.path, fs::Permissions::from_mode(0o644)).unwrap();
    drop(place.open());
    assert_eq!(mode(&place.path), 0o600);
}

#[test]
fn rule_16_5_a_second_service_is_refused_and_the_first_is_named() {
    let place = Place::filled();
    let store = place.open();
    let error = SqliteStore::open(&place.path).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::InUse);
    let said = format!(
        "{} is in use by another service (process {})",
        place.path.display(),
        std::process::id()
    );
    assert!(error.to_string().starts_with(&said), "{error}");
    assert_eq!(attempts(&store), [Some(1)]);
    drop(store);
    assert_eq!(attempts(&place.open()), [Some(1)]);
}

#[test]
fn rule_16_5_a_file_is_read_while_a_service_uses_it_and_afterwards() {
    let place = Place::filled();
    let store = place.open();
    let reader = SqliteStore::open_read_only(&place.path).unwrap();
    commit(&store, vec![write("id-1", 2), write("id-2", 3)]).unwrap();
    assert_eq!(attempts(&reader), [Some(2), Some(3)]);
    assert_eq!(block_on(reader.scopes()).unwrap(), [scope()]);
    assert_eq!(block_on(reader.last_boot()).unwrap(), 1);
    let refused = commit(&reader, vec![write("id-1", 4)]).unwrap_err().to_string();
    assert_eq!(refused, format!("{} was opened to be read only", place.path.display()));
    block_on(reader.begin(&scope(), Default::default())).unwrap_err();
    drop((store, reader));
    let reader = SqliteStore::open_read_only(&place.path).unwrap();
    assert_eq!(attempts(&reader), [Some(2), Some(3)]);
    assert_eq!(begin(&place.open()).0, 2);
}

#[test]
fn rule_16_5_a_file_that_is_not_there_is_not_made_by_reading() {
    let place = Place::new();
    let error = SqliteStore::open_read_only(&place.path).unwrap_err();
    assert_eq!(error.to_string(), format!("{} is not there", place.path.display()));
    assert_eq!(place.names(), [""; 0]);
    fs::write(&place.path, "").unwrap();
    let error = SqliteStore::open_read_only(&place.path).unwrap_err();
    assert_eq!(error.to_string(), format!("{} is empty", place.path.display()));
}

#[test]
fn rule_16_5_a_copy_is_made_while_rows_are_written_and_overwrites_nothing() {
    let place = Place::filled();
    let store = place.open();
    let copy = place.folder.path().join("copy.db");
    block_on(store.backup(&copy)).unwrap();
    commit(&store, vec![write("id-1", 2)]).unwrap();
    let error = block_on(store.backup(&copy)).unwrap_err().to_string();
    assert_eq!(error, format!("{} exists already: give another name", copy.display()));
    drop(store);
    assert_eq!(attempts(&SqliteStore::open_read_only(&copy).unwrap()), [Some(1)]);
    let restored = SqliteStore::open(&copy).unwrap();
    assert_eq!((begin(&restored).0, attempts(&restored)), (2, vec![Some(1)]));
    let nowhere = place.folder.path().join("nowhere/copy.db");
    let error = block_on(restored.backup(&nowhere)).unwrap_err();
    assert!(error.to_string().contains("nowhere/copy.db"), "{error}");
}

#[test]
fn rule_16_5_a_path_is_a_file_whatever_it_is_called() {
    let folder = tempfile::tempdir().unwrap();
    let odd = std::ffi::OsString::from_vec(b"it's \"odd\"\xff\n.db".to_vec());
    for name in [":memory:".into(), "file:x.db?mode=memory&immutable=1".into(), " ".into(), odd] {
        let path = folder.path().join(name);
        let store = SqliteStore::open(&path).unwrap();
        begin(&store);
        commit(&store, vec![write("id-1", 1)]).unwrap();
        let mut copy = path.clone().into_os_string();
        copy.push(".copy");
        block_on(store.backup(&copy)).unwrap();
        drop(store);
        assert_eq!(attempts(&SqliteStore::open(&path).unwrap()), [Some(1)], "{path:?}");
        assert_eq!(attempts(&SqliteStore::open(&copy).unwrap()), [Some(1)], "{copy:?}");
        assert!(path.is_file());
    }
}

#[test]
fn rule_16_5_another_programs_file_is_refused_and_left_as_it_is() {
    let place = Place::new();
    place.connection().execute_batch("CREATE TABLE notes (text TEXT)").unwrap();
    let before = fs::read(&place.path).unwrap();
    for open in [SqliteStore::open, SqliteStore::open_read_only] {
        let error = open(place.path.clone()).unwrap_err();
        let said = format!("{} is another program's file: give another path", place.path.display());
        assert_eq!(error.to_string(), said);
    }
    assert_eq!(fs::read(&place.path).unwrap(), before);
    assert_eq!(place.names(), ["symphony.db", "symphony.db.lock"]);
}

#[test]
fn rule_16_5_an_empty_file_becomes_a_store() {
    for make in [
        |path: &Path| fs::write(path, "").unwrap(),
        |path: &Path| {
            rusqlite::Connection::open(path).unwrap().execute_batch("VACUUM").unwrap();
        },
    ] {
        let place = Place::new();
        make(&place.path);
        assert_eq!(begin(&place.open()).0, 1);
        assert_eq!(place.set_aside().len(), 0);
    }
}

#[test]
fn rule_16_5_numbers_of_lives_go_on_from_where_they_were_counted_before() {
    let place = Place::new();
    let store = place.open();
    assert_eq!(block_on(store.last_boot()).unwrap(), 0);
    block_on(store.continue_after(41)).unwrap();
    assert_eq!(begin(&store).0, 42);
    block_on(store.continue_after(7)).unwrap();
    assert_eq!(begin(&store).0, 43);
    block_on(store.continue_after(u64::MAX)).unwrap();
    assert_eq!(begin(&store).0, u64::MAX);
}

#[test]
fn rule_16_5_scopes_are_those_that_have_rows() {
    let place = Place::filled();
    let store = place.open();
    assert_eq!(block_on(store.scopes()).unwrap(), [scope()]);
    assert_eq!(block_on(store.rows(&Scope::from("other"))).unwrap(), Default::default());
    assert_eq!(block_on(store.runs(&RunQuery::default())).unwrap(), []);
}
