//! Records what a state has beside the files of its manifest: directories, whiteouts, and the `.git` of a new workspace.
//!
//! A file that is added to a directory or removed from it changes the times of the directory, and so does an attribute
//! that makes the kernel hide the layers below. One stat for each directory thus finds every entry that no manifest lists.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode as Permissions, OFlags, fstat, statat};
use rustix::io::Errno;

use super::super::content::open_beneath;
use super::super::manifest::{PathStats, Stat};
use super::super::{RepositoryError, notes, scan};
use super::{FILES, GIT, SHAPE};

/// Records the shape of a state that is complete but for its mark.
pub(super) fn save(state: &Path) -> Result<(), RepositoryError> {
    let mut shape = PathStats::default();
    for (top, with_files) in [(FILES, false), (GIT, true)] {
        let at = state.join(top);
        let root = scan::open_root(&at)?;
        let added = add(&mut shape, &root, top, b"", with_files);
        added.map_err(|errno| RepositoryError::io("reading", &at, &errno.into()))?;
    }
    shape.save(&state.join(SHAPE))
}

/// Adds a directory and what is beneath it, without the files if a manifest lists them. Each directory is opened beneath
/// the top, as it was made: the whole path may be longer than the kernel takes.
fn add(shape: &mut PathStats, root: &OwnedFd, top: &str, dir: &[u8], with_files: bool) -> Result<(), Errno> {
    let at = if dir.is_empty() { b"." } else { dir };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let opened = open_beneath(root, at, flags, Permissions::empty())?;
    let mut dirs = Vec::new();
    for entry in Dir::read_from(&opened)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let path = if dir.is_empty() { name.to_vec() } else { [dir, b"/", name].concat() };
        // Some filesystems list no types.
        let kind = match entry.file_type() {
            FileType::Unknown => {
                FileType::from_raw_mode(statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode)
            }
            kind => kind,
        };
        match kind {
            FileType::Directory => dirs.push(path),
            kind if with_files || kind == FileType::CharacterDevice => {
                let stat = comparable(&statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW)?);
                shape.0.push((recorded(top, &path), stat));
            }
            _ => {}
        }
    }
    shape.0.push((recorded(top, dir), comparable(&fstat(&opened)?)));
    // Closed first, because a tree may be deeper than the number of files that a process may open.
    drop(opened);
    dirs.iter().try_for_each(|dir| add(shape, root, top, dir, with_files))
}

/// The path of an entry in the record.
fn recorded(top: &str, path: &[u8]) -> Vec<u8> {
    [top.as_bytes(), b"/", path].concat()
}

/// The first entry that is not as it was recorded, as readable text.
pub(super) fn changed(state: &Path, shape: &PathStats) -> Option<String> {
    let unreadable = || Some("its directory cannot be opened".to_owned());
    for top in [FILES, GIT] {
        let Ok(root) = scan::open_root(&state.join(top)) else { return unreadable() };
        for (path, stat) in &shape.0 {
            let Some(path) = path.strip_prefix(top.as_bytes()).and_then(|path| path.strip_prefix(b"/"))
            else {
                continue;
            };
            let at = if path.is_empty() { b"." } else { path };
            let now = statat(&root, at, AtFlags::SYMLINK_NOFOLLOW);
            if now.map_or(true, |now| comparable(&now) != *stat) {
                return Some(match (top, path) {
                    (FILES, b"") => "its top directory".to_owned(),
                    (FILES, path) => notes::readable(path),
                    (top, path) => format!("{top}/{}", notes::readable(path)),
                });
            }
        }
    }
    None
}

/// The stat of an entry without what differs between two looks at a directory that is unchanged: some filesystems number
/// directories anew when they are read again.
fn comparable(stat: &rustix::fs::Stat) -> Stat {
    let comparable = Stat::of(stat);
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Stat { ino: 0, dev: 0, ..comparable },
        _ => comparable,
    }
}
