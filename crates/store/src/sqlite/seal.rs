//! Seals: a hash in each row that does not follow from events. The journal has its hash chain, and the rows of current
//! state follow from it. A lease, a waiting command and the note of a removed run do not, so only the seal shows a
//! change by another program.
//!
//! Why it is like this: `docs/decisions/store-row-seals.md`.

use posse_domain::hash::Hash;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

pub(super) struct SealedTable {
    pub(super) table: &'static str,
    /// The columns that the seal covers, in this order: every column except the seal.
    columns: &'static [&'static str],
    /// The key columns of a row.
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

pub(super) const SEALED: [SealedTable; 3] = [HEADS, MAILBOX, REMOVED_RUNS];

impl SealedTable {
    /// A query for the rows that match `narrow`, with the seal as the last column.
    pub(super) fn select(&self, narrow: &str) -> String {
        self.select_from(true, narrow)
    }

    /// Like [`select`](Self::select), for a database whose rows may not have seals yet. The last column is then NULL.
    pub(super) fn select_from(&self, has_seals: bool, narrow: &str) -> String {
        let seal = if has_seals { "seal" } else { "NULL" };
        format!("SELECT {}, {seal} FROM {} {narrow}", self.listed(""), self.table)
    }

    /// The columns, each with the prefix `before`.
    pub(super) fn listed(&self, before: &str) -> String {
        let named: Vec<String> = self.columns.iter().map(|column| format!("{before}{column}")).collect();
        named.join(", ")
    }

    /// The statement that writes the seal of a row. Its parameters are the seal and the key.
    pub(super) fn update(&self) -> String {
        format!("UPDATE {} SET seal = ?1 WHERE {}", self.table, self.narrow(2))
    }

    /// The condition for the row with a key whose parameters are numbered from `first`.
    pub(super) fn narrow(&self, first: usize) -> String {
        let named: Vec<String> =
            self.key.iter().enumerate().map(|(at, column)| format!("{column} = ?{}", first + at)).collect();
        named.join(" AND ")
    }

    /// The seal of a row that begins with this table's columns.
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

    /// Whether a row is unchanged. It consists of this table's columns and its seal.
    pub(super) fn is_whole(&self, row: &Row<'_>) -> rusqlite::Result<bool> {
        let seal = row.get_ref(self.columns.len())?;
        Ok(matches!(seal, ValueRef::Blob(seal) if seal == self.of(row)?.as_bytes()))
    }
}

/// A value with its type, so that values of different types never give the same bytes.
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

/// Seals every row that was written before seals existed.
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
