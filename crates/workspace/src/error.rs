//! The errors of this crate. Their texts say what the user can do.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use posse_engine::ports::{ApplyError, WorkspaceError};
use rustix::io::Errno;
use thiserror::Error;

/// What git prints when the machine lacks a resource. Its language is fixed.
const SHORTAGES: [&str; 4] =
    ["Resource temporarily unavailable", "Cannot allocate memory", "out of memory", "Too many open files"];

/// What git prints when the disk or the quota is full.
const FULL: [&str; 3] = ["Out of diskspace", "No space left on device", "Disk quota exceeded"];

/// Why an operation on a workspace failed. Nothing was lost, and nothing is half done.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RepositoryError {
    /// No git program was found under this name.
    #[error("git was not found (looked for `{0}`); install git 2.45 or newer")]
    NoGit(String),
    /// Git exited with an error, or a signal ended it.
    #[error("git {command} failed{}: {stderr}", .code.map_or_else(String::new, |code| format!(" with code {code}")))]
    Git {
        /// The subcommand of git.
        command: String,
        /// `None` if a signal ended git.
        code: Option<i32>,
        /// What git printed on standard error, shortened.
        stderr: String,
    },
    /// Git exceeded its timeout and was killed.
    #[error(
        "git {command} did not end within {seconds} s and was killed; is the disk of {repository} in order?"
    )]
    TooLong {
        /// The subcommand of git.
        command: String,
        /// The repository that git ran on.
        repository: String,
        /// The timeout.
        seconds: u64,
    },
    /// An I/O operation failed.
    #[error("{doing} {path}: {error}")]
    Io {
        /// The operation as a participle: `reading`.
        doing: String,
        /// The path of the operation.
        path: String,
        /// The error of the operating system.
        error: String,
        /// Whether a resource was temporarily short.
        passing: bool,
    },
    /// The disk or the quota is full. Removing old runs is what frees space of Posse's own.
    #[error(
        "the disk that is mounted at {} is full ({error}); make space on it, for example by removing old \
         runs", .mount.display()
    )]
    Full {
        /// Where the disk is mounted.
        mount: PathBuf,
        /// The error of the operating system or of git.
        error: String,
    },
    /// Another process removed a directory that was in use.
    #[error("another process removed {} again and again while it was in use", .0.display())]
    Vanished(PathBuf),
    /// An overlay could not be mounted here.
    #[error("{0}")]
    NotMounted(String),
    /// The process that holds the mounts of workspaces was killed several times in a row.
    #[error("the process that mounts workspaces was killed")]
    HolderLost,
    /// The project is too large or has an unsupported kind. The text says what to do.
    #[error("{0}")]
    Unsupported(String),
    /// Another process held a lock longer than the timeout.
    #[error("another process has locked {} for more than {seconds} s, and may be suspended; `fuser` shows which one", .path.display())]
    Held {
        /// The lock file.
        path: PathBuf,
        /// The timeout.
        seconds: u64,
    },
    /// Something differs from what Posse wrote. The text says what.
    #[error("{0}")]
    Damaged(String),
}

impl RepositoryError {
    pub(crate) fn io(doing: &str, path: &Path, error: &io::Error) -> Self {
        // A reader that fails on the objects beneath it reports the cause, not itself.
        if let Some(cause) = error.get_ref().and_then(|cause| cause.downcast_ref::<Self>()) {
            return cause.clone();
        }
        let passing = error.raw_os_error().is_some_and(|code| {
            [Errno::AGAIN, Errno::NOMEM, Errno::INTR, Errno::MFILE, Errno::NFILE]
                .iter()
                .any(|errno| errno.raw_os_error() == code)
        });
        if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            return Self::Full { mount: mount_of(path), error: error.to_string() };
        }
        let (doing, path) = (doing.to_owned(), path.display().to_string());
        Self::Io { doing, path, error: error.to_string(), passing }
    }

    /// Whether the machine failed rather than the request: a helper was killed, or memory, processes or descriptors ran
    /// out. A retry may succeed.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Git { code: None, .. } | Self::HolderLost => true,
            Self::Git { stderr, .. } => SHORTAGES.iter().any(|shortage| stderr.contains(shortage)),
            Self::Io { passing, .. } => *passing,
            Self::NoGit(_)
            | Self::Full { .. }
            | Self::Vanished(_)
            | Self::NotMounted(_)
            | Self::TooLong { .. }
            | Self::Unsupported(_)
            | Self::Held { .. }
            | Self::Damaged(_) => false,
        }
    }

    /// The error for a git that was killed.
    pub(crate) fn killed(command: &str) -> Self {
        Self::Git { command: command.to_owned(), code: None, stderr: "it was killed".to_owned() }
    }

    pub(crate) fn git(repository: &Path, args: &[OsString], code: Option<i32>, stderr: String) -> Self {
        if let Some(full) = FULL.iter().find(|full| stderr.contains(**full)) {
            return Self::Full { mount: mount_of(repository), error: (*full).to_owned() };
        }
        let command = args.first().map(|arg| arg.to_string_lossy().into_owned()).unwrap_or_default();
        Self::Git { command, code, stderr }
    }
}

/// Where the disk of a path is mounted, by the device numbers of the directories above it: a user knows disks by that.
fn mount_of(path: &Path) -> PathBuf {
    let existing = path.ancestors().filter_map(|above| Some((above, above.symlink_metadata().ok()?.dev())));
    let mut existing = existing.peekable();
    let Some((_, disk)) = existing.peek().copied() else { return path.to_owned() };
    let same = existing.take_while(|(_, dev)| *dev == disk);
    same.last().map_or_else(|| path.to_owned(), |(above, _)| above.to_owned())
}

impl From<RepositoryError> for WorkspaceError {
    fn from(error: RepositoryError) -> Self {
        let text = error.to_string();
        match error {
            error if error.is_passing() => Self::Unavailable(text),
            RepositoryError::Full { .. } => Self::Full(text),
            RepositoryError::Held { .. } => Self::Held(text),
            RepositoryError::Damaged(_) => Self::Damaged(text),
            RepositoryError::NoGit(_)
            | RepositoryError::Vanished(_)
            | RepositoryError::NotMounted(_)
            | RepositoryError::Git { .. }
            | RepositoryError::TooLong { .. }
            | RepositoryError::Io { .. }
            | RepositoryError::HolderLost
            | RepositoryError::Unsupported(_) => Self::Unsupported(text),
        }
    }
}

impl From<RepositoryError> for ApplyError {
    fn from(error: RepositoryError) -> Self {
        Self::Workspace(error.into())
    }
}
