//! The kind of a directory entry.

use std::fmt;

use rustix::fs::FileType;

/// The kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A device, or a kind that this code does not know.
    Device,
}

impl FileKind {
    /// The kind in a file's mode.
    pub(super) fn of_mode(mode: u32) -> Self {
        Self::of_type(FileType::from_raw_mode(mode)).unwrap_or(FileKind::Device)
    }

    /// The kind in a directory entry. None if the filesystem does not report it.
    pub(super) fn of_type(kind: FileType) -> Option<Self> {
        match kind {
            FileType::RegularFile => Some(FileKind::Regular),
            FileType::Directory => Some(FileKind::Directory),
            FileType::Symlink => Some(FileKind::Link),
            FileType::Fifo => Some(FileKind::Pipe),
            FileType::Socket => Some(FileKind::Socket),
            FileType::CharacterDevice | FileType::BlockDevice => Some(FileKind::Device),
            FileType::Unknown => None,
        }
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileKind::Regular => "regular file",
            FileKind::Directory => "directory",
            FileKind::Link => "symbolic link",
            FileKind::Pipe => "named pipe",
            FileKind::Socket => "socket",
            FileKind::Device => "device",
        })
    }
}
