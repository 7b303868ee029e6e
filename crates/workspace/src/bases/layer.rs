//! Writes what a thin layer has beside files: directories, and whiteouts for deleted entries.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode as Permissions, mknodat};

use super::super::change::{Change, EntryType};
use super::super::object::Mode;
use super::super::objects::TreeFile;
use super::super::tree_table::{ItemKind, TreeTable};
use super::super::{RepositoryError, disk};

/// The new side of a change, if it is a file, a link or a submodule.
pub(super) fn new_file(change: &Change) -> Option<TreeFile> {
    let side = change.new?;
    let mode = match side.kind {
        EntryType::File => Mode::File,
        EntryType::Executable => Mode::Executable,
        EntryType::Link => Mode::Symlink,
        EntryType::Submodule => Mode::Gitlink,
        EntryType::Odd(_) => return None,
    };
    Some(TreeFile { path: change.path.clone(), mode, oid: side.oid })
}

/// A directory whose mode does not depend on the umask: programs see it.
pub(super) fn make_dir(dir: &Path) -> Result<(), RepositoryError> {
    fs::create_dir(dir).map_err(disk::failed("making", dir))?;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).map_err(disk::failed("making", dir))
}

/// Hides a deleted file, or the highest directory that was deleted with it.
pub(super) fn white_out(
    into: &Path,
    after: &TreeTable,
    before: &TreeTable,
    path: &[u8],
) -> Result<(), RepositoryError> {
    // A directory without a file is not in a tree, so it must not stay visible either.
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    let mut ends = ends.into_iter();
    let mut gone = ends.find(|end| !after.has_dir(&path[..=*end])).map_or(path, |end| &path[..end]);
    // A submodule is an empty directory, which would be merged with the one below.
    if after.get(gone).is_some_and(|item| item.kind == ItemKind::Entry(Mode::Gitlink)) && gone != path {
        gone = ends.next().map_or(path, |end| &path[..end]);
    }
    let is_replaced = after.get(gone).is_some() || after.has_dir(&[gone, b"/"].concat());
    if is_replaced || !(before.get(gone).is_some() || before.has_dir(&[gone, b"/"].concat())) {
        return Ok(());
    }
    let at = into.join(OsStr::from_bytes(gone));
    if let Some(parent) = at.parent() {
        make_parents(into, parent)?;
    }
    match mknodat(CWD, &at, FileType::CharacterDevice, Permissions::empty(), 0) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(errno) => Err(RepositoryError::io("making", &at, &errno.into())),
    }
}

fn make_parents(top: &Path, dir: &Path) -> Result<(), RepositoryError> {
    if dir == top || dir.is_dir() {
        return Ok(());
    }
    if let Some(parent) = dir.parent() {
        make_parents(top, parent)?;
    }
    make_dir(dir)
}
