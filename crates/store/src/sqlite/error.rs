//! Converts errors of SQLite and the operating system to the port's errors, which name no path. Only the log does.

use std::fmt::Display;
use std::io;
use std::path::Path;

use posse_engine::ports::{StoreError, StorePart};
use rusqlite::ErrorCode;

/// The error of an operation on the database.
pub(super) fn from_sqlite(path: &Path, error: &rusqlite::Error) -> StoreError {
    let part = StorePart::Journal;
    log(part, path, error);
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full { part },
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => StoreError::ReadOnly { part },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Corrupt { part, problem: without_path(error) }
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            StoreError::Unusable { part, problem: "another program has locked it".to_owned() }
        }
        _ => StoreError::Unusable { part, problem: without_path(error) },
    }
}

/// The error of an operation on a file or directory of this part.
pub(super) fn from_io(part: StorePart, path: &Path, error: &io::Error) -> StoreError {
    log(part, path, error);
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full { part },
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => StoreError::ReadOnly { part },
        _ => StoreError::Unusable { part, problem: error.to_string() },
    }
}

/// The error for content that no store wrote.
pub(super) fn corrupt(part: StorePart, path: &Path, problem: impl Into<String>) -> StoreError {
    let problem = problem.into();
    log(part, path, &problem);
    StoreError::Corrupt { part, problem }
}

/// SQLite's text. To the text of a database that cannot be opened, rusqlite appends the path.
fn without_path(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) if failure.code == ErrorCode::CannotOpen => {
            failure.to_string()
        }
        other => other.to_string(),
    }
}

fn log(part: StorePart, path: &Path, problem: &impl Display) {
    tracing::warn!(%part, path = %path.display(), %problem, "an operation of the store failed");
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
