//! What can go wrong with workspaces, in words that say what to do.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

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
    /// The machine said no.
    #[error("{doing} {path}: {error}")]
    Io {
        /// What was being done.
        doing: String,
        /// With what.
        path: String,
        /// What the machine said.
        error: String,
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
        Self::Io { doing: doing.to_owned(), path: path.display().to_string(), error: error.to_string() }
    }

    pub(crate) fn git(args: &[OsString], code: Option<i32>, stderr: String) -> Self {
        let command = args.first().map(|arg| arg.to_string_lossy().into_owned()).unwrap_or_default();
        Self::Git { command, code, stderr }
    }
}
