//! The schema of the database, as a list of migrations.

use rusqlite::Connection;

use super::seal;

/// Marks a database as Posse's (`PRAGMA application_id`): the letters `Poss`.
pub(super) const APPLICATION_ID: i32 = 0x506f_7373;

/// A migration from one schema version to the next.
pub(super) struct Migration {
    /// Changes the tables.
    pub(super) sql: &'static str,
    /// Changes existing rows where SQL alone is not enough.
    pub(super) rows: fn(&Connection) -> rusqlite::Result<()>,
}

impl Migration {
    /// A migration that consists of SQL only.
    pub(super) const fn of_sql(sql: &'static str) -> Self {
        Self { sql, rows: |_| Ok(()) }
    }
}

/// From an empty database to the current schema. The version (`PRAGMA user_version`) is the number of executed
/// migrations. A released migration is never changed.
pub(super) const MIGRATIONS: [Migration; 3] = [
    Migration::of_sql(include_str!("schema.sql")),
    Migration { sql: include_str!("sealed.sql"), rows: seal::seal_all },
    Migration::of_sql(include_str!("current_state.sql")),
];

/// The version that this program writes.
#[expect(clippy::cast_possible_truncation, reason = "there are a few migrations")]
pub(super) const CURRENT_VERSION: u32 = MIGRATIONS.len() as u32;
/// The first version whose rows have seals.
pub(super) const SEALED_SINCE: u32 = 2;
/// The first version whose rows of agents have the numbers of events in force.
pub(super) const EVENTS_IN_FORCE_SINCE: u32 = 3;

/// Bits of a row id that number the rows of one run.
const PLACE_BITS: u32 = 40;

/// The id of the row at `place` among the rows of run number `run_no`.
pub(super) fn row_id(run_no: i64, place: u64) -> Option<i64> {
    let place = i64::try_from(place).ok().filter(|place| *place < 1 << PLACE_BITS)?;
    run_no.checked_mul(1 << PLACE_BITS)?.checked_add(place)
}

/// The ids of all rows of run number `run_no`: after the first, up to the second.
pub(super) fn row_ids(run_no: i64) -> (i64, i64) {
    let first = run_no.saturating_mul(1 << PLACE_BITS);
    (first, first.saturating_add((1 << PLACE_BITS) - 1))
}

/// The position of a row within its run, from its id.
pub(super) fn position(id: i64) -> u64 {
    u64::try_from(id & ((1 << PLACE_BITS) - 1)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_runs_do_not_overlap() {
        assert_eq!(row_id(1, 1), Some((1 << 40) + 1));
        assert!(row_id(1, (1 << 40) - 1) < row_id(2, 0));
        assert_eq!(row_id(1, 1 << 40), None);
        assert_eq!(row_id(i64::MAX, 1), None);
        assert_eq!(position(row_id(7, 42).unwrap()), 42);
        assert_eq!(row_ids(3), (row_id(3, 0).unwrap(), row_id(3, (1 << 40) - 1).unwrap()));
    }
}
