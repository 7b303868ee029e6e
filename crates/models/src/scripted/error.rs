//! The errors of scripts that cannot be used.

use std::io;

use thiserror::Error;

/// Why a script cannot be used. The text names the file, and the line if there is one.
#[derive(Debug, Error)]
pub enum ScriptError {
    #[error("{file}: cannot read the script: {source}")]
    Unreadable { file: String, source: io::Error },
    #[error("{file}: the script has more than the {max_bytes} bytes accepted")]
    TooLarge { file: String, max_bytes: u64 },
    #[error("{file}: {problem}")]
    NotAScript { file: String, problem: String },
    #[error("{file}:{line}: {problem}")]
    Line {
        file: String,
        /// Counted from 1.
        line: u64,
        /// The problem, with the field's name.
        problem: String,
    },
}
