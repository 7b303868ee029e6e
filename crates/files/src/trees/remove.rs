//! Removing a directory with all it holds.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, RenameFlags, renameat_with, statat, unlinkat};
use rustix::io::Errno;

use super::{OPEN_MAX, enter, is_self_or_above, open_up};

/// How often a directory is gone through in which names come to be meanwhile: a workspace may just have been synced.
const ROUNDS_MAX: usize = 8;
/// How deep it is gone where nothing can be brought up.
const DEPTH_MAX: usize = 256;

/// Removes a file, or a directory with all it holds, whatever its permissions. All that can be removed is removed; the
/// first thing that cannot be is the error. What is not there is no error.
pub fn remove(path: &Path) -> io::Result<()> {
    let mut removed = remove_once(path);
    for _ in 1..ROUNDS_MAX {
        match &removed {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => removed = remove_once(path),
            _ => break,
        }
    }
    removed
}

fn remove_once(path: &Path) -> io::Result<()> {
    let kind = match statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => FileType::from_raw_mode(stat.st_mode),
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if kind != FileType::Directory {
        return Ok(unlinkat(CWD, path, AtFlags::empty())?);
    }
    let name = CString::new(path.as_os_str().as_encoded_bytes())?;
    let mut removal = Removal { levels: Vec::new(), brought_up: 0, problem: None };
    removal.go_down(enter(CWD, &name)?, name.clone());
    removal.run();
    match unlinkat(CWD, path, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        // What stopped it says more than that something is left.
        Err(error) => Err(removal.problem.unwrap_or(error).into()),
    }
}

/// A directory that is being emptied.
struct Level {
    dir: OwnedFd,
    /// Its name in the one above.
    name: CString,
    /// Directories in it that are still to be removed.
    left: Vec<CString>,
}

struct Removal {
    /// The uppermost first.
    levels: Vec<Level>,
    /// How many directories were brought up: part of their names.
    brought_up: u64,
    problem: Option<Errno>,
}

impl Removal {
    fn run(&mut self) {
        while let Some(level) = self.levels.last_mut() {
            match level.left.pop() {
                Some(name) => self.remove_dir(&name),
                None if self.levels.len() == 1 => return,
                None => self.go_up(),
            }
        }
    }

    /// Removes a directory in the last level if it is empty; otherwise goes down, or brings it up.
    fn remove_dir(&mut self, name: &CStr) {
        let depth = self.levels.len();
        let is_gone = |level: &Level| unlinkat(&level.dir, name, AtFlags::REMOVEDIR).is_ok();
        if self.levels.last().is_none_or(is_gone) || depth >= OPEN_MAX && self.bring_up(name) {
            return;
        }
        let Some(level) = self.levels.last() else { return };
        if depth >= DEPTH_MAX {
            return self.note(Errno::NAMETOOLONG);
        }
        match enter(&level.dir, name) {
            Ok(dir) => self.go_down(dir, name.to_owned()),
            Err(Errno::NOENT) => {}
            Err(error) => self.note(error),
        }
    }

    /// Empties a directory of all but directories, which come next.
    fn go_down(&mut self, dir: OwnedFd, name: CString) {
        let mut left = Vec::new();
        let mut is_open = false;
        let listed = Dir::read_from(&dir);
        for entry in listed.into_iter().flatten() {
            let Ok(entry) = entry else { continue };
            let name = entry.file_name();
            if is_self_or_above(name) {
                continue;
            }
            if entry.file_type() == FileType::Directory {
                left.push(name.to_owned());
                continue;
            }
            let mut unlinked = unlinkat(&dir, name, AtFlags::empty());
            if unlinked == Err(Errno::ACCESS) && !std::mem::replace(&mut is_open, true) {
                open_up(&dir);
                unlinked = unlinkat(&dir, name, AtFlags::empty());
            }
            match unlinked {
                Ok(()) | Err(Errno::NOENT) => {}
                // Not every filesystem says what an entry is.
                Err(Errno::ISDIR) => left.push(name.to_owned()),
                Err(error) => self.note(error),
            }
        }
        if !left.is_empty() && !is_open {
            open_up(&dir);
        }
        self.levels.push(Level { dir, name, left });
    }

    /// Leaves a directory, and removes it.
    fn go_up(&mut self) {
        let Some(Level { name, .. }) = self.levels.pop() else { return };
        let Some(above) = self.levels.last() else { return };
        match unlinkat(&above.dir, &name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => self.note(error),
        }
    }

    /// Renames a directory of the last level into the uppermost one, to be removed from there: so nothing is ever deep.
    fn bring_up(&mut self, name: &CStr) -> bool {
        let [top, .., level] = self.levels.as_mut_slice() else { return false };
        self.brought_up += 1;
        let Ok(new) = CString::new(format!(".posse-removed-{}-{}", std::process::id(), self.brought_up))
        else {
            return false;
        };
        let is_up = renameat_with(&level.dir, name, &top.dir, &new, RenameFlags::NOREPLACE).is_ok();
        top.left.extend(Some(new).filter(|_| is_up));
        is_up
    }

    fn note(&mut self, error: Errno) {
        self.problem.get_or_insert(error);
    }
}
