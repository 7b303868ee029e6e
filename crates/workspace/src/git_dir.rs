//! Reads directories and files below a user's `.git` as hostile input.
//!
//! They come with a project, so any author may have written them. Each is opened beneath its directory's handle, never
//! through a link, never waiting for a writer, only as a plain file, and only up to a plausible size.
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
use super::{RepositoryError, disk};

/// Largest pointer file: `HEAD`, a branch, `commondir`, a `.git` that is a file. Git itself reads no longer paths.
pub(super) const POINTER_MAX_BYTES: u64 = 8 * 1024;
/// Largest configuration file.
pub(super) const CONFIG_MAX_BYTES: u64 = 1024 * 1024;
/// Largest `packed-refs`: about two million refs.
pub(super) const PACKED_REFS_MAX_BYTES: u64 = 256 * 1024 * 1024;
/// Largest index: about two million files.
pub(super) const INDEX_MAX_BYTES: u64 = 256 * 1024 * 1024;
/// Largest list of commits at which a shallow history ends: about 400,000.
pub(super) const SHALLOW_MAX_BYTES: u64 = 16 * 1024 * 1024;
/// Largest list of repositories that objects are borrowed from.
pub(super) const ALTERNATES_MAX_BYTES: u64 = 64 * 1024;
/// Limit of names in one directory. Git packs objects and refs long before.
const NAMES_MAX: usize = 1_000_000;

/// A directory below a user's `.git`, or that `.git` itself.
#[derive(Debug)]
pub(super) struct GitDir {
    pub(super) handle: OwnedFd,
    path: PathBuf,
}

impl GitDir {
    /// Opens the directory at `path`, which must not be a link. `None` if it does not exist.
    pub(super) fn open(path: &Path) -> Result<Option<Self>, RepositoryError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::open(path, flags, Permissions::empty()) {
            Ok(handle) => Ok(Some(Self { handle, path: path.to_owned() })),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => Err(odd(path)),
            Err(error) => Err(RepositoryError::io("opening", path, &error.into())),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a subdirectory; `None` if it does not exist.
    pub(super) fn dir(&self, name: &str) -> Result<Option<Self>, RepositoryError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let handle = self.opened(name, flags)?;
        Ok(handle.map(|handle| Self { handle, path: self.path.join(name) }))
    }

