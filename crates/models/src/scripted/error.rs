//! Scripts that cannot be used.

use std::io;

use thiserror::Error;

/// Why a script cannot be used. The text names the file, and the line where there is one.
#[derive(Debug, Error)]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("{file}: cannot read the script: {source}")]
    Unreadable {
        /// The file.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// The file is larger than a script may be.
    #[error("{file}: the script has more than the {max_bytes} bytes accepted")]
    TooLarge {
        /// The file.
        file: String,
        /// The limit.
        max_bytes: u64,
    },
    /// The file as a whole is not a script.
    #[error("{file}: {problem}")]
    NotAScript {
        /// The file.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// A line is wrong.
    #[error("{file}:{line}: {problem}")]
    Line {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// What is wrong, with the field's name.
        problem: String,
    },
}
