//! The errors of file operations, as precise as callers need them.

use std::io;

use rustix::io::Errno;
use thiserror::Error;

use super::{FileKind, RelPath};

/// Why a file operation failed. Paths are relative to the workspace.
#[derive(Debug, Error)]
pub enum FileError {
    /// The workspace itself does not exist. No other directory is ever used instead.
    #[error("the workspace cannot be opened: {source}")]
    Workspace {
        /// The system's error.
        source: io::Error,
    },
    /// No file has this path.
    #[error("`{path}` does not exist")]
    NotFound {
        /// The requested path.
        path: RelPath,
    },
    /// The path leads out of the workspace.
    #[error("`{path}` leads out of the workspace")]
    Outside {
        /// The requested path.
        path: RelPath,
    },
    /// A cycle of links, or a link that only the kernel itself can follow.
    #[error("`{path}` goes through a symbolic link that cannot be followed")]
    BadLink {
        /// The requested path.
        path: RelPath,
    },
    /// A link where none may be followed.
    #[error("`{path}` is or goes through a symbolic link, which is not followed for writing")]
    Link {
        /// The requested path.
        path: RelPath,
    },
    /// The file is not a regular one.
    #[error("`{path}` is a {kind}, not a regular file")]
    NotRegular {
        /// The requested path.
        path: RelPath,
        /// The kind that was found.
        kind: FileKind,
    },
    /// The path, or a part of it, is not a directory.
    #[error("`{path}` is not a directory, or goes through something that is not")]
    NotDirectory {
        /// The requested path.
        path: RelPath,
    },
    /// The file exceeds the limit of this operation.
    #[error("`{path}` has {bytes} bytes, more than the limit of {limit}")]
    TooLarge {
        /// The requested path.
        path: RelPath,
        /// The file's size, or as much of it as was read.
        bytes: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The system's file permissions forbid it.
    #[error("the system's file permissions do not allow this on `{path}`")]
    Denied {
        /// The requested path.
        path: RelPath,
    },
    /// The read filter refuses the path.
    #[error("`{path}` is not for you to see: {reason}")]
    Refused {
        /// The requested path.
        path: RelPath,
        /// The read filter's reason.
        reason: String,
    },
    /// The file, or its filesystem, is read-only.
    #[error("`{path}` is read-only")]
    ReadOnly {
        /// The requested path.
        path: RelPath,
    },
    /// A name that belongs to git.
    #[error("`{path}` belongs to git and is not written by file tools")]
    Protected {
        /// The requested path.
        path: RelPath,
    },
    /// The content is no longer what the caller expects.
    #[error("`{path}` was changed in the meantime")]
    Changed {
        /// The requested path.
        path: RelPath,
    },
    /// A name longer than the filesystem allows.
    #[error("a name in `{path}` is too long")]
    NameTooLong {
        /// The requested path.
        path: RelPath,
    },
    /// Directories of the path kept moving while the kernel resolved it.
    #[error("`{path}` keeps being moved; try again")]
    Unsettled {
        /// The requested path.
        path: RelPath,
    },
    /// The disk or the quota is full.
    #[error(
        "no space is left to write `{path}`, which is as it was; remove files that are not needed, then write it again"
    )]
    NoSpace {
        /// The requested path.
        path: RelPath,
    },
    /// A glob pattern that cannot be parsed.
    #[error("`{pattern}` is not a valid file pattern: {problem}")]
    BadGlob {
        /// The pattern, shortened if it is long.
        pattern: String,
        /// The parser's error.
        problem: String,
    },
    /// A regular expression that cannot be parsed.
    #[error("not a valid regular expression: {problem}")]
    BadRegex {
        /// The parser's error.
        problem: String,
    },
    /// The caller asked to stop.
    #[error("stopped before it was finished")]
    Stopped,
    /// Any other error of the system.
    #[error("`{path}`: {source}")]
    Io {
        /// The requested path.
        path: RelPath,
        /// The system's error.
        source: io::Error,
    },
}

impl FileError {
    /// Converts a kernel error about `path`.
    pub(super) fn of(path: &RelPath, errno: Errno) -> Self {
        let path = path.clone();
        match errno {
            Errno::NOENT => FileError::NotFound { path },
            Errno::XDEV => FileError::Outside { path },
            Errno::LOOP => FileError::BadLink { path },
            Errno::NOTDIR => FileError::NotDirectory { path },
            Errno::ISDIR => FileError::NotRegular { path, kind: FileKind::Directory },
            // Neither a socket nor a device without a driver can be opened.
            Errno::NXIO | Errno::NODEV => FileError::NotRegular { path, kind: FileKind::Device },
            Errno::ACCESS | Errno::PERM => FileError::Denied { path },
            Errno::ROFS => FileError::ReadOnly { path },
            Errno::NAMETOOLONG => FileError::NameTooLong { path },
            Errno::AGAIN => FileError::Unsettled { path },
            Errno::NOSPC | Errno::DQUOT => FileError::NoSpace { path },
            other => FileError::Io { path, source: other.into() },
        }
    }

    /// Converts an error of the standard library about `path`.
    pub(super) fn of_io(path: &RelPath, source: io::Error) -> Self {
        match Errno::from_io_error(&source) {
            Some(errno) => Self::of(path, errno),
            None => FileError::Io { path: path.clone(), source },
        }
    }

    /// Whether it only means that an entry vanished or is unreachable, which does not end a walk.
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
