//! API type of the changes of a run or of an agent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::AgentId;

/// The changes of a run, or of one of its agents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiffResult {
    /// The run's id.
    pub run: String,
    /// The agent whose changes these are; the root, whose id is that of the run, stands for the run's result.
    pub agent: String,
    /// The changed files, in the order of the text.
    pub files: Vec<ChangedFile>,
    /// The changes as one unified diff. Bytes that are no UTF-8 are replaced.
    pub text: String,
}

/// A file that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedFile {
    /// The path before the change; null if the file was added.
    pub old_path: Option<String>,
    /// The path after the change; null if the file was deleted.
    pub new_path: Option<String>,
    /// How many lines were added; null if the file is not text.
    pub added: Option<u64>,
    /// How many lines were removed; null if the file is not text.
    pub removed: Option<u64>,
    /// The part of the unified diff that is about this file.
    pub text: String,
}

impl DiffResult {
    /// Converts a unified diff of git.
    pub fn new(agent: &AgentId, diff: &[u8]) -> Self {
        Self {
            run: agent.run().to_string(),
            agent: agent.to_string(),
            files: files(diff),
            text: String::from_utf8_lossy(diff).into_owned(),
        }
    }
}

/// What happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileStatus {
    /// It did not exist before.
    Added,
    /// Its content or its mode changed.
    Changed,
    /// It has another path than before.
    Renamed,
    /// It no longer exists.
    Deleted,
}

/// A file of a list of changes, without its lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedFileEntry {
    /// Its path; that before the change, if it was deleted.
    pub path: String,
    /// The path before the change, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_path: Option<String>,
    /// What happened to it.
    pub status: FileStatus,
    /// How many lines were added; null if the file is not text.
    pub added: Option<u64>,
    /// How many lines were removed; null if the file is not text.
    pub removed: Option<u64>,
}

/// The changed files of a run, or of one of its agents, without their lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedFileList {
    /// The run's id.
    pub run: String,
    /// The agent whose changes these are; the root, whose id is that of the run, stands for the run's result.
    pub agent: String,
    /// The changed files, in the order of the diff.
    pub files: Vec<ChangedFileEntry>,
    /// How many lines were added in all of them.
    pub added: u64,
    /// How many lines were removed in all of them.
    pub removed: u64,
}

impl ChangedFileList {
    /// Converts a unified diff of git.
    pub fn new(agent: &AgentId, diff: &[u8]) -> Self {
        let files: Vec<ChangedFileEntry> = files(diff).iter().map(ChangedFile::entry).collect();
        Self {
            run: agent.run().to_string(),
            agent: agent.to_string(),
            added: files.iter().filter_map(|file| file.added).sum(),
            removed: files.iter().filter_map(|file| file.removed).sum(),
            files,
        }
    }
}

/// The change of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileDiff {
    /// The run's id.
    pub run: String,
    /// The agent whose change this is; the root, whose id is that of the run, stands for the run's result.
    pub agent: String,
    /// The file with its part of the unified diff.
    #[serde(flatten)]
    pub file: ChangedFile,
}

impl FileDiff {
    /// The file at this path, before or after the change, in a unified diff of git.
    pub fn find(agent: &AgentId, path: &str, diff: &[u8]) -> Option<Self> {
        let is_path = |of: &Option<String>| of.as_deref() == Some(path);
        let mut all = files(diff);
        let at = all.iter().position(|file| is_path(&file.new_path));
        let at = at.or_else(|| all.iter().position(|file| is_path(&file.old_path)))?;
        Some(Self { run: agent.run().to_string(), agent: agent.to_string(), file: all.swap_remove(at) })
    }
}

impl ChangedFile {
    fn entry(&self) -> ChangedFileEntry {
        let (path, old_path, status) = match (&self.old_path, &self.new_path) {
            (None, Some(new)) => (new, None, FileStatus::Added),
            (Some(old), Some(new)) if old != new => (new, Some(old.clone()), FileStatus::Renamed),
            (_, Some(new)) => (new, None, FileStatus::Changed),
            (Some(old), None) => (old, None, FileStatus::Deleted),
            (None, None) => (&String::new(), None, FileStatus::Changed),
        };
        ChangedFileEntry { path: path.clone(), old_path, status, added: self.added, removed: self.removed }
    }
}

/// The line with which the part of a file begins.
const PART: &str = "diff -";

/// The files of a unified diff.
fn files(diff: &[u8]) -> Vec<ChangedFile> {
    let mut files: Vec<PartOfDiff> = Vec::new();
    for line in diff.split_inclusive(|byte| *byte == b'\n') {
        let line = String::from_utf8_lossy(line);
        // Within a hunk, every line of a file has a sign before it.
        if line.starts_with(PART) {
            files.push(PartOfDiff::new(line.trim_end_matches('\n')));
        }
        if let Some(file) = files.last_mut() {
            file.add(&line);
        }
    }
    files.into_iter().map(PartOfDiff::file).collect()
}

