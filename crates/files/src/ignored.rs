//! Applies the rules of `.gitignore` and `.ignore` for listings, walks and discovery.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::dir_handle::Links;
use super::glob::is_beyond_nesting;
use super::read::size;
use super::{DirHandle, FileError, RelPath};

/// Maximum size of an ignore file. Larger ones have no effect.
const IGNORE_FILE_MAX_BYTES: u64 = 256 * 1024;
/// Maximum number of rules per directory. Compiling more would take longer than the walk.
const IGNORE_MAX_RULES: usize = 2_000;

/// Ignore files of a directory. Later ones take precedence.
const IGNORE_FILES: [&str; 2] = [".gitignore", ".ignore"];
/// The ignore files that git knows. For callers that ask about git, no other file can lift their rules.
const GIT_IGNORE_FILES: [&str; 1] = [".gitignore"];
/// The repository's own list, at the top only.
const EXCLUDE_FILE: &str = ".git/info/exclude";

/// The rules of a directory and of those above it.
#[derive(Debug, Default)]
pub(super) struct IgnoreRules {
    /// One entry per directory from the top down. None where there are no rules.
    levels: Vec<Option<Gitignore>>,
}

impl IgnoreRules {
    /// The rules that apply in `dir`, without its own.
    pub(super) fn above(workspace: &DirHandle, dir: &RelPath) -> Self {
        let mut ignored = Self::default();
        let mut at = RelPath::root();
        for name in dir.names() {
            ignored.enter(workspace, &at);
            at = at.join(name);
        }
        ignored
    }

    /// Adds the rules of `dir`, the next directory down. An unreadable ignore file has no effect.
    pub(super) fn enter(&mut self, tree: &DirHandle, dir: &RelPath) {
        self.enter_by(&IGNORE_FILES, tree, dir);
    }

    fn enter_by(&mut self, files: &[&str], tree: &DirHandle, dir: &RelPath) {
        let mut builder = GitignoreBuilder::new(anchored(&tree.shown(dir)));
        let mut rules = 0;
        let exclude = self.levels.is_empty().then_some(EXCLUDE_FILE);
        for name in exclude.iter().chain(files) {
            let text = read_small(tree, &dir.join(OsStr::new(name))).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            for line in text.trim_start_matches('\u{feff}').lines().take(IGNORE_MAX_RULES - rules) {
                // Skips a line that is not a pattern, as git does, and one that would keep all others from compiling.
                if !is_beyond_nesting(line) && builder.add_line(None, line).is_ok() {
                    rules += 1;
                }
            }
        }
        self.levels.push(if rules == 0 { None } else { builder.build().ok() });
    }

    /// Removes the rules of the last directory.
    pub(super) fn leave_dir(&mut self) {
        self.levels.pop();
    }

    /// Whether the rules ignore `path`. The nearest directory with a matching rule decides.
    pub(super) fn leaves_out(&self, path: &RelPath, is_dir: bool) -> bool {
        if self.levels.iter().all(Option::is_none) {
            return false;
        }
        let path = anchored(path);
        for level in self.levels.iter().rev().flatten() {
            match level.matched(&path, is_dir) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }
}

impl DirHandle {
    /// Whether git ignores a path, by a rule for it or for a directory above it, or because it belongs to git itself.
    /// The path must be free of links.
    pub(crate) fn is_ignored(&self, path: &Path, is_dir: bool) -> bool {
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { return false };
        self.git_rules(dir).is_none_or(|rules| rules.ignores(name, is_dir))
    }

    /// Git's ignore rules in a directory. None if git ignores the directory itself. The path must be free of links.
    pub(crate) fn git_rules(&self, dir: &Path) -> Option<GitRules> {
        let mut rules = GitRules { ignored: IgnoreRules::default(), dir: RelPath::root() };
        rules.ignored.enter_by(&GIT_IGNORE_FILES, self, &rules.dir);
        for name in dir {
            if rules.ignores(name, true) {
                return None;
            }
            rules.dir = rules.dir.join(name);
            rules.ignored.enter_by(&GIT_IGNORE_FILES, self, &rules.dir);
        }
        Some(rules)
    }

    /// The real path in a project of a file that was opened beneath this directory, which is the project's directory
    /// `dir`.
    pub(super) fn path_in_project(
        &self,
        path: &RelPath,
        opened: &impl AsFd,
        dir: &Path,
        project: &Path,
    ) -> Result<PathBuf, FileError> {
        let outside = |_| FileError::Outside { path: self.shown(path) };
        let at = dir.strip_prefix(project).map_err(outside)?;
        Ok(at.join(self.real_path(path, opened)?.as_path()))
    }

    /// The error for an ignored file of a project.
    pub(super) fn git_ignored(&self, path: &RelPath) -> FileError {
        let reason = "git ignores it, so it is no part of the project".to_owned();
        FileError::Refused { path: self.shown(path), reason }
    }
}

/// Git's ignore rules in a directory.
#[derive(Debug)]
pub(crate) struct GitRules {
    ignored: IgnoreRules,
    dir: RelPath,
}

impl GitRules {
    /// Whether git ignores this name in the directory.
    pub(crate) fn ignores(&self, name: &OsStr, is_dir: bool) -> bool {
        is_hidden(name) || self.ignored.leaves_out(&self.dir.join(name), is_dir)
    }
}

/// Names that no listing shows: git's own, and unfinished files of a write.
pub(super) fn is_hidden(name: &OsStr) -> bool {
    name.as_bytes() == b".git" || super::write::is_temporary(name)
}

/// A path that begins with `/`, because the matcher strips the directory of its rules as a text prefix.
fn anchored(path: &RelPath) -> PathBuf {
    let top = Path::new("/");
    if path.is_root() { top.to_owned() } else { top.join(path.as_path()) }
}

fn read_small(tree: &DirHandle, path: &RelPath) -> Result<Vec<u8>, FileError> {
    let (file, stat) = tree.open_regular(path, Links::Refuse)?;
    tree.read_open(path, file, size(stat.st_size), IGNORE_FILE_MAX_BYTES)
}
