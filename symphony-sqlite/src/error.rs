//! SQLite's errors, as a store reports them.

use std::path::Path;

use rusqlite::ErrorCode;
use symphony_core::store::{StoreError, StoreErrorKind};

/// Reports that a file could not be read or written, with what to do about it.
pub(crate) fn failed(what: &str, path: &Path) -> impl Fn(rusqlite::Error) -> StoreError {
    move |error| {
        let (kind, advice) = match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => {
                (StoreErrorKind::Full, "the disk is full: free some space")
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                (StoreErrorKind::Io, "another program is writing to it: end that first")
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                (StoreErrorKind::Io, "it is damaged: the next start sets it aside")
            }
            Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
                (StoreErrorKind::Io, "the file and its folder must be writable for this user")
            }
            Some(ErrorCode::SystemIoFailure) => {
                (StoreErrorKind::Io, "look at the disk, and at quotas on it")
            }
            _ => (StoreErrorKind::Io, "see the cause"),
        };
        let message = format!("cannot {what} {}: {advice}", path.display());
        StoreError::new(kind, message).with_source(error)
    }
}

/// Whether an error means that a file is not what SQLite wrote.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}
