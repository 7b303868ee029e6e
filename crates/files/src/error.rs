//! Why a file operation did not work, as precisely as the caller can use it.

use std::io;

use rustix::io::Errno;
use thiserror::Error;

use super::{FileKind, RelPath};

/// Why a file operation did not work. Paths are relative to the workspace.
#[derive(Debug, Error)]
pub enum FileError {
    /// The workspace itself is not there. Never answered with another directory.
    #[error("the workspace cannot be opened: {source}")]
    Workspace {
        /// What the system said.
        source: io::Error,
    },
    /// Nothing of that name.
    #[error("`{path}` does not exist")]
    NotFound {
        /// The path asked for.
        path: RelPath,
    },
    /// The path leads out of the workspace.
    #[error("`{path}` leads out of the workspace")]
    Outside {
        /// The path asked for.
        path: RelPath,
    },
    /// Links that go round in circles, or one that only the kernel itself can follow.
    #[error("`{path}` goes through a symbolic link that cannot be followed")]
    BadLink {
        /// The path asked for.
        path: RelPath,
    },
    /// A link where none is followed.
    #[error("`{path}` is or goes through a symbolic link, which is not followed for writing")]
    Link {
        /// The path asked for.
        path: RelPath,
    },
    /// Not a regular file.
    #[error("`{path}` is a {kind}, not a regular file")]
    NotRegular {
        /// The path asked for.
        path: RelPath,
        /// What it is.
        kind: FileKind,
    },
    /// Not a directory, or a part of the path is not.
    #[error("`{path}` is not a directory, or goes through something that is not")]
    NotDirectory {
        /// The path asked for.
        path: RelPath,
    },
    /// Larger than this operation takes.
    #[error("`{path}` has {bytes} bytes, more than the limit of {limit}")]
    TooLarge {
        /// The path asked for.
        path: RelPath,
        /// Its size, or as much of it as was seen.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The system's own permissions forbid it.
    #[error("the system's file permissions do not allow this on `{path}`")]
    Denied {
        /// The path asked for.
        path: RelPath,
    },
    /// The gate does not let it pass.
    #[error("`{path}` is not for you to see: {reason}")]
    Refused {
        /// The path asked for.
        path: RelPath,
        /// What the gate said.
        reason: String,
    },
    /// Nobody may write it.
    #[error("`{path}` is read-only")]
    ReadOnly {
        /// The path asked for.
        path: RelPath,
    },
    /// A name that belongs to git.
    #[error("`{path}` belongs to git and is not written by file tools")]
    Protected {
        /// The path asked for.
        path: RelPath,
    },
    /// The content is not what the caller expected any more.
    #[error("`{path}` was changed in the meantime")]
    Changed {
        /// The path asked for.
        path: RelPath,
    },
    /// A name longer than the filesystem takes.
    #[error("a name in `{path}` is too long")]
    NameTooLong {
        /// The path asked for.
        path: RelPath,
    },
    /// Directories on the way kept moving while the kernel resolved the path.
    #[error("`{path}` keeps being moved; try again")]
    Unsettled {
        /// The path asked for.
        path: RelPath,
    },
    /// The disk, or the quota, is full.
    #[error("no space is left to write `{path}`")]
    NoSpace {
        /// The path asked for.
        path: RelPath,
    },
    /// A file pattern that cannot be read.
    #[error("`{pattern}` is not a valid file pattern: {problem}")]
    BadGlob {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A regular expression that cannot be read.
    #[error("not a valid regular expression: {problem}")]
    BadRegex {
        /// What is wrong with it.
        problem: String,
    },
    /// Somebody asked to stop.
    #[error("stopped before it was finished")]
    Stopped,
    /// Anything else the system says.
    #[error("`{path}`: {source}")]
    Io {
        /// The path asked for.
        path: RelPath,
        /// What the system said.
        source: io::Error,
    },
}

impl FileError {
    /// What an error of the kernel means for `path`.
    pub(super) fn of(path: &RelPath, errno: Errno) -> Self {
        let path = path.clone();
        match errno {
            Errno::NOENT => FileError::NotFound { path },
            Errno::XDEV => FileError::Outside { path },
            Errno::LOOP => FileError::BadLink { path },
            Errno::NOTDIR => FileError::NotDirectory { path },
            Errno::ISDIR => FileError::NotRegular { path, kind: FileKind::Directory },
            // A socket cannot be opened at all, nor can a device without a driver.
            Errno::NXIO | Errno::NODEV => FileError::NotRegular { path, kind: FileKind::Device },
            Errno::ACCESS | Errno::PERM => FileError::Denied { path },
            Errno::ROFS => FileError::ReadOnly { path },
            Errno::NAMETOOLONG => FileError::NameTooLong { path },
            Errno::AGAIN => FileError::Unsettled { path },
            Errno::NOSPC | Errno::DQUOT => FileError::NoSpace { path },
            other => FileError::Io { path, source: other.into() },
        }
    }

    /// The same for an error of the standard library.
    pub(super) fn of_io(path: &RelPath, source: io::Error) -> Self {
        match Errno::from_io_error(&source) {
            Some(errno) => Self::of(path, errno),
            None => FileError::Io { path: path.clone(), source },
        }
    }

    /// Whether it only says that something is not there any more, or not reachable: no reason to end a walk.
    pub(super) fn is_absence(&self) -> bool {
        use FileError::{
            BadLink, Denied, Link, NameTooLong, NotDirectory, NotFound, NotRegular, Outside, Unsettled,
        };
        matches!(
            self,
            NotFound { .. }
                | Outside { .. }
                | BadLink { .. }
                | Link { .. }
                | NotRegular { .. }
                | NotDirectory { .. }
                | Denied { .. }
                | NameTooLong { .. }
                | Unsettled { .. }
        )
    }
}
