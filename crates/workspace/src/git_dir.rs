//! Directories and files below a person's `.git`.
//!
//! They come with a project, so anybody may have written them. Each is opened beneath the handle of its directory, never
//! through a link, never waiting for a writer, only as a plain file, and only up to a size that such a file can have.
//!
//! Why it is like this: `docs/decisions/git-directories.md`.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode as Permissions, OFlags, Stat};
use rustix::io::Errno;

use super::content::open_beneath;
use super::{WorkspaceError, disk};

/// Largest file that only names something: `HEAD`, a branch, `commondir`, a `.git` that is a file. Git itself reads no
/// longer paths.
pub(super) const POINTER_MAX_BYTES: u64 = 8 * 1024;
/// Largest file of settings.
pub(super) const CONFIG_MAX_BYTES: u64 = 1024 * 1024;
/// Largest list of refs: about two million of them.
pub(super) const PACKED_REFS_MAX_BYTES: u64 = 256 * 1024 * 1024;
/// Largest index: about two million files.
pub(super) const INDEX_MAX_BYTES: u64 = 256 * 1024 * 1024;
/// Largest list of commits at which a history ends: about 400,000.
pub(super) const SHALLOW_MAX_BYTES: u64 = 16 * 1024 * 1024;
/// Largest list of repositories that objects are borrowed from.
pub(super) const ALTERNATES_MAX_BYTES: u64 = 64 * 1024;
/// Most names of one directory; git packs objects and refs long before.
const NAMES_MAX: usize = 1_000_000;

/// A directory below a person's `.git`, or that `.git` itself.
#[derive(Debug)]
pub(super) struct GitDir {
    pub(super) handle: OwnedFd,
    path: PathBuf,
}

impl GitDir {
    /// The directory at `path`, which is itself no link; none if nothing is there.
    pub(super) fn open(path: &Path) -> Result<Option<Self>, WorkspaceError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::open(path, flags, Permissions::empty()) {
            Ok(handle) => Ok(Some(Self { handle, path: path.to_owned() })),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => Err(odd(path)),
            Err(error) => Err(WorkspaceError::io("opening", path, &error.into())),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A directory beneath; none if nothing is there.
    pub(super) fn dir(&self, name: &str) -> Result<Option<Self>, WorkspaceError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let handle = self.opened(name, flags)?;
        Ok(handle.map(|handle| Self { handle, path: self.path.join(name) }))
    }

    /// The content of a file beneath; none if nothing is there.
    pub(super) fn read(&self, name: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, WorkspaceError> {
        let Some(handle) = self.opened(name, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK)? else {
            return Ok(None);
        };
        read_plain(handle, &self.path.join(name), max_bytes).map(Some)
    }

    /// The same; a directory of that name is nothing.
    pub(super) fn read_ref(&self, name: &str) -> Result<Option<Vec<u8>>, WorkspaceError> {
        match self.stat(name)? {
            Some(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => Ok(None),
            Some(_) => self.read(name, POINTER_MAX_BYTES),
            None => Ok(None),
        }
    }

    /// What is at a name beneath, links not followed; none if nothing is there.
    pub(super) fn stat(&self, name: &str) -> Result<Option<Stat>, WorkspaceError> {
        let Some(handle) = self.opened(name, OFlags::PATH | OFlags::NOFOLLOW)? else { return Ok(None) };
        rustix::fs::fstat(&handle).map(Some).map_err(|error| self.failed("looking at", name, error))
    }

    /// The names in it and the kinds of what is behind them, links not followed. None is refused: callers choose.
    pub(super) fn entries(&self) -> Result<Vec<(OsString, FileType)>, WorkspaceError> {
        let listing = |error: Errno| WorkspaceError::io("listing", &self.path, &error.into());
        let mut entries = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.handle).map_err(listing)? {
            let entry = entry.map_err(listing)?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if entries.len() >= NAMES_MAX {
                return Err(WorkspaceError::Unsupported(format!(
                    "{} has more than {NAMES_MAX} entries; `git gc` packs them",
                    self.path.display()
                )));
            }
            let name = OsString::from_vec(name.to_vec());
            let kind = match entry.file_type() {
                FileType::Unknown => FileType::from_raw_mode(self.lstat(&name)?.st_mode),
                kind => kind,
            };
            entries.push((name, kind));
        }
        Ok(entries)
    }

    /// The file of an entry of this directory, if it is a plain one.
    pub(super) fn file(&self, name: &OsString) -> Result<File, WorkspaceError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let path = self.path.join(name);
        let opened = open_beneath(&self.handle, name.as_encoded_bytes(), flags, Permissions::empty());
        let file = File::from(opened.map_err(|error| refused(&path, error))?);
        let metadata = file.metadata().map_err(disk::failed("looking at", &path))?;
        if metadata.is_file() { Ok(file) } else { Err(odd(&path)) }
    }

