//! What is looked for from a directory upwards: a project's instructions for agents.

use std::path::{Path, PathBuf};

use super::reach::Reach;
use super::{PassedOver, SkipReason};

/// A text that was found, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instructions {
    /// Where it is.
    pub path: PathBuf,
    /// What it says.
    pub text: String,
}

/// The text file of this name that is nearest to `dir`, in it or above it, up to `root`, in which it lies. Of a longer
/// one the first `max_bytes` count. One that
/// cannot be used is told, and hides those above it: it was meant to count.
pub fn nearest_file(
    dir: &Path,
    root: &Path,
    name: &str,
    max_bytes: u64,
) -> Result<Option<Instructions>, PassedOver> {
    let passed_over = |path: PathBuf, why| PassedOver { place: 0, path, why };
    let reach = Reach::new(Some(root)).map_err(|why| passed_over(root.to_owned(), why))?;
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
            Err(why) => Err(passed_over(path, why)),
        };
    }
    Ok(None)
}

/// The text; the limit may have cut its last letter in two.
fn text_of(mut bytes: Vec<u8>) -> Result<String, SkipReason> {
    if let Err(error) = std::str::from_utf8(&bytes)
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
    String::from_utf8(bytes).map_err(|_| SkipReason::Unreadable("it is not UTF-8 text".to_owned()))
}
