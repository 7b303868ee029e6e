//! Finds a project's instructions for agents, from a directory upwards.

use std::path::{Path, PathBuf};

use super::reach::SearchScope;
use super::{SkipReason, SkippedPath};

/// The text of a found file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instructions {
    /// The path of the file.
    pub path: PathBuf,
    /// The content of the file.
    pub text: String,
}

/// The text file of this name that is nearest to `dir`, in it or above it, up to `root`, which contains it. Only the
/// first `max_bytes` are read. An unusable file is reported, and hides those above it, because its author meant it to
/// apply.
pub fn nearest_file(
    dir: &Path,
    root: &Path,
    name: &str,
    max_bytes: u64,
) -> Result<Option<Instructions>, SkippedPath> {
    let skipped = |path: PathBuf, why| SkippedPath { place: 0, path, why };
    let reach = SearchScope::new(Some(root)).map_err(|why| skipped(root.to_owned(), why))?;
    for dir in dir.ancestors().take_while(|dir| dir.starts_with(root)) {
        let path = dir.join(name);
        let read =
            reach.open_file(&path).and_then(|file| file.map(|file| file.beginning(max_bytes)).transpose());
        let text = match read {
            Ok(None) => continue,
            Ok(Some(bytes)) => text_of(bytes),
            Err(why) => Err(why),
        };
        return match text {
            Ok(text) => Ok(Some(Instructions { path, text })),
            Err(why) => Err(skipped(path, why)),
        };
    }
    Ok(None)
}

/// Decodes the text. The size limit may have cut its last character.
fn text_of(mut bytes: Vec<u8>) -> Result<String, SkipReason> {
    if let Err(error) = std::str::from_utf8(&bytes)
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
    String::from_utf8(bytes).map_err(|_| SkipReason::Unreadable("it is not UTF-8 text".to_owned()))
}