    /// Gives an entry of this directory a second name, if it is a plain file; whether that could be done.
    pub(super) fn link(&self, name: &OsString, to: &Path) -> Result<bool, WorkspaceError> {
        use rustix::fs::{CWD, linkat, statat, unlinkat};
        if linkat(&self.handle, name, CWD, to, AtFlags::empty()).is_err() {
            return Ok(false);
        }
        // Looked at under the new name, which nobody can exchange.
        let is_plain = statat(CWD, to, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
        if is_plain {
            return Ok(true);
        }
        unlinkat(CWD, to, AtFlags::empty())
            .map_err(|error| WorkspaceError::io("removing", to, &error.into()))?;
        Err(odd(&self.path.join(name)))
    }

    pub(super) fn lstat(&self, name: &OsString) -> Result<Stat, WorkspaceError> {
        let stat = rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW);
        stat.map_err(|error| WorkspaceError::io("looking at", &self.path.join(name), &error.into()))
    }

    fn opened(&self, name: &str, flags: OFlags) -> Result<Option<OwnedFd>, WorkspaceError> {
        match open_beneath(&self.handle, name.as_bytes(), flags, Permissions::empty()) {
            Ok(handle) => Ok(Some(handle)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(refused(&first_odd(&self.path, name), error)),
        }
    }

    pub(super) fn failed(&self, doing: &str, name: &str, error: Errno) -> WorkspaceError {
        WorkspaceError::io(doing, &self.path.join(name), &error.into())
    }
}

/// The content of a file that a project could have made, wherever it is.
pub(super) fn read_at(path: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>, WorkspaceError> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Permissions::empty()) {
        Ok(handle) => read_plain(handle, path, max_bytes).map(Some),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(refused(path, error)),
    }
}

/// The content of a file that the person named: links are theirs. None if nothing is there.
pub(super) fn read_named(path: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>, WorkspaceError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Permissions::empty()) {
        Ok(handle) => read_plain(handle, path, max_bytes).map(Some),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(WorkspaceError::io("reading", path, &error.into())),
    }
}

fn read_plain(handle: OwnedFd, path: &Path, max_bytes: u64) -> Result<Vec<u8>, WorkspaceError> {
    let file = File::from(handle);
    let metadata = file.metadata().map_err(disk::failed("looking at", path))?;
    if !metadata.is_file() {
        return Err(odd(path));
    }
    let mut content = Vec::new();
    if metadata.len() <= max_bytes {
        // One more, because it may grow while it is read.
        file.take(max_bytes + 1).read_to_end(&mut content).map_err(disk::failed("reading", path))?;
    }
    let length = metadata.len().max(content.len() as u64);
    if length > max_bytes {
        return Err(WorkspaceError::Unsupported(format!(
            "{} has {length} bytes, more than the {max_bytes} that Posse reads of such a file; `git fsck` may say what is \
             wrong with the repository",
            path.display()
        )));
    }
    Ok(content)
}

/// Says why something below `.git` is not opened.
fn refused(path: &Path, error: Errno) -> WorkspaceError {
    match error {
        Errno::LOOP | Errno::NOTDIR | Errno::NXIO => odd(path),
        error => WorkspaceError::io("opening", path, &error.into()),
    }
}

/// The first part of a path beneath a directory that is a link, or all of it.
fn first_odd(above: &Path, name: &str) -> PathBuf {
    let mut path = above.to_owned();
    for part in Path::new(name) {
        path.push(part);
        if path.is_symlink() {
            break;
        }
    }
    path
}

/// Says that something is no plain file or directory.
pub(super) fn odd(path: &Path) -> WorkspaceError {
    let shown = path.display();
    WorkspaceError::Unsupported(if path.is_symlink() {
        format!(
            "{shown} is a symbolic link: Posse follows no links below `.git`, because they lead wherever their author \
             wants; put what it leads to in its place"
        )
    } else {
        format!(
            "{shown} is not a plain file or directory, as it has to be below `.git`; put one in its place, or remove it"
        )
    })
}
