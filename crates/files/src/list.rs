//! Lists one directory.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, OFlags, statat};

use super::dir_handle::Links;
use super::ignored::{IgnoreRules, is_hidden};
use super::read::size;
use super::walk::{Entry, entries};
use super::{DirHandle, FileError, FileKind, RelPath};

/// Maximum number of entries in a listing.
pub const LIST_MAX_ENTRIES: usize = 1_000;

/// One entry of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// The entry's path in the workspace.
    pub path: RelPath,
    /// The kind of the entry. A link is not followed.
    pub kind: FileKind,
    /// The size of a regular file.
    pub bytes: Option<u64>,
}

/// The entries of a directory, sorted by name, without ignored ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The entries, at most [`LIST_MAX_ENTRIES`].
    pub entries: Vec<DirEntry>,
    /// How many more entries were seen. A directory beyond the limit of a walk can have others.
    pub more: usize,
    /// How many entries were omitted because an ignore file excludes them.
    pub ignored: usize,
}

impl DirHandle {
    /// Lists a directory. Ignore rules do not apply to the directory itself, because the caller named it.
    pub fn list(&self, path: &RelPath) -> Result<Listing, FileError> {
        self.list_open(path, &self.descend(path)?)
    }

    /// Like [`list`](Self::list), where this is the directory `dir` of a project: entries that git ignores there are
    /// omitted, and an ignored directory is not listed, even if a link leads to it.
    pub fn list_of_project(&self, path: &RelPath, dir: &Path, project: &Path) -> Result<Listing, FileError> {
        let tree = self.descend(path)?;
        let real = self.path_in_project(path, tree.directory(), dir, project)?;
        let Some(rules) = DirHandle::open(project)?.git_rules(&real) else {
            return Err(self.git_ignored(path));
        };
        let mut listing = self.list_open(path, &tree)?;
        let before = listing.entries.len();
        let ignores = |entry: &DirEntry| {
            let name = entry.path.as_path().file_name();
            name.is_none_or(|name| rules.ignores(name, entry.kind == FileKind::Directory))
        };
        listing.entries.retain(|entry| !ignores(entry));
        listing.ignored += before - listing.entries.len();
        Ok(listing)
    }

    fn list_open(&self, path: &RelPath, tree: &DirHandle) -> Result<Listing, FileError> {
        let here = RelPath::root();
        let dir = tree.open_at(&here, OFlags::RDONLY | OFlags::DIRECTORY, Links::Refuse)?;
        let mut rules = IgnoreRules::above(self, path);
        rules.enter(tree, &here);
        let mut listing = Listing { entries: Vec::new(), more: 0, ignored: 0 };
        let found = entries(tree, &here, &dir)?.entries;
        for entry in found.into_iter().filter(|entry| !is_hidden(&entry.name)) {
            let at = path.join(&entry.name);
            if rules.leaves_out(&at, entry.kind == FileKind::Directory) {
                listing.ignored += 1;
            } else if listing.entries.len() == LIST_MAX_ENTRIES {
                listing.more += 1;
            } else {
                listing.entries.push(DirEntry { bytes: bytes_of(&dir, &entry), path: at, kind: entry.kind });
            }
        }
        Ok(listing)
    }
}

fn bytes_of(dir: &OwnedFd, entry: &Entry) -> Option<u64> {
    if entry.kind != FileKind::Regular {
        return None;
    }
    let stat = statat(dir, &*entry.name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(size(stat.st_size))
}
