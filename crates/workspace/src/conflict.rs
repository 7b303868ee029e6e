//! Describes files that two sides changed in different ways, with the lines of both, for users who have to decide.

use std::collections::BTreeMap;

use posse_engine::ports::{
    ConflictHunk, ConflictKind, ConflictLines, ConflictQuery, FileConflict, FileConflicts,
};

use super::change::{Change, EntryType, Side, changes, shown};
use super::quarantine::Quarantine;
use super::text::{TextMerge, three_way};
use super::update::contents;
use super::{Git, ObjectId, RepositoryError};

/// Limit of conflicting files that are named.
const FILES_MAX: usize = 200;
/// Limit of conflicting files whose lines are shown.
const SHOWN_FILES_MAX: usize = 20;
/// Limit of hunks of one file.
const HUNKS_MAX: usize = 5;
/// Limit of lines of one side of a hunk.
const LINES_MAX: usize = 12;
/// Longest line.
const LINE_MAX_CHARS: usize = 200;
/// The length of the marks around a conflict: longer than those that a file itself may contain.
pub(super) const MARKER_BYTES: usize = 40;

/// Collects conflicts up to the limits.
#[derive(Debug, Default)]
pub(super) struct Conflicts(FileConflicts);

impl Conflicts {
    /// Whether the lines of another file are shown.
    pub(super) fn shows_lines(&self) -> bool {
        self.0.files.len() < SHOWN_FILES_MAX
    }

