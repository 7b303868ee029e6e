//! Converts errors of SQLite and the operating system to the port's errors. Their subject is a path.

use std::io;
use std::path::Path;

use posse_engine::ports::StoreError;
use rusqlite::ErrorCode;

pub(super) fn from_sqlite(path: &Path, error: &rusqlite::Error) -> StoreError {
    let at = || path.display().to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full { subject: disk_of(path) },
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => StoreError::ReadOnly { subject: at() },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Corrupt { subject: at(), problem: error.to_string() }
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            StoreError::Failed(format!("{} is locked by another program", at()))
        }
        _ => StoreError::Failed(format!("{}: {error}", at())),
    }
}

pub(super) fn from_io(path: &Path, error: &io::Error) -> StoreError {
    let at = path.display().to_string();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            StoreError::Full { subject: disk_of(path) }
        }
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            StoreError::ReadOnly { subject: at }
        }
        _ => StoreError::Failed(format!("{at}: {error}")),
    }
}

/// The error for a value in the database that no store wrote.
pub(super) fn corrupt(path: &Path, problem: impl Into<String>) -> StoreError {
    StoreError::Corrupt { subject: path.display().to_string(), problem: problem.into() }
}

fn disk_of(path: &Path) -> String {
    format!("the disk that holds {}", path.display())
}

/// Whether only the commit that caused the error fails. The other commits of its group continue.
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

/// Whether the store can continue after an error that ended a whole group: nothing was written, and the state is known.
/// After any other error (above all a failed sync) the content of the disk is unknown, and the page cache may return
/// wrong data. Only opening the store again shows it.
pub(super) fn leaves_store_usable(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::ReadOnly)
    )
}