    /// Reads a file beneath; `None` if it does not exist.
    pub(super) fn read(&self, name: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, RepositoryError> {
        let Some(handle) = self.opened(name, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK)? else {
            return Ok(None);
        };
        read_plain(handle, &self.path.join(name), max_bytes).map(Some)
    }

    /// Like [`GitDir::read`], but a directory of that name counts as absent.
    pub(super) fn read_ref(&self, name: &str) -> Result<Option<Vec<u8>>, RepositoryError> {
        match self.stat(name)? {
            Some(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => Ok(None),
            Some(_) => self.read(name, POINTER_MAX_BYTES),
            None => Ok(None),
        }
    }

    /// The stat of an entry, links not followed; `None` if it does not exist.
    pub(super) fn stat(&self, name: &str) -> Result<Option<Stat>, RepositoryError> {
        let Some(handle) = self.opened(name, OFlags::PATH | OFlags::NOFOLLOW)? else { return Ok(None) };
        rustix::fs::fstat(&handle).map(Some).map_err(|error| self.failed("looking at", name, error))
    }

    /// The names and types of its entries, links not followed. All types are returned; callers filter.
    pub(super) fn entries(&self) -> Result<Vec<(OsString, FileType)>, RepositoryError> {
        let listing = |error: Errno| RepositoryError::io("listing", &self.path, &error.into());
        let mut entries = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.handle).map_err(listing)? {
            let entry = entry.map_err(listing)?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if entries.len() >= NAMES_MAX {
                return Err(RepositoryError::Unsupported(format!(
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

    /// Opens an entry of this directory, which must be a plain file.
    pub(super) fn file(&self, name: &OsString) -> Result<File, RepositoryError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let path = self.path.join(name);
        let opened = open_beneath(&self.handle, name.as_encoded_bytes(), flags, Permissions::empty());
        let file = File::from(opened.map_err(|error| refused(&path, error))?);
        let metadata = file.metadata().map_err(disk::failed("looking at", &path))?;
        if metadata.is_file() { Ok(file) } else { Err(odd(&path)) }
    }

    /// Hard-links an entry of this directory to `to`, if it is a plain file. Returns whether that succeeded.
    pub(super) fn link(&self, name: &OsString, to: &Path) -> Result<bool, RepositoryError> {
        use rustix::fs::{CWD, linkat, statat, unlinkat};
        if linkat(&self.handle, name, CWD, to, AtFlags::empty()).is_err() {
            return Ok(false);
        }
        // Checked under the new name, which no other process can replace.
        let is_plain = statat(CWD, to, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
        if is_plain {
            return Ok(true);
        }
        unlinkat(CWD, to, AtFlags::empty())
            .map_err(|error| RepositoryError::io("removing", to, &error.into()))?;
        Err(odd(&self.path.join(name)))
    }

    pub(super) fn lstat(&self, name: &OsString) -> Result<Stat, RepositoryError> {
        let stat = rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW);
        stat.map_err(|error| RepositoryError::io("looking at", &self.path.join(name), &error.into()))
    }

    fn opened(&self, name: &str, flags: OFlags) -> Result<Option<OwnedFd>, RepositoryError> {
        match open_beneath(&self.handle, name.as_bytes(), flags, Permissions::empty()) {
            Ok(handle) => Ok(Some(handle)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(refused(&first_odd(&self.path, name), error)),
        }
    }

    pub(super) fn failed(&self, doing: &str, name: &str, error: Errno) -> RepositoryError {
        RepositoryError::io(doing, &self.path.join(name), &error.into())
    }
}

/// Reads a file that the project's author may control, at any path.
pub(super) fn read_at(path: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>, RepositoryError> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Permissions::empty()) {
        Ok(handle) => read_plain(handle, path, max_bytes).map(Some),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(refused(path, error)),
    }
}

/// Reads a file that the user named, so links are followed. `None` if it does not exist.
pub(super) fn read_named(path: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>, RepositoryError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Permissions::empty()) {
        Ok(handle) => read_plain(handle, path, max_bytes).map(Some),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(RepositoryError::io("reading", path, &error.into())),
    }
}

fn read_plain(handle: OwnedFd, path: &Path, max_bytes: u64) -> Result<Vec<u8>, RepositoryError> {
    let file = File::from(handle);
    let metadata = file.metadata().map_err(disk::failed("looking at", path))?;
    if !metadata.is_file() {
        return Err(odd(path));
    }
    let mut content = Vec::new();
    if metadata.len() <= max_bytes {
        // One byte more than the limit, because the file may grow while it is read.
        file.take(max_bytes + 1).read_to_end(&mut content).map_err(disk::failed("reading", path))?;
    }
    let length = metadata.len().max(content.len() as u64);
    if length > max_bytes {
        return Err(RepositoryError::Unsupported(format!(
            "{} has {length} bytes, more than the {max_bytes} that Posse reads of such a file; `git fsck` may say what is \
             wrong with the repository",
            path.display()
        )));
    }
    Ok(content)
}

/// The error for an entry below `.git` that is not opened.
fn refused(path: &Path, error: Errno) -> RepositoryError {
    match error {
        Errno::LOOP | Errno::NOTDIR | Errno::NXIO => odd(path),
        error => RepositoryError::io("opening", path, &error.into()),
    }
}

/// The first component of a path that is a link, or the whole path.
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

/// The error for a path that is not a plain file or directory.
pub(super) fn odd(path: &Path) -> RepositoryError {
    let shown = path.display();
    RepositoryError::Unsupported(if path.is_symlink() {
        format!(
            "{shown} is a symbolic link: Posse follows no links below `.git`, because they lead wherever their author \
             wants; replace the link with its target"
        )
    } else {
        format!(
            "{shown} is not a plain file or directory, as it has to be below `.git`; put one in its place, or remove it"
        )
    })
}
