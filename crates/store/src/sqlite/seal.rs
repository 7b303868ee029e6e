//! Seals: a hash over each row that no event tells about, in the row itself. The journal has its chain, and the rows of
//! current state follow from it; a lease, a command that waits and the note of a removed run do not, and a change by
//! another hand shows by the seal alone.
//!
//! Why it is like this: `docs/decisions/store-row-seals.md`.

use posse_domain::hash::Hash;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

/// A table whose rows are sealed.
pub(super) struct SealedTable {
    /// Its name.
    pub(super) table: &'static str,
    /// What the seal is over, in this order: every column but the seal.
    columns: &'static [&'static str],
    /// The columns that name a row.
    key: &'static [&'static str],
}

pub(super) const HEADS: SealedTable = SealedTable {
    table: "heads",
    columns: &[
        "run_no",
        "tenant",
        "seq",
        "hash",
        "posts",
        "epoch",
        "owner",
        "owner_pid",
        "boot",
        "lease_until_ms",
    ],
    key: &["run_no"],
};

pub(super) const MAILBOX: SealedTable =
    SealedTable { table: "mailbox", columns: &["run_no", "id", "tenant", "command"], key: &["run_no", "id"] };

pub(super) const REMOVED_RUNS: SealedTable = SealedTable {
    table: "removed_runs",
    columns: &["run_no", "tenant", "run", "head_seq", "head_hash", "removed_at_ms"],
    key: &["run_no"],
};

/// All of them.
pub(super) const SEALED: [SealedTable; 3] = [HEADS, MAILBOX, REMOVED_RUNS];

impl SealedTable {
    /// A question for rows with the seal at the end: those that `narrow` lets through.
    pub(super) fn select(&self, narrow: &str) -> String {
        self.select_from(true, narrow)
    }

    /// The same from a database whose rows may not have seals yet: then there is none at the end.
    pub(super) fn select_from(&self, has_seals: bool, narrow: &str) -> String {
        let seal = if has_seals { "seal" } else { "NULL" };
        format!("SELECT {}, {seal} FROM {} {narrow}", self.listed(""), self.table)
    }

    /// The columns, each after `before`.
    pub(super) fn listed(&self, before: &str) -> String {
        let named: Vec<String> = self.columns.iter().map(|column| format!("{before}{column}")).collect();
        named.join(", ")
    }

    /// Writes the seal of a row: first the seal, then what names the row.
    pub(super) fn update(&self) -> String {
        format!("UPDATE {} SET seal = ?1 WHERE {}", self.table, self.narrow(2))
    }

    /// The one row of a key whose values are numbered from `first`.
    pub(super) fn narrow(&self, first: usize) -> String {
        let named: Vec<String> =
            self.key.iter().enumerate().map(|(at, column)| format!("{column} = ?{}", first + at)).collect();
        named.join(" AND ")
    }

    /// The seal of a row whose first columns are this table's.
    pub(super) fn of(&self, row: &Row<'_>) -> rusqlite::Result<Hash> {
        let values: Vec<ValueRef<'_>> =
            (0..self.columns.len()).map(|at| row.get_ref(at)).collect::<rusqlite::Result<_>>()?;
        Ok(self.of_values(&values))
    }

    /// The seal over these values, in the order of the columns.
    pub(super) fn of_values(&self, values: &[ValueRef<'_>]) -> Hash {
        let mut parts = vec![self.table.as_bytes().to_vec()];
        parts.extend(values.iter().map(|value| bytes(*value)));
        Hash::of_parts(parts.iter().map(Vec::as_slice))
    }

    /// Whether a row is what was written: its first columns are this table's, and then comes its seal.
    pub(super) fn is_whole(&self, row: &Row<'_>) -> rusqlite::Result<bool> {
        let seal = row.get_ref(self.columns.len())?;
        Ok(matches!(seal, ValueRef::Blob(seal) if seal == self.of(row)?.as_bytes()))
    }
}

/// A value with its type, so that none can be taken for another.
fn bytes(value: ValueRef<'_>) -> Vec<u8> {
    let (kind, content) = match value {
        ValueRef::Null => (b'0', Vec::new()),
        ValueRef::Integer(number) => (b'i', number.to_le_bytes().to_vec()),
        ValueRef::Real(number) => (b'r', number.to_le_bytes().to_vec()),
        ValueRef::Text(text) => (b't', text.to_vec()),
        ValueRef::Blob(blob) => (b'b', blob.to_vec()),
    };
    [vec![kind], content].concat()
}

/// Seals every row that was written before there were seals.
pub(super) fn seal_all(connection: &Connection) -> rusqlite::Result<()> {
    for sealed in &SEALED {
        let mut select = connection.prepare(&sealed.select("WHERE seal = x''"))?;
        let key: Vec<usize> = sealed
            .key
            .iter()
            .filter_map(|name| sealed.columns.iter().position(|column| column == name))
            .collect();
        let rows = select.query_map([], |row| {
            let named = key.iter().map(|at| row.get::<_, i64>(*at)).collect::<rusqlite::Result<Vec<_>>>()?;
            Ok((sealed.of(row)?, named))
        })?;
        let rows: Vec<(Hash, Vec<i64>)> = rows.collect::<rusqlite::Result<_>>()?;
        let mut update = connection.prepare(&sealed.update())?;
        for (seal, named) in rows {
            let mut values: Vec<rusqlite::types::Value> = vec![seal.as_bytes().to_vec().into()];
            values.extend(named.into_iter().map(rusqlite::types::Value::from));
            update.execute(rusqlite::params_from_iter(values))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_its_type_and_its_place_are_in_the_seal() {
        let seal = |values: &[ValueRef<'_>]| MAILBOX.of_values(values);
        let (one, text) = (ValueRef::Integer(1), ValueRef::Text(b"1"));
        let all = [
            seal(&[one, text]),
            seal(&[text, one]),
            seal(&[one, ValueRef::Blob(b"1")]),
            seal(&[one, ValueRef::Null]),
            seal(&[one, ValueRef::Text(b"")]),
            seal(&[one]),
            HEADS.of_values(&[one, text]),
        ];
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
    }
}
