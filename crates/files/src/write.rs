//! Replaces a file atomically.
//!
//! The new content is written to a new file beside the old one, synced, and renamed over the old one. Then the
//! directory is synced. At every moment the name refers to the whole old content or the whole new one. All steps are
//! relative to the open directory, so they happen in one directory even if its path leads elsewhere meanwhile.

use std::ffi::OsStr;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, RenameFlags, Stat, Uid, fchmod, fchown, fsync, linkat, mkdirat, openat,
    renameat, renameat_with, unlinkat,
};
use rustix::io::Errno;

use super::dir_handle::Links;
use super::read::size;
use super::walk::entries;
use super::{DirHandle, FileError, READ_MAX_BYTES, RelPath, Stop};

/// Maximum size of written content, so that it can be read again.
pub const WRITE_MAX_BYTES: u64 = READ_MAX_BYTES;

/// Prefix and suffix of the names of unfinished files.
const TEMPORARY_START: &str = ".posse-";
const TEMPORARY_END: &str = ".tmp";
/// How often another name is tried if one is taken.
const TEMPORARY_TRIES: usize = 8;

/// The expected state of a file that is to be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedFile {
    /// It does not exist.
    Absent,
    /// Its content has this BLAKE3 hash.
    Hash([u8; 32]),
}

impl ExpectedFile {
    fn is_met_by(self, content: Option<&[u8]>) -> bool {
        match (self, content) {
            (ExpectedFile::Absent, None) => true,
            (ExpectedFile::Hash(hash), Some(bytes)) => *blake3::hash(bytes).as_bytes() == hash,
            _ => false,
        }
    }
}

