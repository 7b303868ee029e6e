//! Opens a store: everything that can be refused is refused before anything is changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use posse_engine::ports::{StoreError, StorePart};
use rusqlite::Connection;

use super::context::Context;
use super::error::from_io;
use super::filesystem::refuse_network;
use super::migrate::SchemaState;
use super::options::SqliteOptions;
use super::paths::Paths;
use super::schema::{CURRENT_VERSION, MIGRATIONS};
use super::turnstile::Turnstile;
use super::{connect, files, holder, migrate};

/// An opened database before its threads are started.
pub(super) struct OpenDatabase {
    pub(super) context: Arc<Context>,
    pub(super) connection: Connection,
    pub(super) turnstile: Turnstile,
}

/// Opens the store in `dir` for reading and writing, and creates it if needed.
pub(super) fn open(dir: &Path, options: SqliteOptions) -> Result<OpenDatabase, StoreError> {
    connect::assert_version()?;
    let paths = Paths::new(dir);
    files::make_dir(dir).map_err(|error| from_io(StorePart::Store, dir, &error))?;
    refuse_network(dir)?;
    let mut turnstile = Turnstile::open(&paths, options.writers_lock_patience)?;
    let context = context(paths, options, CURRENT_VERSION)?;
    let permit = turnstile.take()?;
    let connection = open_database(&context)?;
    for (part, folder) in
        [(StorePart::Locks, &context.paths.holders), (StorePart::Blobs, &context.paths.blobs)]
    {
        files::make_dir(folder).map_err(|error| from_io(part, folder, &error))?;
    }
    holder::sweep(&context.paths.holders);
    drop(permit);
    Ok(OpenDatabase { context, connection, turnstile })
}

/// Prepares to read a store that this process does not write. `None` if there is no store yet.
pub(super) fn open_read_only(dir: &Path) -> Result<Option<Arc<Context>>, StoreError> {
    connect::assert_version()?;
    let paths = Paths::new(dir);
    let path = &paths.database;
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(from_io(StorePart::Journal, path, &error)),
        Ok(_) => {}
    }
    refuse_network(dir)?;
    let connection = connect_read_only(path)?;
    match migrate::inspect(&connection, path, MIGRATIONS.len())? {
        SchemaState::Empty => Ok(None),
        SchemaState::Version(version) => context(paths, SqliteOptions::default(), version).map(Some),
    }
}

/// Opens a connection to a store that this process does not write.
pub(super) fn connect_read_only(path: &Path) -> Result<Connection, StoreError> {
    let look =
        |connection: Connection| migrate::inspect(&connection, path, MIGRATIONS.len()).map(|_| connection);
    // On a read-only medium SQLite cannot create the shared memory that WAL needs.
    match connect::reader(path).and_then(look) {
        Err(StoreError::Unusable { .. } | StoreError::ReadOnly { .. }) if wal_is_empty(path) => {
            connect::immutable(path)
        }
        other => other,
    }
}

/// Whether the database file contains everything.
fn wal_is_empty(database: &Path) -> bool {
    let wal = beside(database, "-wal");
    std::fs::metadata(wal).map_or(true, |metadata| metadata.len() == 0)
}

/// The file that SQLite keeps beside the database, with this suffix.
fn beside(database: &Path, ending: &str) -> PathBuf {
    let mut name = database.to_owned().into_os_string();
    name.push(ending);
    name.into()
}

fn context(paths: Paths, options: SqliteOptions, version: u32) -> Result<Arc<Context>, StoreError> {
    let (holder_id, pid) = (holder::random_id()?, std::process::id());
    Ok(Arc::new(Context { paths, options, version, holder_id, pid }))
}

/// Refuses to migrate while a process of an older Posse executes runs: it would continue to write rows of the old
/// format.
fn refuse_while_in_use(found: SchemaState, context: &Context) -> Result<(), StoreError> {
    let is_older = matches!(found, SchemaState::Version(version) if (version as usize) < MIGRATIONS.len());
    if is_older && holder::is_any_alive(&context.paths.holders) {
        let problem =
            "it has an older format, and a process of an older Posse executes runs in it; wait for its end";
        return Err(StoreError::Unusable { part: StorePart::Journal, problem: problem.to_owned() });
    }
    Ok(())
}

/// Refuses databases of other programs before anything is changed.
fn open_existing_read_only(path: &Path) -> Result<SchemaState, StoreError> {
    let look = |connection: Connection| migrate::inspect(&connection, path, MIGRATIONS.len());
    match connect::reader(path).and_then(look) {
        // Only a writer can undo the interrupted creation of a database. A complete database has a WAL instead.
        Err(StoreError::ReadOnly { .. }) if beside(path, "-journal").exists() => {
            connect::writer(path).and_then(look)
        }
        looked => looked,
    }
}

/// Opens the database under the writers' lock. The file is only accessed through SQLite: opening and closing it by
/// other means would free the locks of every other connection of this process.
fn open_database(context: &Context) -> Result<Connection, StoreError> {
    let path = &context.paths.database;
    let is_new = match files::create(path) {
        Ok(_) => true,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(from_io(StorePart::Journal, path, &error)),
    };
    if !is_new {
        refuse_while_in_use(open_existing_read_only(path)?, context)?;
    }
    let mut connection = connect::writer(path)?;
    connect::prepare_writer(&connection, path)?;
    migrate::migrate(&mut connection, path, &MIGRATIONS, &context.options.faults)?;
    if is_new {
        let dir = &context.paths.dir;
        files::sync_dir(dir).map_err(|error| from_io(StorePart::Store, dir, &error))?;
    }
    Ok(connection)
}
