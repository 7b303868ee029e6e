//! Selects the ignored directories of a user's folder, such as `node_modules`, that a run's programs see as overlays
//! instead of copies.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::git_dir::read_at;
use super::ignored::{IgnorePatterns, MAX_PATTERNS_BYTES};
use super::overlay::{caches, lay_out};
use super::{RepositoryError, RunSpace};
use posse_sandbox::Cache;

impl RunSpace {
    /// The directories in the user's folder that have one of these names and that git ignores, relative to the folder.
    pub fn caches(&self, names: &[String]) -> Vec<PathBuf> {
        let top = IgnorePatterns::default().with(self.record.excludes.as_bytes(), 0);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        caches(self.folder(), &names, &|path| is_ignored(self.folder(), &top, path))
    }

    /// Overlays of these directories for an agent's programs. Their changes stay in layers that belong to the agent and
    /// live as long as its workspace.
    pub fn layers(
        &self,
        agent: &str,
        attempt: u32,
        caches: &[PathBuf],
    ) -> Result<Vec<Cache>, RepositoryError> {
        lay_out(self.folder(), caches, &self.attempt_dir(agent, attempt).join("layers"))
    }
}

/// Whether git ignores a directory of a folder or one of its parents.
fn is_ignored(folder: &Path, top: &IgnorePatterns, path: &Path) -> bool {
    let mut above = PathBuf::new();
    let mut patterns = top.clone();
    for part in path {
        let prefix = if above.as_os_str().is_empty() { 0 } else { above.as_os_str().len() + 1 };
        if let Some(text) = patterns_of(&folder.join(&above)) {
            patterns = patterns.with(&text, prefix);
        }
        above.push(part);
        if patterns.matches(above.as_os_str().as_bytes(), true) {
            return true;
        }
    }
    false
}

/// Only a plain file can have patterns.
fn patterns_of(dir: &Path) -> Option<Vec<u8>> {
    read_at(&dir.join(".gitignore"), MAX_PATTERNS_BYTES).ok()?
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_directory_is_ignored_by_its_own_name_or_one_above() {
        let top = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(top.path().join("web/node_modules")).expect("made");
        fs::write(top.path().join(".gitignore"), "target/\n").expect("written");
        fs::write(top.path().join("web/.gitignore"), "/node_modules\n").expect("written");
        let ignored = |path: &str| is_ignored(top.path(), &IgnorePatterns::default(), Path::new(path));
        for (path, expected) in [
            ("target", true),
            ("web/target", true),
            ("web/node_modules", true),
            ("node_modules", false),
            ("web", false),
        ] {
            assert_eq!(ignored(path), expected, "{path}");
        }
    }
}
