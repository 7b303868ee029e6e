//! Opens SQLite connections with the store's settings.

use std::path::Path;

use posse_engine::ports::{StoreError, StorePart};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::error::{corrupt, from_sqlite};
use super::options::{BUSY_TIMEOUT, WRITER_CACHE_KIB};

/// The oldest SQLite that does not lose data when two connections write and checkpoint at once.
const SQLITE_MIN: i32 = 3_051_003;

/// Refuses SQLite versions that are known to corrupt databases.
pub(super) fn assert_version() -> Result<(), StoreError> {
    let found = rusqlite::version_number();
    if found >= SQLITE_MIN {
        return Ok(());
    }
    Err(StoreError::Failed(format!("SQLite {} can damage a database; 3.51.3 is needed", rusqlite::version())))
}

/// The version of the SQLite in this binary.
pub fn sqlite_version() -> &'static str {
    rusqlite::version()
}

/// Opens a connection that can write. Writes nothing yet.
pub(super) fn writer(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    open(path, flags)
}

/// Opens a connection that cannot write.
pub(super) fn reader(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    open(path, flags)
}

/// Opens a database on a read-only medium.
pub(super) fn immutable(path: &Path) -> Result<Connection, StoreError> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    open(Path::new(&immutable_uri(path)), flags)
}

fn open(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    let connect = || -> rusqlite::Result<Connection> {
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        // Only the writer checkpoints, under the writers' lock, never the connection that happens to close last.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.execute_batch(
            "PRAGMA trusted_schema = OFF; PRAGMA foreign_keys = ON; PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY;",
        )?;
        Ok(connection)
    };
    connect().map_err(|error| from_sqlite(path, &error))
}

/// Applies the settings of the writing connection. The first of them writes to a new database.
pub(super) fn prepare_writer(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let prepare = || -> rusqlite::Result<String> {
        let mode = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
        connection.query_row("PRAGMA wal_autocheckpoint = 0", [], |_| Ok(()))?;
        connection.execute_batch("PRAGMA synchronous = FULL;")?;
        connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
        Ok(mode)
    };
    let mode = prepare().map_err(|error| from_sqlite(path, &error))?;
    if mode.eq_ignore_ascii_case("wal") {
        return Ok(());
    }
    Err(corrupt(
        StorePart::Journal,
        path,
        format!("its journal mode is `{mode}` and cannot be changed to WAL"),
    ))
}

/// SQLite's URI for a file that never changes.
fn immutable_uri(path: &Path) -> String {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(*byte));
            }
            other => {
                uri.push('%');
                uri.extend(format!("{other:02x}").chars());
            }
        }
    }
    uri + "?immutable=1"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundled_sqlite_is_new_enough() {
        assert_version().unwrap();
    }

    #[test]
    fn a_path_cannot_smuggle_options_into_its_uri() {
        assert_eq!(immutable_uri(Path::new("/a b?x=1#y%")), "file:/a%20b%3fx%3d1%23y%25?immutable=1");
    }

    #[test]
    fn the_writer_syncs_every_commit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("posse.db");
        std::fs::File::create(&path).unwrap();
        let connection = writer(&path).unwrap();
        prepare_writer(&connection, &path).unwrap();
        let pragma =
            |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(pragma("synchronous"), 2, "FULL");
        assert_eq!(pragma("foreign_keys"), 1);
        assert_eq!(pragma("trusted_schema"), 0);
        assert_eq!(pragma("wal_autocheckpoint"), 0);
    }
}