    pub(super) fn push(&mut self, conflict: FileConflict) {
        if self.0.files.len() < FILES_MAX { self.0.files.push(conflict) } else { self.0.more += 1 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.files.is_empty()
    }

    pub(super) fn into_inner(self) -> FileConflicts {
        self.0
    }
}

/// A conflict without lines.
pub(super) fn named(path: &[u8], kind: ConflictKind) -> FileConflict {
    FileConflict { path: shown(path), kind, hunks: Vec::new(), more_hunks: 0 }
}

/// The conflict of a file that both sides changed; `None` if their changes can be merged.
pub(super) fn of_lines(
    git: &Git,
    path: &[u8],
    ours: &[u8],
    base: Option<&ObjectId>,
    theirs: &ObjectId,
) -> Result<Option<FileConflict>, RepositoryError> {
    Ok(match three_way(git, ours, base, theirs)? {
        TextMerge::Merged(_) => None,
        TextMerge::Binary => Some(named(path, ConflictKind::NotText)),
        TextMerge::Conflict(marked) => {
            let mut hunks = hunks(&marked);
            let more_hunks = hunks.len().saturating_sub(HUNKS_MAX);
            hunks.truncate(HUNKS_MAX);
            Some(FileConflict { path: shown(path), kind: ConflictKind::Lines, hunks, more_hunks })
        }
    })
}

/// The files that a merge of three commits does not merge. A conflict that only arises because one side renamed a file
/// is not among them. Changes nothing in the repository.
pub(super) fn of_merge(git: &Git, merge: &ConflictQuery) -> Result<FileConflicts, RepositoryError> {
    let ours = changes(git, &merge.base, &merge.ours)?;
    let ours: BTreeMap<Vec<u8>, Option<Side>> =
        ours.into_iter().map(|change| (change.path, change.new)).collect();
    let quarantine = Quarantine::new(git)?;
    let mut found = Conflicts::default();
    for change in changes(git, &merge.base, &merge.theirs)? {
        let Some(our) = ours.get(&change.path).filter(|our| **our != change.new) else { continue };
        if let Some(conflict) = of_sides(quarantine.git(), our.as_ref(), &change, found.shows_lines())? {
            found.push(conflict);
        }
    }
    Ok(found.into_inner())
}

fn of_sides(
    git: &Git,
    ours: Option<&Side>,
    theirs: &Change,
    shows_lines: bool,
) -> Result<Option<FileConflict>, RepositoryError> {
    let path = &theirs.path;
    let (our, their) = match (ours, &theirs.new) {
        (Some(our), Some(their)) => (our, their),
        (None, _) => return Ok(Some(named(path, ConflictKind::OursDeleted))),
        (_, None) => return Ok(Some(named(path, ConflictKind::TheirsDeleted))),
    };
    if our.oid == their.oid {
        return Ok(None);
    }
    let is_file = |side: &Side| matches!(side.kind, EntryType::File | EntryType::Executable);
    if !is_file(our) || !is_file(their) {
        return Ok(Some(named(path, ConflictKind::NotText)));
    }
    if !shows_lines {
        return Ok(Some(named(path, ConflictKind::Lines)));
    }
    let mut content = Vec::new();
    contents(git, &[our.oid], |_, read| {
        content = read;
        Ok(())
    })?;
    let base = theirs.old.filter(is_file).map(|side| side.oid);
    of_lines(git, path, &content, base.as_ref(), &their.oid)
}

/// The hunks between the marked lines that git writes around a conflict.
fn hunks(marked: &[u8]) -> Vec<ConflictHunk> {
    let mark = |line: &[u8], byte: u8| {
        line.len() >= MARKER_BYTES && line[..MARKER_BYTES].iter().all(|found| *found == byte)
    };
    let mut found: Vec<ConflictHunk> = Vec::new();
    let mut side = None;
    // Counts the lines of our file.
    let mut line_number = 1;
    for line in marked.split_inclusive(|byte| *byte == b'\n') {
        match side {
            None if mark(line, b'<') => {
                let empty = ConflictLines::default;
                found.push(ConflictHunk { line: line_number, ours: empty(), theirs: empty() });
                side = Some(HunkSide::Ours);
            }
            Some(HunkSide::Ours) if mark(line, b'=') => side = Some(HunkSide::Theirs),
            Some(HunkSide::Theirs) if mark(line, b'>') => side = None,
            None => line_number += 1,
            Some(HunkSide::Ours) => {
                line_number += 1;
                found.last_mut().into_iter().for_each(|hunk| add(&mut hunk.ours, line));
            }
            Some(HunkSide::Theirs) => {
                found.last_mut().into_iter().for_each(|hunk| add(&mut hunk.theirs, line));
            }
        }
    }
    found
}

#[derive(Debug, Clone, Copy)]
enum HunkSide {
    Ours,
    Theirs,
}

fn add(lines: &mut ConflictLines, line: &[u8]) {
    if lines.lines.len() == LINES_MAX {
        lines.more += 1;
        return;
    }
    let text = String::from_utf8_lossy(line);
    lines.lines.push(text.trim_end_matches(['\n', '\r']).chars().take(LINE_MAX_CHARS).collect());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hunks_are_read_with_the_line_in_our_file() {
        let [ours, middle, theirs] = ["<", "=", ">"].map(|mark| mark.repeat(MARKER_BYTES));
        let marked = format!(
            "one\n{ours} a\nzwei\n<<<<<<< in the file\n{middle}\n2\n{theirs} b\nthree\n{ours} a\n{middle}\nlast\n{theirs} b\n"
        );
        let found = hunks(marked.as_bytes());
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].line, found[1].line), (2, 5));
        assert_eq!(found[0].ours.lines, ["zwei", "<<<<<<< in the file"]);
        assert_eq!(found[0].theirs.lines, ["2"]);
        assert!(found[1].ours.lines.is_empty() && found[1].theirs.lines == ["last"]);
    }

    #[test]
    fn long_sides_are_cut_and_counted() {
        let mut lines = ConflictLines::default();
        (0..LINES_MAX + 3).for_each(|_| add(&mut lines, "x".repeat(500).as_bytes()));
        assert_eq!((lines.lines.len(), lines.more), (LINES_MAX, 3));
        assert_eq!(lines.lines[0].len(), LINE_MAX_CHARS);
    }
}
