//! Migrates a database on disk to the current schema, in one transaction.

use std::path::Path;

use posse_engine::ports::{Faults, StoreError, StorePart};
use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::error::{corrupt, from_sqlite};
use super::schema::{APPLICATION_ID, Migration};

/// The schema state in the header of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SchemaState {
    /// The database has no tables yet.
    Empty,
    /// A store with this schema version.
    Version(u32),
}

/// Reads the header and changes nothing. Refuses databases of other programs, and schemas newer than `known`.
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
                return Err(StoreError::Newer { part: StorePart::Journal, found, known });
            }
            Ok(SchemaState::Version(found))
        }
        _ => Err(corrupt(StorePart::Journal, path, "it is not a database of Posse")),
    }
}

/// Executes the missing migrations, all or none.
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

    /// An older version stored no numbers of events, so those of agents that are not closed are unknown, not none.
    #[test]
    fn rows_of_open_runs_get_unknown_events_in_force() {
        let mut connection = memory();
        run(&mut connection, &MIGRATIONS[..2]).unwrap();
        for (no, ended) in [(1, "NULL"), (2, "9")] {
            connection
                .execute_batch(&format!(
                    "INSERT INTO runs (no, tenant, run, status, title, definition, model, dir, created_at_ms, ended_at_ms)
                     VALUES ({no}, 'local', 'run{no}', 'running', '', '', '', '', 1, {ended});
                     INSERT INTO agent_terms VALUES ({no}, 'local', NULL, NULL, 0, '', '{{}}', '{{}}', 1);"
                ))
                .unwrap();
            for state in ["running", "closed"] {
                connection
                    .execute(
                        "INSERT INTO agents (run_no, agent, tenant, state, usage_json, subtree_usage_json, terms)
                         VALUES (?1, ?2, 'local', ?2, '', '', ?1)",
                        (no, state),
                    )
                    .unwrap();
            }
        }
        run(&mut connection, &MIGRATIONS).unwrap();
        let mut select =
            connection.prepare("SELECT run_no, agent FROM agents WHERE events_in_force = 'unknown'").unwrap();
        let unknown: Vec<(i64, String)> =
            select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect();
        assert_eq!(unknown, [(1, "running".to_owned())]);
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
        assert_eq!(refused, StoreError::Newer { part: StorePart::Journal, found: 2, known: 1 });
    }

    #[test]
    fn a_database_of_another_program_is_refused() {
        let mut connection = memory();
        connection.execute_batch("CREATE TABLE theirs (x)").unwrap();
        assert!(matches!(run(&mut connection, &MIGRATIONS), Err(StoreError::Corrupt { .. })));
    }
}
