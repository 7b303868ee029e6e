//! Walks over a directory tree, for searches.
//!
//! Every directory is opened from the start of the walk, by its whole path and without following a link, read to the
//! end and closed. So a walk holds one descriptor however deep it is, and a directory that becomes a link meanwhile is
//! simply not entered.

use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, OFlags, RawDir, statat};

use super::dir_handle::Links;
use super::ignored::{IgnoreRules, is_hidden};
use super::{DirHandle, FileError, FileKind, RelPath, Stop};

/// Maximum number of entries of one directory that are read.
pub const DIR_MAX_ENTRIES: usize = 50_000;
/// Maximum number of files of a walk.
pub const WALK_MAX_FILES: usize = 200_000;
/// Maximum depth of a walk.
pub const WALK_MAX_DEPTH: usize = 128;

/// Buffer size for directory entries from the kernel.
const DIR_BUFFER_BYTES: usize = 16 * 1024;

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: OsString,
    pub(super) kind: FileKind,
}

/// The entries of a directory, sorted by name.
#[derive(Debug)]
pub(super) struct Entries {
    pub(super) entries: Vec<Entry>,
    /// Whether there were more than [`DIR_MAX_ENTRIES`].
    pub(super) cut: bool,
}

/// How a walk ended.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct WalkEnd {
    /// Whether a limit was reached, so that something was not visited.
    pub(super) cut: bool,
}

struct Level {
    path: RelPath,
    entries: std::vec::IntoIter<Entry>,
}

/// Calls `visit` with every regular file of `tree` that is not ignored, ordered by path. Paths are relative to `tree`.
pub(super) fn walk(
    tree: &DirHandle,
    mut ignored: IgnoreRules,
    stop: &Stop,
    mut visit: impl FnMut(RelPath) -> ControlFlow<()>,
) -> Result<WalkEnd, FileError> {
    let mut walked = WalkEnd::default();
    let mut files = 0;
    let mut levels = vec![Level::enter(tree, RelPath::root(), &mut ignored, &mut walked)?];
    while let Some(level) = levels.last_mut() {
        stop.check()?;
        let Some(entry) = level.entries.next() else {
            levels.pop();
            ignored.leave_dir();
            continue;
        };
        let path = level.path.join(&entry.name);
        if is_hidden(&entry.name) || ignored.leaves_out(&tree.shown(&path), entry.kind == FileKind::Directory)
        {
            continue;
        }
        match entry.kind {
            FileKind::Directory if levels.len() >= WALK_MAX_DEPTH => walked.cut = true,
            FileKind::Directory => match Level::enter(tree, path, &mut ignored, &mut walked) {
                Ok(level) => levels.push(level),
                Err(error) if error.is_absence() => {}
                Err(error) => return Err(error),
            },
            FileKind::Regular => {
                files += 1;
                if files > WALK_MAX_FILES {
                    walked.cut = true;
                    break;
                }
                if visit(path).is_break() {
                    break;
                }
            }
            FileKind::Link | FileKind::Pipe | FileKind::Socket | FileKind::Device => {}
        }
    }
    Ok(walked)
}

impl Level {
    fn enter(
        tree: &DirHandle,
        path: RelPath,
        ignored: &mut IgnoreRules,
        walked: &mut WalkEnd,
    ) -> Result<Self, FileError> {
        let dir = tree.open_at(&path, OFlags::RDONLY | OFlags::DIRECTORY, Links::Refuse)?;
        let found = entries(tree, &path, &dir)?;
        walked.cut |= found.cut;
        ignored.enter(tree, &path);
        Ok(Self { path, entries: found.entries.into_iter() })
    }
}

/// Reads an open directory.
pub(super) fn entries(tree: &DirHandle, path: &RelPath, dir: &OwnedFd) -> Result<Entries, FileError> {
    let mut buffer = [MaybeUninit::uninit(); DIR_BUFFER_BYTES];
    let mut raw = RawDir::new(dir, &mut buffer);
    let mut found = Entries { entries: Vec::new(), cut: false };
    while let Some(entry) = raw.next() {
        let entry = entry.map_err(|errno| tree.error(path, errno, Links::Refuse))?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        if found.entries.len() == DIR_MAX_ENTRIES {
            found.cut = true;
            break;
        }
        // Skips an entry that has vanished.
        if let Some(kind) = FileKind::of_type(entry.file_type()).or_else(|| lookup(dir, name)) {
            found.entries.push(Entry { name: name.to_owned(), kind });
        }
    }
    found.entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn lookup(dir: &OwnedFd, name: &OsStr) -> Option<FileKind> {
    let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(FileKind::of_mode(stat.st_mode))
}
