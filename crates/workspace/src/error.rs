//! What can go wrong with workspaces, in words that say what to do.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use thiserror::Error;

/// What git says when the machine is short of something; its language is fixed.
const SHORTAGES: [&str; 4] =
    ["Resource temporarily unavailable", "Cannot allocate memory", "out of memory", "Too many open files"];

/// Why something about a workspace could not be done. Nothing was lost, and nothing is half done.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WorkspaceError {
    /// There is no git.
    #[error("git was not found (looked for `{0}`); install git 2.45 or newer")]
    NoGit(String),
    /// Git said no.
    #[error("git {command} failed{}: {stderr}", .code.map_or_else(String::new, |code| format!(" with code {code}")))]
    Git {
        /// The subcommand.
        command: String,
        /// Its exit code; none if a signal ended it.
        code: Option<i32>,
        /// What it said.
        stderr: String,
    },
    /// Git did not end, and was killed.
    #[error(
        "git {command} did not end within {seconds} s and was killed; is the disk of {repository} in order?"
    )]
    TooLong {
        /// The subcommand.
        command: String,
        /// Where.
        repository: String,
        /// How long it was waited for.
        seconds: u64,
    },
    /// The machine said no.
    #[error("{doing} {path}: {error}")]
    Io {
        /// What was being done.
        doing: String,
        /// With what.
        path: String,
        /// What the machine said.
        error: String,
        /// Whether it was short of something just then.
        passing: bool,
    },
    /// The project is of a kind that is not supported, or too large; the text says what to do.
    #[error("{0}")]
    Unsupported(String),
    /// Another process has had a lock for so long that it is not waited for.
    #[error("another process has held {} for more than {seconds} s and may be stopped; `fuser` tells which one", .path.display())]
    Held {
        /// The lock.
        path: PathBuf,
        /// How long it was waited for.
        seconds: u64,
    },
    /// Something is not as Posse left it; the text says what.
    #[error("{0}")]
    Damaged(String),
}

impl WorkspaceError {
    pub(crate) fn io(doing: &str, path: &Path, error: &io::Error) -> Self {
        let passing = error.raw_os_error().is_some_and(|code| {
            [Errno::AGAIN, Errno::NOMEM, Errno::INTR, Errno::MFILE, Errno::NFILE]
                .iter()
                .any(|errno| errno.raw_os_error() == code)
        });
        let (doing, path) = (doing.to_owned(), path.display().to_string());
        Self::Io { doing, path, error: error.to_string(), passing }
    }

    /// Whether the machine failed, and not what was asked of it: a helper was killed, or memory, processes or descriptors ran
    /// out. The same may be done when it is tried again.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Git { code: None, .. } => true,
            Self::Git { stderr, .. } => SHORTAGES.iter().any(|shortage| stderr.contains(shortage)),
            Self::Io { passing, .. } => *passing,
            Self::NoGit(_)
            | Self::TooLong { .. }
            | Self::Unsupported(_)
            | Self::Held { .. }
            | Self::Damaged(_) => false,
        }
    }

    /// A git that was killed.
    pub(crate) fn killed(command: &str) -> Self {
        Self::Git { command: command.to_owned(), code: None, stderr: "it was killed".to_owned() }
    }

    pub(crate) fn git(args: &[OsString], code: Option<i32>, stderr: String) -> Self {
        let command = args.first().map(|arg| arg.to_string_lossy().into_owned()).unwrap_or_default();
        Self::Git { command, code, stderr }
    }
}
