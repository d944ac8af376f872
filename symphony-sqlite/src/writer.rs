//! The connection that writes, in a thread of its own.

use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior};
use symphony_core::Scope;
use symphony_core::store::{Durability, Life};

use crate::change::{RowChange, SyncNeed, unsigned};
use crate::file::FileLock;
use crate::reads;
use crate::worker::Owned;

/// How long a commit may stay unsynced.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// Writes to the file.
#[derive(Debug)]
pub(crate) struct Writer {
    connection: Connection,
    /// What SQLite is set to.
    synchronous: Option<Durability>,
    /// Whether something was written and is not known to be on the disk.
    is_unsynced: bool,
    /// When it must be.
    sync_at: Option<Instant>,
    has_failed: bool,
    // Given back after the file is closed.
    _lock: FileLock,
}

impl Writer {
    pub(crate) const fn new(connection: Connection, lock: FileLock) -> Self {
        Self {
            connection,
            synchronous: None,
            is_unsynced: false,
            sync_at: None,
            has_failed: false,
            _lock: lock,
        }
    }

    /// Counts one life more and returns what it begins with.
    pub(crate) fn begin(&mut self, scope: &Scope) -> rusqlite::Result<Life> {
        self.transact(Durability::Machine, |connection| {
            let boot = reads::boot(connection)?.saturating_add(1);
            set_boot(connection, boot)?;
            Ok((SyncNeed::Soon, Life::new(boot, reads::rows(connection, scope)?)))
        })
    }

    /// Makes the next life greater than this one.
    pub(crate) fn continue_after(&mut self, boot: u64) -> rusqlite::Result<()> {
        self.transact(Durability::Machine, |connection| {
            let boot = boot.max(reads::boot(connection)?);
            set_boot(connection, boot)?;
            Ok((SyncNeed::Soon, ()))
        })
    }

    /// Keeps all changes or none.
    pub(crate) fn commit(
        &mut self,
        changes: &[RowChange],
        durability: Durability,
    ) -> rusqlite::Result<()> {
        self.transact(durability, |connection| {
            let mut need = SyncNeed::Never;
            for change in changes {
                need = need.max(change.apply(connection)?);
            }
            Ok((need, ()))
        })
    }

    fn transact<R>(
        &mut self,
        durability: Durability,
        work: impl FnOnce(&Connection) -> rusqlite::Result<(SyncNeed, R)>,
    ) -> rusqlite::Result<R> {
        self.set_synchronous(durability)?;
        let behavior = TransactionBehavior::Immediate;
        let transaction = self.connection.transaction_with_behavior(behavior)?;
        let (need, result) = work(&transaction)?;
        if durability == Durability::Machine && need == SyncNeed::Never && self.is_unsynced {
            // SQLite syncs only what it has written; this takes all that came before along.
            transaction.execute("UPDATE meta SET value = value + 1 WHERE key = 'syncs'", ())?;
        }
        transaction.commit()?;
        match (durability, need) {
            (Durability::Machine, _) => (self.is_unsynced, self.sync_at) = (false, None),
            (Durability::Process, SyncNeed::Never) => {}
            (Durability::Process, SyncNeed::Later) => self.is_unsynced = true,
            (Durability::Process, SyncNeed::Soon) => {
                self.is_unsynced = true;
                self.sync_at.get_or_insert_with(|| Instant::now() + SYNC_INTERVAL);
            }
        }
        Ok(result)
    }

    fn set_synchronous(&mut self, durability: Durability) -> rusqlite::Result<()> {
        if self.synchronous != Some(durability) {
            let level = match durability {
                Durability::Process => "NORMAL",
                Durability::Machine => "FULL",
            };
            self.connection.pragma_update(None, "synchronous", level)?;
            self.synchronous = Some(durability);
        }
        Ok(())
    }
}

fn set_boot(connection: &Connection, boot: u64) -> rusqlite::Result<()> {
    let set = "INSERT INTO meta (key, value) VALUES ('boot', ?1)
               ON CONFLICT (key) DO UPDATE SET value = excluded.value";
    connection.execute(set, [unsigned(boot)]).map(drop)
}

impl Owned for Writer {
    fn deadline(&self) -> Option<Instant> {
        self.sync_at
    }

