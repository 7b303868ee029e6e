//! Opens files in the user's directories, or in a project without leaving it.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, CWD, FileType, Mode, OFlags, ResolveFlags, fadvise, fstat, openat2};
use rustix::io::Errno;

use super::SkipReason;
use crate::DirHandle;

/// How often a path is resolved again when directories moved meanwhile.
const OPEN_TRIES: usize = 64;
/// Neither a pipe nor a terminal can block this.
const FILE_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
const DIR_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// Which files may be opened.
pub(super) enum SearchScope {
    /// Any target of the user's links.
    Anywhere,
    /// Only files within a project.
    Project(Project),
}

pub(super) struct Project {
    root: PathBuf,
    fd: OwnedFd,
    files: DirHandle,
}

/// An open regular file.
pub(super) struct OpenFile {
    file: File,
    size: u64,
    /// The real path, if a link led there.
    pub(super) real: Option<PathBuf>,
}

/// An open file of any type.
struct OpenEntry {
    fd: OwnedFd,
    real: Option<PathBuf>,
}

impl SearchScope {
    /// Opens the project's directory, if there is one.
    pub(super) fn new(within: Option<&Path>) -> Result<Self, SkipReason> {
        let Some(root) = within else { return Ok(Self::Anywhere) };
        let fd = openat2(CWD, root, DIR_FLAGS | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::empty());
        let fd = fd.map_err(unreadable)?;
        let files = DirHandle::open(root).map_err(|error| SkipReason::Unreadable(error.to_string()))?;
        Ok(Self::Project(Project { root: root.to_owned(), fd, files }))
    }

    /// Opens a regular file. None if it does not exist.
    pub(super) fn open_file(&self, path: &Path) -> Result<Option<OpenFile>, SkipReason> {
        let Some(opened) = self.open(path, FILE_FLAGS)? else { return Ok(None) };
        let stat = fstat(&opened.fd).map_err(unreadable)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(SkipReason::NotRegular);
        }
        let size = u64::try_from(stat.st_size).unwrap_or_default();
        Ok(Some(OpenFile { file: opened.fd.into(), size, real: opened.real }))
    }

    /// Opens a directory. None if it does not exist.
    pub(super) fn open_dir(&self, path: &Path) -> Result<Option<OwnedFd>, SkipReason> {
        Ok(self.open(path, DIR_FLAGS)?.map(|opened| opened.fd))
    }

    fn open(&self, path: &Path, flags: OFlags) -> Result<Option<OpenEntry>, SkipReason> {
        let without_links = ResolveFlags::NO_SYMLINKS;
        let straight = match self {
            Self::Anywhere => openat(CWD, path, flags, without_links),
            Self::Project(project) => {
                let beneath = path.strip_prefix(&project.root).map_err(|_| SkipReason::LeadsOut)?;
                openat(&project.fd, beneath, flags, without_links | ResolveFlags::BENEATH)
            }
        };
        match straight {
            Ok(fd) => Ok(Some(OpenEntry { fd, real: None })),
            Err(Errno::LOOP) => self.follow(path, flags),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            // A socket cannot be opened at all.
            Err(Errno::NXIO) => Err(SkipReason::NotRegular),
            Err(errno) => Err(unreadable(errno)),
        }
    }

    /// Resolves the links of a path, checks the target, and opens it without following another link.
    fn follow(&self, path: &Path, flags: OFlags) -> Result<Option<OpenEntry>, SkipReason> {
        let real = match path.canonicalize() {
            Ok(real) => real,
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => return Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(SkipReason::LeadsNowhere);
            }
            Err(error) => return Err(SkipReason::Unreadable(error.to_string())),
        };
        let opened = match self {
            Self::Anywhere => openat(CWD, &real, flags, ResolveFlags::NO_SYMLINKS),
            Self::Project(project) => {
                let beneath = real.strip_prefix(&project.root).map_err(|_| SkipReason::LeadsOut)?;
                if project.files.is_ignored(beneath, flags.contains(OFlags::DIRECTORY)) {
                    return Err(SkipReason::Ignored);
                }
                openat(&project.fd, beneath, flags, ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH)
            }
        };
        match opened {
            Ok(fd) => Ok(Some(OpenEntry { fd, real: Some(real) })),
            Err(Errno::NXIO) => Err(SkipReason::NotRegular),
            Err(errno) => Err(unreadable(errno)),
        }
    }
}

impl OpenFile {
    /// Asks the kernel to read the file ahead without blocking, unless it is longer than `max_bytes`.
    pub(super) fn expect(&self, max_bytes: u64) {
        if self.size <= max_bytes {
            // Only advice: without it, the read waits.
            let _ = fadvise(&self.file, 0, None, Advice::WillNeed);
        }
    }

    /// Reads at most the first `max_bytes`.
    pub(super) fn beginning(self, max_bytes: u64) -> Result<Vec<u8>, SkipReason> {
        // One byte more than its size, so that the end is found without growing the buffer.
        let capacity = usize::try_from(self.size.min(max_bytes)).unwrap_or_default() + 1;
        let mut content = Vec::with_capacity(capacity);
        let read = self.file.take(max_bytes).read_to_end(&mut content);
        read.map(|_| content).map_err(|error| SkipReason::Unreadable(error.to_string()))
    }

    /// Reads the whole file, if it is not too large.
    pub(super) fn read(self, max_bytes: u64) -> Result<Vec<u8>, SkipReason> {
        if self.size > max_bytes {
            return Err(SkipReason::TooLarge(max_bytes));
        }
        // The file may have grown since.
        let content = self.beginning(max_bytes + 1)?;
        if content.len() as u64 > max_bytes { Err(SkipReason::TooLarge(max_bytes)) } else { Ok(content) }
    }
}

fn openat(
    dir: impl std::os::fd::AsFd,
    path: &Path,
    flags: OFlags,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    let resolve = resolve | ResolveFlags::NO_MAGICLINKS;
    // The project's own directory has an empty relative path.
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    for _ in 0..OPEN_TRIES {
        match openat2(dir.as_fd(), path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            opened => return opened,
        }
    }
    Err(Errno::AGAIN)
}

fn unreadable(errno: Errno) -> SkipReason {
    SkipReason::Unreadable(std::io::Error::from(errno).to_string())
}
