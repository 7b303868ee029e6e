//! What Posse adds to a person's `.git`: a pack and a ref. Made beneath the handles of their directories, through no link,
//! and each file appears whole or not at all.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

use super::content::open_beneath;
use super::git_dir::{GitDir, odd};
use super::{WorkspaceError, disk};

/// What a file may allow of what its directory does: reading.
const READING: u32 = 0o444;
/// Reading and writing.
const READING_AND_WRITING: u32 = 0o666;
/// What a directory hands down: permissions, and the group that its files get.
const OF_A_DIRECTORY: u32 = 0o2777;

/// Most empty directories that are removed to make room.
const EMPTY_DIRS_MAX: usize = 64;

/// Whether a file is ever changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileLifetime {
    /// It never is: a pack.
    Fixed,
    /// Git writes it again: a ref, or a table of them.
    Changing,
}

/// A file beneath a handle that has its content and not yet its name. It is gone if it never gets one.
pub(super) struct UnnamedFile<'a> {
    dir: &'a GitDir,
    name: OsString,
    named: bool,
}

impl GitDir {
    /// The directory `name` directly beneath this one, made if nothing is there. As open to others as this one, because
    /// that is how repositories are shared.
    pub(super) fn made_dir(&self, name: &str) -> Result<Self, WorkspaceError> {
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

    /// Writes a file that waits for its name. Another process that was killed while it did so leaves only a name that git
    /// takes for nothing, and that is removed here.
    pub(super) fn write_waiting(
        &self,
        name: &str,
        content: &mut dyn Read,
        lasting: FileLifetime,
    ) -> Result<UnnamedFile<'_>, WorkspaceError> {
        self.remove_left()?;
        let temporary = disk::temporary(Path::new(name)).into_os_string();
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(disk::FILE_MODE);
        let opened = open_beneath(&self.handle, temporary.as_encoded_bytes(), flags, mode);
        let mut file = File::from(opened.map_err(|error| self.failed("making", name, error))?);
        let waiting = UnnamedFile { dir: self, name: temporary, named: false };
        let failed = |error: io::Error| WorkspaceError::io("writing", &self.path().join(name), &error);
        io::copy(content, &mut file).map_err(failed)?;
        let of_its_directory = if lasting == FileLifetime::Fixed { READING } else { READING_AND_WRITING };
        self.hand_down(&file, of_its_directory, name)?;
        file.sync_all().map_err(failed)?;
        Ok(waiting)
    }

    /// Removes what processes that are gone left waiting.
    fn remove_left(&self) -> Result<(), WorkspaceError> {
        for (name, kind) in self.entries()? {
            // No ref and no pack may end like this, so that it is nothing of the person's.
            let is_ours = name.as_encoded_bytes().ends_with(disk::NO_REF.as_bytes());
            if is_ours && kind == FileType::RegularFile && disk::maker_is_gone(&name) {
                self.remove(&name)?;
            }
        }
        Ok(())
    }

    /// Removes a name that is no directory, if it is there.
    pub(super) fn remove(&self, name: &OsStr) -> Result<(), WorkspaceError> {
        match rustix::fs::unlinkat(&self.handle, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(self.failed("removing", &name.to_string_lossy(), error)),
        }
    }

    /// Removes a directory that holds nothing but directories, as git leaves them of refs that were removed. What holds a
    /// file stays.
    pub(super) fn remove_empty(&self, name: &str) -> Result<(), WorkspaceError> {
        let is_dir = |stat: Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if !self.stat(name)?.is_some_and(is_dir) {
            return Ok(());
        }
        let mut left = vec![name.to_owned()];
        // Whatever cannot be removed is in the way, which is told when the name is needed.
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

    /// Gives a file another name, in the place of what may have that.
    pub(super) fn rename(&self, from: impl AsRef<OsStr>, to: &str) -> Result<(), WorkspaceError> {
        match rustix::fs::renameat(&self.handle, from.as_ref(), &self.handle, to) {
            Ok(()) => self.sync(),
            Err(Errno::ISDIR | Errno::NOTEMPTY) => Err(odd(&self.path().join(to))),
            Err(error) => Err(self.failed("making", to, error)),
        }
    }

    /// Makes the names in it durable.
    pub(super) fn sync(&self) -> Result<(), WorkspaceError> {
        rustix::fs::fsync(&self.handle).map_err(|error| self.failed("syncing", "", error))
    }

    /// Gives what was made here the permissions of this directory, as far as `mask` has them.
    fn hand_down(&self, made: impl AsFd, mask: u32, name: &str) -> Result<(), WorkspaceError> {
        let own = rustix::fs::fstat(&self.handle).map_err(|error| self.failed("looking at", "", error))?;
        let permissions = Mode::from_raw_mode(own.st_mode & mask);
        rustix::fs::fchmod(made, permissions).map_err(|error| self.failed("making", name, error))
    }
}

impl UnnamedFile<'_> {
    /// Gives the file its name, in the place of what may have it.
    pub(super) fn replacing(mut self, name: &str) -> Result<(), WorkspaceError> {
        self.dir.rename(&self.name, name)?;
        self.named = true;
        Ok(())
    }

    /// Gives the file its name, if nothing has it; whether that was so.
    pub(super) fn named_new(mut self, name: &str) -> Result<bool, WorkspaceError> {
        let handle = &self.dir.handle;
        match rustix::fs::renameat_with(handle, &self.name, handle, name, RenameFlags::NOREPLACE) {
            Ok(()) => self.dir.sync()?,
            Err(Errno::EXIST) => return Ok(false),
            // A filesystem without it: looked at first, which is as good unless somebody makes the same name just now.
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
            // What went wrong is told; what stays is removed the next time.
            drop(self.dir.remove(&self.name));
        }
    }
}
