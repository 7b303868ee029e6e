//! Records what a state has beside the files of its manifest: directories, whiteouts, and the `.git` of a new workspace.
//!
//! A file that is added to a directory or removed from it changes the times of the directory, and so does an attribute
//! that makes the kernel hide the layers below. One stat for each directory thus finds every entry that no manifest lists.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, statat};

use super::super::manifest::{PathStats, Stat};
use super::super::{RepositoryError, disk};
use super::{FILES, GIT, SHAPE};

/// Records the shape of a state that is complete but for its mark.
pub(super) fn save(state: &Path) -> Result<(), RepositoryError> {
    let mut shape = PathStats::default();
    for (top, with_files) in [(FILES, false), (GIT, true)] {
        add(&mut shape, state, top.as_bytes(), with_files)?;
    }
    shape.save(&state.join(SHAPE))
}

/// Adds a directory and what is beneath it, without the files if a manifest lists them.
fn add(shape: &mut PathStats, state: &Path, dir: &[u8], with_files: bool) -> Result<(), RepositoryError> {
    let at = state.join(std::ffi::OsStr::from_bytes(dir));
    for entry in fs::read_dir(&at).map_err(disk::failed("reading", &at))? {
        let entry = entry.map_err(disk::failed("reading", &at))?;
        let kind = entry.file_type().map_err(disk::failed("reading", &at))?;
        let path = [dir, b"/", entry.file_name().as_bytes()].concat();
        if kind.is_dir() {
            add(shape, state, &path, with_files)?;
        } else if with_files || kind.is_char_device() {
            shape.0.push((path, stat(&entry.path()).map_err(disk::failed("reading", &at))?));
        }
    }
    shape.0.push((dir.to_vec(), stat(&at).map_err(disk::failed("reading", &at))?));
    Ok(())
}

fn stat(path: &Path) -> std::io::Result<Stat> {
    Ok(comparable(&statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?))
}

/// The stat of an entry without what differs between two looks at a directory that is unchanged: some filesystems number
/// directories anew when they are read again.
pub(super) fn comparable(stat: &rustix::fs::Stat) -> Stat {
    let comparable = Stat::of(stat);
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Stat { ino: 0, dev: 0, ..comparable },
        _ => comparable,
    }
}
