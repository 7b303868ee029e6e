//! Updates the files of a directory from one tree to another, path by path, for merges and apply.
//!
//! Everything is reached from the open directory without following a link, so nothing planted in it can redirect a
//! write. New content is staged in a separate directory on the same filesystem, synced, and renamed into place: at
//! every moment each path has its complete old content or its complete new one.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode as Bits, OFlags, ResolveFlags, Stat, fchmod, fsync, mkdirat, openat,
    openat2, readlinkat, renameat, statat, symlinkat, syncfs, unlinkat,
};
use rustix::io::Errno;

use super::change::{EntryType, Side};
use super::forbidden::hostile;
use super::object::{self, name_of_reader};
use super::{ObjectId, RepositoryError, closed, disk, manifest};

/// How often a path is resolved again after directories moved.
const OPEN_TRIES: usize = 64;
/// Above this number of files, one sync of the filesystem is cheaper than one per file.
const SYNC_EACH_MAX: usize = 8;
/// Limit of inspected entries of a directory that is in the way of a file.
pub(super) const IN_THE_WAY_MAX: usize = 10_000;

/// Which permissions files get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Permissions {
    /// 644 or 755, independent of the umask.
    Fixed,
    /// Those of the replaced file, or the process's default for a new one.
    AsBefore,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PathState {
    /// Also for a path beneath a file or a link.
    Absent,
    Directory,
    /// A file, an executable file or a link, with the object id of its content.
    Thing(Side),
    /// A socket, a device, or something unreadable.
    Other,
}

impl PathState {
    /// Whether it matches the entry of a tree.
    pub(super) fn is(&self, side: Option<&Side>) -> bool {
        match (self, side) {
            (Self::Absent, None) => true,
            (Self::Thing(found), Some(side)) => found == side,
            _ => false,
        }
    }
}

/// A directory whose files are updated from one tree to another.
#[derive(Debug)]
pub(super) struct TreeSwitch {
    dir: PathBuf,
    root: OwnedFd,
    staging_path: PathBuf,
    /// Created when the first content is staged.
    staging: Option<OwnedFd>,
    permissions: Permissions,
    /// The directories in which a name changed.
    touched: BTreeSet<PathBuf>,
    staged: usize,
}

impl TreeSwitch {
    /// Opens `dir`. `staging`, on the same filesystem, gets new content. Leftovers of an interrupted call there are
    /// removed.
    pub(super) fn open(
        dir: &Path,
        staging: &Path,
        permissions: Permissions,
    ) -> Result<Self, RepositoryError> {
        let root = open_dir(dir).map_err(|errno| failed("opening", dir, errno))?;
        disk::remove_tree(staging)?;
        let (dir, staging_path) = (dir.to_owned(), staging.to_owned());
        Ok(Self { dir, root, staging_path, staging: None, permissions, touched: BTreeSet::new(), staged: 0 })
    }

    fn make_staging(&mut self) -> Result<(), RepositoryError> {
        if self.staging.is_none() {
            let path = &self.staging_path;
            let made = fs::create_dir(path).or_else(|error| {
                // In a workspace, restores access that an agent removed.
                let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
                if is_denied && self.permissions == Permissions::Fixed && closed::open_up(&self.root, b".")? {
                    return fs::create_dir(path);
                }
                Err(error)
            });
            made.map_err(disk::failed("making", path))?;
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let opened = openat(CWD, path, flags, Bits::empty());
            self.staging = Some(opened.map_err(|errno| failed("opening", path, errno))?);
        }
        Ok(())
    }

    fn staging(&self) -> Result<&OwnedFd, Errno> {
        self.staging.as_ref().ok_or(Errno::NOENT)
    }

    pub(super) fn inspect(&self, path: &[u8]) -> Result<PathState, RepositoryError> {
        self.inspect_once(path).map_err(|errno| self.failed("looking at", path, errno))
    }

