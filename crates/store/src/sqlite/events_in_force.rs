//! The column `events_in_force` of an agent: the numbers of events in ascending order, separated by commas. `NULL` stands for
//! none, because most agents wait for nothing outside of their run most of the time.

use std::num::ParseIntError;

use rusqlite::Row;
use rusqlite::types::ValueRef;

use super::columns::required;
use super::query::QueryError;

/// What the migration writes into the rows of runs that had not ended: an older version did not store the numbers.
const UNKNOWN: &str = "unknown";
/// The same as an expression, for a database without the column.
pub(super) const UNKNOWN_SQL: &str = "'unknown'";

pub(super) fn write(seqs: Option<&[u64]>) -> Option<String> {
    match seqs {
        None => Some(UNKNOWN.to_owned()),
        Some([]) => None,
        Some(seqs) => Some(seqs.iter().map(u64::to_string).collect::<Vec<_>>().join(",")),
    }
}

pub(super) fn read(row: &Row<'_>, column: usize) -> Result<Option<Vec<u64>>, QueryError> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(Some(Vec::new())),
        _ => required(row, column, "events in force", |text| parse(text).ok()),
    }
}

/// The numbers of a text, or an error for a text that no store writes.
fn parse(text: &str) -> Result<Option<Vec<u64>>, ParseIntError> {
    if text == UNKNOWN {
        return Ok(None);
    }
    text.split(',').map(str::parse).collect::<Result<_, _>>().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_back_and_other_texts_are_damage() {
        for seqs in [vec![7], vec![3, 7, 12]] {
            let text = write(Some(&seqs)).expect("a text");
            assert_eq!(parse(&text), Ok(Some(seqs)));
        }
        assert_eq!(write(Some(&[])), None);
        assert_eq!(parse(&write(None).expect("a text")), Ok(None));
        for text in ["", "x", "3,", "-1", "[3]"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
