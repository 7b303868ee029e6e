//! Adds a pack and a ref to a user's `.git` when a result is published. Files are created beneath the handles of their
//! directories, through no link, and appear atomically.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

use super::content::open_beneath;
use super::git_dir::{GitDir, odd};
use super::{RepositoryError, disk};

/// The permissions that a read-only file inherits from its directory.
const READING: u32 = 0o444;
/// The permissions that a writable file inherits.
const READING_AND_WRITING: u32 = 0o666;
/// The permissions and the group bit that a directory inherits.
const OF_A_DIRECTORY: u32 = 0o2777;

/// Limit of empty directories that are removed to make room.
const EMPTY_DIRS_MAX: usize = 64;

/// Whether a file is ever changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileLifetime {
    /// Never, such as a pack.
    Fixed,
    /// Git rewrites it, such as a ref or a table of refs.
    Changing,
}

/// A file that has its content but not yet its name. It is removed if it never gets one.
pub(super) struct UnnamedFile<'a> {
    dir: &'a GitDir,
    name: OsString,
    named: bool,
}

impl GitDir {
    /// Opens the directory `name` directly beneath this one, or creates it with this one's permissions, because
    /// repositories may be shared.
    pub(super) fn made_dir(&self, name: &str) -> Result<Self, RepositoryError> {
        let made = rustix::fs::mkdirat(&self.handle, name, Mode::from_raw_mode(0o700));
        if let Err(error) = made
            && error != Errno::EXIST
        {
            return Err(self.failed("making", name, error));
        }
        let dir = self.dir(name)?.ok_or_else(|| self.failed("making", name, Errno::NOENT))?;
        if made.is_ok() {
            self.hand_down(&dir.handle, OF_A_DIRECTORY, name)?;
            self.sync()?;
        }
        Ok(dir)
    }

    /// Writes a file under a temporary name. If a process is killed meanwhile, git ignores the leftover, and this
    /// function removes it later.
    pub(super) fn write_waiting(
        &self,
        name: &str,
        content: &mut dyn Read,
        lasting: FileLifetime,
    ) -> Result<UnnamedFile<'_>, RepositoryError> {
        self.remove_left()?;
        let temporary = disk::temporary(Path::new(name)).into_os_string();
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(disk::FILE_MODE);
        let opened = open_beneath(&self.handle, temporary.as_encoded_bytes(), flags, mode);
        let mut file = File::from(opened.map_err(|error| self.failed("making", name, error))?);
        let waiting = UnnamedFile { dir: self, name: temporary, named: false };
        let failed = |error: io::Error| RepositoryError::io("writing", &self.path().join(name), &error);
        io::copy(content, &mut file).map_err(failed)?;
        let of_its_directory = if lasting == FileLifetime::Fixed { READING } else { READING_AND_WRITING };
        self.hand_down(&file, of_its_directory, name)?;
        file.sync_all().map_err(failed)?;
        Ok(waiting)
    }

    /// Removes temporary files of processes that have ended.
    fn remove_left(&self) -> Result<(), RepositoryError> {
        for (name, kind) in self.entries()? {
            // No ref or pack may have this suffix, so the file is not the user's.
            let is_ours = name.as_encoded_bytes().ends_with(disk::NO_REF.as_bytes());
            if is_ours && kind == FileType::RegularFile && disk::maker_is_gone(&name) {
                self.remove(&name)?;
            }
        }
        Ok(())
    }

    /// Removes a name that is not a directory, if it exists.
    pub(super) fn remove(&self, name: &OsStr) -> Result<(), RepositoryError> {
        match rustix::fs::unlinkat(&self.handle, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(self.failed("removing", &name.to_string_lossy(), error)),
        }
    }

    /// Removes a directory that contains only directories, as git leaves them after removing refs. A directory with a
    /// file stays.
    pub(super) fn remove_empty(&self, name: &str) -> Result<(), RepositoryError> {
        let is_dir = |stat: Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if !self.stat(name)?.is_some_and(is_dir) {
            return Ok(());
        }
        let mut left = vec![name.to_owned()];
        // A directory that cannot be removed is reported later, when its name is needed.
        while let Some(dir) = left.last().cloned() {
            let is_gone = rustix::fs::unlinkat(&self.handle, dir.as_str(), AtFlags::REMOVEDIR).is_ok();
            if is_gone {
                left.pop();
                continue;
            }
            let below = self.dir(&dir)?.map(|dir| dir.entries()).transpose()?.unwrap_or_default();
            let all_dirs = below.iter().all(|(_, kind)| *kind == FileType::Directory);
            let next: Option<Vec<String>> =
                below.iter().map(|(name, _)| name.to_str().map(|name| format!("{dir}/{name}"))).collect();
            match next.filter(|next| !next.is_empty() && all_dirs && left.len() < EMPTY_DIRS_MAX) {
                Some(next) => left.extend(next),
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Renames a file, replacing an existing one.
    pub(super) fn rename(&self, from: impl AsRef<OsStr>, to: &str) -> Result<(), RepositoryError> {
        match rustix::fs::renameat(&self.handle, from.as_ref(), &self.handle, to) {
            Ok(()) => self.sync(),
            Err(Errno::ISDIR | Errno::NOTEMPTY) => Err(odd(&self.path().join(to))),
            Err(error) => Err(self.failed("making", to, error)),
        }
    }

    /// Makes the names in it durable.
    pub(super) fn sync(&self) -> Result<(), RepositoryError> {
        rustix::fs::fsync(&self.handle).map_err(|error| self.failed("syncing", "", error))
    }

    /// Gives a new entry the permissions of this directory, limited by `mask`.
    fn hand_down(&self, made: impl AsFd, mask: u32, name: &str) -> Result<(), RepositoryError> {
        let own = rustix::fs::fstat(&self.handle).map_err(|error| self.failed("looking at", "", error))?;
        let permissions = Mode::from_raw_mode(own.st_mode & mask);
        rustix::fs::fchmod(made, permissions).map_err(|error| self.failed("making", name, error))
    }
}

impl UnnamedFile<'_> {
    /// Gives the file its name, replacing an existing file.
    pub(super) fn replacing(mut self, name: &str) -> Result<(), RepositoryError> {
        self.dir.rename(&self.name, name)?;
        self.named = true;
        Ok(())
    }

    /// Gives the file its name if the name is free. Returns whether it was.
    pub(super) fn named_new(mut self, name: &str) -> Result<bool, RepositoryError> {
        let handle = &self.dir.handle;
        match rustix::fs::renameat_with(handle, &self.name, handle, name, RenameFlags::NOREPLACE) {
            Ok(()) => self.dir.sync()?,
            Err(Errno::EXIST) => return Ok(false),
            // A filesystem without `RENAME_NOREPLACE`: checked first, which only fails if another process creates the
            // same name right now.
            Err(Errno::INVAL | Errno::NOSYS) if self.dir.stat(name)?.is_some() => return Ok(false),
            Err(Errno::INVAL | Errno::NOSYS) => self.dir.rename(&self.name, name)?,
            Err(error) => return Err(self.dir.failed("making", name, error)),
        }
        self.named = true;
        Ok(true)
    }
}

impl Drop for UnnamedFile<'_> {
    fn drop(&mut self) {
        if !self.named {
            // The error is returned. The next call removes what stays.
            drop(self.dir.remove(&self.name));
        }
    }
}