/// The part of a diff that is about one file.
#[derive(Default)]
struct PartOfDiff {
    old_path: Option<String>,
    new_path: Option<String>,
    is_binary: bool,
    is_in_hunk: bool,
    added: u64,
    removed: u64,
    text: String,
}

impl PartOfDiff {
    fn new(first: &str) -> Self {
        // The first two words are the same in every part.
        let (old_path, new_path) = paths(first.splitn(3, ' ').nth(2).unwrap_or_default());
        Self { old_path, new_path, ..Self::default() }
    }

    fn add(&mut self, line: &str) {
        self.text.push_str(line);
        let line = line.trim_end_matches('\n');
        if line.starts_with("@@ ") {
            self.is_in_hunk = true;
            return;
        }
        if self.is_in_hunk {
            self.added += u64::from(line.starts_with('+'));
            self.removed += u64::from(line.starts_with('-'));
            return;
        }
        if line.starts_with("new file mode ") {
            self.old_path = None;
        }
        if line.starts_with("deleted file mode ") {
            self.new_path = None;
        }
        self.is_binary |= line.starts_with("Binary files ") || line.starts_with("GIT binary patch");
        if let Some(path) = line.strip_prefix("rename from ") {
            self.old_path = Some(unquoted(path));
        }
        if let Some(path) = line.strip_prefix("rename to ") {
            self.new_path = Some(unquoted(path));
        }
    }

    fn file(self) -> ChangedFile {
        let count = |lines| (!self.is_binary).then_some(lines);
        ChangedFile {
            added: count(self.added),
            removed: count(self.removed),
            old_path: self.old_path,
            new_path: self.new_path,
            text: self.text,
        }
    }
}

/// The two paths of the first line of a part. They are the same unless the file was renamed, and then later lines name
/// them.
fn paths(line: &str) -> (Option<String>, Option<String>) {
    let path = if line.starts_with('"') {
        // `"a/x" "b/x"`
        let end = line.find("\" \"").map(|end| end + 1);
        end.map(|end| unquoted(&line[..end]))
    } else {
        // `a/x b/x`: both have the same length.
        line.get(..line.len() / 2).map(str::to_owned)
    };
    let path = path.and_then(|path| path.strip_prefix("a/").map(str::to_owned));
    (path.clone(), path)
}

/// A path as git writes it: in quotes, with escapes, if it has unusual characters.
fn unquoted(text: &str) -> String {
    let Some(inner) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) else {
        return text.to_owned();
    };
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.bytes().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next() {
            Some(b'a') => bytes.push(7),
            Some(b'b') => bytes.push(8),
            Some(b't') => bytes.push(b'\t'),
            Some(b'n') => bytes.push(b'\n'),
            Some(b'v') => bytes.push(11),
            Some(b'f') => bytes.push(12),
            Some(b'r') => bytes.push(b'\r'),
            Some(first @ b'0'..=b'7') => {
                let mut value = u32::from(first - b'0');
                for _ in 0..2 {
                    if let Some(digit) = rest.next_if(|next| (b'0'..=b'7').contains(next)) {
                        value = value * 8 + u32::from(digit - b'0');
                    }
                }
                bytes.push(u8::try_from(value).unwrap_or(b'?'));
            }
            Some(other) => bytes.push(other),
            None => {}
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "\
diff --git a/a b.txt b/a b.txt
index 1..2 100644
--- a/a b.txt
+++ b/a b.txt
@@ -1,2 +1,3 @@
 one
--- two
++++ three
+four
diff --git a/new.txt b/new.txt
new file mode 100644
--- /dev/null
+++ b/new.txt
@@ -0,0 +1 @@
+new
diff --git a/gone.bin b/gone.bin
deleted file mode 100644
Binary files a/gone.bin and /dev/null differ
diff --git \"a/\\303\\274.txt\" \"b/\\303\\274.txt\"
old mode 100644
new mode 100755
diff --git a/from.txt b/into/to.txt
similarity index 100%
rename from from.txt
rename to into/to.txt
";

    #[test]
    fn every_file_of_a_diff_has_its_paths_and_its_lines() {
        let found = files(DIFF.as_bytes());
        let row =
            |file: &ChangedFile| (file.old_path.clone(), file.new_path.clone(), file.added.zip(file.removed));
        let path = |path: &str| Some(path.to_owned());
        let expected = [
            (path("a b.txt"), path("a b.txt"), Some((2, 1))),
            (None, path("new.txt"), Some((1, 0))),
            (path("gone.bin"), None, None),
            (path("ü.txt"), path("ü.txt"), Some((0, 0))),
            (path("from.txt"), path("into/to.txt"), Some((0, 0))),
        ];
        assert_eq!(found.iter().map(row).collect::<Vec<_>>(), expected);
        assert_eq!(found.iter().map(|file| file.text.as_str()).collect::<String>(), DIFF);
    }
}
