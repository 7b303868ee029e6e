//! Removes a directory with all its content.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, RenameFlags, renameat_with, statat, unlinkat};
use rustix::io::Errno;

use super::{OPEN_MAX, enter, is_self_or_above, open_up, parts_of};

/// How often a directory is emptied again when names appear meanwhile: a workspace may just have been synced.
const ROUNDS_MAX: usize = 8;
/// Maximum depth if directories cannot be moved up.
const DEPTH_MAX: usize = 256;

/// Maximum length of a mount point's path in an error. A longer path loses its beginning.
const NAMED_MAX_CHARS: usize = 1_000;

/// Removes a file, or a directory with all its content, whatever its permissions. It removes as much as it can, and
/// returns the first error. Mounted filesystems stay, and the error names the mount point. A path that does not exist
/// is not an error.
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
    let (above, name) = parts_of(path)?;
    let mut removal = Removal { path, levels: Vec::new(), brought_up: 0, problem: None };
    match enter(&above, &name) {
        Ok(dir) => removal.go_down(dir, name),
        Err(error) => return Err(removal.problem_at(error, None)),
    }
    removal.run();
    match unlinkat(CWD, path, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        // The first problem explains more than the error that the directory is not empty.
        Err(error) => Err(removal.problem.unwrap_or(error.into())),
    }
}

/// A directory that is being emptied.
struct Level {
    dir: OwnedFd,
    /// The name in its parent.
    name: CString,
    /// Directories in it that are still to be removed.
    left: Vec<CString>,
}

struct Removal<'a> {
    path: &'a Path,
    /// The uppermost first.
    levels: Vec<Level>,
    /// How many directories were moved up. Part of their new names.
    brought_up: u64,
    problem: Option<io::Error>,
}

impl Removal<'_> {
    fn run(&mut self) {
        while let Some(level) = self.levels.last_mut() {
            match level.left.pop() {
                Some(name) => self.remove_dir(&name),
                None if self.levels.len() == 1 => return,
                None => self.go_up(),
            }
        }
    }

    /// Removes a directory in the last level if it is empty. Otherwise descends into it, or moves it up.
    fn remove_dir(&mut self, name: &CStr) {
        let depth = self.levels.len();
        let is_gone = |level: &Level| unlinkat(&level.dir, name, AtFlags::REMOVEDIR).is_ok();
        if self.levels.last().is_none_or(is_gone) || depth >= OPEN_MAX && self.bring_up(name) {
            return;
        }
        let Some(level) = self.levels.last() else { return };
        if depth >= DEPTH_MAX {
            return self.note(Errno::NAMETOOLONG, name);
        }
        match enter(&level.dir, name) {
            Ok(dir) => self.go_down(dir, name.to_owned()),
            Err(Errno::NOENT) => {}
            Err(error) => self.note(error, name),
        }
    }

    /// Removes all entries of a directory except directories, which come next.
    fn go_down(&mut self, dir: OwnedFd, name: CString) {
        let mut left = Vec::new();
        let mut stayed = Vec::new();
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
                // Not every filesystem reports the kind of an entry.
                Err(Errno::ISDIR) => left.push(name.to_owned()),
                Err(error) => stayed.push((error, name.to_owned())),
            }
        }
        if !left.is_empty() && !is_open {
            open_up(&dir);
        }
        self.levels.push(Level { dir, name, left });
        if let Some((error, name)) = stayed.into_iter().next() {
            self.note(error, &name);
        }
    }

    /// Leaves a directory and removes it.
    fn go_up(&mut self) {
        let Some(Level { name, .. }) = self.levels.pop() else { return };
        let Some(above) = self.levels.last() else { return };
        match unlinkat(&above.dir, &name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => self.note(error, &name),
        }
    }

    /// Moves a directory of the last level into the uppermost one, to be removed from there, which bounds the depth.
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

    /// Records the error of an entry in the last level, unless there is an earlier one.
    fn note(&mut self, error: Errno, name: &CStr) {
        if self.problem.is_none() {
            self.problem = Some(self.problem_at(error, Some(name)));
        }
    }

    fn problem_at(&self, error: Errno, name: Option<&CStr>) -> io::Error {
        // Something is mounted on the directory to enter, or on the file to remove.
        if !matches!(error, Errno::XDEV | Errno::BUSY) {
            return error.into();
        }
        let mut path = self.path.to_owned();
        let above = self.levels.iter().skip(1).map(|level| level.name.as_c_str());
        path.extend(above.chain(name).map(|name| OsStr::from_bytes(name.to_bytes())));
        // Programs that ran there chose the names.
        let shown = path.to_string_lossy().escape_debug().to_string();
        let skipped = shown.chars().count().saturating_sub(NAMED_MAX_CHARS);
        let shown: String = shown.chars().skip(skipped).collect();
        let text = format!("{shown} is a mount point, and what is mounted there is not removed");
        io::Error::new(io::ErrorKind::ResourceBusy, text)
    }
}
