//! Opening a store: everything that can be refused is refused before anything is changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use posse_engine::ports::StoreError;
use rusqlite::Connection;

use super::clock::BootClock;
use super::context::Context;
use super::error::from_io;
use super::filesystem::refuse_network;
use super::migrate::SchemaState;
use super::options::SqliteOptions;
use super::paths::Paths;
use super::schema::{MIGRATIONS, SEALED_SINCE};
use super::turnstile::Turnstile;
use super::{connect, files, migrate, owner};

/// An opened database before its threads are started.
pub(super) struct OpenDatabase {
    pub(super) context: Arc<Context>,
    pub(super) connection: Connection,
    pub(super) turnstile: Turnstile,
}

/// Opens the store in `dir` for reading and writing and makes it if need be.
pub(super) fn open(dir: &Path, options: SqliteOptions) -> Result<OpenDatabase, StoreError> {
    connect::assert_version()?;
    let paths = Paths::new(dir);
    files::make_dir(dir).map_err(|error| from_io(dir, &error))?;
    refuse_network(dir)?;
    let mut turnstile = Turnstile::open(&paths, options.writers_lock_patience)?;
    let context = context(paths, options, true)?;
    let permit = turnstile.take()?;
    let connection = open_database(&context)?;
    for folder in [&context.paths.owners, &context.paths.blobs] {
        files::make_dir(folder).map_err(|error| from_io(folder, &error))?;
    }
    owner::sweep(&context.paths.owners);
    drop(permit);
    Ok(OpenDatabase { context, connection, turnstile })
}

/// Prepares to read a store that is not written by this process; none if there is no store yet.
pub(super) fn open_read_only(dir: &Path) -> Result<Option<Arc<Context>>, StoreError> {
    connect::assert_version()?;
    let paths = Paths::new(dir);
    let path = &paths.database;
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(from_io(path, &error)),
        Ok(_) => {}
    }
    refuse_network(dir)?;
    let connection = connect_read_only(path)?;
    match migrate::inspect(&connection, path, MIGRATIONS.len())? {
        SchemaState::Empty => Ok(None),
        SchemaState::Version(version) => {
            context(paths, SqliteOptions::default(), version >= SEALED_SINCE).map(Some)
        }
    }
}

/// A connection to a store that this process does not write.
pub(super) fn connect_read_only(path: &Path) -> Result<Connection, StoreError> {
    let look =
        |connection: Connection| migrate::inspect(&connection, path, MIGRATIONS.len()).map(|_| connection);
    // On a medium that cannot be written SQLite cannot make the shared memory that WAL needs.
    match connect::reader(path).and_then(look) {
        Err(StoreError::Failed(_) | StoreError::ReadOnly(_)) if wal_is_empty(path) => {
            connect::immutable(path)
        }
        other => other,
    }
}

/// Whether the database alone has everything.
fn wal_is_empty(database: &Path) -> bool {
    let wal = beside(database, "-wal");
    std::fs::metadata(wal).map_or(true, |metadata| metadata.len() == 0)
}

/// The file that SQLite keeps beside the database under its name with this ending.
fn beside(database: &Path, ending: &str) -> PathBuf {
    let mut name = database.to_owned().into_os_string();
    name.push(ending);
    name.into()
}

fn context(paths: Paths, options: SqliteOptions, has_seals: bool) -> Result<Arc<Context>, StoreError> {
    let owner = owner::random_name()?;
    let (clock, pid) = (BootClock::new(), std::process::id());
    Ok(Arc::new(Context { paths, options, clock, has_seals, owner, pid }))
}

/// An older Posse that still carries runs would go on to write as it knows: without what this one adds to its rows.
fn refuse_while_in_use(found: SchemaState, context: &Context) -> Result<(), StoreError> {
    let is_older = matches!(found, SchemaState::Version(version) if (version as usize) < MIGRATIONS.len());
    if is_older && owner::is_any_alive(&context.paths.owners) {
        let path = context.paths.database.display();
        return Err(StoreError::Failed(format!(
            "{path} is of an older format, and a process of an older Posse executes runs in it; wait for its end"
        )));
    }
    Ok(())
}

/// Refuses what is not ours before anything is changed.
fn open_existing_read_only(path: &Path) -> Result<SchemaState, StoreError> {
    let look = |connection: Connection| migrate::inspect(&connection, path, MIGRATIONS.len());
    match connect::reader(path).and_then(look) {
        // Only a writer can undo what a crash left of the making of a database. Once made it has a WAL instead.
        Err(StoreError::ReadOnly(_)) if beside(path, "-journal").exists() => {
            connect::writer(path).and_then(look)
        }
        looked => looked,
    }
}

/// Under the writers' lock. The database is looked at through SQLite only: opening and closing it by other means
/// would free the locks of every other connection of this process.
fn open_database(context: &Context) -> Result<Connection, StoreError> {
    let path = &context.paths.database;
    let is_new = match files::create(path) {
        Ok(_) => true,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(from_io(path, &error)),
    };
    if !is_new {
        refuse_while_in_use(open_existing_read_only(path)?, context)?;
    }
    let mut connection = connect::writer(path)?;
    connect::prepare_writer(&connection, path)?;
    migrate::migrate(&mut connection, path, &MIGRATIONS, &context.options.faults)?;
    if is_new {
        files::sync_dir(&context.paths.dir).map_err(|error| from_io(&context.paths.dir, &error))?;
    }
    Ok(connection)
}