impl DirHandle {
    /// Reads a file before it is replaced. None if it does not exist, an error if it cannot be replaced.
    pub fn inspect(&self, path: &RelPath) -> Result<Option<Vec<u8>>, FileError> {
        check_name(path)?;
        // No link is followed here, so the given path is the real one.
        self.admit(path)?;
        match self.writable(path) {
            Ok((file, stat)) => self.read_open(path, file, size(stat.st_size), WRITE_MAX_BYTES).map(Some),
            Err(FileError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes `bytes` to `path` if the file is still as `expected`, and creates missing directories.
    ///
    /// If it is asked to stop, the file stays as it was. After any error [`Self::inspect`] shows which content is
    /// there: if only the last sync failed, it is the new one.
    pub fn replace(
        &self,
        path: &RelPath,
        bytes: &[u8],
        expected: ExpectedFile,
        stop: &Stop,
    ) -> Result<(), FileError> {
        check_name(path)?;
        let Some(name) = path.name() else { return Err(FileError::of(path, Errno::ISDIR)) };
        if bytes.len() as u64 > WRITE_MAX_BYTES {
            let bytes = bytes.len() as u64;
            return Err(FileError::TooLarge { path: self.shown(path), bytes, limit: WRITE_MAX_BYTES });
        }
        let failed = |errno| self.error(path, errno, Links::Refuse);
        let dir = self.directory_of(path)?;
        let file = RelPath::root().join(name);
        let mut temporary = Temporary::create(dir.directory(), name, dir.stat_of(&file)?).map_err(failed)?;
        temporary.fill(bytes).map_err(|source| FileError::of_io(&self.shown(path), source))?;
        // As late as possible: only a change between this check and the rename goes unnoticed.
        if !expected.is_met_by(dir.inspect(&file)?.as_deref()) {
            return Err(FileError::Changed { path: self.shown(path) });
        }
        stop.check()?;
        match temporary.become_file(name, expected) {
            Err(Errno::EXIST) => Err(FileError::Changed { path: self.shown(path) }),
            renamed => renamed.map_err(failed),
        }
    }

    /// Removes unfinished files that interrupted calls of [`Self::replace`] for this file left behind.
    ///
    /// A concurrent call for the same file then fails, and the file stays as it was.
    pub fn sweep(&self, path: &RelPath) -> Result<usize, FileError> {
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else { return Ok(0) };
        let dir = match self.open_at(&parent, OFlags::RDONLY | OFlags::DIRECTORY, Links::Refuse) {
            Err(FileError::NotFound { .. }) => return Ok(0),
            opened => opened?,
        };
        let start = temporary_start(name);
        let mut removed = 0;
        for entry in entries(self, &parent, &dir)?.entries {
            let ours = entry.name.as_bytes().starts_with(start.as_bytes()) && is_temporary(&entry.name);
            if ours && unlinkat(&dir, &*entry.name, AtFlags::empty()).is_ok() {
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Opens a file that may be replaced.
    fn writable(&self, path: &RelPath) -> Result<(File, Stat), FileError> {
        let (file, stat) = self.open_regular(path, Links::Refuse)?;
        // A rename needs no permission on the old file, but a file without any write bit is meant to be read-only.
        if stat.st_mode & 0o222 == 0 {
            return Err(FileError::ReadOnly { path: self.shown(path) });
        }
        Ok((file, stat))
    }

    fn stat_of(&self, path: &RelPath) -> Result<Option<Stat>, FileError> {
        match self.writable(path) {
            Ok((_, stat)) => Ok(Some(stat)),
            Err(FileError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens the directory of `path`, and creates it if necessary.
    fn directory_of(&self, path: &RelPath) -> Result<DirHandle, FileError> {
        let parent = path.parent().unwrap_or_default();
        let dir = match self.open_at(&parent, OFlags::RDONLY | OFlags::DIRECTORY, Links::Refuse) {
            Err(FileError::NotFound { .. }) => self.make_directories(&parent)?,
            opened => opened?,
        };
        Ok(self.at_directory(dir, &parent))
    }

    /// Creates directories one by one. Each is opened from the root again rather than from its parent, so that a
    /// directory that became a link is refused.
    fn make_directories(&self, path: &RelPath) -> Result<OwnedFd, FileError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let failed = |errno| self.error(path, errno, Links::Refuse);
        let mut at = RelPath::root();
        let mut dir = self.open_at(&at, flags, Links::Refuse)?;
        for name in path.names() {
            match mkdirat(&dir, name, Mode::from_raw_mode(0o777)) {
                // The new name must be as durable as the file it leads to.
                Ok(()) => fsync(&dir).map_err(failed)?,
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(failed(errno)),
            }
            at = at.join(name);
            dir = self.open_at(&at, flags, Links::Refuse)?;
        }
        Ok(dir)
    }
}

/// Refuses names that file tools must not write: files of git can make the next git command run anything, and an
/// unfinished file belongs to its writer.
fn check_name(path: &RelPath) -> Result<(), FileError> {
    // Some filesystems do not distinguish `.GIT` from `.git`.
    let is_git = |name: &OsStr| name.as_bytes().eq_ignore_ascii_case(b".git");
    if path.names().any(|name| is_git(name) || is_temporary(name)) {
        return Err(FileError::Protected { path: path.clone() });
    }
    Ok(())
}

/// Whether a name is that of an unfinished file.
pub(super) fn is_temporary(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.starts_with(TEMPORARY_START.as_bytes()) && name.ends_with(TEMPORARY_END.as_bytes())
}

/// The prefix of unfinished files for `name`. It is a hash, because a prefix with the name itself could become too
/// long.
fn temporary_start(name: &OsStr) -> String {
    let hash = blake3::hash(name.as_bytes()).to_hex();
    format!("{TEMPORARY_START}{}-", &hash[..16])
}

/// An unfinished file. It is removed unless it gets its final name.
struct Temporary<'a> {
    dir: &'a OwnedFd,
    file: File,
    name: String,
    /// Whether `name` still refers to the file.
    named: bool,
}

impl<'a> Temporary<'a> {
    /// Creates an unfinished file for `name`, with the mode and, where possible, the owner of the file it will replace.
    fn create(dir: &'a OwnedFd, name: &OsStr, old: Option<Stat>) -> Result<Self, Errno> {
        // A new file gets the process's default mode. A copy of a secret must never be readable by others.
        let mode = if old.is_some() { 0o600 } else { 0o666 };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let start = temporary_start(name);
        for _ in 0..TEMPORARY_TRIES {
            let name = format!("{start}{:016x}{TEMPORARY_END}", random());
            match openat(dir, &name, flags, Mode::from_raw_mode(mode)) {
                Err(Errno::EXIST) => {}
                opened => {
                    let temporary = Self { dir, file: opened?.into(), name, named: true };
                    if let Some(old) = old {
                        temporary.dress(&old)?;
                    }
                    return Ok(temporary);
                }
            }
        }
        Err(Errno::EXIST)
    }

    /// Copies owner and mode. Only a privileged process can change the owner. Otherwise the file belongs to this
    /// process's user.
    fn dress(&self, old: &Stat) -> Result<(), Errno> {
        let _ = fchown(&self.file, Some(Uid::from_raw(old.st_uid)), Some(Gid::from_raw(old.st_gid)));
        // Drops set-user-id, which was not granted to the new content.
        fchmod(&self.file, Mode::from_raw_mode(old.st_mode & 0o777))
    }

    fn fill(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.file.write_all(bytes)?;
        self.file.sync_all()
    }

    /// Renames the file to its final name, durably. A file that was expected to be absent is not replaced.
    fn become_file(mut self, name: &OsStr, expected: ExpectedFile) -> Result<(), Errno> {
        let dir = self.dir.as_fd();
        match expected {
            ExpectedFile::Hash(_) => renameat(dir, &self.name, dir, name)?,
            ExpectedFile::Absent => match renameat_with(dir, &self.name, dir, name, RenameFlags::NOREPLACE) {
                // Not every filesystem supports that. A hard link does not replace a file either.
                Err(Errno::INVAL | Errno::NOSYS) => {
                    linkat(dir, &self.name, dir, name, AtFlags::empty())?;
                    unlinkat(dir, &self.name, AtFlags::empty())?;
                }
                renamed => renamed?,
            },
        }
        self.named = false;
        fsync(dir)
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if self.named {
            // If this fails, a later sweep finds the file by its name.
            let _ = unlinkat(self.dir, &self.name, AtFlags::empty());
        }
    }
}

/// An unpredictable number: the standard library seeds its hashers from the system.
fn random() -> u64 {
    RandomState::new().hash_one(())
}
