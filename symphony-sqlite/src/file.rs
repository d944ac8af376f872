//! Files and folders that belong to one user, the lock of a file, and damaged files.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use symphony_core::store::{StoreError, StoreErrorKind};

/// What SQLite keeps beside a file.
const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Reports an error of the file system.
pub(crate) fn failed<'a>(what: &'a str, path: &'a Path) -> impl Fn(io::Error) -> StoreError + 'a {
    move |error| {
        let kind = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreErrorKind::Full,
            _ => StoreErrorKind::Io,
        };
        StoreError::new(kind, format!("{what} {}", path.display())).with_source(error)
    }
}

/// Returns the path of a file beside another one, with the same name and more.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// Makes the folder of a file, for its owner alone. One that is there stays as it is.
pub(crate) fn create_folder(path: &Path) -> Result<(), StoreError> {
    let Some(folder) = path.parent() else { return Ok(()) };
    let created = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    created.map_err(failed("cannot make the folder", folder))
}

/// Makes an empty file for its owner alone, or takes others' rights to the one that is there.
pub(crate) fn create(path: &Path) -> Result<(), StoreError> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => sync_folder(path),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let cannot = failed("cannot close to others", path);
            let metadata = fs::metadata(path).map_err(&cannot)?;
            if metadata.is_file() && metadata.mode() & 0o077 != 0 {
                fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(cannot)?;
            }
            Ok(())
        }
        Err(error) => Err(failed("cannot make", path)(error)),
    }
}

/// Makes names in the folder of a file durable.
pub(crate) fn sync_folder(path: &Path) -> Result<(), StoreError> {
    let folder = path.parent().unwrap_or(path);
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(failed("cannot sync the folder", folder))
}

/// Returns the seconds since 1970.
pub(crate) fn unix_seconds() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

/// Renames a file, and what SQLite keeps beside it, so that another can take its place. Returns its
/// new path.
pub(crate) fn set_aside(path: &Path) -> Result<PathBuf, StoreError> {
    let cannot = failed("cannot set aside", path);
    let seconds = unix_seconds();
    let mut to = beside(path, &format!(".damaged-{seconds}"));
    let mut number = 1;
    while to.symlink_metadata().is_ok() {
        to = beside(path, &format!(".damaged-{seconds}-{number}"));
        number += 1;
    }
    // The companions last: one without its file is no danger, see `set_strays_aside`.
    for suffix in [""].into_iter().chain(COMPANIONS) {
        match fs::rename(beside(path, suffix), beside(&to, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(cannot(error)),
            _ => {}
        }
    }
    sync_folder(path)?;
    Ok(to)
}

/// Sets aside what SQLite kept beside a file that is not there any more: it would be taken for part of
/// the next one.
pub(crate) fn set_strays_aside(path: &Path) -> Result<(), StoreError> {
    let is_there = |path: &Path| path.symlink_metadata().is_ok();
    let has_strays = COMPANIONS.iter().any(|suffix| is_there(&beside(path, suffix)));
    if has_strays && !is_there(path) {
        let moved_to = set_aside(path)?;
        tracing::warn!(
            file = %path.display(), moved_to = %moved_to.display(),
            "a log was left without its file; it was set aside"
        );
    }
    Ok(())
}

/// How often a lock is tried again whose holder has ended. A child that a killed holder had forked
/// keeps it until it calls exec: a moment.
const LOCK_RETRIES: u32 = 100;
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// The right to write to a file, for as long as it is held.
#[derive(Debug)]
pub(crate) struct FileLock(#[expect(dead_code, reason = "locked while it is open")] File);

impl FileLock {
    /// Locks a file, by one beside it: SQLite's own locks are for transactions.
    pub(crate) fn acquire(path: &Path) -> Result<Self, StoreError> {
        let lock = beside(path, ".lock");
        let cannot = failed("cannot lock", &lock);
        let mut tries = LOCK_RETRIES;
        loop {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).mode(0o600);
            let mut file = options.open(&lock).map_err(&cannot)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let holder = holder(&mut file);
                    if tries == 0 || !has_ended(holder) {
                        return Err(in_use(path, holder));
                    }
                    tries -= 1;
                    std::thread::sleep(LOCK_RETRY_INTERVAL);
                    continue;
                }
                Err(TryLockError::Error(error)) => return Err(cannot(error)),
            }
            // One that was removed meanwhile locks nothing.
            let (open, named) = (file.metadata(), fs::metadata(&lock));
            let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
            if named.is_ok_and(|named| open.is_ok_and(|open| identity(open) == identity(named))) {
                let holder = format!("{}\n", std::process::id());
                // For people; the lock holds without it.
                let _ = file.set_len(0).and_then(|()| file.write_all(holder.as_bytes()));
                return Ok(Self(file));
            }
        }
    }
}

/// Returns the process that the holder of a lock has written into it, 0 if none.
fn holder(lock: &mut File) -> u32 {
    let mut holder = String::new();
    let _ = lock.take(32).read_to_string(&mut holder);
    holder.trim().parse().unwrap_or_default()
}

/// Whether this process is known to have ended.
fn has_ended(process: u32) -> bool {
    let processes = Path::new("/proc");
    processes.join("self").exists() && !processes.join(process.to_string()).exists()
}

fn in_use(path: &Path, holder: u32) -> StoreError {
    let message = format!(
        "{} is in use by another service (process {holder}): stop that one, or give this one another \
         file",
        path.display(),
    );
    StoreError::new(StoreErrorKind::InUse, message)
}