    /// The stat of the entry at a path; `None` if there is none.
    pub(super) fn stat(&self, path: &[u8]) -> Result<Option<manifest::Stat>, RepositoryError> {
        let stat = split(path).and_then(|(parent, name)| {
            let dir = self.open_at(parent, OFlags::PATH | OFlags::DIRECTORY)?;
            statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)
        });
        match stat {
            Ok(stat) => Ok(Some(manifest::Stat::of(&stat))),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(errno) => Err(self.failed("looking at", path, errno)),
        }
    }

    fn inspect_once(&self, path: &[u8]) -> Result<PathState, Errno> {
        let (parent, name) = split(path)?;
        let dir = match self.open_at(parent, OFlags::PATH | OFlags::DIRECTORY) {
            Ok(dir) => dir,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(PathState::Absent),
            Err(errno) => return Err(errno),
        };
        let stat = match statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(PathState::Absent),
            Err(errno) => return Err(errno),
        };
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => PathState::Directory,
            FileType::Symlink => {
                let target = readlinkat(&dir, name, Vec::new())?;
                PathState::Thing(Side {
                    kind: EntryType::Link,
                    oid: object::name(object::ObjectType::Blob, target.as_bytes()),
                })
            }
            FileType::RegularFile => match hashed(&dir, name) {
                Ok(oid) => PathState::Thing(Side { kind: type_of(&stat), oid }),
                // Changed while it was read, or unreadable: neither the old nor the new content.
                Err(_) => PathState::Other,
            },
            _ => PathState::Other,
        })
    }

    /// The content of the file at `path`, if it is a file and not longer than `limit`.
    pub(super) fn read(&self, path: &[u8], limit: u64) -> Result<Option<Vec<u8>>, RepositoryError> {
        let read = || -> io::Result<Option<Vec<u8>>> {
            let (parent, name) = split(path)?;
            let dir = self.open_at(parent, OFlags::PATH | OFlags::DIRECTORY)?;
            let (file, stat) = open_file(&dir, name)?;
            if u64::try_from(stat.st_size).unwrap_or(u64::MAX) > limit {
                return Ok(None);
            }
            let mut content = Vec::new();
            io::Read::read_to_end(&mut io::Read::take(file, limit), &mut content)?;
            Ok(Some(content))
        };
        read().map_err(|error| RepositoryError::io("reading", &self.shown(path), &error))
    }

    /// The permissions of the regular file at `path`.
    pub(super) fn bits(&self, path: &[u8]) -> Result<Option<u32>, RepositoryError> {
        let read = || -> Result<Option<u32>, Errno> {
            let (parent, name) = split(path)?;
            let dir = self.open_at(parent, OFlags::PATH | OFlags::DIRECTORY)?;
            let stat = statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
            let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
            Ok(is_file.then_some(stat.st_mode & 0o777))
        };
        read().map_err(|errno| self.failed("looking at", path, errno))
    }

    /// Gives a staged file these permissions.
    pub(super) fn permit_staged(&self, number: usize, bits: u32) -> Result<(), RepositoryError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let permit = || {
            let file = openat(self.staging()?, number.to_string(), flags, Bits::empty())?;
            fchmod(&file, Bits::from_raw_mode(bits & 0o777))
        };
        permit().map_err(|errno| failed("writing", &self.staging_path, errno))
    }

    /// Stages content for a path and returns the number for [`Self::put`].
    pub(super) fn stage(&mut self, kind: EntryType, content: &[u8]) -> Result<usize, RepositoryError> {
        self.make_staging()?;
        let number = self.staged;
        let name = number.to_string();
        let path = self.staging_path.join(&name);
        let staging = self.staging().map_err(|errno| failed("opening", &path, errno))?;
        if kind == EntryType::Link {
            symlinkat(OsStr::from_bytes(content), staging, &name)
                .map_err(|errno| failed("making", &path, errno))?;
        } else {
            let bits = Bits::from_raw_mode(if kind == EntryType::Executable { 0o777 } else { 0o666 });
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let fd = openat(staging, &name, flags, bits).map_err(|errno| failed("making", &path, errno))?;
            let mut file = File::from(fd);
            file.write_all(content).map_err(disk::failed("writing", &path))?;
            if self.permissions == Permissions::Fixed {
                let bits = if kind == EntryType::Executable { 0o755 } else { 0o644 };
                fchmod(&file, Bits::from_raw_mode(bits)).map_err(|errno| failed("writing", &path, errno))?;
            }
        }
        self.staged += 1;
        Ok(number)
    }

    /// Makes the staged content durable.
    pub(super) fn sync_staged(&self) -> Result<(), RepositoryError> {
        let failed = |errno| failed("syncing", &self.staging_path, errno);
        if self.staged > SYNC_EACH_MAX {
            return self.sync_all();
        }
        for number in 0..self.staged {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match self.staging().and_then(|staging| openat(staging, number.to_string(), flags, Bits::empty()))
            {
                Ok(file) => fsync(&file).map_err(failed)?,
                // A link has no content. Its name is synced with its directory.
                Err(Errno::LOOP) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
        Ok(())
    }

    /// Moves staged content to its path, over a file or a link but never over a non-empty directory. Returns `false` if
    /// something is in the way.
    pub(super) fn put(
        &mut self,
        number: usize,
        path: &[u8],
        kind: EntryType,
    ) -> Result<bool, RepositoryError> {
        match self.permitted(path, |onto| onto.put_once(number, path, kind)) {
            Ok(()) => Ok(true),
            Err(Errno::NOTDIR | Errno::LOOP | Errno::ISDIR | Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
            Err(errno) => Err(self.failed("writing", path, errno)),
        }
    }

    /// Calls a function that changes the directory of `path`. In a workspace, restores access that an agent removed.
    fn permitted(&mut self, path: &[u8], act: impl Fn(&mut Self) -> Result<(), Errno>) -> Result<(), Errno> {
        let done = act(self);
        if done != Err(Errno::ACCESS) || self.permissions != Permissions::Fixed {
            return done;
        }
        let (parent, _) = split(path)?;
        let parent = if parent.is_empty() { b"." } else { parent };
        if closed::open_up(&self.root, parent)? { act(self) } else { done }
    }

    fn put_once(&mut self, number: usize, path: &[u8], kind: EntryType) -> Result<(), Errno> {
        let (parent, name) = split(path)?;
        let dir = self.make_dirs(parent)?;
        let staged = number.to_string();
        if let Ok(stat) = statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            match FileType::from_raw_mode(stat.st_mode) {
                // Git does not track empty directories.
                FileType::Directory => unlinkat(&dir, name, AtFlags::REMOVEDIR)?,
                FileType::RegularFile if self.permissions == Permissions::AsBefore => {
                    self.permit_as(&staged, &stat, kind)?;
                }
                _ => {}
            }
        }
        renameat(self.staging()?, &staged, &dir, name)?;
        self.touched.insert(OsStr::from_bytes(parent).into());
        Ok(())
    }

    /// Gives a staged file the permissions of the file it replaces, with the executable bit of `kind`.
    fn permit_as(&self, staged: &str, old: &Stat, kind: EntryType) -> Result<(), Errno> {
        if kind == EntryType::Link {
            return Ok(());
        }
        let readers = old.st_mode & 0o444;
        let bits = match (kind, old.st_mode & 0o111) {
            (EntryType::Executable, 0) => (old.st_mode & 0o777) | readers >> 2,
            (EntryType::Executable, _) => old.st_mode & 0o777,
            _ => old.st_mode & 0o666,
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(self.staging()?, staged, flags, Bits::empty())?;
        fchmod(&file, Bits::from_raw_mode(bits))
    }

    /// Removes a file or a link, and the directories that become empty.
    pub(super) fn remove(&mut self, path: &[u8]) -> Result<(), RepositoryError> {
        self.permitted(path, |onto| onto.remove_once(path))
            .map_err(|errno| self.failed("removing", path, errno))
    }

    fn remove_once(&mut self, path: &[u8]) -> Result<(), Errno> {
        let (parent, name) = split(path)?;
        let dir = self.open_at(parent, OFlags::PATH | OFlags::DIRECTORY)?;
        unlinkat(&dir, name, AtFlags::empty())?;
        self.touched.insert(OsStr::from_bytes(parent).into());
        self.prune(parent);
        Ok(())
    }

    /// Removes a directory and its parents as far as they are empty.
    pub(super) fn prune(&mut self, dir: &[u8]) {
        let mut at = dir;
        while !at.is_empty() {
            let Ok((parent, name)) = split(at) else { return };
            let removed = self
                .open_at(parent, OFlags::PATH | OFlags::DIRECTORY)
                .and_then(|above| unlinkat(&above, name, AtFlags::REMOVEDIR));
            if removed.is_err() {
                return;
            }
            self.touched.remove(Path::new(OsStr::from_bytes(at)));
            self.touched.insert(OsStr::from_bytes(parent).into());
            at = parent;
        }
    }

    /// The files and links beneath a directory that is in the way; `None` if there are too many.
    pub(super) fn beneath(&self, path: &[u8]) -> Result<Option<Vec<Vec<u8>>>, RepositoryError> {
        let mut found = Vec::new();
        let mut waiting = vec![path.to_vec()];
        while let Some(at) = waiting.pop() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let dir = self.open_at(&at, flags).map_err(|errno| self.failed("listing", &at, errno))?;
            let entries = rustix::fs::Dir::new(dir).map_err(|errno| self.failed("listing", &at, errno))?;
            for entry in entries {
                let entry = entry.map_err(|errno| self.failed("listing", &at, errno))?;
                let name = entry.file_name().to_bytes();
                if name == b"." || name == b".." {
                    continue;
                }
                let inner = [&at[..], b"/", name].concat();
                match entry.file_type() {
                    FileType::Directory => waiting.push(inner),
                    _ => found.push(inner),
                }
                if found.len() + waiting.len() > IN_THE_WAY_MAX {
                    return Ok(None);
                }
            }
        }
        Ok(Some(found))
    }

    /// Makes every changed name durable.
    pub(super) fn finish(self) -> Result<(), RepositoryError> {
        if self.touched.len() > SYNC_EACH_MAX {
            self.sync_all()?;
        } else {
            for dir in &self.touched {
                let path = dir.as_os_str().as_bytes();
                match self.open_at(path, OFlags::RDONLY | OFlags::DIRECTORY) {
                    Ok(opened) => fsync(&opened).map_err(|errno| self.failed("syncing", path, errno))?,
                    // Emptied and removed since. Its parent is synced too.
                    Err(Errno::NOENT) => {}
                    Err(errno) => return Err(self.failed("syncing", path, errno)),
                }
            }
        }
        Ok(())
    }

    fn sync_all(&self) -> Result<(), RepositoryError> {
        // An `O_PATH` handle cannot be synced.
        let dir = File::open(&self.dir).map_err(disk::failed("syncing", &self.dir))?;
        syncfs(&dir).map_err(|errno| failed("syncing", &self.dir, errno))
    }

    fn make_dirs(&mut self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        match self.open_at(path, flags) {
            Err(Errno::NOENT) => {}
            opened => return opened,
        }
        let (parent, name) = split(path)?;
        let above = self.make_dirs(parent)?;
        match mkdirat(&above, name, Bits::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        self.touched.insert(OsStr::from_bytes(parent).into());
        self.open_at(path, flags)
    }

    /// Opens a path beneath the directory without following a link.
    fn open_at(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let path = if path.is_empty() { b"." } else { path };
        for _ in 0..OPEN_TRIES {
            match openat2(
                &self.root,
                OsStr::from_bytes(path),
                flags | OFlags::CLOEXEC,
                Bits::empty(),
                resolve,
            ) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                opened => return opened,
            }
        }
        Err(Errno::AGAIN)
    }

    fn shown(&self, path: &[u8]) -> PathBuf {
        self.dir.join(OsStr::from_bytes(path))
    }

    fn failed(&self, doing: &str, path: &[u8], errno: Errno) -> RepositoryError {
        failed(doing, &self.shown(path), errno)
    }
}

impl Drop for TreeSwitch {
    fn drop(&mut self) {
        if self.staging.is_some() {
            // The next call removes what stays.
            drop(disk::remove_tree(&self.staging_path));
        }
    }
}

/// Splits a path into directory and name. Refuses paths that could lead outside, whatever their origin.
fn split(path: &[u8]) -> Result<(&[u8], &OsStr), Errno> {
    if hostile(path).is_some() || path.contains(&0) {
        return Err(Errno::INVAL);
    }
    let slash = path.iter().rposition(|byte| *byte == b'/');
    let (parent, name) = slash.map_or((&path[..0], path), |at| (&path[..at], &path[at + 1..]));
    Ok((parent, OsStr::from_bytes(name)))
}

fn open_dir(dir: &Path) -> Result<OwnedFd, Errno> {
    openat(CWD, dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Bits::empty())
}

/// Opens a regular file without blocking on a pipe or a terminal.
fn open_file(dir: &OwnedFd, name: &OsStr) -> io::Result<(File, Stat)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(dir, name, flags, Bits::empty())?;
    let stat = rustix::fs::fstat(&file)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok((File::from(file), stat)),
        _ => Err(io::Error::from(Errno::INVAL)),
    }
}

fn hashed(dir: &OwnedFd, name: &OsStr) -> io::Result<ObjectId> {
    let (mut file, stat) = open_file(dir, name)?;
    name_of_reader(&mut file, u64::try_from(stat.st_size).unwrap_or_default())
}

fn type_of(stat: &Stat) -> EntryType {
    if stat.st_mode & 0o100 == 0 { EntryType::File } else { EntryType::Executable }
}

fn failed(doing: &str, path: &Path, errno: Errno) -> RepositoryError {
    RepositoryError::io(doing, path, &errno.into())
}
