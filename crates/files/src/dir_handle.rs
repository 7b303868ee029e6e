//! The workspace as an open directory, and the only code that opens files in it.

use std::any::Any;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, Stat, fstat, openat2};
use rustix::io::Errno;

use super::{FileError, FileKind, ReadFilter, RelPath};

/// How often a path is resolved again when directories moved meanwhile.
const OPEN_TRIES: usize = 64;

/// How symbolic links are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Links {
    /// Followed as long as they stay inside.
    Inside,
    /// An error.
    Refuse,
}

/// An open directory, through which only the files beneath it are reachable.
///
/// It stays on the opened directory, even if its path leads elsewhere later.
#[derive(Debug)]
pub struct DirHandle {
    root: OwnedFd,
    /// The path of `root` in the workspace, so that errors and results name paths as the caller does.
    pub(super) at: RelPath,
    /// The real path in the workspace. It differs from `at` if a link led here and there is a read filter.
    pub(super) real: RelPath,
    /// Decides which paths may be read. None allows all.
    pub(super) filter: Option<Arc<dyn ReadFilter>>,
    /// What must live as long as the directory is used, such as its mount.
    kept: Option<Arc<dyn Any + Send + Sync>>,
}

impl DirHandle {
    /// Opens a workspace.
    pub fn open(workspace: &Path) -> Result<Self, FileError> {
        Self::open_with(workspace, ResolveFlags::empty())
            .map_err(|errno| FileError::Workspace { source: errno.into() })
    }

    /// Opens a workspace from the kernel's cache. None if that would wait for a disk.
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
        Ok(Self { root, at: RelPath::root(), real: RelPath::root(), filter: None, kept: None })
    }

    /// The workspace behind an open directory, such as the root of a mount that has no path.
    /// `kept` is dropped with the last handle of it.
    pub fn at(root: OwnedFd, kept: Arc<dyn Any + Send + Sync>) -> Self {
        Self { root, at: RelPath::root(), real: RelPath::root(), filter: None, kept: Some(kept) }
    }

    /// Checks that a path is a directory beneath the workspace.
    pub fn check_dir(&self, dir: &RelPath) -> Result<(), FileError> {
        self.open_at(dir, OFlags::PATH | OFlags::DIRECTORY, Links::Inside).map(drop)
    }

    /// Opens a directory beneath this one as a new root: nothing above it can be reached from there.
    pub(super) fn descend(&self, dir: &RelPath) -> Result<Self, FileError> {
        let (root, real) = self.enter_admitted(dir)?;
        Ok(Self { root, at: self.shown(dir), real, filter: self.filter.clone(), kept: self.kept.clone() })
    }

    /// Like [`descend`](Self::descend), for a directory that is already open and was reached without a link. The caller
    /// has checked the read filter for the one file it needs.
    pub(super) fn at_directory(&self, dir: OwnedFd, path: &RelPath) -> Self {
        Self {
            root: dir,
            at: self.shown(path),
            real: self.real.below(path),
            filter: None,
            kept: self.kept.clone(),
        }
    }

    pub(super) fn directory(&self) -> &OwnedFd {
        &self.root
    }

    /// `path` relative to the whole workspace, for the caller.
    pub(super) fn shown(&self, path: &RelPath) -> RelPath {
        self.at.below(path)
    }

    /// Opens `path`. The kernel keeps it beneath the root.
    pub(super) fn open_at(&self, path: &RelPath, flags: OFlags, links: Links) -> Result<OwnedFd, FileError> {
        for _ in 0..OPEN_TRIES {
            match self.open_once(path, flags, links, ResolveFlags::empty()) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                opened => return opened.map_err(|errno| self.error(path, errno, links)),
            }
        }
        Err(FileError::Unsettled { path: self.shown(path) })
    }

    /// Opens a regular file for reading. Neither a pipe nor a terminal can block this.
    pub(super) fn open_regular(&self, path: &RelPath, links: Links) -> Result<(File, Stat), FileError> {
        let fd = self.open_at(path, READ_FLAGS, links)?;
        self.regular(path, fd)
    }

    /// Opens an admitted file from the kernel's cache. With a read filter, a path through a link is left to the
    /// blocking variant.
    pub(super) fn open_admitted_cached(&self, path: &RelPath) -> Result<Option<(File, Stat)>, FileError> {
        self.admit(path)?;
        let links = if self.filter.is_some() { Links::Refuse } else { Links::Inside };
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

    /// Converts a kernel error about `path`.
    pub(super) fn error(&self, path: &RelPath, errno: Errno, links: Links) -> FileError {
        match (errno, links) {
            (Errno::LOOP, Links::Refuse) => FileError::Link { path: self.shown(path) },
            _ => FileError::of(&self.shown(path), errno),
        }
    }
}

/// Whether this system can open files beneath a directory by their names: kernels before 5.6 cannot, and old containers do
/// not let programs.
pub fn can_open_beneath() -> bool {
    !matches!(DirHandle::open_with(Path::new("/"), ResolveFlags::empty()), Err(Errno::NOSYS | Errno::PERM))
}

/// A pipe opens at once, and a terminal does not become the controlling one.
const READ_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
