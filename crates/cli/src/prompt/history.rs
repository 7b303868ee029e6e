//! What a user typed before, in a file of the state directory.

use std::io::Write;
use std::path::{Path, PathBuf};

use posse::atomic_file::{self, ExistingFile, PRIVATE};

/// Limit of entries; the oldest go first.
const ENTRIES_MAX: usize = 1_000;
/// Longest entry that is kept.
const ENTRY_MAX_BYTES: usize = 16 * 1024;
/// Longest file that is read.
const FILE_MAX_BYTES: u64 = 4 << 20;
const FILE: &str = "prompt_history";

/// The entries, oldest first.
#[derive(Debug, Default)]
pub(super) struct History {
    entries: Vec<String>,
    path: Option<PathBuf>,
}

impl History {
    /// Reads the history of a state directory. What cannot be read is no history.
    pub(super) fn load(state_dir: &Path) -> Self {
        let path = state_dir.join(FILE);
        Self { entries: read(&path), path: Some(path) }
    }

    #[cfg(test)]
    pub(super) fn of<const N: usize>(entries: [&str; N]) -> Self {
        Self { entries: entries.map(str::to_owned).to_vec(), path: None }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get(&self, at: usize) -> &str {
        self.entries.get(at).map_or("", String::as_str)
    }

    /// The newest entry before `before` that contains this text.
    pub(super) fn find(&self, text: &str, before: usize) -> Option<usize> {
        let wanted = text.to_lowercase();
        (0..before.min(self.len())).rev().find(|at| self.get(*at).to_lowercase().contains(&wanted))
    }

    /// Adds an entry, here and in the file. One that begins with a space is not kept, as in shells.
    pub(super) fn push(&mut self, text: &str) {
        if text.starts_with(' ') || text.trim().is_empty() || text.len() > ENTRY_MAX_BYTES {
            return;
        }
        // Another prompt may have added to the file.
        if let Some(path) = self.path.as_ref().filter(|path| path.exists()) {
            self.entries = read(path);
        }
        if self.entries.last().is_none_or(|last| last != text) {
            self.entries.push(text.to_owned());
        }
        let excess = self.entries.len().saturating_sub(ENTRIES_MAX);
        self.entries.drain(..excess);
        self.save();
    }

    /// Writes the file. A user can work without a history, and the state directory is created by the first run.
    pub(super) fn save(&self) {
        let Some(path) = self.path.as_ref().filter(|path| path.parent().is_some_and(Path::is_dir)) else {
            return;
        };
        let lines: String = self.entries.iter().map(crate::json::line).collect();
        let written =
            atomic_file::write(path, PRIVATE, ExistingFile::Replace, |file| file.write_all(lines.as_bytes()));
        if let Err(error) = written {
            tracing::debug!(%error, "the history of the prompt was not written");
        }
    }
}

/// The entries of a file, one JSON string on each line.
fn read(path: &Path) -> Vec<String> {
    let is_short = std::fs::metadata(path).is_ok_and(|file| file.len() <= FILE_MAX_BYTES);
    let text = if is_short { std::fs::read_to_string(path).unwrap_or_default() } else { String::new() };
    let mut entries: Vec<String> =
        text.lines().filter_map(|line| serde_json::from_str::<String>(line).ok()).collect();
    let excess = entries.len().saturating_sub(ENTRIES_MAX);
    entries.drain(..excess);
    entries
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn entries_are_kept_for_the_user_alone_up_to_a_limit() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut history = History::load(dir.path());
        for text in ["one", "two\nlines", "two\nlines", " secret", ""] {
            history.push(text);
        }
        let path = dir.path().join(FILE);
        let mode = std::fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let mut again = History::load(dir.path());
        assert_eq!(again.entries, ["one", "two\nlines"]);
        history.push("three");
        again.push("four");
        assert_eq!(
            History::load(dir.path()).entries,
            ["one", "two\nlines", "three", "four"],
            "of both prompts"
        );
        for at in 0..ENTRIES_MAX {
            again.entries.push(at.to_string());
        }
        again.save();
        again.push("last");
        assert_eq!((again.len(), again.get(ENTRIES_MAX - 1)), (ENTRIES_MAX, "last"));
        again.push(&"x".repeat(ENTRY_MAX_BYTES + 1));
        assert_eq!(again.get(ENTRIES_MAX - 1), "last", "a long one is not kept");
    }

    #[test]
    fn a_damaged_file_loses_its_damaged_lines_only() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join(FILE), "\"one\"\nnot json\n\"two\"\n").expect("a file");
        assert_eq!(History::load(dir.path()).entries, ["one", "two"]);
    }
}
