//! Opens a file: checks it, sets it aside where it is damaged, and brings it up to date.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags};
use symphony_core::store::{StoreError, StoreErrorKind};

use crate::error::{failed, is_damage};
use crate::file::{self, FileLock, beside};
use crate::schema::{APPLICATION_ID, Migration, check_newer, migrate, newest};
use crate::writer::Writer;

/// How long another program's transaction is waited for.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
/// A log that has grown longer, beside a reader that took its time, is cut when it can be.
const MAX_IDLE_LOG_BYTES: i64 = 16 << 20;
/// Every statement is prepared once.
const MAX_CACHED_STATEMENTS: usize = 64;

/// What a file is, by its head.
enum FileState {
    /// Nothing yet.
    New,
    /// Ours, with this schema version.
    Ours(i32),
    /// Damaged, and how.
    Damaged(String),
}

/// Opens a file for its one writer, and makes it where there is none.
pub(crate) fn for_writing(
    path: &Path,
    migrations: &'static [Migration],
) -> Result<Writer, StoreError> {
    file::create_folder(path)?;
    let lock = FileLock::acquire(path)?;
    file::set_strays_aside(path)?;
    file::create(path)?;
    let (mut connection, mut found) = look(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let mut first_boot = 0;
    if let FileState::Damaged(damage) = found {
        drop(connection);
        let moved_to = file::set_aside(path)?;
        tracing::warn!(
            file = %path.display(), moved_to = %moved_to.display(), damage,
            "the store is damaged; it was set aside, and all that it kept is forgotten"
        );
        // Greater than any number before: they count lives, not seconds.
        first_boot = file::unix_seconds();
        file::create(path)?;
        (connection, found) = look(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    }
    let version = match found {
        FileState::Ours(version) => version,
        FileState::New | FileState::Damaged(_) => 0,
    };
    check_newer(&connection, path, version, migrations)?;
    use_log(&connection, path)?;
    bring_up_to_date(&mut connection, path, version, migrations)?;
    let mut writer = Writer::new(connection, lock);
    if first_boot > 0 {
        writer.continue_after(first_boot).map_err(failed("write", path))?;
    }
    Ok(writer)
}

/// Migrates an older file, after a copy.
fn bring_up_to_date(
    connection: &mut Connection,
    path: &Path,
    version: i32,
    migrations: &[Migration],
) -> Result<(), StoreError> {
    let newest = newest(migrations);
    if version >= newest {
        return Ok(());
    }
    if version > 0 {
        copy_to(connection, &beside(path, &format!(".backup-v{version}")))?;
    }
    migrate(connection, version, migrations).map_err(failed("bring up to date", path))?;
    tracing::info!(file = %path.display(), from = version, to = newest, "the store is up to date");
    Ok(())
}

/// Opens a file that is in use, or was, to read it.
pub(crate) fn for_reading(
    path: &Path,
    migrations: &'static [Migration],
) -> Result<Connection, StoreError> {
    if !path.try_exists().map_err(file::failed("cannot look at", path))? {
        return Err(StoreError::new(
            StoreErrorKind::Io,
            format!("{} is not there", path.display()),
        ));
    }
    let (connection, found) = look(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let problem = match found {
        FileState::Ours(version) if version >= newest(migrations) => {
            check_newer(&connection, path, version, migrations)?;
            return Ok(connection);
        }
        FileState::Ours(version) => format!(
            "has the schema version {version} of an older program: start the service once, which brings it up to \
             date"
        ),
        FileState::New => "is empty".to_owned(),
        FileState::Damaged(damage) => format!("is damaged: {damage}"),
    };
    Err(StoreError::new(StoreErrorKind::Io, format!("{} {problem}", path.display())))
}

/// Connects to a file and looks what it is. Only one for writing is checked to the last page.
fn look(path: &Path, access: OpenFlags) -> Result<(Connection, FileState), StoreError> {
    let cannot = failed("open", path);
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(&cannot)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(&cannot)?;
    connection.set_prepared_statement_cache_capacity(MAX_CACHED_STATEMENTS);
    let found = match head(&connection) {
        Ok((APPLICATION_ID, version, _)) => FileState::Ours(version),
        Ok((0, 0, 0)) => FileState::New,
        Ok(_) => {
            let path = path.display();
            let message = format!("{path} is another program's file: give another path");
            return Err(StoreError::new(StoreErrorKind::Io, message));
        }
        Err(error) if is_damage(&error) => FileState::Damaged(error.to_string()),
        Err(error) => return Err(cannot(error)),
    };
    if !matches!(found, FileState::Ours(_)) || access == OpenFlags::SQLITE_OPEN_READ_ONLY {
        return Ok((connection, found));
    }
    let verdict = connection.pragma_query_value(None, "quick_check", |row| row.get(0));
    match verdict {
        Ok(verdict) if verdict == "ok" => Ok((connection, found)),
        Ok(damage) => Ok((connection, FileState::Damaged(damage))),
        Err(error) if is_damage(&error) => Ok((connection, FileState::Damaged(error.to_string()))),
        Err(error) => Err(cannot(error)),
    }
}

/// Returns whose file it is, its form, and how many tables and indexes it has.
fn head(connection: &Connection) -> rusqlite::Result<(i32, i32, i64)> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get(0));
    let tables = "SELECT count(*) FROM sqlite_schema";
    let tables = connection.query_one(tables, (), |row| row.get(0))?;
    Ok((number("application_id")?, number("user_version")?, tables))
}

/// Switches to a log that is written beside the file, so that readers and a writer do not wait for each
/// other.
fn use_log(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let cannot = failed("open", path);
    let mode = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0));
    let mode: String = mode.map_err(&cannot)?;
    if mode != "wal" {
        let message = format!(
            "{} is on a file system that SQLite's log does not work on: give a path on a local disk",
            path.display()
        );
        return Err(StoreError::new(StoreErrorKind::Io, message));
    }
    connection.pragma_update(None, "journal_size_limit", MAX_IDLE_LOG_BYTES).map_err(cannot)
}

/// Copies all rows to a file for its owner alone. One that is there is replaced, when the copy is done.
pub(crate) fn copy_to(connection: &Connection, to: &Path) -> Result<(), StoreError> {
    let part: PathBuf = beside(to, ".part");
    let cannot = file::failed("cannot write", &part);
    match fs::remove_file(&part) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(cannot(error)),
        _ => {}
    }
    // SQLite writes into an empty file, and leaves its rights as they are.
    file::create(&part)?;
    let name = ToSqlOutput::Borrowed(ValueRef::Text(part.as_os_str().as_bytes()));
    connection.execute("VACUUM INTO ?1", [name]).map_err(failed("copy to", &part))?;
    fs::File::open(&part).and_then(|file| file.sync_all()).map_err(cannot)?;
    fs::rename(&part, to).map_err(file::failed("cannot write", to))?;
    file::sync_folder(to)
}