    fn on_deadline(&mut self) {
        let synced = self.commit(&[], Durability::Machine);
        if let Err(error) = &synced {
            self.sync_at = Some(Instant::now() + SYNC_INTERVAL);
            if !self.has_failed {
                tracing::warn!(%error, "rows are written but cannot be synced to the disk");
            }
        }
        self.has_failed = synced.is_err();
    }
}

#[cfg(test)]
mod tests {
    use symphony_core::store::{OperatorRow, PollRow, Write};

    use super::*;
    use crate::open::for_writing;
    use crate::schema::MIGRATIONS;

    fn paused(paused: bool) -> RowChange {
        RowChange::new(&Write::Operator(OperatorRow { paused, ..OperatorRow::default() })).unwrap()
    }

    fn polls(day: i64) -> RowChange {
        let scope = Scope::from("linear:team");
        let mut row = PollRow { scope, last_runs: Default::default(), spent: Default::default() };
        row.spent.day = day;
        RowChange::new(&Write::Polls(row)).unwrap()
    }

    fn syncs(writer: &Writer) -> i64 {
        let select = "SELECT value FROM meta WHERE key = 'syncs'";
        writer.connection.query_one(select, (), |row| row.get(0)).unwrap()
    }

    /// 1 is NORMAL, 2 is FULL.
    fn synchronous(writer: &Writer) -> i64 {
        writer.connection.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap()
    }

    #[test]
    fn rule_16_5_what_is_written_for_the_process_is_synced_once_and_then_nothing_is() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = for_writing(&folder.path().join("symphony.db"), MIGRATIONS).unwrap();
        writer.begin(&Scope::from("linear:team")).unwrap();
        assert_eq!((synchronous(&writer), writer.deadline()), (2, None));

        let before = Instant::now();
        writer.commit(&[paused(true)], Durability::Process).unwrap();
        assert_eq!(synchronous(&writer), 1);
        let due = writer.deadline().unwrap();
        assert!(due >= before + SYNC_INTERVAL && due <= Instant::now() + SYNC_INTERVAL);
        writer.commit(&[paused(false)], Durability::Process).unwrap();
        assert_eq!(writer.deadline(), Some(due), "a second from the first commit on");
        writer.on_deadline();
        assert_eq!((synchronous(&writer), writer.deadline(), syncs(&writer)), (2, None, 1));

        // What changes nothing needs no sync, and the last reads wait for one.
        writer.commit(&[paused(false)], Durability::Process).unwrap();
        writer.commit(&[polls(1)], Durability::Process).unwrap();
        assert_eq!(writer.deadline(), None);
        writer.commit(&[polls(2), paused(true)], Durability::Process).unwrap();
        assert!(writer.deadline().is_some());
        writer.commit(&[paused(false)], Durability::Machine).unwrap();
        assert_eq!(
            (writer.deadline(), syncs(&writer)),
            (None, 1),
            "its own write takes them along"
        );
    }

    #[test]
    fn rule_16_5_a_commit_for_the_machine_that_repeats_an_unsynced_one_is_synced() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = for_writing(&folder.path().join("symphony.db"), MIGRATIONS).unwrap();
        for (count, change) in [(1, paused(true)), (2, polls(1))] {
            writer.commit(&[change], Durability::Process).unwrap();
            for _ in 0..2 {
                let again = if count == 1 { paused(true) } else { polls(1) };
                writer.commit(&[again], Durability::Machine).unwrap();
                assert_eq!((writer.deadline(), syncs(&writer)), (None, count));
            }
        }
    }

    #[test]
    fn rule_16_5_a_sync_that_fails_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("symphony.db");
        let mut writer = for_writing(&path, MIGRATIONS).unwrap();
        writer.commit(&[paused(true)], Durability::Process).unwrap();
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        writer.connection.busy_timeout(Duration::ZERO).unwrap();
        let first = writer.deadline().unwrap();
        writer.on_deadline();
        assert!(writer.deadline().is_some_and(|next| next > first));
        other.execute_batch("ROLLBACK").unwrap();
        writer.on_deadline();
        assert_eq!((writer.deadline(), syncs(&writer)), (None, 1));
    }
}
