//! The workspace as an open directory, and the one way to open anything in it.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, Stat, fstat, openat2};
use rustix::io::Errno;

use super::{FileError, FileKind, Gate, RelPath};

/// How often a path is resolved again when directories moved meanwhile.
const OPEN_TRIES: usize = 64;

/// What happens at a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Links {
    /// It is followed as long as it stays inside.
    Inside,
    /// It is an error.
    Refuse,
}

/// A directory whose files are reachable, and nothing else.
///
/// It stays on the directory that was opened, wherever its path leads later.
#[derive(Debug)]
pub struct DirHandle {
    root: OwnedFd,
    /// Where `root` is in the workspace, so that errors and results name paths as the caller does.
    pub(super) at: RelPath,
    /// Where it really is in the workspace: differs if it was reached through a link and there is a gate.
    pub(super) real: RelPath,
    /// Who decides what may be seen; none lets everything pass.
    pub(super) gate: Option<Arc<dyn Gate>>,
}

impl DirHandle {
    /// Opens a workspace.
    pub fn open(workspace: &Path) -> Result<Self, FileError> {
        Self::open_with(workspace, ResolveFlags::empty())
            .map_err(|errno| FileError::Workspace { source: errno.into() })
    }

    /// Opens a workspace if the system can do it from memory; none if it would have to wait for a disk.
    pub fn open_cached(workspace: &Path) -> Result<Option<Self>, FileError> {
        match Self::open_with(workspace, ResolveFlags::CACHED) {
            Ok(beneath) => Ok(Some(beneath)),
            Err(Errno::AGAIN | Errno::INVAL) => Ok(None),
            Err(errno) => Err(FileError::Workspace { source: errno.into() }),
        }
    }

    fn open_with(workspace: &Path, resolve: ResolveFlags) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat2(CWD, workspace, flags, Mode::empty(), resolve)?;
        Ok(Self { root, at: RelPath::root(), real: RelPath::root(), gate: None })
    }

    /// Whether a path is a directory beneath the workspace; why not, if it is not.
    pub fn check_dir(&self, dir: &RelPath) -> Result<(), FileError> {
        self.open_at(dir, OFlags::PATH | OFlags::DIRECTORY, Links::Inside).map(drop)
    }

    /// A directory of this one, as a root of its own: nothing above it can be reached from there.
    pub(super) fn descend(&self, dir: &RelPath) -> Result<Self, FileError> {
        let (root, real) = self.enter_admitted(dir)?;
        Ok(Self { root, at: self.shown(dir), real, gate: self.gate.clone() })
    }

    /// The same for a directory that is open already and was reached without a link. Its caller has asked the
    /// gate about the one file it is after.
    pub(super) fn at_directory(&self, dir: OwnedFd, path: &RelPath) -> Self {
        Self { root: dir, at: self.shown(path), real: self.real.below(path), gate: None }
    }

    /// The open directory itself.
    pub(super) fn directory(&self) -> &OwnedFd {
        &self.root
    }

    /// `path` as the caller of the whole knows it.
    pub(super) fn shown(&self, path: &RelPath) -> RelPath {
        self.at.below(path)
    }

    /// Opens `path`; the kernel keeps it beneath the root.
    pub(super) fn open_at(&self, path: &RelPath, flags: OFlags, links: Links) -> Result<OwnedFd, FileError> {
        for _ in 0..OPEN_TRIES {
            match self.open_once(path, flags, links, ResolveFlags::empty()) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                opened => return opened.map_err(|errno| self.error(path, errno, links)),
            }
        }
        Err(FileError::Unsettled { path: self.shown(path) })
    }

    /// Opens a regular file for reading. Neither a pipe nor a terminal can make this wait.
    pub(super) fn open_regular(&self, path: &RelPath, links: Links) -> Result<(File, Stat), FileError> {
        let fd = self.open_at(path, READ_FLAGS, links)?;
        self.regular(path, fd)
    }

    /// The same if the system can do it from memory. With a gate, what is behind a link is for the way that
    /// may wait.
    pub(super) fn open_admitted_cached(&self, path: &RelPath) -> Result<Option<(File, Stat)>, FileError> {
        self.admit(path)?;
        let links = if self.gate.is_some() { Links::Refuse } else { Links::Inside };
        match self.open_once(path, READ_FLAGS, links, ResolveFlags::CACHED) {
            Ok(fd) => self.regular(path, fd).map(Some),
            Err(Errno::AGAIN | Errno::INVAL | Errno::INTR) => Ok(None),
            Err(Errno::LOOP) if links == Links::Refuse => Ok(None),
            Err(errno) => Err(self.error(path, errno, Links::Inside)),
        }
    }

    fn open_once(
        &self,
        path: &RelPath,
        flags: OFlags,
        links: Links,
        more: ResolveFlags,
    ) -> Result<OwnedFd, Errno> {
        let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | more;
        if links == Links::Refuse {
            resolve |= ResolveFlags::NO_SYMLINKS;
        }
        openat2(&self.root, path.as_path(), flags | OFlags::CLOEXEC, Mode::empty(), resolve)
    }

    fn regular(&self, path: &RelPath, fd: OwnedFd) -> Result<(File, Stat), FileError> {
        let stat = fstat(&fd).map_err(|errno| self.error(path, errno, Links::Inside))?;
        match FileKind::of_mode(stat.st_mode) {
            FileKind::Regular => Ok((File::from(fd), stat)),
            kind => Err(FileError::NotRegular { path: self.shown(path), kind }),
        }
    }

    /// What an error of the kernel means for `path`.
    pub(super) fn error(&self, path: &RelPath, errno: Errno, links: Links) -> FileError {
        match (errno, links) {
            (Errno::LOOP, Links::Refuse) => FileError::Link { path: self.shown(path) },
            _ => FileError::of(&self.shown(path), errno),
        }
    }
}

/// A pipe opens at once and a terminal does not become ours.
const READ_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
