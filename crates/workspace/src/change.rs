//! Lists the paths that differ between two trees, for the gate, merges and apply.

use std::fmt::Write as _;

use posse_domain::printable::is_plain;

use super::{Git, ObjectId, RepositoryError, tree_diff};

/// The entry of a tree for one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Side {
    pub(super) kind: EntryType,
    pub(super) oid: ObjectId,
}

/// The type of a tree entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryType {
    File,
    Executable,
    Link,
    Submodule,
    /// A mode that git itself never writes.
    Odd(u32),
}

impl EntryType {
    pub(super) fn of_mode(mode: u32) -> Self {
        match mode {
            0o100_644 => Self::File,
            0o100_755 => Self::Executable,
            0o120_000 => Self::Link,
            0o160_000 => Self::Submodule,
            mode => Self::Odd(mode),
        }
    }
}

/// One path that differs. A side is `None` if its tree does not have the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) path: Vec<u8>,
    pub(super) old: Option<Side>,
    pub(super) new: Option<Side>,
}

impl Change {
    /// Whether either side has this type.
    pub(super) fn touches(&self, kind: EntryType) -> bool {
        [self.old, self.new].iter().flatten().any(|side| side.kind == kind)
    }
}

/// Whether a removed path becomes a directory. A directory that is found there is then the new state.
pub(super) fn becomes_directory(gone: &Change, changes: &[Change]) -> bool {
    let beneath =
        |path: &[u8]| path.strip_prefix(gone.path.as_slice()).is_some_and(|rest| rest.starts_with(b"/"));
    gone.new.is_none() && changes.iter().any(|change| change.new.is_some() && beneath(&change.path))
}

/// Every path that differs between two commits or trees, in tree order. A path that changed its type is one change; a
/// renamed file is two.
pub(super) fn changes(git: &Git, from: &ObjectId, to: &ObjectId) -> Result<Vec<Change>, RepositoryError> {
    if let Some(found) = git.stored_objects().and_then(|stored| tree_diff::changes(&stored, from, to)) {
        return Ok(found);
    }
    let (from, to) = (from.to_string(), to.to_string());
    let raw = git.run(&["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", &from, &to])?;
    parse(&raw).ok_or_else(|| unreadable("diff-tree"))
}

/// The error for output of git that does not match its manual.
pub(super) fn unreadable(command: &str) -> RepositoryError {
    RepositoryError::Damaged(format!(
        "git {command} gave an answer that cannot be read; is git 2.45 or newer?"
    ))
}

fn parse(raw: &[u8]) -> Option<Vec<Change>> {
    let mut fields = raw.split(|byte| *byte == 0);
    let mut found = Vec::new();
    while let Some(head) = fields.next().filter(|head| !head.is_empty()) {
        let path = fields.next()?.to_vec();
        let mut words = std::str::from_utf8(head.strip_prefix(b":")?).ok()?.split(' ');
        let modes = [words.next()?, words.next()?];
        let oids = [words.next()?, words.next()?];
        let side = |at: usize| side(modes[at], oids[at]);
        found.push(Change { path, old: side(0)?, new: side(1)? });
    }
    Some(found)
}

/// The outer `None` means unreadable output, the inner one a path that does not exist on this side.
#[expect(clippy::option_option, reason = "an unreadable answer and an absent path are different things")]
fn side(mode: &str, oid: &str) -> Option<Option<Side>> {
    let mode = u32::from_str_radix(mode, 8).ok()?;
    let oid = oid.parse().ok()?;
    Some((mode != 0).then(|| Side { kind: EntryType::of_mode(mode), oid }))
}

/// A path on one line, for users. Escapes line breaks, cursor movements and bytes that are not UTF-8.
pub(super) fn shown(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for chunk in path.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() || !is_plain(c) {
                text.extend(c.escape_default());
            } else {
                text.push(c);
            }
        }
        for byte in chunk.invalid() {
            // Writing to a string does not fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_raw_form_is_read() {
        let (one, two) = ("1".repeat(40), "2".repeat(40));
        let zero = "0".repeat(40);
        let raw = format!(
            ":100644 100755 {one} {two} M\0a b\0:000000 120000 {zero} {two} A\0n\nl\0:160000 000000 {one} {zero} D\0s\0"
        );
        let found = parse(raw.as_bytes()).expect("readable");
        assert_eq!(found.len(), 3);
        assert_eq!(found[0].path, b"a b");
        assert_eq!(found[0].new.map(|side| side.kind), Some(EntryType::Executable));
        assert_eq!((found[1].old, found[1].new.map(|side| side.kind)), (None, Some(EntryType::Link)));
        assert!(found[2].touches(EntryType::Submodule) && found[2].new.is_none());
        for bad in [":1 2 3\0a\0", "x\0", ":100644 100644 1 2 M\0a\0"] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn a_path_stays_on_its_line() {
        assert_eq!(shown(b"a\nb\x1b\xff\xc3\xa4"), "a\\nb\\u{1b}\\xffä");
    }
}
