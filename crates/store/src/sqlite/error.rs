//! What went wrong below, in the port's words and with the path.

use std::io;
use std::path::Path;

use posse_engine::ports::StoreError;
use rusqlite::ErrorCode;

/// An error of SQLite on the database at `path`.
pub(super) fn from_sqlite(path: &Path, error: &rusqlite::Error) -> StoreError {
    let at = || path.display().to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full(at()),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => StoreError::ReadOnly(at()),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Corrupt { path: at(), problem: error.to_string() }
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            StoreError::Failed(format!("{} is locked by another program", at()))
        }
        _ => StoreError::Failed(format!("{}: {error}", at())),
    }
}

/// An error of the operating system at `path`.
pub(super) fn from_io(path: &Path, error: &io::Error) -> StoreError {
    let at = path.display().to_string();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full(at),
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => StoreError::ReadOnly(at),
        _ => StoreError::Failed(format!("{at}: {error}")),
    }
}

/// A value in the database that no store wrote there.
pub(super) fn corrupt(path: &Path, problem: impl Into<String>) -> StoreError {
    StoreError::Corrupt { path: path.display().to_string(), problem: problem.into() }
}

/// Whether an error is the doing of the one commit that met it: the others of its group may go on.
pub(super) fn concerns_one_commit(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => matches!(
            failure.code,
            ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch
        ),
        // A value that does not fit a column never reached SQLite.
        rusqlite::Error::ToSqlConversionFailure(_) => true,
        _ => false,
    }
}

/// Whether the store can go on after an error that ended a whole group: nothing was written and nothing is in
/// doubt. After anything else (a failed sync above all) what the disk holds is unknown, and asking again would
/// get a lie for an answer; only a fresh look from the disk tells.
pub(super) fn leaves_store_usable(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::ReadOnly)
    )
}
