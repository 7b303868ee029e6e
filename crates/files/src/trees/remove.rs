//! Removing a directory with all it holds.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, RenameFlags, renameat_with, statat, unlinkat};
use rustix::io::Errno;

use super::{OPEN_MAX, enter, is_self_or_above, open_up, parts_of};

/// How often a directory is gone through in which names come to be meanwhile: a workspace may just have been synced.
const ROUNDS_MAX: usize = 8;
/// How deep it is gone where nothing can be brought up.
const DEPTH_MAX: usize = 256;

/// Longest path of a mount point that an error names; of a longer one it is the end.
const NAMED_MAX_CHARS: usize = 1_000;

/// Removes a file, or a directory with all it holds, whatever its permissions. All that can be removed is removed; the
/// first thing that cannot be is the error. What is mounted in it stays, and the error names the place. What is not there is
/// no error.
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
        // What stopped it says more than that something is left.
        Err(error) => Err(removal.problem.unwrap_or(error.into())),
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

struct Removal<'a> {
    path: &'a Path,
    /// The uppermost first.
    levels: Vec<Level>,
    /// How many directories were brought up: part of their names.
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

    /// Removes a directory in the last level if it is empty; otherwise goes down, or brings it up.
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

    /// Empties a directory of all but directories, which come next.
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
                // Not every filesystem says what an entry is.
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

    /// Leaves a directory, and removes it.
    fn go_up(&mut self) {
        let Some(Level { name, .. }) = self.levels.pop() else { return };
        let Some(above) = self.levels.last() else { return };
        match unlinkat(&above.dir, &name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => self.note(error, &name),
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

    /// Notes what went wrong with an entry of the last level, unless something did before.
    fn note(&mut self, error: Errno, name: &CStr) {
        if self.problem.is_none() {
            self.problem = Some(self.problem_at(error, Some(name)));
        }
    }

    fn problem_at(&self, error: Errno, name: Option<&CStr>) -> io::Error {
        // Something is mounted on a directory that was to be entered, or on a file that was to be removed.
        if !matches!(error, Errno::XDEV | Errno::BUSY) {
            return error.into();
        }
        let mut path = self.path.to_owned();
        let above = self.levels.iter().skip(1).map(|level| level.name.as_c_str());
        path.extend(above.chain(name).map(|name| OsStr::from_bytes(name.to_bytes())));
        // The names are of programs that ran there.
        let shown = path.to_string_lossy().escape_debug().to_string();
        let skipped = shown.chars().count().saturating_sub(NAMED_MAX_CHARS);
        let shown: String = shown.chars().skip(skipped).collect();
        let text = format!("{shown} is a mount point, and what is mounted there is not removed");
        io::Error::new(io::ErrorKind::ResourceBusy, text)
    }
}
