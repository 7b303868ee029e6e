//! The record of an apply: what it is about to write, or has written, and what was there before.
//!
//! Stored in the run's directory before the first write. The next apply tells by it the writes of an interrupted one from
//! the user's work, and an undo takes back exactly these writes.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::change::{Change, EntryType, Side};
use super::{ObjectId, RepositoryError, disk};

/// What an apply is about to write, or has written.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Intent {
    /// The commit that is applied; empty if nothing is.
    pub(super) result: String,
    /// Whether every path was written.
    pub(super) done: bool,
    /// Merged contents, which are neither the base's nor the result's: object id by path (hex).
    pub(super) mixed: BTreeMap<String, String>,
    /// The writes of the last apply, by path (hex).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) writes: BTreeMap<String, PathWrite>,
    /// Another commit of the same work that was applied before, which an undo returns to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) before: Option<String>,
}

/// A path before and after an apply. The repository keeps both contents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PathWrite {
    before: Option<SideRecord>,
    after: Option<SideRecord>,
    /// The permissions of a removed file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bits: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SideRecord {
    kind: RecordedKind,
    oid: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RecordedKind {
    File,
    Executable,
    Link,
}

impl SideRecord {
    fn of(side: Side) -> Option<Self> {
        let kind = match side.kind {
            EntryType::File => RecordedKind::File,
            EntryType::Executable => RecordedKind::Executable,
            EntryType::Link => RecordedKind::Link,
            EntryType::Submodule | EntryType::Odd(_) => return None,
        };
        Some(Self { kind, oid: side.oid.to_string() })
    }

    fn side(&self) -> Option<Side> {
        let kind = match self.kind {
            RecordedKind::File => EntryType::File,
            RecordedKind::Executable => EntryType::Executable,
            RecordedKind::Link => EntryType::Link,
        };
        Some(Side { kind, oid: self.oid.parse().ok()? })
    }
}

impl PathWrite {
    pub(super) fn new(before: Option<Side>, after: Option<Side>, bits: Option<u32>) -> Self {
        Self { before: before.and_then(SideRecord::of), after: after.and_then(SideRecord::of), bits }
    }
}

impl Intent {
    pub(super) fn load(path: &Path) -> Result<Option<Self>, RepositoryError> {
        let Some(text) = disk::read_if_there(path)? else { return Ok(None) };
        // The file is replaced atomically, so an unreadable one is from another version and proves nothing.
        Ok(serde_json::from_slice(&text).ok())
    }

    pub(super) fn save(&self, path: &Path) -> Result<(), RepositoryError> {
        let text = serde_json::to_vec(self);
        let text =
            text.map_err(|error| RepositoryError::Damaged(format!("the record of an apply: {error}")))?;
        disk::write_durably(path, &text)
    }

    /// The commit that was applied completely.
    pub(super) fn applied(&self) -> Option<ObjectId> {
        if self.done { self.result.parse().ok() } else { None }
    }

    /// The changes that take the writes back, each from the content after them to the content before them. `None` if the
    /// record is damaged: a content that cannot be read must not be taken for an absent file.
    pub(super) fn undoing(&self) -> Option<Vec<Change>> {
        let side = |record: &Option<SideRecord>| match record {
            Some(record) => record.side().map(Some),
            None => Some(None),
        };
        let change = |(path, write): (&String, &PathWrite)| {
            Some(Change { path: unhex(path)?, old: side(&write.after)?, new: side(&write.before)? })
        };
        self.writes.iter().map(change).collect()
    }

    /// The record after an undo.
    pub(super) fn undone(&self) -> Self {
        let done = self.before.is_some();
        Self { result: self.before.clone().unwrap_or_default(), done, ..Self::default() }
    }
}

/// The result of a run with this record that was applied completely.
pub(super) fn applied_result(intent: &Path) -> Result<Option<ObjectId>, RepositoryError> {
    Ok(Intent::load(intent)?.and_then(|intent| intent.applied()))
}

/// A path as text that is lossless for any bytes.
pub(super) fn hex(path: &[u8]) -> String {
    use std::fmt::Write as _;
    path.iter().fold(String::with_capacity(path.len() * 2), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The path of [`hex`]; `None` if the text is no such path.
fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_comes_back_and_nonsense_does_not() {
        for path in [&b"a/b"[..], b"\xff\x00\n", b""] {
            assert_eq!(unhex(&hex(path)).as_deref(), Some(path));
        }
        for bad in ["a", "zz", "0"] {
            assert_eq!(unhex(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_record_of_an_earlier_version_is_read_and_has_nothing_to_take_back() {
        let old = format!(r#"{{"result": "{}", "done": true, "mixed": {{}}}}"#, "1".repeat(40));
        let intent: Intent = serde_json::from_str(&old).expect("readable");
        assert!(intent.applied().is_some() && intent.undoing().is_some_and(|changes| changes.is_empty()));
    }

    #[test]
    fn a_damaged_record_removes_no_file() {
        let oid = "2".repeat(40);
        let record = |path: &str, before: &str| {
            let side = |oid: &str| format!(r#"{{"kind": "file", "oid": "{oid}"}}"#);
            let write = format!(r#""{path}": {{"before": {}, "after": {}}}"#, side(before), side(&oid));
            let text =
                format!(r#"{{"result": "{oid}", "done": true, "mixed": {{}}, "writes": {{{write}}}}}"#);
            serde_json::from_str::<Intent>(&text).expect("readable")
        };
        assert_eq!(record("61", &oid).undoing().map(|changes| changes.len()), Some(1));
        assert_eq!(record("61", "damaged").undoing(), None);
        assert_eq!(record("6", &oid).undoing(), None);
    }
}
