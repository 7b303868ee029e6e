//! Opens paths once, without following a link, and keeps them as descriptors, for mounts of the init.
//!
//! Programs of another call may swap a directory for a link at any moment, so a second resolution may lead elsewhere.
//! Each path is resolved once, and all later operations use the descriptor.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use rustix::io::Errno;

/// The mode of directories and files that are created as mount points.
const PLACE_MODE: u32 = 0o755;
/// How often a path is resolved again after directories moved.
const TRIES: usize = 64;

const NO_LINKS: ResolveFlags = ResolveFlags::NO_SYMLINKS.union(ResolveFlags::NO_MAGICLINKS);

/// Opens an absolute path without following a link. Reads nothing and does not block on a pipe.
pub(super) fn open(path: impl AsRef<Path>) -> io::Result<OwnedFd> {
    Ok(openat2(CWD, path.as_ref(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), NO_LINKS)?)
}

/// The same for a directory.
pub(super) fn open_dir(path: impl AsRef<Path>) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat2(CWD, path.as_ref(), flags, Mode::empty(), NO_LINKS)?)
}

/// Opens a directory beneath another one. Links are followed as long as they stay beneath.
pub(super) fn open_dir_inside(dir: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    for _ in 1..TRIES {
        match openat2(&dir, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN) => {}
            opened => return Ok(opened?),
        }
    }
    Ok(openat2(&dir, path, flags, Mode::empty(), resolve)?)
}

/// Opens one entry of a directory. A link is opened as the link itself.
pub(super) fn open_entry(dir: impl AsFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    openat(dir, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// Opens one subdirectory, which must not be a link.
pub(super) fn open_subdir(dir: impl AsFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(dir, name, flags, Mode::empty())
}

pub(super) fn file_type(reached: impl AsFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(fstat(reached)?.st_mode))
}

/// Whether two descriptors refer to the same file, through any mounts.
pub(super) fn is_same(one: impl AsFd, other: impl AsFd) -> io::Result<bool> {
    let (one, other) = (fstat(one)?, fstat(other)?);
    Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
}

/// Opens a mount point beneath a directory and creates missing parts.
pub(super) fn make(top: &OwnedFd, path: &Path, is_dir: bool) -> io::Result<OwnedFd> {
    let mut reached = top.try_clone()?;
    let mut parts = path.components().filter(|part| *part != Component::RootDir).peekable();
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else { return Err(io::ErrorKind::InvalidInput.into()) };
        reached = if parts.peek().is_some() || is_dir {
            make_dir(&reached, name)?
        } else {
            make_file(&reached, name)?
        };
    }
    Ok(reached)
}

/// Opens one subdirectory and creates it if it is missing.
pub(super) fn make_dir(dir: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    match open_subdir(dir, name) {
        Err(Errno::NOENT) => {}
        opened => return Ok(opened?),
    }
    match rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(PLACE_MODE)) {
        Ok(()) | Err(Errno::EXIST) => Ok(open_subdir(dir, name)?),
        Err(error) => Err(error.into()),
    }
}

fn make_file(dir: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    match open_entry(dir, name) {
        Err(Errno::NOENT) => {}
        // A mount on a link would be attached to its target.
        Ok(entry) if file_type(&entry)? == FileType::Symlink => return Err(Errno::LOOP.into()),
        opened => return Ok(opened?),
    }
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::WRONLY;
    drop(openat(dir, name, flags, Mode::from_raw_mode(PLACE_MODE))?);
    Ok(open_entry(dir, name)?)
}
