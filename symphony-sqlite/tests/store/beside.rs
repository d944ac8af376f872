//! Other programs on the same file.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::process::Command;
use std::task::Poll;

use symphony_core::store::{Batch, Durability, RunQuery, Store, StoreErrorKind};

use crate::{Place, attempts, begin, block_on, commit, integrity, write};

#[test]
fn rule_16_5_a_writer_beside_makes_a_commit_wait_or_fail_and_damages_nothing() {
    let place = Place::filled();
    let store = place.open();
    let other = place.connection();
    other.execute_batch("BEGIN IMMEDIATE; DELETE FROM claim").unwrap();
    let error = commit(&store, vec![write("id-2", 2)]).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Io);
    assert!(error.to_string().contains("another program is writing to it"), "{error}");
    assert_eq!(attempts(&store), [Some(1)]);
    other.execute_batch("ROLLBACK").unwrap();
    commit(&store, vec![write("id-2", 2)]).unwrap();
    assert_eq!(attempts(&store), [Some(1), Some(2)]);
    other.execute("UPDATE claim SET body = json_set(body, '$.attempt', 9)", ()).unwrap();
    commit(&store, vec![write("id-2", 3)]).unwrap();
    assert_eq!(attempts(&store), [Some(9), Some(3)]);
    drop((store, other));
    assert_eq!(integrity(&place.path), "ok");
}

#[test]
fn rule_16_5_a_commit_that_waits_is_made_when_the_other_program_is_done() {
    let place = Place::filled();
    let store = place.open();
    let other = place.connection();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let batch = Batch { durability: Durability::Process, writes: vec![write("id-1", 2)] };
    block_on(async {
        let mut commit = pin!(store.commit(&batch));
        assert!(is_pending(commit.as_mut()).await);
        // Queries do not wait for it.
        store.runs(&RunQuery::default()).await.unwrap();
        assert!(is_pending(commit.as_mut()).await);
        other.execute_batch("COMMIT").unwrap();
        commit.await.unwrap();
    });
    assert_eq!(attempts(&store), [Some(2)]);
}

async fn is_pending<F: Future>(mut future: Pin<&mut F>) -> bool {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

#[test]
fn rule_16_5_a_reader_beside_delays_no_commit() {
    let place = Place::filled();
    let store = place.open();
    let other = place.connection();
    let count = || other.query_one("SELECT count(*) FROM claim", (), |row| row.get::<_, i64>(0));
    other.execute_batch("BEGIN").unwrap();
    assert_eq!(count().unwrap(), 1);
    for attempt in 0..2_000 {
        commit_loosely(&store, &format!("id-{}", attempt % 500), attempt);
    }
    assert_eq!(count().unwrap(), 1);
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(count().unwrap(), 500);
}

fn commit_loosely(store: &symphony_sqlite::SqliteStore, id: &str, attempt: u32) {
    let batch = Batch { durability: Durability::Process, writes: vec![write(id, attempt)] };
    block_on(store.commit(&batch)).unwrap();
}

#[test]
fn rule_16_5_people_look_into_the_file_and_change_it_with_sqlite3() {
    let place = Place::filled();
    let store = place.open();
    let sqlite3 = |statement: &str| {
        let output = Command::new("sqlite3").arg(&place.path).arg(statement).output()?;
        let told = [output.stdout, output.stderr].concat();
        std::io::Result::Ok(String::from_utf8_lossy(&told).into_owned())
    };
    let look = "SELECT issue, body ->> 'stage', body ->> 'attempt' FROM claim ORDER BY 1";
    let Ok(seen) = sqlite3(look) else {
        println!("NOT RUN: sqlite3 is not installed");
        return;
    };
    assert_eq!(seen, "id-1|waiting|1\n");
    commit(&store, vec![write("id-2", 5)]).unwrap();
    assert_eq!(sqlite3(look).unwrap(), "id-1|waiting|1\nid-2|waiting|5\n");
    assert_eq!(sqlite3("DELETE FROM claim WHERE issue = 'id-1'").unwrap(), "");
    assert_eq!(attempts(&store), [Some(5)]);
    // A mistake is refused by the table.
    let mistake = sqlite3("UPDATE run SET began = 'yesterday'; INSERT INTO claim VALUES (1, 2)");
    assert!(mistake.unwrap().contains("rror"));
    assert_eq!(sqlite3("PRAGMA integrity_check").unwrap(), "ok\n");
    commit(&store, vec![write("id-2", 6)]).unwrap();
    drop(store);
    let store = place.open();
    begin(&store);
    assert_eq!(attempts(&store), [Some(6)]);
}
