//! Looks at everything that git opens in a person's repository before git runs there: to deliver a branch is the one thing
//! that only git can do in all formats of a repository, and git follows links and waits for pipes.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::WorkspaceError;
use super::git_dir::{
    CONFIG_MAX_BYTES, GitDir, PACKED_REFS_MAX_BYTES, POINTER_MAX_BYTES, SHALLOW_MAX_BYTES, odd, read_named,
};
use super::person::{Person, included, parse_config};
use super::project::alternates;

/// Deepest nesting of refs and objects that is looked at.
const MAX_DEPTH: usize = 32;
/// Most files that settings include, one through another.
const MAX_INCLUDES: usize = 32;
/// Files that git reads whole, each with its largest size.
const FILES: &[(&str, u64)] = &[
    ("HEAD", POINTER_MAX_BYTES),
    ("config", CONFIG_MAX_BYTES),
    ("config.worktree", CONFIG_MAX_BYTES),
    ("packed-refs", PACKED_REFS_MAX_BYTES),
    ("shallow", SHALLOW_MAX_BYTES),
    ("info/grafts", CONFIG_MAX_BYTES),
    ("info/attributes", CONFIG_MAX_BYTES),
    ("objects/info/commit-graph", u64::MAX),
    ("objects/info/packs", CONFIG_MAX_BYTES),
];
/// Directories in which git opens whatever has the right name, or makes something.
const DIRS: &[&str] = &["refs", "objects", "reftable", "logs/refs/heads/posse"];

impl Person {
    /// Makes sure that git can run in the repository. `home` is what paths of its settings may begin with.
    pub(super) fn vet(&self, program: &Path, folder: &Path) -> Result<(), WorkspaceError> {
        for dir in [&self.git_dir, &self.common] {
            for (name, max_bytes) in FILES {
                plain(dir, name, *max_bytes)?;
            }
            for name in DIRS {
                if let Some(dir) = dir.dir(name)? {
                    whole(dir)?;
                }
            }
        }
        if let Some(objects) = self.common.dir("objects")? {
            for lender in alternates(objects, &self.user)?.into_iter().skip(1) {
                whole(lender)?;
            }
        }
        self.vet_includes(program, folder)
    }

    /// Git reads what settings include, and what that includes.
    fn vet_includes(&self, program: &Path, folder: &Path) -> Result<(), WorkspaceError> {
        let from = |dir: &Path, paths: &[String]| -> Vec<PathBuf> {
            // Git runs there without a home, so that `~` leads nowhere.
            let paths = paths.iter().filter(|path| !path.starts_with('~'));
            paths.map(|path| dir.join(path)).collect()
        };
        let mut next = from(self.common.path(), &self.includes);
        let mut seen = 0;
        while let Some(path) = next.pop() {
            seen += 1;
            if seen > MAX_INCLUDES {
                return Err(WorkspaceError::Unsupported(format!(
                    "the git settings of {} include more than {MAX_INCLUDES} files",
                    folder.display()
                )));
            }
            let Some(text) = read_named(&path, CONFIG_MAX_BYTES)? else { continue };
            let settings = parse_config(program, &text, folder)?;
            next.extend(from(path.parent().unwrap_or(&path), &included(&settings)));
        }
        Ok(())
    }
}

/// A file of a repository, if it is there.
fn plain(dir: &GitDir, name: &str, max_bytes: u64) -> Result<(), WorkspaceError> {
    let path = dir.path().join(name);
    let Some(stat) = dir.stat(name)? else { return Ok(()) };
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(odd(&path));
    }
    let length = std::fs::symlink_metadata(&path).map_or(0, |metadata| metadata.size());
    if length > max_bytes {
        return Err(WorkspaceError::Unsupported(format!(
            "{} has {length} bytes, more than the {max_bytes} that such a file may have",
            path.display()
        )));
    }
    Ok(())
}

/// All of a directory.
fn whole(dir: GitDir) -> Result<(), WorkspaceError> {
    let mut dirs = vec![(dir, 0)];
    while let Some((dir, depth)) = dirs.pop() {
        for (name, kind) in dir.entries()? {
            let path = dir.path().join(&name);
            match kind {
                FileType::RegularFile => {}
                FileType::Directory if depth < MAX_DEPTH => {
                    let name = name.to_str().ok_or_else(|| odd(&path))?;
                    dirs.extend(dir.dir(name)?.map(|dir| (dir, depth + 1)));
                }
                _ => return Err(odd(&path)),
            }
        }
    }
    Ok(())
}
