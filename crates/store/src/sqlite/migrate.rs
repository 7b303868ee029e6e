//! From what is on the disk to today's shape, in one transaction.

use std::path::Path;

use posse_engine::ports::{Faults, StoreError};
use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::error::{corrupt, from_sqlite};
use super::schema::{APPLICATION_ID, Migration};

/// What a database says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SchemaState {
    /// Nothing is in it yet.
    Empty,
    /// A store of this version.
    Version(u32),
}

/// Looks without changing anything. Refuses what is not ours and what is newer than `known`.
pub(super) fn inspect(connection: &Connection, path: &Path, known: usize) -> Result<SchemaState, StoreError> {
    let ask = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let facts = || -> rusqlite::Result<(i64, i64, i64)> {
        let tables = ask("SELECT count(*) FROM sqlite_schema")?;
        Ok((ask("PRAGMA application_id")?, ask("PRAGMA user_version")?, tables))
    };
    let (application, version, tables) = facts().map_err(|error| from_sqlite(path, &error))?;
    match (application, u32::try_from(version)) {
        (0, Ok(0)) if tables == 0 => Ok(SchemaState::Empty),
        (id, Ok(found)) if id == i64::from(APPLICATION_ID) && found > 0 => {
            let known = u32::try_from(known).unwrap_or(u32::MAX);
            if found > known {
                return Err(StoreError::Newer { path: path.display().to_string(), found, known });
            }
            Ok(SchemaState::Version(found))
        }
        _ => Err(corrupt(path, "it is not a database of Posse")),
    }
}

/// Makes the migrations that are missing, all or none.
pub(super) fn migrate(
    connection: &mut Connection,
    path: &Path,
    migrations: &[Migration],
    faults: &Faults,
) -> Result<(), StoreError> {
    let taken = match inspect(connection, path, migrations.len())? {
        SchemaState::Empty => 0,
        SchemaState::Version(version) => version as usize,
    };
    if taken == migrations.len() {
        return Ok(());
    }
    make(connection, &migrations[taken..], migrations.len(), faults)
        .map_err(|error| from_sqlite(path, &error))
}

fn make(
    connection: &mut Connection,
    migrations: &[Migration],
    version: usize,
    faults: &Faults,
) -> rusqlite::Result<()> {
    let transaction = Transaction::new(connection, TransactionBehavior::Immediate)?;
    for migration in migrations {
        transaction.execute_batch(migration.sql)?;
        (migration.rows)(&transaction)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", i64::try_from(version).unwrap_or(i64::MAX))?;
    faults.hit("store.migrate.before_commit");
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use super::super::schema::MIGRATIONS;
    use super::*;

    fn memory() -> Connection {
        Connection::open_in_memory().unwrap()
    }

    fn run(connection: &mut Connection, migrations: &[Migration]) -> Result<(), StoreError> {
        migrate(connection, Path::new("posse.db"), migrations, &Faults::default())
    }

    #[test]
    fn an_empty_database_gets_todays_shape_once() {
        let mut connection = memory();
        run(&mut connection, &MIGRATIONS).unwrap();
        run(&mut connection, &MIGRATIONS).unwrap();
        let known = u32::try_from(MIGRATIONS.len()).unwrap();
        assert_eq!(inspect(&connection, Path::new("x"), MIGRATIONS.len()), Ok(SchemaState::Version(known)));
    }

    #[test]
    fn an_older_database_takes_only_what_is_missing() {
        let mut connection = memory();
        run(&mut connection, &[Migration::of_sql("CREATE TABLE a (x)")]).unwrap();
        run(
            &mut connection,
            &[Migration::of_sql("CREATE TABLE a (x)"), Migration::of_sql("CREATE TABLE b (x)")],
        )
        .unwrap();
        assert_eq!(inspect(&connection, Path::new("x"), 2), Ok(SchemaState::Version(2)));
    }

    #[test]
    fn a_migration_that_fails_takes_the_others_with_it() {
        let mut connection = memory();
        run(&mut connection, &[Migration::of_sql("CREATE TABLE a (x)")]).unwrap();
        let migrations = [
            Migration::of_sql("CREATE TABLE a (x)"),
            Migration::of_sql("CREATE TABLE b (x)"),
            Migration::of_sql("CREATE TABLE a (x)"),
        ];
        run(&mut connection, &migrations).unwrap_err();
        assert_eq!(inspect(&connection, Path::new("x"), 3), Ok(SchemaState::Version(1)));
        let tables: i64 =
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
        assert_eq!(tables, 1);
    }

    #[test]
    fn a_newer_database_is_refused() {
        let mut connection = memory();
        run(
            &mut connection,
            &[Migration::of_sql("CREATE TABLE a (x)"), Migration::of_sql("CREATE TABLE b (x)")],
        )
        .unwrap();
        let refused = run(&mut connection, &[Migration::of_sql("CREATE TABLE a (x)")]).unwrap_err();
        assert_eq!(refused, StoreError::Newer { path: "posse.db".to_owned(), found: 2, known: 1 });
    }

    #[test]
    fn a_database_of_another_program_is_refused() {
        let mut connection = memory();
        connection.execute_batch("CREATE TABLE theirs (x)").unwrap();
        assert!(matches!(run(&mut connection, &MIGRATIONS), Err(StoreError::Corrupt { .. })));
    }
}
