//! Resolves the working directory of a run.

use std::path::{Path, PathBuf};

use crate::error::{SetupError, Subject};

/// The canonical path of the named directory, or of the current one.
pub fn working_dir(dir: Option<PathBuf>, cwd: &Path) -> Result<String, SetupError> {
    let dir = dir.map_or_else(|| cwd.to_owned(), |dir| cwd.join(dir));
    let wrong = |problem: String| SetupError::about(Subject::Dir, format!("{}: {problem}", dir.display()));
    let whole = dir.canonicalize().map_err(|error| wrong(error.to_string()))?;
    if !whole.is_dir() {
        return Err(wrong("is not a directory".to_owned()));
    }
    whole.into_os_string().into_string().map_err(|_| wrong("is not UTF-8 text".to_owned()))
}
